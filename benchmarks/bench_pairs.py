"""Exact hold-outs of pairs cost about as much as one fit, for many outputs and permutations too."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg.blas import dgemm

from benchmarks.bench_holdout import factor_and_invert, positive_definite, problem
from benchmarks.harness import Result, best_times, extra_memory, megabytes, seconds
from rankwise import RLS, RankRLS
from rankwise.holdout.pair_differences import add_losses, block_differences
from rankwise.holdout.pair_systems import DenseP, Laplacian, LowRankP, centred
from rankwise.model_selection import leave_pair_out, permutation_test

BLOCK = 2**20  # numbers of P that are computed at a time


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


def after_the_factorization() -> list[Result]:
    """All pairs given P (a matrix, or few features): quadratic in rows, linear in outputs."""
    m, n, n_outputs = 2000, 50, 20
    X, y, _ = problem(2 * m, n)
    Y = y[:m, None] + np.random.default_rng(0).standard_normal((m, n_outputs))
    sizes = [(Laplacian.of_all_pairs(k, 1), X[:k]) for k in (m, 2 * m)]
    systems: dict[str, list[DenseP | LowRankP]] = {
        "a matrix": [DenseP.of(centred(F @ F.T), laplacian, 1.0) for laplacian, F in sizes],
        f"{n} features": [
            LowRankP.of(F - F.mean(axis=0), laplacian, 1.0) for laplacian, F in sizes
        ],
    }
    results = []
    for name, (small, large) in systems.items():
        one, twice, many = best_times(
            lambda P=small: all_pairs(P, y[:m, None]),
            lambda P=large: all_pairs(P, y[:, None]),
            lambda P=small: all_pairs(P, Y),
        )
        peer = f"{m} rows, one output: {seconds(one)}"
        stage = f"all pairs after the factorization, {name}"
        results += [
            Result(f"{stage}, {2 * m} rows", seconds(twice), peer, twice / one, 6.0),
            Result(
                f"{stage}, {n_outputs} outputs", seconds(many), peer, many / one, float(n_outputs)
            ),
        ]
    return results


def all_pairs(P: DenseP | LowRankP, y: Any) -> None:
    """The losses of all pairs, from P."""
    y = y - y.mean(axis=0)
    Py, diagonal = P.times(y), P.diagonal
    loss, compared = np.zeros((2, *y.shape))
    step = BLOCK // len(y)
    for start in range(0, len(y), step):
        rows = P.upper(start, min(start + step, len(y)))
        add_losses(*block_differences(rows, start, diagonal, y, Py), y, loss, compared)


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
    M, columns = positive_definite(m), np.ones((m, n_permutations), order="F")
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
            5.0,
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
        *after_the_factorization(),
        *pairs_of_many_levels(),
        *permuted_labels(),
        *pairs_of_many_outputs(),
        *pairs_dual_memory(),
        *pairs_linear(),
    ]
