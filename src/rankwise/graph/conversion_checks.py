"""Checks that values can become an array of numbers, or of ids, without a loss."""

from __future__ import annotations

from collections import Counter
from datetime import date, time, timedelta
from typing import Any

import numpy as np

from rankwise.backends.arrays import is_sparse, is_tensor
from rankwise.errors import DataError

DATES = (np.datetime64, np.timedelta64, date, time, timedelta)  # datetime is a date
COMPLEX = (complex, np.complexfloating)


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
    """Raise an error unless a data frame has columns, each with a name of its own."""
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
