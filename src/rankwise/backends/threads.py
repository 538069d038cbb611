"""Calls in threads, for code that mostly runs without the interpreter lock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

THREADS = 2
MANY = 100_000  # numbers to work on, from which a second thread is worth its start

Part = TypeVar("Part")
Result = TypeVar("Result")


def threads_for(n_numbers: int) -> int:
    """The number of threads for work on so many numbers."""
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
