"""The formats of table files, their text, and how columns are written."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import re
import sys
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib import import_module
from itertools import count, islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from rankwise.errors import DataError, MissingExtraError, ParameterError
from rankwise.files import check_regular, replacing
from rankwise.graph.query_groups import is_number

SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
}
FORMATS = tuple(dict.fromkeys(SUFFIXES.values()))
SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "vertical bars", ",": "commas"}
SPREADSHEETS = (".xlsx", ".xls", ".ods")
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
MISSING_WORDS = [
    "", "NA", "N/A", "n/a", "na", "NaN", "nan", "NULL", "null", "None", "none", "#N/A", "?",
]  # fmt: skip
"""What stands for a missing value in text files."""
BYTE_ORDER = {
    b"\xff\xfe\0\0": "UTF-32",
    b"\0\0\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
"""First bytes of text in other encodings."""
BROKEN = (EOFError, OSError, zlib.error)
"""Errors of files that are damaged or end too early."""
MAGIC = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bz2",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
}
ENTRY = re.compile(r"[^\s,]")  # where an entry of a JSON list begins
SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
FEW = 8  # names in a sentence
SHORT = 60  # characters of a name in a sentence


def listed(names: Sequence[str]) -> str:
    """The first names; long ones are cut."""
    more = f" and {len(names) - FEW} more" if len(names) > FEW else ""
    shown = (
        name if 0 < len(name) <= SHORT else f"{name[: SHORT - 1]}…" if name else "(no name)"
        for name in names[:FEW]
    )
    return ", ".join(shown) + more


def format_of(path: Path) -> str | None:
    """The format that the suffix of a file names, plain or compressed; None for others."""
    suffix = Path(path.stem).suffix if path.suffix.lower() in COMPRESSED else path.suffix
    return SUFFIXES.get(suffix.lower())


def compression_of(path: Path) -> str | None:
    """How a file is compressed, by its first bytes; it must be one that can be read again."""
    check_regular(path)
    with path.open("rb") as file:
        begin = file.read(4)
    return next((name for magic, name in MAGIC.items() if begin.startswith(magic)), None)


class OptionalModule:
    """A module of an optional package, which is imported when it is first used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        try:
            return getattr(import_module(self._name), attribute)
        except ImportError as error:
            raise MissingExtraError(self._name.partition(".")[0], "tables") from error


arrow, parquet = OptionalModule("pyarrow"), OptionalModule("pyarrow.parquet")


def opened_bytes(path: Path) -> Any:
    """The bytes of a file, decompressed."""
    kind = compression_of(path)
    if kind in ("gzip", "bz2"):
        return (gzip if kind == "gzip" else bz2).open(path, "rb")
    if kind is None:
        return path.open("rb")
    return io.BufferedReader(arrow.input_stream(str(path), compression=kind))


def opened_text(path: Path) -> Any:
    """The text of a file, decompressed; without the mark of its byte order."""
    return io.TextIOWrapper(opened_bytes(path), encoding="utf-8-sig", newline="")


def csv_rows(path: Path, separator: str) -> Iterator[tuple[int, list[str]]]:
    """The rows of a CSV file that are not empty, each with the line on which it begins.

    Raises an error about the first row that is longer or shorter than the first one.
    """
    with opened_text(path) as file:
        reader = csv.reader(file, delimiter=separator, strict=True)
        begin, width = 1, None
        try:
            for row in reader:
                width = width or len(row)
                if row and len(row) != width:
                    raise DataError(
                        f"{path}, line {begin}: got {len(row)} values for {width} columns. Put "
                        "values that contain the separator in quotation marks."
                    )
                if row:
                    yield begin, row
                begin = reader.line_num + 1
        except csv.Error as error:
            raise DataError(
                f"{path}, line {begin}: cannot be read as CSV: {error}. Check the quotation marks "
                "of this row."
            ) from error
        except UnicodeDecodeError as error:
            raise encoding_fault(path) from error


def csv_names(path: Path, separator: str) -> list[str]:
    """The names of the columns of a CSV file, which are in its first line."""
    line, names = next(csv_rows(path, separator), (0, []))
    if not names:
        raise DataError(f"{path} is empty: it needs a line with the names of columns.")
    for mark, words in SEPARATORS.items() if len(names) == 1 else ():
        if mark in names[0] and mark != separator:
            raise DataError(
                f"{path}, line {line}: one column, {names[0][:40]!r}. Its values seem to be "
                f"separated by {words}: write commas or, for tables of rows to rank, give "
                f"--separator {mark!r}, and --decimal ',' if numbers have decimal commas."
            )
    if all(is_number(name) for name in names):
        raise DataError(
            f"{path}, line {line}: the first line has numbers only, such as {names[0]!r}, "
            "where names of columns are expected. Add a line with names."
        )
    check_names_differ(path, [name.strip() for name in names])
    empty = [k for k, name in enumerate(names, 1) if not name.strip()]
    if empty and (empty != [1] or len(names) == 1):
        raise DataError(f"{path}, line {line}: column {empty[-1]} has no name: give it one.")
    return names


def separator_of(path: Path) -> str:
    """What is between the values of a text file, by its suffix."""
    return "\t" if format_of(path) == "tsv" else ","


