"""Measure a claim as a ratio to a peer, timed alternately in the same process.

Memory is read from /proc, so the benchmarks need Linux.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Result:
    """A measured ratio of our result to that of a peer, and its limit."""

    claim: str
    ours: str
    peer: str
    ratio: float
    at_most: float

    @property
    def holds(self) -> bool:
        return self.ratio <= self.at_most


def best_times(*calls: Callable[[], Any], repeats: int = 3) -> list[float]:
    """The shortest time of each call over some runs; the calls alternate."""
    best = [float("inf")] * len(calls)
    for _ in range(repeats):
        for k, call in enumerate(calls):
            start = time.perf_counter()
            call()
            best[k] = min(best[k], time.perf_counter() - start)
    return best


def extra_memory(setup: Callable[[], Any], call: Callable[[Any], Any]) -> int:
    """Peak memory of `call` beyond what `setup` allocated, in bytes, in a new process."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(_measure_memory, setup, call).result()


def _measure_memory(setup: Callable[[], Any], call: Callable[[Any], Any]) -> int:
    state = setup()
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak to the memory in use
    before = _kilobytes("VmRSS")
    call(state)
    return 1024 * (_kilobytes("VmHWM") - before)


def _kilobytes(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))


def seconds(value: float) -> str:
    return f"{value:.3g} s"


def megabytes(value: float) -> str:
    return f"{value / 1e6:.0f} MB"
