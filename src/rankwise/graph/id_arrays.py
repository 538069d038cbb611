"""Ids as arrays that keep different ids apart."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray


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
