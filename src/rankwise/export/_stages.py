"""What a fitted model does to rows, as a few kinds of stages.

A model is a sequence of stages. Each can be folded into the weights of a linear function behind it
(`pull`), appended to an ONNX graph (`emit`), and undone as far as possible, to get rows like those
of training (`undo`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.errors import ExportError
from rankwise.export._graph import TREES, Graph, Value
from rankwise.export._kernels import IN_FLOAT32, kernel_diagonal, kernel_values
from rankwise.kernels.functions import NamedKernel

EQUAL = 1e-12  # of the largest score: `MeanRanker` takes smaller differences for none
SPREAD = 4.0  # standard deviations that rows are drawn from


@dataclass(frozen=True, eq=False)
class Linear:
    """x'weights + constant."""

    weights: Array  # of shape (columns, outputs)
    constant: Array  # of shape (outputs,)


class Stage(Protocol):
    """A step on the way from features to scores."""

    def pull(self, linear: Linear) -> Linear:
        """This stage and then a linear function, as one linear function of its input."""

    def emit(self, graph: Graph, x: Value) -> Value:
        """Append the stage to a graph."""

    def undo(self, rows: Array) -> Array:
        """Rows that this stage maps to given ones, or close to them; NaN where anything will do."""


@dataclass(frozen=True, eq=False)
class Columns:
    """Some of the columns."""

    chosen: Index
    n_columns: int  # before

    def pull(self, linear: Linear) -> Linear:
        weights = np.zeros((self.n_columns, linear.weights.shape[1]))
        np.add.at(weights, self.chosen, linear.weights)
        return Linear(weights, linear.constant)

    def emit(self, graph: Graph, x: Value) -> Value:
        if np.array_equal(self.chosen, np.arange(self.n_columns)):
            return x
        return graph.add("Gather", x, self.chosen, axis=1)

    def undo(self, rows: Array) -> Array:
        out = np.full((len(rows), self.n_columns), np.nan)
        out[:, self.chosen] = rows
        return out


@dataclass(frozen=True, eq=False)
class Affine:
    """(x - centre) factor for each column.

    `span` is the range of the training rows, where it is known: of shape (2, columns).
    """

    centre: Array
    factor: Array
    span: Array | None = None
    kind: str = "standard"  # or "min_max": how a search engine would call it

    def pull(self, linear: Linear) -> Linear:
        weights = linear.weights * self.factor[:, None]
        return Linear(weights, linear.constant - self.centre @ weights)

    def emit(self, graph: Graph, x: Value) -> Value:
        return graph.affine(x, self.centre, self.factor)

    def undo(self, rows: Array) -> Array:
        usable = np.where(self.factor == 0.0, 1.0, self.factor)
        return np.asarray(rows / usable + self.centre)


@dataclass(frozen=True, eq=False)
class Project:
    """(x - centre) matrix, as of principal components."""

    centre: Array
    matrix: Array  # of shape (columns before, columns after)

    def pull(self, linear: Linear) -> Linear:
        weights = self.matrix @ linear.weights
        return Linear(weights, linear.constant - self.centre @ weights)

    def emit(self, graph: Graph, x: Value) -> Value:
        x = graph.affine(x, self.centre, np.ones(len(self.centre)))
        return graph.add("MatMul", x, self.matrix)

    def undo(self, rows: Array) -> Array:
        return np.asarray(rows @ np.linalg.pinv(self.matrix) + self.centre)


@dataclass(frozen=True, eq=False)
class FillMissing:
    """Values in place of missing ones, which are NaN or a number."""

    values: Array
    missing: float

    def pull(self, linear: Linear) -> Linear:
        return linear  # for rows without missing values; `LinearModel.missing` has the others

    def emit(self, graph: Graph, x: Value) -> Value:
        is_missing = (
            graph.add("IsNaN", x)
            if np.isnan(self.missing)
            else graph.add("Equal", x, float(self.missing))
        )
        return graph.add("Where", is_missing, self.values, x)

    def undo(self, rows: Array) -> Array:
        return np.where(np.isnan(rows), self.values, rows)


