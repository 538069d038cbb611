"""What a fitted model does to rows, as a few kinds of stages.

A model is a sequence of stages, up to its scores. Each can be folded into the weights of a linear
function behind it (`pull`), appended to an ONNX graph (`emit`), and undone as far as possible, to
get rows like the training rows (`undo`). `transformer_stages` reads the stages of a transformer.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce, singledispatch
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
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
from sklearn.utils import get_tags

from rankwise.backends.arrays import Array, Index, is_sparse
from rankwise.errors import DataError, ExportError
from rankwise.export._graph import ML, Graph, Value
from rankwise.preprocessing.query_scalers import QueryScaler, WithQueryStandard
from rankwise.preprocessing.seen_features import SeenFeatures
from rankwise.preprocessing.table_encoder import DateFeatures, TableEncoder

SPREAD = 4.0  # standard deviations that rows are drawn from
NO_CATEGORY = "\x00"  # a text that no table has
OTHER = -1.0  # the number of a text that is no category
MEAN = "MeanRanker"  # the name of a scaling of scores
EQUAL = 1e-12  # of the largest score: `MeanRanker` takes smaller differences for none
MICROSECONDS = 86_400e6  # of a day


@dataclass(frozen=True, eq=False)
class Linear:
    """x'weights + constant."""

    weights: Array  # of shape (columns, outputs)
    constant: Array  # of shape (outputs,)
    missing: Array  # what a missing value of each column adds to the scores; NaN: it is refused

    @classmethod
    def of_complete_rows(cls, weights: Array, constant: Array) -> Linear:
        """A function that takes no missing values."""
        return cls(weights, constant, np.full(weights.shape, np.nan))

    def behind(self, weights: Array, constant: Array) -> Linear:
        """This function of x'weights + constant, which takes no missing values."""
        shift = constant @ self.weights
        return Linear.of_complete_rows(weights @ self.weights, self.constant + shift)


class Stage:
    """A step on the way from features to scores; the last one makes scores."""

    names: tuple[str, ...] = ("score",)  # of what the last stage returns
    span: Array | None = None  # the range of the training rows, of shape (2, columns), if known
    within_queries = False  # whether the score of a row depends on the other rows of its query
    takes_missing: bool = False  # without a stage before it that fills them in

    def width(self, n_columns: int) -> int:
        """The number of columns behind this stage."""
        return n_columns

    def pull(self, linear: Linear) -> Linear:
        """This stage and then a linear function, as one linear function of its input."""
        raise NotImplementedError

    def emit(self, x: Value) -> Value:
        """Append the stage to the graph of a value."""
        raise NotImplementedError

    def undo(self, rows: Array, rng: np.random.Generator) -> Array:
        """Rows that this stage maps to given ones, or close to them; NaN where anything will do."""
        return rows

    def outputs(self, x: Value) -> dict[str, Value]:
        """Append the last stage to the graph of a value: scores and what else is predicted."""
        return {"score": self.emit(x)}

    @property
    def in_float32(self) -> bool:
        """Whether float32 keeps enough digits of the scores."""
        return False


@dataclass(frozen=True, eq=False)
class Columns(Stage):
    """Some of the columns."""

    chosen: Index
    n_columns: int  # before
    takes_missing: bool = True

    def width(self, n_columns: int) -> int:
        return len(self.chosen)

    def pull(self, linear: Linear) -> Linear:
        weights, missing = np.zeros((2, self.n_columns, linear.weights.shape[1]))
        np.add.at(weights, self.chosen, linear.weights)
        np.add.at(missing, self.chosen, linear.missing)
        return Linear(weights, linear.constant, missing)

    def emit(self, x: Value) -> Value:
        if np.array_equal(self.chosen, np.arange(self.n_columns)):
            return x
        return x.columns(self.chosen)

    def undo(self, rows: Array, rng: np.random.Generator) -> Array:
        out = np.full((len(rows), self.n_columns), np.nan)
        out[:, self.chosen] = rows
        return out


