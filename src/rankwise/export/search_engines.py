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
from functools import cached_property
from typing import Any, Literal

import numpy as np

from rankwise.backends.arrays import Array
from rankwise.errors import DataError, ExportError, ParameterError
from rankwise.export._endings import TreeScores, read_stages
from rankwise.export._stages import draw_rows
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
    feature_names,
    fold,
    refuse_encoded,
)
from rankwise.export.trees import (
    MARGIN,
    plugin_scores,
    range_of_scores,
    reads_missing_as_zero,
    short,
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

WIDER = 0.05  # share of the range of drawn rows that is added at both ends, which they do not reach
SCALE = "Scale the features when you fit the model."
Norms = dict[str, tuple[str, float, float]]  # by feature: the kind of a normalizer, two numbers
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
    form = _Form("Elasticsearch", model, features, rows, qid, complete=complete)
    return _to_ltr_plugin(form, name, normalizers, positive)


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
    form = _Form("OpenSearch", model, features, rows, qid, complete=complete)
    return _to_ltr_plugin(form, name, normalizers, positive)


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

    def body(kind: str, listed: list[dict[str, Any]], params: dict[str, Any]) -> str:
        found: dict[str, Any] = {"class": f"org.apache.solr.ltr.model.{kind}", "name": name}
        found |= {} if store is None else {"store": store}
        return _json(found | {"features": listed, "params": params})

    def write_trees(trees: TreeScores, names: Sequence[str], shift: float) -> str:
        listed = [{"name": names[k]} for k in used_features(trees).tolist()]
        return body(
            "MultipleAdditiveTreesModel", listed, {"trees": solr_trees(trees, names, shift)}
        )

    def write(weights: dict[str, float], norms: Norms) -> str:
        listed: list[dict[str, Any]] = [{"name": feature} for feature in weights]
        for entry in listed:
            if entry["name"] in norms:
                kind, *numbers = norms[entry["name"]]
                title, keys = SOLR_NORMALIZERS[kind]
                params = dict(zip(keys, map(repr, numbers), strict=True))
                entry["norm"] = {"class": title, "params": params}
        return body("LinearModel", listed, {"weights": weights})

    form = _Form("Solr", model, features, rows, qid, complete=complete)
    if form.trees is not None:
        return _trees_to_engine(form, form.trees, write_trees, solr_scores, normalizers, positive)
    return _weights_to_engine(form, write, solr_scores, normalizers, positive)


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
    form = _Form("A trained model of Elasticsearch", model, features, rows, qid)
    if form.trees is None:
        refuse_encoded(form.title, model)
        raise ExportError(
            behind_steps(form.title, type(last_step(model)).__name__)
            if isinstance(form.stages.stages[-1], TreeScores)
            else f"{form.title} is written from trees: fit a BoostedRanker, or distil the model "
            "into trees (rankwise.export.distil). For a linear model, use to_elasticsearch, which "
            "is for the plugin."
        )
    refuse_in_doubt(form.rows, form.title)
    text = _json(trained_model(form.trees, form.names))
    target, way_out = "elasticsearch-trained-model", _too_coarse("Elasticsearch")
    return form.checked(target, text, elasticsearch_scores, way_out)


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
    form = _Form("Vespa", model, features, rows, qid)
    if form.trees is not None:
        return _vespa_trees(form, form.trees, rank_feature or "lightgbm")
    if rank_feature is not None and not isinstance(form.stages.stages[-1], TreeScores):
        raise ParameterError(
            "rank_feature is for trees, and a linear model becomes an expression: leave it out."
        )
    linear = fold(form.stages, form.names, form.title, model, takes_trees=True)
    known = [_rank_feature(name) for name in linear.names]
    _check_any_weight(linear)
    terms = []
    for weight, name, expression in zip(linear.weights, linear.names, known, strict=True):
        if name in linear.missing:
            fill = _positional(linear.missing[name])
            expression = f"if (isNan({expression}), {fill}, {expression})"
        terms.append((weight, f" * {expression}"))
    text = ""
    for value, rest in [*terms, (linear.constant, "")]:
        if value:
            sign = "-" if value < 0 else "+"
            lead = f" {sign} " if text else ("-" if value < 0 else "")
            text += f"{lead}{_positional(abs(value))}{rest}"
    return form.checked("vespa", text, vespa_scores, SCALE, known, precision="float64")


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
    form = _Form("This form", model, features, rows, qid)
    linear = fold(form.stages, form.names, form.title, model)
    listed = []
    for name, weight in zip(linear.names, linear.weights.tolist(), strict=True):
        entry = {"name": name, "weight": weight}
        if name in linear.missing:
            entry["missing"] = linear.missing[name]
        listed.append(entry)
    text = _json({"type": "linear", "constant": linear.constant, "features": listed})
    return form.checked("json", text, json_scores, SCALE, precision="float64")


class _Form:
    """A model on its way to a target, and the rows on which its text is checked.

    `complete` is for targets that read missing values as 0: whether no row has any.
    """

    def __init__(
        self,
        title: str,
        model: Any,
        features: Sequence[str] | None,
        rows: Any,
        qid: Any,
        *,
        complete: bool | None = None,
    ) -> None:
        self.title, self.complete, self.given = title, complete, (rows, qid)
        found: tuple[Any, TreeScores | None] | None = trees_of(model)
        self.model, self.trees = found or (model, None)
        self.stages = read_stages(self.model)
        self.names = feature_names(self.stages, features)

    @cached_property
    def rows(self) -> CheckRows:
        """The rows given, or drawn ones."""
        complete = self.complete is not None
        return check_rows(self.stages, self.names, *self.given, complete=complete)

    def refuse_missing(self, reason: str, others: str) -> None:
        """Refuse a model for which a missing value is not 0, unless no row has any."""
        if not self.complete:
            raise ExportError(
                f"{self.title} reads a missing feature as 0, and {reason}. If every row has every "
                "feature, say so with complete=True. Otherwise fill in 0 when you fit the model, "
                f"or export it to {others}."
            )
        if np.isnan(self.rows.X).any():
            raise DataError(
                "The rows have missing values, although complete=True says that every row has "
                "every feature."
            )

    def checked(
        self,
        target: str,
        text: str,
        evaluate: Callable[[str, Any], Array],
        way_out: str,
        names: Sequence[str] | None = None,
        *,
        precision: str = "float32",
        left_out: float = 0.0,
        notes: Sequence[str] = (),
    ) -> Export:
        """The export as a text, whose scores are compared with the model's.

        `names` are what the text calls the features.
        """
        columns = dict(zip(names or self.names, self.rows.X.T, strict=True))
        check = compare_scores(
            self.rows.scores(self.model, self.stages.names),
            evaluate(text, columns)[:, None],
            self.rows,
            target=target,
            precision=precision,
            left_out=left_out,
            notes=tuple(notes),
        )
        refuse_unless_passed(check, way_out)
        return Export(target, text, check)


def _vespa_trees(form: _Form, trees: TreeScores, rank_feature: str) -> Export:
    used = used_features(trees).tolist()
    known = [_rank_feature(name) if k in used else name for k, name in enumerate(form.names)]
    write = xgboost_trees if rank_feature == "xgboost" else vespa_trees
    text = _json(write(trees, known))
    coarse = "Vespa's feature xgboost has thresholds in float32: use lightgbm."
    if rank_feature == "xgboost" and form.rows.doubt is not None:
        raise ExportError(f"{coarse} {form.rows.doubt}")
    export = form.checked("vespa", text, vespa_scores, coarse, known, precision="float64")
    return export.with_notes(
        "Put the file into the folder models of the application, as in models/ranker.json, and use "
        f"{rank_feature}('ranker.json') in a rank profile."
    )


def _to_ltr_plugin(form: _Form, name: str, normalizers: bool, positive: bool | None) -> Export:
    def body(kind: str, definition: Any, **others: Any) -> str:
        model = {"type": kind, **others, "definition": definition}
        return _json({"model": {"name": name, "model": model}})

    def write_trees(trees: TreeScores, names: Sequence[str], shift: float) -> str:
        listed = xgboost_trees(trees, names, shift, short_leaves=True)
        return body("model/xgboost+json", json.dumps(listed, ensure_ascii=False))

    def write(weights: dict[str, float], norms: Norms) -> str:
        if len(weights) > MOST_FEATURES:
            raise ExportError(
                f"{form.title} takes at most {MOST_FEATURES:,} features, and {len(weights):,} have "
                "a weight. Select fewer, for example with SelectKBest in a pipeline, distil the "
                "model into fewer features, or export it to ONNX."
            )
        found = {
            feature: {kind: dict(zip(PLUGIN_NORMALIZERS[kind], numbers, strict=True))}
            for feature, (kind, *numbers) in norms.items()
        }
        return body("model/linear", weights, **({"feature_normalizers": found} if found else {}))

    if form.trees is not None:
        return _trees_to_engine(
            form, form.trees, write_trees, elasticsearch_scores, normalizers, positive
        )
    return _weights_to_engine(form, write, elasticsearch_scores, normalizers, positive)


def _trees_to_engine(
    form: _Form,
    trees: TreeScores,
    write: Callable[[TreeScores, Sequence[str], float], str],
    evaluate: Callable[[str, Any], Array],
    normalizers: bool,
    positive: bool | None,
) -> Export:
    """Write trees for an engine that computes in float32, and compare the scores of both."""
    if normalizers:
        raise ParameterError(
            "normalizers=True is for linear models, and trees need none: leave it out."
        )
    if not reads_missing_as_zero(trees):
        reason = "these trees have learned another side for missing values"
        form.refuse_missing(reason, "Vespa or ONNX")
    refuse_in_doubt(form.rows, form.title)
    shift, notes = 0.0, []
    low, high = range_of_scores(trees)
    if positive is not False and low < MARGIN * (high - low):
        shift = MARGIN * (high - low) - low
        notes.append("The leaves of the first tree are raised such that no score is negative.")
    text, way_out = write(trees, form.names, shift), _too_coarse(form.title)
    target = form.title.lower()
    return form.checked(target, text, evaluate, way_out, left_out=-shift, notes=notes)


def _weights_to_engine(
    form: _Form,
    write: Callable[[dict[str, float], Norms], str],
    evaluate: Callable[[str, Any], Array],
    normalizers: bool,
    positive: bool | None,
) -> Export:
    """Fold a model, write it with normalizers, and compare the scores of both.

    Features are (x - centre) / width in the engine.
    """
    title, stages = form.title, form.stages
    linear = fold(stages, form.names, title, form.model, takes_trees=True)
    weights, notes = linear.weights, []
    filled = [f"{name} by {value:g}" for name, value in linear.missing.items() if value]
    if filled:
        some = ", ".join(filled[:3] + ["..."] * (len(filled) > 3))
        reason = f"the model fills in other values ({some})"
        form.refuse_missing(reason, "Vespa, JSON or ONNX")
    refuse_in_doubt(form.rows, title)
    _check_any_weight(linear)
    centre, width = np.zeros(len(weights)), np.ones(len(weights))
    min_max = np.zeros(len(weights), dtype=bool)
    if normalizers:
        uses = stages.uses
        width = 1.0 / np.where(uses.factor > 0, uses.factor, 1.0)
        centre, min_max = uses.centre, uses.min_max
        if not (uses.factor != 1.0).any() and not uses.centre.any():
            raise ParameterError(
                "normalizers=True writes the scaler of a pipeline, and this model has none: leave "
                "it out."
            )
    if positive is not False:
        span = _known_span(form, weights)
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
    if filled:
        notes.append(
            f"{title} reads a missing feature as 0, and the model as another value: index every "
            "feature."
        )
    scaled: dict[str, float] = {}
    norms: Norms = {}
    for k in np.flatnonzero(weights).tolist():
        name, low, high = form.names[k], centre[k], centre[k] + width[k]
        scaled[name] = short(weights[k] * width[k])
        kind, second = ("min_max", high) if min_max[k] else ("standard", width[k])
        if (low, width[k]) != (0.0, 1.0):
            norms[name] = kind, short(low), short(second)
    text, way_out = write(scaled, norms), _too_coarse(title, ", or scale them,")
    left_out = linear.constant + float(centre @ weights)
    return form.checked(title.lower(), text, evaluate, way_out, left_out=left_out, notes=notes)


def _known_span(form: _Form, weights: Array) -> Array | None:
    """The range of the training rows and of rows that are given, of shape (2, n_features).

    None if it is not known; of features without weight, it does not matter.
    """
    stages = form.stages
    drawn = draw_rows(stages.stages, stages.some_rows(1000), np.random.default_rng(0))
    low, high = drawn.min(axis=0), drawn.max(axis=0)
    reach = WIDER * (high - low)
    low, high = low - reach, high + reach
    if form.rows.given:
        low, high = np.fmin(low, form.rows.X.min(axis=0)), np.fmax(high, form.rows.X.max(axis=0))
    found = np.where(weights == 0.0, 0.0, np.stack([low, high]))
    return None if np.isnan(found).any() else found


def _check_any_weight(linear: LinearModel) -> None:
    """Refuse a model whose weights are all 0."""
    if not linear.weights.any():
        raise ExportError(
            "All weights of the model are 0: it gives all rows the same score, and there is "
            "nothing to export."
        )


def _too_coarse(title: str, or_scale: str = "") -> str:
    return (
        f"{title} computes in float32, which is too coarse for these features. Subtract a constant "
        f"from features that are far from 0{or_scale} before they are indexed and before you fit "
        "the model, or export the model to Vespa or ONNX."
    )


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
