"""Labelled samples in tables, and how each column was used."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import compress
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.data.table_files import (
    MISSING_WORDS,
    SmallTable,
    as_number,
    listed,
    small_file,
)
from rankwise.errors import DataError
from rankwise.graph.query_groups import as_ids, id_array
from rankwise.parameters import Choice, check_value
from rankwise.tables import plural

MISSING = ("refuse", "drop-rows", "drop-columns", "median")
NOTHING = {word.lower() for word in MISSING_WORDS}
MANY = 10  # values of a text column, above which it is not a category


@dataclass(frozen=True, eq=False, repr=False)
class SampleData:
    """Samples of two classes.

    Attributes
    ----------
    X : ndarray of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,)
        1 for the positive class and 0 for the other.
    names : list of str
        The features.
    classes : tuple of str
        The names of the other class and of the positive class.
    strata, groups : ndarray of shape (n_rows,) or None
    columns : list of (str, str)
        Each column of the file, and how it was used.
    lines : ndarray of shape (n_rows,)
        The line, or row, of each sample in the file.
    missing : str, default=""
        What was done with missing values, as a sentence; empty if there were none.

    Examples
    --------
    >>> X, y, lines = np.array([[1.0], [2.0], [1.0]]), np.array([0.0, 1.0, 1.0]), np.arange(2, 5)
    >>> data = SampleData(X, y, ["age"], ("well", "ill"), None, None, [("age", "a feature")], lines)
    >>> data.copies()
    [(2, 4)]
    """

    X: NDArray[np.float64]
    y: NDArray[np.float64]
    names: list[str]
    classes: tuple[str, str]
    strata: NDArray[Any] | None
    groups: NDArray[Any] | None
    columns: list[tuple[str, str]]
    lines: NDArray[np.intp]
    missing: str = ""

    @property
    def title(self) -> str:
        """What is compared with what."""
        other, positive = self.classes
        return f"AUC of {positive!r} against {other!r}"

    def headline(self) -> str:
        """The classes, and the size of the data."""
        n_positive = int(self.y.sum())
        size = f"{n_positive:,} and {plural(len(self.y) - n_positive, 'sample')}"
        return f"{self.title}: {size}, {plural(self.X.shape[1], 'feature')}."

    def row_counters(self) -> list[str]:
        """Features that count the rows: 1, 2, 3, ... from some number on."""
        steps = np.diff(self.X, axis=0) == 1.0
        return [name for name, counts in zip(self.names, steps.all(axis=0), strict=True) if counts]

    def __repr__(self) -> str:
        size = f"{plural(len(self.y), 'sample')}, {plural(self.X.shape[1], 'feature')}"
        n_positive = int(self.y.sum())
        other, positive = self.classes
        counts = f"{len(self.y) - n_positive:,} of class {other!r}, {n_positive:,} of {positive!r}"
        return f"SampleData({size}; {counts})"

    def copies(self) -> list[tuple[int, int]]:
        """Lines of samples with the same features as an earlier one, each with the earlier line."""
        first: dict[bytes, int] = {}
        found = []
        for line, row in zip(self.lines.tolist(), self.X + 0.0, strict=True):
            before = first.setdefault(row.tobytes(), line)
            if before != line:
                found.append((before, line))
        return found

    def groups_are_whole(self) -> bool:
        """Whether the rows of each group have the same label and stratum; True without groups."""
        if self.groups is None:
            return True
        columns = [c.tolist() for c in (self.groups, self.y, self.strata) if c is not None]
        return len(set(zip(*columns, strict=True))) == len(set(columns[0]))


def read_samples(
    path: str | PathLike[str],
    label: str,
    *,
    positive: str | None = None,
    stratum: str | None = None,
    group: str | None = None,
    ignore: Sequence[str] = (),
    missing: str = "refuse",
    separator: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
) -> SampleData:
    """Read labelled samples from a CSV, TSV, JSON or Parquet file.

    Columns of numbers, and of true and false, are features. A column of words becomes a feature for
    each word, if there are at most ten of them; with more, it is left out, as are constant columns,
    columns without a name, and columns with whole numbers above 2^53, which are ids.

    Parameters
    ----------
    path : str or path-like
    label : str
        The column of classes.
    positive : str, optional
        The class that should be ranked first, against all others. None: of two classes, the larger
        number or the last word in alphabetical order.
    stratum, group : str, optional
        Columns of strata, such as hospitals, and of groups, such as patients.
    ignore : sequence of str, default=()
        Columns to leave out.
    missing : {"refuse", "drop-rows", "drop-columns", "median"}, default="refuse"
        What to do with missing values: raise an error, leave out incomplete rows or columns, or
        replace numbers by the median of their column, and words by the word "missing".
    separator : str, optional
        Between the columns of a CSV file. None: as in its first line.
    decimal, thousands : str, optional
        The marks within numbers that are text. By default a point and no mark, or, in a file with
        semicolons and decimal commas, a comma and a point.

    Returns
    -------
    SampleData

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "samples.csv")
    ...     text = "age,smoker,is\\n61,yes,ill\\n35,no,well\\n48,yes,well\\n57,no,ill\\n"
    ...     _ = path.write_text(text)
    ...     data = read_samples(path, "is", positive="ill")
    >>> data.names, data.y.tolist()
    (['age', 'smoker=no', 'smoker=yes'], [1.0, 0.0, 0.0, 1.0])
    >>> data.columns[1]
    ('smoker', '2 words: a feature for each')
    """
    check_value("missing", missing, Choice(*MISSING))
    source = small_file(path, separator=separator, decimal=decimal, thousands=thousands)
    file, samples = source.path, SmallTable.of_file(source)
    special = {"label": label, "stratum": stratum, "group": group}
    for named in (*special.values(), *ignore):
        samples.find(named)
    table = {name: [_tidy(v) for v in samples.values(name)] for name in samples.columns}
    lines = np.fromiter(source.row_numbers(), np.intp, len(table[label]))
    told = {name: f"the {role}" for role, name in special.items() if name is not None}
    told |= dict.fromkeys(ignore, "left out as asked")
    if "" in table and "" not in told:  # such as the row numbers that pandas writes
        told[""] = "no name: left out"
    features = [name for name in table if name not in told]
    gaps = [name for name in features if None in table[name] and set(table[name]) != {None}]
    handled = ""
    if missing == "drop-rows":
        used = [name for name in (*features, *special.values()) if name is not None]
        whole = np.array([all(table[n][k] is not None for n in used) for k in range(len(lines))])
        if not whole.any():
            raise DataError(f'{file}: every row has a missing value. Use missing="drop-columns".')
        table = {name: list(compress(values, whole)) for name, values in table.items()}
        lines, dropped = lines[whole], int((~whole).sum())
        handled = f"{plural(dropped, 'sample')} with missing values left out." if dropped else ""
    elif gaps and missing == "drop-columns":
        handled = f"{plural(len(gaps), 'column')} with missing values left out."
    elif gaps:
        handled = (
            f"Missing values of {plural(len(gaps), 'column')} were replaced by the median or, "
            'among words, by the word "missing".'
        )
    places = [f"{file}, {source.row_word} {line}" for line in lines]
    y, classes = _classes(file, table[label], label, positive, places)
    parts: list[NDArray[np.float64]] = []
    names: list[str] = []
    for name in features:
        told[name], values, called = _feature(name, table[name], places, missing)
        parts += values
        names += called
    if not parts:
        raise DataError(f"{file} has no column of numbers or categories besides {label!r}.")
    ids = [None if n is None else _ids(n, table[n], places) for n in (stratum, group)]
    columns = [(name, told[name]) for name in table]
    X = np.column_stack(parts)
    return SampleData(X, y, names, classes, ids[0], ids[1], columns, lines, handled)


def two_valued(path: str | PathLike[str], separator: str | None = None) -> list[str]:
    """The columns of a file with two different values, the last first: they may be classes."""
    samples = SmallTable.of_file(small_file(path, separator=separator))
    values = {name: {_tidy(v) for v in samples.values(name)} - {None} for name in samples.columns}
    return [name for name, found in reversed(values.items()) if name and len(found) == 2]


def _tidy(value: Any) -> Any:
    """None for a missing value; no spaces around words."""
    if isinstance(value, str):
        value = value.strip()
        return None if value.lower() in NOTHING else value
    if isinstance(value, float) and math.isnan(value):
        return None
    return value


def _classes(
    file: Path, values: list[Any], label: str, positive: str | None, places: list[str]
) -> tuple[NDArray[np.float64], tuple[str, str]]:
    _refuse_gaps(label, values, places)
    words = [_word(value) for value in values]
    counts = Counter(words)
    known = sorted(counts, key=lambda word: (_number(word) is None, _number(word) or 0.0, word))
    if positive is not None:
        positive = _word(positive)
    elif len(known) == 2:
        positive = known[-1]
    if positive is None or positive not in counts or len(known) == 1:
        raise DataError(
            f"{file}: the label {label!r} has {plural(len(known), 'different value')}, such as "
            f"{listed(known)}. An AUC compares two classes: name one of these values "
            "as positive, to compare it with all others, or make two of them, such as those above "
            "and below a threshold. For the order of numbers, use leave_pair_out in Python."
        )
    others = [word for word in known if word != positive]
    other = others[0] if len(others) == 1 else f"not {positive}"
    y = np.array([float(word == positive) for word in words])
    for name, size in ((positive, int(y.sum())), (other, int(len(y) - y.sum()))):
        if size < 2:
            raise DataError(
                f"{file}: the class {name!r} has one row. At least 2 rows are needed, as one is "
                "held out, and 10 or more for a useful interval."
            )
    return y, (other, positive)


def _feature(
    name: str, values: list[Any], places: list[str], missing: str
) -> tuple[str, list[NDArray[np.float64]], list[str]]:
    """How a column was used, and its features with their names."""
    holes = [k for k, value in enumerate(values) if value is None]
    if {str(value).lower() for value in values if value is not None} <= {"true", "false"}:
        values = [None if value is None else str(value).lower() == "true" for value in values]
    numbers = [_number(value) for value in values]
    bad = [k for k, v in enumerate(values) if v is not None and numbers[k] is None]
    if len(holes) == len(values):
        return "empty: left out", [], []
    if holes and missing == "drop-columns":
        return f"{plural(len(holes), 'missing value')}: left out", [], []
    if bad and len(bad) + len(holes) < len(values):
        k = bad[0]
        raise DataError(
            f"{places[k]}: the column {name!r} has numbers in other lines, but "
            f"{values[k]!r} here. Correct it, or leave the column out, in ignore."
        )
    if holes and missing == "refuse":
        raise DataError(
            f"{places[holes[0]]}: the column {name!r} has no value here"
            f"{f' and in {len(holes) - 1} more lines' if len(holes) > 1 else ''}. Use "
            'missing="drop-rows", "drop-columns" or "median".'
        )
    if any(_is_long(value) for value in values):
        return "whole numbers above 2^53, as ids have: left out", [], []
    gaps = f", {plural(len(holes), 'missing value')} replaced by " if holes else ""
    if bad:
        words = np.array(["missing" if value is None else _word(value) for value in values], object)
        known = sorted(set(words))
        if len(known) == 1:
            return "constant: left out", [], []
        if len(known) > MANY:
            return f"{len(known)} different words: left out", [], []
        columns = [(words == word).astype(np.float64) for word in known]
        what = f"{len(known)} words: a feature for each" + (gaps and f'{gaps}"missing"')
        return what, columns, [f"{name}={word}" for word in known]
    column = np.array([np.nan if number is None else number for number in numbers])
    what = "a feature"
    if holes:
        column[holes] = np.nanmedian(column)
        what += f"{gaps}the median"
    if np.ptp(column) == 0:
        return "constant: left out", [], []
    return what, [column], [name]


def _ids(name: str, values: list[Any], places: list[str]) -> NDArray[Any]:
    _refuse_gaps(name, values, places)
    return id_array([_word(value) for value in as_ids(values, f"The column {name!r}").tolist()])


def _refuse_gaps(name: str, values: list[Any], places: list[str]) -> None:
    if None in values:
        raise DataError(
            f"{places[values.index(None)]}: the column {name!r} has no value here. Fill it in, or "
            'use missing="drop-rows".'
        )


def _number(value: Any) -> float | None:
    """A finite number; None for other values."""
    number = as_number(value)
    return number + 0.0 if math.isfinite(number) else None  # not -0


def _is_long(value: Any) -> bool:
    """Whether a value is a whole number in digits, with more digits than a float holds."""
    digits = str(value).lstrip("+-")
    return not isinstance(value, float) and digits.isdecimal() and float(digits) > 2.0**53


def _word(value: Any) -> str:
    """A value as a word: 1 and 1.0 are the same, and numbers keep all their digits."""
    number = None if isinstance(value, bool | bytes) else _number(value)
    if number is not None:
        word = repr(number).removesuffix(".0")
        if Decimal(word) == Decimal(str(value)):
            return word
    return str(value)
