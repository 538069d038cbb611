"""A fitted model as stages, and the stages that make scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, singledispatch
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from rankwise.auto.auto_ranker import AutoRanker
from rankwise.backends.arrays import Array, Index, is_sparse, to_host
from rankwise.boosted.boosted_ranker import BoostedRanker
from rankwise.errors import DataError, ExportError
from rankwise.estimators.base import LeastSquaresRanker
from rankwise.export._graph import IN_FLOAT32, ML, Value, kernel_values
from rankwise.export._stages import (
    MEAN,
    Affine,
    Branches,
    Calendar,
    Clip,
    Columns,
    FirstUses,
    Linear,
    Lookup,
    Stage,
    Weighted,
    WithinQuery,
    between,
    every_stage,
    stages_in_order,
    width,
)
from rankwise.gp.inference import CONSTANT
from rankwise.gp.pairwise_gp import PairwiseGP
from rankwise.gp.process import ConditionedProcess
from rankwise.kernels import NamedKernel
from rankwise.model_selection.meta_rankers import MeanRanker
from rankwise.preprocessing.table_encoder import encoder_of
from rankwise.routing import first_step
from rankwise.scaling import ColumnStandard
from rankwise.svm.rank_svm import RankSVM

MOST_CELLS = 2 * 10**7  # of rows that are drawn


@dataclass(frozen=True, eq=False)
class KernelScores(Stage):
    """k(x, points) weights + constant."""

    kernel: Any
    points: Array
    weights: Array
    constant: Array

    @property
    def in_float32(self) -> bool:
        return isinstance(self.kernel, NamedKernel) and self.kernel.name in IN_FLOAT32

    def width(self, n_columns: int) -> int:
        return int(self.weights.shape[1])

    def pull(self, linear: Linear) -> Linear:
        name = getattr(self.kernel, "name", None) or type(self.kernel).__name__
        if name == "linear":
            return linear.behind(self.points.T @ self.weights, self.constant)
        raise ExportError(f"its kernel is {name}, so that scores are not sums of single features")

    def emit(self, x: Value) -> Value:
        K = kernel_values(self.kernel, x, self.points)
        return (K @ self.weights).shifted(self.constant)

    def undo(self, rows: Array, rng: np.random.Generator) -> Array:
        return between(self.points, len(rows), rng)


@dataclass(frozen=True, eq=False)
class TreeScores(Stage):
    """The sum of trees. A node sends rows with x[feature] <= threshold to its first child.

    Children are numbers of nodes, or -1 - k for leaf k. Every tree has a node.
    """

    feature: Index  # of each node of all trees
    threshold: Array
    missing_first: Index  # 1: rows whose value is missing go to the first child
    first: Index
    second: Index
    roots: Index
    leaves: Array
    n_columns: int
    takes_missing = True

    def width(self, n_columns: int) -> int:
        return 1

    def pull(self, linear: Linear) -> Linear:
        raise ExportError("its scores are sums of trees")

    def emit(self, x: Value) -> Value:
        graph = x.graph
        attributes: dict[str, Any] = {}
        for name, child in (("true", self.first), ("false", self.second)):
            attributes[f"nodes_{name}leafs"] = (child < 0).astype(int).tolist()
            attributes[f"nodes_{name}nodeids"] = np.where(child < 0, -1 - child, child).tolist()
        return x.apply(
            "TreeEnsemble",
            domain=ML,
            aggregate_function=1,  # the sum
            post_transform=0,  # none
            n_targets=1,
            tree_roots=self.roots.tolist(),
            nodes_featureids=self.feature.tolist(),
            nodes_splits=graph.tensor(self.threshold),
            nodes_modes=graph.tensor(np.zeros(len(self.feature), dtype=np.uint8)),  # <=
            nodes_missing_value_tracks_true=self.missing_first.tolist(),
            leaf_targetids=[0] * len(self.leaves),
            leaf_weights=graph.tensor(self.leaves),
            **attributes,
        )

    def undo(self, rows: Array, rng: np.random.Generator) -> Array:
        """Rows in the middle halves between thresholds; NaN in features that no tree uses."""
        n_rows = len(rows)
        rows = np.full((n_rows, self.n_columns), np.nan)
        for column in np.unique(self.feature):
            values = np.unique(self.threshold[self.feature == column])
            reach = np.ptp(values) or max(1.0, abs(float(values[0])))
            ends = np.concatenate(([values[0] - reach], values, [values[-1] + reach]))
            cell = rng.integers(len(ends) - 1, size=n_rows)
            rows[:, column] = ends[cell] + rng.uniform(0.25, 0.75, n_rows) * np.diff(ends)[cell]
        return rows


@dataclass(frozen=True, eq=False)
class Process:
    """A Gaussian process z'mean + constant, where z = k(x, points), or x if that is linear."""

    kernel: Any
    points: Array
    is_linear: bool
    mean: Array  # of shape (columns of z, 1)
    constant: float
    to_weights: Array  # from z to coordinates of the weights, of shape (columns of z, r)
    offset: Array  # of these coordinates, of shape (r,)
    spread: Array  # of the weights in the posterior, a factor with r rows

    def emit_mean_and_variance(self, x: Value) -> tuple[Value, Value]:
        """With c = z to_weights + offset, the variance is k(x, x) - |c|^2 + |c spread|^2."""
        prior = kernel_values(self.kernel, x, None)
        if not len(self.spread):  # nothing was compared
            return x.zeros(1), prior
        z = x if self.is_linear else kernel_values(self.kernel, x, self.points)
        c = (z @ self.to_weights).shifted(self.offset)
        left = (prior - c.squares()).apply("Max", 0.0)
        mean = (z @ self.mean).shifted(np.array([self.constant]))
        return mean, left + (c @ self.spread).squares()


