"""How many threads work: our own threads, and the threads of BLAS.

Large problems are divided into blocks of rows, which run in threads of our own while BLAS has one
thread. Small matrices have one thread of BLAS, too: several would wait for each other, which takes
processor time on every core and no less time on the clock.

There are as many threads as BLAS may use: limits by ``threadpoolctl``, by ``OMP_NUM_THREADS`` or
``OPENBLAS_NUM_THREADS``, and by workers of joblib hold for our own threads as well. The variable
``RANKWISE_NUM_THREADS`` is a limit for rankwise alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import cache
from threading import Lock
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from rankwise.errors import ParameterError

VARIABLE = "RANKWISE_NUM_THREADS"
LEAST = 50_000  # numbers to work on for which one more thread is worth its start
SMALL = 1000  # rows of a square matrix up to which BLAS has one thread

Part = TypeVar("Part")
Result = TypeVar("Result")

_in_a_thread = ContextVar("_in_a_thread", default=False)


@cache
def _libraries() -> list[Any]:
    """The BLAS libraries of NumPy and SciPy."""
    import scipy.linalg  # noqa: F401  which loads the second one

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

    Each thread has one thread of BLAS, and the context of the caller, such as ``np.errstate``. With
    one thread, or one part, BLAS keeps its threads.
    """
    threads = 1 if _in_a_thread.get() else min(threads, len(parts))
    if threads <= 1:
        return [function(part) for part in parts]

    def run(part: Part) -> Result:
        _in_a_thread.set(True)
        return function(part)

    contexts = [copy_context() for _ in parts]  # a context is for one thread at a time
    with _blas.limited(1), ThreadPoolExecutor(threads) as pool:
        calls = [pool.submit(c.run, run, p) for c, p in zip(contexts, parts, strict=True)]
        return [call.result() for call in calls]


def even_parts(sizes: Sequence[int], n_parts: int) -> list[slice]:
    """Consecutive items in at most `n_parts` parts of about equal size, none of them empty.

    Examples
    --------
    >>> even_parts([5, 1, 1, 1, 2], 2)
    [slice(0, 1, None), slice(1, 5, None)]
    """
    parts, start, done, total = [], 0, 0, sum(sizes)
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
