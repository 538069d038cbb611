"""Two workers against one, on 2,000,000 x 136: the same coefficients in little more than half.

Workers have one thread each and make their rows themselves, so that what is measured is work and
not the disk. What the scheduler moves is counted in bytes of its results: `measured_traffic`.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.harness import Result, megabytes, seconds

ROWS, FEATURES, PARTS, PER_QUERY = 2_000_000, 136, 40, 37
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


def block(number: int) -> Any:
    rng = np.random.default_rng(number)
    return rng.standard_normal((ROWS // PARTS, FEATURES))


def data() -> tuple[Any, Any, Any]:
    import dask.array as da
    from dask.delayed import delayed

    size = ROWS // PARTS
    X = da.concatenate(
        [
            da.from_delayed(delayed(block)(k), (size, FEATURES), dtype=np.float64)
            for k in range(PARTS)
        ]
    )
    y = X[:, 0]
    return X, y, da.arange(ROWS, chunks=size) // PER_QUERY


def timed(n_workers: int) -> tuple[float, Any, float]:
    """Seconds of a fit, its coefficients, and the bytes that its scheduler took in and gave out."""
    from distributed import Client, LocalCluster, wait

    from rankwise import RankRLS
    from rankwise.distributed import fit

    options = {
        "threads_per_worker": 1,
        "dashboard_address": None,
        "memory_limit": 0,
        "env": THREADS,
    }
    with (
        LocalCluster(n_workers=n_workers, memory_limit=0, **options) as cluster,
        Client(cluster) as client,
    ):
        rows = tuple(a.persist() for a in data())
        wait(rows)
        fit(RankRLS(), tuple(a[: 2 * ROWS // PARTS] for a in rows), client=client)  # compiles
        before = client.run_on_scheduler(_traffic)
        start = time.perf_counter()
        coef = fit(RankRLS(), rows, client=client).coef_
        took = time.perf_counter() - start
        return took, coef, client.run_on_scheduler(_traffic) - before


def _traffic() -> float:
    """Bytes that this process has read and written, sockets included."""
    with open("/proc/self/io") as file:
        counts = dict(line.split(": ") for line in file.read().splitlines())
    return float(counts["rchar"]) + float(counts["wchar"])


def cases() -> list[Result]:
    one, coef_one, _ = timed(1)
    two, coef_two, moved = timed(2)
    apart = float(np.abs(coef_one - coef_two).max() / np.abs(coef_one).max())
    size = f"{ROWS:,} x {FEATURES}"
    return [
        Result(
            f"RankRLS on two workers, {size}",
            seconds(two),
            f"one worker: {seconds(one)}",
            two / one,
            1 / 1.7,
        ),
        Result("their coefficients, relative", f"{apart:.1e}", "1e-10", apart / 1e-10, 1.0),
        Result(
            f"moved by the scheduler, for each of {PARTS} partitions",
            megabytes(moved / PARTS),
            "10 MB",
            moved / PARTS / 10e6,
            1.0,
        ),
    ]
