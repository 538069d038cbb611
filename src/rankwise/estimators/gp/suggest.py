"""Which rows to compare next, under a Gaussian posterior."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.special import ndtr

from rankwise.backends.arrays import Array, Index
from rankwise.backends.jit import compiled
from rankwise.errors import DataError
from rankwise.graph.comparisons import Comparisons
from rankwise.parameters import Whole, check_value

STRATEGIES = ("bald", "eubo", "thompson", "random")
Score = Callable[[Array, Array, Array], Array]  # of means of both rows, variance of d
Best = Callable[[Array, Array, Index, Index, Array], int]  # mean, covariance, i, j, which are left
POOL = 2000  # largest number of rows whose pairs are all candidates


@dataclass(frozen=True, eq=False)
class Candidates:
    """Pairs to choose from: some rows, and pairs of their positions."""

    rows: Index
    pairs: Index  # of shape (n_candidates, 2)

    @classmethod
    def of(cls, n_rows: int, candidates: Any, rng: np.random.Generator) -> Candidates:
        """Pairs of different rows: given, drawn, or all pairs of at most POOL rows."""
        if n_rows < 2:
            raise DataError(f"A comparison needs two rows: X has {n_rows}.")
        if candidates is None:
            rows = np.arange(n_rows)
            if n_rows > POOL:
                rows = np.sort(rng.choice(n_rows, POOL, replace=False))
            return cls(rows, np.column_stack(np.triu_indices(len(rows), 1)))
        if np.ndim(candidates) == 0:
            check_value("candidates", candidates, Whole(1, 10**9))
            i = rng.integers(0, n_rows, candidates)
            j = (i + rng.integers(1, n_rows, candidates)) % n_rows
            pairs = np.unique(np.sort(np.column_stack((i, j)), axis=1), axis=0)
        else:
            pairs = Comparisons.check(n_rows, candidates, allow_empty=True).pairs
            if not len(pairs):
                raise DataError(
                    "candidates is empty: give pairs of rows, their number, or None for all."
                )
            _, where = np.unique(np.sort(pairs, axis=1), axis=0, return_index=True)
            pairs = pairs[np.sort(where)]  # each pair once, in either order
        rows, where = np.unique(pairs, return_inverse=True)
        return cls(rows, where.reshape(pairs.shape))

    def __len__(self) -> int:
        return len(self.pairs)

    def take(self, chosen: Any) -> Index:
        """Row numbers of some pairs."""
        return self.rows[self.pairs[chosen]]


def choose(
    candidates: Candidates,
    strategy: str,
    n_pairs: int,
    *,
    moments: Callable[[Index], tuple[Array, Array]],
    sample: Callable[[Index, int], Array],
    likelihood: str,
    noise: float,
    flips: float,
    rng: np.random.Generator,
) -> Index:
    """Some of the pairs, of shape (n_pairs, 2), the most useful first.

    `moments` gives mean and covariance of the scores of some rows, and `sample` draws from them.
    """
    if strategy == "random":
        return candidates.take(rng.choice(len(candidates), n_pairs, replace=False))
    if strategy == "thompson":
        return candidates.take(_duels(sample(candidates.rows, 2 * n_pairs), candidates.pairs))
    mean, covariance = moments(candidates.rows)

    if strategy == "eubo":
        best = best_by(eubo)
    elif likelihood == "gaussian":
        best = best_by(lambda first, second, variance: information(variance, noise))
    else:
        best = partial(_most_informative, noise, flips)
    chosen = choose_greedily(mean, covariance, candidates.pairs, best, noise, n_pairs)
    return candidates.take(chosen)


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
    out = np.empty(len(mean))
    _bald(mean / noise, variance / noise**2, flips, out)
    return out


@compiled
def _bald(mean: Array, variance: Array, flips: float, out: Array) -> None:
    for k in range(len(mean)):
        out[k] = _information(mean[k], variance[k], flips)


@compiled
def _information(m: float, v: float, flips: float) -> float:
    """`bald` of one pair, in units of the noise."""
    share = 1.0 - 2.0 * flips
    least = _binary_entropy(flips)
    height = math.log(2.0) - least
    width = 0.5 * math.pi * height / share**2
    p = flips + share * 0.5 * math.erfc(-m / math.sqrt(2.0 + 2.0 * v))
    expected = math.sqrt(width / (v + width)) * math.exp(-0.5 * m * m / (v + width))
    return max(_binary_entropy(p) - least - height * expected, 0.0)


@compiled
def _most_informative(
    noise: float, flips: float, mean: Array, covariance: Array, i: Index, j: Index, left: Array
) -> int:
    """The pair with the largest `bald`.

    No pair of a given variance is more informative than equals, and equals are the more informative
    the larger the variance. So a pair is passed over if its variance is at most that of equals who
    are as informative as the best pair so far.
    """
    best, value, least_variance = -1, -1.0, -1.0
    for promising in range(2):  # at first, look for a good pair only
        start, reach = -1, -np.inf
        for k in range(len(i)):
            if not left[k]:
                continue
            v = covariance[i[k], i[k]] + covariance[j[k], j[k]] - 2.0 * covariance[i[k], j[k]]
            m = mean[i[k]] - mean[j[k]]
            if promising == 0:
                if v - m * m > reach:
                    start, reach = k, v - m * m
                continue
            if v <= least_variance:
                continue
            new = _information(m / noise, max(v, 0.0) / noise**2, flips)
            if new > value or (new == value and k < best):
                best, value = k, new
                least_variance = noise**2 * _variance_of_equals(new, v / noise**2, flips)
        if promising == 0:
            k = start
            v = covariance[i[k], i[k]] + covariance[j[k], j[k]] - 2.0 * covariance[i[k], j[k]]
            m = (mean[i[k]] - mean[j[k]]) / noise
            best, value = k, _information(m, max(v, 0.0) / noise**2, flips)
            least_variance = noise**2 * _variance_of_equals(value, v / noise**2, flips)
    return best


@compiled
def _variance_of_equals(value: float, most: float, flips: float) -> float:
    """A variance below `most` up to which equals are less informative than `value`."""
    low, high = 0.0, max(most, 0.0)
    for _ in range(40):
        middle = 0.5 * (low + high)
        if _information(0.0, middle, flips) < value:
            low = middle
        else:
            high = middle
    return low * (1.0 - 1e-9)


@compiled
def _binary_entropy(p: float) -> float:
    if p <= 0.0 or p >= 1.0:
        return 0.0
    return -p * math.log(p) - (1.0 - p) * math.log1p(-p)


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


def best_by(score: Score) -> Best:
    """The choice of the pair with the largest score."""

    def best(mean: Array, covariance: Array, i: Index, j: Index, left: Array) -> int:
        spread = np.diagonal(covariance)
        variance = np.maximum(spread[i] + spread[j] - 2.0 * covariance[i, j], 0.0)
        return int(np.argmax(np.where(left, score(mean[i], mean[j], variance), -np.inf)))

    return best


def choose_greedily(
    mean: Array, covariance: Array, pairs: Index, best_of: Best, noise: float, n_pairs: int
) -> Index:
    """Indices of the best candidates, one after the other.

    After each choice the covariance shrinks as it will after the comparison, whatever its
    outcome: cov <- cov - c c' / (s^2 + v) with s^2 = noise^2 pi / 2, the variance of a
    comparison between equals. So a batch does not repeat a question. O(m^2 + candidates) per
    choice.
    """
    i, j = pairs.T.copy()
    left = np.full(len(pairs), True)
    chosen: list[int] = []
    while True:
        best = int(best_of(mean, covariance, i, j, left))
        left[best] = False
        chosen.append(best)
        if len(chosen) == n_pairs:
            return np.asarray(chosen, dtype=np.intp)
        column = covariance[:, i[best]] - covariance[:, j[best]]
        variance = column[i[best]] - column[j[best]]
        shrinkage = 0.5 * np.pi * noise**2 + max(variance, 0.0)
        covariance = covariance - column[:, None] * (column / shrinkage)
