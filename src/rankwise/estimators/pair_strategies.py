"""Which rows to compare next, under a Gaussian posterior of their scores.

A strategy is an object with a method ``choose(belief, n_pairs)``. It returns the positions of some
of the candidate pairs, the most useful first. `STRATEGIES` holds the named ones, and such an object
can be passed wherever the name of a strategy can.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
from scipy.special import ndtr

from rankwise.backends.arrays import Array, Index
from rankwise.backends.jit import compiled
from rankwise.errors import DataError, ParameterError
from rankwise.graph.comparisons import Comparisons
from rankwise.parameters import Choice, Whole, check_value

Worth = Callable[[Array, Array, Array], Array]  # of means of both rows, variance of d
Best = Callable[[Array, Array, Index, Index, Array], int]  # mean, covariance, i, j, which are left
POOL = 2000  # largest number of rows whose pairs are all candidates


@dataclass(frozen=True, eq=False)
class PairBelief:
    """What is known about the scores of some rows, and which pairs of them can be compared.

    Attributes
    ----------
    rows : ndarray of shape (n_rows,)
        Numbers of the rows.
    pairs : ndarray of shape (n_candidates, 2)
        Candidates: positions in `rows`.
    mean, covariance : ndarray of shape (n_rows,) and (n_rows, n_rows)
        Moments of the scores.
    noise, flips : float
        Standard deviation of the noise of a comparison, and the share of flipped comparisons.
    likelihood : str
        "probit": comparisons tell who wins. "gaussian": they tell by how much.
    rng : Generator
    """

    rows: Index
    pairs: Index
    moments: Callable[[Index], tuple[Array, Array]]
    draw: Callable[[Index, int], Array]
    likelihood: str
    noise: float
    flips: float
    rng: np.random.Generator

    @cached_property
    def _moments(self) -> tuple[Array, Array]:
        return self.moments(self.rows)

    @property
    def mean(self) -> Array:
        return self._moments[0]

    @property
    def covariance(self) -> Array:
        return self._moments[1]

    def sample(self, n: int) -> Array:
        """Draws of the scores, of shape (n, n_rows)."""
        return self.draw(self.rows, n)

    def best_pairs(self, worth: Worth, n_pairs: int) -> Index:
        """Positions of the pairs of greatest worth, chosen one after the other.

        `worth` is a function of the mean scores of the first rows, the mean scores of the second
        rows, and the variances of their differences.
        """

        def best(mean: Array, covariance: Array, i: Index, j: Index, left: Array) -> int:
            spread = np.diagonal(covariance)
            variance = np.maximum(spread[i] + spread[j] - 2.0 * covariance[i, j], 0.0)
            return int(np.argmax(np.where(left, worth(mean[i], mean[j], variance), -np.inf)))

        return self.choose_greedily(best, n_pairs)

    def choose_greedily(self, best_of: Best, n_pairs: int) -> Index:
        """Positions of the best pairs, one after the other.

        After each choice the covariance shrinks as it will after the comparison, whatever its
        outcome: cov <- cov - c c' / (s^2 + v) with s^2 = noise^2 pi / 2, the variance of a
        comparison between equals. So a batch does not repeat a question. O(m^2 + candidates) per
        choice.
        """
        i, j = self.pairs.T.copy()
        mean, covariance, left = self.mean, self.covariance, np.full(len(i), True)
        chosen: list[int] = []
        while True:
            best = int(best_of(mean, covariance, i, j, left))
            left[best] = False
            chosen.append(best)
            if len(chosen) == n_pairs:
                return np.asarray(chosen, dtype=np.intp)
            column = covariance[:, i[best]] - covariance[:, j[best]]
            variance = column[i[best]] - column[j[best]]
            shrinkage = 0.5 * np.pi * self.noise**2 + max(variance, 0.0)
            covariance = covariance - column[:, None] * (column / shrinkage)


class PairStrategy(Protocol):
    """Chooses pairs to compare next."""

    def choose(self, belief: PairBelief, n_pairs: int) -> Any:
        """Positions of `n_pairs` different rows of ``belief.pairs``, the most useful first."""


class Bald:
    """The pair whose outcome is most informative about the scores."""

    def choose(self, belief: PairBelief, n_pairs: int) -> Index:
        if belief.likelihood == "gaussian":
            return belief.best_pairs(lambda _, __, v: np.log1p(v / belief.noise**2), n_pairs)
        best = partial(_most_informative, belief.noise, belief.flips)
        return belief.choose_greedily(best, n_pairs)


class Eubo:
    """The pair whose better row has the highest expected score."""

    def choose(self, belief: PairBelief, n_pairs: int) -> Index:
        return belief.best_pairs(eubo, n_pairs)


class Thompson:
    """The best row of one draw from the posterior with the best other row of another draw."""

    def choose(self, belief: PairBelief, n_pairs: int) -> list[int]:
        draws, (i, j) = belief.sample(2 * n_pairs), belief.pairs.T
        left, chosen = np.full(len(i), True), []
        for one, two in zip(draws[::2], draws[1::2], strict=True):
            reach = np.where(left, np.maximum(one[i], one[j]), -np.inf)
            champion = np.where(one[i] >= one[j], i, j)[int(np.argmax(reach))]
            other = np.where(i == champion, j, np.where(j == champion, i, -1))
            best = int(np.argmax(np.where(left & (other >= 0), two[other], -np.inf)))
            left[best] = False
            chosen.append(best)
        return chosen


class Random:
    """Any pair."""

    def choose(self, belief: PairBelief, n_pairs: int) -> Any:
        return belief.rng.choice(len(belief.pairs), n_pairs, replace=False)


STRATEGIES: dict[str, PairStrategy] = {
    "bald": Bald(),
    "eubo": Eubo(),
    "thompson": Thompson(),
    "random": Random(),
}


def suggest_pairs(
    strategy: str | PairStrategy,
    n_pairs: int,
    n_rows: int,
    candidates: Any,
    rng: np.random.Generator,
    *,
    moments: Callable[[Index], tuple[Array, Array]],
    sample: Callable[[Index, int], Array],
    noise: float,
    flips: float = 0.0,
    likelihood: str = "probit",
) -> Index:
    """Pairs of rows to compare next, of shape (n_pairs, 2), the most useful first.

    `moments` returns mean and covariance of the scores of some rows, and `sample` returns draws.
    """
    if isinstance(strategy, str) or not callable(getattr(strategy, "choose", None)):
        check_value("strategy", strategy, Choice(*STRATEGIES))
        strategy = STRATEGIES[str(strategy)]
    rows, pairs = candidate_pairs(n_rows, candidates, rng)
    check_value("n_pairs", n_pairs, Whole(1, len(pairs)))
    belief = PairBelief(rows, pairs, moments, sample, likelihood, noise, flips, rng)
    chosen = np.asarray(strategy.choose(belief, n_pairs))
    whole = chosen.shape == (n_pairs,) and chosen.dtype.kind in "iu"
    if not whole or len(np.unique(chosen[(chosen >= 0) & (chosen < len(pairs))])) < n_pairs:
        raise ParameterError(
            f"strategy must choose {n_pairs} different positions from 0 to {len(pairs) - 1}: "
            f"got {chosen!r}."
        )
    return rows[pairs[chosen]]


def candidate_pairs(n_rows: int, candidates: Any, rng: np.random.Generator) -> tuple[Index, Index]:
    """Some rows, and pairs of their positions: given, drawn, or all pairs of at most POOL rows."""
    if n_rows < 2:
        raise DataError(f"A comparison needs two rows: X has {n_rows}.")
    if candidates is None:
        rows = np.arange(n_rows)
        if n_rows > POOL:
            rows = np.sort(rng.choice(n_rows, POOL, replace=False))
        return rows, np.column_stack(np.triu_indices(len(rows), 1))
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
    return rows, where.reshape(pairs.shape)


def eubo(first: Array, second: Array, variance: Array) -> Array:
    """E max(f_i, f_j): the expected utility of the better of the two (Lin et al., 2022)."""
    spread = np.sqrt(np.maximum(variance, 0.0))
    gap = first - second
    z = np.divide(gap, spread, out=np.where(gap > 0, np.inf, -np.inf), where=spread > 0)
    density = np.exp(-0.5 * np.square(z)) / np.sqrt(2 * np.pi)
    return np.asarray(second + gap * ndtr(z) + spread * density)


def bald(mean: Array, variance: Array, noise: float, flips: float = 0.0) -> Array:
    """Expected information (in nats) of the outcome of a comparison about the two values.

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

    Of all pairs with a given variance, pairs with equal means are most informative, and their
    information grows with the variance. Pairs whose variance is too small are therefore skipped.
    """
    best, value, least_variance = -1, -1.0, -1.0
    for k in range(len(i)):
        v = covariance[i[k], i[k]] + covariance[j[k], j[k]] - 2.0 * covariance[i[k], j[k]]
        v = max(v, 0.0) / noise**2
        if not left[k] or v <= least_variance:
            continue
        new = _information((mean[i[k]] - mean[j[k]]) / noise, v, flips)
        if new > value:
            best, value = k, new
            low, high = max(least_variance, 0.0), v
            for _ in range(40):  # bisect for the variance at which equals are as informative
                middle = 0.5 * (low + high)
                if _information(0.0, middle, flips) < value:
                    low = middle
                else:
                    high = middle
            least_variance = low * (1.0 - 1e-9) if low > 0.0 else -1.0
    return best


@compiled
def _binary_entropy(p: float) -> float:
    if p <= 0.0 or p >= 1.0:
        return 0.0
    return -p * math.log(p) - (1.0 - p) * math.log1p(-p)
