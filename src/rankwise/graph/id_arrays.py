"""Ids and numbers as arrays: different ids stay apart, and conversions lose nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.arrays import Array, is_sparse, is_tensor, to_host
from rankwise.errors import DataError

EXACT = 2**53  # float64 holds every whole number below
FLOATS = (float, np.floating)
COMPLEX = (complex, np.complexfloating)
NUMBERS = (int, float, Decimal, np.number)
LONGEST = 100_000  # letters of an id in a file


def as_ids(values: Any, name: str = "qid", first_row: int = 0) -> NDArray[Any]:
    """Ids as users give them, in an array in which different ids differ.

    Every id passes through here, whether it names a query, an item, a group or a judge. An id is
    never a float. Whole floats become integers unless rounding may have merged two ids; other
    floats are refused. NaN stays, for callers to refuse in their own words. Errors call the ids
    `name`, and count rows from `first_row`.

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
    """One array of several arrays of ids, which keeps the ids as they were.

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
    """Lists of ids keep them apart; everything else is converted by NumPy."""
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


DATES = (np.datetime64, np.timedelta64, date, time, timedelta)  # datetime is a date


def check_lossless(what: str, values: Any, *, numbers: bool = True) -> None:
    """Refuse masks and sparse arrays and, where numbers are needed, complex ones and dates.

    NumPy would drop masks and imaginary parts, and make large numbers of dates.

    Examples
    --------
    >>> import numpy as np
    >>> check_lossless("weight", np.ma.masked_equal([1.0, 0.0], 0.0))
    Traceback (most recent call last):
    rankwise.errors.DataError: weight has masked entries: fill them in, or drop these rows.
    """
    check_unmasked(what, values)
    if is_sparse(values):
        raise DataError(f"{what} is a sparse array: pass {what}.toarray().")
    if numbers:
        check_real(what, values)


def numbers_per_row(name: str, values: Any, n_rows: int) -> Array:
    """One finite number per row, as a NumPy array."""
    check_lossless(name, values)
    try:
        found = np.asarray(to_host(values), dtype=np.float64)
    except (OverflowError, TypeError, ValueError):
        raise DataError(f"{name} must hold numbers, one per row of X.") from None
    if found.shape != (n_rows,):
        raise DataError(
            f"{name} needs one entry per row of X: got shape {found.shape} for {n_rows} rows."
        )
    finite = np.isfinite(found)
    if not finite.all():
        row = int(np.argmin(finite))
        raise DataError(f"{name} must be finite: got {found[row]} in row {row}.")
    return found


def check_unmasked(what: str, values: Any) -> None:
    """Refuse masked entries."""
    if np.ma.is_masked(values):
        raise DataError(f"{what} has masked entries: fill them in, or drop these rows.")


def check_real(what: str, values: Any, *, allow_complex: bool = False) -> None:
    """Refuse dates, times and complex numbers, in arrays, lists and the columns of data frames.

    Long doubles beyond the range of float64 are refused as well.

    Examples
    --------
    >>> from datetime import date
    >>> check_real("weight", [date(2020, 1, 1), date(2020, 1, 2)])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    rankwise.errors.DataError: weight must hold real numbers: got dates or times (date). ...
    """
    if hasattr(values, "columns") and hasattr(values, "dtypes"):
        for name, dtype in zip(values.columns, values.dtypes, strict=True):
            if getattr(dtype, "kind", "O") in "OcmM":  # dtypes of polars have no kind
                column = np.asarray(values[name])
                check_real(f"Column {name!r} of {what}", column, allow_complex=allow_complex)
        return
    for entry in _entry_types(values):
        if issubclass(entry, DATES):
            raise DataError(
                f"{what} must hold real numbers: got dates or times ({entry.__name__}). Convert "
                "them to numbers, such as an age in days."
            )
        if issubclass(entry, COMPLEX) and not allow_complex:
            raise DataError(
                f"{what} must hold real numbers: got complex numbers ({entry.__name__}). Use their "
                "real parts or absolute values."
            )
    check_float64_range(what, values)


def check_float64_range(what: str, values: Any) -> None:
    """Refuse an array of long doubles of which some would be infinite in float64."""
    if not isinstance(values, np.ndarray) or values.dtype.type is not np.longdouble:
        return
    outside = np.isfinite(values) & (abs(values) > np.finfo(np.float64).max)
    if outside.any():
        raise too_large(what, int(np.argwhere(np.atleast_1d(outside))[0, 0]))


def too_large(what: str, row: int) -> DataError:
    """The error for a finite number that float64 cannot hold."""
    return DataError(f"{what} is too large for float64 in row {row}: divide it by a constant.")


def _entry_types(values: Any) -> list[type]:
    """The classes of entries; none of a tensor, and of what cannot be an array."""
    if is_tensor(values):
        return []
    if getattr(getattr(values, "dtype", None), "kind", "O") != "O":
        return [values.dtype.type]
    try:
        array = np.asarray(values)
    except (OverflowError, TypeError, ValueError):  # refused where values are converted
        return []
    if array.dtype.kind != "O":
        return [array.dtype.type]
    return list(dict.fromkeys(map(type, array.ravel().tolist())))


def check_column_names(frame: Any, what: str) -> None:
    """Raise an error unless a data frame has columns with distinct names."""
    counts = Counter(frame.columns)
    if not counts:
        raise DataError(f"{what} is a data frame without columns.")
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise DataError(f"{what} has two columns named {twice[0]!r}: rename or drop one of them.")


def is_number(text: str | bytes) -> bool:
    """Whether text can be converted to a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
