"""Table files: their formats, their text, their rows by Arrow, and small tables as lists."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import math
import os
import re
import sys
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib import import_module
from itertools import count, islice
from pathlib import Path
from typing import Any, Self, TextIO

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.arrays import Array, Index
from rankwise.errors import DataError, MissingExtraError, ParameterError
from rankwise.files import check_regular, replacing
from rankwise.graph.query_groups import (
    EXACT,
    entries_of,
    float_fault,
    is_number,
    missing_entries,
    text_fault,
)
from rankwise.parameters import Choice, check_value

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


class ColumnFault(DataError):
    """What is wrong with a column, and the settings that would help."""

    def __init__(self, message: str, **settings: Any) -> None:
        super().__init__(message)
        self.settings = settings


def listed(names: Sequence[str]) -> str:
    """The first names; long ones are cut."""
    more = f" and {len(names) - FEW} more" if len(names) > FEW else ""
    shown = (
        name if 0 < len(name) <= SHORT else f"{name[: SHORT - 1]}…" if name else "(no name)"
        for name in names[:FEW]
    )
    return ", ".join(shown) + more


def also(places: Sequence[str]) -> str:
    """Further places where the same is wrong, in brackets; nothing without any."""
    return f" (also in {listed(places)})" if places else ""


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
compute = OptionalModule("pyarrow.compute")


def opened_bytes(path: Path) -> Any:
    """The bytes of a file, decompressed."""
    kind = compression_of(path)
    if kind in ("gzip", "bz2"):
        return (gzip if kind == "gzip" else bz2).open(path, "rb")
    if kind is None:
        return path.open("rb")
    return io.BufferedReader(arrow.input_stream(str(path), compression=kind))


@contextmanager
def opened_text(path: Path) -> Iterator[TextIO]:
    """The text of a file, decompressed, without the mark of its byte order.

    What is wrong with the bytes becomes a DataError.
    """
    try:
        with io.TextIOWrapper(opened_bytes(path), encoding="utf-8-sig", newline="") as file:
            yield file
    except UnicodeDecodeError as error:
        raise encoding_fault(path) from error
    except BROKEN as error:
        raise broken_file(path, error) from error


def csv_rows(path: Path, separator: str) -> Iterator[tuple[int, list[str]]]:
    """The rows of a CSV file that are not empty, each with the line on which it begins.

    Raises an error about all rows that are longer or shorter than the first one.
    """
    with opened_text(path) as file:
        reader = csv.reader(file, delimiter=separator, strict=True)
        begin, width, uneven = 1, None, {}
        try:
            for row in reader:
                width = width or len(row)
                if row and len(row) != width:
                    uneven[begin] = len(row)
                if row and not uneven:
                    yield begin, row
                begin = reader.line_num + 1
            if uneven:
                (line, got), *others = uneven.items()
                raise DataError(
                    f"{path}, line {line}: got {got} values for {width} columns"
                    f"{also([f'line {k}' for k, _ in others])}. Add the values that are missing, "
                    "and put values that contain the separator in quotation marks."
                )
        except csv.Error as error:
            raise DataError(
                f"{path}, line {begin}: cannot be read as CSV: {error}. Check the quotation marks "
                "of this row."
            ) from error


def csv_names(path: Path, separator: str) -> list[str]:
    """The names of the columns of a CSV file, which are in its first line."""
    line, names = next(csv_rows(path, separator), (0, []))
    if not names:
        raise DataError(f"{path} is empty: it needs a line with the names of columns.")
    for mark, words in SEPARATORS.items() if len(names) == 1 else ():
        if mark in names[0] and mark != separator:
            raise DataError(
                f"{path}, line {line}: one column, {names[0][:40]!r}. Its values seem to be "
                f"separated by {words}: leave the separator out, or give {mark!r}."
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


def separator_of(path: Path, format: str | None = None) -> str:
    """What is between the values of a text file, by its suffix, or by its first line if not."""
    usual = "\t" if (format or format_of(path)) == "tsv" else ","
    try:
        with opened_text(path) as file:
            line = file.readline()
    except (OSError, DataError):  # the reader explains it
        return usual
    return usual if usual in line else next((mark for mark in SEPARATORS if mark in line), usual)


def check_names_differ(source: Any, names: Sequence[Any]) -> None:
    """Refuse a table in which several columns have the same name."""
    found = []
    for name, n in Counter(names).items():
        if n > 1:
            places = [str(k) for k, other in enumerate(names, 1) if other == name]
            found.append(f"{n} columns {name!r} (columns {', '.join(places)})")
    if found:
        raise DataError(f"{source} has {listed(found)}: give each its own name.")


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
                name = encoding_of(line) or "LATIN1"
                begin = line[max(error.start - 15, 0) : error.start + 5]
                return DataError(
                    f"{path}, line {number}: not UTF-8 text, at byte {error.start + 1} of the "
                    f"line, near {begin!r}. Convert it, for example by 'iconv -f {name} -t UTF-8'."
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
        if SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise DataError(f"not JSON: {error.msg}") from error
    except RecursionError as error:
        raise DataError("objects or lists are nested too deeply") from error
    except DataError:
        raise
    except UnicodeEncodeError as error:
        text = error.object[error.object.rfind('"', 0, error.start) + 1 : error.end]
        raise DataError(f"the text {text[-30:]!a} has half of a surrogate pair") from error
    except ValueError as error:
        raise DataError("a number has too many digits: write it as text") from error
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        ((name, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise DataError(f"the key {name!r} appears twice in an object: leave one of them out")
    return made


_DECODER = json.JSONDecoder(object_pairs_hook=_once)


def json_records(path: Path, format: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a file of JSON (a list) or of JSON lines, each with its place."""
    is_list = format == "json"
    broken: dict[int, DataError] = {}
    with opened_text(path) as file:
        for line, text in enumerate([file.read()] if is_list else file, 1):
            if not is_list and not text.strip():
                continue
            try:
                value = parsed_json(text)
            except DataError as error:
                if is_list:
                    raise DataError(f"{path}, {_place(text, error)}: {error}.") from error
                broken[line] = error
            if broken:
                continue
            if is_list and not isinstance(value, list):
                raise DataError(f"{path} must hold a list of objects, one for each row.")
            for row, record in enumerate(value if is_list else [value], 1):
                place = f"{path}, row {row}" if is_list else f"{path}, line {line}"
                if not isinstance(record, dict):
                    raise DataError(f"{place}: expected an object with names and values.")
                yield place, record
    if broken:
        (line, first), *others = broken.items()
        more = also([f"line {k}" for k, _ in others])
        raise DataError(f"{path}, line {line}: {first}{more}.") from first


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
    """Write arrays of equal length, by name; text to stdout if `path` is None.

    Numbers are written with all their digits. CSV and JSON need no other package.
    """
    if path is None:
        _write_text(columns, sys.stdout, format)
        return
    with replacing(path) as beside:
        if format == "parquet":
            parquet.write_table(arrow.table(columns), beside)
        elif format == "arrow":
            OptionalModule("pyarrow.feather").write_feather(arrow.table(columns), str(beside))
        else:
            with beside.open("w", newline="", encoding="utf-8") as file:
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


