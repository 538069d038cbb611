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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.arrays import map_in_threads, threads_for
from rankwise.data.tables.formats import (
    BROKEN,
    FORMATS,
    MISSING_WORDS,
    OptionalModule,
    arrow,
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
    parquet,
    parsed_json,
    place_of_row,
)
from rankwise.errors import DataError, ParameterError
from rankwise.graph.query_groups import EXACT, float_fault, id_array, text_fault
from rankwise.parameters import Choice, check_value
from rankwise.tables import plural

csv, json = OptionalModule("pyarrow.csv"), OptionalModule("pyarrow.json")
compute = OptionalModule("pyarrow.compute")

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
REMEDIES = {
    "text": (
        "Fit with --encode onehot (categories) or hashing (words; in Python, keep_text=True and an "
        "encoder)."
    ),
    "date": "Turn dates into numbers, such as days.",
    "list or object": "Write the entries of lists and objects to separate columns.",
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
        """A file of a given format, or of the format that its suffix names."""
        found = format or format_of(path)
        if found is None:
            known = ", ".join(FORMATS)
            raise DataError(f"{path}: the suffix names no format of tables. Give one: {known}.")
        check_value("format", found, Choice(*FORMATS))
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
    return dict.fromkeys(columns, arrow.dictionary(arrow.int32(), arrow.string()))


def _read_csv(file: TableFile, columns: Sequence[str], texts: Sequence[str]) -> Any:
    types = _as_text(texts)
    try:
        newlines = _has_quotes(file.path)
        table = csv.read_csv(**_csv_arguments(file, columns, types, newlines=newlines))
    except arrow.ArrowInvalid:  # a quotation mark may come later
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
    if any(arrow.types.is_binary(kind) for kind in schema.types):
        raise encoding_fault(file.path)


def _csv_batches(file: TableFile, columns: Sequence[str], texts: Sequence[str]) -> Iterator[Any]:
    """Numbers in the first block of text are numbers in all of them."""
    types = _as_text(texts)
    first = csv.open_csv(**_csv_arguments(file, columns, types, newlines=True)).schema
    for field in first:
        if arrow.types.is_integer(field.type) or arrow.types.is_null(field.type):
            types[field.name] = arrow.float64()
    with csv.open_csv(**_csv_arguments(file, columns, types, newlines=True)) as reader:
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
                options = json.ReadOptions(block_size=max(BLOCK, min(wide, len(text))))
                yield text, json.read_json(io.BytesIO(text), read_options=options)


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


# Columns as arrays


@cache
def kind_of(kind: Any) -> str:
    """The kind of an Arrow type: number, text, date, empty, list or object."""
    types = arrow.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    kinds = {
        "number": (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean),
        "text": (types.is_string, types.is_large_string, types.is_string_view),
        "empty": (types.is_null,),
        "date": (types.is_temporal,),
    }
    found = (name for name, tests in kinds.items() if any(is_such(kind) for is_such in tests))
    return next(found, "list or object")


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
    kind = column.type
    if not (arrow.types.is_floating(kind) or arrow.types.is_integer(kind)):
        if arrow.types.is_dictionary(kind):
            column = column.dictionary_decode()
        if arrow.types.is_null(kind):
            return np.full(len(column), np.nan)
        column = column.cast(arrow.float64(), safe=False)
    values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return values


@dataclass(frozen=True)
class TableRows:
    """Rows of a table, whose columns become checked arrays.

    Attributes
    ----------
    source : Source
    table : pyarrow.Table
    first : int
        The number of the first row in the source.
    """

    source: Source
    table: Any
    first: int = 0

    def kind(self, name: str) -> str:
        """The kind of a column, see `kind_of`."""
        return kind_of(self.table.schema.field(name).type)

    def fault(self, name: str, rows: Any, what: str, remedy: str) -> DataError:
        """An error about the first of some rows of a column, given by number or by a mask."""
        rows = np.atleast_1d(rows)
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows
        more = f", as in {plural(len(rows) - 1, 'more row')}" if len(rows) > 1 else ""
        place = self.source.place(self.first + int(rows[0]))
        return DataError(f"{place}: the column {name!r} {what}{more}. {remedy}")

    def labels(self, name: str) -> NDArray[np.float64]:
        """The labels: numbers, none of which is missing."""
        if self.kind(name) != "number":
            column = self.table.column(name)
            if self.kind(name) == "text":
                self._refuse_mixed(name)
            some = listed([repr(value) for value in column.unique().to_pylist()[:5]])
            raise DataError(
                f"{self.source.path}: the label {name!r} has values of type {column.type}, such as "
                f"{some}. Rankings need numbers, larger ones for better rows: replace each value "
                "by a number."
            )
        values: NDArray[np.float64] = matrix(self.table, [name])[:, 0]
        wrong = ~np.isfinite(values)
        if wrong.any():
            what = "of labels is missing or infinite here"
            raise self.fault(name, wrong, what, "Fill it in, or leave out these rows.")
        return values

    def _refuse_mixed(self, name: str) -> None:
        """Raise an error about a column of texts most of which are numbers."""
        texts = self.table.column(name).cast(arrow.string())
        is_number, comma, filled = (
            compute.fill_null(compute.match_substring_regex(texts, pattern), False).to_numpy()
            for pattern in (NUMBER, DECIMAL_COMMA, r"\S")
        )
        if 2 * (is_number | comma).sum() < filled.sum() or is_number.sum() == filled.sum():
            return
        row = int(np.argmax(filled & ~is_number))
        remedy = "Correct it, or leave the column out by --ignore."
        if comma.any():
            remedy = "If it has decimal commas, give --separator ';' --decimal ','."
        what = f"has numbers in other rows, but {texts[row].as_py()[:40]!r} here"
        raise self.fault(name, row, what, remedy)

    def features(
        self, names: Sequence[str], dtype: Any, *, keep_text: bool, keep_missing: bool
    ) -> NDArray[Any]:
        """The features that are numbers, finite and, unless wanted, not missing.

        Texts are refused unless they are wanted; they are not in the result.
        """
        kinds = {name: self.kind(name) for name in names}
        for name in (name for name, kind in kinds.items() if kind == "text"):
            self._refuse_mixed(name)
        wrong = [
            n
            for n, kind in kinds.items()
            if kind in REMEDIES and not (kind == "text" and keep_text)
        ]
        if wrong:
            found = listed([f"{name!r} ({self._described(name)})" for name in wrong])
            ways = " ".join(dict.fromkeys(REMEDIES[kinds[name]] for name in wrong))
            raise DataError(
                f"{self.source.path}: features are numbers, but not {found}. {ways} Or leave "
                f"{'it' if len(wrong) == 1 else 'them'} out by --ignore {','.join(wrong)}"
            )
        numbers = [name for name, kind in kinds.items() if kind != "text"]
        X = matrix(self.table, numbers, dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            suspect = np.flatnonzero(~np.isfinite(X.sum(axis=0))).tolist()
        for j in suspect:
            if np.isinf(X[:, j]).any():
                remedy = "Replace it by a finite number."
                raise self.fault(numbers[j], np.isinf(X[:, j]), "is infinite here", remedy)
        if not keep_missing:
            self.refuse_missing({numbers[j]: int(np.isnan(X[:, j]).sum()) for j in suspect})
        return X

    def _described(self, name: str) -> str:
        column = self.table.column(name)
        if self.kind(name) != "text":
            return str(column.type)
        different = column.unique().to_pylist()
        example = next((value for value in different if value), "")
        return f"text, {len(different)} different, such as {example[:30]!r}"

    def refuse_missing(self, counts: dict[str, int]) -> None:
        """Raise an error about missing values, with their number in each column."""
        counts = {name: count for name, count in counts.items() if count}
        if not counts:
            return
        n_rows = self.table.num_rows
        each = [f"{name} {count:,} ({count / n_rows:.0%})" for name, count in counts.items()]
        raise DataError(
            f"{self.source.path} has {plural(sum(counts.values()), 'missing value')} in "
            f"{plural(len(counts), 'column')} of features: {listed(each)}. Fit with --impute "
            "median (or mean, most_frequent, a number; in Python, keep_missing=True and an "
            "imputer), or leave the columns out by --ignore."
        )

    def texts(self, name: str) -> NDArray[Any]:
        """Texts as Python's, each stored once; an empty one where it is missing."""
        codes, texts = _encoded(self.table.column(name))
        words: NDArray[Any] = np.array([*(text or "" for text in texts), ""], dtype=object)
        return words[codes]

    def ids(self, name: str) -> NDArray[Any]:
        """Query ids or row ids: whole numbers where all are, otherwise texts; none is missing.

        Numbers never become floats on the way. Decimals with fractions stay decimals.
        """
        column = self.table.column(name)
        if self.kind(name) == "number":
            return self._whole_numbers(name)
        if self.kind(name) == "list or object":
            path = self.source.path
            raise DataError(f"{path}: the column {name!r} is of type {column.type}: not an id.")
        codes, texts = _encoded(column)
        self._refuse_holes(name, np.array([*(not (t or "").strip() for t in texts), True])[codes])
        numbers = all(re.match(NUMBER, text) for text in texts if text)
        for k, text in enumerate(texts):
            fault = text_fault(text or "")
            if fault is not None:
                raise self.fault(name, codes == k, fault, "Correct the id.")
            if numbers and text and WITH_EXPONENT.fullmatch(text):
                what = f"has {text!r}, a number with an exponent, whose digits may be lost"
                remedy = "Write ids as whole numbers or text; in pandas, as Int64 or str."
                raise self.fault(name, codes == k, what, remedy)
            if numbers and text and text.endswith(".0") and text.removesuffix(".0") in texts:
                what = f"has {text!r} beside {text.removesuffix('.0')!r}: are they the same id?"
                raise self.fault(name, codes == k, what, "Write equal ids in the same way.")
        return _as_ids(texts)[codes]

    def _whole_numbers(self, name: str) -> NDArray[Any]:
        """Ids that are numbers, exactly."""
        column = self.table.column(name)
        if arrow.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        self._refuse_holes(name, column.is_null(nan_is_null=True).to_numpy())
        if arrow.types.is_floating(column.type):
            values: NDArray[Any] = column.to_numpy()
            refuse_floats(self.source, values, name, self.first)
            return values.astype(np.int64)
        try:
            whole: NDArray[Any] = column.cast(arrow.int64()).to_numpy()
            return whole
        except arrow.ArrowInvalid:  # more than 64 bits, or a fraction
            if arrow.types.is_integer(column.type):
                return np.asarray(column.to_numpy())
            return id_array(int(v) if v == int(v) else v for v in column.to_pylist())

    def _refuse_holes(self, name: str, holes: NDArray[np.bool_]) -> None:
        if holes.any():
            remedy = "Fill it in, leave out these rows or, if you do not need it, --ignore it."
            raise self.fault(name, holes, "has no value here", remedy)


def _encoded(column: Any) -> tuple[NDArray[np.intp], list[str]]:
    """The different texts of a column, and which of them each row has; -1 for a missing one."""
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
    """Whole numbers if all texts are whole numbers, such as 1 or 1.0; otherwise the texts."""
    whole = [text for text in texts if text]
    if all(WHOLE.fullmatch(text) for text in whole):
        return id_array(int(text or 0) for text in texts)
    if all(WHOLE_FLOAT.fullmatch(text) for text in whole):
        return id_array(int((text or "0").removesuffix(".0")) for text in texts)
    if max(map(len, whole), default=0) <= SHORT:
        return np.array([text or "" for text in texts], dtype=np.str_)
    return np.array(texts, dtype=object)
