"""Fitted rankers as stages, of which the last gives scores."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from sklearn.pipeline import Pipeline

from rankwise.auto.auto_ranker import AutoRanker
from rankwise.backends.arrays import Array, is_sparse, to_host
from rankwise.boosted.boosted_ranker import BoostedRanker
from rankwise.errors import DataError, ExportError
from rankwise.estimators.least_squares.base import LeastSquaresRanker
from rankwise.export._endings import (
    KernelScores,
    LinearProcess,
    LinearScores,
    MeanScores,
    Process,
    ProcessScores,
    TreeScores,
)
from rankwise.export._stages import Affine, Clip, Columns, WithinQuery
from rankwise.export._transformer_stages import stages_in_order
from rankwise.gp.inference import CONSTANT
from rankwise.gp.pairwise_gp import PairwiseGP
from rankwise.gp.process import ConditionedProcess
from rankwise.model_selection.mean_ranker import MeanRanker
from rankwise.scaling import ColumnStandard
from rankwise.svm.rank_svm import RankSVM


def score_stages(model: Any) -> list[Any]:
    """The stages of a model that gives scores; the last is an ending."""
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
    if points is None:  # a precomputed kernel: `kernel_values` says that it cannot be exported
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
