"""Which rows to compare next, under a Gaussian posterior."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import entr, ndtr

from rankwise.backends.arrays import Array, Index
from rankwise.errors import DataError
from rankwise.estimators.gp.process_mixture import ProcessMixture
from rankwise.graph.comparisons import Comparisons
from rankwise.parameters import Whole, check_value

STRATEGIES = ("bald", "eubo", "thompson", "random")
Score = Callable[[Array, Array, Array], Array]  # of means of both rows, variance of d
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


def bald(mean: Array, variance: Array, noise: float, flips: float = 0.0) -> Array:
    """Information (in nats) that the outcome of a comparison gives about the two values.

    H[E p] - E H[p] with p = e + (1 - 2 e) Phi(d / noise), e the share of flips and d from
    N(mean, variance). The entropy of p is close to H(e) + (log 2 - H(e)) exp(-(d / noise)^2 / 2 w)
    with w such that both have the same curvature at 0. Its mean has a closed form (Houlsby et
    al., 2011, for e = 0). The error of the score is at most 0.03 nats.
    """
    m, v = mean / noise, variance / noise**2
    share = 1.0 - 2.0 * flips
    p = flips + share * ndtr(m / np.sqrt(1.0 + v))
    least = float(entr(flips) + entr(1.0 - flips))
    height = np.log(2.0) - least
    width = 0.5 * np.pi * height / share**2
    expected = least + height * np.sqrt(width / (v + width)) * np.exp(-0.5 * m**2 / (v + width))
    return np.asarray(np.maximum(entr(p) + entr(1.0 - p) - expected, 0.0))


def information(variance: Array, noise: float) -> Array:
    """Information of a margin with Gaussian noise: log(1 + variance / noise^2) / 2."""
    return np.asarray(0.5 * np.log1p(variance / noise**2))


def eubo(first: Array, second: Array, variance: Array) -> Array:
    """E max(f_i, f_j): the expected utility of the better of the two (Lin et al., 2022)."""
    spread = np.sqrt(np.maximum(variance, 0.0))
    gap = first - second
    z = np.divide(gap, spread, out=np.where(gap > 0, np.inf, -np.inf), where=spread > 0)
    density = np.exp(-0.5 * np.square(z)) / np.sqrt(2 * np.pi)
    return np.asarray(second + gap * ndtr(z) + spread * density)


def choose_greedily(
    mean: Array, covariance: Array, pairs: Index, score: Score, noise: float, n_pairs: int
) -> Index:
    """Indices of the candidates with the best score, one after the other.

    After each choice the covariance shrinks as it will after the comparison, whatever its
    outcome: cov <- cov - c c' / (s^2 + v) with s^2 = noise^2 pi / 2, the variance of a
    comparison between equals. So a batch does not repeat a question. O(m^2 + candidates) per
    choice; `covariance` is overwritten.
    """
    i, j = pairs.T
    left = np.full(len(pairs), True)
    chosen = []
    for _ in range(n_pairs):
        variance = covariance[i, i] + covariance[j, j] - 2.0 * covariance[i, j]
        values = np.where(left, score(mean[i], mean[j], np.maximum(variance, 0.0)), -np.inf)
        best = int(np.argmax(values))
        left[best] = False
        chosen.append(best)
        column = covariance[:, i[best]] - covariance[:, j[best]]
        shrinkage = 0.5 * np.pi * noise**2 + max(variance[best], 0.0)
        covariance -= column[:, None] * (column / shrinkage)
    return np.asarray(chosen, dtype=np.intp)
