"""How many threads work: our own threads, and the threads of BLAS.

Large problems are divided into blocks of rows, which run in threads of our own while BLAS has one
thread. Small matrices have one thread of BLAS, too: several would wait for each other, which takes
processor time on every core and no less time on the clock.

There are as many threads as BLAS may use: limits by ``threadpoolctl``, by ``OMP_NUM_THREADS`` or
``OPENBLAS_NUM_THREADS``, and by workers of joblib hold for our own threads as well. The variable
``RANKWISE_NUM_THREADS`` is a limit for rankwise alone.

Products use SciPy's BLAS, without the interpreter lock and on submatrices. SciPy's own wrappers
hold the lock, so that threads would wait for each other, and they copy submatrices. NumPy and SciPy
have a BLAS each, with its own threads, which stay busy for a while after each call. Code that
alternates between the two runs at half its speed. LAPACK is SciPy's, so large products use SciPy's
BLAS too.
"""

from __future__ import annotations

import ctypes
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import cache, partial
from itertools import pairwise
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cython_blas, cython_lapack
from threadpoolctl import ThreadpoolController

from rankwise.errors import ParameterError

Array = NDArray[np.float64]

VARIABLE = "RANKWISE_NUM_THREADS"
LEAST = 200_000  # numbers to work on for which one more thread is worth its start
SMALL = 1000  # rows of a square matrix up to which BLAS has one thread

Part = TypeVar("Part")
Result = TypeVar("Result")

_in_a_thread = ContextVar("_in_a_thread", default=False)


@cache
def _libraries() -> list[Any]:
    """The BLAS libraries of NumPy and SciPy, which the imports above load."""
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


def n_threads() -> int:
    """The number of threads that may work now."""
    if _in_a_thread.get():
        return 1
    found = _blas.threads() or [_n_processors()]
    limit = _limit()
    return min(found) if limit is None else min(*found, limit)


