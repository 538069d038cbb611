"""Small tables of any format: their columns as lists of Python's values."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.arrays import Array
from rankwise.data.tables.arrow_files import TableFile
from rankwise.data.tables.formats import (
    BROKEN,
    broken_file,
    csv_names,
    csv_rows,
    format_of,
    json_records,
    listed,
    place_of_row,
    separator_of,
)
from rankwise.errors import DataError
from rankwise.graph.query_groups import entries_of, missing_entries, text_fault

Columns = dict[str, list[Any]]


def read_records(path: Path) -> Columns:
    """The columns of a table by name; the suffix names the format, CSV if it is unknown.

    Files may be compressed. Values of CSV files are text. A row of a JSON file that lacks a key
    has None there.
    """
    format = format_of(path) or "csv"
    try:
        if format in ("parquet", "arrow"):
            file = TableFile.of(path, format)
            table = file.read(file.names)
            columns = {name: table.column(name).to_pylist() for name in file.names}
        elif format in ("json", "jsonl"):
            records = [record for _, record in json_records(path, format)]
            keys = dict.fromkeys(name for record in records for name in record)
            columns = {name: [record.get(name) for record in records] for name in keys}
        else:
            names = [name.strip() for name in csv_names(path, separator_of(path))]
            rows = [row for _, row in csv_rows(path, separator_of(path))][1:]
            columns = {name: [row[k] for row in rows] for k, name in enumerate(names)}
    except BROKEN as error:
        raise broken_file(path, error) from error
    if not any(map(len, columns.values())):
        raise DataError(f"{path} has no rows: it needs names of columns, and rows of values.")
    return columns


@dataclass(frozen=True, eq=False)
class SmallTable:
    """The columns of a file, a data frame or a dictionary, and the places of its rows.

    Attributes
    ----------
    source : str
        What to call the table in errors.
    columns : mapping of str to sequence
    place : callable
        The place of a row, which counts from 0, for errors.
    path : Path or None
        The file, if the table is one.
    """

    source: str
    columns: Mapping[str, Any]
    place: Callable[[int], str]
    path: Path | None = None

    @classmethod
    def of(cls, table: Any) -> SmallTable:
        """The table in a file of any format, a data frame or a dictionary of columns."""
        if isinstance(table, str | os.PathLike):
            path = Path(table)
            return cls(str(path), read_records(path), partial(place_of_row, path), path)
        names = getattr(table, "columns", table if isinstance(table, Mapping) else None)
        names = getattr(table, "column_names", names)  # columns of pyarrow's tables are no names
        if names is None:
            raise DataError(
                "A table is a path, a data frame or a dictionary of columns: got "
                f"{type(table).__name__}."
            )
        columns = {str(name): table[name] for name in names}
        return cls("The table", columns, lambda row: f"The table, row {row}")

    def find(self, given: str | None, usual: Sequence[str] = ()) -> str | None:
        """The column that the user named, or the first usual one; None if there is neither."""
        if given is None:
            return next((name for name in usual if name in self.columns), None)
        if given not in self.columns:
            raise DataError(
                f"{self.source} has no column {given!r}: it has {listed(list(self.columns))}."
            )
        return given

    def values(self, name: str) -> list[Any]:
        """A column as a list."""
        self.find(name)
        return entries_of(self.columns[name])

    def ids(self, name: str) -> NDArray[Any]:
        """A column as an array of objects, without spaces around texts.

        Damaged and very long ids of files are refused.
        """
        values = [v.strip() if isinstance(v, str) else v for v in self.values(name)]
        for row, value in enumerate(values):
            if isinstance(value, list | dict):
                raise DataError(f"{self.place(row)}: {name!r} holds lists, where ids are needed.")
            fault = text_fault(value) if self.path and isinstance(value, str) else None
            if fault is not None:
                raise DataError(f"{self.place(row)}: the column {name!r} {fault}. Correct the id.")
        found = np.empty(len(values), dtype=object)
        found[:] = values
        found[missing_entries(found)] = None
        return found

    def numbers(self, name: str) -> Array:
        """A column of finite numbers."""
        values = self.values(name)
        found = np.array([_float(value) for value in values], dtype=np.float64)
        wrong = ~np.isfinite(found)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise DataError(
                f"{self.place(row)}: the column {name!r} must hold numbers: got {values[row]!r}. "
                "Correct the value, or leave the column out."
            )
        return found

    def is_text(self, name: str) -> bool:
        """Whether a column has words, and no number."""
        values = [value for value in self.ids(name) if value not in (None, "")]
        return bool(values) and all(_float(value) != _float(value) for value in values)


def _float(value: Any) -> float:
    """A number as a float, NaN for all else."""
    try:
        return float(value)
    except (OverflowError, TypeError, ValueError):
        return float("nan")
