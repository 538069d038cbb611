"""Write columns to table files."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from rankwise.data.tables.formats import COMPRESSED, require_pyarrow
from rankwise.errors import ParameterError
from rankwise.files import replacing

BLOCK = 10_000  # rows written at a time


def write_columns(columns: dict[str, Any], path: Path | None, format: str) -> None:
    """Write arrays of equal length, by name; to stdout if `path` is None.

    Numbers are written with all their digits. CSV and JSON need no other package.
    """
    if path is not None and path.suffix.lower() in COMPRESSED:
        raise ParameterError(f"{path}: tables are written without compression.")
    if format in ("parquet", "arrow"):
        arrow = require_pyarrow("pyarrow")
        table = arrow.table({name: arrow.array(values) for name, values in columns.items()})
        if path is None:
            raise ParameterError(f"A {format} file cannot be written to stdout.")
        with replacing(path) as beside:
            if format == "parquet":
                require_pyarrow("pyarrow.parquet").write_table(table, beside)
            else:
                require_pyarrow("pyarrow.feather").write_feather(table, str(beside))
    elif path is None:
        _write_text(columns, sys.stdout, format)
    else:
        with replacing(path) as beside, beside.open("w", newline="", encoding="utf-8") as file:
            _write_text(columns, file, format)


def _write_text(columns: dict[str, Any], file: TextIO, format: str) -> None:
    if format in ("csv", "tsv"):
        writer = csv.writer(file, delimiter="\t" if format == "tsv" else ",", lineterminator="\n")
        writer.writerow(columns)
        for rows in _blocks(columns):
            writer.writerows(rows)
        return
    records = (dict(zip(columns, row, strict=True)) for rows in _blocks(columns) for row in rows)
    if format == "json":
        json.dump(list(records), file)
        return
    for record in records:
        file.write(f"{json.dumps(record)}\n")


def _blocks(columns: dict[str, Any]) -> Iterator[Iterator[tuple[Any, ...]]]:
    """Rows of Python's values."""
    arrays = [np.asarray(values) for values in columns.values()]
    for start in range(0, len(arrays[0]), BLOCK):
        yield zip(*(array[start : start + BLOCK].tolist() for array in arrays), strict=True)
