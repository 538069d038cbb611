"""Which rows to compare next."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.errors import DataError
from rankwise.estimators.gp.process_mixture import ProcessMixture
from rankwise.graph.comparisons import Comparisons
from rankwise.parameters import Whole, check_value
from rankwise.solvers.gp.acquisition import bald, choose_greedily, eubo, information

STRATEGIES = ("bald", "eubo", "thompson", "random")
POOL = 2000  # largest number of rows whose pairs are all candidates


def candidate_pairs(n_rows: int, candidates: Any, rng: np.random.Generator) -> Index:
    """Pairs of different rows to choose from: given, drawn, or all pairs of at most POOL rows."""
    if n_rows < 2:
        raise DataError(f"A comparison needs two rows: X has {n_rows}.")
    if candidates is None:
        rows = np.arange(n_rows)
        if n_rows > POOL:
            rows = np.sort(rng.choice(n_rows, POOL, replace=False))
        i, j = np.triu_indices(len(rows), 1)
        return np.column_stack((rows[i], rows[j]))
    if np.ndim(candidates) == 0:
        check_value("candidates", candidates, Whole(1, 10**9))
        i = rng.integers(0, n_rows, candidates)
        j = (i + rng.integers(1, n_rows, candidates)) % n_rows
        return np.unique(np.sort(np.column_stack((i, j)), axis=1), axis=0)
    pairs = Comparisons.check(n_rows, candidates, allow_empty=True).pairs
    if not len(pairs):
        raise DataError("candidates is empty: give pairs of rows, their number, or None for all.")
    _, where = np.unique(np.sort(pairs, axis=1), axis=0, return_index=True)
    return pairs[np.sort(where)]  # each pair once, in either order


def choose(
    mixture: ProcessMixture,
    X: Array,
    pairs: Index,
    strategy: str,
    n_pairs: int,
    *,
    likelihood: str,
    rng: np.random.Generator,
) -> Index:
    """Some of the pairs, of shape (n_pairs, 2), the most useful first."""
    if strategy == "random":
        return pairs[rng.choice(len(pairs), n_pairs, replace=False)]
    rows, where = np.unique(pairs, return_inverse=True)
    numbered = where.reshape(pairs.shape)
    if strategy == "thompson":
        draws = mixture.sample(X[rows], 2 * n_pairs, rng)
        return pairs[_duels(draws, numbered)]
    mean, covariance = mixture.mean_and_covariance(X[rows])
    noise, flips = mixture.best.hyper.noise, mixture.best.hyper.flips

    def score(first: Array, second: Array, variance: Array) -> Array:
        if strategy == "eubo":
            return eubo(first, second, variance)
        if likelihood == "gaussian":
            return information(variance, noise)
        return bald(first - second, variance, noise, flips)

    return pairs[choose_greedily(mean, covariance, numbered, score, noise, n_pairs)]


def _duels(draws: Array, pairs: Index) -> list[int]:
    """Pairs of the best row of one draw with the best other row of another draw."""
    (i, j), left, chosen = pairs.T, np.full(len(pairs), True), []
    for one, two in zip(draws[::2], draws[1::2], strict=True):
        reach = np.where(left, np.maximum(one[i], one[j]), -np.inf)
        champion = np.where(one[i] >= one[j], i, j)[int(np.argmax(reach))]
        other = np.where(i == champion, j, np.where(j == champion, i, -1))
        best = int(np.argmax(np.where(left & (other >= 0), two[other], -np.inf)))
        left[best] = False
        chosen.append(best)
    return chosen
