"""Linear models with named features, for search engines; and models distilled from others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from rankwise.backends.arrays import Array, is_sparse, to_host
from rankwise.boosted.boosted_ranker import BoostedOptions, BoostedRanker
from rankwise.data.table_files import listed
from rankwise.errors import DataError, ExportError, warn
from rankwise.estimators.rankrls import RankRLS
from rankwise.export._endings import ModelStages, TreeScores, read_stages
from rankwise.export._stages import FillMissing, WithinQuery, every_stage, linear_of
from rankwise.graph import QueryGroups
from rankwise.graph.query_groups import columns_of
from rankwise.metric_names import are_grades
from rankwise.metrics import disagreement_error, ndcg
from rankwise.model_selection.hold_outs import k_fold, leave_query_out
from rankwise.model_selection.meta_rankers import (
    PairedDifference,
    inner_model,
    is_within_queries,
)
from rankwise.parameters import Choice, check_value, monotone_signs
from rankwise.preprocessing.table_encoder import encoder_of
from rankwise.routing import last_step, predict_with_queries
from rankwise.tables import plural

FOLDS = 5  # of the rows of one global ranking, and of queries for trees
MOST_TREES = 500  # that a model is distilled into
CUTOFF = 10  # of NDCG


@dataclass(frozen=True, eq=False, repr=False)
class LinearModel:
    """score(x) = sum_j weights_j x_j + constant, with a name for each feature.

    Attributes
    ----------
    names : tuple of str
    weights : ndarray of shape (n_features,)
        Of the features as they are: scalers and selections are folded in.
    constant : float
    missing : dict of str to float
        The value that replaces a missing value, in the units of the feature, where the model takes
        missing values. 0 for features without weight.

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.export import linear_model
    >>> X = [[1.0, 0.0], [2.0, 5.0], [3.0, 4.0]]
    >>> model = linear_model(RankRLS(0.1).fit(X, [0, 1, 2]), features=["votes", "year"])
    >>> model
    <LinearModel of 2 features>
    >>> int(model.scores(X).argmax())
    2
    """

    names: tuple[str, ...]
    weights: Array
    constant: float
    missing: dict[str, float]

    def __repr__(self) -> str:
        return f"<LinearModel of {plural(len(self.names), 'feature')}>"

    def scores(self, X: Any) -> Array:
        """The scores of rows.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        rows = np.asarray(X, dtype=np.float64)
        if self.missing:
            fill = np.array([self.missing.get(name, np.nan) for name in self.names])
            rows = np.where(np.isnan(rows), fill, rows)
        return np.asarray(rows @ self.weights + self.constant)


def linear_model(model: Any, *, features: Sequence[str] | None = None) -> LinearModel:
    """A fitted model as named weights: scalers, selections and a linear ranker in one.

    Parameters
    ----------
    model : estimator
        A fitted linear ranker, a pipeline or a search. RankRLS, RLS, RankSVM, SparseRankRLS,
        KPCRank and PairwiseGP with a linear kernel are linear, and so is a MeanRanker of them for
        one global ranking.
    features : sequence of str, optional
        Names of the features. None: the names that the model was fitted with, or f1, f2, ...

    Returns
    -------
    LinearModel

    Raises
    ------
    ExportError
        If the model is not linear; the message explains why.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from rankwise import RankRLS
    >>> from rankwise.export import linear_model
    >>> X, y = [[1.0, 0.0], [2.0, 5.0], [3.0, 4.0]], [0, 1, 2]
    >>> pipeline = make_pipeline(StandardScaler(), RankRLS(0.1)).fit(X, y)
    >>> folded = linear_model(pipeline, features=["votes", "year"])
    >>> folded.names
    ('votes', 'year')
    >>> bool(abs(folded.scores(X) - pipeline.predict(X)).max() < 1e-12)
    True
    """
    stages = read_stages(model)
    return fold(stages, feature_names(stages, features), "This form", model)