@dataclass(frozen=True, eq=False)
class ProcessScores(Stage):
    """The mean and the standard deviation of a mixture of Gaussian processes."""

    processes: Sequence[Process]
    weights: Array
    names = ("score", "std")

    def width(self, n_columns: int) -> int:
        return 1

    def pull(self, linear: Linear) -> Linear:
        if not all(process.is_linear for process in self.processes):
            kernel = self.processes[0].kernel
            raise ExportError(f"its kernel is {kernel}, so that scores are not sums of features")
        mean = np.tensordot(self.weights, [process.mean for process in self.processes], axes=1)
        constant = self.weights @ [process.constant for process in self.processes]
        return linear.behind(mean, np.array([constant]))

    def emit(self, x: Value) -> Value:
        return self.outputs(x)["score"]

    def outputs(self, x: Value) -> dict[str, Value]:
        parts = [process.emit_mean_and_variance(x) for process in self.processes]
        if len(parts) == 1:
            mean, variance = parts[0]
            return {"score": mean, "std": variance.apply("Sqrt")}
        means, variances = (
            part[0].apply("Concat", *part[1:], axis=1) for part in zip(*parts, strict=True)
        )
        weights = self.weights[:, None]
        mean = means @ weights
        gap = means - mean
        return {"score": mean, "std": ((variances + gap * gap) @ weights).apply("Sqrt")}

    def undo(self, rows: Array, rng: np.random.Generator) -> Array:
        n_rows, points = len(rows), self.processes[0].points
        rows = between(points, n_rows, rng)
        known = rng.random(n_rows) < 0.2  # items that were compared
        rows[known] = points[rng.integers(len(points), size=int(known.sum()))]
        return rows


def score_stages(model: Any) -> list[Any]:
    """The stages of a model that predicts scores; the last makes the scores."""
    model = getattr(model, "best_estimator_", model)
    if isinstance(model, Pipeline):
        *before, last = (step for _, step in model.steps)
        n_features = first_step(model).n_features_in_
        return [*stages_in_order(before, n_features), *score_stages(last)]
    return _ending(model)


