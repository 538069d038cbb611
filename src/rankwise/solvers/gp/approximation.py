"""The result of inference: a Gaussian approximation of the posterior."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankwise.backends.arrays import Array
from rankwise.solvers.gp.differences import WeightPosterior


@dataclass(frozen=True, eq=False)
class Approximation:
    """A Gaussian posterior of the weights, its sites, and its evidence.

    Attributes
    ----------
    weights : WeightPosterior
    tau, nu : ndarray of shape (N,)
        Sites exp(-tau d^2 / 2 + nu d).
    mean, variance : ndarray of shape (N,)
        Of every difference.
    log_evidence : float
    slope : ndarray of shape (N,)
        Derivative of the log-likelihood: the posterior mean of f is K B' slope.
    bend : ndarray of shape (N,) or None
        Derivative of the evidence by the mode, which is not 0 for Laplace's approximation.
    threshold_slope, flips_slope : float
        Derivatives of the evidence by the threshold and the share of flips.
    converged : bool
    n_sweeps : int
    residual : float
        Remaining error of the moments, relative to their spread.
    """

    weights: WeightPosterior
    tau: Array
    nu: Array
    mean: Array
    variance: Array
    log_evidence: float
    slope: Array
    bend: Array | None = None
    threshold_slope: float = 0.0
    flips_slope: float = 0.0
    converged: bool = True
    n_sweeps: int = 0
    residual: float = 0.0

    def sites_for(self, ratio: Array) -> tuple[Array, Array]:
        """Sites to start from where prior variances of the differences are `ratio` times these.

        A site is about as wide as noise and posterior together. Where the noise is small
        relative to the posterior, the posterior grows with the prior.
        """
        share = (1.0 + self.variance) / (1.0 + ratio * self.variance)
        return self.tau * share, self.nu * np.sqrt(share)
