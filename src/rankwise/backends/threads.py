"""Threads of rankwise, and threads of BLAS."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache
from threading import Lock
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

THREADS = 2
MANY = 100_000  # numbers to work on, from which a second thread is worth its start

Part = TypeVar("Part")
Result = TypeVar("Result")


def threads_for(n_numbers: int) -> int:
    """The number of threads for work on this many numbers."""
    return THREADS if n_numbers >= MANY else 1


def map_in_threads(
    function: Callable[[Part], Result], parts: Sequence[Part], n_threads: int
) -> list[Result]:
    """``[function(part) for part in parts]``, on some parts at a time.

    The threads have the context of the caller, such as ``np.errstate``.
    """
    if n_threads == 1 or len(parts) == 1:
        return [function(part) for part in parts]
    contexts = [copy_context() for _ in parts]  # a context is for one thread at a time
    with ThreadPoolExecutor(n_threads) as pool:
        calls = [pool.submit(c.run, function, p) for c, p in zip(contexts, parts, strict=True)]
        return [call.result() for call in calls]


# Rows up to which one thread is as fast as several on an idle machine. On a busy one, several
# wait for each other: the factorization of 150 rows then takes a quarter of a second.
SMALL = 400


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


class _OneThread:
    """One thread as long as anyone asks for it: limits apply to the whole process."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.users = 0
        self.limit: Any = None

    def __enter__(self) -> None:
        with self.lock:
            if not self.users:
                self.limit = _controller().limit(limits=1)
            self.users += 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.users -= 1
            if not self.users:
                self.limit.restore_original_limits()


_one_thread = _OneThread()


@contextmanager
def blas_threads_for(n_rows: int) -> Iterator[None]:
    """Limit BLAS to one thread if square matrices have at most `SMALL` rows.

    The limit holds for the process, until all callers are done.
    """
    if n_rows > SMALL:
        yield
    else:
        with _one_thread:
            yield