# Rows by Arrow.

arrow_csv, arrow_json = OptionalModule("pyarrow.csv"), OptionalModule("pyarrow.json")
BLOCK = 1 << 20  # bytes of CSV that are parsed at a time: larger blocks leave the cache
FEW_COLUMNS = 1000  # for which a block is large enough
DIGITS = 76  # of Arrow's longest whole numbers
JSON_BLOCK = 1 << 23
KINDS = {bool: "truth value", int: "number", float: "number", str: "text", list: "list"}


@cache
def kind_of(kind: Any) -> str:
    """The kind of an Arrow type: number, text, date, time, empty, list or object."""
    types = arrow.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    kinds = {
        "number": (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean),
        "text": (types.is_string, types.is_large_string, types.is_string_view),
        "empty": (types.is_null,),
        "date": (types.is_date, types.is_timestamp),
        "time": (types.is_temporal,),
    }
    found = (name for name, tests in kinds.items() if any(is_such(kind) for is_such in tests))
    return next(found, "list or object")


NO_POINT = "\x01"  # for columns that Arrow is to leave as text
NO_MARK = re.compile(r"[\w+-]")


def number_pattern(decimal: str = ".", thousands: str | None = None) -> str:
    """A regular expression of numbers with some marks."""
    point = re.escape(decimal)
    grouped = "" if thousands is None else rf"[1-9]\d{{0,2}}(?:{re.escape(thousands)}\d{{3}})+|"
    return rf"^\s*[-+]?(?:(?:{grouped}\d+)(?:{point}\d*)?|{point}\d+)(?:[eE][-+]?\d+)?\s*$"


