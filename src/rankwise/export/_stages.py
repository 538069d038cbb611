"""What a fitted model does to rows, as a few kinds of stages.

A model is a sequence of stages. Each can be folded into the weights of a linear function behind it
(`pull`), appended to an ONNX graph (`emit`), and undone as far as possible, to get rows like the
training rows (`undo`).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.arrays import Array, Index, is_sparse
from rankwise.errors import DataError, ExportError
from rankwise.export._graph import ML, Graph, Value

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
    """All stages as one linear function; an `ExportError` explains why there is none."""
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
    """Rows like the training rows, as far as the stages know them; NaN elsewhere."""
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


@dataclass(eq=False)
class FirstUses:
    """For each feature: the value in place of a missing one, and the units of its first scaler.

    Features that several branches use have the units of the first branch.
    """

    value: Array  # NaN: missing values are not filled in
    missing: Array  # what counts as missing
    centre: Array
    factor: Array
    min_max: Array  # whether the scaler is one of minima and maxima
    read: NDArray[np.bool_]  # whether any stage does more than to leave it out


def first_uses(stages: Sequence[Any], n_features: int) -> FirstUses:
    """Follow the features through the first stages."""
    uses = FirstUses(
        np.full(n_features, np.nan),
        np.full(n_features, np.nan),
        np.zeros(n_features),
        np.ones(n_features),
        np.zeros(n_features, dtype=bool),
        np.zeros(n_features, dtype=bool),
    )
    _follow(stages, np.arange(n_features), uses, np.zeros(n_features, dtype=bool))
    return uses


def _follow(
    stages: Sequence[Any], numbers: Index, uses: FirstUses, scaled: NDArray[np.bool_]
) -> None:
    """Note what stages do to columns, which are features with these numbers."""
    for stage in stages:
        if isinstance(stage, Columns):
            numbers = numbers[stage.chosen]
        elif isinstance(stage, FillMissing):
            uses.value[numbers], uses.missing[numbers] = stage.values, stage.missing
        elif isinstance(stage, Affine):
            new = ~scaled[numbers]
            uses.centre[numbers[new]] = stage.centre[new]
            uses.factor[numbers[new]] = stage.factor[new]
            uses.min_max[numbers[new]] = stage.kind == "min_max"
            scaled[numbers] = True
            break
        elif isinstance(stage, Branches):
            for part in stage.parts:
                _follow(part, numbers, uses, scaled)
            return
        else:
            break
    uses.read[numbers] = True


NO_CATEGORY = "\x00"  # a text that no table has
OTHER = -1.0  # the number of a text that is no category


@dataclass(frozen=True, eq=False)
class Lookup:
    """A column of categories as the columns that an encoder makes of it.

    A column of text holds the numbers of its categories, from 0, and -1 for other texts: `numbered`
    and `worded` translate.
    """

    categories: Array
    table: Array  # of shape (n_categories + 1, n_columns); the last row is for other values
    texts: tuple[str, ...] | None  # None: the column has numbers
    takes_others: bool

    def pull(self, linear: Linear) -> Linear:
        raise ExportError(
            "a column of categories becomes several features (make a "
            "feature for each category before they reach the model)"
        )

    def emit(self, graph: Graph, x: Value) -> Value:
        other = self.table[-1]
        found = graph.add("Cast", graph.add("Equal", x, self.categories[None]), to=graph.kind)
        made = graph.add("MatMul", found, self.table[:-1] - other)
        return graph.add("Add", made, other) if other.any() else made

    def undo(self, rows: Array) -> Array:
        drawn = np.random.default_rng(0).random(rows.shape)
        wanted, table = np.where(np.isnan(rows), drawn, rows), self.table[:-1]
        distance = np.square(table).sum(axis=1) - 2.0 * wanted @ table.T
        return self.categories[np.argmin(distance, axis=1)][:, None]

    def numbered(self, words: Sequence[Any], name: str) -> Array:
        """The numbers of texts."""
        numbers = {text: float(k) for k, text in enumerate(self.texts or ())}
        found = np.array([numbers.get(word, OTHER) for word in words])
        if not self.takes_others and (found == OTHER).any():
            word = words[int(np.argmax(found == OTHER))]
            raise DataError(
                f"The column {name!r} of the rows has {word!r}, which the model has not seen: "
                "leave out such rows."
            )
        return found

    def worded(self, numbers: Array) -> NDArray[Any]:
        """The texts of numbers; one that is no category for -1."""
        return np.array([*(self.texts or ()), NO_CATEGORY], dtype=object)[numbers.astype(np.intp)]


def lookups(step: Any, widths: Sequence[int], *, takes_others: bool) -> list[Stage]:
    """The stages of an encoder that makes `widths` columns of its columns, one by one."""
    n = len(step.categories_)
    values = [_values(categories) for categories in step.categories_]
    parts: list[list[Stage]] = []
    begin = 0
    for k, (categories, width) in enumerate(zip(values, widths, strict=True)):
        texts = tuple(categories) if categories.dtype.kind == "O" else None
        probes = [others[:1].repeat(len(categories) + takes_others) for others in values]
        probes[k] = categories
        if takes_others:
            other = NO_CATEGORY if texts is not None else categories.max() + 1
            probes[k] = np.append(categories, np.array([other], dtype=categories.dtype))
        made = _encoded(step, probes)
        table = made[:, begin : begin + width]
        if not takes_others:
            table = np.vstack((table, np.zeros(width)))
        numbers = np.arange(len(categories)) if texts is not None else categories
        stage = Lookup(numbers.astype(np.float64), table, texts, takes_others)
        parts.append([Columns(np.array([k]), n), stage])
        begin += width
    if begin != made.shape[1]:
        raise ExportError(f"{step!r} cannot be exported: its columns are not known.")
    return [Branches(parts, list(widths))]


def text_columns(stages: Sequence[Any], numbers: Index) -> dict[int, Lookup]:
    """The text features of a model, by number. `numbers` are the features before the stages."""
    found: dict[int, Lookup] = {}
    for stage in stages:
        if isinstance(stage, Columns):
            numbers = numbers[stage.chosen]
        elif isinstance(stage, Branches):
            for part in stage.parts:
                for number, lookup in text_columns(part, numbers).items():
                    if found.setdefault(number, lookup).texts != lookup.texts:
                        raise ExportError(
                            "Two encoders of the same column with different categories cannot be "
                            "exported."
                        )
            break
        elif isinstance(stage, Lookup) and stage.texts is not None:
            found[int(numbers[0])] = stage
    return dict(sorted(found.items()))


def with_texts(X: Array, texts: dict[int, Lookup], names: Sequence[str] | None) -> Any:
    """Rows as the model was fitted: with texts in the place of their numbers.

    A data frame, if the features have names and pandas or polars is installed.
    """
    if names is None and not texts:
        return X
    columns = {k: texts[k].worded(X[:, k]) if k in texts else X[:, k] for k in range(X.shape[1])}
    return framed(columns.values(), names)


def framed(columns: Any, names: Sequence[str] | None) -> Any:
    """Columns as a data frame, or as an array without names or a library for frames."""
    listed = list(columns)
    names = [] if names is None else list(names)
    for package in ("pandas", "polars") if names else ():
        try:
            frames = import_module(package)
        except ImportError:
            continue
        return frames.DataFrame(dict(zip(names, listed, strict=True)))
    whole = np.empty((len(listed[0]), len(listed)), object)
    for k, column in enumerate(listed):
        whole[:, k] = column
    return whole if any(c.dtype.kind == "O" for c in listed) else whole.astype(np.float64)


def emit_numbers(graph: Graph, texts: dict[int, Lookup], n_features: int, kind: int) -> Value:
    """All features as numbers, from the inputs X (numbers) and text."""
    if not texts:
        return "X"
    others = [k for k in range(n_features) if k not in texts]
    parts = ["X"] if others else []
    for k, lookup in enumerate(texts.values()):
        words = lookup.texts or ()
        number = graph.add(
            "LabelEncoder", graph.add("Gather", "text", np.array([k]), axis=1), domain=ML,
            keys_strings=list(words), values_floats=np.arange(len(words), dtype=float).tolist(),
            default_float=OTHER,
        )  # fmt: skip
        parts.append(graph.add("Cast", number, to=kind))
    joined = parts[0] if len(parts) == 1 else graph.add("Concat", *parts, axis=1)
    order = np.argsort([*others, *texts])
    if np.array_equal(order, np.arange(n_features)):
        return joined
    return graph.add("Gather", joined, order, axis=1)


def _values(categories: Any) -> NDArray[Any]:
    """Categories as texts or numbers."""
    values = np.asarray(categories)
    if values.dtype.kind in "biuf" and not np.isnan(values.astype(np.float64)).any():
        return values
    if all(isinstance(value, str) for value in values.tolist()):
        return values.astype(object)
    raise ExportError(
        "Categories must be texts or numbers, none of them missing: fill in missing values first."
    )


def _encoded(step: Any, columns: Sequence[Any]) -> Array:
    names = getattr(step, "feature_names_in_", None)
    with warnings.catch_warnings():  # of texts that are no categories
        warnings.simplefilter("ignore")
        made = step.transform(framed(columns, names))
    if is_sparse(made):
        made = made.toarray()
    return np.asarray(made, dtype=np.float64)
