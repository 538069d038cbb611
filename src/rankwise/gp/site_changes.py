"""What follows if a few sites change: comparisons are held out of a posterior, or added to it.

A comparison changes its site much, and few others by more than a tolerance. Inference on all
comparisons is therefore not needed. With B the differences of k changed sites, which have the
posterior N(m, V), S the covariance of all scores and G = B S, changes dtau and dnu of the sites
lead to

    S <- S - G'M G,   f <- f + G'(I - M V) z,   M = (I + diag(dtau) V)^-1 diag(dtau),

where z = dnu - dtau m.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from rankwise.backends.arrays import Array, Index, matmul
from rankwise.gp.inference import (
    Approximation,
    Differences,
    PairObservations,
    WeightPosterior,
    expectation_propagation,
)
from rankwise.gp.probit import update_sites

Likelihood = tuple[float, float] | None  # threshold and flips; None is Gaussian
_ROUNDING = 1e-9  # weights of what is left of a pair that are 0 but for rounding
_MOVED, _MOST = 0.3, 40  # shift of sites that are matched again, in units of sqrt(1 + v); how many
_SWEEPS = 3  # over these sites
_BLOCK = 256  # comparisons whose effect on all others is computed together
_ROUNDS = 8  # of changes to a pool, before all sites are matched together
_INNER = 20  # sweeps over the sites of a pool that change
_SHARE = 0.25  # of the tolerance: sites of a pool with a larger error are changed


@dataclass(frozen=True, eq=False)
class _SiteChange:
    """New sites of k differences, and what the posterior of these needs to follow."""

    tau: Array
    nu: Array
    M: Array
    push: Array  # (I - M V) z
    log_det: float = 0.0  # log |I + diag(dtau) V|

    def moments(self, m: Array, V: Array) -> tuple[Array, Array]:
        """Means and variances of the differences after the change."""
        spread = np.diagonal(V) - np.einsum("ij,ij->i", V @ self.M, V)
        return m + V @ self.push, np.maximum(spread, 0.0)


def _change(m: Array, V: Array, old: tuple[Array, Array], new: Array) -> _SiteChange | None:
    """The change from old to new sites; None if it leaves no proper posterior."""
    tau, nu = np.array(new[:, :2].T)
    dtau = tau - old[0]
    inner = np.eye(len(m)) + dtau[:, None] * V
    sign, log_det = np.linalg.slogdet(inner)
    if sign <= 0 or not np.isfinite(log_det):
        return None
    half = np.asarray(np.linalg.solve(inner, np.diag(0.5 * dtau)), dtype=np.float64)
    M, z = half + half.T, nu - old[1] - dtau * m
    return _SiteChange(tau, nu, M, z - M @ (V @ z), float(log_det))


def _match_jointly(
    m: Array,
    V: Array,
    old: tuple[Array, Array],
    prior: Array,
    counts: Array,
    likelihood: tuple[float, float],
    tol: float,
    max_sweeps: int,
) -> _SiteChange:
    """Match some sites to each other, while the others stay as they are: O(k^3) for each sweep."""
    k = len(m)
    now = _SiteChange(*old, np.zeros((k, k)), np.zeros(k))
    matched, smallest = np.empty((k, 3)), np.inf
    for _ in range(max_sweeps):
        mean, variance = now.moments(m, V)
        residual = update_sites(
            mean, variance, prior, now.tau, now.nu, counts, *likelihood, matched
        )[0]
        if residual <= tol or residual > 2.0 * smallest:
            break
        smallest = min(smallest, residual)
        new = _change(m, V, old, matched)
        if new is None:  # only with flips
            break
        now = new
    return now


# Comparisons that are held out. A site stands for all comparisons of a pair. Without one of them,
# the site is matched to those that are left. The sites of other pairs whose means move most are
# matched again, and the rest stay as they are. A Gaussian likelihood has no moments to match, and
# the result is exact.


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Comparisons to hold out of a posterior."""

    a: Approximation
    differences: Differences
    observed: PairObservations
    likelihood: Likelihood

    def each(self) -> tuple[Array, Array]:
        """Mean and variance of the difference of every comparison, without that comparison.

        O(r^2 + n r + N) for each of N, plus O(r^2 q + q^3) where q <= 41 sites are matched again.
        """
        a, observed = self.a, self.observed
        removed, which = np.unique(
            np.column_stack((observed.pair, observed.parts)), axis=0, return_inverse=True
        )
        sites = removed[:, 0].astype(np.intp)
        left = np.asarray(observed.values[sites] - removed[:, 1:], dtype=np.float64)
        mean, variance = a.cavities(self.differences.prior_variances, sites)
        tau, nu = self._matched(mean, variance, left)
        spread = 1.0 + tau * variance
        mean, variance = (mean + variance * nu) / spread, variance / spread
        if self.likelihood is not None:
            push = nu - a.nu[sites] - (tau - a.tau[sites]) * mean
            for start in range(0, len(sites), _BLOCK):
                part = slice(start, start + _BLOCK)
                sizes = self._shifts(self.differences.rows(sites[part]).T * push[part])
                sizes[sites[part], np.arange(sizes.shape[1])] = -np.inf
                for k in start + np.flatnonzero(sizes.max(axis=0) > _MOVED):
                    at = slice(k, k + 1)
                    found = self._matched_again(sites[at], left[at], sizes[:, k - start])
                    mean[at], variance[at] = found
        which = which.ravel()
        return mean[which], variance[which]

    def groups(self, groups: Iterable[Index]) -> tuple[Array, Array]:
        """The same without all comparisons of its group; groups are numbers of comparisons.

        O(r^2 k + k^3) for a group of k pairs, or a few posteriors if there are fewer weights.
        """
        observed = self.observed
        means, variances = np.empty((2, len(observed.pair)))
        for members in groups:
            sites, where = np.unique(observed.pair[members], return_inverse=True)
            left = observed.values[sites]
            np.subtract.at(left, where, observed.parts[members])
            many = len(sites) > self.differences.rank
            mean, variance = (self._without_many if many else self._without_few)(sites, left)
            means[members], variances[members] = mean[where], variance[where]
        return means, variances

    def _matched(self, mean: Array, variance: Array, counts: Array) -> tuple[Array, Array]:
        """Sites of what is left of each pair, from cavities; 0 for a Gaussian likelihood."""
        n = len(mean)
        if self.likelihood is None:
            return np.zeros(n), np.zeros(n)
        out, none = np.empty((n, 3)), np.zeros(n)
        given = (np.full(n, np.inf), none, none, _rounded(counts), *self.likelihood)
        update_sites(mean, variance, *given, out)
        return out[:, 0].copy(), out[:, 1].copy()

    def _shifts(self, pushes: Array) -> Array:
        """Sizes of the shifts of all means, of shape (N, k), by k changes A'nu of all sites.

        They are in units of sqrt(1 + v), the spread of an outcome.
        """
        columns = self.a.weights.solve(pushes)
        if not columns.size:
            return np.zeros((len(self.differences), columns.shape[1]))
        f = matmul(self.differences.C, np.ascontiguousarray(columns))
        return np.abs(self.differences.of_rows(f)) / np.sqrt(1.0 + self.a.variance)[:, None]

    def _joint(self, sites: Index) -> Array:
        """The covariance of the differences of some sites."""
        W = self.a.weights.whiten(self.differences.rows(sites).T)
        return matmul(np.ascontiguousarray(W.T), W) if W.size else np.zeros((len(sites),) * 2)

    def _matched_again(self, sites: Index, left: Array, sizes: Array) -> tuple[Array, Array]:
        """Moments of some sites of which less is left, with others that are shifted most."""
        a = self.a
        moved = np.flatnonzero(sizes > _MOVED)
        moved = moved[np.argsort(-sizes[moved])[:_MOST]]
        every = np.concatenate((sites, moved))
        counts = np.concatenate((_rounded(left), self.observed.values[moved]))
        m, V, old = a.mean[every], self._joint(every), (a.tau[every], a.nu[every])
        prior = self.differences.prior_variances[every]
        assert self.likelihood is not None
        change = _match_jointly(m, V, old, prior, counts, self.likelihood, 0.0, _SWEEPS)
        mean, variance = change.moments(m, V)
        return mean[: len(sites)], variance[: len(sites)]

    def _without_few(self, sites: Index, left: Array) -> tuple[Array, Array]:
        """Moments of the differences of some sites without a part of their comparisons."""
        a, V = self.a, self._joint(sites)
        m, old = a.mean[sites], (a.tau[sites], a.nu[sites])
        new = self._matched(*a.cavities(self.differences.prior_variances, sites), left)
        change = _change(m, V, old, np.column_stack(new))
        if change is None:
            return m, a.variance[sites]
        if self.likelihood is None:
            return change.moments(m, V)
        push = new[1] - old[1] - (new[0] - old[0]) * (m + V @ change.push)
        sizes = self._shifts((self.differences.rows(sites).T @ push)[:, None])[:, 0]
        sizes[sites] = -np.inf
        return self._matched_again(sites, left, sizes)

    def _without_many(self, sites: Index, left: Array) -> tuple[Array, Array]:
        """The same with all sites matched again."""
        a, differences = self.a, self.differences
        tau, nu = a.tau.copy(), a.nu.copy()
        tau[sites], nu[sites] = self._matched(*a.cavities(differences.prior_variances, sites), left)
        if self.likelihood is None:
            mean, variance = WeightPosterior.of(differences, tau, nu).moments(differences)
        else:
            counts = self.observed.values.copy()
            counts[sites] = _rounded(left)
            found = expectation_propagation(
                differences, counts, *self.likelihood, start=(tau, nu), max_sweeps=_SWEEPS
            )
            mean, variance = found.mean, found.variance
        return mean[sites], variance[sites]


