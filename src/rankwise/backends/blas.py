"""BLAS on submatrices, which SciPy's own wrappers would copy."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array


def symmetric_product(A: Array, V: Array) -> Array:
    """A V for a symmetric A, of which only the lower triangle is read.

    A may be a submatrix of a Fortran-ordered array, which SciPy's own wrappers would copy.
    """
    (n, k), out = V.shape, np.empty(V.shape, order="F")
    _call("dsymm", b"L", b"L", n, k, 1.0, A, _stride(A), V, _stride(V), 0.0, out, n)
    return out


def rank_two_update(A: Array, V: Array, X: Array) -> None:
    """A <- A - V X' - X V' on the lower triangle of A, which may be a submatrix as above."""
    n, k = V.shape
    _call("dsyr2k", b"L", b"N", n, k, -1.0, V, _stride(V), X, _stride(X), 1.0, A, _stride(A))


def cross_product(Y: Array, C: Array) -> Array:
    """Y'C, Fortran-ordered, for submatrices of C-ordered arrays with contiguous rows."""
    (n, k), r = Y.shape, C.shape[1]
    out = np.empty((k, r), order="F")
    _call("dgemm", b"N", b"T", k, r, n, 1.0, Y, _stride(Y.T), C, _stride(C.T), 0.0, out, max(k, 1))
    return out


def solve_lower(L: Array, B: Array) -> None:
    """B <- B L^-T for a lower triangular submatrix L of a Fortran-ordered array.

    B, a submatrix of a C-ordered array, is overwritten: each row x becomes L^-1 x.
    """
    n, r = B.shape
    _call("dtrsm", b"L", b"L", b"N", b"N", r, n, 1.0, L, _stride(L), B, _stride(B.T))


def _stride(A: Array) -> int:
    """The leading dimension of a submatrix of a Fortran-ordered array."""
    return int(max(A.strides[1] // A.itemsize, A.shape[0], 1))


@cache
def _function(name: str) -> Any:
    from numba.extending import get_cython_function_address  # imported late, as in `_numpy`

    return ctypes.CFUNCTYPE(None)(get_cython_function_address("scipy.linalg.cython_blas", name))


def _call(name: str, *arguments: bytes | int | float | Array) -> None:
    """Call a BLAS routine, which takes everything by reference."""
    by_reference: list[Any] = []
    for value in arguments:
        if isinstance(value, np.ndarray):
            by_reference.append(ctypes.c_void_p(value.ctypes.data))
        elif isinstance(value, bytes):
            by_reference.append(ctypes.c_char_p(value))
        elif isinstance(value, int):
            by_reference.append(ctypes.byref(ctypes.c_int(value)))
        else:
            by_reference.append(ctypes.byref(ctypes.c_double(value)))
    _function(name)(*by_reference)
