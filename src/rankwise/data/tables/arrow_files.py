"""Table files as Arrow's tables, whole or in batches, and errors that say where they are broken."""

from __future__ import annotations

import io
import math
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rankwise.data.tables.formats import (
    FORMATS,
    MISSING_WORDS,
    SEPARATORS,
    check_names_differ,
    compression_of,
    csv_rows,
    encoding_fault,
    even_rows,
    format_of,
    opened_bytes,
    require_pyarrow,
)
from rankwise.data.tables.records import (
    broken_file,
    json_lines,
    json_list,
    parsed_json,
    place_of_row,
)
from rankwise.errors import DataError, ParameterError
from rankwise.graph.id_arrays import EXACT, float_fault, is_number

BLOCK = 1 << 20  # bytes of CSV that are parsed at a time: larger blocks leave the cache
FEW_COLUMNS = 1000  # for which a block is large enough
DIGITS = 76  # of Arrow's longest whole numbers
JSON_BLOCK = 1 << 23


class Source(Protocol):
    """Where a table comes from, for messages."""

    @property
    def path(self) -> Any: ...

    def place(self, row: int) -> str:
        """The place of a row, which counts from 0."""
        ...


@dataclass(frozen=True)
class TableFile:
    """A table in a file of any format.

    Attributes
    ----------
    path : Path
    format : str
        One of `FORMATS`.
    separator, decimal : str
        Between the values of a CSV file, and within its numbers.
    """

    path: Path
    format: str
    separator: str = ","
    decimal: str = "."

    @classmethod
    def of(
        cls,
        path: Path,
        format: str | None = None,
        separator: str | None = None,
        decimal: str | None = None,
    ) -> TableFile:
        """A file whose format is given, or that of its suffix."""
        found = format or format_of(path)
        if found is None:
            raise DataError(
                f"{path}: the suffix names no format of tables. Give the format: "
                f"{', '.join(FORMATS)}."
            )
        if found not in FORMATS:
            raise ParameterError(f"format must be one of {', '.join(FORMATS)}: got {format!r}.")
        if found not in ("csv", "tsv") and (separator or decimal):
            raise ParameterError(f"{path}: only CSV files have a separator and a decimal mark.")
        for name, mark in (("separator", separator), ("decimal", decimal)):
            if mark is not None and len(mark) != 1:
                raise ParameterError(f"The {name} must be a single character: got {mark!r}.")
        between = separator or ("\t" if found == "tsv" else ",")
        if between == (decimal or "."):
            raise ParameterError(
                f"The separator and the decimal mark are both {between!r}: they must differ."
            )
        return cls(path, found, between, decimal or ".")

    @cached_property
    def names(self) -> list[str]:
        """The names of the columns, checked to differ."""
        with self._explained():
            names = _NAMES[self.format](self)
        check_names_differ(self.path, names)
        return names

    def read(self, columns: Sequence[str], texts: Sequence[str] = ()) -> Any:
        """A `pyarrow.Table` of some columns; `texts` are not parsed as numbers."""
        with self._explained():
            return _READERS[self.format](self, columns, texts)

    def batches(self, columns: Sequence[str], texts: Sequence[str] = ()) -> Iterator[Any]:
        """The rows of some columns in tables of moderate size."""
        with self._explained():
            yield from _BATCHES[self.format](self, columns, texts)

    def place(self, row: int) -> str:
        """The file and line, or row, of a row, for messages."""
        return place_of_row(self.path, row, self.format, self.separator)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Replace errors of pyarrow by ours, with the line."""
        arrow = require_pyarrow("pyarrow")
        try:
            yield
        except arrow.ArrowException as error:
            raise self._fault(error) from error
        except (EOFError, OSError) as error:
            raise broken_file(self.path, error) from error

    def _fault(self, error: Exception) -> DataError:
        """What is wrong with a file that pyarrow cannot read; text is read again to find out."""
        try:
            if self.format in ("csv", "tsv"):
                _check_csv(self)
            elif self.format == "jsonl":
                _check_records(self.path, json_lines(self.path), "line")
            elif self.format == "json":
                _check_records(self.path, enumerate(json_list(self.path), 1), "row")
        except DataError as found:
            return found
        except (EOFError, OSError) as found:
            broken = broken_file(self.path, found)
            return broken if isinstance(broken, DataError) else DataError(str(broken))
        reason = str(error).partition("\n")[0].rstrip(".")
        what = {"parquet": "Parquet", "arrow": "Arrow"}.get(self.format, self.format.upper())
        return DataError(
            f"{self.path} cannot be read as {what}: {reason}. Is the file whole, and is this its "
            "format?"
        )


def _check_records(path: Path, records: Iterator[tuple[int, Any]], unit: str) -> None:
    """Every record is an object, and every column has one type."""
    kinds: dict[str, tuple[str, int]] = {}
    for line, record in records:
        if not isinstance(record, dict):
            raise DataError(f"{path}, {unit} {line}: expected an object with names and values.")
        for name, value in record.items():
            kind = _kind(value)
            if kind is None:
                continue
            known, before = kinds.setdefault(name, (kind, line))
            if known != kind:
                raise DataError(
                    f"{path}, {unit} {line}: the column {name!r} has a {kind} here, "
                    f"{str(value)[:40]!r}, but a {known} in {unit} {before}. Use one type."
                )
    if not kinds:
        raise DataError(f"{path} has no rows.")


def _kind(value: Any) -> str | None:
    """The type of a JSON value in words; None for a missing one."""
    kinds = {bool: "truth value", int: "number", float: "number", str: "text", list: "list"}
    return None if value is None else kinds.get(type(value), "nested object")


# CSV


def _check_csv(file: TableFile) -> None:
    """Read a CSV file for its errors only."""
    deque(even_rows(file.path, file.separator), maxlen=0)


def _csv_names(file: TableFile) -> list[str]:
    line, names = next(csv_rows(file.path, file.separator), (0, []))
    if not names:
        raise DataError(f"{file.path} is empty: it needs a line with the names of columns.")
    if len(names) == 1:
        for mark, words in {**SEPARATORS, ",": "commas"}.items():
            if mark in names[0] and mark != file.separator:
                given = "'\\t' (or --format tsv)" if mark == "\t" else f"'{mark}'"
                decimal = ", and --decimal ',' if its numbers have decimal commas" * (mark == ";")
                raise DataError(
                    f"{file.path}, line {line}: one column, {names[0][:40]!r}. Its values seem to "
                    f"be separated by {words}: give --separator {given}{decimal}."
                )
    if all(is_number(name) for name in names):
        raise DataError(
            f"{file.path}, line {line}: the first line has numbers only, such as {names[0]!r}, "
            "where names of columns are expected. Add a line with names."
        )
    empty = next((k for k, name in enumerate(names, 1) if not name.strip()), None)
    if empty is not None and not (empty == 1 and len(names) > 1):
        raise DataError(f"{file.path}, line {line}: column {empty} has no name: give it one.")
    return names


def _csv_options(
    file: TableFile, columns: Sequence[str], types: dict[str, Any], *, newlines: bool
) -> dict[str, Any]:
    csv = require_pyarrow("pyarrow.csv")
    return {
        "read_options": csv.ReadOptions(block_size=BLOCK * (1 + len(file.names) // FEW_COLUMNS)),
        "parse_options": csv.ParseOptions(delimiter=file.separator, newlines_in_values=newlines),
        "convert_options": csv.ConvertOptions(
            include_columns=list(columns),
            column_types=types,
            null_values=MISSING_WORDS,
            decimal_point=file.decimal,
            timestamp_parsers=[csv.ISO8601],
        ),
    }


def _csv_input(path: Path) -> Any:
    arrow = require_pyarrow("pyarrow")
    return arrow.input_stream(str(path), compression=compression_of(path))


def _as_text(columns: Sequence[str]) -> dict[str, Any]:
    """Columns as Arrow's dictionaries: each text is stored once."""
    arrow = require_pyarrow("pyarrow")
    return dict.fromkeys(columns, arrow.dictionary(arrow.int32(), arrow.string()))


