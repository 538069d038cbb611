"""What inference is given, and what it returns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankwise.backends.arrays import Array
from rankwise.solvers.gp.differences import Weights


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What was observed of every difference.

    Attributes
    ----------
    counts : ndarray of shape (N, 3)
        Weights of wins, losses and ties of the first row.
    threshold : float
        Half the width of the interval of ties, in units of the noise; 0: no ties.
    flips : float
        Share of the outcomes that are turned round.
    """

    counts: Array
    threshold: float = 0.0
    flips: float = 0.0


@dataclass(frozen=True, eq=False)
class Approximation:
    """A Gaussian posterior of the weights, how it was reached, and its evidence.

    Attributes
    ----------
    weights : Weights
    tau, nu : ndarray of shape (N,)
        Sites exp(-tau d^2 / 2 + nu d).
    mean, variance : ndarray of shape (N,)
        Of every difference.
    log_evidence : float
    slope : ndarray of shape (N,)
        Of the data's part of the posterior, so that f has the mean K B' slope.
    bend : ndarray of shape (N,) or None
        What the evidence gains by moving the mode, where that counts (Laplace).
    threshold_slope, flips_slope : float
        Derivatives of the evidence by the threshold and the share of flips.
    converged : bool
    n_sweeps : int
    residual : float
        By how much moments were still off, in units of their spread.
    """

    weights: Weights
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

        A site is about as wide as noise and posterior together, and where the noise is small
        beside it, the posterior grows with the prior.
        """
        share = (1.0 + self.variance) / (1.0 + ratio * self.variance)
        return self.tau * share, self.nu * np.sqrt(share)
