"""RankRLS costs as much as regression."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg.blas import dsyrk
from sklearn.kernel_ridge import KernelRidge

from benchmarks.harness import Result, best_times, extra_memory, megabytes, seconds
from rankwise import RankRLS

DUAL_ROWS, DUAL_FEATURES, DUAL_QUERIES = 4000, 50, 100
ROWS, FEATURES, QUERIES = 1_000_000, 136, 10_000


def dual() -> list[Result]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((DUAL_ROWS, DUAL_FEATURES))
    y, qid = rng.standard_normal(DUAL_ROWS), np.arange(DUAL_ROWS) % DUAL_QUERIES
    ranker, alphas = RankRLS(1.0, kernel="rbf", scale=None), np.geomspace(1e-3, 1e3, 10)
    ranker.fit(X[:200], y[:200], qid=qid[:200])  # compile
    ours, path, peer = best_times(
        lambda: ranker.fit(X, y, qid=qid),
        lambda: ranker.path(X, y, alphas, qid=qid),
        lambda: KernelRidge(kernel="rbf").fit(X, y),
    )
    size = f"rbf, {DUAL_ROWS} x {DUAL_FEATURES}"
    return [
        Result(
            f"dual RankRLS, {size}",
            seconds(ours),
            f"KernelRidge: {seconds(peer)}",
            ours / peer,
            1.0,
        ),
        Result(
            f"dual path of ten alphas, {size}",
            seconds(path),
            f"one fit: {seconds(ours)}",
            path / ours,
            7.0,
        ),
    ]


def primal() -> list[Result]:
    X, y, qid = large_problem()
    small = slice(0, 1000)
    for ties in ("include", "exclude"):
        RankRLS(alpha=1.0, ties=ties).fit(X[small], y[small], qid=qid[small])
    with_ties, without_ties, peer = best_times(
        lambda: RankRLS(alpha=1.0).fit(X, y, qid=qid),
        lambda: RankRLS(alpha=1.0, ties="exclude").fit(X, y, qid=qid),
        lambda: dsyrk(1.0, X.T),
    )
    size, bare = f"{ROWS:,} x {FEATURES}, {QUERIES:,} queries", f"dsyrk: {seconds(peer)}"
    return [
        Result(f"primal RankRLS, {size}", seconds(with_ties), bare, with_ties / peer, 1.3),
        Result(
            f"primal RankRLS without ties, {size}",
            seconds(without_ties),
            bare,
            without_ties / peer,
            2.0,
        ),
    ]


def memory() -> list[Result]:
    extra = extra_memory(large_problem, fit_large)
    of_X = ROWS * FEATURES * 8
    return [
        Result(
            f"extra memory of primal RankRLS, {ROWS:,} x {FEATURES}",
            megabytes(extra),
            f"X: {megabytes(of_X)}",
            extra / of_X,
            0.3,
        )
    ]


def large_problem() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ROWS, FEATURES))
    y = rng.integers(0, 5, ROWS).astype(float)
    return X, y, np.arange(ROWS) // (ROWS // QUERIES)


def fit_large(problem: tuple[Any, Any, Any]) -> None:
    X, y, qid = problem
    RankRLS(alpha=1.0).fit(X, y, qid=qid)


def cases() -> list[Result]:
    return [*dual(), *memory(), *primal()]