def _read_csv(file: TableFile, columns: Sequence[str], texts: Sequence[str]) -> Any:
    arrow, csv = require_pyarrow("pyarrow"), require_pyarrow("pyarrow.csv")
    types = _as_text(texts)
    quoted = _has_quotes(file.path)
    try:
        options = _csv_options(file, columns, types, newlines=quoted)
        table = csv.read_csv(_csv_input(file.path), **options)
    except arrow.ArrowInvalid:
        if quoted:
            raise
        options = _csv_options(file, columns, types, newlines=True)  # a quotation mark comes later
        table = csv.read_csv(_csv_input(file.path), **options)
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
    types = require_pyarrow("pyarrow.types")
    if any(types.is_binary(kind) for kind in schema.types):
        raise encoding_fault(file.path)


def _csv_batches(file: TableFile, columns: Sequence[str], texts: Sequence[str]) -> Iterator[Any]:
    """Numbers in the first block of text are numbers in all of them."""
    arrow, csv = require_pyarrow("pyarrow"), require_pyarrow("pyarrow.csv")
    types = _as_text(texts)
    first = csv.open_csv(
        _csv_input(file.path), **_csv_options(file, columns, types, newlines=True)
    ).schema
    numbers = (arrow.types.is_integer, arrow.types.is_null)
    for field in first:
        if any(is_such(field.type) for is_such in numbers):
            types[field.name] = arrow.float64()
    options = _csv_options(file, columns, types, newlines=True)
    with csv.open_csv(_csv_input(file.path), **options) as reader:
        _check_utf8(file, reader.schema)
        is_checked = False
        try:
            for batch in reader:
                table = arrow.Table.from_batches([batch])
                if not is_checked and _may_lack_a_quote(table):
                    _check_csv(file)
                    is_checked = True
                yield table
        except arrow.ArrowInvalid:
            floats = [field.name for field in reader.schema if field.type == arrow.float64()]
            _refuse_words(file, floats)
            raise