@dataclass(frozen=True, eq=False)
class Affine(Stage):
    """(x - centre) factor for each column."""

    centre: Array
    factor: Array
    span: Array | None = None
    kind: str = "standard"  # or "min_max": how a search engine would call it

    def pull(self, linear: Linear) -> Linear:
        weights = linear.weights * self.factor[:, None]
        shift = self.centre[:, None] * weights  # is in the constant, and not in a missing value
        return Linear(weights, linear.constant - shift.sum(axis=0), linear.missing + shift)

    def emit(self, x: Value) -> Value:
        return x.affine(self.centre, self.factor)

    def undo(self, rows: Array, rng: np.random.Generator) -> Array:
        usable = np.where(self.factor == 0.0, 1.0, self.factor)
        return np.asarray(rows / usable + self.centre)


@dataclass(frozen=True, eq=False)
class Weighted(Stage):
    """x'weights + constant, as of scores or principal components."""

    weights: Array  # of shape (columns before, columns after)
    constant: Array
    span: Array | None = None

    def width(self, n_columns: int) -> int:
        return int(self.weights.shape[1])

    def pull(self, linear: Linear) -> Linear:
        return linear.behind(self.weights, self.constant)

    def emit(self, x: Value) -> Value:
        return (x @ self.weights).shifted(self.constant)

    def undo(self, rows: Array, rng: np.random.Generator) -> Array:
        if np.isnan(rows).all():
            return np.full((len(rows), len(self.weights)), np.nan)
        return np.asarray((rows - self.constant) @ np.linalg.pinv(self.weights))


@dataclass(frozen=True, eq=False)
class FillMissing(Stage):
    """Values in place of missing ones, which are NaN or a number."""

    values: Array
    missing: float

    def pull(self, linear: Linear) -> Linear:
        return replace(linear, missing=self.values[:, None] * linear.weights)

    def emit(self, x: Value) -> Value:
        nan = np.isnan(self.missing)
        is_missing = x.apply("IsNaN") if nan else x.apply("Equal", float(self.missing))
        return is_missing.apply("Where", self.values, x)

    def undo(self, rows: Array, rng: np.random.Generator) -> Array:
        return np.where(np.isnan(rows), self.values, rows)


@dataclass(frozen=True, eq=False)
class Clip(Stage):
    """Values of each column between bounds."""

    low: float
    high: float

    def pull(self, linear: Linear) -> Linear:
        raise ExportError("values are cut off at bounds (MinMaxScaler with clip=True, or ramps)")

    def emit(self, x: Value) -> Value:
        return x.apply("Max", self.low).apply("Min", self.high)


@dataclass(frozen=True, eq=False)
class WithinQuery(Stage):
    """A scaling of each column by the rows of the query: all rows of a call are one query."""

    name: str
    what: str = "features"
    within_queries = True

    def pull(self, linear: Linear) -> Linear:
        raise ExportError(
            f"{self.what} are scaled within each query ({self.name}), so that the score of a row "
            "depends on the other rows"
        )

    def emit(self, x: Value) -> Value:
        if self.name == MEAN:
            return standardized(x, EQUAL)
        if self.name == "query-ranks":
            return _ranks(x)
        low, high = x.reduced("ReduceMin", 0), x.reduced("ReduceMax", 0)
        span = high - low
        x = (x - low) / span.apply("Equal", 0.0).apply("Where", 1.0, span)
        return x if self.name == "query-minmax" else standardized(x)

    def undo(self, rows: Array, rng: np.random.Generator) -> Array:
        return np.full(rows.shape, np.nan)  # rows of any range become these


