"""Exact hold-outs cost about as much as one fit."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import lapack
from scipy.linalg.blas import dgemm

from benchmarks.harness import Result, best_times, extra_memory, megabytes, seconds
from rankwise import RLS, RankRLS
from rankwise.model_selection import leave_pair_out, leave_query_out, permutation_test

ALPHAS = np.geomspace(1e-2, 1e4, 10)


def pairs_dual() -> list[Result]:
    m = 2000
    X, y, _ = problem(m, 50)
    labels = (y > 0).astype(float)
    K = positive_definite(m)
    ours, bipartite, peer = best_times(
        lambda: leave_pair_out(RankRLS(1.0, kernel="rbf", scale=None), X, labels),
        lambda: leave_pair_out(RankRLS(1.0, kernel="rbf", ties="exclude", scale=None), X, labels),
        lambda: factor_and_invert(K),
    )
    bare = f"dpotrf + dpotri: {seconds(peer)}"
    return [
        Result(f"leave-pair-out, rbf, all pairs of {m}", seconds(ours), bare, ours / peer, 2.5),
        Result(
            f"leave-pair-out without ties, rbf, all pairs of {m}",
            seconds(bipartite),
            bare,
            bipartite / peer,
            float("inf"),
        ),
    ]


def pairs_of_many_levels() -> list[Result]:
    m, n_levels = 500, 200
    X, y, _ = problem(m, 10)
    ranker = RankRLS(1.0, kernel="rbf", ties="exclude", scale=None)
    many = np.random.default_rng(0).permutation(np.arange(m) % n_levels)
    ours, peer = best_times(
        lambda: leave_pair_out(ranker, X, many),
        lambda: leave_pair_out(ranker, X, (y > 0).astype(float)),
        repeats=5,
    )
    return [
        Result(
            f"leave-pair-out without ties, rbf, {m} rows with {n_levels} labels",
            seconds(ours),
            f"with 2 labels: {seconds(peer)}",
            ours / peer,
            6.0,
        )
    ]


def permuted_labels() -> list[Result]:
    m, n_permutations = 200, 1000
    X, y, _ = problem(m, 10)
    labels = (y > 0).astype(float)
    ridge = RLS(1.0, kernel="rbf", scale=None)
    M, columns = positive_definite(m), np.ones((m, n_permutations))
    permutation_test(ridge, X, labels, n_permutations=1)
    ours, fit, product = best_times(
        lambda: permutation_test(ridge, X, labels, n_permutations=n_permutations, random_state=0),
        lambda: ridge.fit(X, labels),
        lambda: dgemm(1.0, M, columns),
    )
    few, some, n = (y[:100] > 0).astype(float), 1000, 100
    ranker = RankRLS(1.0, kernel="rbf", ties="exclude", scale=None)
    excluded, single = best_times(
        lambda: permutation_test(ranker, X[:n], few, n_permutations=some, random_state=0),
        lambda: leave_pair_out(ranker, X[:n], few),
        repeats=2,
    )
    return [
        Result(
            f"{n_permutations:,} permutations, RLS, rbf, all pairs of {m}",
            seconds(ours),
            f"a fit and one product with {n_permutations:,} columns: {seconds(fit + product)}",
            ours / (fit + product),
            3.0,
        ),
        Result(
            f"{some:,} permutations without ties, rbf, all pairs of {n}",
            seconds(excluded),
            f"one leave-pair-out: {seconds(single)}",
            excluded / single,
            1.1 * some,
        ),
    ]


def pairs_of_many_outputs() -> list[Result]:
    m, n_outputs = 1000, 50
    X, y, _ = problem(m, 10)
    Y = y[:, None] + np.random.default_rng(0).standard_normal((m, n_outputs))
    ranker = RankRLS(1.0, kernel="rbf", scale=None)
    many, one = best_times(
        lambda: leave_pair_out(ranker, X, Y), lambda: leave_pair_out(ranker, X, y)
    )
    return [
        Result(
            f"leave-pair-out, rbf, all pairs of {m}, {n_outputs} outputs",
            seconds(many),
            f"one output: {seconds(one)}",
            many / one,
            float(n_outputs),
        )
    ]


def pairs_dual_memory() -> list[Result]:
    m = 5000
    extra = extra_memory(large_dual, hold_out_pairs_dual)
    one = 8 * m**2
    return [
        Result(
            f"memory of leave-pair-out, rbf, all pairs of {m}",
            megabytes(extra),
            f"one m x m matrix: {megabytes(one)}",
            extra / one,
            3.0,
        )
    ]


def pairs_linear() -> list[Result]:
    m, n = 20_000, 50
    X, y, _ = problem(m, n)
    F = np.asfortranarray(X)
    leave_pair_out(RankRLS(alpha=1.0), X[:100], y[:100])
    ours, peer = best_times(
        lambda: leave_pair_out(RankRLS(alpha=1.0), X, y), lambda: dgemm(1.0, F, F, trans_b=True)
    )
    extra = extra_memory(large_linear, hold_out_pairs_linear)
    size = f"leave-pair-out, linear, all pairs of {m:,} x {n}"
    return [
        Result(size, seconds(ours), f"dgemm to m x m: {seconds(peer)}", ours / peer, 4.0),
        Result(f"memory of {size}", megabytes(extra), "1 GiB", extra / 2**30, 1.0),
    ]


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


def large_dual() -> tuple[Any, Any, Any]:
    state = problem(5000, 50)
    leave_pair_out(RankRLS(1.0, kernel="rbf", scale=None), state[0][:50], state[1][:50])
    return state


def hold_out_pairs_dual(state: tuple[Any, Any, Any]) -> None:
    leave_pair_out(RankRLS(1.0, kernel="rbf", scale=None), state[0], state[1])


def large_linear() -> tuple[Any, Any, Any]:
    state = problem(20_000, 50)
    leave_pair_out(RankRLS(alpha=1.0), state[0][:50], state[1][:50])
    return state


def hold_out_pairs_linear(state: tuple[Any, Any, Any]) -> None:
    leave_pair_out(RankRLS(alpha=1.0), state[0], state[1])


def cases() -> list[Result]:
    return [
        *pairs_dual(),
        *pairs_of_many_levels(),
        *permuted_labels(),
        *pairs_of_many_outputs(),
        *pairs_dual_memory(),
        *pairs_linear(),
        *queries_linear(),
        *queries_dual(),
    ]