def _refuse_words(file: TableFile, names: Sequence[str]) -> None:
    """Raise an error about the first value in columns of numbers that is no number."""
    rows = csv_rows(file.path, file.separator)
    _, known = next(rows)
    places = [(known.index(name), name) for name in names]
    for line, row in rows:
        for k, name in places if len(row) == len(known) else ():
            value = row[k].strip()
            if value not in MISSING_WORDS and not is_number(value.replace(file.decimal, ".")):
                raise DataError(
                    f"{file.path}, line {line}: the column {name!r} has numbers in other rows, but "
                    f"{value[:40]!r} here. Correct it, or leave the column out by --ignore."
                )


# JSON


def _json_texts(path: Path) -> Iterator[bytes]:
    """Blocks of whole lines."""
    with opened_bytes(path) as file:
        while True:
            text = file.read(JSON_BLOCK)
            if not text:
                return
            yield text + file.readline()


def _jsonl_batches(file: TableFile, columns: Sequence[str], texts: Sequence[str]) -> Iterator[Any]:
    arrow, json = require_pyarrow("pyarrow"), require_pyarrow("pyarrow.json")
    n_rows = 0
    for k, text in enumerate(_json_texts(file.path)):
        if not text.strip():
            continue
        table = json.read_json(io.BytesIO(text.removeprefix(b"\xef\xbb\xbf")))
        new = set(table.column_names) - set(file.names)
        if k and new:
            raise DataError(
                f"{file.path}: the column {min(new)!r} first appears after row {n_rows}. Give it "
                "in the first rows as well, null where there is no value."
            )
        for name in set(texts) & set(table.column_names):
            if _is_rounded(table.column(name)):
                place = table.column_names.index(name)
                table = table.set_column(place, name, _exact_ids(file, text, table, name, n_rows))
        n_rows += table.num_rows
        for name in set(columns) - set(table.column_names):
            table = table.append_column(name, arrow.nulls(table.num_rows))
        yield table.select(list(columns))


def _jsonl_names(file: TableFile) -> list[str]:
    json = require_pyarrow("pyarrow.json")
    text = next(_json_texts(file.path), b"").removeprefix(b"\xef\xbb\xbf")
    if not text.strip():
        raise DataError(f"{file.path} is empty: it needs an object in each line.")
    names: list[str] = json.read_json(io.BytesIO(text)).column_names
    return names


def _is_rounded(column: Any) -> bool:
    """Whether Arrow may have made floats of whole numbers of more than 53 bits."""
    arrow = require_pyarrow("pyarrow")
    values = column.to_numpy() if arrow.types.is_floating(column.type) else np.empty(0)
    return bool((abs(values) >= EXACT).any())


def _exact_ids(file: TableFile, text: bytes, table: Any, name: str, first: int) -> Any:
    """The ids in lines of JSON as they are written; `first` is the number of the first row."""
    lines = [line for line in text.decode("utf-8-sig").split("\n") if line.strip()]
    if len(lines) != table.num_rows:
        raise DataError(f"{file.path}: each object needs a line of its own.")
    values = []
    for row, line in enumerate(lines, first):
        try:
            values.append(parsed_json(line).get(name))
        except DataError as error:
            raise DataError(f"{file.place(row)}: {error}.") from error
    return id_column(file, name, values, first)


def id_column(file: Source, name: str, values: list[Any], first: int = 0) -> Any:
    """A column of ids of Python's types, in which whole numbers keep all digits."""
    arrow = require_pyarrow("pyarrow")
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


