"""Table files by Arrow, whole or in batches, and their columns as checked NumPy arrays."""

from __future__ import annotations

import io
import math
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import accumulate
from pathlib import Path
from types import NoneType
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.threads import map_in_threads, threads_for
from rankwise.data.tables.formats import (
    FORMATS,
    MISSING_WORDS,
    broken_file,
    check_names_differ,
    compression_of,
    csv_names,
    csv_rows,
    encoding_fault,
    format_of,
    json_records,
    listed,
    opened_bytes,
    parsed_json,
    place_of_row,
    require_pyarrow,
)
from rankwise.errors import DataError, ParameterError
from rankwise.graph.conversion_checks import is_number
from rankwise.graph.id_arrays import EXACT, float_fault, id_array, text_fault
from rankwise.tables import plural

BLOCK = 1 << 20  # bytes of CSV that are parsed at a time: larger blocks leave the cache
FEW_COLUMNS = 1000  # for which a block is large enough
DIGITS = 76  # of Arrow's longest whole numbers
JSON_BLOCK = 1 << 23
KINDS = {bool: "truth value", int: "number", float: "number", str: "text", list: "list"}
NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"
WHOLE = re.compile(r"0|-?[1-9][0-9]{0,75}")  # as Python writes it; longer ones stay text
WHOLE_FLOAT = re.compile(r"(0|-?[1-9][0-9]{0,14})(\.0)?")  # as pandas writes a column with gaps
WITH_EXPONENT = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+")
DECIMAL_COMMA = r"^\s*[-+]?\d+,\d+\s*$"
ROWS = 4096  # that are copied at a time: fewer would often wait for the interpreter lock
OTHERS = {
    "date": "Turn dates into numbers, such as days.",
    "list or object": "Write the entries of lists and objects to columns of their own.",
}
SHORT = 64  # letters of an id, up to which arrays of NumPy's texts are small


@dataclass(frozen=True)
class Source:
    """Where rows come from, for messages."""

    path: Any

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
        between, point = separator or ("\t" if found == "tsv" else ","), decimal or "."
        if len(between) != 1 or len(point) != 1 or between == point:
            raise ParameterError(
                "The separator and the decimal mark must be a single character each, and must "
                f"differ: got {between!r} and {point!r}."
            )
        return cls(path, found, between, point)

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
                return _read_csv(self, columns, texts)
            if self.format == "parquet":
                return _parquet(self).read(columns=list(columns))
            arrow = require_pyarrow("pyarrow")
            parts = list(_BATCHES[self.format](self, columns, texts))
            empty = arrow.table({name: [] for name in columns})
            return arrow.concat_tables(parts or [empty], promote_options="permissive")

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
                f"{self.path} cannot be read as {what}: {reason}. Is the file whole, and is this "
                "its format?"
            ) from error
        except (EOFError, OSError) as error:
            raise broken_file(self.path, error) from error


# CSV


def _check_csv(file: TableFile) -> None:
    """Read a CSV file for its errors only."""
    deque(csv_rows(file.path, file.separator), maxlen=0)


def _csv_names(file: TableFile) -> list[str]:
    names = csv_names(file.path, file.separator)
    empty = next((k for k, name in enumerate(names, 1) if not name.strip()), None)
    if empty is not None and not (empty == 1 and len(names) > 1):
        raise DataError(f"{file.path}, line 1: column {empty} has no name: give it one.")
    return names


