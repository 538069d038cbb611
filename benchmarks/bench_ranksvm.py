"""RankSVM sums over pairs by sorting: no list of pairs, and nearly linear time."""

from __future__ import annotations

import numpy as np
from sklearn.svm import LinearSVC

from benchmarks.harness import Result, best_times, seconds
from rankwise import RankSVM

QUERIES, PER_QUERY, FEATURES, ALPHA = 40, 100, 20, 100.0
LONG = 20_000


def problem(n_queries: int, per_query: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_queries * per_query, FEATURES))
    noise = rng.standard_normal(len(X))
    y = np.round(X @ rng.standard_normal(FEATURES) / 3 + noise)
    return X, y, np.repeat(np.arange(n_queries), per_query)


def against_explicit_pairs() -> Result:
    """A linear support vector machine on the differences of all pairs."""
    X, y, qid = problem(QUERIES, PER_QUERY)
    first, second = np.triu_indices(PER_QUERY, 1)
    start = PER_QUERY * np.arange(QUERIES)[:, None]
    i, j = (start + first).ravel(), (start + second).ravel()
    sign = np.sign(y[i] - y[j])
    i, j, sign = i[sign != 0], j[sign != 0], sign[sign != 0]
    flips = np.where(np.arange(len(sign)) % 2, 1.0, -1.0)  # a classifier needs both classes
    peer = LinearSVC(C=1 / (2 * ALPHA), fit_intercept=False, dual=False, tol=1e-4)

    def pairs() -> None:
        peer.fit((X[i] - X[j]) * (sign * flips)[:, None], flips)

    ranker = RankSVM(ALPHA, weighting="pairs", tol=1e-4).fit(X, y, qid=qid)
    ours, theirs = best_times(lambda: ranker.fit(X, y, qid=qid), pairs)
    gap = np.abs(ranker.coef_ - peer.coef_[0]).max() / np.abs(peer.coef_).max()
    return Result(
        f"{len(sign):,} pairs of {len(y):,} rows, as LinearSVC (weights differ by {gap:.0e})",
        f"RankSVM {seconds(ours)}",
        f"LinearSVC {seconds(theirs)}",
        ours / theirs,
        0.5,
    )


def growth() -> Result:
    """One query, twice the rows: four times the pairs, but little more than twice the time."""
    (X, y, _), (X2, y2, _) = problem(1, LONG), problem(1, 2 * LONG)
    ranker = RankSVM(ALPHA, weighting="pairs", tol=1e-4)
    once, twice = best_times(lambda: ranker.fit(X, y), lambda: ranker.fit(X2, y2), repeats=5)
    return Result(
        f"one query of {2 * LONG:,} rows: linear up to a logarithm",
        f"{2 * LONG:,} rows {seconds(twice)}",
        f"twice {LONG:,} rows {seconds(2 * once)}",
        twice / (2 * once),
        1.6,
    )


def cases() -> list[Result]:
    return [against_explicit_pairs(), growth()]