def threads_for(n_numbers: int) -> int:
    """The number of threads for work on this many numbers."""
    return max(1, min(n_numbers // LEAST, n_threads()))


@contextmanager
def blas_threads_for(n_rows: int) -> Iterator[None]:
    """Limit BLAS to one thread if square matrices have at most `SMALL` rows.

    The limit holds for the process, until all callers are done.
    """
    limit = 1 if n_rows <= SMALL else _limit()
    if limit is None:
        yield
    else:
        with _blas.limited(limit):
            yield


def map_in_threads(
    function: Callable[[Part], Result], parts: Sequence[Part], threads: int
) -> list[Result]:
    """``[function(part) for part in parts]``, on some parts at a time.

    The caller and threads that stay for later calls take one part after the other. Each has one
    thread of BLAS, and the context of the caller, such as ``np.errstate``. With one thread, or one
    part, BLAS keeps its threads.
    """
    threads = 1 if _in_a_thread.get() else min(threads, len(parts))
    if threads <= 1:
        return [function(part) for part in parts]
    found: dict[int, Result] = {}
    errors: dict[int, BaseException] = {}
    numbers = iter(range(len(parts)))  # shared: each thread takes the next
    busy: list[Lock] = []  # one for each helper that has started, released at its end

    def work() -> None:
        _in_a_thread.set(True)
        k = 0
        try:
            for k in numbers:
                found[k] = function(parts[k])
        except BaseException as error:  # raised below, when the other threads are done
            errors[k] = error
            deque(numbers, maxlen=0)  # nothing is left to take

    def help_out() -> None:
        mine = Lock()
        with mine:
            busy.append(mine)
            work()

    with _blas.limited(1):
        _helpers().start(help_out, threads - 1)
        copy_context().run(work)
        for helper in tuple(busy):  # helpers that start later find nothing to take
            helper.acquire()
    if errors:
        raise errors[min(errors)]
    return [found[k] for k in range(len(parts))]


class _Helpers:
    """Threads that wait for work, so that a call need not start them."""

    def __init__(self) -> None:
        self.lock, self.number = Lock(), 0
        self.jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def start(self, job: Callable[[], None], times: int) -> None:
        """Run a job in several threads, each in a copy of the caller's context."""
        with self.lock:
            for _ in range(self.number, times):
                Thread(target=self._run, name="rankwise", daemon=True).start()
            self.number = max(self.number, times)
        for _ in range(times):
            self.jobs.put(partial(copy_context().run, job))

    def _run(self) -> None:
        while True:
            self.jobs.get()()


@cache
def _helpers() -> _Helpers:
    return _Helpers()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_helpers.cache_clear)  # a new process has no such threads


def map_rows(function: Callable[[slice], Result], X: Any) -> list[Result]:
    """Results for consecutive rows of an array, some for each thread; for a tensor, for all."""
    return map_slices(function, X.shape[0], X.size if isinstance(X, np.ndarray) else 1)


def map_slices(function: Callable[[slice], Result], n: int, n_numbers: int) -> list[Result]:
    """Results for consecutive parts of n items, one for each thread for this many numbers."""
    threads = threads_for(n_numbers)
    cuts = np.linspace(0, n, threads + 1).astype(int).tolist()
    return map_in_threads(function, [slice(*cut) for cut in pairwise(cuts)], threads)


def even_parts(sizes: Sequence[int], n_parts: int) -> list[slice]:
    """Consecutive items in at most `n_parts` parts of about equal size, none of them empty.

    Examples
    --------
    >>> even_parts([5, 1, 1, 1, 2], 2)
    [slice(0, 1, None), slice(1, 5, None)]
    """
    parts: list[slice] = []
    start, done, total = 0, 0, sum(sizes)
    for k, size in enumerate(sizes):
        done += size
        if done * n_parts >= total * (len(parts) + 1):
            parts.append(slice(start, k + 1))
            start = k + 1
    return parts


def _limit() -> int | None:
    """The limit that the environment sets, or None."""
    text = os.environ.get(VARIABLE)
    if not text:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise ParameterError(f"{VARIABLE} must be a whole number of at least 1: got {text!r}.")
    return int(text)


def _n_processors() -> int:
    """The processors of this process, for a BLAS whose threads cannot be counted."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on all systems
        return os.cpu_count() or 1


class _BlasLimits:
    """The smallest limit that anyone asks for: limits hold for the whole process.

    Setting them takes microseconds. When all are done, the number of threads is what it was before.
    """

    def __init__(self) -> None:
        self.lock = Lock()
        self.limits: list[int] = []
        self.found: list[int] = []

    def threads(self) -> list[int]:
        """The number of threads of each library without our own limits."""
        with self.lock:
            return self.found if self.limits else self._counts()

    @staticmethod
    def _counts() -> list[int]:
        return [library.num_threads or 1 for library in _libraries()]

    @contextmanager
    def limited(self, limit: int) -> Iterator[None]:
        with self.lock:
            if not self.limits:
                self.found = self._counts()
            self.limits.append(limit)
            self._set()
        try:
            yield
        finally:
            with self.lock:
                self.limits.remove(limit)
                self._set()

    def _set(self) -> None:
        for library, found in zip(_libraries(), self.found, strict=True):
            wanted = min([found, *self.limits])
            if library.num_threads != wanted:
                library.set_num_threads(wanted)


_blas = _BlasLimits()


# BLAS.


def matmul(A: Array, B: Array, out: Array | None = None) -> Array:
    """A B for matrices of float64, or of float32, as a C-ordered array."""
    # BLAS expects column-major arrays, so it computes (A B)' = B'A'.
    (m, k), n = A.shape, B.shape[1]
    out = np.empty((m, n), dtype=B.dtype) if out is None else out
    (a, of_a), (b, of_b) = _column_major(A.T), _column_major(B.T)
    if n == 1 and out.size and k:  # a matrix of one column takes twice the time of a vector
        of_rows = b"N" if of_a == b"T" else b"T"
        _call(_precision(B) + "gemv", of_rows, *a.shape, 1.0, a, _stride(a), b, 1, 0.0, out, 1)
    elif out.size:
        ab = (b, _stride(b), a, _stride(a))
        _call(_precision(B) + "gemm", of_b, of_a, n, m, k, 1.0, *ab, 0.0, out.T, n)
    return out


def row_products(X: Array, w: Array, out: Array) -> None:
    """out <- X w: NumPy holds the interpreter lock in some such products."""
    matmul(X, w[:, None], out[:, None])


def column_products(X: Array, v: Array) -> Array:
    """X'v."""
    return matmul(X.T, v[:, None])[:, 0]


def add_gram(A: Array, Z: Array) -> Array:
    """A + Z'Z on the lower triangle of a C-ordered A, which is overwritten."""
    # BLAS sees A' and fills its upper triangle, which takes OpenBLAS less time than the lower one.
    n, (z, of_z) = len(A), _column_major(Z.T)
    if n:
        _call("dsyrk", b"U", of_z, n, len(Z), 1.0, z, _stride(z), 1.0, A.T, n)
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
    """Y'C, Fortran-ordered, for submatrices of C-ordered arrays with contiguous rows.

    Both are of float64 or both of float32.
    """
    (n, k), r = Y.shape, C.shape[1]
    out = np.empty((k, r), dtype=C.dtype, order="F")
    given = (Y, _stride(Y.T), C, _stride(C.T))
    _call(_precision(C) + "gemm", b"N", b"T", k, r, n, 1.0, *given, 0.0, out, max(k, 1))
    return out


def solve_lower(L: Array, B: Array) -> None:
    """B <- B L^-T for a lower triangular submatrix L of a Fortran-ordered array.

    B, a submatrix of a C-ordered array, is overwritten: each row x becomes L^-1 x. Both are of
    float64 or both of float32.
    """
    n, r = B.shape
    _call(_precision(B) + "trsm", b"L", b"L", b"N", b"N", r, n, 1.0, L, _stride(L), B, _stride(B.T))


def _precision(A: Array) -> str:
    """The first letter of the routines for an array."""
    return "s" if A.itemsize == 4 else "d"


def _stride(A: Array) -> int:
    """The leading dimension of a submatrix of a Fortran-ordered array."""
    return int(max(A.strides[1] // A.itemsize, A.shape[0], 1))


@cache
def _function(name: str) -> Any:
    return ctypes.CFUNCTYPE(None)(blas_address(name))


def blas_address(name: str) -> int:
    """Where a routine of SciPy's BLAS and LAPACK is in memory."""
    capsules: Any = {**cython_blas.__pyx_capi__, **cython_lapack.__pyx_capi__}
    capsule = capsules[name]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    signature = ctypes.pythonapi.PyCapsule_GetName
    signature.restype, signature.argtypes = ctypes.c_char_p, [ctypes.py_object]
    address: int = pointer(capsule, signature(capsule))
    return address


def _call(name: str, *arguments: bytes | int | float | Array) -> None:
    """Call a BLAS routine, which takes everything by reference, and arrays of one precision."""
    real = ctypes.c_float if name.startswith("s") else ctypes.c_double
    dtype = np.dtype(real)
    by_reference: list[Any] = []
    for value in arguments:
        if isinstance(value, np.ndarray):
            if value.dtype != dtype:  # other memory would be read
                raise TypeError(f"{name} takes arrays of {dtype}, got {value.dtype}.")
            by_reference.append(ctypes.c_void_p(value.ctypes.data))
        elif isinstance(value, bytes):
            by_reference.append(ctypes.c_char_p(value))
        elif isinstance(value, int):
            by_reference.append(ctypes.byref(ctypes.c_int(value)))
        else:
            by_reference.append(ctypes.byref(real(value)))
    _function(name)(*by_reference)
