"""Exact hold-outs of comparisons cost about as much as fits."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.bench_holdout import factor_and_invert, positive_definite
from benchmarks.harness import Result, best_times, seconds
from rankwise import RankRLS
from rankwise.model_selection import leave_comparison_out

ALPHAS = np.geomspace(1.0, 1e5, 10)


def votes(m: int, n: int, n_pairs: int) -> tuple[Any, Any, Any]:
    """Comparisons of rows, drawn at random, with noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((m, n))
    first = rng.integers(0, m, n_pairs)
    second = (first + rng.integers(1, m, n_pairs)) % m
    gap = X[first, 0] - X[second, 0] + rng.standard_normal(n_pairs)
    return X, np.column_stack((first, second)), np.sign(gap)


def linear() -> list[Result]:
    X, pairs, margin = votes(10_000, 50, 100_000)
    ranker = RankRLS(scale=None)
    leave_comparison_out(ranker, X[:10], [[0, 1], [2, 3], [4, 5]], alphas=[1.0])
    ours, path = best_times(
        lambda: leave_comparison_out(ranker, X, pairs, margin=margin, alphas=ALPHAS),
        lambda: ranker.path_pairs(X, pairs, ALPHAS, margin=margin),
        repeats=5,
    )
    return [
        Result(
            "each of 100,000 comparisons held out, 10,000 x 50, 10 alphas",
            seconds(ours),
            f"path of 10 alphas: {seconds(path)}",
            ours / path,
            3.0,
        )
    ]


def dual() -> list[Result]:
    m = 2000
    X, pairs, margin = votes(m, 50, 20_000)
    ranker, K = RankRLS(kernel="rbf", scale=None), positive_definite(m)
    results = []
    for alphas in (ALPHAS[:1], ALPHAS):
        ours, peer = best_times(
            lambda some=alphas: leave_comparison_out(ranker, X, pairs, margin=margin, alphas=some),
            lambda: factor_and_invert(K),
            repeats=2,
        )
        n = len(alphas)
        results.append(
            Result(
                f"each of 20,000 comparisons held out, rbf, {m} rows, time of each of {n} alphas",
                seconds(ours / n),
                f"dpotrf + dpotri: {seconds(peer)}",
                ours / n / peer,
                2.0 if n > 1 else float("inf"),
            )
        )
    return results


def cases() -> list[Result]:
    return linear() + dual()
