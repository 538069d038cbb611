"""Exact hold-outs of queries cost about as much as one fit."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import lapack

from benchmarks.harness import Result, best_times, seconds
from rankwise import RankRLS
from rankwise.model_selection import leave_query_out

ALPHAS = np.geomspace(1e-2, 1e4, 10)


def queries_linear() -> list[Result]:
    m, n, n_queries = 100_000, 46, 1000
    X, y, qid = problem(m, n, n_queries)
    rng = np.random.default_rng(0)
    systems = rng.standard_normal((n_queries * len(ALPHAS), n, n)) + n * np.eye(n)
    rhs = rng.standard_normal((len(systems), n, 1))
    leave_query_out(RankRLS(alpha=1.0), X[:1000], y[:1000], qid=qid[:1000])
    ours, peer = best_times(
        lambda: leave_query_out(RankRLS(alpha=1.0), X, y, qid=qid, alphas=ALPHAS),
        lambda: np.linalg.solve(systems, rhs),
    )
    return [
        Result(
            f"leave-query-out, linear, {m:,} x {n}, {n_queries} queries, 10 alphas",
            seconds(ours),
            f"numpy.linalg.solve, {len(systems):,} systems of {n}: {seconds(peer)}",
            ours / peer,
            2.0,
        )
    ]


def queries_dual() -> list[Result]:
    m, n_queries = 2000, 100
    X, y, qid = problem(m, 50, n_queries)
    K = positive_definite(m)
    ours, peer = best_times(
        lambda: leave_query_out(
            RankRLS(1.0, kernel="rbf", scale=None), X, y, qid=qid, alphas=ALPHAS
        ),
        lambda: [factor_and_invert(K) for _ in ALPHAS],
        repeats=2,
    )
    return [
        Result(
            f"leave-query-out, rbf, {m} rows, {n_queries} queries, 10 alphas",
            seconds(ours),
            f"ten dpotrf + dpotri: {seconds(peer)}",
            ours / peer,
            1.5,
        )
    ]


def problem(m: int, n: int, n_queries: int = 1) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((m, n))
    y = X[:, 0] + rng.standard_normal(m)
    return X, y, np.arange(m) // (m // n_queries)


def positive_definite(m: int) -> Any:
    X = np.random.default_rng(0).standard_normal((m, m))
    return np.asfortranarray(X @ X.T + m * np.eye(m))


def factor_and_invert(K: Any) -> Any:
    factor, _ = lapack.dpotrf(K.copy(order="F"), clean=0, overwrite_a=1)
    return lapack.dpotri(factor, overwrite_c=1)


def cases() -> list[Result]:
    return [*queries_linear(), *queries_dual()]