@dataclass(frozen=True, eq=False)
class Branches(Stage):
    """Several sequences of stages on the same columns, side by side."""

    parts: Sequence[Sequence[Stage]]
    n_columns: int  # before

    @property
    def widths(self) -> list[int]:
        """The number of columns behind each part."""
        return [width(part, self.n_columns) for part in self.parts]

    def width(self, n_columns: int) -> int:
        return sum(self.widths)

    def pull(self, linear: Linear) -> Linear:
        ends = np.cumsum(self.widths)[:-1]
        pieces = zip(np.split(linear.weights, ends), np.split(linear.missing, ends), strict=True)
        nothing = np.zeros_like(linear.constant)
        pulled = [
            pull_through(part, Linear(weights, nothing, missing))
            for part, (weights, missing) in zip(self.parts, pieces, strict=True)
        ]
        return Linear(
            np.sum([one.weights for one in pulled], axis=0),
            linear.constant + sum(one.constant for one in pulled),
            np.sum([one.missing for one in pulled], axis=0),
        )

    def emit(self, x: Value) -> Value:
        made = [emit_all(part, x) for part in self.parts]
        return made[0] if len(made) == 1 else made[0].apply("Concat", *made[1:], axis=1)

    def undo(self, rows: Array, rng: np.random.Generator) -> Array:
        pieces = np.split(rows, np.cumsum(self.widths)[:-1], axis=1)
        pairs = zip(self.parts, pieces, strict=True)
        found = [undo_all(part, piece, rng) for part, piece in pairs]
        return reduce(lambda one, two: np.where(np.isnan(one), two, one), found)


def every_stage(stages: Sequence[Stage]) -> Iterator[Stage]:
    """Stages, and all that are side by side in them."""
    for stage in stages:
        yield stage
        for part in stage.parts if isinstance(stage, Branches) else ():
            yield from every_stage(part)


def linear_of(stages: Sequence[Stage]) -> Linear:
    """All stages as one linear function; an `ExportError` explains why there is none."""
    n_outputs = width(stages, 0)
    return pull_through(stages, Linear.of_complete_rows(np.eye(n_outputs), np.zeros(n_outputs)))


def pull_through(stages: Sequence[Stage], linear: Linear) -> Linear:
    """Stages and then a linear function, as one linear function."""
    for stage in reversed(stages):
        linear = stage.pull(linear)
    return linear


def emit_all(stages: Sequence[Stage], x: Value) -> Value:
    """Append stages to the graph of a value."""
    for stage in stages:
        x = stage.emit(x)
    return x


def undo_all(stages: Sequence[Stage], rows: Array, rng: np.random.Generator) -> Array:
    """Rows that stages map to given ones; where anything will do, values in a known range."""
    for stage in reversed(stages):
        rows = stage.undo(rows, rng)
        if stage.span is not None:
            low, high = stage.span
            rows = np.where(np.isnan(rows), rng.uniform(size=rows.shape) * (high - low) + low, rows)
    return rows


def draw_rows(stages: Sequence[Stage], n_rows: int, rng: np.random.Generator) -> Array:
    """Rows like the training rows, as far as the stages know them; NaN elsewhere."""
    return undo_all(stages, np.full((n_rows, width(stages, 0)), np.nan), rng)


def between(points: Array, n_rows: int, rng: np.random.Generator) -> Array:
    """Rows on lines between two points."""
    one, two = points[rng.integers(len(points), size=(2, n_rows))]
    return np.asarray(one + rng.uniform(size=(n_rows, 1)) * (two - one))


def standardized(x: Value, tolerance: float = 0.0) -> Value:
    """Columns with mean 0 and variance 1 over all rows; 0 if they are constant.

    They are taken for constant up to a tolerance, relative to the largest value.
    """
    low, high = x.reduced("ReduceMin", 0), x.reduced("ReduceMax", 0)
    limit = low.apply("Abs").apply("Max", high.apply("Abs")) * tolerance
    constant = (high - low).apply("LessOrEqual", limit)
    gap = x - x.reduced("ReduceMean", 0)
    variance = (gap * gap).reduced("ReduceMean", 0)
    deviation = constant.apply("Where", 1.0, variance.apply("Sqrt"))
    return constant.apply("Where", 0.0, gap / deviation)