@singledispatch
def _ending(ranker: Any) -> list[Any]:
    """The stages of a ranker."""
    name = type(ranker).__name__
    ways = {
        "SparseBilinearRanker": "It has two inputs, features of queries and of documents: its "
        "weights are in coef_, and the score is q'coef_ d.",
        "TwoSidedRankRLS": "It has two inputs, features of rows and of columns, which only a graph "
        "of ONNX has: use rankwise.export.to_onnx.",
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
        return [*stages, Weighted(weights, constant, None if span is None else to_host(span))]
    if basis.on_ramps:
        low, wide = to_host(basis.low), to_host(basis.high) - to_host(basis.low)
        ends = np.stack([low, low + wide])
        ramps = [
            Columns(np.asarray(basis.feature), ranker.n_features_in_),
            Affine(low, 1.0 / wide, ends),
            Clip(0.0, 1.0),
        ]
        return [*stages, *ramps, Weighted(weights, constant)]
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
    return [Weighted(_columns(ranker.coef_), np.zeros(1), span)]


@_ending.register
def _(ranker: BoostedRanker) -> list[Any]:
    return [_trees(ranker)]


@_ending.register
def _(ranker: MeanRanker) -> list[Any]:
    """The parts side by side, each standardized by numbers or within the query, and their mean."""
    parts = [score_stages(part) for part in ranker.rankers_]
    n_outputs = width(parts[0], 0)
    means, scales = ranker.means_, ranker.scales_
    for k, part in enumerate(parts):
        scaling: Stage = WithinQuery(MEAN, "the scores of its parts")
        if means is not None and scales is not None:
            scaling = Affine(_columns(means)[k], 1.0 / _columns(scales)[k])
        part.append(scaling)
    weights = np.kron(np.asarray(ranker.weights_)[:, None], np.eye(n_outputs))
    return [Branches(parts, ranker.n_features_in_), Weighted(weights, np.zeros(n_outputs))]


@_ending.register
def _(ranker: AutoRanker) -> list[Any]:
    encoder = getattr(ranker, "encoder_", None)
    before = stages_in_order([encoder], ranker.n_features_in_)
    return [*before, *_ending(ranker.mean_ranker_)]


@_ending.register
def _(ranker: PairwiseGP) -> list[Any]:
    mixture = ranker.posterior_
    processes = [_process(process, ranker.X_fit_) for process in mixture.processes]
    return [ProcessScores(processes, mixture.weights)]


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
    nodes: list[list[float]] = []  # feature, missing, first and second child, threshold
    leaves: list[float] = []
    roots = []
    for info in ranker.booster_.dump_model()["tree_info"]:
        root, leaf, waiting = len(nodes), len(leaves), [info["tree_structure"]]
        roots.append(root)
        leaves += [0.0] * info["num_leaves"]
        # A tree without a split has a node, and both sides lead to its leaf.
        nodes += [[0, 1, -1 - leaf, -1 - leaf, 0.0]] * max(1, info["num_leaves"] - 1)
        while waiting:
            tree = waiting.pop()
            if "leaf_value" in tree:
                leaves[leaf + tree.get("leaf_index", 0)] = tree["leaf_value"]
                continue
            if tree["decision_type"] != "<=" or tree["missing_type"] not in ("None", "NaN"):
                raise ExportError(
                    "Trees with splits of categories or with zeros as missing values cannot be "
                    "exported."
                )
            at = float(tree["threshold"])
            is_filled = tree["missing_type"] == "None"  # a missing value is read as 0
            goes_first = at >= 0.0 if is_filled else bool(tree["default_left"])
            children = [tree["left_child"], tree["right_child"]]
            numbers = [
                -1 - leaf - child["leaf_index"] if "leaf_value" in child
                else root + child["split_index"]
                for child in children
            ]  # fmt: skip
            nodes[root + tree["split_index"]] = [tree["split_feature"], goes_first, *numbers, at]
            waiting += children
    *whole, threshold = np.array(nodes, dtype=np.float64).T
    feature, missing, first, second = np.array(whole).astype(np.int64)
    found = (feature, threshold, missing, first, second, np.array(roots))
    return TreeScores(*found, np.array(leaves, dtype=np.float64), ranker.n_features_in_)


def _expansion(kernel: Any, points: Any, weights: Array, constant: Array) -> KernelScores:
    if points is None:  # a precomputed kernel: `kernel_values` raises the error
        points = np.zeros((len(weights), 1))
    points = to_host(points)
    rows = points.toarray() if is_sparse(points) else points
    return KernelScores(kernel, np.asarray(rows, dtype=np.float64), weights, constant)


def _process(process: ConditionedProcess, rows: Array) -> Process:
    """What a process needs to predict, with solutions of triangular systems as products."""
    basis, posterior = process.basis, process.approximation.weights
    u, kernel = posterior.mean[process.n_context :], process.hyper.kernel
    # Of P in reverse order = root root': |root^-1 J c|^2 is the posterior variance of c'u.
    r = len(u)
    eye = np.eye(r)
    own = np.eye(len(posterior.mean), r)[:, ::-1]  # weights of the context come last
    spread = solve_triangular(posterior.root, own, lower=True).T if r else np.zeros((0, 0))
    if basis.is_linear:
        n_columns = rows.shape[1]
        to_weights, offset = np.zeros((n_columns, r)), np.zeros(r)
        for k, (column, size) in enumerate(zip(basis.columns, basis.scales, strict=True)):
            if column == CONSTANT:
                offset[k] = size
            else:
                to_weights[column, k] = size
        mean, constant = (to_weights @ u)[:, None], float(offset @ u)
        return Process(kernel, rows, True, mean, constant, to_weights, offset, spread)
    chooses = np.zeros((len(process.points), r))
    chooses[basis.first, np.arange(r)] = 1.0
    two = np.flatnonzero(basis.second >= 0)
    chooses[basis.second[two], two] -= 1.0
    root = np.tril(basis.root)
    to_weights = chooses @ solve_triangular(root, eye, lower=True).T if r else chooses
    w = solve_triangular(root, u, trans="T", lower=True) if r else u
    points = process.points if r else rows
    mean = (chooses @ w)[:, None]
    return Process(kernel, points, False, mean, 0.0, to_weights, np.zeros(r), spread)


def _columns(values: Any) -> Array:
    """Values with an axis for outputs."""
    array = np.asarray(to_host(values), dtype=np.float64)
    if not np.isfinite(array).all():
        raise DataError("The model has weights that are not finite numbers.")
    return array.reshape(len(array), -1)


@dataclass(frozen=True, eq=False)
class ModelStages:
    """A fitted model as stages, with its features."""

    stages: Sequence[Any]
    n_features: int
    names: tuple[str, ...] | None  # that it was fitted with
    takes_tables: bool = False  # text, dates and missing values

    @cached_property
    def uses(self) -> FirstUses:
        """How the features are used first."""
        return FirstUses.of(self.stages, self.n_features)

    @property
    def texts(self) -> dict[int, Lookup]:
        """The features that are text."""
        return self.uses.texts

    @property
    def encoders(self) -> dict[int, Lookup | Calendar]:
        """The features that are text or dates."""
        return {**self.uses.texts, **self.uses.dates}

    @property
    def within_queries(self) -> bool:
        """Whether the score of a row depends on the other rows of its query."""
        return any(stage.within_queries for stage in every_stage(self.stages))

    def some_rows(self, wanted: int) -> int:
        """A number of rows to draw: fewer than wanted, if there are very many features."""
        return max(4, min(wanted, MOST_CELLS // max(self.n_features, 1)))


def read_stages(model: Any) -> ModelStages:
    """The stages of a fitted ranker, pipeline or search."""
    if isinstance(model, type) or not hasattr(model, "predict"):
        raise ExportError(f"Only a fitted ranker or pipeline can be exported: got {model!r}.")
    check_is_fitted(model)
    first, stages = first_step(model), score_stages(model)
    n_features = int(getattr(first, "n_features_in_", 0))
    names = getattr(first, "feature_names_in_", None)
    known = None if names is None else tuple(str(name) for name in names)
    return ModelStages(stages, n_features, known, encoder_of(model) is not None)