def _csv_arguments(
    file: TableFile, columns: Sequence[str], types: dict[str, Any], *, newlines: bool
) -> dict[str, Any]:
    """The arguments of Arrow's readers of CSV files."""
    arrow, csv = require_pyarrow("pyarrow"), require_pyarrow("pyarrow.csv")
    return {
        "input_file": arrow.input_stream(str(file.path), compression=compression_of(file.path)),
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


def _as_text(columns: Sequence[str]) -> dict[str, Any]:
    """Columns as Arrow's dictionaries: each text is stored once."""
    arrow = require_pyarrow("pyarrow")
    return dict.fromkeys(columns, arrow.dictionary(arrow.int32(), arrow.string()))


def _read_csv(file: TableFile, columns: Sequence[str], texts: Sequence[str]) -> Any:
    arrow, csv = require_pyarrow("pyarrow"), require_pyarrow("pyarrow.csv")
    types = _as_text(texts)
    quoted = _has_quotes(file.path)
    try:
        table = csv.read_csv(**_csv_arguments(file, columns, types, newlines=quoted))
    except arrow.ArrowInvalid:
        if quoted:
            raise
        # A quotation mark may come later.
        table = csv.read_csv(**_csv_arguments(file, columns, types, newlines=True))
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
    first = csv.open_csv(**_csv_arguments(file, columns, types, newlines=True)).schema
    for field in first:
        if arrow.types.is_integer(field.type) or arrow.types.is_null(field.type):
            types[field.name] = arrow.float64()
    with csv.open_csv(**_csv_arguments(file, columns, types, newlines=True)) as reader:
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
        for k, name in places:
            value = row[k].strip()
            if value not in MISSING_WORDS and not is_number(value.replace(file.decimal, ".")):
                raise DataError(
                    f"{file.path}, line {line}: the column {name!r} has numbers in other rows, but "
                    f"{value[:40]!r} here. Correct it, or leave the column out by --ignore."
                )


# JSON


def _json_tables(path: Path) -> Iterator[tuple[bytes, Any]]:
    """Blocks of whole lines of JSON, and the table of each."""
    json = require_pyarrow("pyarrow.json")
    with opened_bytes(path) as file:
        while text := file.read(JSON_BLOCK):
            text = (text + file.readline()).removeprefix(b"\xef\xbb\xbf")
            if text.strip():
                wide = FEW_COLUMNS * (text.find(b"\n") + 1)  # blocks of a few rows take long
                options = json.ReadOptions(block_size=max(BLOCK, min(wide, len(text))))
                yield text, json.read_json(io.BytesIO(text), read_options=options)


def _jsonl_batches(file: TableFile, columns: Sequence[str], texts: Sequence[str]) -> Iterator[Any]:
    arrow = require_pyarrow("pyarrow")
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
    arrow = require_pyarrow("pyarrow")
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


def _record_names(file: TableFile) -> list[str]:
    return list(dict.fromkeys(name for _, record in file.records for name in record))


def _of_records(file: TableFile, columns: Sequence[str], texts: Sequence[str]) -> Any:
    """A table of objects, in which each column has values of one type."""
    table = {}
    for name in columns:
        values = [record.get(name) for _, record in file.records]
        kinds = {KINDS.get(kind, "nested object") for kind in {*map(type, values)} - {NoneType}}
        if len(kinds) > 1:
            _refuse_kinds(file, name)
        is_id = name in texts and kinds == {"number"}
        table[name] = id_column(file, name, values) if is_id else _column(values, kinds)
    return require_pyarrow("pyarrow").table(table)


def _refuse_kinds(file: TableFile, name: str) -> NoReturn:
    """Raise an error about the first value of another type than the values before it."""
    found = [
        (place, record[name], KINDS.get(type(record[name]), "nested object"))
        for place, record in file.records
        if record.get(name) is not None
    ]
    before, _, known = found[0]
    place, value, kind = next(entry for entry in found if entry[2] != known)
    raise DataError(
        f"{place}: the column {name!r} has a {kind} here, {str(value)[:40]!r}, but a {known} in "
        f"{before.removeprefix(f'{file.path}, ')}. Use one type."
    )


def _column(values: list[Any], kinds: set[str]) -> Any:
    """A column of values of one type; numbers may be floats."""
    arrow = require_pyarrow("pyarrow")
    try:
        return arrow.array(values)
    except (OverflowError, arrow.ArrowInvalid):
        if kinds != {"number"}:
            raise
        return arrow.array([None if value is None else _float(value) for value in values])


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


def _arrow_batches(file: TableFile, columns: Sequence[str], texts: Sequence[str]) -> Iterator[Any]:
    arrow = require_pyarrow("pyarrow")
    if file.format == "parquet":
        batches = _parquet(file).iter_batches(columns=list(columns))
    else:
        reader = _arrow_reader(file)
        count = getattr(reader, "num_record_batches", None)
        batches = reader if count is None else (reader.get_batch(k) for k in range(count))
    for batch in batches:
        yield arrow.Table.from_batches([batch]).select(list(columns))


_NAMES: dict[str, Callable[[TableFile], list[str]]] = {
    "csv": _csv_names,
    "tsv": _csv_names,
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


# Columns as arrays


@cache
def kind_of(kind: Any) -> str:
    """The kind of an Arrow type: number, text, date, empty, list or object."""
    types = require_pyarrow("pyarrow.types")
    if types.is_dictionary(kind):
        kind = kind.value_type
    number = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean)
    text = (types.is_string, types.is_large_string, types.is_string_view)
    if any(is_such(kind) for is_such in number):
        return "number"
    if any(is_such(kind) for is_such in text):
        return "text"
    if types.is_null(kind):
        return "empty"
    return "date" if types.is_temporal(kind) else "list or object"


def matrix(table: Any, names: Sequence[str], dtype: Any = np.float64) -> NDArray[Any]:
    """Columns of numbers in one array; NaN where a value is missing."""
    X = np.empty((table.num_rows, len(names)), dtype)
    batches = table.select(list(names)).to_batches(max_chunksize=16 * ROWS)
    ends = accumulate(batch.num_rows for batch in batches)
    parts = [(batch, X[end - len(batch) : end]) for batch, end in zip(batches, ends, strict=True)]
    map_in_threads(_copy, parts, threads_for(X.size))
    return X


def _copy(part: tuple[Any, NDArray[Any]]) -> None:
    """Copy the columns of a batch to an array, some rows at a time."""
    batch, X = part
    columns = [_numbers(column) for column in batch.columns]
    for low in range(0, len(X), ROWS):
        rows = slice(low, low + ROWS)
        for j, column in enumerate(columns):
            X[rows, j] = column[rows]


def _numbers(column: Any) -> NDArray[Any]:
    arrow = require_pyarrow("pyarrow")
    kind = column.type
    if not (arrow.types.is_floating(kind) or arrow.types.is_integer(kind)):
        if arrow.types.is_dictionary(kind):
            column = column.dictionary_decode()
        if arrow.types.is_null(kind):
            return np.full(len(column), np.nan)
        column = column.cast(arrow.float64(), safe=False)
    values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return values


def labels(file: Source, table: Any, name: str, first: int = 0) -> NDArray[np.float64]:
    """The labels: numbers, none of which is missing. `first` is the number of the first row."""
    column = table.column(name)
    if kind_of(column.type) != "number":
        _refuse_text_label(file, column, name, first)
    values: NDArray[np.float64] = matrix(table, [name])[:, 0]
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        raise DataError(
            f"{file.place(first + int(wrong[0]))}: the label {name!r} is missing or not finite"
            f"{_more(len(wrong))}. Fill it in, or leave out these rows."
        )
    return values


def _more(count: int) -> str:
    return f", as in {plural(count - 1, 'more row')}" if count > 1 else ""


def _refuse_text_label(file: Source, column: Any, name: str, first: int) -> NoReturn:
    kind = kind_of(column.type)
    if kind == "empty":
        raise DataError(f"{file.path}: the label {name!r} has no values in any row.")
    if kind == "text":
        refuse_mixed(file, column, name, first)
        some = listed([repr(text) for text in column.unique().to_pylist()[:5]])
        raise DataError(
            f"{file.path}: the label {name!r} has words, such as {some}. Rankings need numbers, "
            "larger ones for better rows: replace each word by a number."
        )
    raise DataError(
        f"{file.path}: the label {name!r} is of type {column.type}, where numbers are needed."
    )


def refuse_mixed(file: Source, column: Any, name: str, first: int = 0) -> None:
    """Raise an error about a column of texts most of which are numbers."""
    compute = require_pyarrow("pyarrow.compute")
    arrow = require_pyarrow("pyarrow")
    texts = column.cast(arrow.string())
    is_number = compute.match_substring_regex(texts, NUMBER)
    filled = compute.and_(compute.not_equal(compute.utf8_trim_whitespace(texts), ""), True)
    n_numbers, n_filled = (compute.sum(mask).as_py() or 0 for mask in (is_number, filled))
    comma = compute.match_substring_regex(texts, DECIMAL_COMMA)
    n_comma = compute.sum(comma).as_py() or 0
    if 2 * (n_numbers + n_comma) < n_filled or n_numbers == n_filled:
        return
    bad = compute.and_(compute.invert(is_number), filled)
    row = compute.index(bad.combine_chunks() if hasattr(bad, "combine_chunks") else bad, True)
    value = texts[row.as_py()].as_py()
    what = "Correct it, or leave the column out by --ignore."
    if n_comma:
        what = "If it has decimal commas, give --separator ';' --decimal ','."
    raise DataError(
        f"{file.place(first + row.as_py())}: the column {name!r} has numbers in other rows, but "
        f"{value[:40]!r} here. {what}"
    )


def check_features(
    file: Source, table: Any, names: Sequence[str], *, keep_text: bool, first: int = 0
) -> None:
    """Features are numbers, or texts where these are wanted."""
    texts = []
    for name in names:
        if kind_of(table.schema.field(name).type) == "text":
            refuse_mixed(file, table.column(name), name, first)
            texts.append(name)
    others = neither_numbers_nor_text(table, names)
    if others:
        kinds = listed([f"{name!r} ({table.schema.field(name).type})" for name in others])
        ways = " ".join(dict.fromkeys(OTHERS[kind] for kind in others.values()))
        raise DataError(
            f"{file.path}: {kinds}: features are numbers. {ways} Or leave "
            f"{'it' if len(others) == 1 else 'them'} out by --ignore {','.join(others)}"
        )
    if texts and not keep_text:
        found = listed([_described(name, table.column(name)) for name in texts])
        have, them = ("a column has", "it") if len(texts) == 1 else ("columns have", "them")
        raise DataError(
            f"{file.path}: {have} text: {found}. Fit with --encode onehot (categories) or "
            "hashing (words; in Python, keep_text=True and an encoder), or leave "
            f"{them} out by --ignore {','.join(texts)}"
        )


def neither_numbers_nor_text(table: Any, names: Sequence[str]) -> dict[str, str]:
    """The columns that cannot be features, and the kind of each."""
    kinds = {name: kind_of(table.schema.field(name).type) for name in names}
    return {name: kind for name, kind in kinds.items() if kind in OTHERS}


def _described(name: str, column: Any) -> str:
    different = column.unique().to_pylist()
    example = next((value for value in different if value), "")
    return f"{name!r} ({len(different)} different, such as {example[:30]!r})"


def check_values(
    file: Source,
    X: NDArray[Any],
    names: Sequence[str],
    *,
    keep_missing: bool,
    first: int = 0,
) -> None:
    """Numbers are finite; missing ones (NaN) are refused unless they are wanted."""
    with np.errstate(over="ignore", invalid="ignore"):
        suspect = np.flatnonzero(~np.isfinite(X.sum(axis=0))).tolist()
    for j in suspect:
        infinite = np.flatnonzero(np.isinf(X[:, j]))
        if len(infinite):
            raise DataError(
                f"{file.place(first + int(infinite[0]))}: the column {names[j]!r} is infinite"
                f"{_more(len(infinite))}. Replace it by a finite number."
            )
    counts = {names[j]: int(np.isnan(X[:, j]).sum()) for j in suspect}
    if not keep_missing:
        refuse_missing(file, counts, len(X))


def refuse_missing(file: Source, counts: dict[str, int], n_rows: int) -> None:
    """Raise an error about missing values, with their number in each column."""
    counts = {name: count for name, count in counts.items() if count}
    if not counts:
        return
    each = [f"{name} {count:,} ({count / n_rows:.0%})" for name, count in counts.items()]
    total = sum(counts.values())
    raise DataError(
        f"{file.path} has {plural(total, 'missing value')} in {plural(len(counts), 'column')} of "
        f"features: {listed(each)}. Fit with --impute median (or mean, most_frequent, a "
        "number; in Python, keep_missing=True and an imputer), or leave the columns out by "
        "--ignore."
    )


def text_values(column: Any) -> NDArray[Any]:
    """Texts as Python's, each stored once; an empty one where it is missing."""
    codes, texts = _encoded(column)
    words: NDArray[Any] = np.array([*(text or "" for text in texts), ""], dtype=object)
    return words[codes]


def ids(file: Source, table: Any, name: str, first: int = 0) -> NDArray[Any]:
    """Query ids or row ids: whole numbers where all are, otherwise texts; none is missing.

    Numbers never become floats on the way. Decimals with fractions stay decimals.
    """
    column = table.column(name)
    kind = kind_of(column.type)
    if kind == "number":
        return _whole_numbers(file, column, name, first)
    if kind == "list or object":
        raise DataError(f"{file.path}: the column {name!r} is of type {column.type}: not an id.")
    codes, texts = _encoded(column)
    empty = np.array([*(not (text or "").strip() for text in texts), True])
    refuse_holes(file, name, empty[codes], first)
    for k, text in enumerate(texts):
        fault = text_fault(text or "")
        if fault is not None:
            row = first + int(np.argmax(codes == k))
            raise DataError(f"{file.place(row)}: the column {name!r} {fault}. Correct the id.")
    _refuse_exponents(file, name, codes, texts, first)
    return _as_ids(texts)[codes]


def _refuse_exponents(
    file: Source, name: str, codes: NDArray[np.intp], texts: list[str], first: int
) -> None:
    """Raise an error about numbers with an exponent among ids that are numbers: digits are lost."""
    given = [text for text in texts if text]
    if not all(re.match(NUMBER, text) for text in given):
        return
    for k, text in enumerate(texts):
        if text and WITH_EXPONENT.fullmatch(text):
            row = first + int(np.argmax(codes == k))
            raise DataError(
                f"{file.place(row)}: the column {name!r} has {text!r}, a number with an exponent: "
                "digits of the id may be lost, and different ids may be equal. Write ids as whole "
                "numbers or text; in pandas, convert the column to Int64 or str first."
            )


def _whole_numbers(file: Source, column: Any, name: str, first: int) -> NDArray[Any]:
    """Ids that are numbers, exactly."""
    arrow = require_pyarrow("pyarrow")
    if arrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    refuse_holes(file, name, column.is_null(nan_is_null=True).to_numpy(), first)
    if arrow.types.is_floating(column.type):
        values: NDArray[Any] = column.to_numpy()
        refuse_floats(file, values, name, first)
        return values.astype(np.int64)
    try:
        whole: NDArray[Any] = column.cast(arrow.int64()).to_numpy()
        return whole
    except arrow.ArrowInvalid:  # more than 64 bits, or a fraction
        if arrow.types.is_integer(column.type):
            return np.asarray(column.to_numpy())
        return id_array(int(v) if v == int(v) else v for v in column.to_pylist())


def refuse_holes(file: Source, name: str, holes: NDArray[np.bool_], first: int) -> None:
    """Raise an error about ids that are missing."""
    rows = np.flatnonzero(holes)
    if len(rows):
        raise DataError(
            f"{file.place(first + int(rows[0]))}: the column {name!r} has no value here"
            f"{_more(len(rows))}. Fill it in, leave out these rows or, if you do not need the "
            "column, leave it out by --ignore."
        )


def _encoded(column: Any) -> tuple[NDArray[np.intp], list[str]]:
    """The different texts of a column, and which of them each row has; -1 for a missing one."""
    arrow = require_pyarrow("pyarrow")
    if arrow.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    else:
        column = column.cast(arrow.string()).dictionary_encode()
    if column.num_chunks == 0:
        return np.empty(0, np.intp), []
    chunks = column.combine_chunks()
    chunks = chunks.chunk(0) if hasattr(chunks, "chunk") else chunks
    indices = chunks.indices.cast(arrow.int64()).fill_null(-1)
    codes = indices.to_numpy(zero_copy_only=False).astype(np.intp)
    return codes, chunks.dictionary.cast(arrow.string()).to_pylist()


def _as_ids(texts: list[str]) -> NDArray[Any]:
    """Whole numbers if all texts are such, 1.0 among them; otherwise the texts."""
    whole = [text for text in texts if text]
    if all(WHOLE.fullmatch(text) for text in whole):
        return id_array(int(text or 0) for text in texts)
    if all(WHOLE_FLOAT.fullmatch(text) for text in whole):
        return id_array(int((text or "0").removesuffix(".0")) for text in texts)
    if max(map(len, whole), default=0) <= SHORT:
        return np.array([text or "" for text in texts], dtype=np.str_)
    return np.array(texts, dtype=object)
