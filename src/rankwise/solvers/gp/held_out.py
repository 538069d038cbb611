"""Comparisons held out of a posterior, without inference on all others.

A site stands for all comparisons of a pair. Without one of them, the site is matched to those that
are left; without any, the cavity is what remains. The sites of other pairs whose means move most
are matched again, and the rest stay as they are. A Gaussian likelihood has no moments to match, and
the result is exact.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.backends.blas import matmul
from rankwise.solvers.gp.approximation import Approximation
from rankwise.solvers.gp.differences import Differences, WeightPosterior
from rankwise.solvers.gp.ep import expectation_propagation
from rankwise.solvers.gp.observations import PairObservations
from rankwise.solvers.gp.probit import update_sites

Likelihood = tuple[float, float] | None  # threshold and flips; None is Gaussian
_ROUNDING = 1e-9  # weights of what is left of a pair that are 0 but for rounding
_MOVED, _MOST = 0.3, 40  # shift of sites that are matched again, in units of sqrt(1 + v); how many
_SWEEPS = 3  # over these sites
_BLOCK = 256  # comparisons whose effect on all others is computed together


def without_each(
    a: Approximation, differences: Differences, observed: PairObservations, likelihood: Likelihood
) -> tuple[Array, Array]:
    """Mean and variance of the difference of every comparison, without that comparison.

    O(r^2 + n r + N) for each of N, plus O(r^2 q + q^3) where q <= 41 sites are matched again.
    """
    removed, which = np.unique(
        np.column_stack((observed.pair, observed.parts)), axis=0, return_inverse=True
    )
    sites = removed[:, 0].astype(np.intp)
    left = np.asarray(observed.values[sites] - removed[:, 1:], dtype=np.float64)
    mean, variance = a.cavities(differences.prior_variances, sites)
    tau, nu = _matched(mean, variance, left, likelihood)
    spread = 1.0 + tau * variance
    mean, variance = (mean + variance * nu) / spread, variance / spread
    if likelihood is not None:
        push = nu - a.nu[sites] - (tau - a.tau[sites]) * mean
        for start in range(0, len(sites), _BLOCK):
            part = slice(start, start + _BLOCK)
            sizes = _shifts(a, differences, differences.rows(sites[part]).T * push[part])
            sizes[sites[part], np.arange(sizes.shape[1])] = -np.inf
            for k in start + np.flatnonzero(sizes.max(axis=0) > _MOVED):
                at = slice(k, k + 1)
                moved = _moved(sizes[:, k - start])
                given = (a, differences, observed, likelihood)
                mean[at], variance[at] = _matched_again(*given, sites[at], left[at], moved)
    which = which.ravel()
    return mean[which], variance[which]


def without_groups(
    a: Approximation,
    differences: Differences,
    observed: PairObservations,
    likelihood: Likelihood,
    groups: Iterable[Index],
) -> tuple[Array, Array]:
    """The same without all comparisons of its group; groups are numbers of comparisons.

    O(r^2 k + k^3) for a group of k pairs, or a few posteriors if there are fewer weights than that.
    """
    means, variances = np.empty(len(observed.pair)), np.empty(len(observed.pair))
    for members in groups:
        sites, where = np.unique(observed.pair[members], return_inverse=True)
        left = observed.values[sites]
        np.subtract.at(left, where, observed.parts[members])
        without = _without_many if len(sites) > differences.rank else _without_few
        mean, variance = without(a, differences, observed, likelihood, sites, left)
        means[members], variances[members] = mean[where], variance[where]
    return means, variances


def _matched(
    mean: Array, variance: Array, counts: Array, likelihood: Likelihood
) -> tuple[Array, Array]:
    """Sites of some comparisons of each pair, from cavities; 0 without any comparison."""
    tau, nu = np.zeros((2, len(mean)))
    if likelihood is None:
        return tau, nu
    some = np.flatnonzero(counts.max(axis=1, initial=0.0) > _ROUNDING)
    out, none = np.empty((len(some), 3)), np.zeros(len(some))
    counts = np.where(counts > _ROUNDING, counts, 0.0)[some]
    at = mean[some], variance[some], np.full(len(some), np.inf)
    update_sites(*at, none, none, counts, *likelihood, out)
    tau[some], nu[some] = out[:, 0], out[:, 1]
    return tau, nu


def _shifts(a: Approximation, differences: Differences, pushes: Array) -> Array:
    """Sizes of the shifts of all means, of shape (N, k), by k changes A'nu of all sites.

    They are in units of sqrt(1 + v), the spread of an outcome.
    """
    columns = a.weights.solve(pushes)
    if not columns.size:
        return np.zeros((len(differences), columns.shape[1]))
    shifts = differences.of_rows(matmul(differences.C, np.ascontiguousarray(columns)))
    return np.abs(shifts) / np.sqrt(1.0 + a.variance)[:, None]


def _moved(sizes: Array) -> Index:
    """The sites whose means are shifted most."""
    moved = np.flatnonzero(sizes > _MOVED)
    return moved[np.argsort(-sizes[moved])[:_MOST]] if len(moved) > _MOST else moved


def _matched_again(
    a: Approximation,
    differences: Differences,
    observed: PairObservations,
    likelihood: Likelihood,
    sites: Index,
    left: Array,
    moved: Index,
) -> tuple[Array, Array]:
    """Moments of some sites of which less is left, and others that are matched with them."""
    group = _SiteGroup(a, differences, np.concatenate((sites, moved)))
    counts = np.concatenate((left, observed.values[moved]))
    mean, variance = group.mean, group.variance
    tau, nu = a.tau[group.sites], a.nu[group.sites]
    for _ in range(_SWEEPS):
        share = 1.0 - tau * variance
        if (share <= 0).any():  # only with flips
            break
        tau, nu = _matched((mean - variance * nu) / share, variance / share, counts, likelihood)
        new = group.after(tau, nu)
        if new is None:
            break
        mean, variance = new
    return mean[: len(sites)], variance[: len(sites)]


def _without_few(
    a: Approximation,
    differences: Differences,
    observed: PairObservations,
    likelihood: Likelihood,
    sites: Index,
    left: Array,
) -> tuple[Array, Array]:
    """Moments of the differences of some sites without a part of their comparisons."""
    tau, nu = _matched(*a.cavities(differences.prior_variances, sites), left, likelihood)
    group = _SiteGroup(a, differences, sites)
    found = group.after(tau, nu)
    if found is None:
        return group.mean, group.variance
    if likelihood is not None:
        push = nu - a.nu[sites] - (tau - a.tau[sites]) * found[0]
        sizes = _shifts(a, differences, (differences.rows(sites).T @ push)[:, None])[:, 0]
        sizes[sites] = -np.inf
        moved = _moved(sizes)
        return _matched_again(a, differences, observed, likelihood, sites, left, moved)
    return found


def _without_many(
    a: Approximation,
    differences: Differences,
    observed: PairObservations,
    likelihood: Likelihood,
    sites: Index,
    left: Array,
) -> tuple[Array, Array]:
    """The same with all sites matched again."""
    tau, nu = a.tau.copy(), a.nu.copy()
    tau[sites], nu[sites] = _matched(
        *a.cavities(differences.prior_variances, sites), left, likelihood
    )
    if likelihood is None:
        mean, variance = WeightPosterior.of(differences, tau, nu).moments(differences)
    else:
        counts = observed.values.copy()
        counts[sites] = np.where(left > _ROUNDING, left, 0.0)
        found = expectation_propagation(
            differences, counts, *likelihood, start=(tau, nu), max_sweeps=_SWEEPS
        )
        mean, variance = found.mean, found.variance
    return mean[sites], variance[sites]


class _SiteGroup:
    """The joint posterior of the differences of some sites, and what follows if these change.

    V <- V - V M V and m <- m + V (I - M V) (dnu - dtau m), M = (I + diag(dtau) V)^-1 diag(dtau).
    """

    def __init__(self, a: Approximation, differences: Differences, sites: Index) -> None:
        W = a.weights.whiten(differences.rows(sites).T)
        self.V = matmul(np.ascontiguousarray(W.T), W) if W.size else np.zeros((len(sites),) * 2)
        self.sites, self.mean, self.variance = sites, a.mean[sites], a.variance[sites]
        self.tau, self.nu = a.tau[sites], a.nu[sites]

    def after(self, tau: Array, nu: Array) -> tuple[Array, Array] | None:
        """Means and variances with these sites; None if there is no proper posterior."""
        dtau = tau - self.tau
        inner = np.eye(len(dtau)) + dtau[:, None] * self.V
        push = nu - self.nu - dtau * self.mean
        try:
            changes = np.linalg.solve(inner, np.column_stack((np.diag(dtau), push)))
        except np.linalg.LinAlgError:
            return None
        VM = self.V @ changes[:, :-1]
        variance = self.variance - np.einsum("ij,ij->i", VM, self.V)
        if not (variance > -1e-9 * (1.0 + self.variance)).all():
            return None
        return self.mean + self.V @ changes[:, -1], np.maximum(variance, 0.0)
