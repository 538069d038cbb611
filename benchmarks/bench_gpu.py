"""GPUs: large fits and hold-outs on one, beside its rate of products and the cores of its machine.

The limits are for an NVIDIA H200, with data on the device, in float64. Each problem is run once on
fewer rows, to load libraries, and then timed: the best of some runs, from the call to the end of
the last kernel. Rates are relative to the measured rate of a large matrix product.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any

import numpy as np
import torch

from benchmarks.harness import Result, seconds
from rankwise import KPCRank, RankRLS, SparseRankRLS
from rankwise.errors import KernelSizeError
from rankwise.model_selection import leave_pair_out, leave_query_out

DEVICE = "cuda"
ROWS, FEATURES, LANDMARKS, QUERIES = 1_000_000, 100, 10_000, 10_000
ALPHAS = np.geomspace(1e-3, 1e3, 20)


def timed(call: Callable[[], Any], repeats: int = 2) -> float:
    """The shortest of some runs, in seconds."""
    best = float("inf")
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    return best


def product_rate(n: int = 8192) -> float:
    """Flops per second of a float64 matrix product."""
    A = torch.randn(n, n, dtype=torch.float64, device=DEVICE)
    timed(lambda: A @ A)
    return 2 * n**3 / timed(lambda: A @ A, 5)


def rows(m: int, n: int, queries: int) -> tuple[Any, Any, Any]:
    """Random rows on the device, sorted by query."""
    torch.manual_seed(0)
    X = torch.randn(m, n, dtype=torch.float64, device=DEVICE)
    y = torch.sin(X[:, 0]) + 0.1 * torch.randn(m, dtype=torch.float64, device=DEVICE)
    return X, y, torch.arange(m, device=DEVICE) // (m // queries)


def sparse(rate: float) -> list[Result]:
    """SparseRankRLS with a path: from tensors, and from NumPy arrays."""
    X, y, qid = rows(ROWS, FEATURES, QUERIES)
    ranker = SparseRankRLS(1.0, n_landmarks=LANDMARKS, random_state=0, scale=None)
    _warm_up(ranker, X, y, qid)
    whole = timed(lambda: ranker.path(X, y, ALPHAS, qid=qid))
    peak = torch.cuda.max_memory_allocated() / 2**30
    path = ranker.path(X, y, ALPHAS, qid=qid)
    scoring = timed(lambda: path.estimator(0).predict(X))
    rough = SparseRankRLS(1.0, n_landmarks=LANDMARKS, random_state=0, precision="tf32", scale=None)
    with_tf32 = timed(lambda: rough.path(X, y, ALPHAS, qid=qid))
    off = _differences(X[:10_000], path, rough.path(X, y, ALPHAS, qid=qid))
    from_numpy, from_blocks = _from_numpy(X.cpu().numpy(), y.cpu().numpy(), qid.cpu().numpy())
    size = f"{ROWS:,} x {FEATURES}, {LANDMARKS:,} landmarks, rbf, {len(ALPHAS)} alphas"
    share = ROWS * LANDMARKS**2 / whole / rate
    words = f"4 s; {share:.0%} of the rate of products, {rate / 1e12:.0f} TFLOP/s, of an "
    words += torch.cuda.get_device_name()
    return [
        Result(
            f"SparseRankRLS, {size}",
            f"{seconds(whole)}, {peak:.1f} GiB",
            words,
            whole / 4.0,
            1.0,
        ),
        Result(
            f"the same from NumPy, {size}",
            seconds(from_numpy),
            f"tensors, {seconds(whole)}",
            from_numpy / whole,
            1.3,
        ),
        _times("from 50 blocks of NumPy arrays", from_blocks, "tensors", whole, 1.5),
        _times("its scores of all rows", scoring, "the fit", whole),
        _times(f'with precision="tf32"; scores differ by {off}', with_tf32, "float64", whole, 0.6),
        *_parts("its", ranker, X, y, qid, rate),
    ]


def _times(claim: str, ours: float, peer: str, theirs: float, at_most: float = inf) -> Result:
    """Two times and their ratio."""
    return Result(claim, seconds(ours), f"{peer}: {seconds(theirs)}", ours / theirs, at_most)


def _from_numpy(X: Any, y: Any, qid: Any) -> tuple[float, float]:
    """Seconds for NumPy arrays that are sent to the GPU, and for blocks of them."""
    ranker = SparseRankRLS(1.0, n_landmarks=LANDMARKS, random_state=0, device=DEVICE, scale=None)
    whole = timed(lambda: ranker.path(X, y, ALPHAS, qid=qid))
    step = ROWS // 50
    parts = [slice(start, start + step) for start in range(0, ROWS, step)]
    blocks = [(X[part], y[part], qid[part]) for part in parts]
    return whole, timed(lambda: ranker.path_blocks(blocks, ALPHAS), 1)


def _warm_up(ranker: SparseRankRLS, X: Any, y: Any, qid: Any) -> None:
    """Load libraries."""
    few = slice(0, 20_000)
    ranker.path(X[few], y[few], ALPHAS, qid=qid[few])


def _parts(
    whose: str, ranker: SparseRankRLS, X: Any, y: Any, qid: Any, rate: float
) -> list[Result]:
    """Times of the parts of a fit, measured separately, beside their products at the full rate."""
    few = slice(0, 20_000)
    ranker.fit(X[few], y[few], qid=qid[few])
    problem = ranker.make_problem(X, y, qid=qid)
    system = problem.space.system(X, None)
    choosing = timed(lambda: problem.space.system(X, None), 1)
    sums: list[Any] = []
    adding = timed(lambda: sums.append(system.moments(X, problem.tasks[0], problem.loss)), 1)
    solving = timed(lambda: system.solve(sums[:1], ALPHAS.tolist()), 1)
    rank = system.factor.rank
    least = float(system.factor.C.diagonal().min()) ** 2
    products = {
        f"{whose} landmarks, pivots from {least:.0e}": (choosing, rank**3 / 3),
        f"{whose} moments": (adding, len(X) * rank**2),
        f"{whose} {len(ALPHAS)} alphas": (solving, len(ALPHAS) * rank**3 / 3),
    }
    peer = "products at the full rate"
    return [_times(name, time, peer, n / rate) for name, (time, n) in products.items()]


def _differences(X: Any, exact: Any, rough: Any) -> str:
    """Relative differences of scores from those of float64, for some alphas."""
    want, got = exact.predict(X), rough.predict(X)
    off = [
        float(torch.linalg.norm(b - a) / torch.linalg.norm(a))
        for a, b in zip(want, got, strict=True)
    ]
    steps = range(0, len(ALPHAS), 5)
    return ", ".join(f"{off[k]:.0e} at alpha {ALPHAS[k]:.1e}" for k in (*steps, -1))


def delicate(rate: float) -> list[Result]:
    """A wide kernel, whose rows are whitened before they are summed: twice the products."""
    X, y, qid = rows(ROWS // 4, 10, QUERIES // 4)
    ranker = SparseRankRLS(alpha=1.0, n_landmarks=LANDMARKS, gamma=0.05, random_state=0)
    _warm_up(ranker, X, y, qid)
    whole = timed(lambda: ranker.path(X, y, ALPHAS, qid=qid), 1)
    claim = f"SparseRankRLS, a wide kernel, {len(X):,} x 10, {LANDMARKS:,} landmarks"
    products = len(X) * LANDMARKS**2 / rate
    return [
        _times(claim, whole, "products of its moments at the full rate", products),
        *_parts("wide:", ranker, X, y, qid, rate),
    ]


def pairs() -> list[Result]:
    """Leave-pair-out over all pairs of one ranking."""
    m = 20_000
    X, y, _ = rows(m, FEATURES, 1)
    ranker = RankRLS(1.0, kernel="rbf", scale=None)
    leave_pair_out(ranker, X[:2000], y[:2000])
    taken = timed(lambda: leave_pair_out(ranker, X, y))
    claim = f"leave-pair-out, {m:,} rows, {m * (m - 1) // 2:,} pairs, rbf, one alpha"
    return [Result(claim, seconds(taken), "2 s", taken / 2.0, 1.0)]


def dual() -> list[Result]:
    """Dual RankRLS on 40,000 rows."""
    m = 40_000
    X, y, qid = rows(m, FEATURES, 400)
    ranker = RankRLS(1.0, kernel="rbf", scale=None)
    ranker.fit(X[:2000], y[:2000], qid=qid[:2000])
    torch.cuda.reset_peak_memory_stats()
    taken = timed(lambda: ranker.fit(X, y, qid=qid))
    peak = torch.cuda.max_memory_allocated() / 2**30
    total = torch.cuda.mem_get_info()[1] / 2**30
    claim = f"memory of dual RankRLS, {m:,} rows, rbf, in {seconds(taken)}"
    return [Result(claim, f"{peak:.1f} GiB", f"{total:.0f} GiB", peak / total, 1.0)]


def as_large_as_fits(rate: float) -> list[Result]:
    """A problem that just fits in memory is solved; a larger one raises an error."""
    torch.cuda.empty_cache()
    m = int((torch.cuda.mem_get_info()[0] / 8 / 3.1) ** 0.5) // 100 * 100
    X, y, qid = rows(m, FEATURES, 100)
    ranker = RankRLS(1.0, kernel="rbf", scale=None)
    taken = timed(lambda: ranker.fit(X, y, qid=qid), 1)
    torch.cuda.empty_cache()
    try:
        RankRLS(1.0, kernel="rbf", scale=None).fit(X.repeat(2, 1), y.repeat(2), qid=qid.repeat(2))
    except KernelSizeError as error:
        print(f"  {2 * m:,} rows: {error}")
    claim = f"dual RankRLS, {m:,} rows, the most that fit"
    return [_times(claim, taken, "m³/3 products at the full rate", m**3 / 3 / rate)]


def others(rate: float) -> list[Result]:
    """Other fits and hold-outs, beside m³ products: an inverse of m rows."""
    m = 20_000
    X, y, qid = rows(m, FEATURES, 200)
    inverse, found = m**3 / rate, []
    for name, at_most, call in (
        ("KPCRank, 100 components", inf, lambda: KPCRank(100, scale=None).fit(X, y, qid=qid)),
        (
            "leave-query-out, dual, 200 queries, 5 alphas",
            25.0,
            lambda: leave_query_out(
                RankRLS(1.0, kernel="rbf", scale=None),
                X,
                y,
                qid=qid,
                alphas=np.geomspace(0.1, 10, 5),
            ),
        ),
        (
            "leave-query-out, primal, 200 queries, 20 alphas",
            inf,
            lambda: leave_query_out(RankRLS(alpha=1.0), X, y, qid=qid, alphas=ALPHAS),
        ),
        (
            "leave-pair-out within 200 queries, dual",
            15.0,
            lambda: leave_pair_out(RankRLS(1.0, kernel="rbf", scale=None), X, y, qid=qid),
        ),
    ):
        call()
        claim = f"{name}, {m:,} rows"
        found.append(_times(claim, timed(call), "m³ products at the full rate", inverse, at_most))
    return found


def against_cpu() -> list[Result]:
    """From which size a GPU is faster: the same fits by NumPy on the CPU of the machine."""
    found, cores = [], f"{len(os.sched_getaffinity(0))} CPU cores"
    for m, r, at_most in ((2_000, 200, inf), (20_000, 1_000, 0.3), (100_000, 2_000, 0.1)):
        X, y, qid = rows(m, FEATURES, m // 100)
        host = X.cpu().numpy(), y.cpu().numpy(), qid.cpu().numpy()
        ranker = SparseRankRLS(1.0, n_landmarks=r, random_state=0, scale=None)
        there = timed(partial(ranker.path, X, y, ALPHAS, qid=qid))
        here = timed(partial(ranker.path, *host[:2], ALPHAS, qid=host[2]))
        claim = f"SparseRankRLS, {m:,} rows, {r:,} landmarks, {len(ALPHAS)} alphas"
        found.append(_times(claim, there, cores, here, at_most))
    return found


def cases() -> list[Result]:
    rate = product_rate()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    print(f"  product of two 8192 x 8192 matrices: {rate / 1e12:.1f} TFLOP/s")
    found = []
    for part in (
        lambda: sparse(rate),
        lambda: delicate(rate),
        pairs,
        dual,
        lambda: as_large_as_fits(rate),
        lambda: others(rate),
        against_cpu,
    ):
        found += part()
        torch.cuda.empty_cache()
    return found
