"""Ids as arrays that keep different ids apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.arrays import to_host
from rankwise.errors import DataError

EXACT = 2**53  # float64 holds every whole number below
FLOATS = (float, np.floating)
COMPLEX = (complex, np.complexfloating)
NUMBERS = (int, float, Decimal, np.number)
LONGEST = 100_000  # letters of an id in a file


def as_ids(values: Any, name: str = "qid", first_row: int = 0) -> NDArray[Any]:
    """Ids as users give them, in an array in which different ids differ.

    Every id that enters goes through here, whether it is that of a query, an item, a group or a
    judge. An id is never a float: whole floats of which no two ids can have become one are
    integers, and others are refused. NaN stays, for callers to refuse in their own words. Errors
    call the ids `name`, and count rows from `first_row`.

    Examples
    --------
    >>> as_ids(np.array([1.0, 1.0, 2.0]))
    array([1, 1, 2])
    >>> as_ids([2**64, 1])
    array([18446744073709551616, 1], dtype=object)
    >>> as_ids([0.5, 2**53 + 1])
    Traceback (most recent call last):
    rankwise.errors.DataError: qid has the float 0.5 in row 0: ids are whole numbers or text.
    """
    ids = lossless_array(to_host(values), name)
    if ids.dtype.kind == "f":
        _refuse_floats(ids.ravel(), np.arange(ids.size), name, first_row)
        return ids if np.isnan(ids).any() else ids.astype(np.int64)
    kinds = {type(entry) for entry in ids} if ids.dtype.kind == "O" and ids.ndim == 1 else set()
    if ids.dtype.kind == "c" or any(issubclass(kind, COMPLEX) for kind in kinds):
        raise DataError(f"{name} has complex numbers: ids are whole numbers or text.")
    if not kinds:
        return ids
    numbers = (entry for entry in ids if isinstance(entry, NUMBERS) and type(entry) is not bool)
    if kinds & {bool, np.bool_} and any(number in (0, 1) for number in numbers):
        raise DataError(
            f"{name} has truth values beside 0 or 1, which they equal: use numbers only, or text."
        )
    if not any(issubclass(kind, FLOATS) for kind in kinds):
        return ids
    rows = np.flatnonzero(np.fromiter((isinstance(v, FLOATS) for v in ids), bool, len(ids)))
    floats = ids[rows].astype(np.float64)
    _refuse_floats(floats, rows, name, first_row)
    whole = ids.copy()
    whole[rows] = [value if value != value else int(value) for value in floats.tolist()]
    return whole


def _refuse_floats(values: NDArray[Any], rows: NDArray[Any], name: str, first_row: int) -> None:
    found = float_fault(values)
    if found is not None:
        k, value, why = found
        raise DataError(f"{name} has the float {value!r} in row {first_row + int(rows[k])}: {why}")


def float_fault(values: NDArray[Any]) -> tuple[int, float, str] | None:
    """The number of the first float that cannot be an id, the float, and why; NaN may be one."""
    limit = min(2.0 ** (np.finfo(values.dtype).nmant + 1), EXACT)
    with np.errstate(invalid="ignore"):
        wrong = np.flatnonzero((values != np.floor(values)) | (abs(values) >= limit))
    wrong = wrong[~np.isnan(values[wrong])]
    if not len(wrong):
        return None
    value = float(values[wrong[0]])
    why = "ids are whole numbers or text."
    if value.is_integer():
        why = (
            "floats of this size stand for several whole numbers each. Store the ids as integers "
            "or text."
        )
    return int(wrong[0]), value, why


def text_fault(text: str) -> str | None:
    """Why a text cannot be an id of a file; None if it can."""
    if "\0" in text:
        return "has a NUL character, as damaged files have"
    if len(text) > LONGEST:
        return f"has {len(text):,} letters, where at most {LONGEST:,} are allowed"
    return None


def join_ids(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Arrays of ids in one, whose ids are what they were.

    NumPy alone would make floats of signed and unsigned integers, and text of integers beside text.

    Examples
    --------
    >>> join_ids([np.array([-1]), np.array([2**63], dtype=np.uint64)])
    array([-1, 9223372036854775808], dtype=object)
    """
    if len({part.dtype.kind for part in parts}) == 1:
        return np.concatenate(parts)
    return np.concatenate([part.astype(object) for part in parts])


def entries_of(column: Any) -> list[Any]:
    """The entries of a column of any library; NumPy would make floats of integers beside NA."""
    for method in ("to_pylist", "to_list"):  # of pyarrow, of pandas and polars
        if hasattr(column, method):
            return list(getattr(column, method)())
    return list(column)


def lossless_array(values: Any, name: str) -> NDArray[Any]:
    """Lists of ids keep them apart; all else is as NumPy has it."""
    if isinstance(values, list | tuple) and not any(isinstance(v, list | tuple) for v in values):
        return id_array(values)
    try:
        return np.asarray(values)
    except ValueError:
        raise DataError(f"{name} needs one id per row: got lists of several lengths.") from None
    except Exception as error:  # of polars, about integers of 128 bits
        if hasattr(values, "to_list"):
            return id_array(entries_of(values))
        raise DataError(f"{name} needs ids such as numbers or text: {error}.") from error


def id_array(values: Iterable[Any]) -> NDArray[Any]:
    """Ids as an array of integers, floats or strings, or else of objects.

    NumPy alone would make 1 and "1" the same string, 2**53 and 2**53 + 1 the same float if there is
    a float among them, and would drop a null character at the end of a string.

    Examples
    --------
    >>> id_array([1, "1", 2])
    array([1, '1', 2], dtype=object)
    >>> id_array([3, 1, 2])
    array([3, 1, 2])
    """
    entries = list(values)
    kinds = {type(entry) for entry in entries}
    for scalar, dtype_kinds in ((int | np.integer, "iu"), (float | np.floating, "f"), (str, "U")):
        if kinds and bool not in kinds and all(issubclass(kind, scalar) for kind in kinds):
            made = np.array(entries)
            whole = scalar is not str or not any(entry.endswith("\0") for entry in entries)
            if whole and made.dtype.kind in dtype_kinds:
                return made
    found = np.empty(len(entries), dtype=object)
    found[:] = entries
    return found