@dataclass(frozen=True, eq=False)
class Clip:
    """Values of each column between bounds."""

    low: float
    high: float

    def pull(self, linear: Linear) -> Linear:
        raise ExportError("values are cut off at bounds (MinMaxScaler with clip=True, or ramps)")

    def emit(self, graph: Graph, x: Value) -> Value:
        return graph.add("Min", graph.add("Max", x, self.low), self.high)

    def undo(self, rows: Array) -> Array:
        return rows


@dataclass(frozen=True, eq=False)
class WithinQuery:
    """A scaling of each column by the rows of the query: all rows of a call are one query."""

    name: str

    def pull(self, linear: Linear) -> Linear:
        raise ExportError(
            f"features are scaled within each query ({self.name}), so that the score of a row "
            "depends on the other rows"
        )

    def emit(self, graph: Graph, x: Value) -> Value:
        rows = np.array([0])
        if self.name == "query-ranks":
            return _ranks(graph, x)
        low = graph.add("ReduceMin", x, rows, keepdims=1)
        high = graph.add("ReduceMax", x, rows, keepdims=1)
        span = graph.add("Sub", high, low)
        span = graph.add("Where", graph.add("Equal", span, 0.0), 1.0, span)
        x = graph.add("Div", graph.add("Sub", x, low), span)
        return x if self.name == "query-minmax" else _standardized(graph, x)

    def undo(self, rows: Array) -> Array:
        return rows


@dataclass(frozen=True, eq=False)
class Branches:
    """Several sequences of stages on the same columns, side by side."""

    parts: Sequence[Sequence[Any]]
    widths: Sequence[int]  # columns of each

    def pull(self, linear: Linear) -> Linear:
        ends = np.cumsum(self.widths)
        pulled = []
        for part, end, width in zip(self.parts, ends, self.widths, strict=True):
            weights = linear.weights[end - width : end]
            pulled.append(pull_through(part, Linear(weights, np.zeros(weights.shape[1]))))
        constant = linear.constant + sum(one.constant for one in pulled)
        return Linear(np.sum([one.weights for one in pulled], axis=0), constant)

    def emit(self, graph: Graph, x: Value) -> Value:
        made = [emit_all(graph, part, x) for part in self.parts]
        return made[0] if len(made) == 1 else graph.add("Concat", *made, axis=1)

    def undo(self, rows: Array) -> Array:
        ends = np.cumsum(self.widths)
        found: Array | None = None
        for part, end, width in zip(self.parts, ends, self.widths, strict=True):
            before = undo_all(part, rows[:, end - width : end])
            found = before if found is None else np.where(np.isnan(found), before, found)
        assert found is not None
        return found


# Endings: from columns to scores, of shape (rows, outputs) ----------------------------------------


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
            domain=TREES,
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
        """Rows around the thresholds; NaN in features that no tree uses."""
        rows = np.full((n_rows, self.n_columns), np.nan)
        for column in np.unique(self.feature):
            values = self.threshold[self.feature == column]
            reach = np.ptp(values) or max(1.0, abs(float(values[0])))
            span = np.array([[values.min() - reach], [values.max() + reach]])
            rows[:, column] = uniform(span, n_rows, rng)[:, 0]
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
            raise ExportError(f"its kernel is {kernel}, so that scores are no sums of features")
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
                score = _standardized(graph, score, EQUAL)
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


def linear_of(stages: Sequence[Any]) -> Linear:
    """All stages as one linear function; an `ExportError` says why there is none."""
    *before, last = stages
    return pull_through(before, last.linear)


def pull_through(stages: Sequence[Any], linear: Linear) -> Linear:
    """Stages and then a linear function, as one linear function."""
    for stage in reversed(stages):
        linear = stage.pull(linear)
    return linear


def emit_all(graph: Graph, stages: Sequence[Any], x: Value) -> Value:
    """Append stages to a graph."""
    for stage in stages:
        x = stage.emit(graph, x)
    return x


