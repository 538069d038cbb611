"""How well comparisons determine the slopes of raters, and how much raters differ."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import ndtr

from rankwise.backends.arrays import Array
from rankwise.solvers.gp.approximation import Approximation

_SPREADS = np.geomspace(1e-3, 10.0, 80)  # standard deviations of log slopes that are tried


def outcome_information(
    a: Approximation, prior: Array, counts: Array, threshold: float, flips: float
) -> Array:
    """Fisher's information of the outcomes of each pair about the logarithm of its slope.

    The difference is as uncertain as it is without these outcomes; `prior` has its variances before
    any. With x = slope d from N(m, v), the first row wins with probability Phi(z), where
    z = (m - t) / sqrt(1 + v) and dz / d log slope = (m + t v) / (1 + v)^(3/2).
    """
    m, v = a.cavities(prior)
    t, share, spread = threshold, 1.0 - 2.0 * flips, np.sqrt(1.0 + v)
    chances, changes = [], []
    for side in (m, -m):
        z = (side - t) / spread
        chances.append(flips + share * ndtr(z))
        density = np.exp(-0.5 * np.square(z)) / np.sqrt(2.0 * np.pi)
        changes.append(share * density * (side + t * v) / spread**3)
    if threshold > 0:
        chances.append(1.0 - chances[0] - chances[1])
        changes.append(-changes[0] - changes[1])
    each = sum(
        np.square(change) / np.maximum(chance, 1e-12)
        for chance, change in zip(chances, changes, strict=True)
    )
    return np.asarray(counts.sum(axis=1) * each)


def margin_information(a: Approximation) -> Array:
    """The same for margins with Gaussian noise: the variance of each is 1 / tau + v."""
    return np.asarray(2.0 * np.square(1.0 - a.tau * a.variance))


def spread_of(estimates: Array, information: Array) -> float:
    """The standard deviation w of log slopes with the greatest likelihood, or 0.

    An estimate is from N(0, w^2 + 1 / information). It is 0 unless w raises the log-likelihood by
    half the logarithm of the number of raters (Schwarz's penalty for a parameter).
    """
    known = information > 0
    variance, square = 1.0 / information[known], np.square(estimates[known])

    def loss(w: float) -> float:
        total = w * w + variance
        return float(0.5 * (np.log(total) + square / total).sum())

    values = [loss(w) for w in _SPREADS]
    k = int(np.argmin(values))
    if not values[k] < loss(0.0) - 0.5 * np.log(max(len(square), 1)):
        return 0.0
    around = np.log(_SPREADS[[max(k - 1, 0), min(k + 1, len(_SPREADS) - 1)]])
    found = minimize_scalar(lambda x: loss(np.exp(x)), bounds=around.tolist(), method="bounded")
    return float(np.exp(found.x))
