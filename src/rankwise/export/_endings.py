"""The last stage of a model: from columns to scores, of shape (rows, outputs)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.errors import ExportError
from rankwise.export._graph import ML, Graph, Value
from rankwise.export._kernels import IN_FLOAT32, kernel_diagonal, kernel_values
from rankwise.export._stages import (
    Linear,
    WithinQuery,
    between,
    draw_rows,
    emit_all,
    linear_of,
    standardized,
    uniform,
)
from rankwise.kernels.functions import NamedKernel

EQUAL = 1e-12  # of the largest score: `MeanRanker` takes smaller differences for none


@dataclass(frozen=True, eq=False)
class LinearScores:
    """x'weights + constant; `span` is the range of the training rows, where it is known."""

    weights: Array
    constant: Array
    span: Array | None = None

    @property
    def linear(self) -> Linear:
        return Linear(self.weights, self.constant)

    @property
    def in_float32(self) -> bool:
        return False  # a product costs little in float64, and large features lose no digits

    def emit(self, graph: Graph, x: Value) -> Value:
        return _shifted(graph, graph.add("MatMul", x, self.weights), self.constant)

    def draw(self, n_rows: int, rng: np.random.Generator) -> Array:
        if self.span is None:
            return np.full((n_rows, len(self.weights)), np.nan)
        return uniform(self.span, n_rows, rng)


@dataclass(frozen=True, eq=False)
class KernelScores:
    """k(x, points) weights + constant."""

    kernel: Any
    points: Array
    weights: Array
    constant: Array

    @property
    def linear(self) -> Linear:
        name = getattr(self.kernel, "name", None) or type(self.kernel).__name__
        if name == "linear":
            return Linear(self.points.T @ self.weights, self.constant)
        raise ExportError(f"its kernel is {name}, so that scores are not sums of single features")

    @property
    def in_float32(self) -> bool:
        return isinstance(self.kernel, NamedKernel) and self.kernel.name in IN_FLOAT32

    def emit(self, graph: Graph, x: Value) -> Value:
        K = kernel_values(graph, self.kernel, x, self.points)
        return _shifted(graph, graph.add("MatMul", K, self.weights), self.constant)

    def draw(self, n_rows: int, rng: np.random.Generator) -> Array:
        return between(self.points, n_rows, rng)


