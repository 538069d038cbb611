"""The result of inference: a Gaussian posterior, and the derivatives of its evidence.

With Q = C C' the covariance of the rows and (d evidence) = tr(M dQ),

    M = (a a' - W) / 2,   a = B' slope,   W = B' (T^-1 + B Q B')^-1 B,

T = diag(tau). For Laplace's approximation the mode moves too: a q' + q a' is added to a a'.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, is_sparse
from rankwise.backends.blas import matmul
from rankwise.solvers.gp.differences import Differences, WeightPosterior


@dataclass(frozen=True, eq=False)
class Approximation:
    """A Gaussian posterior of the weights, its sites exp(-tau d^2 / 2 + nu d), and its evidence."""

    weights: WeightPosterior
    tau: Array  # of shape (N,), as all arrays here
    nu: Array
    mean: Array  # of every difference
    variance: Array
    log_evidence: float
    slope: Array  # of the log-likelihood: the posterior mean of f is K B' slope
    bend: Array | None = None  # of the evidence by the mode, for Laplace's approximation
    threshold_slope: float = 0.0  # of the evidence
    flips_slope: float = 0.0
    converged: bool = True
    n_sweeps: int = 0
    residual: float = 0.0  # remaining error of the moments, relative to their spread

    def cavities(self, prior: Array, sites: Any = slice(None)) -> tuple[Array, Array]:
        """Mean and variance of the differences of some sites, each without its site.

        They are no wider than before any comparison, with the variances `prior`.
        """
        mean, variance, tau, nu = (
            part[sites] for part in (self.mean, self.variance, self.tau, self.nu)
        )
        before = prior[sites]
        least = np.divide(variance, before, out=np.ones_like(before), where=before > 0)
        share = np.maximum(1.0 - tau * variance, np.minimum(least, 1.0))
        return (mean - variance * nu) / share, variance / share

    def sites_for(self, ratio: Array) -> tuple[Array, Array]:
        """Sites to start from where prior variances of the differences are `ratio` times these.

        A site is about as wide as noise and posterior together. Where the noise is small
        relative to the posterior, the posterior grows with the prior.
        """
        share = (1.0 + self.variance) / (1.0 + ratio * self.variance)
        return self.tau * share, self.nu * np.sqrt(share)


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


def slope_gradient(differences: Differences, a: Approximation) -> Array:
    """Derivatives of the evidence by the logarithm of the slope of every difference: O(N r).

    They are the diagonal of 2 M_d A A', where M_d is M for the covariance of the differences:
    slope_l m_l - tau_l v_l, with the posterior means and variances of the differences.
    """
    out = a.slope * a.mean - a.tau * a.variance
    if a.bend is not None:
        out += a.bend * a.mean + a.slope * differences.apply(differences.transpose(a.bend))
    return np.asarray(out)


def precision_gradient(a: Approximation) -> Array:
    """The same for a Gaussian likelihood, whose slopes multiply the square roots of precisions."""
    return np.asarray(1.0 - np.square(a.slope) / a.tau - a.tau * a.variance)


def noise_slope(a: Approximation) -> float:
    """Derivative of the evidence by log noise."""
    return float((a.slope**2 / a.tau).sum() - (1.0 - a.tau * a.variance).sum())


def covariance_gradient(differences: Differences, a: Approximation) -> Array:
    """M, of shape (n, n): O(n^2 r) time.

    W = L - L C P^-1 C'L with L = B'TB, since C P^-1 C' is the posterior covariance.
    """
    L = differences.laplacian(a.tau)
    V = a.weights.whiten(differences.smoothed(a.tau).T)
    M = matmul(V.T, V) if V.size else V.T @ V
    M -= L.toarray() if is_sparse(L) else L
    rows = differences.to_rows(a.slope)
    M += rows[:, None] * rows
    if a.bend is not None:
        bend = differences.to_rows(a.bend)
        M += rows[:, None] * bend + bend[:, None] * rows
    M *= 0.5
    return M


def factor_gradient(differences: Differences, a: Approximation) -> Array:
    """M C, of shape (n, r), without M: O(n r^2 + N r) time.

    W C = L C P^-1, since C'L C = P - I.
    """
    C = differences.C
    out = -a.weights.solve(differences.smoothed(a.tau).T).T
    rows = differences.to_rows(a.slope)
    out += rows[:, None] * (rows @ C)
    if a.bend is not None:
        bend = differences.to_rows(a.bend)
        out += rows[:, None] * (bend @ C) + bend[:, None] * (rows @ C)
    return out / 2
