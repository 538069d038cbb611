"""Tables of scores with features on both sides, for the commands fit and predict."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankwise.cli.data_options import ColumnOptions
from rankwise.cli.options import RankerOptions, refuse_all, split_names
from rankwise.cli.terminal import progress
from rankwise.errors import DataError
from rankwise.rankers import ranker_class
from rankwise.tables import plural


@dataclass(frozen=True, kw_only=True)
class TableRankerOptions(RankerOptions):
    """The options of a ranker, for the one ranker of tables."""

    model: str = "two-sided-rankrls"

    @property
    def ranker_class(self) -> Any:
        """The class of the ranker."""
        return ranker_class(self.model)


def refuse_unused(data: ColumnOptions) -> None:
    """Refuse options of columns that tables with features on both sides do not have."""
    known = {"ignore", "separator", "decimal", "thousands", "format"}
    others = {name: value for name, value in vars(data).items() if name not in known}
    refuse_all(others, "Tables with features on both sides have numbers only: leave this out.")


def fit_table(table: Path, rows: Path, columns: Path, ranker: Any, data: ColumnOptions) -> None:
    """Fit a ranker to the scores in a table and to the features of both sides."""
    Y = read_named(table, data)
    sides = []
    for name, path, wanted in (("row", rows, Y.index), ("column", columns, Y.columns)):
        frame = read_named(path, data)
        missing = [each for each in wanted if each not in frame.index]
        if missing:
            raise DataError(
                f"{path} has no line {missing[0]!r}, which is a {name} of {table} "
                f"({len(missing)} of {plural(len(wanted), name)} are missing). The first column "
                "of each file names its rows, and the first line of the table names its columns."
            )
        frame = frame.loc[wanted]
        if getattr(ranker, f"{name}_kernel") == "precomputed":
            absent = [each for each in wanted if each not in frame.columns]
            if absent:
                raise DataError(
                    f"{path} has no column {absent[0]!r}: with {name}_kernel=precomputed, it needs "
                    f"a line and a column for each {name} of {table}."
                )
            frame = frame[list(wanted)]
        sides.append(frame)
    with progress(f"Fitting to {plural(Y.size, 'cell')}"):
        ranker.fit(*sides, Y)


def predict_table(ranker: Any, rows: Path, columns: Path | None, data: ColumnOptions) -> Any:
    """The scores of a table of rows and columns, as columns of a file by name."""
    R = _features(read_named(rows, data), ranker.sides_[0], rows)
    C, names = None, ranker.column_names_
    if columns is not None:
        frame = read_named(columns, data)
        C, names = _features(frame, ranker.sides_[1], columns), frame.index
    scores = ranker.predict(R, C)
    names = [str(k) for k in range(scores.shape[1])] if names is None else [str(n) for n in names]
    first = "row"
    while first in names:
        first += "_"
    return {first: [str(n) for n in R.index], **dict(zip(names, scores.T, strict=True))}


def _features(frame: Any, side: Any, path: Path) -> Any:
    """The columns of a file that a side of a model was fitted to."""
    names = side.views[0].names
    if names is None:
        return frame
    missing = [name for name in names if name not in frame.columns]
    if missing:
        raise DataError(
            f"{path} has no column {missing[0]!r}, which the model was fitted to: "
            f"{plural(len(missing), 'column')} of {len(names)} are missing."
        )
    return frame[names]


def read_named(path: Path, data: ColumnOptions) -> Any:
    """A data frame of numbers, whose index is the first column of a file."""
    from fnmatch import fnmatchcase

    import numpy as np
    import pandas as pd

    from rankwise.data.table_columns import TableRows, Wants

    file = data.table_file(path)
    first, *names = file.names
    for left_out in split_names(data.ignore) or []:
        names = [name for name in names if name != left_out and not fnmatchcase(name, left_out)]
    read = TableRows(file, file.read([first, *names], [first]))
    values, faults = read.features(names, np.float64, Wants(keep_missing=True))
    others = [name for name in names if read.kinds[name] not in ("number", "text", "empty")]
    if faults or others:
        what = f"{path}: the column {others[0]!r} has no numbers: leave it out." if others else ""
        raise faults[0] if faults else DataError(what)
    index = pd.Index([str(name) for name in read.ids(first)], dtype=object)
    if not index.is_unique:
        twice = index[index.duplicated()][0]
        raise DataError(f"{path} has {twice!r} twice in its first column: names must differ.")
    return pd.DataFrame(values, index=index, columns=names)