def _ranks(x: Value) -> Value:
    """The mean sign of the differences from other rows, halved: O(rows^2 columns) memory."""
    one, two = (x.apply("Unsqueeze", np.array([axis])) for axis in (1, 0))
    total = (one - two).apply("Sign").apply("ReduceSum", np.array([1]), keepdims=0)
    ones = x.columns(np.array([0])) * 0.0 + 1.0
    others = ones.reduced("ReduceSum", 0) - 1.0
    return total / (others.apply("Max", 1.0) * 2.0)


@dataclass(frozen=True, eq=False)
class Lookup(Stage):
    """A column of categories as the columns that an encoder makes of it.

    A column of text holds the numbers of its categories, from 0, and -1 for other texts: `numbered`
    and `as_given` translate.
    """

    categories: Array
    table: Array  # of shape (n_categories + 1, n_columns); the last row is for other values
    texts: tuple[str, ...] | None  # None: the column has numbers
    takes_others: bool

    def width(self, n_columns: int) -> int:
        return int(self.table.shape[1])

    def pull(self, linear: Linear) -> Linear:
        raise ExportError(
            "a column of categories becomes several features (make a "
            "feature for each category before they reach the model)"
        )

    def emit(self, x: Value) -> Value:
        other = self.table[-1]
        found = x.apply("Equal", self.categories[None]).cast(x.graph.kind)
        made = found @ (self.table[:-1] - other)
        return made + other if other.any() else made

    def undo(self, rows: Array, rng: np.random.Generator) -> Array:
        wanted, table = np.where(np.isnan(rows), rng.random(rows.shape), rows), self.table[:-1]
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

    def as_given(self, numbers: Array) -> NDArray[Any]:
        """The texts of numbers; one that is no category for -1."""
        return np.array([*(self.texts or ()), NO_CATEGORY], dtype=object)[numbers.astype(np.intp)]


@dataclass(frozen=True, eq=False)
class Calendar(Stage):
    """A column of dates, as days since 1970, as days since the first, day of the week and month.

    `numbered` and `as_given` translate dates to days since 1970, and back.
    """

    first: float

    def width(self, n_columns: int) -> int:
        return 3

    def pull(self, linear: Linear) -> Linear:
        if linear.weights[1:].any():
            raise ExportError(
                "a date becomes a day of the week and a month (make these features before they "
                "reach the model, or leave dates out)"
            )
        shift = self.first * linear.weights[:1]
        missing = linear.missing.sum(axis=0) + shift
        return Linear(linear.weights[:1], linear.constant - shift[0], missing)

    def emit(self, x: Value) -> Value:
        """Whole numbers below 2^24, which float32 divides without errors in their floors.

        In a float32 input, times are rounded first: by up to 84 seconds from 2014 to 2059, so that
        later ones than 23:58:35 become the next day. `to_onnx` chooses float64 for dates.
        """

        def floor(value: Value) -> Value:
            return value.apply("Floor")

        day = floor(x)
        weekday = day + 3.0  # 1970-01-01 was a Thursday
        weekday = weekday - floor(weekday / 7.0) * 7.0
        # Years begin in March, so that leap days come last, in periods of 400 years.
        day = day + 719468.0
        day = day - floor(day / 146097.0) * 146097.0
        leap = floor(day / 1460.0) - floor(day / 36524.0) + floor(day / 146096.0)
        year = floor((day - leap) / 365.0)
        day = day - (year * 365.0 + floor(year / 4.0) - floor(year / 100.0))
        month = floor((day * 5.0 + 2.0) / 153.0)  # 0 is March
        month = month + 3.0 - floor(month / 10.0) * 12.0
        return x.affine(np.array([self.first])).apply("Concat", weekday, month, axis=1)

    def undo(self, rows: Array, rng: np.random.Generator) -> Array:
        return np.asarray(np.floor(rows[:, :1]) + self.first)

    def numbered(self, dates: Sequence[Any], name: str) -> Array:
        """Days since 1970; NaN for a missing date."""
        known = [None if date != date else date for date in dates]
        return days_of(np.array(known, dtype="datetime64[us]"))

    def as_given(self, numbers: Array) -> NDArray[Any]:
        """The dates of numbers of days."""
        known = np.isfinite(numbers)
        times = np.where(known, numbers, 0.0) * MICROSECONDS
        dates = np.round(times).astype(np.int64).astype("datetime64[us]")
        return np.where(known, dates, np.datetime64("NaT"))


