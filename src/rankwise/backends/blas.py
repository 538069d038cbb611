"""SciPy's BLAS, without the interpreter lock and on submatrices.

SciPy's own wrappers hold the lock, so that products in several threads would wait for each other,
and they copy submatrices.

NumPy and SciPy each bring a BLAS with its own threads, which stay busy for a while after each
call: code that alternates between the two runs at half its speed. LAPACK is SciPy's, so large
products use SciPy's BLAS too.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cython_blas

Array = NDArray[np.float64]


def matmul(A: Array, B: Array) -> Array:
    """A B for matrices of float64, as a C-ordered array."""
    # BLAS expects column-major arrays, so it computes (A B)' = B'A'.
    (m, k), n = A.shape, B.shape[1]
    out = np.empty((m, n))
    (a, of_a), (b, of_b) = _column_major(A.T), _column_major(B.T)
    if out.size:
        ab = (b, _stride(b), a, _stride(a))
        _call("dgemm", of_b, of_a, n, m, k, 1.0, *ab, 0.0, out.T, n)
    return out


def add_gram(A: Array, Z: Array) -> Array:
    """A + Z'Z on the upper triangle of a C-ordered A, which is overwritten."""
    # BLAS sees A' and fills its lower triangle.
    n, (z, of_z) = len(A), _column_major(Z.T)
    if n:
        _call("dsyrk", b"L", of_z, n, len(Z), 1.0, z, _stride(z), 1.0, A.T, n)
    return A


def _column_major(A: Array) -> tuple[Array, bytes]:
    """A, or its transpose, in column-major order, and whether BLAS is to transpose it."""
    if A.flags.f_contiguous:
        return A, b"N"
    return (A.T if A.flags.c_contiguous else np.ascontiguousarray(A).T), b"T"


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
    capsule = cython_blas.__pyx_capi__[name]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    signature = ctypes.pythonapi.PyCapsule_GetName
    signature.restype, signature.argtypes = ctypes.c_char_p, [ctypes.py_object]
    return ctypes.CFUNCTYPE(None)(pointer(capsule, signature(capsule)))


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