def place_of_row(
    path: Path, row: int, format: str | None = None, separator: str | None = None
) -> str:
    """The file and the line on which a row begins, for messages; rows count from 0.

    Reads the file again: lines may be empty, and rows of CSV files may have several lines.
    """
    numbers = _numbers(path, format or format_of(path), separator)
    return f"{path}, {row_word(path, format)} {next(islice(numbers, row, None))}"


def row_word(path: Path, format: str | None = None) -> str:
    """What to call a row: "row" in JSON and Parquet files, otherwise "line"."""
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
        rows = csv_rows(path, separator or separator_of(path))
        yield from (line for line, _ in islice(rows, 1, None))


def check_names_differ(source: Any, names: Sequence[Any]) -> None:
    """Refuse a table with two columns of the same name."""
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        places = [str(k) for k, name in enumerate(names, 1) if name == twice]
        raise DataError(
            f"{source} has {len(places)} columns {twice!r} (columns {', '.join(places)}): give "
            "each its own name."
        )


def encoding_of(text: bytes) -> str | None:
    """The encoding that the first bytes of a text declare; None for UTF-8 or if there is none."""
    return next((name for mark, name in BYTE_ORDER.items() if text.startswith(mark)), None)


def encoding_fault(path: Path) -> DataError:
    """An error about the first line that is not UTF-8."""
    with opened_bytes(path) as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                name = encoding_of(line) if number == 1 else None
                guess = "If it is Latin-1, convert it by 'iconv -f LATIN1 -t UTF-8'."
                if name is not None:
                    guess = (
                        f"It is {name}: convert it, for example with 'iconv -f {name} -t UTF-8'."
                    )
                begin = line[max(error.start - 15, 0) : error.start + 5]
                return DataError(
                    f"{path}, line {number}: not UTF-8 text, at byte {error.start + 1} of the "
                    f"line, near {begin!r}. {guess}"
                )
    return DataError(f"{path} is not UTF-8 text.")


def broken_file(path: Path, error: Exception) -> Exception:
    """An error about a file that ends too early; others as they are."""
    if isinstance(error, OSError) and error.errno is not None:
        return error  # there is no such file, or it may not be read
    kind = compression_of(path) or "compressed"
    return DataError(
        f"{path} is not a complete {kind} file: {str(error).rstrip('.')}. Copy it again."
    )


def parsed_json(text: str) -> Any:
    """The value of JSON; duplicate keys, and text that cannot be written, are refused.

    Python alone would keep the last of two values, and accept halves of surrogate pairs. Raises
    DataError without a place.
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


def _half_of_pair(value: Any) -> str | None:
    """A text within a value that cannot be encoded; None if there is none."""
    if isinstance(value, str):
        return value if any("\ud800" <= letter <= "\udfff" for letter in value) else None
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        return next((found for entry in value if (found := _half_of_pair(entry))), None)
    return None


def json_records(path: Path, format: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a file of JSON (a list) or of JSON lines, each with its place."""
    try:
        with opened_text(path) as file:
            for line, text in enumerate([file.read()] if format == "json" else file, 1):
                if format != "json" and not text.strip():
                    continue
                try:
                    value = parsed_json(text)
                except DataError as error:
                    at = f"line {line}" if format != "json" else _place(text, error)
                    raise DataError(f"{path}, {at}: {error}.") from error
                if format == "json" and not isinstance(value, list):
                    raise DataError(f"{path} must hold a list of objects, one for each row.")
                found = [(f"line {line}", value)]
                if format == "json":
                    found = [(f"row {k}", entry) for k, entry in enumerate(value, 1)]
                for place, record in found:
                    if not isinstance(record, dict):
                        raise DataError(
                            f"{path}, {place}: expected an object with names and values."
                        )
                    yield f"{path}, {place}", record
    except UnicodeDecodeError as error:
        raise encoding_fault(path) from error


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


def write_columns(columns: dict[str, Any], path: Path | None, format: str) -> None:
    """Write arrays of equal length, by name; to stdout if `path` is None.

    Numbers are written with all their digits. CSV and JSON need no other package.
    """
    if path is not None and path.suffix.lower() in COMPRESSED:
        raise ParameterError(f"{path}: tables are written without compression.")
    if format in ("parquet", "arrow"):
        table = arrow.table({name: arrow.array(values) for name, values in columns.items()})
        if path is None:
            raise ParameterError(f"A {format} file cannot be written to stdout.")
        with replacing(path) as beside:
            if format == "parquet":
                parquet.write_table(table, beside)
            else:
                OptionalModule("pyarrow.feather").write_feather(table, str(beside))
    elif path is None:
        _write_text(columns, sys.stdout, format)
    else:
        with replacing(path) as beside, beside.open("w", newline="", encoding="utf-8") as file:
            _write_text(columns, file, format)


def _write_text(columns: dict[str, Any], file: TextIO, format: str) -> None:
    rows = zip(*(np.asarray(values).tolist() for values in columns.values()), strict=True)
    if format in ("csv", "tsv"):
        writer = csv.writer(file, delimiter="\t" if format == "tsv" else ",", lineterminator="\n")
        writer.writerows([columns, *rows])
        return
    records = [dict(zip(columns, row, strict=True)) for row in rows]
    if format == "json":
        json.dump(records, file)
    else:
        file.writelines(f"{json.dumps(record)}\n" for record in records)