def feature_weights(
    model: Any, *, features: Sequence[str] | None = None
) -> tuple[tuple[str, ...], Array, str] | None:
    """The weight of each feature of a linear model, for people to read.

    Parameters
    ----------
    model : estimator
    features : sequence of str, optional
        As for `linear_model`.

    Returns
    -------
    names : tuple of str
    weights : ndarray of shape (n_features,)
    units : str
        What the weights belong to: the features themselves, or features scaled within queries.
        Instead of all three, None if the model is not linear, or has several outputs.

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.export import feature_weights
    >>> ranker = RankRLS(1.0, scale="query-minmax").fit([[0.0], [2.0]], [0, 1], qid=[1, 1])
    >>> feature_weights(ranker)[2]
    'features scaled within queries (query-minmax)'
    """
    read = read_stages(model)
    names = feature_names(read, features)
    units, stages = "features as they are", list(read.stages)
    if isinstance(stages[0], WithinQuery):
        units = f"features scaled within queries ({stages.pop(0).name})"
    try:
        linear = linear_of(stages)
    except ExportError:
        return None
    if linear.weights.shape[1] != 1:
        return None
    return names, linear.weights[:, 0], units


def fold(
    stages: ModelStages,
    names: tuple[str, ...],
    whose: str,
    model: Any,
    *,
    takes_trees: bool = False,
) -> LinearModel:
    """The linear model of stages; `whose` is the target, for errors about other models."""
    refuse_encoded(whose, model)
    for stage in every_stage(stages.stages):
        if isinstance(stage, FillMissing) and not np.isnan(stage.missing):
            raise ExportError(
                f"{whose} has one weight for each feature, and this model replaces the number "
                f"{stage.missing:g} by others (SimpleImputer). Replace it before the rows reach "
                "the model, use NaN for missing values, or export it to ONNX."
            )
    try:
        linear = linear_of(stages.stages)
    except ExportError as error:
        name, or_trees = type(last_step(model)).__name__, " or trees" if takes_trees else ""
        if takes_trees and isinstance(stages.stages[-1], TreeScores):
            raise ExportError(behind_steps(whose, name)) from None
        raise ExportError(
            f"{whose} takes a linear model{or_trees}, and this {name} is not linear: {error}. "
            'Export it to ONNX, fit a linear ranker with scale="standard", or distil it into a '
            f"linear model{or_trees} (rankwise.export.distil)."
        ) from None
    if linear.weights.shape[1] != 1:
        raise ExportError(
            f"{whose} takes a model with one score per row: this one has {linear.weights.shape[1]} "
            "outputs. Fit a model to each column of y, or export it to ONNX."
        )
    weights = linear.weights[:, 0]
    if not np.isfinite(weights).all():
        raise ExportError("The model has weights that are not finite numbers.")
    missing = _fill_values(whose, names, weights, linear.missing[:, 0])
    return LinearModel(names, weights, float(linear.constant[0]), missing)


def _fill_values(
    whose: str, names: tuple[str, ...], weights: Array, missing: Array
) -> dict[str, float]:
    """The values in place of missing ones, from what a missing value adds to the score."""
    found = {}
    for name, weight, added in zip(names, weights.tolist(), missing.tolist(), strict=True):
        if np.isnan(added):
            continue
        if weight == 0.0 and added != 0.0:
            raise ExportError(
                f"{whose} has one weight for each feature, and in this model the weight of {name} "
                f"is 0, but a missing {name} adds {added:g} to the score. Use {name} in one step "
                "only when you fit the model, or export it to ONNX."
            )
        value = added / weight if weight else 0.0
        found[name] = float(f"{value:.15g}")  # 110.0, where rounding errors make 110.00000000000001
    return found


def refuse_encoded(whose: str, model: Any) -> None:
    """Refuse a model that makes features of text or dates: distilling it would not help."""
    encoder = encoder_of(model)
    kinds = {} if encoder is None else encoder.kinds_
    others = [name for name, kind in kinds.items() if kind != "number"]
    if others:
        raise ExportError(
            f"{whose} takes features that are numbers, and this {type(last_step(model)).__name__} "
            f"makes features of text or dates: {listed(others)}. Export it to ONNX, which takes "
            "both, or fit a ranker without these columns."
        )


def behind_steps(whose: str, name: str) -> str:
    """The error about trees whose features another step has made."""
    return (
        f"{whose} takes trees of the features as they are, and other steps come before the trees "
        f"of this {name}. Index the features that these steps return, and pass the {name} alone; "
        "export the pipeline to ONNX; or distil it into trees (rankwise.export.distil)."
    )


