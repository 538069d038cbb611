"""Several cores: large problems use them, and small problems do not waste them.

Times with all threads and with one, which ``threadpoolctl`` limits as users do. The limits of large
problems are for machines with at least eight cores. Ratios to one thread get worse as one thread
gets faster. RankSVM takes a few Newton steps, in which all threads wait for each other some thirty
times. Limits leave room for machines that differ: on those with 16 cores that were tried,
leave-query-out took 0.10 to 0.14, RankSVM 0.16 to 0.22 and SparseRankRLS 1.6 to 2.3.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import lapack
from scipy.linalg.blas import dsyrk
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from threadpoolctl import threadpool_limits

from benchmarks.harness import Result
from rankwise import (
    AdditiveRankRLS,
    AutoRanker,
    KPCRank,
    Leaderboard,
    PairwiseGP,
    RankRLS,
    RankSVM,
    SparseRankRLS,
)
from rankwise.metrics import evaluate_ranking
from rankwise.model_selection import (
    leave_pair_out,
    leave_query_out,
    permutation_test,
)

MANY_CORES = 8
ROWS, FEATURES, QUERIES, LANDMARKS = 100_000, 136, 2_000, 1_000
KERNEL_ROWS = 4_000
ALPHAS = np.geomspace(1e-3, 1e3, 10)
SMALL_ROWS, SMALL_FEATURES = 600, 8


@dataclass(frozen=True)
class Times:
    """Seconds of a call with all threads and with one: of the clock, and of all processors."""

    wall: float
    cpu: float
    one_wall: float
    one_cpu: float

    @classmethod
    def of(cls, call: Callable[[], Any], repeats: int = 3) -> Times:
        call()  # compile, and start threads
        wall, cpu = _best(call, repeats)
        with threadpool_limits(1):
            return cls(wall, cpu, *_best(call, repeats))

    def __str__(self) -> str:
        return f"{_ms(self.wall)} (CPU {_ms(self.cpu)}); one thread {_ms(self.one_wall)}"


def _best(call: Callable[[], Any], repeats: int) -> tuple[float, float]:
    best_wall = best_cpu = float("inf")
    for _ in range(repeats):
        start, cpu = time.perf_counter(), time.process_time()
        call()
        time.sleep(0.02)  # threads of BLAS wait busily for a while after a call: it counts
        wall = time.perf_counter() - start - 0.02
        best_wall, best_cpu = min(best_wall, wall), min(best_cpu, time.process_time() - cpu)
    return best_wall, best_cpu


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.3g} ms"


def large() -> list[Result]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ROWS, FEATURES))
    y = np.clip(np.round(X[:, 0] + rng.standard_normal(ROWS)), 0, 4)
    qid = np.arange(ROWS) // (ROWS // QUERIES)
    size = f"{ROWS:,} x {FEATURES}"
    ridge = Times.of(lambda: Ridge(solver="cholesky").fit(X, y))
    gram = Times.of(lambda: dsyrk(1.0, X.T))
    given = Times.of(lambda: RankRLS(1.0, scale=None).fit(X, y, qid=qid))
    auto = Times.of(lambda: RankRLS(scale=None).fit(X, y, qid=qid))
    held_out = Times.of(
        lambda: leave_query_out(RankRLS(scale=None), X, y, qid=qid, alphas=ALPHAS), repeats=7
    )
    svm = Times.of(lambda: RankSVM(1.0).fit(X, y, qid=qid), repeats=7)
    sparse = Times.of(
        lambda: SparseRankRLS(1.0, n_landmarks=LANDMARKS, scale=None, random_state=0).fit(
            X, y, qid=qid
        ),
        repeats=7,
    )
    wide = rng.standard_normal((ROWS, LANDMARKS))
    blocks = Times.of(lambda: _gram_in_threads(wide))
    peer = f"Ridge(solver='cholesky'): {ridge}; dsyrk: {gram}"
    return [
        _case(f"RankRLS, {size}, alpha given", given, peer, given.wall / ridge.wall, 0.25),
        _case(f'RankRLS, {size}, alpha="auto"', auto, peer, auto.wall / ridge.wall, 0.5),
        _case(
            f"leave-query-out, {size}, ten alphas",
            held_out,
            "one thread",
            held_out.wall / held_out.one_wall,
            0.15,
        ),
        _case(f"RankSVM, {size}", svm, "one thread", svm.wall / svm.one_wall, 0.25),
        _case(
            f"SparseRankRLS, {size}, {LANDMARKS:,} landmarks",
            sparse,
            f"B'B of blocks in threads: {blocks}",
            sparse.wall / blocks.wall,
            2.5,
        ),
    ]


def _gram_in_threads(X: Any) -> Any:
    """X'X as a sum over blocks of rows, each in a thread with one thread of BLAS."""
    n_blocks = 20
    parts = np.array_split(X, n_blocks)
    with threadpool_limits(1), ThreadPoolExecutor(os.cpu_count()) as pool:
        return sum(pool.map(lambda part: part.T @ part, parts))


