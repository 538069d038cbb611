"""The posterior of the scores of a pool of rows, updated for single comparisons.

A comparison changes its own site much, and few others by more than a tolerance. So sites are
changed a few at a time. With B the differences of k changed sites, G = B S and V = B S B',

    S <- S - G'M G,   m <- m + G'(I - M V)(dnu - dtau B m),   M = (I + diag(dtau) V)^-1 diag(dtau),

for changes dtau and dnu of the sites exp(-tau d^2 / 2 + nu d): O(n^2 k) instead of O(n^3).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.backends.blas import matmul
from rankwise.solvers.gp.probit import update_sites

_ROUNDS = 8  # of changes, before all sites are matched together
_INNER = 20  # sweeps over the sites that change
_SHARE = 0.25  # of the tolerance: sites with a larger error are changed


@dataclass(frozen=True, eq=False)
class PoolPosterior:
    """f of N(mean, covariance) at the rows of a pool, in units of the noise, and its sites."""

    mean: Array  # of shape (n,)
    covariance: Array  # of shape (n, n), in C order
    prior: Array  # prior variances of the compared differences, of shape (N,), times slopes squared
    tau: Array
    nu: Array
    log_det: float  # of the weights' precision, relative to the prior's
    log_evidence: float = 0.0

    def extended(self, prior: Array) -> PoolPosterior:
        """With further pairs, whose sites say nothing yet."""
        more = np.zeros(len(prior))
        return replace(
            self,
            prior=np.concatenate((self.prior, prior)),
            tau=np.concatenate((self.tau, more)),
            nu=np.concatenate((self.nu, more)),
        )

    def matched(
        self,
        first: Index,
        second: Index,
        slopes: Array,
        counts: Array,
        t: float,
        e: float,
        tol: float,
    ) -> PoolPosterior | None:
        """The posterior after expectation propagation; None if too many sites must change.

        A site is one of slope times difference.

        The sites whose errors are too large are matched to each other, which takes k^3 time, until
        they agree; then the posterior of all rows follows, and the errors of all sites.
        """
        now = replace(self, mean=self.mean.copy(), covariance=self.covariance.copy())
        most = max(16, len(self.mean) // 4)
        matched = np.empty((len(first), 3))
        for _ in range(_ROUNDS):
            mean, variance = now.moments(first, second, slopes)
            residual, evidence, _, _ = update_sites(
                mean, variance, now.prior, now.tau, now.nu, counts, t, e, matched
            )
            if residual <= tol:
                value = evidence + 0.5 * float(now.nu @ mean) - 0.5 * now.log_det
                return replace(now, log_evidence=value)
            few = np.flatnonzero(matched[:, 2] > _SHARE * tol)
            if len(few) > most:
                few = few[np.argsort(-matched[few, 2])[:most]]
            pairs = first[few], second[few], slopes[few]
            changed = now.match_few(few, *pairs, counts[few], t, e, tol)
            if changed is None:
                return None
            now = changed
        return None

    def match_few(
        self,
        sites: Index,
        first: Index,
        second: Index,
        slopes: Array,
        counts: Array,
        t: float,
        e: float,
        tol: float,
    ) -> PoolPosterior | None:
        """With some sites matched to each other, in place; None if no proper posterior is left."""
        before = self.tau[sites], self.nu[sites]
        tau, nu = before
        G = slopes[:, None] * (self.covariance[first] - self.covariance[second])
        V = slopes * (G[:, first] - G[:, second])
        V = np.asarray((V + V.T) / 2)
        m = slopes * (self.mean[first] - self.mean[second])
        matched, prior = np.empty((len(sites), 3)), self.prior[sites]
        push, M, log_det, smallest = np.zeros(len(sites)), np.zeros_like(V), 0.0, np.inf
        for _ in range(_INNER):
            spread = np.maximum(np.diagonal(V) - np.einsum("ij,ij->i", V @ M, V), 0.0)
            at = m + V @ (push - M @ (V @ push))
            residual = update_sites(at, spread, prior, tau, nu, counts, t, e, matched)[0]
            if residual <= _SHARE * tol or residual > 2.0 * smallest:
                break
            smallest = min(smallest, residual)
            tau, nu = matched[:, 0].copy(), matched[:, 1].copy()
            dtau = tau - before[0]
            inner = np.eye(len(sites)) + dtau[:, None] * V
            sign, log_det = np.linalg.slogdet(inner)
            if sign <= 0 or not np.isfinite(log_det):
                return None
            half = np.asarray(np.linalg.solve(inner, np.diag(0.5 * dtau)), dtype=np.float64)
            M = half + half.T
            push = nu - before[1] - dtau * m
        self.mean[:] += (push - M @ (V @ push)) @ G
        self.covariance[:] -= matmul(np.ascontiguousarray(G.T), matmul(M, G))
        new_tau, new_nu = self.tau.copy(), self.nu.copy()
        new_tau[sites], new_nu[sites] = tau, nu
        return replace(self, tau=new_tau, nu=new_nu, log_det=self.log_det + float(log_det))

    def moments(self, first: Index, second: Index, slopes: Array) -> tuple[Array, Array]:
        """Mean and variance of differences, times slopes."""
        spread = np.diagonal(self.covariance)
        variance = spread[first] + spread[second] - 2.0 * self.covariance[first, second]
        mean = slopes * (self.mean[first] - self.mean[second])
        return mean, slopes**2 * np.maximum(variance, 0.0)