@dataclass(frozen=True, eq=False)
class TreeScores:
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

    @property
    def linear(self) -> Linear:
        raise ExportError("its scores are sums of trees")

    @property
    def in_float32(self) -> bool:
        return False  # thresholds would move

    def emit(self, graph: Graph, x: Value) -> Value:
        attributes: dict[str, Any] = {}
        for name, child in (("true", self.first), ("false", self.second)):
            attributes[f"nodes_{name}leafs"] = (child < 0).astype(int).tolist()
            attributes[f"nodes_{name}nodeids"] = np.where(child < 0, -1 - child, child).tolist()
        return graph.add(
            "TreeEnsemble",
            x,
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

    def draw(self, n_rows: int, rng: np.random.Generator) -> Array:
        """Rows in the middle halves between thresholds; NaN in features that no tree uses."""
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
    """A Gaussian process: mean k(x, points) a, and what its variance needs."""

    kernel: Any
    points: Array
    mean: Array  # a, of shape (points, 1)
    to_weights: Array  # from kernel values to coordinates of the weights, of shape (points, r)
    spread: Array  # of the weights in the posterior, a factor of shape (r, r)

    def emit_mean_and_variance(self, graph: Graph, x: Value) -> tuple[Value, Value]:
        prior = kernel_diagonal(graph, self.kernel, x)
        if not len(self.spread):  # nothing was compared
            return graph.zeros(x, 1), prior
        K = kernel_values(graph, self.kernel, x, self.points)
        mean = graph.add("MatMul", K, self.mean)
        c = graph.add("MatMul", K, self.to_weights)
        return mean, _conditioned(graph, prior, c, self.spread)


@dataclass(frozen=True, eq=False)
class LinearProcess:
    """A Gaussian process that is linear in its coordinates: x'a + constant."""

    kernel: Any
    points: Array  # rows of training
    mean: Array  # of shape (columns, 1)
    constant: float
    to_weights: Array  # of shape (columns, r)
    offset: Array  # of shape (r,)
    spread: Array

    def emit_mean_and_variance(self, graph: Graph, x: Value) -> tuple[Value, Value]:
        prior = kernel_diagonal(graph, self.kernel, x)
        if not len(self.spread):
            return graph.zeros(x, 1), prior
        mean = graph.add("Add", graph.add("MatMul", x, self.mean), self.constant)
        c = graph.add("Add", graph.add("MatMul", x, self.to_weights), self.offset)
        return mean, _conditioned(graph, prior, c, self.spread)


@dataclass(frozen=True, eq=False)
class ProcessScores:
    """The mean and the standard deviation of a mixture of Gaussian processes."""

    processes: Sequence[Process | LinearProcess]
    weights: Array
    n_context: int = 0  # columns of context after the features, which are 0 for items

    @property
    def linear(self) -> Linear:
        if not all(isinstance(process, LinearProcess) for process in self.processes):
            kernel = self.processes[0].kernel
            raise ExportError(f"its kernel is {kernel}, so that scores are not sums of features")
        means = [process.mean for process in self.processes]
        constants = [getattr(process, "constant", 0.0) for process in self.processes]
        mean = np.tensordot(self.weights, means, axes=1)
        kept = mean[: len(mean) - self.n_context]
        return Linear(kept, np.array([self.weights @ constants]))

    @property
    def in_float32(self) -> bool:
        return False  # variances are small differences of large numbers

    def emit(self, graph: Graph, x: Value) -> Value:
        return self.emit_with_std(graph, x)[0]

    def emit_with_std(self, graph: Graph, x: Value) -> tuple[Value, Value]:
        """The scores, and their standard deviations."""
        if self.n_context:
            x = graph.add("Concat", x, graph.zeros(x, self.n_context), axis=1)
        parts = [process.emit_mean_and_variance(graph, x) for process in self.processes]
        if len(parts) == 1:
            mean, variance = parts[0]
            return mean, graph.add("Sqrt", variance)
        means, variances = (graph.add("Concat", *part, axis=1) for part in zip(*parts, strict=True))
        mean = graph.add("MatMul", means, self.weights[:, None])
        gap = graph.add("Sub", means, mean)
        total = graph.add("Add", variances, graph.add("Mul", gap, gap))
        return mean, graph.add("Sqrt", graph.add("MatMul", total, self.weights[:, None]))

    def draw(self, n_rows: int, rng: np.random.Generator) -> Array:
        points = self.processes[0].points
        rows = between(points, n_rows, rng)
        known = rng.random(n_rows) < 0.2  # items that were compared
        rows[known] = points[rng.integers(len(points), size=int(known.sum()))]
        return rows[:, : points.shape[1] - self.n_context]


@dataclass(frozen=True, eq=False)
class MeanScores:
    """The weighted mean of scores, each standardized by numbers or within the query."""

    parts: Sequence[Sequence[Any]]
    weights: Array
    means: Array | None  # of shape (parts, outputs)
    scales: Array | None

    @property
    def linear(self) -> Linear:
        if self.means is None or self.scales is None:
            raise ExportError("the scores of its parts are standardized within each query")
        weights: Any = 0.0
        constant: Any = 0.0
        for k, part in enumerate(self.parts):
            linear, share = linear_of(part), self.weights[k] / self.scales[k]
            weights = weights + linear.weights * share
            constant = constant + (linear.constant - self.means[k]) * share
        return Linear(weights, constant)

    @property
    def in_float32(self) -> bool:
        return False

    def emit(self, graph: Graph, x: Value) -> Value:
        total = None
        for k, part in enumerate(self.parts):
            score = emit_all(graph, part, x)
            if self.means is not None and self.scales is not None:
                score = graph.affine(score, self.means[k], 1.0 / self.scales[k])
            else:
                score = standardized(graph, score, EQUAL)
            score = graph.add("Mul", score, float(self.weights[k]))
            total = score if total is None else graph.add("Add", total, score)
        assert total is not None
        return total

    def draw(self, n_rows: int, rng: np.random.Generator) -> Array:
        found = None
        for part in self.parts:
            rows = draw_rows(part, n_rows, rng)
            found = rows if found is None else np.where(np.isnan(found), rows, found)
        assert found is not None
        return found


def is_within_queries(stages: Sequence[Any]) -> bool:
    """Whether the score of a row depends on the other rows of its query."""
    for stage in stages:
        parts = getattr(stage, "parts", ())
        if isinstance(stage, WithinQuery) or any(is_within_queries(part) for part in parts):
            return True
        if isinstance(stage, MeanScores) and stage.means is None:
            return True
    return False


def _shifted(graph: Graph, scores: Value, constant: Array) -> Value:
    return graph.add("Add", scores, constant) if constant.any() else scores


def _conditioned(graph: Graph, prior: Value, c: Value, spread: Array) -> Value:
    """prior - |c|^2 + |c spread|^2, where the first difference is at least 0."""
    explained = graph.sum(graph.add("Mul", c, c), 1)
    rest = graph.add("Max", graph.add("Sub", prior, explained), 0.0)
    whitened = graph.add("MatMul", c, spread)
    return graph.add("Add", rest, graph.sum(graph.add("Mul", whitened, whitened), 1))