def kernels() -> list[Result]:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((KERNEL_ROWS, 50)), rng.standard_normal(KERNEL_ROWS)
    qid = np.arange(KERNEL_ROWS) % 100
    ranker = RankRLS(1.0, kernel="rbf", scale=None)
    K = X @ X.T + KERNEL_ROWS * np.eye(KERNEL_ROWS)

    def inverse() -> None:
        factor, _ = lapack.dpotrf(K)
        lapack.dpotri(factor, overwrite_c=1)

    fit = Times.of(lambda: ranker.fit(X, y, qid=qid), repeats=7)
    ridge = Times.of(lambda: KernelRidge(kernel="rbf").fit(X, y), repeats=2)
    pairs = Times.of(lambda: leave_pair_out(ranker, X, y), repeats=2)
    two = Times.of(inverse, repeats=2)
    size = f"rbf, {KERNEL_ROWS:,} rows"
    return [
        _case(f"dual RankRLS, {size}", fit, f"KernelRidge: {ridge}", fit.wall / ridge.wall, 1.0),
        _case(
            f"leave-pair-out, {size}", pairs, f"potrf and potri: {two}", pairs.wall / two.wall, 2.5
        ),
    ]


def small() -> list[Result]:
    """The CPU time of small problems with all threads, relative to one thread."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((SMALL_ROWS, SMALL_FEATURES))
    y = np.clip(np.round(X[:, 0] + rng.standard_normal(SMALL_ROWS)), 0, 4)
    qid = np.arange(SMALL_ROWS) // 10
    first, second = rng.integers(0, 50, (2, 200))
    pairs = np.column_stack([first, second])[first != second]
    names = np.array([f"item {k}" for k in range(50)])
    calls: dict[str, Callable[[], Any]] = {
        "RankRLS()": lambda: RankRLS().fit(X, y, qid=qid),
        'RankRLS(kernel="rbf")': lambda: RankRLS(kernel="rbf").fit(X, y, qid=qid),
        "SparseRankRLS(n_landmarks=50)": lambda: SparseRankRLS(n_landmarks=50, random_state=0).fit(
            X, y, qid=qid
        ),
        "AdditiveRankRLS()": lambda: AdditiveRankRLS().fit(X, y, qid=qid),
        "KPCRank()": lambda: KPCRank().fit(X, y, qid=qid),
        "RankSVM()": lambda: RankSVM().fit(X, y, qid=qid),
        "AutoRanker(boosted=False)": lambda: AutoRanker(boosted=False).fit(X, y, qid=qid),
        "PairwiseGP().fit_pairs": lambda: PairwiseGP().fit_pairs(X[:50], pairs),
        "Leaderboard()": lambda: Leaderboard().fit(*names[pairs.T], ["first"] * len(pairs)),
        "leave_query_out": lambda: leave_query_out(RankRLS(), X, y, qid=qid, alphas=ALPHAS),
        "leave_pair_out": lambda: leave_pair_out(RankRLS(kernel="rbf"), X, y),
        "permutation_test": lambda: permutation_test(RankRLS(1.0), X, y, qid=qid),
        "evaluate_ranking": lambda: evaluate_ranking(y, X[:, 0], qid=qid),
    }
    results = []
    for name, call in calls.items():
        times = Times.of(call, repeats=9)
        results.append(
            Result(
                f"CPU time of {name}, {SMALL_ROWS} x {SMALL_FEATURES}",
                str(times),
                f"CPU with one thread: {_ms(times.one_cpu)}",
                times.cpu / times.one_cpu,
                1.3,
            )
        )
    return results


def _case(claim: str, ours: Times, peer: str, ratio: float, at_most: float) -> Result:
    """A claim about a large problem, which is only stated where there are enough cores."""
    limit = at_most if len(os.sched_getaffinity(0)) >= MANY_CORES else float("inf")
    return Result(claim, str(ours), peer, ratio, limit)


def cases() -> list[Result]:
    return [*large(), *kernels(), *small()]