def days_of(dates: NDArray[Any]) -> Array:
    """Days since 1970, with fractions; NaN for a missing date."""
    return np.asarray((dates - np.datetime64(0, "D")) / np.timedelta64(1, "D"))


@dataclass(eq=False)
class FirstUses:
    """For each feature: whether missing values are filled in, and the units of its first scaler.

    Features that several branches use have the units of the first branch.
    """

    filled: NDArray[np.bool_]  # whether the model takes missing values
    missing: Array  # what counts as missing
    centre: Array
    factor: Array
    min_max: Array  # whether the scaler is one of minima and maxima
    read: NDArray[np.bool_]  # whether any stage does more than to leave it out
    texts: dict[int, Lookup] = field(default_factory=dict)  # the encoders of text, by feature
    dates: dict[int, Calendar] = field(default_factory=dict)

    @classmethod
    def of(cls, stages: Sequence[Stage], n_features: int) -> FirstUses:
        """Follow the features through the first stages."""
        no, nan, zero, one = (np.full(n_features, value) for value in (False, np.nan, 0.0, 1.0))
        uses, lacking = cls(no, nan, zero, one, no.copy(), no.copy()), no.copy()
        uses._follow(stages, np.arange(n_features), no.copy(), lacking)
        uses.filled &= ~(lacking & np.isnan(uses.missing))
        uses.texts = dict(sorted(uses.texts.items()))
        return uses

    def _follow(
        self,
        stages: Sequence[Stage],
        numbers: Index,
        scaled: NDArray[np.bool_],
        lacking: NDArray[np.bool_],
        is_filled: bool = False,
    ) -> None:
        """Note what stages do to columns, which are features with these numbers.

        `scaled` are features in new units, and `lacking` are features that reach a stage with their
        missing values.
        """
        for stage in stages:
            if isinstance(stage, Columns):
                lacking[numbers] |= not (is_filled or stage.takes_missing)
                numbers = numbers[stage.chosen]
            elif isinstance(stage, FillMissing):
                replaces_nan = bool(np.isnan(stage.missing))
                lacking[numbers] |= not (is_filled or replaces_nan)  # NaN is refused
                if replaces_nan or not scaled[numbers].any():  # a number is not in new units
                    self.filled[numbers], self.missing[numbers] = True, stage.missing
                    is_filled = True
            elif isinstance(stage, Branches):
                for part in stage.parts:
                    self._follow(part, numbers, scaled, lacking, is_filled)
                return
            elif isinstance(stage, Affine):
                new = ~scaled[numbers]
                self.centre[numbers[new]] = stage.centre[new]
                self.factor[numbers[new]] = stage.factor[new]
                self.min_max[numbers[new]] = stage.kind == "min_max"
                scaled[numbers] = True
            else:
                if isinstance(stage, Lookup) and stage.texts is not None:
                    self._note_texts(int(numbers[0]), stage)
                if isinstance(stage, Calendar):
                    self.dates[int(numbers[0])] = stage
                self.filled[numbers] |= stage.takes_missing
                is_filled |= stage.takes_missing
                break
        self.read[numbers] = True
        lacking[numbers] |= not is_filled

    def _note_texts(self, number: int, stage: Lookup) -> None:
        if self.texts.setdefault(number, stage).texts != stage.texts:
            raise ExportError(
                "Two encoders of the same column with different categories cannot be exported."
            )


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
    return [Branches(parts, n)]


