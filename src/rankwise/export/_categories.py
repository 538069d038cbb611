"""Columns of categories, and what encoders make of them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.arrays import Array, Index, is_sparse
from rankwise.errors import DataError, ExportError
from rankwise.export._graph import ML, Graph, Value
from rankwise.export._stages import Branches, Columns, Linear, Stage

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
            "a column of categories becomes several features (give each category a feature of its "
            "own before they reach the model)"
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
    """The features of a model that are text, by number. `numbers` are those before the stages."""
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
