"""A fitted model as stages, with its features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, singledispatch
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.feature_selection import SelectorMixin
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)
from sklearn.utils.validation import check_is_fitted

from rankwise.auto.auto_ranker import AutoRanker
from rankwise.backends.arrays import Array, is_sparse, to_host
from rankwise.boosted.boosted_ranker import BoostedRanker
from rankwise.errors import DataError, ExportError
from rankwise.estimators.base import LeastSquaresRanker
from rankwise.export._endings import (
    KernelScores,
    LinearProcess,
    LinearScores,
    MeanScores,
    Process,
    ProcessScores,
    TreeScores,
)
from rankwise.export._stages import (
    SPREAD,
    Affine,
    Branches,
    Clip,
    Columns,
    FillMissing,
    Lookup,
    Project,
    Stage,
    WithinQuery,
    lookups,
    text_columns,
)
from rankwise.gp.inference import CONSTANT
from rankwise.gp.pairwise_gp import PairwiseGP
from rankwise.gp.process import ConditionedProcess
from rankwise.model_selection.meta_rankers import MeanRanker
from rankwise.preprocessing.query_scalers import QueryScaler
from rankwise.preprocessing.seen_features import SeenFeatures
from rankwise.scaling import ColumnStandard
from rankwise.svm.rank_svm import RankSVM


def stages_in_order(steps: Sequence[tuple[str, Any]], n_columns: int) -> list[Stage]:
    """The stages of transformers that follow one another."""
    stages: list[Stage] = []
    for _, step in steps:
        if step is None or step == "passthrough":
            continue
        found = transformer_stages(step, n_columns)
        stages += found
        n_columns = width(found, n_columns)
    return stages


def width(stages: Sequence[Any], n_columns: int) -> int:
    """How many columns there are behind stages."""
    for stage in stages:
        if isinstance(stage, Columns):
            n_columns = len(stage.chosen)
        elif isinstance(stage, Project):
            n_columns = stage.matrix.shape[1]
        elif isinstance(stage, Branches):
            n_columns = sum(stage.widths)
        elif isinstance(stage, Lookup):
            n_columns = stage.table.shape[1]
    return n_columns


@singledispatch
def transformer_stages(step: Any, n_columns: int) -> list[Stage]:
    """The stages of a transformer with this many columns before it."""
    raise ExportError(
        f"{type(step).__name__} cannot be exported. StandardScaler, MinMaxScaler, MaxAbsScaler, "
        "RobustScaler, SimpleImputer, OneHotEncoder, OrdinalEncoder, PCA, TruncatedSVD, selections "
        "of features, ColumnTransformer of these and the scalers of rankwise can. For other steps "
        "of scikit-learn, use skl2onnx.to_onnx, which knows the rankers of rankwise as well."
    )


@transformer_stages.register
def _(step: Pipeline, n_columns: int) -> list[Stage]:
    return stages_in_order(step.steps, n_columns)


@transformer_stages.register
def _(step: StandardScaler, n_columns: int) -> list[Stage]:
    mean = _or(step.mean_, np.zeros(n_columns))
    scale = _or(step.scale_, np.ones(n_columns))
    centre = mean if step.with_mean else np.zeros(n_columns)
    span = None
    if step.mean_ is not None and step.var_ is not None:
        reach = SPREAD * np.sqrt(step.var_)
        span = np.stack([step.mean_ - reach, step.mean_ + reach])
    return [Affine(centre, 1.0 / scale, span)]


@transformer_stages.register
def _(step: MinMaxScaler, n_columns: int) -> list[Stage]:
    # X scale_ + min_, written as a difference first: (x + min_ / scale_) scale_.
    centre = -np.asarray(step.min_) / step.scale_
    span = np.stack([step.data_min_, step.data_max_])
    is_unit = tuple(step.feature_range) == (0, 1)
    stage = Affine(centre, np.asarray(step.scale_), span, "min_max" if is_unit else "standard")
    if not step.clip:
        return [stage]
    return [stage, Clip(*(float(bound) for bound in step.feature_range))]


@transformer_stages.register
def _(step: MaxAbsScaler, n_columns: int) -> list[Stage]:
    if getattr(step, "clip", False):
        raise ExportError("MaxAbsScaler with clip=True cannot be exported: use clip=False.")
    span = np.stack([-np.asarray(step.max_abs_), step.max_abs_])
    return [Affine(np.zeros(n_columns), 1.0 / np.asarray(step.scale_), span)]


@transformer_stages.register
def _(step: RobustScaler, n_columns: int) -> list[Stage]:
    centre = _or(step.center_, np.zeros(n_columns))
    scale = _or(step.scale_, np.ones(n_columns))
    known = step.center_ is not None and step.scale_ is not None
    span = np.stack([centre - SPREAD * scale, centre + SPREAD * scale]) if known else None
    return [Affine(centre, 1.0 / scale, span)]


@transformer_stages.register
def _(step: SimpleImputer, n_columns: int) -> list[Stage]:
    if step.add_indicator:
        raise ExportError(
            "SimpleImputer with add_indicator=True cannot be exported: use add_indicator=False."
        )
    try:
        values = np.asarray(step.statistics_).astype(np.float64)
        missing = np.nan if step.missing_values is None else float(step.missing_values)
    except (TypeError, ValueError):
        raise ExportError(
            "A SimpleImputer of words cannot be exported: the columns must be numbers. Use "
            "skl2onnx.to_onnx, which knows the rankers of rankwise."
        ) from None
    kept = np.flatnonzero(~np.isnan(values))
    if step.keep_empty_features:
        values, kept = np.nan_to_num(values), np.arange(n_columns)
    return [Columns(kept, n_columns), FillMissing(values[kept], missing)]


@transformer_stages.register
def _(step: OneHotEncoder, n_columns: int) -> list[Stage]:
    dropped = step.drop_idx_ if step.drop_idx_ is not None else [None] * n_columns
    seldom = getattr(step, "infrequent_categories_", [None] * n_columns)  # one column for all
    widths = [
        len(categories) - (drop is not None) - (0 if rare is None else len(rare) - 1)
        for categories, drop, rare in zip(step.categories_, dropped, seldom, strict=True)
    ]
    return lookups(step, widths, takes_others=step.handle_unknown != "error")


@transformer_stages.register
def _(step: OrdinalEncoder, n_columns: int) -> list[Stage]:
    takes_others = step.handle_unknown != "error" and not np.isnan(step.unknown_value)
    return lookups(step, [1] * n_columns, takes_others=takes_others)


@transformer_stages.register
def _(step: HashingVectorizer, n_columns: int) -> list[Stage]:
    raise ExportError(
        "HashingVectorizer (--encode hashing) computes hashes of words, for which ONNX has no "
        "operators. Fit with one-hot features (--encode onehot), or hash the words before they "
        "reach the model."
    )


@transformer_stages.register
def _(step: SelectorMixin, n_columns: int) -> list[Stage]:
    return [Columns(np.flatnonzero(step.get_support()), n_columns)]


@transformer_stages.register
def _(step: PCA, n_columns: int) -> list[Stage]:
    matrix = np.asarray(step.components_).T
    if step.whiten:
        matrix = matrix / np.sqrt(step.explained_variance_)
    return [Project(np.asarray(step.mean_), matrix)]


@transformer_stages.register
def _(step: TruncatedSVD, n_columns: int) -> list[Stage]:
    return [Project(np.zeros(n_columns), np.asarray(step.components_).T)]


@transformer_stages.register
def _(step: FunctionTransformer, n_columns: int) -> list[Stage]:
    if step.func is None:
        return []
    raise ExportError(
        "FunctionTransformer calls a Python function, which cannot be exported: apply it to the "
        "features before they reach the model."
    )


@transformer_stages.register
def _(step: FeatureUnion, n_columns: int) -> list[Stage]:
    parts = {
        name: stages_in_order([(name, transformer)], n_columns)
        for name, transformer in step.transformer_list
        if transformer != "drop"
    }
    return _side_by_side(parts, n_columns, step.transformer_weights)


@transformer_stages.register
def _(step: ColumnTransformer, n_columns: int) -> list[Stage]:
    parts, numbers = {}, _column_numbers(step)
    for name, transformer, _ in step.transformers_:
        chosen = numbers[name]
        if transformer != "drop" and len(chosen):
            stages = stages_in_order([(name, transformer)], len(chosen))
            parts[name] = [Columns(chosen, n_columns), *stages]
    return _side_by_side(parts, n_columns, step.transformer_weights)


def _side_by_side(
    parts: Mapping[str, list[Stage]], n_columns: int, weights: Mapping[str, float] | None
) -> list[Stage]:
    """The stages of named transformers on the same columns, each multiplied by its weight."""
    made, widths = [], []
    for name, stages in parts.items():
        n_after = width(stages, n_columns)
        if weights is not None and name in weights:
            factor = np.full(n_after, float(weights[name]))
            stages = [*stages, Affine(np.zeros(n_after), factor)]
        made.append(stages)
        widths.append(n_after)
    return [Branches(made, widths)]


@transformer_stages.register
def _(step: SeenFeatures, n_columns: int) -> list[Stage]:
    return [Columns(np.asarray(step.columns_), n_columns)]


@transformer_stages.register
def _(step: QueryScaler, n_columns: int) -> list[Stage]:
    return [WithinQuery(step.scaling.name)]


def _column_numbers(step: ColumnTransformer) -> dict[str, Any]:
    """Which columns each transformer of a ColumnTransformer gets."""
    every = np.arange(step.n_features_in_)
    names = {name: k for k, name in enumerate(getattr(step, "feature_names_in_", ()))}

    def number(column: Any) -> int:
        return names[column] if isinstance(column, str) else int(every[column])

    found = {}
    for name, _, columns in step.transformers_:
        if isinstance(columns, slice):
            start, stop = columns.start, columns.stop
            start = names[start] if isinstance(start, str) else start
            stop = names[stop] + 1 if isinstance(stop, str) else stop  # included, as in pandas
            found[name] = every[slice(start, stop, columns.step)]
            continue
        listed = [columns] if isinstance(columns, str | int) else np.asarray(columns).tolist()
        if listed and isinstance(listed[0], bool):
            found[name] = np.flatnonzero(listed)
        else:
            found[name] = np.array([number(column) for column in listed], dtype=np.intp)
    return found


def _or(value: Any, default: Array) -> Array:
    return default if value is None else np.asarray(value, dtype=np.float64)


def score_stages(model: Any) -> list[Any]:
    """The stages of a model that predicts scores; the last is an ending."""
    model = getattr(model, "best_estimator_", model)
    if isinstance(model, Pipeline):
        *before, (_, last) = model.steps
        return [*stages_in_order(before, model.n_features_in_), *score_stages(last)]
    return _ending(model)


@singledispatch
def _ending(ranker: Any) -> list[Any]:
    """The stages of a ranker."""
    name = type(ranker).__name__
    ways = {
        "SparseBilinearRanker": "It has two inputs, features of queries and of documents: its "
        "weights are in coef_, and the score is q'coef_ d.",
        "Leaderboard": "It rates items and has no features: its ratings are in ratings_.",
    }
    way = ways.get(name, "Rankers of rankwise and pipelines that end in one can be.")
    raise ExportError(f"{name} cannot be exported. {way}")


@_ending.register
def _(ranker: LeastSquaresRanker) -> list[Any]:
    stages = _scaling_stages(ranker)
    basis, solution = ranker.basis_, ranker.solution_
    weights = _columns(to_host(solution.weights))
    constant = np.broadcast_to(
        np.asarray(to_host(solution.intercept), dtype=np.float64), weights.shape[1]
    )
    if basis.linear:
        span = getattr(ranker, "feature_range_", None)
        return [*stages, LinearScores(weights, constant, None if span is None else to_host(span))]
    if basis.on_ramps:
        low, wide = to_host(basis.low), to_host(basis.high) - to_host(basis.low)
        ends = np.stack([low, low + wide])
        ramps = [
            Columns(np.asarray(basis.feature), ranker.n_features_in_),
            Affine(low, 1.0 / wide, ends),
            Clip(0.0, 1.0),
        ]
        return [*stages, *ramps, LinearScores(weights, constant)]
    found = basis.expansion(weights)
    if found is None:
        raise ExportError(
            f"{type(ranker).__name__} cannot be exported: {type(basis).__name__} does not declare "
            "that its scores are linear, or a sum of kernel values (`expansion`)."
        )
    ending = _expansion(found.kernel, found.points, found.weights, constant - found.offset)
    return [*stages, ending]


@_ending.register
def _(ranker: RankSVM) -> list[Any]:
    basis = getattr(ranker, "basis_", None)
    if basis is not None:
        return [_expansion(basis.kernel, basis.points, _columns(ranker.dual_coef_), np.zeros(1))]
    span = getattr(ranker, "feature_range_", None)  # not in files of older versions
    return [LinearScores(_columns(ranker.coef_), np.zeros(1), span)]


@_ending.register
def _(ranker: BoostedRanker) -> list[Any]:
    return [_trees(ranker)]


@_ending.register
def _(ranker: MeanRanker) -> list[Any]:
    parts = [score_stages(part) for part in ranker.rankers_]
    means, scales = (
        None if values is None else _columns(values) for values in (ranker.means_, ranker.scales_)
    )
    return [MeanScores(parts, np.asarray(ranker.weights_), means, scales)]


@_ending.register
def _(ranker: AutoRanker) -> list[Any]:
    return _ending(ranker.mean_ranker_)


@_ending.register
def _(ranker: PairwiseGP) -> list[Any]:
    mixture = ranker.posterior_
    scale = getattr(ranker, "context_scale_", None)
    processes = [_process(process, ranker.X_fit_) for process in mixture.processes]
    return [ProcessScores(processes, mixture.weights, 0 if scale is None else len(scale))]


def _scaling_stages(ranker: LeastSquaresRanker) -> list[Any]:
    scaling = getattr(ranker, "scaling_", None)
    if scaling is None:
        return []
    if isinstance(scaling, ColumnStandard):
        mean, deviation = (np.asarray(to_host(v)) for v in (scaling.mean, scaling.deviation))
        span = getattr(ranker, "feature_range_", None)
        return [Affine(mean, 1.0 / deviation, None if span is None else to_host(span))]
    return [WithinQuery(scaling.name)]


def _trees(ranker: BoostedRanker) -> TreeScores:
    """The trees of LightGBM, in one list of nodes."""
    nodes: list[list[float]] = []  # feature, threshold, missing, first and second child
    leaves: list[float] = []
    roots = []

    def number(tree: dict[str, Any], waiting: list[Any]) -> int:
        """The number of a node, which is described later, or -1 - k for leaf k."""
        if "leaf_value" in tree:
            leaves.append(tree["leaf_value"])
            return -len(leaves)
        nodes.append([])
        waiting.append((len(nodes) - 1, tree))
        return len(nodes) - 1

    for info in ranker.booster_.dump_model()["tree_info"]:
        waiting: list[Any] = []
        root = number(info["tree_structure"], waiting)
        if root < 0:  # a tree without a split: both sides lead to its leaf
            roots.append(len(nodes))
            nodes.append([0, 0.0, 1, root, root])
            continue
        roots.append(root)
        while waiting:
            k, tree = waiting.pop()
            if tree["decision_type"] != "<=" or tree["missing_type"] not in ("None", "NaN"):
                raise ExportError(
                    "Trees with splits of categories or with zeros as missing values cannot be "
                    "exported."
                )
            at = float(tree["threshold"])
            is_filled = tree["missing_type"] == "None"  # a missing value is read as 0
            goes_first = at >= 0.0 if is_filled else bool(tree["default_left"])
            children = [number(tree[side], waiting) for side in ("left_child", "right_child")]
            nodes[k] = [tree["split_feature"], at, goes_first, *children]
    feature, threshold, missing, first, second = np.array(nodes, dtype=np.float64).T
    return TreeScores(
        feature.astype(np.int64),
        threshold,
        missing.astype(np.int64),
        first.astype(np.int64),
        second.astype(np.int64),
        np.array(roots),
        np.array(leaves, dtype=np.float64),
        ranker.n_features_in_,
    )


def _expansion(kernel: Any, points: Any, weights: Array, constant: Array) -> KernelScores:
    if points is None:  # a precomputed kernel: `kernel_values` raises the error
        points = np.zeros((len(weights), 1))
    points = to_host(points)
    rows = points.toarray() if is_sparse(points) else points
    return KernelScores(kernel, np.asarray(rows, dtype=np.float64), weights, constant)


def _process(process: ConditionedProcess, rows: Array) -> Process | LinearProcess:
    """What a process needs to predict, with solutions of triangular systems as products."""
    basis, posterior = process.basis, process.approximation.weights
    u, kernel, r = posterior.mean, process.hyper.kernel, len(process.basis)
    # Of P in reverse order = root root': |root^-1 J c|^2 is the posterior variance of c'u.
    eye = np.eye(r)
    spread = solve_triangular(posterior.root, eye[::-1], lower=True).T if r else np.zeros((0, 0))
    if basis.is_linear:
        n_columns = rows.shape[1]
        to_weights, offset = np.zeros((n_columns, r)), np.zeros(r)
        for k, (column, size) in enumerate(zip(basis.columns, basis.scales, strict=True)):
            if column == CONSTANT:
                offset[k] = size
            else:
                to_weights[column, k] = size
        mean, constant = (to_weights @ u)[:, None], float(offset @ u)
        return LinearProcess(kernel, rows, mean, constant, to_weights, offset, spread)
    chooses = np.zeros((len(process.points), r))
    chooses[basis.first, np.arange(r)] = 1.0
    two = np.flatnonzero(basis.second >= 0)
    chooses[basis.second[two], two] -= 1.0
    root = np.tril(basis.root)
    to_weights = chooses @ solve_triangular(root, eye, lower=True).T if r else chooses
    w = solve_triangular(root, u, trans="T", lower=True) if r else u
    points = process.points if r else rows
    return Process(kernel, points, (chooses @ w)[:, None], to_weights, spread)


def _columns(values: Any) -> Array:
    """Values with an axis for outputs."""
    array = np.asarray(to_host(values), dtype=np.float64)
    if not np.isfinite(array).all():
        raise DataError("The model has weights that are not finite numbers.")
    return array.reshape(len(array), -1)


MOST_CELLS = 2 * 10**7  # of rows that are drawn


@dataclass(frozen=True, eq=False)
class ModelStages:
    """A fitted model as stages, with its features."""

    stages: Sequence[Any]
    n_features: int
    names: tuple[str, ...] | None  # that it was fitted with

    @cached_property
    def texts(self) -> dict[int, Lookup]:
        """The features that are text."""
        return text_columns(self.stages, np.arange(self.n_features))

    def some_rows(self, wanted: int) -> int:
        """A number of rows to draw: fewer than wanted, if there are very many features."""
        return max(4, min(wanted, MOST_CELLS // max(self.n_features, 1)))


def read_stages(model: Any) -> ModelStages:
    """The stages of a fitted ranker, pipeline or search."""
    if isinstance(model, type) or not hasattr(model, "predict"):
        raise ExportError(f"Only a fitted ranker or pipeline can be exported: got {model!r}.")
    check_is_fitted(model)
    n_features = int(getattr(model, "n_features_in_", 0))
    names = getattr(model, "feature_names_in_", None)
    stages = score_stages(model)
    return ModelStages(
        stages, n_features, None if names is None else tuple(str(name) for name in names)
    )