def as_fitted(
    X: Array, encoders: Mapping[int, Lookup | Calendar], names: Sequence[str] | None
) -> Any:
    """Rows as the model was fitted: with texts and dates in the place of their numbers.

    A data frame, if the features have names and pandas or polars is installed.
    """
    if names is None and not encoders:
        return X
    columns = [
        encoders[k].as_given(X[:, k]) if k in encoders else X[:, k] for k in range(X.shape[1])
    ]
    return framed(columns, names)


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
    others = [k for k in range(n_features) if k not in texts]
    parts = [graph.input("X")] if others else []
    for k, lookup in enumerate(texts.values()):
        words = lookup.texts or ()
        number = graph.input("text").columns(np.array([k])).apply(
            "LabelEncoder", domain=ML, keys_strings=list(words), default_float=OTHER,
            values_floats=np.arange(len(words), dtype=float).tolist(),
        )  # fmt: skip
        parts.append(number.cast(kind))
    joined = parts[0] if len(parts) == 1 else parts[0].apply("Concat", *parts[1:], axis=1)
    return Columns(np.argsort([*others, *texts]), n_features).emit(joined)


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


def stages_in_order(steps: Iterable[Any], n_columns: int) -> list[Stage]:
    """The stages of transformers that follow one another."""
    stages: list[Stage] = []
    for step in steps:
        if step is None or step == "passthrough":
            continue
        found = transformer_stages(step, n_columns)
        stages += found
        n_columns = width(found, n_columns)
    return stages


def width(stages: Sequence[Stage], n_columns: int) -> int:
    """The number of columns behind stages."""
    return reduce(lambda n, stage: stage.width(n), stages, n_columns)


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
    return stages_in_order((inner for _, inner in step.steps), n_columns)


@transformer_stages.register
def _(step: StandardScaler, n_columns: int) -> list[Stage]:
    deviation = None if step.var_ is None else np.sqrt(step.var_)
    centre = step.mean_ if step.with_mean else None
    return [_scaler(n_columns, centre, step.scale_, _around(step.mean_, deviation))]


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
    return [_scaler(n_columns, None, step.scale_, span)]


@transformer_stages.register
def _(step: RobustScaler, n_columns: int) -> list[Stage]:
    span = _around(step.center_, step.scale_)
    return [_scaler(n_columns, step.center_, step.scale_, span)]


def _scaler(n_columns: int, centre: Any, scale: Any, span: Array | None) -> Affine:
    """(x - centre) / scale, where either may be None."""
    centre = np.zeros(n_columns) if centre is None else np.asarray(centre)
    return Affine(centre, np.ones(n_columns) if scale is None else 1.0 / np.asarray(scale), span)


def _around(middle: Any, deviation: Any) -> Array | None:
    """A range that most rows lie in, if both are known."""
    if middle is None or deviation is None:
        return None
    return np.stack([middle - SPREAD * deviation, middle + SPREAD * deviation])


@transformer_stages.register
def _(step: SimpleImputer, n_columns: int) -> list[Stage]:
    if step.add_indicator:
        raise ExportError(
            "SimpleImputer with add_indicator=True cannot be exported: use add_indicator=False."
        )
    try:
        values = np.asarray(step.statistics_).astype(np.float64)
        missing = float(step.missing_values)
    except (TypeError, ValueError):
        raise ExportError(
            "A SimpleImputer of words, None or NA cannot be exported: the columns must be numbers, "
            "and NaN where they are missing. Use skl2onnx.to_onnx, which knows the rankers of "
            "rankwise."
        ) from None
    kept = np.flatnonzero(~np.isnan(values))
    if step.strategy == "constant" and len(kept) < n_columns:
        raise ExportError(
            "A SimpleImputer with fill_value=nan cannot be exported: fill in a number."
        )
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
    takes_others = step.handle_unknown != "error"
    if takes_others and np.isnan(step.unknown_value):
        raise ExportError(
            "An OrdinalEncoder with unknown_value=nan cannot be exported: use a number, such as -1."
        )
    return lookups(step, [1] * n_columns, takes_others=takes_others)


