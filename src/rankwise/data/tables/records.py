"""Columns of small tables as lists of Python's values."""

from __future__ import annotations

import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count, islice
from pathlib import Path
from typing import Any

from rankwise.data.tables.formats import (
    SEPARATORS,
    check_names_differ,
    compression_of,
    csv_rows,
    encoding_fault,
    even_rows,
    format_of,
    opened_bytes,
    opened_text,
    require_pyarrow,
)
from rankwise.errors import DataError
from rankwise.graph.id_arrays import entries_of, text_fault

Columns = dict[str, list[Any]]


def read_records(path: Path) -> Columns:
    """The columns of a table by name; the format is that of the suffix, CSV if it is another.

    Files may be compressed. Values of CSV files are text. A row of a JSON file that lacks a key
    has None there.
    """
    format = format_of(path)
    try:
        if format in ("parquet", "arrow"):
            return _of_arrow(path, format)
        if format == "jsonl":
            return _of_records(path, json_lines(path))
        if format == "json":
            return _of_records(path, enumerate(json_list(path), 1))
        return _csv(path, even_rows(path, _separator(path)))
    except (EOFError, OSError, zlib.error) as error:
        raise broken_file(path, error) from error


def frame_columns(table: Any, what: str) -> Columns:
    """The columns of a data frame or dictionary as lists; errors begin with `what`."""
    names = getattr(table, "columns", table if isinstance(table, Mapping) else None)
    names = getattr(table, "column_names", names)  # columns of pyarrow's tables are no names
    if names is None:
        raise DataError(
            f"{what} a path, a data frame or a dictionary of columns: got {type(table).__name__}."
        )
    return {str(name): entries_of(table[name]) for name in names}


def broken_file(path: Path, error: Exception) -> Exception:
    """An error about a file that ends too early; others as they are."""
    if isinstance(error, OSError) and error.errno is not None:
        return error  # there is no such file, or it may not be read
    kind = compression_of(path) or "compressed"
    return DataError(f"{path} is not a whole {kind} file: {str(error).rstrip('.')}. Copy it again.")


def place_of_row(
    path: Path, row: int, format: str | None = None, separator: str | None = None
) -> str:
    """The file and the line on which a row begins, for messages; rows count from 0.

    Reads the file again: lines may be empty, and rows of CSV files may have several lines.
    """
    numbers = _numbers(path, format or format_of(path), separator)
    return f"{path}, {row_word(path, format)} {next(islice(numbers, row, None))}"


def row_word(path: Path, format: str | None = None) -> str:
    """What the rows of a file are: those of JSON and Parquet files are not lines."""
    return "row" if (format or format_of(path)) in ("json", "parquet", "arrow") else "line"


def row_numbers(path: Path, n: int) -> list[int]:
    """The line on which each of the first n rows begins, as in `place_of_row`."""
    return list(islice(_numbers(path, format_of(path), None), n))


def _numbers(path: Path, format: str | None, separator: str | None) -> Iterator[int]:
    if row_word(path, format) == "row":
        yield from count(1)
    elif format == "jsonl":
        with opened_text(path) as file:
            yield from (line for line, text in enumerate(file, 1) if text.strip())
    else:
        rows = csv_rows(path, separator or _separator(path))
        yield from (line for line, _ in islice(rows, 1, None))


def _separator(path: Path) -> str:
    return "\t" if format_of(path) == "tsv" else ","


def _csv(path: Path, lines: Iterator[tuple[int, list[str]]]) -> Columns:
    names = [name.strip() for name in next(lines, (1, []))[1]]
    mark = next((mark for mark in SEPARATORS if len(names) == 1 and mark in names[0]), None)
    if mark is not None:
        raise DataError(
            f"{path}, line 1: one column, {names[0][:40]!r}. Its values seem to be separated by "
            f"{SEPARATORS[mark]}: separate them by commas, or by tabs in a file .tsv."
        )
    rows = [row for _, row in lines]
    if not rows:
        raise DataError(f"{path} needs a line with the names of columns, and lines of values.")
    check_names_differ(path, names)
    values = zip(*rows, strict=True)
    return {name: list(column) for name, column in zip(names, values, strict=True)}


