"""Acquisition functions: which pair to compare next, under a Gaussian posterior."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import entr, ndtr

from rankwise.backends.arrays import Array, Index


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


Score = Callable[[Array, Array, Array], Array]  # means of first and second, variance of d


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
