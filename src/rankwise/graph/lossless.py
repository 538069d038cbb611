"""The check that values can become an array of numbers, or of ids, without a loss."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwise.backends.arrays import is_sparse
from rankwise.errors import DataError


def check_lossless(what: str, values: Any, *, numbers: bool = True) -> None:
    """Refuse masks and sparse arrays and, where numbers are needed, complex ones and dates.

    NumPy would drop masks and imaginary parts, and make large numbers of dates.

    Examples
    --------
    >>> import numpy as np
    >>> check_lossless("weight", np.array(["2020-01-01"], dtype="datetime64[D]"))
    Traceback (most recent call last):
    rankwise.errors.DataError: weight must hold real numbers: got dtype datetime64[D].
    """
    if np.ma.is_masked(values):
        raise DataError(f"{what} has masked entries: fill them in, or drop them.")
    if is_sparse(values):
        raise DataError(f"{what} is a sparse array: pass {what}.toarray().")
    if not numbers or not hasattr(values, "__array__"):
        return
    dtypes = values.dtypes if hasattr(values, "columns") else [getattr(values, "dtype", None)]
    for dtype in dtypes:
        if getattr(dtype, "kind", None) in ("c", "m", "M") or is_temporal(dtype):
            raise DataError(f"{what} must hold real numbers: got dtype {dtype}.")


def is_temporal(dtype: Any) -> bool:
    """Whether a dtype of NumPy, pandas or polars has dates, times or durations."""
    if hasattr(dtype, "is_temporal"):
        return bool(dtype.is_temporal())
    return getattr(dtype, "kind", None) in ("m", "M")
