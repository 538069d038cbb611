"""Differences observed with Gaussian noise: the posterior in closed form."""

from __future__ import annotations

import numpy as np

from rankwise.backends.arrays import Array
from rankwise.solvers.gp.approximation import Approximation
from rankwise.solvers.gp.differences import Differences, WeightPosterior


def gaussian(differences: Differences, margin: Array, weight: Array, noise: float) -> Approximation:
    """margin_l = d_l + N(0, noise^2 / weight_l): section 5 of the KPCRank paper, v = noise^-2.

    Its mean minimizes sum_l weight_l (margin_l - d_l)^2 + noise^2 |f|^2: it is RankRLS with
    alpha = noise^2. O(r^2 min(n, N) + r^3 + N r).
    """
    tau = weight / noise**2
    nu = tau * margin
    weights = WeightPosterior.of(differences, tau, nu)
    mean, variance = weights.moments(differences)
    evidence = 0.5 * (np.log(tau / (2 * np.pi)).sum() - nu @ margin + nu @ mean - weights.log_det)
    return Approximation(weights, tau, nu, mean, variance, float(evidence), nu - tau * mean)


def noise_slope(a: Approximation) -> float:
    """Derivative of the evidence by log noise."""
    return float((a.slope**2 / a.tau).sum() - (1.0 - a.tau * a.variance).sum())
