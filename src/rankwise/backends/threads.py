"""Calls in two threads, for compiled code that runs without the interpreter lock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

THREADS = 2
MANY = 100_000  # numbers to work on, from which a second thread is worth its start

Part = TypeVar("Part")
Result = TypeVar("Result")


def threads_for(n_numbers: int) -> int:
    """One thread if there is little to do."""
    return THREADS if n_numbers >= MANY else 1


def map_in_threads(
    function: Callable[[Part], Result], parts: Sequence[Part], n_threads: int
) -> list[Result]:
    """``[function(part) for part in parts]``, on some parts at a time."""
    if n_threads == 1 or len(parts) == 1:
        return [function(part) for part in parts]
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(function, parts))