def undo_all(stages: Sequence[Any], rows: Array) -> Array:
    """Rows that stages map to given ones; where anything will do, values in a known range."""
    for stage in reversed(stages):
        rows = stage.undo(rows)
        span = getattr(stage, "span", None)
        if span is not None:
            drawn = uniform(span, len(rows), np.random.default_rng(0))
            rows = np.where(np.isnan(rows), drawn, rows)
    return rows


def draw_rows(stages: Sequence[Any], n_rows: int, rng: np.random.Generator) -> Array:
    """Rows like those of training, as far as the stages know them; NaN elsewhere."""
    *before, last = stages
    return undo_all(before, last.draw(n_rows, rng))


def is_within_queries(stages: Sequence[Any]) -> bool:
    """Whether the score of a row depends on the other rows of its query."""
    for stage in stages:
        parts = getattr(stage, "parts", ())
        if isinstance(stage, WithinQuery) or any(is_within_queries(part) for part in parts):
            return True
        if isinstance(stage, MeanScores) and stage.means is None:
            return True
    return False


def uniform(span: Array, n_rows: int, rng: np.random.Generator) -> Array:
    """Rows within a range."""
    return np.asarray(rng.uniform(size=(n_rows, span.shape[1])) * (span[1] - span[0]) + span[0])


def between(points: Array, n_rows: int, rng: np.random.Generator) -> Array:
    """Rows on lines between two points."""
    one, two = points[rng.integers(len(points), size=(2, n_rows))]
    return np.asarray(one + rng.uniform(size=(n_rows, 1)) * (two - one))


def _shifted(graph: Graph, scores: Value, constant: Array) -> Value:
    return graph.add("Add", scores, constant) if constant.any() else scores


def _conditioned(graph: Graph, prior: Value, c: Value, spread: Array) -> Value:
    """prior - |c|^2 + |c spread|^2, where the first difference is at least 0."""
    explained = graph.sum(graph.add("Mul", c, c), 1)
    rest = graph.add("Max", graph.add("Sub", prior, explained), 0.0)
    whitened = graph.add("MatMul", c, spread)
    return graph.add("Add", rest, graph.sum(graph.add("Mul", whitened, whitened), 1))


def _standardized(graph: Graph, x: Value, tolerance: float = 0.0) -> Value:
    """Columns with mean 0 and variance 1 over all rows; 0 if they are constant.

    They are taken for constant up to a tolerance, relative to the largest value.
    """
    rows = np.array([0])
    low = graph.add("ReduceMin", x, rows, keepdims=1)
    high = graph.add("ReduceMax", x, rows, keepdims=1)
    limit = graph.add("Max", graph.add("Abs", low), graph.add("Abs", high))
    limit = graph.add("Mul", limit, tolerance)
    constant = graph.add("LessOrEqual", graph.add("Sub", high, low), limit)
    gap = graph.add("Sub", x, graph.add("ReduceMean", x, rows, keepdims=1))
    variance = graph.add("ReduceMean", graph.add("Mul", gap, gap), rows, keepdims=1)
    deviation = graph.add("Where", constant, 1.0, graph.add("Sqrt", variance))
    return graph.add("Where", constant, 0.0, graph.add("Div", gap, deviation))


def _ranks(graph: Graph, x: Value) -> Value:
    """The mean sign of the differences from other rows, halved: O(rows^2 columns) memory."""
    one, two = (graph.add("Unsqueeze", x, np.array([axis])) for axis in (1, 0))
    signs = graph.add("Sign", graph.add("Sub", one, two))
    total = graph.add("ReduceSum", signs, np.array([1]), keepdims=0)
    first = graph.add("Gather", x, np.array([0]), axis=1)
    ones = graph.add("Add", graph.add("Mul", first, 0.0), 1.0)
    others = graph.add("Sub", graph.sum(ones, 0), 1.0)
    return graph.add("Div", total, graph.add("Mul", graph.add("Max", others, 1.0), 2.0))