def _json_rows(file: TableFile) -> list[dict[str, Any]]:
    rows = json_list(file.path)
    _check_records(file.path, enumerate(rows, 1), "row")
    return rows


def _json_names(file: TableFile) -> list[str]:
    return list(dict.fromkeys(name for row in _json_rows(file) for name in row))


def _read_json(file: TableFile, columns: Sequence[str], texts: Sequence[str]) -> Any:
    rows = _json_rows(file)
    table = {}
    for name in columns:
        values = [row.get(name) for row in rows]
        is_id = name in texts and any(isinstance(value, int | float) for value in values)
        table[name] = id_column(file, name, values) if is_id else _column(values)
    return require_pyarrow("pyarrow").table(table)


def _column(values: list[Any]) -> Any:
    """A column of values of one type; numbers may be floats."""
    arrow = require_pyarrow("pyarrow")
    try:
        return arrow.array(values)
    except (OverflowError, arrow.ArrowInvalid):
        if all(_kind(value) in (None, "number") for value in values):
            return arrow.array([None if value is None else _float(value) for value in values])
        raise


def _float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf  # which is refused


# Parquet and Arrow


def _parquet(file: TableFile) -> Any:
    source = file.path if compression_of(file.path) is None else _unpacked(file.path)
    return require_pyarrow("pyarrow.parquet").ParquetFile(source)


def _unpacked(path: Path) -> Any:
    with opened_bytes(path) as file:
        return require_pyarrow("pyarrow").BufferReader(file.read())


def _arrow_batches(file: TableFile, columns: Sequence[str], texts: Sequence[str]) -> Iterator[Any]:
    arrow = require_pyarrow("pyarrow")
    reader = _arrow_reader(file)
    if hasattr(reader, "num_record_batches"):
        batches = (reader.get_batch(k) for k in range(reader.num_record_batches))
    else:
        batches = iter(reader)
    for batch in batches:
        yield arrow.Table.from_batches([batch]).select(list(columns))


def _arrow_reader(file: TableFile) -> Any:
    """A reader of Arrow's file format (Feather), or of its streaming format."""
    arrow = require_pyarrow("pyarrow")
    plain = compression_of(file.path) is None
    source = arrow.memory_map(str(file.path)) if plain else _unpacked(file.path)
    try:
        return arrow.ipc.open_file(source)
    except arrow.ArrowInvalid:
        source.seek(0)
        return arrow.ipc.open_stream(source)


def _parquet_batches(
    file: TableFile, columns: Sequence[str], texts: Sequence[str]
) -> Iterator[Any]:
    arrow = require_pyarrow("pyarrow")
    for batch in _parquet(file).iter_batches(columns=list(columns)):
        yield arrow.Table.from_batches([batch])


def _joined(
    batches: Callable[[TableFile, Sequence[str], Sequence[str]], Iterator[Any]],
) -> Callable[[TableFile, Sequence[str], Sequence[str]], Any]:
    """A reader of the whole from one of batches."""

    def read(file: TableFile, columns: Sequence[str], texts: Sequence[str]) -> Any:
        arrow = require_pyarrow("pyarrow")
        parts = list(batches(file, columns, texts))
        if not parts:
            return arrow.table({name: [] for name in columns})
        return arrow.concat_tables(parts, promote_options="permissive")

    return read


_NAMES: dict[str, Callable[[TableFile], list[str]]] = {
    "csv": _csv_names,
    "tsv": _csv_names,
    "jsonl": _jsonl_names,
    "json": _json_names,
    "parquet": lambda file: list(_parquet(file).schema_arrow.names),
    "arrow": lambda file: list(_arrow_reader(file).schema.names),
}
_READERS: dict[str, Callable[[TableFile, Sequence[str], Sequence[str]], Any]] = {
    "csv": _read_csv,
    "tsv": _read_csv,
    "jsonl": _joined(_jsonl_batches),
    "json": _read_json,
    "parquet": lambda file, columns, texts: _parquet(file).read(columns=list(columns)),
    "arrow": _joined(_arrow_batches),
}
_BATCHES: dict[str, Callable[[TableFile, Sequence[str], Sequence[str]], Iterator[Any]]] = {
    "csv": _csv_batches,
    "tsv": _csv_batches,
    "jsonl": _jsonl_batches,
    "json": lambda file, columns, texts: iter([_read_json(file, columns, texts)]),
    "parquet": _parquet_batches,
    "arrow": _arrow_batches,
}
