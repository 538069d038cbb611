"""The contents of a model card."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rankwise import AutoRanker, PairwiseGP, RankingSearchCV, __version__
from rankwise.cli.contents import data_facts, model_facts
from rankwise.cli.data_options import in_one_line, scores_of
from rankwise.errors import DataError, ExportError, ParameterError
from rankwise.estimators.ranker_rows import scales_within_queries
from rankwise.export import feature_weights
from rankwise.graph import QueryGroups
from rankwise.inspection import explain_ranking, feature_effects
from rankwise.metric_names import described, metric_label
from rankwise.metrics import RankingEvaluation, evaluate_ranking
from rankwise.model_selection import permutation_importance
from rankwise.model_selection.meta_rankers import EQUAL, clear_errors
from rankwise.persistence import ModelFile
from rankwise.plots import plot_coefficients, plot_importance
from rankwise.report import Column, Figure, Page, Section, Table, Text
from rankwise.routing import last_step
from rankwise.tables import plural

TOP = 20  # features in the picture
CURVES = 6  # features whose curves are drawn
MOST_REFITTED = 20_000  # rows that the model is fitted to again, for bands
FEW_QUERIES = 30  # below which intervals are rough


@dataclass(frozen=True, eq=False)
class CardRows:
    """Rows with labels, and the name of their file."""

    source: str
    X: Any
    y: Any
    qid: Any


def card_page(
    file: ModelFile, name: str, rows: CardRows | None, names: Sequence[str] | None
) -> Page:
    """All sections of the card."""
    model, ranker, evaluation = file.model, last_step(file.model), None
    n_features, on = getattr(model, "n_features_in_", None), ""
    if hasattr(ranker, "sides_"):
        on = f" on a table of {ranker.n_rows_} rows and {ranker.n_columns_} columns"
    elif n_features is not None:  # there are none of named items
        on = f" on {plural(n_features, 'feature')}"
    summary = f"`{type(ranker).__name__}`{on}."
    if rows is not None:
        evaluation = evaluate_ranking(rows.y, scores_of(file, rows), rows.qid)
        summary += f" {_headline(evaluation, rows)}."
    return Page(
        f"Model card: {name}",
        summary,
        [
            Section("Model", _model(file)),
            Section("Data", _data(ranker, rows)),
            Section("Held-out scores", _scores(model, rows, evaluation)),
            Section("Features", _features(model, rows, names)),
            Section("Limits", [Text(limit) for limit in _limits(model, rows)]),
        ],
        footer=f"Made by `rankwise card`, rankwise {__version__}.",
    )


def _headline(evaluation: RankingEvaluation, rows: CardRows) -> str:
    name = "NDCG@10" if "NDCG@10" in evaluation.means else next(iter(evaluation.means))
    mean, low, high = _interval(evaluation, name)
    between = "" if low is None else f" (95% interval {low:.3f} to {high:.3f})"
    return f"{described(name)} on {rows.source}: {mean:.3f}{between}"


def _interval(evaluation: RankingEvaluation, name: str) -> tuple[float, float | None, float | None]:
    """The mean of a metric, and its 95% interval by Student's t.

    None for a single query, or if all have the same value, which does not show their spread.
    """
    values, mean = evaluation.per_query[name], evaluation.means[name]
    error = float(values.standard_error())
    if not error > EQUAL * abs(mean):
        return mean, None, None
    reach = clear_errors(len(values)) * error
    least = -1.0 if name.startswith("Kendall") else 0.0
    return mean, max(mean - reach, least), min(mean + reach, 1.0)


def _model(file: ModelFile) -> list[Any]:
    facts = model_facts(file)
    parameters = tuple((key, str(value)) for key, value in facts.pop("parameters").items())
    return [
        Text(f"`{in_one_line(getattr(file.model, 'best_estimator_', file.model))}`"),
        _facts_table(facts),
        Table((Column("parameter", ""), Column("value", "")), parameters),
    ]


def _facts_table(facts: dict[str, Any], title: str = "") -> Table:
    rows = []
    for name, value in facts.items():
        if isinstance(value, dict):
            value = ", ".join(f"{key}: {each}" for key, each in value.items())
        rows.append((name, str(value)))
    return Table((Column("", ""), Column("", "")), tuple(rows), title)


def _data(ranker: Any, rows: CardRows | None) -> list[Any]:
    n_queries = getattr(ranker, "n_queries_", None)
    n_comparisons = getattr(ranker, "n_comparisons_", None)
    words = "The model file does not contain the number of queries."
    if hasattr(ranker, "sides_"):
        words = (
            f"Fitted to {plural(ranker.n_cells_, 'cell')} of a table of {ranker.n_rows_} rows and "
            f"{ranker.n_columns_} columns, to score new {ranker.for_new} "
            f"(for_new={ranker.for_new!r})."
        )
    elif n_queries == 1:
        words = "Fitted to one ranking of all rows."
    elif n_queries is not None:
        most = getattr(ranker, "max_query_rows_", None)
        size = "" if most is None else f" of at most {plural(most, 'row')}"
        words = f"Fitted to {plural(n_queries, 'query')}{size}."
    if n_comparisons is not None:
        words += f" Fitted to {plural(n_comparisons, 'comparison')} of two rows."
    scored = [] if rows is None else [_facts_table(data_facts(rows), f"Scored on {rows.source}")]
    return [Text(words), *scored]


def _scores(model: Any, rows: CardRows | None, evaluation: RankingEvaluation | None) -> list[Any]:
    found: list[Any] = []
    if evaluation is not None and rows is not None:
        columns = Column("metric", ""), *map(Column, ("mean", "low", "high", "queries"))
        values = tuple(
            (described(name), *_interval(evaluation, name), len(evaluation.per_query[name]))
            for name in evaluation.means
        )
        note = (
            "low, high: 95% interval of the mean over queries. If the model was fitted to these "
            "rows, the scores are too high."
        )
        found.append(Table(columns, values, f"On {rows.source}", note))
    found += [Text(words) for words in _remembered(model)]
    baselines = getattr(last_step(model), "baselines_", None)  # of an AutoRanker
    if baselines is not None:
        found.append(replace(baselines.to_table(), title="Beside simple orders, in training"))
    return found or [Text("None: the model file has no hold-outs, and no rows were given.")]


def _remembered(model: Any) -> list[str]:
    """The results of hold-outs in training that the model file contains."""
    ranker, curve = last_step(model), getattr(last_step(model), "alpha_curve_", None)
    optimistic = "As the best of several, it is optimistic."
    if isinstance(model, RankingSearchCV) and hasattr(model, "best_score_"):
        scoring = getattr(model.scorer_, "scoring", "score")
        metric = metric_label(scoring) if isinstance(scoring, str) else "score"
        best = f"{metric} of held-out rows was {abs(model.best_score_):.4f}"
        return [f"In training, {best} with the best setting of the search. {optimistic}"]
    if isinstance(ranker, AutoRanker):
        return [f"Expected on new queries, by hold-outs in training: {ranker.score_estimate_}."]
    if curve is None:
        return []
    k = curve.best_index
    spread = "" if np.isnan(curve.standard_error[k]) else f" ± {curve.standard_error[k]:.4f}"
    best = f"{metric_label(curve.metric)} {curve.score[k]:.4f}{spread} (standard error)"
    return [f"In training, alpha was chosen by hold-outs: {best} at the best alpha. {optimistic}"]


def _features(model: Any, rows: CardRows | None, names: Sequence[str] | None) -> list[Any]:
    """Weights of a linear model, or importance for the order of rows; with a picture."""
    if hasattr(last_step(model), "sides_"):
        return _pairs_of_features(last_step(model))
    found, X = _weights(model, rows, names)
    if found is not None:
        labels: Sequence[str]
        labels, weights, units = found
        caption = f"Weights of {units}."
        if rows is not None and units == "features as they are":
            dense = X.toarray() if hasattr(X, "toarray") else X
            weights = weights * np.nanstd(np.asarray(dense, dtype=np.float64), axis=0)
            caption = (
                f"The change of the score for one standard deviation of each feature in "
                f"{rows.source}."
            )
        ax = plot_coefficients(weights, names=labels, top=TOP)
        heading = "weight"
    elif rows is None:
        return [Text("The model is not linear. Give --rows for the importance of its features.")]
    else:
        result = permutation_importance(model, rows.X, rows.y, qid=rows.qid, random_state=0)
        labels = result.names if names is None else tuple(names)
        weights, heading = result.importance, f"rise in {metric_label(result.metric)}"
        caption = (
            f"How much worse the order of {rows.source} gets if the values of a feature are "
            "permuted within queries, with 95% intervals."
        )
        ax = plot_importance(result, top=TOP)
    order = np.argsort(-(weights if found is None else np.abs(weights)), kind="stable")[:TOP]
    table = Table(
        (Column("feature", ""), Column(heading, ".4g")),
        tuple((str(labels[k]), float(weights[k])) for k in order),
        note=f"The {len(order)} largest of {len(weights):,}." if len(weights) > TOP else "",
    )
    best = ", ".join(str(labels[k]) for k in order[:3])
    bars = [Figure.of(ax, f"Bars of features. The largest: {best}.", caption), table]
    if rows is None:
        return bars
    names = None if names is None else [str(name) for name in names]
    curves = [] if found is not None else _curves(model, rows, names, order[:CURVES].tolist())
    return [*bars, *curves, *_example(model, rows, names)]


def _curves(
    model: Any, rows: CardRows, names: Sequence[str] | None, features: Sequence[int]
) -> list[Any]:
    """The score along the most important features, with bands from fits without some queries."""
    ranker = last_step(model)  # a mean of rankers takes long to fit
    refits = not (hasattr(ranker, "n_comparisons_") or hasattr(ranker, "mean_ranker_"))
    y = rows.y if refits and len(rows.y) <= MOST_REFITTED else None
    chosen: dict[str, Any] = {"qid": rows.qid, "features": features, "names": names}
    try:
        try:
            found = feature_effects(model, rows.X, y, **chosen)
        except ParameterError:  # such as more landmarks than rows
            found = feature_effects(model, rows.X, **chosen)
    except DataError as error:
        return [Text(f"There are no curves of features. {error}")]
    caption = "The mean change of the score if all rows get the same value of a feature"
    if found.within_queries:
        caption += ", from the smallest value of a query (0) to the largest one (1)"
    if found.n_splits:
        caption += (
            f". Bands of 95% are from {found.n_splits} fits to {rows.source}, each without a part "
            "of its queries"
        )
    alt = f"Curves of {', '.join(one.name for one in found.effects)}."
    return [Figure.of(found.plot(top=CURVES), alt, f"{caption}.")]


def _example(model: Any, rows: CardRows, names: Sequence[str] | None) -> list[Any]:
    """Why the first row of a query is above the second."""
    query = None if rows.qid is None else QueryGroups.of(rows.qid, len(rows.y)).names[0]
    try:
        found = explain_ranking(model, rows.X, qid=rows.qid, query=query, top=2, names=names)
    except DataError as error:
        return [Text(f"There is no explanation of a pair of rows. {error}")]
    if not found.pairs:
        return []
    of = "" if query is None else f" of query {query}"
    reason = found.pairs[0].sentence
    return [
        Text(f"An example, the first row{of} against the second: {reason[0].lower()}{reason[1:]}")
    ]


def _pairs_of_features(ranker: Any) -> list[Any]:
    """The largest weights of pairs of features, if a ranker of tables is linear on both sides."""
    sides = ranker.sides_
    if not all(side.linear for side in sides):
        return [Text("The score of a cell depends on its similarity to the training cells.")]
    names = []
    for side in sides:
        view = side.views[0]
        known = view.names or [f"{side.name} feature {k}" for k in range(1, view.n_features + 1)]
        names.append([*known, *["(any)"] * view.constant])
    order = np.argsort(-np.abs(ranker.coef_), axis=None, kind="stable")[:TOP]
    pairs = zip(*np.unravel_index(order, ranker.coef_.shape), strict=True)
    found = tuple((names[0][i], names[1][j], float(ranker.coef_[i, j])) for i, j in pairs)
    columns = Column("of the row", ""), Column("of the column", ""), Column("weight", ".4g")
    return [Table(columns, found, "Pairs of features", "Features are standardized.")]


def _weights(model: Any, rows: CardRows | None, names: Sequence[str] | None) -> tuple[Any, Any]:
    """The weights of a linear model, and the rows that they belong to.

    For a pipeline with encoders, these are the weights of the categories.
    """
    X = None if rows is None else rows.X
    try:
        found = feature_weights(model, features=names)
        if found is None and hasattr(model, "steps") and len(model.steps) > 1:
            before = model[:-1]
            names = [str(name) for name in before.get_feature_names_out()]
            found = feature_weights(model[-1], features=names)
            if found is not None and X is not None:
                X = before.transform(X)
    except (AttributeError, ExportError, ValueError):  # steps without names, or no export
        return None, X
    return found, X


def _limits(model: Any, rows: CardRows | None) -> list[str]:
    """What readers of the card should not expect of the model."""
    ranker = last_step(model)
    source, n_queries, alone = "", 0, 0
    if rows is not None and rows.qid is not None:
        sizes = QueryGroups.of(rows.qid, len(rows.y)).sizes
        source, n_queries, alone = rows.source, len(sizes), int((sizes == 1).sum())
    has_queries = getattr(ranker, "n_queries_", 1) > 1
    together = scales_within_queries(model) or hasattr(ranker, "mean_ranker_")
    ranged = getattr(ranker, "feature_range_", None) is not None
    rough = 0 < n_queries < FEW_QUERIES
    if hasattr(ranker, "sides_"):
        cells = {"columns": "the columns of a row", "rows": "the rows of a column", "all": "cells"}
        return [
            f"Scores order {cells[ranker.compare]}. They are neither probabilities nor grades.",
            "The held-out scores above are from training. New data may differ.",
        ]
    limits = [
        (has_queries, "Scores order the rows of a query, and do not compare between queries."),
        (not has_queries, "Scores order rows. They are neither probabilities nor grades."),
        (together, "The score of a row depends on the other rows of its query: all rows of a query "
         "must be scored together."),
        (ranged, "Outside of the range of the training rows, the model extrapolates; `predict` "
         "warns of rows that are far outside."),
        (rough, f"{source} has only {plural(n_queries, 'query')}: the intervals are rough."),
        (alone, f"{plural(alone, 'query')} of {source} has a single row."),
        (rows is None, "The scores above are from training. New queries may differ."),
        (isinstance(ranker, PairwiseGP), "Standard deviations of single scores include the level "
         "of all scores, which comparisons do not determine: use `contrast=\"mean\"` for "
         "intervals."),
        (True, "Weights and importance describe the model. They do not predict the effect of "
         "changing a feature."),
    ]  # fmt: skip
    return [words for holds, words in limits if holds]