@transformer_stages.register
def _(step: HashingVectorizer, n_columns: int) -> list[Stage]:
    raise ExportError(
        "Hashes of words (HashingVectorizer) are computed by no operator of ONNX. Fit with a "
        "feature for each category, or hash the words before they reach the model."
    )


@transformer_stages.register
def _(step: SelectorMixin, n_columns: int) -> list[Stage]:
    takes_missing = get_tags(step).input_tags.allow_nan
    return [Columns(np.flatnonzero(step.get_support()), n_columns, takes_missing)]


@transformer_stages.register
def _(step: PCA, n_columns: int) -> list[Stage]:
    matrix = np.asarray(step.components_).T
    if step.whiten:
        matrix = matrix / np.sqrt(step.explained_variance_)
    mean, n_components = np.asarray(step.mean_), matrix.shape[1]
    return [Affine(mean, np.ones(n_columns)), Weighted(matrix, np.zeros(n_components))]


@transformer_stages.register
def _(step: TruncatedSVD, n_columns: int) -> list[Stage]:
    return [Weighted(np.asarray(step.components_).T, np.zeros(len(step.components_)))]


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
        name: stages_in_order([transformer], n_columns)
        for name, transformer in step.transformer_list
        if transformer != "drop"
    }
    return _side_by_side(parts, n_columns, step.transformer_weights)


@transformer_stages.register
def _(step: ColumnTransformer, n_columns: int) -> list[Stage]:
    parts: dict[str, list[Stage]] = {}
    names = {name: k for k, name in enumerate(getattr(step, "feature_names_in_", ()))}
    for name, transformer, columns in step.transformers_:
        chosen = np.arange(n_columns)[_numbered(columns, names)]
        if transformer != "drop" and len(chosen):
            stages = stages_in_order([transformer], len(chosen))
            parts[name] = [Columns(chosen, n_columns), *stages]
    return _side_by_side(parts, n_columns, step.transformer_weights)


def _side_by_side(
    parts: Mapping[str, list[Stage]], n_columns: int, weights: Mapping[str, float] | None
) -> list[Stage]:
    """The stages of named transformers on the same columns, each multiplied by its weight."""
    made = []
    for name, stages in parts.items():
        if weights is not None and name in weights:
            factor = np.full(width(stages, n_columns), float(weights[name]))
            stages = [*stages, Affine(np.zeros_like(factor), factor)]
        made.append(stages)
    return [Branches(made, n_columns)]


@transformer_stages.register
def _(step: TableEncoder, n_columns: int) -> list[Stage]:
    return transformer_stages(step.columns_, n_columns)


@transformer_stages.register
def _(step: DateFeatures, n_columns: int) -> list[Stage]:
    parts = [
        [Columns(np.array([k]), n_columns), Calendar(float(first))]
        for k, first in enumerate(days_of(step.first_))
    ]
    return [Branches(parts, n_columns)]


@transformer_stages.register
def _(step: SeenFeatures, n_columns: int) -> list[Stage]:
    return [Columns(np.asarray(step.columns_), n_columns)]


@transformer_stages.register
def _(step: QueryScaler, n_columns: int) -> list[Stage]:
    return [WithinQuery(step.scaling.name)]


@transformer_stages.register
def _(step: WithQueryStandard, n_columns: int) -> list[Stage]:
    return [Branches([[], [WithinQuery("query-standard")]], n_columns)]


def _numbered(columns: Any, names: Mapping[Any, int]) -> Any:
    """The columns that a transformer gets, as an index; `names` has the number of each name."""
    if isinstance(columns, slice):
        start, stop = (names.get(end, end) for end in (columns.start, columns.stop))
        stop = stop + 1 if columns.stop in names else stop  # included, as in pandas
        return slice(start, stop, columns.step)
    listed = np.atleast_1d(columns)
    if listed.dtype.kind in "OU":
        listed = np.array([names[column] for column in listed.tolist()])
    return listed if listed.dtype.kind == "b" else listed.astype(np.intp)