def feature_names(stages: ModelStages, given: Sequence[str] | None) -> tuple[str, ...]:
    """Names of features: the given names, the model's names, or f1, f2, ..."""
    if given is None:
        if stages.names is not None:
            return stages.names
        return tuple(f"f{k}" for k in range(1, stages.n_features + 1))
    if isinstance(given, str):
        raise DataError(f"features must be a list of names: got the text {given!r}.")
    names = tuple(given)
    if len(names) != stages.n_features:
        raise DataError(
            f"features needs one name for each of {stages.n_features} features: got {len(names)}."
        )
    for k, name in enumerate(names, 1):
        if not isinstance(name, str) or not name.strip():
            raise DataError(f"Name {k} of features must be text that is not empty: got {name!r}.")
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise DataError(f"Names of features must differ: {name!r} is there {count} times.")
    return names


@dataclass(frozen=True, eq=False, repr=False)
class Distilled:
    """A simpler ranker fitted to the scores of a model, and what that costs; made by `distil`.

    Attributes
    ----------
    ranker : RankRLS or BoostedRanker
        The linear ranker or the trees, fitted to all rows.
    agreement : float
        The share of pairs of held-out rows (of the same query) in the order of the model.
    loss : PairedDifference or None
        By how much NDCG@10 of the model exceeds NDCG@10 of the simpler ranker on held-out rows;
        None without graded labels.
    n_rows : int

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.export import distil
    >>> X, qid = [[0.0], [1.0], [2.0], [3.0]] * 5, [row // 4 for row in range(20)]
    >>> model = RankRLS(1.0, kernel="rbf", scale=None).fit(X, [0, 1, 2, 3] * 5, qid=qid)
    >>> distilled = distil(model, X, qid=qid)
    >>> distilled.agreement, len(distilled.ranker.coef_)
    (1.0, 1)
    """

    ranker: RankRLS | BoostedRanker
    agreement: float
    loss: PairedDifference | None
    n_rows: int

    @property
    def correlation(self) -> float:
        """Kendall's correlation of both orders: 1 if they are equal, -1 if one is reversed."""
        return 2.0 * self.agreement - 1.0

    def __str__(self) -> str:
        held_out = (
            f"On held-out rows, {self.agreement:.1%} of the pairs are in the model's order "
            f"(correlation {self.correlation:.3f})"
        )
        if self.loss is None:
            return f"{held_out}."
        error = self.loss.standard_error
        spread = "" if error != error else f" (standard error {error:.4f})"
        change = "lower" if self.loss.difference >= 0 else "higher"
        amount = f"{abs(self.loss.difference):.4f} {change}"
        return f"{held_out}, and NDCG@{CUTOFF} is {amount} than the model's{spread}."

    def __repr__(self) -> str:
        return f"<Distilled: {self}>"


