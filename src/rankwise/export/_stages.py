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
from rankwise.export._graph import Graph, Value

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
        return x if self.name == "query-minmax" else standardized(graph, x)

    def undo(self, rows: Array) -> Array:
        return np.full(rows.shape, np.nan)  # rows of any range become these


@dataclass(frozen=True, eq=False)
class Branches:
    """Several sequences of stages on the same columns, side by side."""

    parts: Sequence[Sequence[Stage]]
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


def linear_of(stages: Sequence[Any]) -> Linear:
    """All stages as one linear function; an `ExportError` says why there is none."""
    *before, last = stages
    return pull_through(before, last.linear)


def pull_through(stages: Sequence[Stage], linear: Linear) -> Linear:
    """Stages and then a linear function, as one linear function."""
    for stage in reversed(stages):
        linear = stage.pull(linear)
    return linear


def emit_all(graph: Graph, stages: Sequence[Any], x: Value) -> Value:
    """Append stages to a graph."""
    for stage in stages:
        x = stage.emit(graph, x)
    return x


def undo_all(stages: Sequence[Stage], rows: Array) -> Array:
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


def uniform(span: Array, n_rows: int, rng: np.random.Generator) -> Array:
    """Rows within a range."""
    return np.asarray(rng.uniform(size=(n_rows, span.shape[1])) * (span[1] - span[0]) + span[0])


def between(points: Array, n_rows: int, rng: np.random.Generator) -> Array:
    """Rows on lines between two points."""
    one, two = points[rng.integers(len(points), size=(2, n_rows))]
    return np.asarray(one + rng.uniform(size=(n_rows, 1)) * (two - one))


def standardized(graph: Graph, x: Value, tolerance: float = 0.0) -> Value:
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
