"""Comparisons from tables: a CSV file of items and one of comparisons, or one of both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.arrays import Array
from rankwise.data.chosen_rejected import read_chosen_rejected
from rankwise.data.tables.records import frame_columns, place_of_row, read_records, refuse_odd_texts
from rankwise.errors import DataError, warn
from rankwise.graph.comparison_checks import MARGIN_OF_WINNER
from rankwise.graph.comparisons import Comparisons
from rankwise.tables import plural

ITEM_COLUMNS = ("id", "item", "name")
PAIRS = (
    ("first", "second"),
    ("winner", "loser"),
    ("chosen", "rejected"),
    ("item_a", "item_b"),
    ("model_a", "model_b"),
    ("a", "b"),
    ("left", "right"),
)
WON = {("winner", "loser"), ("chosen", "rejected")}  # columns that say who won
OUTCOMES = ("outcome", "result", "winner", "preferred", "label")
WEIGHTS = ("weight", "count", "votes")
GROUPS = ("group", "prompt", "rater", "session", "judge", "annotator", "user")
CONTEXT = "context_"


@dataclass(frozen=True, eq=False, repr=False)
class ComparisonData:
    """Items with features, and comparisons between them; made by `read_comparisons`.

    Attributes
    ----------
    X : ndarray of shape (n_items, n_features)
    comparisons : Comparisons
        With the ids of the items, groups and context, if there are any.
    feature_names : list of str
    names : list of str
        Ids of the items; their row numbers if they have none.

    Examples
    --------
    >>> from rankwise.data import read_comparisons
    >>> items = {"id": ["a", "b", "c"], "size": [1, 2, 3]}
    >>> votes = {"first": ["a", "b"], "second": ["b", "c"], "outcome": ["loss", "tie"]}
    >>> read_comparisons(items, votes).X.ravel()
    array([1., 2., 3.])
    """

    X: Array
    comparisons: Comparisons
    feature_names: list[str]
    names: list[str]

    def __repr__(self) -> str:
        features = plural(self.X.shape[1], "feature")
        return f"ComparisonData({self.comparisons!r} with {features})"


def read_comparisons(
    items: Any,
    comparisons: Any = None,
    *,
    item: str | None = None,
    first: str | None = None,
    second: str | None = None,
    outcome: str | None = None,
    weight: str | None = None,
    group: str | None = None,
    context: Sequence[str] = (),
) -> ComparisonData:
    """Read items with features, and comparisons between them.

    Parameters
    ----------
    items : path, data frame or dictionary of columns
        An id and features of each item, one item per row. CSV (with tabs between columns if its
        name ends with .tsv), JSON lines, JSON or Parquet; files may be gzipped. Without
        `comparisons`, a table with a prompt and the features of a chosen and a rejected answer in
        each row, see `read_chosen_rejected`.
    comparisons : path, data frame or dictionary of columns, optional
        The ids of two items in each row, and more, see below.
    item : str, optional
        The column of `items` with ids. None: "id", "item" or "name", or the first one.
    first, second : str, optional
        The columns of `comparisons` with the two items. None: "first" and "second", or "winner"
        and "loser", "chosen" and "rejected", "item_a" and "item_b", "model_a" and "model_b", "a"
        and "b", "left" and "right".
    outcome : str, optional
        The column with outcomes: words or numbers as for `Comparisons.of`, or the id of the item
        that won. None: "outcome", "result", "winner", "preferred" or "label", if there is one; else
        the first item won.
    weight, group : str, optional
        None: "weight", "count" or "votes"; "group", "prompt", "rater", "session", "judge",
        "annotator" or "user", if there is one.
    context : sequence of str, optional
        Columns with features of the comparison itself; those whose names begin with ``context_``
        are taken as well.

    Returns
    -------
    ComparisonData

    Examples
    --------
    >>> from rankwise.data import read_comparisons
    >>> items = {"id": ["a", "b", "c"], "size": [1, 2, 3]}
    >>> votes = {"a": ["a", "b"], "b": ["b", "c"], "winner": ["b", "tie"], "rater": [1, 1]}
    >>> read_comparisons(items, votes).comparisons
    Comparisons(2 comparisons of 3 items, 1 tie, 1 group)
    """
    table = _ColumnTable.of(items)
    if comparisons is None:
        return _answers(table)
    votes = _ColumnTable.of(comparisons)
    key = table.find(item, ITEM_COLUMNS) or table.names[0]
    ids = table.text(key)
    if isinstance(items, str | Path):
        refuse_odd_texts((ids,), table.where)
    features = [name for name in table.names if name != key]
    words = [name for name in features if table.is_text(name)]
    features = [name for name in features if name not in words]
    if words and features:
        warn(f"{table}: columns of text are no features, and are left out: {', '.join(words)}.")
    if not features:
        raise DataError(f"{table} has no features: it needs columns of numbers beside {key!r}.")
    X = np.column_stack([table.numbers(name) for name in features])
    one, two = _sides(votes, first, second)
    pairs = votes.text(one), votes.text(two)
    if all(isinstance(name, str) for side in pairs for name in side):
        ids[:] = [str(name) if type(name) is int else name for name in ids]  # as CSV has them
    column = votes.find(outcome, [name for name in OUTCOMES if name not in (one, two)])
    won = (one, two) in WON and outcome is None
    result = None if column is None or won else _outcomes(votes, column, *pairs)
    weights, groups = votes.find(weight, WEIGHTS), votes.find(group, GROUPS)
    named = [votes.known(name) for name in context]
    named += [name for name in votes.names if name.startswith(CONTEXT) and name not in named]
    found = Comparisons.of(
        *pairs,
        result,
        items=ids,
        weight=None if weights is None else votes.numbers(weights),
        groups=None if groups is None else votes.text(groups),
        context=None if not named else np.column_stack([votes.numbers(name) for name in named]),
    )
    if named:
        found = replace(found, context_names=[name.removeprefix(CONTEXT) for name in named])
    return ComparisonData(X, found, features, [str(name) for name in ids])


@dataclass(frozen=True, eq=False)
class _ColumnTable:
    """The columns of a table, and what to call it in errors."""

    source: str
    columns: dict[str, list[Any]]
    where: Callable[[int], str]

    @classmethod
    def of(cls, table: Any) -> _ColumnTable:
        if isinstance(table, str | Path):
            return cls._read(Path(table))
        columns = frame_columns(table, "A table of comparisons is")
        return cls("The table", columns, lambda k: f"The table, row {k}")

    @classmethod
    def _read(cls, path: Path) -> _ColumnTable:
        return cls(str(path), read_records(path), partial(place_of_row, path))

    def __str__(self) -> str:
        return self.source

    @property
    def names(self) -> list[str]:
        return list(self.columns)

    def known(self, name: str) -> str:
        if name not in self.columns:
            raise DataError(f"{self} has no column {name!r}: it has {', '.join(self.names)}.")
        return name

    def find(self, given: str | None, usual: Sequence[str]) -> str | None:
        """The column that the user named, or a usual one; None if there is neither."""
        if given is not None:
            return self.known(given)
        return next((name for name in usual if name in self.columns), None)

    def text(self, name: str) -> NDArray[Any]:
        """Values as they are, without spaces around words."""
        values = [v.strip() if isinstance(v, str) else v for v in self.columns[self.known(name)]]
        out = np.empty(len(values), dtype=object)
        out[:] = values
        return out

    def is_text(self, name: str) -> bool:
        """Whether a column has words, and no number."""
        values = [value for value in self.columns[name] if value not in (None, "")]
        return bool(values) and not any(_is_number(value) for value in values)

    def numbers(self, name: str) -> Array:
        out = np.empty(len(self.columns[self.known(name)]))
        for k, value in enumerate(self.columns[name]):
            try:
                out[k] = float(value)
            except (TypeError, ValueError):
                out[k] = np.nan
            if not np.isfinite(out[k]):
                raise DataError(
                    f"{self.where(k)}: the column {name!r} must hold numbers: got {value!r}. "
                    "Correct the value, or remove the column."
                )
        return out


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _sides(votes: _ColumnTable, first: str | None, second: str | None) -> tuple[str, str]:
    if first is not None and second is not None:
        return votes.known(first), votes.known(second)
    if first is not None or second is not None:
        raise DataError("Name both columns of items, first and second, or neither.")
    for one, two in PAIRS:
        if one in votes.columns and two in votes.columns:
            return one, two
    usual = "; ".join(f"{one}, {two}" for one, two in PAIRS)
    raise DataError(
        f"{votes} needs two columns of items. Name them, or use one of these pairs of names: "
        f"{usual}. It has {', '.join(votes.names)}."
    )


def _outcomes(votes: _ColumnTable, column: str, first: Any, second: Any) -> Any:
    """Outcomes as words or numbers; the id of an item says that it won."""
    values = votes.text(column)
    try:
        numbers = [float(value) for value in values]
    except (TypeError, ValueError):
        numbers = None
    words = [str(value).lower() for value in values]
    if numbers is not None and all(number in (0.0, 0.5, 1.0) for number in numbers):
        return numbers
    won = []
    for k, (value, one, two, word) in enumerate(zip(values, first, second, words, strict=True)):
        named = "first" if value == one else "second" if value == two else word
        if MARGIN_OF_WINNER.get(word, MARGIN_OF_WINNER.get(named)) != MARGIN_OF_WINNER.get(named):
            raise DataError(
                f"{votes.where(k)}: the outcome {value!r} is an item, and also a word that says "
                "something else. Use 1 where the first won, 0 where the second won, and 0.5 for "
                "ties."
            )
        won.append(named)
    unknown = next((k for k, word in enumerate(won) if word not in MARGIN_OF_WINNER), None)
    if unknown is not None:
        raise DataError(
            f"{votes.where(unknown)}: the outcome {column!r} is "
            f"{values[unknown]!r}. It must be one of "
            f"{', '.join(repr(w) for w in MARGIN_OF_WINNER if isinstance(w, str))}; 1, 0.5 or 0; "
            "or the id of the item that won."
        )
    return won


def _answers(table: _ColumnTable) -> ComparisonData:
    """One table with a prompt, and the features of a chosen and a rejected answer in each row."""
    columns = {
        name: table.numbers(name) if name.startswith(("chosen_", "rejected_")) else values
        for name, values in table.columns.items()
    }
    data = read_chosen_rejected(columns)
    features = data.feature_names or [f"x{k}" for k in range(data.X.shape[1])]
    return ComparisonData(data.X, data.comparisons, features, [str(k) for k in range(len(data.X))])
