"""Two workers compared with one: the same coefficients in little more than half the time.

Each worker has one thread and holds the same number of rows in memory, so the disk does not matter.
The data moved are all bytes that pass the loopback device: between workers, and between workers,
scheduler and client.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Result, megabytes, seconds

ROWS, FEATURES, PARTS, PER_QUERY = 2_000_000, 136, 40, 37
REPEATS = 6
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


def block(number: int) -> Any:
    rng = np.random.default_rng(number)
    return rng.standard_normal((ROWS // PARTS, FEATURES))


def first_column(X: Any) -> Any:
    return X[:, 0].copy()


def queries(number: int) -> Any:
    size = ROWS // PARTS
    return np.arange(number * size, (number + 1) * size) // PER_QUERY


def placed(client: Any) -> tuple[Any, Any, Any]:
    """Rows in the memory of the workers, evenly distributed, as after `persist`."""
    import dask.array as da
    from distributed import wait

    workers = sorted(client.scheduler_info()["workers"])
    columns: tuple[list[Any], ...] = ([], [], [])
    for k in range(PARTS):
        at = {"workers": workers[k % len(workers)], "pure": False}
        X = client.submit(block, k, **at)
        parts = X, client.submit(first_column, X, **at), client.submit(queries, k, **at)
        for column, part in zip(columns, parts, strict=True):
            column.append(part)
    wait([part for column in columns for part in column])
    size = ROWS // PARTS
    shapes = (size, FEATURES), (size,), (size,)
    rows = client.persist(
        [
            da.concatenate([da.from_delayed(part, shape, dtype=np.float64) for part in column])
            for column, shape in zip(columns, shapes, strict=True)
        ]
    )
    wait(rows)
    return tuple(rows)


def timed(n_workers: int) -> tuple[float, Any, float]:
    """Seconds of a fit, its coefficients, and the bytes that were moved."""
    from distributed import Client, LocalCluster

    from rankwise import RankRLS
    from rankwise.distributed import fit

    options = {"threads_per_worker": 1, "dashboard_address": None, "env": THREADS}
    with (
        LocalCluster(n_workers=n_workers, memory_limit=0, **options) as cluster,
        Client(cluster) as client,
    ):
        rows = placed(client)
        fit(RankRLS(alpha=1.0), rows, client=client)  # compile on every worker
        best = float("inf")
        for _ in range(REPEATS):
            before = _traffic()
            start = time.perf_counter()
            coef = fit(RankRLS(alpha=1.0), rows, client=client).coef_
            best = min(best, time.perf_counter() - start)
        return best, coef, _traffic() - before


def _traffic() -> float:
    """Bytes that have passed the loopback device of this machine."""
    line = next(line for line in Path("/proc/net/dev").read_text().splitlines() if "lo:" in line)
    return float(line.split(":")[1].split()[0])


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
            1 / 1.4,
        ),
        Result("their coefficients, relative", f"{apart:.1e}", "1e-10", apart / 1e-10, 1.0),
        Result(
            f"moved in all, for each of {PARTS} partitions",
            megabytes(moved / PARTS),
            "10 MB",
            moved / PARTS / 10e6,
            1.0,
        ),
    ]
