"""Columns of Arrow's tables as NumPy arrays, checked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.threads import map_in_threads, threads_for
from rankwise.data.tables.arrow_files import Source, refuse_floats
from rankwise.data.tables.formats import require_pyarrow
from rankwise.data.tables.roles import listed
from rankwise.errors import DataError
from rankwise.graph.id_arrays import id_array, text_fault
from rankwise.tables import plural

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