@dataclass(frozen=True)
class Source:
    """Where rows come from, for messages, and how their numbers are written.

    Attributes
    ----------
    path : object
        What to call the table.
    decimal, thousands : str
        The marks within numbers that are text.
    """

    path: Any
    decimal: str = field(default=".", kw_only=True)
    thousands: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        for mark in (self.decimal, *([] if self.thousands is None else [self.thousands])):
            if len(mark) != 1 or NO_MARK.match(mark) or self.decimal == self.thousands:
                raise ParameterError(
                    "The decimal mark and the mark between thousands must be a single character "
                    f"each, no letter or digit, and must differ: got {mark!r}."
                )

    @property
    def example(self) -> str:
        """A number with the marks."""
        return f"1{self.thousands or ''}234{self.decimal}5"

    def with_numbers(self, table: Any, texts: Sequence[str]) -> Any:
        """A table whose columns of numbers with marks are numbers, all but `texts`."""
        if (self.decimal, self.thousands) == (".", None):
            return table
        for place, name in enumerate(table.column_names):
            column = table.column(name)
            is_text = kind_of(column.type) == "text" and not getattr(column.type, "ordered", False)
            if name in texts or not is_text:
                continue
            column = compute.utf8_trim_whitespace(column.cast(arrow.string()))
            missing = compute.is_in(column, arrow.array([None, *MISSING_WORDS]))
            pattern = number_pattern(self.decimal, self.thousands)
            is_number = compute.match_substring_regex(column, pattern).fill_null(False)
            if not compute.all(compute.or_(is_number, missing)).as_py():
                continue
            plain = compute.replace_substring(column, self.thousands or " ", "")
            plain = compute.replace_substring(plain, self.decimal, ".")
            plain = compute.if_else(missing, None, plain).cast(arrow.float64())
            table = table.set_column(place, name, plain)
        return table

    def place(self, row: int) -> str:
        """The place of a row, which counts from 0."""
        return f"{self.path}, row {row}"