def _rounded(counts: Array) -> Array:
    return np.where(counts > _ROUNDING, counts, 0.0)


# Comparisons that are added.


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
        """With further pairs, whose sites carry no information yet."""
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
        likelihood: tuple[float, float],
        tol: float,
    ) -> PoolPosterior | None:
        """The posterior after expectation propagation; None if too many sites must change.

        A site belongs to slope times difference. The sites whose errors are too large are matched
        to each other, until they agree; then the posterior of all rows follows, and the errors of
        all sites: O(n^2 k) instead of O(n^3).
        """
        now, most = self, max(16, len(self.mean) // 4)
        matched = np.empty((len(first), 3))
        for _ in range(_ROUNDS):
            spread = np.diagonal(now.covariance)
            variance = spread[first] + spread[second] - 2.0 * now.covariance[first, second]
            mean, variance = (
                slopes * (now.mean[first] - now.mean[second]),
                slopes**2 * np.maximum(variance, 0.0),
            )
            residual, evidence, _, _ = update_sites(
                mean, variance, now.prior, now.tau, now.nu, counts, *likelihood, matched
            )
            if residual <= tol:
                value = evidence + 0.5 * float(now.nu @ mean) - 0.5 * now.log_det
                return replace(now, log_evidence=value)
            few = np.flatnonzero(matched[:, 2] > _SHARE * tol)
            few = few[np.argsort(-matched[few, 2])[:most]]
            i, j, s = first[few], second[few], slopes[few]
            G = s[:, None] * (now.covariance[i] - now.covariance[j])
            V = s * (G[:, i] - G[:, j])
            V = np.asarray((V + V.T) / 2)
            change = _match_jointly(
                mean[few], V, (now.tau[few], now.nu[few]), now.prior[few], counts[few], likelihood,
                _SHARE * tol, _INNER,
            )  # fmt: skip
            now = now.changed(few, G, change)
        return None

    def changed(self, sites: Index, G: Array, change: _SiteChange) -> PoolPosterior:
        """With some sites changed; G has the covariances of their differences with all rows."""
        tau, nu = self.tau.copy(), self.nu.copy()
        tau[sites], nu[sites] = change.tau, change.nu
        return replace(
            self,
            mean=self.mean + change.push @ G,
            covariance=self.covariance - matmul(np.ascontiguousarray(G.T), matmul(change.M, G)),
            tau=tau,
            nu=nu,
            log_det=self.log_det + change.log_det,
        )