def distil(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    qid: Any = None,
    into: Literal["linear", "trees"] = "linear",
) -> Distilled:
    """Fit a linear ranker, or trees, to the scores that a model gives to rows.

    This is for targets that take linear models and trees only. Take rows of queries like those the
    target will see; they need no labels. What is lost is measured on held-out rows: each query is
    predicted by a linear ranker that was fitted to all others (`leave_query_out`). The rows of one
    global ranking are held out in five folds (`k_fold`).

    A model that scales features within queries is distilled badly, with a warning: its scores
    depend on the other rows of the query, which a linear model or trees do not see. Features that
    are `monotone` in the model are monotone in what is distilled.

    Trees follow curves and interactions, and need more rows. They are a `BoostedRanker` of up to
    500 trees. Queries are held out in five folds, and the number of trees is the one that loses
    the fewest pairs of held-out rows.

    Parameters
    ----------
    model : estimator
        A fitted ranker, pipeline or search.
    X : array-like, sparse or data frame of shape (n_rows, n_features)
    y : array-like of shape (n_rows,), optional
        Labels, for the loss in NDCG@10. They are not used for training. If the model was trained on
        these rows, its NDCG is too high, and so is the loss.
    qid : array-like of shape (n_rows,), optional
        The query of every row. None: one global ranking.
    into : {"linear", "trees"}, default="linear"

    Returns
    -------
    Distilled

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.data import make_ranking
    >>> from rankwise.export import distil, to_solr
    >>> data = make_ranking(30, n_features=3, n_levels=3, random_state=0)
    >>> model = RankRLS(1.0, kernel="rbf", scale="standard").fit(data.X, data.y, qid=data.qid)
    >>> distilled = distil(model, data.X, data.y, qid=data.qid)
    >>> distilled.agreement > 0.8
    True
    >>> to_solr(distilled.ranker).check.passed
    True
    """
    check_value("into", into, Choice("linear", "trees"))
    qid = to_host(qid)
    scores = np.asarray(to_host(predict_with_queries(model, X, qid)), dtype=np.float64)
    if scores.ndim != 1:
        raise DataError(
            f"A model with one score per row can be distilled: got {scores.shape[1]} scores."
        )
    if np.ptp(scores) == 0:
        raise DataError("The model gives all rows the same score: there is nothing to distil.")
    _check_numbers(X, into)
    by, n_splits = qid, max(2, min(FOLDS, len(scores) // 2))
    if qid is None:  # only rows of the same fold can be compared
        by = np.arange(len(scores)) % n_splits
    ranker: RankRLS | BoostedRanker
    rules = _rules_for(model, X)
    if into == "trees":
        ranker, held_out = _best_trees(X, scores, qid, by, rules)
    else:
        ranker = RankRLS(scale="standard", monotone=rules)
        if qid is None:
            held_out = k_fold(ranker, X, scores, n_splits=n_splits).predictions[0]
        else:
            held_out = leave_query_out(ranker, X, scores, qid=qid).predictions[0]
    agreement = 1.0 - float(disagreement_error(scores, held_out, by))
    labels = None if y is None else np.asarray(to_host(y))
    loss = None
    if labels is not None and are_grades(labels) and len(np.unique(labels)) > 1:
        ours, theirs = (
            ndcg(labels, f, by, k=CUTOFF, per_query=True).values for f in (scores, held_out)
        )
        loss = PairedDifference.of(np.asarray(ours) - np.asarray(theirs))
    if is_within_queries(model):
        warn(
            f"The scores of this {type(last_step(model)).__name__} depend on the other rows of the "
            "query, as features or scores are scaled within queries. What is distilled sees each "
            f"row by itself: {agreement:.1%} of the pairs of held-out rows keep their order. "
            'Compare it with a BoostedRanker, and with a ranker with scale="standard", on labels; '
            "or export this one to ONNX."
        )
    return Distilled(ranker.fit(X, scores, qid=qid), agreement, loss, len(scores))


def _rules_for(model: Any, X: Any) -> dict[Any, int] | None:
    """The monotone features of a model, by name or position in its rows."""
    last = inner_model(last_step(model))
    monotone = getattr(last, "monotone", None)
    if not monotone:
        return None
    if last is not inner_model(model):
        warn(
            f"The monotone features of this {type(last).__name__} are made by the steps before it: "
            "they may not be monotone in what is distilled."
        )
        return None
    names = getattr(model, "feature_names_in_", None)
    width = np.shape(X)[1]
    signs = monotone_signs(monotone, names, width) or ()
    columns = columns_of(X) if hasattr(X, "columns") else []
    if not columns or not all(isinstance(name, str) for name in columns):
        columns = list(range(width))
    return {columns[j]: sign for j, sign in enumerate(signs) if sign} or None


def _best_trees(
    X: Any, scores: Array, qid: Any, by: Any, rules: dict[Any, int] | None
) -> tuple[BoostedRanker, Array]:
    """Trees in the number that loses the fewest held-out pairs, and the held-out predictions."""
    groups = QueryGroups.of(by, len(scores))
    if groups.n_groups < 2:
        raise DataError("Distilling into trees needs rows of at least two queries: got one.")
    given: dict[str, Any] = {"learning_rate": 0.1, "min_samples_leaf": 5, "random_state": 0}
    given["monotone"] = rules
    trees = BoostedRanker(
        metric="disagreement", options=BoostedOptions(max_estimators=MOST_TREES), **given
    )
    numbers, stages = trees.held_out_predictions(X, scores, fold=groups.codes % FOLDS, qid=qid)
    best = int(np.argmin([disagreement_error(scores, found, by) for found in stages]))
    return BoostedRanker(int(numbers[best]), **given), stages[best]


def _check_numbers(X: Any, into: str) -> None:
    """Refuse text and, for a linear model, missing values."""
    if is_sparse(X):
        return
    try:
        values = np.asarray(to_host(X), dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(
            f"The rows have text or dates, and {into} models are distilled from numbers. Export "
            "the model to ONNX, or fit a ranker without these columns."
        ) from None
    if into == "linear" and np.isnan(values).any():
        column = int(np.argmax(np.isnan(values).any(axis=0)))
        raise DataError(
            f"Column {column} has missing values. A linear model cannot be fitted to them: give "
            'rows that have every feature, or distil into="trees".'
        )