@dataclass(frozen=True)
class TableFile(Source):
    """A table in a file of any format.

    Attributes
    ----------
    path : Path
    format : str
        One of `FORMATS`.
    separator : str
        Between the values of a CSV file.
    """

    path: Path
    format: str
    separator: str = ","

    @classmethod
    def of(
        cls,
        path: Path,
        format: str | None = None,
        separator: str | None = None,
        decimal: str | None = None,
        thousands: str | None = None,
    ) -> TableFile:
        """A file of a given format, or of the format that its suffix names."""
        found = format or format_of(path)
        if found is None:
            known = ", ".join(FORMATS)
            raise DataError(f"{path}: the suffix names no format of tables. Give one: {known}.")
        check_value("format", found, Choice(*FORMATS))
        if found not in ("csv", "tsv") and separator:
            raise ParameterError(f"{path}: only CSV files have a separator.")
        between = separator or separator_of(path, found)
        if len(between) != 1:
            raise ParameterError(f"The separator must be a single character: got {between!r}.")
        return cls(path, found, between, decimal=decimal or ".", thousands=thousands)

    @cached_property
    def names(self) -> list[str]:
        """The names of the columns, checked to differ."""
        with self._explained():
            names = _NAMES[self.format](self)
        check_names_differ(self.path, names)
        return names

    @cached_property
    def records(self) -> list[tuple[str, dict[str, Any]]]:
        """The rows of a file of JSON, each with its place."""
        found = list(json_records(self.path, self.format))
        if not found:
            raise DataError(f"{self.path} has no rows.")
        return found

    def read(self, columns: Sequence[str], texts: Sequence[str] = ()) -> Any:
        """A `pyarrow.Table` of some columns; `texts` are not parsed as numbers."""
        with self._explained():
            if self.format in ("csv", "tsv"):
                table = _read_csv(self, columns, texts)
            elif self.format == "parquet":
                table = _parquet(self).read(columns=list(columns))
            else:
                parts = list(_BATCHES[self.format](self, columns, texts))
                empty = arrow.table({name: [] for name in columns})
                table = arrow.concat_tables(parts or [empty], promote_options="permissive")
            return self.with_numbers(table, texts)

    def batches(self, columns: Sequence[str], texts: Sequence[str] = ()) -> Iterator[Any]:
        """The rows of some columns in tables of moderate size."""
        with self._explained():
            for table in _BATCHES[self.format](self, columns, texts):
                yield self.with_numbers(table, texts)

    @property
    def row_word(self) -> str:
        """What to call a row: "row" in JSON and Parquet files, otherwise "line"."""
        return "row" if self.format in ("json", "parquet", "arrow") else "line"

    def row_numbers(self) -> Iterator[int]:
        """The line on which each row begins; in JSON and Parquet files, 1, 2, 3, ...

        Reads the file again: lines may be empty, and rows of CSV files may have several lines.
        """
        if self.row_word == "row":
            yield from count(1)
        elif self.format == "jsonl":
            with opened_text(self.path) as file:
                yield from (line for line, text in enumerate(file, 1) if text.strip())
        else:
            rows = csv_rows(self.path, self.separator)
            yield from (line for line, _ in islice(rows, 1, None))

    def place(self, row: int) -> str:
        """The file and the line on which a row begins, for messages; rows count from 0."""
        return f"{self.path}, {self.row_word} {next(islice(self.row_numbers(), row, None))}"

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Replace errors of pyarrow by ours, with the line."""
        try:
            try:
                yield
            except arrow.ArrowException:  # text is read again, to find out what is wrong
                if self.format in ("csv", "tsv"):
                    _check_csv(self)
                elif self.format in ("json", "jsonl"):
                    _of_records(self, _record_names(self), ())
                raise
        except arrow.ArrowException as error:
            reason = str(error).partition("\n")[0].rstrip(".")
            what = {"parquet": "Parquet", "arrow": "Arrow"}.get(self.format, self.format.upper())
            raise DataError(
                f"{self.path} cannot be read as {what}: {reason}. Correct the value, or check that "
                "the file is complete and has this format."
            ) from error
        except BROKEN as error:
            raise broken_file(self.path, error) from error


# CSV


def _check_csv(file: TableFile) -> None:
    """Read a CSV file for its errors only."""
    deque(csv_rows(file.path, file.separator), maxlen=0)


def _csv_arguments(
    file: TableFile, columns: Sequence[str], types: dict[str, Any], *, newlines: bool
) -> dict[str, Any]:
    """The arguments of Arrow's readers of CSV files."""
    block = BLOCK * (1 + len(file.names) // FEW_COLUMNS)
    return {
        "input_file": arrow.input_stream(str(file.path), compression=compression_of(file.path)),
        "read_options": arrow_csv.ReadOptions(block_size=block),
        "parse_options": arrow_csv.ParseOptions(
            delimiter=file.separator, newlines_in_values=newlines
        ),
        "convert_options": arrow_csv.ConvertOptions(
            include_columns=list(columns),
            column_types=types,
            null_values=MISSING_WORDS,
            decimal_point=NO_POINT if file.decimal == file.separator else file.decimal,
            timestamp_parsers=[arrow_csv.ISO8601],
        ),
    }


def _as_text(columns: Sequence[str]) -> dict[str, Any]:
    """Columns as Arrow's dictionaries: each text is stored once."""
    return dict.fromkeys(columns, arrow.dictionary(arrow.int32(), arrow.string()))


def _read_csv(file: TableFile, columns: Sequence[str], texts: Sequence[str]) -> Any:
    types = _as_text(texts)
    try:
        newlines = _has_quotes(file.path)
        table = arrow_csv.read_csv(**_csv_arguments(file, columns, types, newlines=newlines))
    except arrow.ArrowInvalid:  # a quotation mark may come later
        table = arrow_csv.read_csv(**_csv_arguments(file, columns, types, newlines=True))
    _check_utf8(file, table.schema)
    if _may_lack_a_quote(table):
        _check_csv(file)
    return table


def _has_quotes(path: Path) -> bool:
    """Whether values may be quoted, and so contain ends of lines; by the first million bytes.

    Many programs quote the names of columns only. Reading values of several lines is slower.
    """
    with opened_bytes(path) as file:
        names, *lines = re.split(rb"[\r\n]", file.read(1 << 20), maxsplit=1)
    return names.count(b'"') % 2 == 1 or any(b'"' in text for text in lines)


def _may_lack_a_quote(table: Any) -> bool:
    """Whether the last row has a value of several lines.

    A quotation mark without its partner takes all lines up to the end of the file.
    """
    last = table.slice(max(table.num_rows - 1, 0)).to_pylist()
    return any(isinstance(value, str) and "\n" in value for row in last for value in row.values())


def _check_utf8(file: TableFile, schema: Any) -> None:
    if any(arrow.types.is_binary(kind) for kind in schema.types):
        raise encoding_fault(file.path)


def _csv_batches(file: TableFile, columns: Sequence[str], texts: Sequence[str]) -> Iterator[Any]:
    """Numbers in the first block of text are numbers in all of them."""
    types = _as_text(texts)
    first = arrow_csv.open_csv(**_csv_arguments(file, columns, types, newlines=True)).schema
    for column in first:
        if arrow.types.is_integer(column.type) or arrow.types.is_null(column.type):
            types[column.name] = arrow.float64()
        if file.thousands and not arrow.types.is_dictionary(column.type):
            types[column.name] = arrow.string()  # a mark may come in a later block
    with arrow_csv.open_csv(**_csv_arguments(file, columns, types, newlines=True)) as reader:
        _check_utf8(file, reader.schema)
        is_checked = False
        for batch in reader:
            table = arrow.Table.from_batches([batch])
            if not is_checked and _may_lack_a_quote(table):
                _check_csv(file)
                is_checked = True
            yield table


# JSON


def _json_tables(path: Path) -> Iterator[tuple[bytes, Any]]:
    """Blocks of whole lines of JSON, and the table of each."""
    with opened_bytes(path) as file:
        while text := file.read(JSON_BLOCK):
            text = (text + file.readline()).removeprefix(b"\xef\xbb\xbf")
            if text.strip():
                wide = FEW_COLUMNS * (text.find(b"\n") + 1)  # blocks of a few rows take long
                options = arrow_json.ReadOptions(block_size=max(BLOCK, min(wide, len(text))))
                yield text, arrow_json.read_json(io.BytesIO(text), read_options=options)


def _jsonl_batches(file: TableFile, columns: Sequence[str], texts: Sequence[str]) -> Iterator[Any]:
    n_rows = 0
    for text, table in _json_tables(file.path):
        new = set(table.column_names) - set(file.names)
        if new:
            raise DataError(
                f"{file.path}: the column {min(new)!r} first appears after row {n_rows}. Give it "
                "in the first rows as well, null where there is no value."
            )
        for name in set(texts) & set(table.column_names):
            if _is_rounded(table.column(name)):
                place = table.column_names.index(name)
                table = table.set_column(place, name, _exact_ids(file, text, name, n_rows))
        n_rows += table.num_rows
        for name in set(columns) - set(table.column_names):
            table = table.append_column(name, arrow.nulls(table.num_rows))
        yield table.select(list(columns))


def _jsonl_names(file: TableFile) -> list[str]:
    _, table = next(_json_tables(file.path), (b"", None))
    if table is None:
        raise DataError(f"{file.path} is empty: it needs an object in each line.")
    names: list[str] = table.column_names
    return names


def _is_rounded(column: Any) -> bool:
    """Whether Arrow may have made floats of whole numbers of more than 53 bits."""
    values = column.to_numpy() if arrow.types.is_floating(column.type) else np.empty(0)
    return bool((abs(values) >= EXACT).any())


def _exact_ids(file: TableFile, text: bytes, name: str, first: int) -> Any:
    """The ids in lines of JSON as they are written; `first` is the number of the first row."""
    values = []
    for line in filter(bytes.strip, text.split(b"\n")):
        try:
            values.append(parsed_json(line.decode()).get(name))
        except DataError as error:
            raise DataError(f"{file.place(first + len(values))}: {error}.") from error
    return id_column(file, name, values, first)


def id_column(file: Source, name: str, values: list[Any], first: int = 0) -> Any:
    """A column of ids of Python's types, in which whole numbers keep all digits."""
    floats = np.array([value if isinstance(value, float) else 0.0 for value in values])
    refuse_floats(file, floats, name, first)
    whole = [int(v) if isinstance(v, float) and v == v else v for v in values]
    try:
        return arrow.array(whole)
    except OverflowError:
        long = next((k for k, v in enumerate(whole) if v and abs(v) >= 10**DIGITS), None)
        if long is not None:
            raise DataError(
                f"{file.place(first + long)}: the column {name!r} has a number of more than "
                f"{DIGITS} digits. Write the ids as text, in quotation marks."
            ) from None
        return arrow.array(whole, arrow.decimal256(DIGITS, 0))


def refuse_floats(file: Source, values: NDArray[Any], name: str, first: int) -> None:
    """Raise an error about floats that cannot be ids."""
    fault = float_fault(values)
    if fault is not None:
        row, value, why = fault
        raise DataError(
            f"{file.place(first + row)}: the column {name!r} has the float {value!r}: {why}"
        )


def _record_names(file: TableFile) -> list[str]:
    return list(dict.fromkeys(name for _, record in file.records for name in record))


def _of_records(file: TableFile, columns: Sequence[str], texts: Sequence[str]) -> Any:
    """A table of objects, in which each column has values of one type."""
    table = {}
    for name in columns:
        values = [record.get(name) for _, record in file.records]
        kinds = {type(value): _kind(value) for value in values if value is not None}
        known, *others = dict.fromkeys(kinds.values()) or [""]
        if others:
            k = next(k for k, value in enumerate(values) if _kind(value) == others[0])
            raise DataError(
                f"{file.records[k][0]}: the column {name!r} has a {others[0]} here, "
                f"{str(values[k])[:40]!r}, but a {known} in a row before. Use one type."
            )
        if known == "number" and name in texts:
            table[name] = id_column(file, name, values)
        elif known == "number":
            table[name] = float_column(values)
        else:
            table[name] = arrow.array(values)
    return arrow.table(table)


def _kind(value: Any) -> str:
    """The type of a JSON value in words."""
    return KINDS.get(type(value), "nested object")


def float_column(values: list[Any]) -> Any:
    """Numbers of any size as floats; too large numbers become infinite, and are refused later."""
    try:
        return arrow.array(values, "float64", safe=False)
    except (OverflowError, arrow.ArrowInvalid):
        floats = [None if v is None else float(v) if abs(v) < 1e308 else math.inf for v in values]
        return arrow.array(floats)


# Parquet and Arrow


def _parquet(file: TableFile) -> Any:
    source = file.path if compression_of(file.path) is None else _unpacked(file.path)
    return parquet.ParquetFile(source)


def _unpacked(path: Path) -> Any:
    with opened_bytes(path) as file:
        return arrow.BufferReader(file.read())


def _arrow_reader(file: TableFile) -> Any:
    """A reader of Arrow's file format (Feather), or of its streaming format."""
    plain = compression_of(file.path) is None
    source = arrow.memory_map(str(file.path)) if plain else _unpacked(file.path)
    try:
        return arrow.ipc.open_file(source)
    except arrow.ArrowInvalid:
        source.seek(0)
        return arrow.ipc.open_stream(source)


def _arrow_batches(file: TableFile, columns: Sequence[str], texts: Sequence[str]) -> Iterator[Any]:
    if file.format == "parquet":
        batches = _parquet(file).iter_batches(columns=list(columns))
    else:
        reader = _arrow_reader(file)
        count = getattr(reader, "num_record_batches", None)
        batches = reader if count is None else (reader.get_batch(k) for k in range(count))
    for batch in batches:
        yield arrow.Table.from_batches([batch]).select(list(columns))


_NAMES: dict[str, Callable[[TableFile], list[str]]] = {
    "csv": lambda file: csv_names(file.path, file.separator),
    "tsv": lambda file: csv_names(file.path, file.separator),
    "jsonl": _jsonl_names,
    "json": _record_names,
    "parquet": lambda file: list(_parquet(file).schema_arrow.names),
    "arrow": lambda file: list(_arrow_reader(file).schema.names),
}
_BATCHES: dict[str, Callable[[TableFile, Sequence[str], Sequence[str]], Iterator[Any]]] = {
    "csv": _csv_batches,
    "tsv": _csv_batches,
    "jsonl": _jsonl_batches,
    "json": lambda file, columns, texts: iter([_of_records(file, columns, texts)]),
    "parquet": _arrow_batches,
    "arrow": _arrow_batches,
}


# Small tables.

Columns = dict[str, list[Any]]


def small_file(path: str | os.PathLike[str], **marks: str | None) -> TableFile:
    """The file of a small table: the suffix names the format, CSV if it is unknown."""
    return TableFile.of(Path(path), format_of(Path(path)) or "csv", **marks)


def read_records(file: TableFile) -> Columns:
    """The columns of a table by name.

    Files may be compressed. Values of CSV files are text. A row of a JSON file that lacks a key
    has None there.
    """
    if file.format in ("parquet", "arrow"):
        table = file.read(file.names)
        columns = {name: table.column(name).to_pylist() for name in file.names}
    elif file.format in ("json", "jsonl"):
        records = [record for _, record in file.records]
        columns = {name: [record.get(name) for record in records] for name in _record_names(file)}
    else:
        names = [name.strip() for name in csv_names(file.path, file.separator)]
        rows = [row for _, row in csv_rows(file.path, file.separator)][1:]
        columns = {name: [row[k] for row in rows] for k, name in enumerate(names)}
    if not any(map(len, columns.values())):
        raise DataError(f"{file.path} has no rows: it needs names of columns, and rows of values.")
    if (file.decimal, file.thousands) != (".", None):
        return _with_points(columns, file.decimal, file.thousands)
    if file.separator == ";" and _has_commas(columns):
        return _with_points(columns, ",", ".")
    return columns


def _numbers_with(columns: Columns, decimal: str, thousands: str | None) -> set[str]:
    """The columns of text that are numbers with these marks, or missing."""
    pattern = re.compile(number_pattern(decimal, thousands))

    def is_number(value: Any) -> bool:
        if value is None or not isinstance(value, str):
            return value is None
        return value.strip() in MISSING_WORDS or pattern.match(value) is not None

    return {name for name, values in columns.items() if all(map(is_number, values))}


def _has_commas(columns: Columns) -> bool:
    """Whether some column has numbers with decimal commas only."""
    return bool(_numbers_with(columns, ",", None) - _numbers_with(columns, ".", None))


def _with_points(columns: Columns, decimal: str, thousands: str | None) -> Columns:
    """Columns whose numbers have decimal points, and no marks between thousands."""

    def plain(value: str | None) -> str | None:
        return value and value.replace(thousands or " ", "").replace(decimal, ".")

    return columns | {
        name: list(map(plain, columns[name])) for name in _numbers_with(columns, decimal, thousands)
    }


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
            return cls.of_file(small_file(table))
        names = getattr(table, "columns", table if isinstance(table, Mapping) else None)
        names = getattr(table, "column_names", names)  # columns of pyarrow's tables are no names
        if names is None:
            raise DataError(
                "A table is a path, a data frame or a dictionary of columns: got "
                f"{type(table).__name__}."
            )
        check_names_differ("The table", [str(name) for name in names])
        columns = {str(name): table[name] for name in names}
        sizes = {f"{name} {len(column):,}": len(column) for name, column in columns.items()}
        if len(set(sizes.values())) > 1:
            raise DataError(f"The columns of the table have different lengths: {listed([*sizes])}.")
        return cls("The table", columns, lambda row: f"The table, row {row}")

    @classmethod
    def of_file(cls, file: TableFile) -> SmallTable:
        """The table in a file."""
        return cls(str(file.path), read_records(file), file.place, file.path)

    def also(self, rows: Sequence[int]) -> str:
        """Further rows where the same is wrong, in brackets; nothing without any."""
        named = [self.place(row).removeprefix(f"{self.source}, ") for row in rows[:FEW]]
        return also([*named, *("" for _ in rows[FEW:])])

    def find(self, given: str | None, usual: Sequence[str] = ()) -> str | None:
        """The column that the user named, or the first usual one; None if there is neither."""
        if given is None:
            return next((name for name in usual if name in self.columns), None)
        if given not in self.columns:
            raise DataError(
                f"{self.source} has no column {given!r}: it has {listed(list(self.columns))}."
            )
        return given

    def take(self, rows: Index) -> Self:
        """Some of the rows, with their places in the whole table."""
        columns = {name: _TakenColumns(column, rows) for name, column in self.columns.items()}
        return replace(self, columns=columns, place=lambda k: self.place(int(rows[k])))

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
        found = np.array([as_number(value) for value in values], dtype=np.float64)
        wrong = ~np.isfinite(found)
        if wrong.any():
            row, *others = np.flatnonzero(wrong).tolist()
            raise DataError(
                f"{self.place(row)}: the column {name!r} must hold numbers: got {values[row]!r}"
                f"{self.also(others)}. Correct the value, or leave the column out."
            )
        return found

    def is_text(self, name: str) -> bool:
        """Whether a column has words, and no number."""
        values = [value for value in self.ids(name) if value not in (None, "")]
        return bool(values) and all(math.isnan(as_number(value)) for value in values)


@dataclass(frozen=True, eq=False)
class _TakenColumns:
    """Some entries of a column, which are read when they are needed."""

    column: Any
    rows: Index

    def to_list(self) -> list[Any]:
        entries = entries_of(self.column)
        return [entries[k] for k in self.rows.tolist()]


def as_number(value: Any) -> float:
    """A number as a float, NaN for all else, such as the word 1_000."""
    try:
        return math.nan if isinstance(value, str) and "_" in value else float(value)
    except (OverflowError, TypeError, ValueError):
        return math.nan
