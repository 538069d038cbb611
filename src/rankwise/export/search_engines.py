"""Linear models and trees for Elasticsearch, OpenSearch, Solr and Vespa, and as plain JSON.

Small evaluators read the text that is sent to an engine, and score rows as the engine would, by its
published rules. Elasticsearch, OpenSearch and Solr compute in float32: the values of features,
normalizers, weights, and sums in the order of the features.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from rankwise.backends.arrays import Array
from rankwise.errors import DataError, ExportError, ParameterError
from rankwise.export._endings import ModelStages, TreeScores, read_stages
from rankwise.export.checks import (
    CheckRows,
    Export,
    check_rows,
    compare_scores,
    refuse_in_doubt,
    refuse_unless_passed,
)
from rankwise.export.linear_models import (
    LinearModel,
    behind_steps,
    check_any_weight,
    feature_names,
    fold,
    known_span,
    refuse_encoded,
)
from rankwise.export.trees import (
    MARGIN,
    largest_score,
    least_score,
    plugin_scores,
    reads_missing_as_zero,
    solr_tree_scores,
    solr_trees,
    trained_model,
    trained_model_scores,
    trees_of,
    used_features,
    vespa_tree_scores,
    vespa_trees,
    vespa_xgboost_scores,
    xgboost_trees,
)
from rankwise.parameters import AnyOf, Choice, check_value
from rankwise.routing import last_step


@dataclass(frozen=True, eq=False)
class EngineOptions:
    """What the caller of an export to an engine asks for."""

    model: Any
    features: Sequence[str] | None
    normalizers: bool
    positive: bool | None
    complete: bool
    rows: Any
    qid: Any


@dataclass(frozen=True, eq=False)
class EngineTerms:
    """The terms of a linear model, weights (x - centre) / width, of features that count."""

    names: tuple[str, ...]
    weights: Array
    centre: Array
    width: Array
    min_max: Array  # which of them are scaled by minimum and maximum

    @property
    def named_weights(self) -> dict[str, float]:
        """The weight of each feature."""
        return dict(zip(self.names, map(_short, self.weights), strict=True))

    @property
    def normalizers(self) -> dict[str, tuple[str, float, float]]:
        """For each feature that needs one, the kind of its normalizer and two numbers."""
        found = {}
        numbers = zip(self.centre, self.width, self.min_max, strict=True)
        for name, (centre, width, is_min_max) in zip(self.names, numbers, strict=True):
            if centre == 0.0 and width == 1.0:
                continue
            if is_min_max:
                found[name] = "min_max", _short(centre), _short(centre + width)
            else:
                found[name] = "standard", _short(centre), _short(width)
        return found


def engine_terms(
    title: str, stages: ModelStages, linear: LinearModel, given: EngineOptions, rows: Array | None
) -> tuple[EngineTerms, tuple[str, ...]]:
    """Weights and normalizers of the features that count, and notes about them."""
    weights, notes = linear.weights, []
    centre, width = np.zeros(len(weights)), np.ones(len(weights))
    min_max = np.zeros(len(weights), dtype=bool)
    if given.normalizers:
        uses = stages.uses
        width = np.where(uses.factor > 0, 1.0 / np.where(uses.factor > 0, uses.factor, 1.0), 1.0)
        centre, min_max = uses.centre, uses.min_max
        if not (uses.factor != 1.0).any() and not uses.centre.any():
            raise ParameterError(
                "normalizers=True writes the scaler of a pipeline, and this model has none: leave "
                "it out."
            )
    positive = given.positive
    if positive is not False:
        span = known_span(stages, rows, weights)
        if span is not None:
            centre, min_max = np.where(weights > 0, span[0], span[1]), np.zeros_like(min_max)
            notes.append(
                "Features are shifted such that rows within the range of training have scores of "
                "at least 0."
            )
        elif positive:
            raise ParameterError(
                "positive=True needs the range of the features, which this model does not know: "
                "give rows."
            )
        else:
            notes.append(
                "Scores can be negative, as the model does not know the range of its features. "
                f"Give rows if {title} refuses them."
            )
    if any(linear.missing.values()):
        notes.append(
            f"{title} reads a missing feature as 0, and the model as another value: index every "
            "feature."
        )
    check_any_weight(linear)
    used = np.flatnonzero(weights)
    names = tuple(linear.names[k] for k in used)
    scaled = weights[used] * width[used]
    return EngineTerms(names, scaled, centre[used], width[used], min_max[used]), tuple(notes)


def check_missing(title: str, linear: LinearModel, *, complete: bool) -> None:
    """Refuse a model that replaces missing values by anything but 0, unless no row has any."""
    filled = {name: value for name, value in linear.missing.items() if value != 0.0}
    if complete or not filled:
        return
    some = ", ".join(f"{name} by {value:g}" for name, value in list(filled.items())[:3])
    raise ExportError(
        f"{title} reads a missing feature as 0, and the model fills in other values ({some}"
        f"{', ...' if len(filled) > 3 else ''}). If every row has every feature, say so with "
        "complete=True. Otherwise fill in 0 when you fit the model, or export it to "
        "Vespa, JSON or ONNX."
    )


def _short(value: float) -> float:
    """The shortest decimal number that is the same in float32."""
    with np.errstate(over="ignore"):
        return float(str(np.float32(value)))


SCALE = "Scale the features when you fit the model."
MOST_FEATURES = 10_000  # of the LTR plugins of Elasticsearch and OpenSearch
PLUGIN_NORMALIZERS = {
    "standard": ("mean", "standard_deviation"),
    "min_max": ("minimum", "maximum"),
}
SOLR_NORMALIZERS = {
    "standard": ("org.apache.solr.ltr.norm.StandardNormalizer", ("avg", "std")),
    "min_max": ("org.apache.solr.ltr.norm.MinMaxNormalizer", ("min", "max")),
}
_RANK_FEATURE = re.compile(r"[A-Za-z_]\w*\([^()]*\)(\.\w+)*|[A-Za-z_]\w*(\.\w+)+")


def to_elasticsearch(
    model: Any,
    *,
    features: Sequence[str] | None = None,
    name: str = "rankwise",
    normalizers: bool = False,
    positive: bool | None = None,
    complete: bool = False,
    rows: Any = None,
    qid: Any = None,
) -> Export:
    """A linear model or trees as the body of ``POST _ltr/_featureset/NAME/_createmodel``.

    The LTR plugin of Elasticsearch computes in float32 and has no constant. Scalers and selections
    are folded into the weights of named features, and features of weight 0 are left out. The order
    of rows stays the same.

    A `BoostedRanker`, and an `AutoRanker` that consists of one, become a ``model/xgboost+json``.
    Missing features are 0 there, so trees that have learned another side for missing values are
    refused, unless `complete` says that there are none.

    Elasticsearch does not allow negative scores. If the range of the training rows is known, or
    rows are given, normalizers shift each feature by its smallest value (or, if its weight is
    negative, by its largest): rows within the range have scores of at least 0.

    Parameters
    ----------
    model : estimator
        A fitted linear ranker, pipeline or search, see `linear_model`; or trees.
    features : sequence of str, optional
        Names of the features in the feature set. None: the names that the model was fitted with, or
        f1, f2, ...
    name : str, default="rankwise"
        Name of the model.
    normalizers : bool, default=False
        Leave the scaling of features to the normalizers of the engine, in place of folding it into
        the weights. The weights then apply to scaled features, so that they can be compared.
    positive : bool or None, default=None
        Whether to shift features such that scores are at least 0. None: if the range is known.
    complete : bool, default=False
        Whether the rows in the engine have every feature. Needed if the model replaces missing
        values by anything but 0, since the engine reads them as 0.
    rows : array-like or data frame of shape (n_rows, n_features), optional
        Rows on which the export is checked, in the precision in which you have them. None: drawn
        from the range of the training rows, if that is known and within -2**24 and 2**24.
    qid : array-like of shape (n_rows,), optional
        The queries of these rows: pairs of the same query are compared.

    Returns
    -------
    Export
        `content` is the JSON text.

    Raises
    ------
    ExportError
        If the engine cannot express the model, or would rank rows differently.

    Examples
    --------
    >>> import json
    >>> from rankwise import RankRLS
    >>> from rankwise.export import to_elasticsearch
    >>> X = [[1.0, 0.0], [2.0, 5.0], [3.0, 4.0]]
    >>> ranker = RankRLS(0.1).fit(X, [0, 1, 2])
    >>> export = to_elasticsearch(ranker, features=["votes", "year"], rows=X)
    >>> list(json.loads(export.content)["model"]["model"]["definition"])
    ['votes', 'year']
    >>> export.check.n_lost
    0
    """
    given = EngineOptions(model, features, normalizers, positive, complete, rows, qid)
    return _to_ltr_plugin("elasticsearch", "Elasticsearch", name, given)


def to_opensearch(
    model: Any,
    *,
    features: Sequence[str] | None = None,
    name: str = "rankwise",
    normalizers: bool = False,
    positive: bool | None = None,
    complete: bool = False,
    rows: Any = None,
    qid: Any = None,
) -> Export:
    """A linear model or trees for the LTR plugin of OpenSearch, as for `to_elasticsearch`.

    Parameters
    ----------
    model, features, name, normalizers, positive, complete, rows, qid
        As for `to_elasticsearch`.

    Returns
    -------
    Export

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.export import to_opensearch
    >>> X = [[1.0, 0.0], [2.0, 5.0], [3.0, 4.0]]
    >>> ranker = RankRLS(0.1).fit(X, [0, 1, 2])
    >>> to_opensearch(ranker, rows=X).check.passed
    True
    """
    given = EngineOptions(model, features, normalizers, positive, complete, rows, qid)
    return _to_ltr_plugin("opensearch", "OpenSearch", name, given)


def to_solr(
    model: Any,
    *,
    features: Sequence[str] | None = None,
    name: str = "rankwise",
    store: str | None = None,
    normalizers: bool = False,
    positive: bool = False,
    complete: bool = False,
    rows: Any = None,
    qid: Any = None,
) -> Export:
    """A linear model or trees for ``PUT /schema/model-store`` of Solr.

    Trees become a ``MultipleAdditiveTreesModel``. Solr adds 1e-6 to every threshold, which is
    subtracted before; features should not differ by as little as that.

    Parameters
    ----------
    model, features, name, normalizers, complete, rows, qid
        As for `to_elasticsearch`.
    store : str, optional
        The feature store. None: the default one.
    positive : bool, default=False
        Whether to shift features such that rows within the range of training have scores of at
        least 0.

    Returns
    -------
    Export

    Examples
    --------
    >>> import json
    >>> from rankwise import RankRLS
    >>> from rankwise.export import to_solr
    >>> X = [[1.0, 0.0], [2.0, 5.0], [3.0, 4.0]]
    >>> ranker = RankRLS(0.1).fit(X, [0, 1, 2])
    >>> body = json.loads(to_solr(ranker, features=["votes", "year"], rows=X).content)
    >>> [feature["name"] for feature in body["features"]]
    ['votes', 'year']
    """
    given = EngineOptions(model, features, normalizers, positive, complete, rows, qid)

    def body(kind: str, listed: list[dict[str, Any]], params: dict[str, Any]) -> str:
        found: dict[str, Any] = {"class": f"org.apache.solr.ltr.model.{kind}", "name": name}
        found |= {} if store is None else {"store": store}
        return _json(found | {"features": listed, "params": params})

    trees = trees_of(model)
    if trees is not None:

        def write_trees(found: TreeScores, names: Sequence[str], shift: float) -> str:
            listed = [{"name": names[k]} for k in used_features(found).tolist()]
            params = {"trees": solr_trees(found, names, shift)}
            return body("MultipleAdditiveTreesModel", listed, params)

        return _export_trees("solr", "Solr", given, *trees, write_trees, solr_scores)

    def write(terms: EngineTerms) -> str:
        listed: list[dict[str, Any]] = [{"name": feature} for feature in terms.names]
        norms = terms.normalizers
        for entry in listed:
            if entry["name"] in norms:
                kind, *numbers = norms[entry["name"]]
                title, keys = SOLR_NORMALIZERS[kind]
                params = dict(zip(keys, map(repr, numbers), strict=True))
                entry["norm"] = {"class": title, "params": params}
        return body("LinearModel", listed, {"weights": terms.named_weights})

    return _export("solr", "Solr", given, write, solr_scores)


def to_elasticsearch_trained_model(
    model: Any,
    *,
    features: Sequence[str] | None = None,
    rows: Any = None,
    qid: Any = None,
) -> Export:
    """Trees as the definition of a trained model, for Elasticsearch's own learning to rank.

    This is for Elasticsearch without the plugin. The text is the `definition` in the body of ``PUT
    _ml/trained_models/NAME``, as Elastic's client eland writes it. The body also needs an
    `inference_config` with a query for each feature, which the model does not know. The format was
    compared with the rules of Elasticsearch, not on a running engine.

    Elasticsearch reads features in float32. A document for which a feature's query does not match
    goes where the trees send missing values. Scores may be negative.

    Parameters
    ----------
    model : estimator
        A fitted `BoostedRanker`, or an `AutoRanker` that consists of one.
    features, rows, qid
        As for `to_elasticsearch`.

    Returns
    -------
    Export

    Examples
    --------
    >>> import json
    >>> from rankwise import BoostedRanker
    >>> from rankwise.export import to_elasticsearch_trained_model
    >>> X = [[float(k)] for k in range(40)]
    >>> ranker = BoostedRanker(2, min_samples_leaf=5).fit(X, list(range(40)))
    >>> definition = json.loads(to_elasticsearch_trained_model(ranker, rows=X).content)
    >>> definition["trained_model"]["ensemble"]["aggregate_output"]
    {'weighted_sum': {}}
    """
    title, found = "A trained model of Elasticsearch", trees_of(model)
    if found is None:
        refuse_encoded(title, model)
        last = read_stages(model).stages[-1]
        raise ExportError(
            behind_steps(title, type(last_step(model)).__name__)
            if isinstance(last, TreeScores)
            else f"{title} is written from trees: fit a BoostedRanker, or distil the model into "
            "trees (rankwise.export.distil). For a linear model, use to_elasticsearch, which is "
            "for the plugin."
        )
    model, trees = found
    stages = read_stages(model)
    names = feature_names(stages, features)
    given = check_rows(stages, names, rows, qid)
    refuse_in_doubt(given, title)
    text = _json(trained_model(trees, names))
    scores = elasticsearch_scores(text, _named_rows(names, given))
    target, way_out = "elasticsearch-trained-model", _too_coarse("Elasticsearch")
    return _checked(target, text, scores, model, stages, given, way_out)


def to_vespa(
    model: Any,
    *,
    features: Sequence[str] | None = None,
    rank_feature: Literal["lightgbm", "xgboost"] | None = None,
    rows: Any = None,
    qid: Any = None,
) -> Export:
    """A linear model as a ranking expression of Vespa, or trees for one of its rank features.

    Parameters
    ----------
    model, rows, qid
        As for `to_elasticsearch`.
    features : sequence of str, optional
        Rank features of Vespa, such as ``bm25(title)``. A plain name, such as ``year``, stands for
        ``attribute(year)``. None: the names that the model was fitted with.
    rank_feature : {"lightgbm", "xgboost"}, optional
        For trees, the rank feature of Vespa that reads them. The thresholds of "xgboost" are
        float32. None: "lightgbm", which is exact.

    Returns
    -------
    Export
        `content` is the expression, or the JSON file of the trees. Missing values that the model
        fills in are filled in there.

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.export import to_vespa
    >>> ranker = RankRLS(1.0, scale=None).fit([[1.0, 0.0], [2.0, 0.5], [3.0, 1.0]], [0, 1, 2])
    >>> print(to_vespa(ranker, features=["bm25(title)", "year"]).content)  # doctest: +ELLIPSIS
    0.5... * bm25(title) + 0.2... * attribute(year)
    """
    check_value("rank_feature", rank_feature, AnyOf(Choice("lightgbm", "xgboost"), None))
    trees = trees_of(model)
    if trees is not None:
        return _vespa_trees(*trees, rank_feature or "lightgbm", features, rows, qid)
    stages = read_stages(model)
    if rank_feature is not None and not isinstance(stages.stages[-1], TreeScores):
        raise ParameterError(
            "rank_feature is for trees, and a linear model becomes an expression: leave it out."
        )
    names = feature_names(stages, features)
    linear = fold(stages, names, "Vespa", model, takes_trees=True)
    known = [_rank_feature(name) for name in linear.names]
    check_any_weight(linear)
    used = [(w, n, e) for w, n, e in zip(linear.weights, linear.names, known, strict=True) if w]
    terms = []
    for weight, name, expression in used:
        if name in linear.missing:
            fill = _positional(linear.missing[name])
            expression = f"if (isNan({expression}), {fill}, {expression})"
        terms.append((weight, f" * {expression}"))
    if linear.constant:
        terms.append((linear.constant, ""))
    text = ""
    for value, rest in terms:
        sign = "-" if value < 0 else "+"
        lead = f" {sign} " if text else ("-" if value < 0 else "")
        text += f"{lead}{_positional(abs(value))}{rest}"
    given = check_rows(stages, linear.names, rows, qid)
    scores = vespa_scores(text, _named_rows(known, given))
    return _checked("vespa", text, scores, model, stages, given, SCALE, precision="float64")


def to_json(
    model: Any, *, features: Sequence[str] | None = None, rows: Any = None, qid: Any = None
) -> Export:
    """A linear model as plain JSON: names, weights and a constant, for your own program.

    Parameters
    ----------
    model, features, rows, qid
        As for `to_elasticsearch`.

    Returns
    -------
    Export
        `content` has the keys "constant" and "features", a list of objects with "name", "weight"
        and, where the model defines it, "missing", the value that replaces a missing one. The score
        is the constant plus the sum of weights times values.

    Examples
    --------
    >>> import json
    >>> from rankwise import RankRLS
    >>> from rankwise.export import to_json
    >>> ranker = RankRLS(0.1).fit([[1.0, 0.0], [2.0, 5.0], [3.0, 4.0]], [0, 1, 2])
    >>> [feature["name"] for feature in json.loads(to_json(ranker).content)["features"]]
    ['f1', 'f2']
    """
    stages = read_stages(model)
    linear = fold(stages, feature_names(stages, features), "This form", model)
    listed = []
    for name, weight in zip(linear.names, linear.weights.tolist(), strict=True):
        entry = {"name": name, "weight": weight}
        if name in linear.missing:
            entry["missing"] = linear.missing[name]
        listed.append(entry)
    text = _json({"type": "linear", "constant": linear.constant, "features": listed})
    given = check_rows(stages, linear.names, rows, qid)
    scores = json_scores(text, _named_rows(linear.names, given))
    return _checked("json", text, scores, model, stages, given, SCALE, precision="float64")


def _checked(
    target: str,
    text: str,
    scores: Array,
    model: Any,
    stages: ModelStages,
    rows: CheckRows,
    way_out: str,
    *,
    precision: str = "float32",
    left_out: float = 0.0,
    notes: tuple[str, ...] = (),
) -> Export:
    """The export of a model as a text that has these scores, which are compared with its own."""
    check = compare_scores(
        rows.scores(model, stages.names), scores[:, None], rows, target=target,
        precision=precision, left_out=left_out, notes=notes,
    )  # fmt: skip
    refuse_unless_passed(check, way_out)
    return Export(target, text, check)


def _vespa_trees(
    model: Any,
    trees: TreeScores,
    rank_feature: str,
    features: Sequence[str] | None,
    rows: Any,
    qid: Any,
) -> Export:
    stages = read_stages(model)
    names = feature_names(stages, features)
    used = used_features(trees).tolist()
    known = [_rank_feature(name) if k in used else name for k, name in enumerate(names)]
    write = xgboost_trees if rank_feature == "xgboost" else vespa_trees
    text = _json(write(trees, known))
    given = check_rows(stages, names, rows, qid)
    coarse = "Vespa's feature xgboost has thresholds in float32: use lightgbm."
    if rank_feature == "xgboost" and given.doubt is not None:
        raise ExportError(f"{coarse} {given.doubt}")
    scores = vespa_scores(text, _named_rows(known, given))
    export = _checked("vespa", text, scores, model, stages, given, coarse, precision="float64")
    return export.with_notes(
        "Put the file into the folder models of the application, as in models/ranker.json, and use "
        f"{rank_feature}('ranker.json') in a rank profile."
    )


def _export_trees(
    target: str,
    title: str,
    given: EngineOptions,
    model: Any,
    trees: TreeScores,
    write: Callable[[TreeScores, Sequence[str], float], str],
    evaluate: Callable[[str, Any], Array],
) -> Export:
    """Write trees for an engine that computes in float32, and compare the scores of both."""
    stages = read_stages(model)
    names = feature_names(stages, given.features)
    if given.normalizers:
        raise ParameterError(
            "normalizers=True is for linear models, and trees need none: leave it out."
        )
    zero = reads_missing_as_zero(trees)
    if not zero and not given.complete:
        raise ExportError(
            f"{title} reads a missing feature as 0, and these trees have learned another side for "
            "missing values. If every row has every feature, say so with complete=True. Otherwise "
            "fill in 0 when you fit the model, or export it to Vespa or ONNX."
        )
    rows = check_rows(stages, names, given.rows, given.qid, complete=True)
    refuse_in_doubt(rows, title)
    if not zero:
        _check_complete(rows)
    shift, notes = 0.0, []
    low, high = least_score(trees), largest_score(trees)
    if given.positive is not False and low < MARGIN * (high - low):
        shift = MARGIN * (high - low) - low
        notes.append("The leaves of the first tree are raised such that no score is negative.")
    text = write(trees, names, shift)
    scores, way_out = evaluate(text, _named_rows(names, rows)), _too_coarse(title)
    return _checked(
        target, text, scores, model, stages, rows, way_out, left_out=-shift, notes=tuple(notes)
    )


def _check_complete(rows: CheckRows) -> None:
    if np.isnan(rows.X).any():
        raise DataError(
            "The rows have missing values, although complete=True says that every row has every "
            "feature."
        )


def _too_coarse(title: str, or_scale: str = "") -> str:
    return (
        f"{title} computes in float32, which is too coarse for these features. Subtract a constant "
        f"from features that are far from 0{or_scale} before they are indexed and before you fit "
        "the model, or export the model to Vespa or ONNX."
    )


def _to_ltr_plugin(target: str, title: str, name: str, given: EngineOptions) -> Export:
    trees = trees_of(given.model)
    if trees is not None:

        def write_trees(found: TreeScores, names: Sequence[str], shift: float) -> str:
            definition = json.dumps(
                xgboost_trees(found, names, shift, short_leaves=True), ensure_ascii=False
            )
            model = {"type": "model/xgboost+json", "definition": definition}
            return _json({"model": {"name": name, "model": model}})

        return _export_trees(target, title, given, *trees, write_trees, elasticsearch_scores)

    def write(terms: EngineTerms) -> str:
        if len(terms.names) > MOST_FEATURES:
            raise ExportError(
                f"{title} takes at most {MOST_FEATURES:,} features, and {len(terms.names):,} have "
                "a weight. Select fewer, for example with SelectKBest in a pipeline, distil the "
                "model into fewer features, or export it to ONNX."
            )
        body: dict[str, Any] = {"type": "model/linear"}
        norms = {
            feature: {kind: dict(zip(PLUGIN_NORMALIZERS[kind], numbers, strict=True))}
            for feature, (kind, *numbers) in terms.normalizers.items()
        }
        if norms:
            body["feature_normalizers"] = norms
        body["definition"] = terms.named_weights
        return _json({"model": {"name": name, "model": body}})

    return _export(target, title, given, write, elasticsearch_scores)


def _export(
    target: str,
    title: str,
    given: EngineOptions,
    write: Callable[[EngineTerms], str],
    evaluate: Callable[[str, Any], Array],
) -> Export:
    """Fold a model, write it, and compare the scores of both."""
    stages = read_stages(given.model)
    linear = fold(
        stages, feature_names(stages, given.features), title, given.model, takes_trees=True
    )
    check_missing(title, linear, complete=given.complete)
    rows = check_rows(stages, linear.names, given.rows, given.qid, complete=True)
    refuse_in_doubt(rows, title)
    if any(linear.missing.values()):
        _check_complete(rows)
    known_rows = None if given.rows is None else rows.X
    terms, notes = engine_terms(title, stages, linear, given, known_rows)
    text = write(terms)
    scores = evaluate(text, _named_rows(linear.names, rows))
    left_out = linear.constant + float(terms.centre / terms.width @ terms.weights)
    way_out = _too_coarse(title, ", or scale them,")
    return _checked(
        target, text, scores, given.model, stages, rows, way_out, left_out=left_out, notes=notes
    )


def _named_rows(names: Sequence[str], rows: CheckRows) -> dict[str, Array]:
    """The values of each feature, by its name in the target."""
    return dict(zip(names, rows.X.T, strict=True))


def _rank_feature(name: str) -> str:
    """A feature as a rank feature of Vespa."""
    if _RANK_FEATURE.fullmatch(name):
        return name
    if re.fullmatch(r"[A-Za-z_]\w*", name, flags=re.ASCII):
        return f"attribute({name})"
    raise ExportError(
        f"{name!r} is not a rank feature of Vespa. Give names such as bm25(title), attribute(year) "
        "or query(age) as features, in the order of the features."
    )


def _positional(value: float) -> str:
    """All digits of a number, without an exponent."""
    return np.format_float_positional(value, trim="-")


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


# What the engines compute ------------------------------------------------------------------------

Features = Any
"""The values of each feature in all rows: a mapping of names to columns, or a data frame."""

_NUMBER = r"\d+(?:\.\d+)?"
_FEATURE = r"[A-Za-z_]\w*(?:\([^()]*\))?(?:\.\w+)*"
_TERM = re.compile(
    rf"\s*(?P<sign>[+-]?)\s*(?P<number>{_NUMBER})(?:\s*\*\s*(?:"
    rf"if\s*\(isNan\((?P<asked>{_FEATURE})\),\s*(?P<fill>-?{_NUMBER}),\s*(?P<filled>{_FEATURE})\)"
    rf"|(?P<feature>{_FEATURE})))?\s*"
)


def elasticsearch_scores(text: str, features: Features) -> Array:
    """Scores of a linear model or of trees in the LTR plugins of Elasticsearch and OpenSearch.

    A feature of the model that rows lack is 0, and is then normalized.

    Parameters
    ----------
    text : str
        The body of ``_createmodel``, or the definition of a trained model of Elasticsearch.
    features : mapping of str to array-like of shape (n_rows,), or data frame

    Returns
    -------
    ndarray of shape (n_rows,)

    Examples
    --------
    >>> body = '''{"model": {"name": "m", "model": {"type": "model/linear",
    ...     "feature_normalizers": {"year": {"standard": {"mean": 1970, "standard_deviation": 30}}},
    ...     "definition": {"title_query": 0.5, "year": 2.0}}}}'''
    >>> elasticsearch_scores(body, {"title_query": [3.0], "year": [2000.0]})
    array([3.5])
    """
    if "trained_model" in (body := _body(text)):
        return trained_model_scores(body, _columns(features))
    model = body["model"]["model"]
    if model["type"] == "model/xgboost+json":
        return plugin_scores(model["definition"], _columns(features))
    if model["type"] != "model/linear":
        raise ExportError(f"A linear model has the type model/linear: got {model['type']!r}.")
    definition = model["definition"]
    weights = json.loads(definition) if isinstance(definition, str) else definition
    norms = model.get("feature_normalizers", {})
    scale = {}
    for name, norm in norms.items():
        if name not in weights:
            raise ExportError(f"feature_normalizers has {name!r}, which has no weight.")
        ((kind, params),) = norm.items()
        if kind not in PLUGIN_NORMALIZERS:
            raise ExportError(f"Normalizers are standard and min_max: got {kind!r}.")
        scale[name] = _scale(kind, *(params[key] for key in PLUGIN_NORMALIZERS[kind]))
    return _float32_sum(weights, scale, features)


def solr_scores(text: str, features: Features) -> Array:
    """Scores of a linear model or of trees in Solr's module for learning to rank.

    Parameters
    ----------
    text : str
        What is uploaded to the model store.
    features : mapping of str to array-like of shape (n_rows,), or data frame

    Returns
    -------
    ndarray of shape (n_rows,)

    Examples
    --------
    >>> body = '''{"class": "org.apache.solr.ltr.model.LinearModel", "name": "m",
    ...     "features": [{"name": "b"}, {"name": "a", "norm": {
    ...     "class": "org.apache.solr.ltr.norm.MinMaxNormalizer",
    ...     "params": {"min": "0", "max": "10"}}}],
    ...     "params": {"weights": {"a": 4.0, "b": 1.0}}}'''
    >>> solr_scores(body, {"a": [5.0], "b": [1.0]})
    array([3.])
    """
    model = _body(text)
    if model["class"] == "org.apache.solr.ltr.model.MultipleAdditiveTreesModel":
        return solr_tree_scores(model["params"], _columns(features))
    if model["class"] != "org.apache.solr.ltr.model.LinearModel":
        raise ExportError(f"A linear model has the class LinearModel: got {model['class']!r}.")
    weights = model["params"]["weights"]
    listed = [feature["name"] for feature in model["features"]]
    if sorted(listed) != sorted(weights):
        raise ExportError("Solr needs a weight for each feature, and a feature for each weight.")
    scale = {}
    for feature in model["features"]:
        if "norm" in feature:
            params = feature["norm"]["params"]
            if not all(isinstance(value, str) for value in params.values()):
                raise ExportError("Solr takes the parameters of normalizers as text.")
            kind = "standard" if "avg" in params else "min_max"
            _, keys = SOLR_NORMALIZERS[kind]
            scale[feature["name"]] = _scale(kind, *(float(params[key]) for key in keys))
    return _float32_sum({name: weights[name] for name in listed}, scale, features)


def vespa_scores(text: str, features: Features) -> Array:
    """Scores of a sum of weighted rank features, as a ranking expression of Vespa, in float64.

    Parameters
    ----------
    text : str
        The expression, or trees in the JSON of LightGBM or XGBoost.
    features : mapping of str to array-like of shape (n_rows,), or data frame
        Rank features, such as ``bm25(title)``.

    Returns
    -------
    ndarray of shape (n_rows,)

    Examples
    --------
    >>> vespa_scores("0.5 * bm25(title) - 2 * attribute(age) + 1",
    ...              {"bm25(title)": [4.0], "attribute(age)": [1.0]})
    array([1.])
    """
    if text.lstrip().startswith("{"):
        return vespa_tree_scores(json.loads(text), _columns(features))
    if text.lstrip().startswith("["):
        return vespa_xgboost_scores(json.loads(text), _columns(features))
    total: Any = 0.0
    position = 0
    while position < len(text):
        term = _TERM.match(text, position)
        if term is None or not term.group():
            raise ExportError(f"Not a sum of weighted features: {text[position:][:40]!r}.")
        value: Any = float(f"{term['sign']}{term['number']}")
        name = term["feature"] or term["filled"]
        if name is not None:
            column = np.asarray(features[name], dtype=np.float64)
            if term["asked"] is not None:
                column = np.where(np.isnan(column), float(term["fill"]), column)
            value = value * column
        total = total + value
        position = term.end()
    return np.asarray(total, dtype=np.float64)


def json_scores(text: str, features: Features) -> Array:
    """Scores of the model that `to_json` writes, in float64.

    Parameters
    ----------
    text : str
    features : mapping of str to array-like of shape (n_rows,), or data frame

    Returns
    -------
    ndarray of shape (n_rows,)

    Examples
    --------
    >>> body = '{"constant": 1.0, "features": [{"name": "a", "weight": 2.0, "missing": 0.5}]}'
    >>> json_scores(body, {"a": [3.0, float("nan")]})
    array([7., 2.])
    """
    model = _body(text)
    listed = model["features"]
    table = np.array([features[each["name"]] for each in listed], dtype=np.float64)
    fill = np.array([each.get("missing", np.nan) for each in listed], dtype=np.float64)
    weights = np.array([each["weight"] for each in listed], dtype=np.float64)
    filled = np.where(np.isnan(table), fill[:, None], table)
    return np.asarray(weights @ filled + float(model["constant"]))


def _scale(kind: str, first: float, second: float) -> tuple[float, float]:
    """What a normalizer subtracts, and what it divides by."""
    width = second - first if kind == "min_max" else second
    if not width > 0:
        raise ExportError(
            "The standard deviation of a normalizer must be above 0, and its maximum above its "
            "minimum."
        )
    return first, width


def _body(text: Any) -> Any:
    """What is sent to an engine, which may have been read already."""
    return text if isinstance(text, Mapping) else json.loads(text)


def _columns(features: Features) -> dict[str, Array]:
    names = getattr(features, "columns", None)
    names = features.keys() if names is None else names
    return {str(name): np.asarray(features[name], dtype=np.float64) for name in names}


def _float32_sum(
    weights: Mapping[str, float], scale: Mapping[str, tuple[float, float]], features: Features
) -> Array:
    """Weighted sums as single precision adds them up, feature after feature."""
    columns = _columns(features)
    n_rows = len(next(iter(columns.values())))
    total = np.zeros(n_rows, dtype=np.float32)
    with np.errstate(over="ignore", invalid="ignore"):  # the check finds what is not finite
        for name, weight in weights.items():
            if not math.isfinite(float(np.float32(weight))):
                raise ExportError(f"The weight of {name!r} overflows float32: {weight:g}.")
            values = columns.get(name, np.full(n_rows, np.nan))
            column = np.where(np.isnan(values), 0.0, values).astype(np.float32)  # missing is 0
            if name in scale:
                centre, width = (np.float32(number) for number in scale[name])
                column = (column - centre) / width
            total += np.float32(weight) * column
    return total.astype(np.float64)