def parsed_json(text: str) -> Any:
    """The value of JSON, whose objects have every key once, and whose text can be written.

    Python alone would take the last of two values, and halves of surrogate pairs. Raises DataError
    without a place.
    """
    try:
        value = _DECODER.decode(text)
        half = _half_of_pair(value) if SURROGATE.search(text) else None
    except json.JSONDecodeError as error:
        raise DataError(f"not JSON: {error.msg}") from error
    except RecursionError as error:
        raise DataError("objects or lists are nested too deeply") from error
    except DataError:
        raise
    except ValueError as error:
        raise DataError("a number has too many digits: write it as text") from error
    if half is not None:
        raise DataError(f"the text {ascii(half)[:40]} has half of a surrogate pair")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        ((name, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise DataError(f"the key {name!r} appears twice in an object: leave one of them out")
    return made


_DECODER = json.JSONDecoder(object_pairs_hook=_once)
ENTRY = re.compile(r"[^\s,]")
SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def _half_of_pair(value: Any) -> str | None:
    """A text within a value that cannot be encoded; None if there is none."""
    if isinstance(value, str):
        return value if any("\ud800" <= letter <= "\udfff" for letter in value) else None
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        return next((found for entry in value if (found := _half_of_pair(entry))), None)
    return None


def json_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """The values of the lines that are not empty, with the numbers of these lines."""
    with opened_text(path) as file:
        line = 0
        try:
            for line, text in enumerate(file, 1):
                if text.strip():
                    yield line, parsed_json(text)
        except DataError as error:
            raise DataError(f"{path}, line {line}: {error}.") from error
        except UnicodeDecodeError as error:
            raise encoding_fault(path) from error


def json_list(path: Path) -> list[Any]:
    """The entries of a JSON file."""
    try:
        with opened_text(path) as file:
            text = file.read()
        rows = parsed_json(text)
    except DataError as error:
        raise DataError(f"{path}, {_place(text, error)}: {error}.") from error
    except UnicodeDecodeError as error:
        raise encoding_fault(path) from error
    if not isinstance(rows, list):
        raise DataError(f"{path} must hold a list of objects, one for each row.")
    return rows


def _place(text: str, error: DataError) -> str:
    """Where a list in JSON is wrong: the line or, if it can be read, the entry."""
    if isinstance(error.__cause__, json.JSONDecodeError):
        return f"line {error.__cause__.lineno}"
    row, at = 1, text.find("[") + 1
    try:
        while True:
            begin = next(ENTRY.finditer(text, at)).start()
            at = json.JSONDecoder().raw_decode(text, begin)[1]
            parsed_json(text[begin:at])
            row += 1
    except (RecursionError, StopIteration, ValueError):
        return f"row {row}"


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


def refuse_odd_texts(columns: Iterable[Iterable[Any]], where: Callable[[int], str]) -> None:
    """Raise an error about the id of an item that is damaged or much too long."""
    for ids in columns:
        for row, text in enumerate(ids):
            fault = text_fault(text) if isinstance(text, str) else None
            if fault is not None:
                raise DataError(f"{where(row)}: the id of an item {fault}. Correct it.")


def _of_arrow(path: Path, format: str) -> Columns:
    """The columns of a file in Parquet or in one of Arrow's formats."""
    arrow = require_pyarrow("pyarrow")
    try:
        with opened_bytes(path) as file:
            content = arrow.BufferReader(file.read())
        if format == "parquet":
            table = require_pyarrow("pyarrow.parquet").read_table(content)
        else:
            table = _arrow_table(content)
    except arrow.ArrowException as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise DataError(f"{path} cannot be read as {format.capitalize()}: {reason}.") from error
    if not table.num_rows:
        raise DataError(f"{path} has no rows.")
    return {name: table.column(name).to_pylist() for name in table.column_names}


def _arrow_table(content: Any) -> Any:
    """The table of a file (Feather), or of a stream."""
    arrow = require_pyarrow("pyarrow")
    try:
        return arrow.ipc.open_file(content).read_all()
    except arrow.ArrowInvalid:
        content.seek(0)
        return arrow.ipc.open_stream(content).read_all()
