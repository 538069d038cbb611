"""Columns of CSV, JSON lines, JSON and Parquet files."""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

from rankwise.errors import DataError

Columns = dict[str, list[Any]]


def read_table(path: Path) -> Columns:
    """The columns of a table by name; the format is that of the suffix, CSV if it is another.

    Files may be gzipped. Values of CSV files are text. A row of a JSON file that lacks a key has
    None there.
    """
    suffix = _suffix(path)
    try:
        if suffix == ".parquet":
            return _parquet(path)
        with _opened(path) as file:
            if suffix in (".jsonl", ".ndjson"):
                return _of_records(path, _json_lines(path, file))
            if suffix == ".json":
                return _of_records(path, enumerate(_json_list(path, file), 1))
            return _csv(path, csv.reader(file, delimiter=_delimiter(suffix)))
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path} is not a whole gzip file: {error}.") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text: {error.reason}, byte {error.start}.") from error
    except csv.Error as error:
        raise DataError(f"{path} cannot be read as CSV: {error}.") from error


def place_of_row(path: Path, row: int) -> str:
    """The file and the line on which a row begins, for messages; rows count from 0.

    Reads the file again: lines may be empty, and rows of CSV files may have several lines.
    """
    with _opened(path) as file:
        return f"{path}, {row_word(path)} {next(islice(_numbers(path, file), row, None))}"


def row_word(path: Path) -> str:
    """What the rows of a file are: those of JSON and Parquet files are not lines."""
    return "row" if _suffix(path) in (".json", ".parquet") else "line"


def row_numbers(path: Path, n: int) -> list[int]:
    """The line on which each of the first n rows begins, as in `place_of_row`."""
    with _opened(path) as file:
        return list(islice(_numbers(path, file), n))


def _numbers(path: Path, file: Any) -> Iterator[int]:
    suffix = _suffix(path)
    if suffix in (".json", ".parquet"):
        return count(1)
    if suffix in (".jsonl", ".ndjson"):
        return (line for line, text in enumerate(file, 1) if text.strip())
    lines = _row_lines(csv.reader(file, delimiter=_delimiter(suffix)))
    next(lines)
    return lines


def _row_lines(reader: Any) -> Iterator[int]:
    """The lines on which the rows of a CSV file begin."""
    begin = 1
    for row in reader:
        if row:
            yield begin
        begin = reader.line_num + 1


def _opened(path: Path) -> Any:
    opened: Any = gzip.open if path.suffix == ".gz" else open
    return opened(path, "rt", encoding="utf-8-sig", newline="")


def _delimiter(suffix: str) -> str:
    return "\t" if suffix == ".tsv" else ","


def _suffix(path: Path) -> str:
    """What says the format, in lower case."""
    return (Path(path.stem).suffix if path.suffix == ".gz" else path.suffix).lower()


def _csv(path: Path, reader: Iterator[list[str]]) -> Columns:
    rows = [row for row in reader if row]
    if len(rows) < 2:
        raise DataError(f"{path} needs a line with the names of columns, and lines of values.")
    names = [name.strip() for name in rows[0]]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{path} has two columns {twice!r}.")
    for k, row in enumerate(rows[1:]):
        if len(row) != len(names):
            raise DataError(
                f"{place_of_row(path, k)}: got {len(row)} values for {len(names)} columns."
            )
    return {name: list(values) for name, *values in zip(names, *rows[1:], strict=True)}


def _json_lines(path: Path, file: Any) -> Iterator[tuple[int, Any]]:
    for line, text in enumerate(file, 1):
        if text.strip():
            try:
                yield line, json.loads(text)
            except json.JSONDecodeError as error:
                raise DataError(f"{path}, line {line}: not JSON: {error.msg}.") from error


def _json_list(path: Path, file: Any) -> list[Any]:
    try:
        rows = json.load(file)
    except json.JSONDecodeError as error:
        raise DataError(f"{path}, line {error.lineno}: not JSON: {error.msg}.") from error
    if not isinstance(rows, list):
        raise DataError(f"{path} must hold a list of objects, one for each row.")
    return rows


def _of_records(path: Path, records: Iterator[tuple[int, Any]]) -> Columns:
    columns: Columns = {}
    n = 0
    for line, record in records:
        if not isinstance(record, dict):
            raise DataError(f"{path}, row {line}: expected an object with names and values.")
        for name in record:
            if name not in columns:
                columns[name] = [None] * n
        for name, values in columns.items():
            values.append(record.get(name))
        n += 1
    if not n:
        raise DataError(f"{path} has no rows.")
    return columns


def _parquet(path: Path) -> Columns:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise ImportError(
            f"Reading {path} needs pyarrow, which is not installed: pip install pyarrow"
        ) from error
    try:
        table = parquet.read_table(path)
    except ArrowException as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise DataError(f"{path} cannot be read as Parquet: {reason}.") from error
    if not table.num_rows:
        raise DataError(f"{path} has no rows.")
    return {name: table.column(name).to_pylist() for name in table.column_names}
