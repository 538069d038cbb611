"""Expectation propagation: one Gaussian site for every pair that was compared."""

from __future__ import annotations

import numpy as np

from rankwise.backends.arrays import Array
from rankwise.solvers.gp.approximation import Approximation
from rankwise.solvers.gp.differences import Differences, WeightPosterior
from rankwise.solvers.gp.laplace import laplace
from rankwise.solvers.gp.probit import sweep_in_turn, update_sites

_DEPTH = 5  # number of sweeps that a step is extrapolated from
_PLAIN = 3  # number of sweeps before the first extrapolation
_ROUGH = 0.1  # largest change of a difference in the last step towards a start
_HALVINGS = 6  # of a step to sites without a proper posterior
_NARROWEST = 0.3  # smallest pivot of the weights' precision; it is 1 for the prior


def expectation_propagation(
    differences: Differences,
    counts: Array,
    threshold: float = 0.0,
    flips: float = 0.0,
    *,
    start: tuple[Array, Array] | None = None,
    sequential: bool = False,
    tol: float = 1e-6,
    max_sweeps: int = 100,
) -> Approximation:
    """Sites that match the moments of one factor at a time: section 5 of the KPCRank paper.

    A site stands for the likelihood of one difference. At the fixed point, replacing any site
    by its likelihood leaves mean and variance of the posterior as they are. Likelihoods are
    log-concave (unless outcomes are flipped), so tau >= 0 and every posterior is proper. At
    the fixed point the evidence is stationary in the sites.

    A parallel sweep costs O(r^2 min(n, N) + r^3 + N r), where r is the rank of the prior. A
    sequential sweep, which matches one site after the other, costs O(N r^2). Parallel sweeps
    are extrapolated from the last few, and damped while they do not converge.

    Parameters
    ----------
    differences : Differences
        In units of the noise, as is the threshold.
    counts : ndarray of shape (N, 3)
        Weights of wins, losses and ties of the first row.
    threshold, flips : float
        Half the width of the interval of ties, 0: no ties; and the share of flipped outcomes.
    start : (tau, nu), optional
        Sites to start from, such as those of a similar problem. None: no information, or those
        of Laplace's approximation if there are pairs with several comparisons, whose factors are
        integrals: these are cheap near the posterior, and costly near a wide prior.
    sequential : bool
    tol : float
        Largest error of the moments, relative to their spread, after at most `max_sweeps`.
    """
    n = len(differences)
    prior, counts = differences.prior_variances, np.ascontiguousarray(counts)
    tau, nu = np.zeros(n), np.zeros(n)
    if start is not None:
        tau, nu = (sites.copy() for sites in start)
    elif (counts.sum(axis=1) != counts.max(axis=1, initial=0.0)).any() or (counts > 1.0).any():
        near = laplace(differences, counts, threshold, tol=_ROUGH)
        tau, nu = near.tau, near.nu
    given = (counts, threshold, flips)
    matched, good = np.empty((n, 3)), np.zeros((2, n))
    steps = _Steps()
    slopes = np.ones(n) if differences.slopes is None else differences.slopes
    rows = np.ascontiguousarray(differences.C) if sequential else differences.C
    for sweep in range(max_sweeps + 1):
        weights, tau, nu, retreated = _proper(differences, tau, nu, good)
        good = np.vstack((tau, nu))
        mean, variance = weights.moments(differences)
        residual, evidence, by_t, by_e = update_sites(
            mean, variance, prior, tau, nu, *given, matched
        )
        if residual <= tol or sweep == max_sweeps:
            break
        if sequential:
            S = np.ascontiguousarray(weights.solve(np.eye(differences.rank)))
            first, second = differences.first, differences.second
            tau, nu = tau.copy(), nu.copy()
            at = (S, weights.mean.copy(), prior, tau, nu)
            sweep_in_turn(rows, first, second, slopes, *at, *given)
        else:
            tau, nu = steps.next(good, matched[:, :2].T, residual, retreated)
    evidence += 0.5 * float(nu @ mean) - 0.5 * weights.log_det
    return Approximation(
        weights,
        tau,
        nu,
        mean,
        variance,
        evidence,
        nu - tau * mean,
        threshold_slope=by_t,
        flips_slope=by_e,
        converged=residual <= tol,
        n_sweeps=sweep,
        residual=residual,
    )


def gain_of_flips(a: Approximation, counts: Array, threshold: float, share: float) -> float:
    """How much a share of flips changes the evidence, if the sites stay as they are: one sweep.

    The evidence is stationary in the sites, so it is the gain up to second order.
    """
    sites = (a.mean, a.variance, np.full(len(a.mean), np.inf), a.tau, a.nu)
    given, out = (np.ascontiguousarray(counts), threshold), np.empty((len(counts), 3))
    with_flips, without = (update_sites(*sites, *given, e, out)[1] for e in (share, 0.0))
    return float(with_flips - without)


def _proper(
    differences: Differences, tau: Array, nu: Array, good: Array
) -> tuple[WeightPosterior, Array, Array, bool]:
    """The posterior of these sites, or of sites nearer to good ones; and whether it retreated.

    With flipped outcomes, sites may have negative precisions. Too many of them leave no
    posterior, or one that is far wider than the prior, which no comparison justifies.
    """
    for halvings in range(_HALVINGS):
        try:
            weights = WeightPosterior.of(differences, tau, nu)
        except FloatingPointError:
            if not (tau < 0).any():
                raise
        else:
            if (tau >= 0).all() or np.diagonal(weights.root).min() > _NARROWEST:
                return weights, tau, nu, halvings > 0
        tau, nu = 0.5 * (tau + good[0]), 0.5 * (nu + good[1])
    tau, nu = np.maximum(good[0], 0.0), good[1]
    return WeightPosterior.of(differences, tau, nu), tau, nu, True


class _Steps:
    """The next sites from the current ones and the matched ones.

    Plain steps at first, then Anderson acceleration: the combination of the last steps that
    would be best if the map were linear. After a step that diverges, a damped plain step.
    """

    def __init__(self) -> None:
        self.best = np.inf
        self.share = 1.0
        self.past: list[tuple[Array, Array]] = []
        self.taken = 0

    def next(self, sites: Array, matched: Array, residual: float, retreated: bool) -> Array:
        """The next (tau, nu), as rows of one array; tau stays proper."""
        self.taken += 1
        gap = matched - sites
        if retreated or residual > 2.0 * self.best:
            self.past.clear()
            self.share = max(0.5 * self.share, 0.05)
        else:
            self.share = min(1.2 * self.share, 1.0)
        self.best = min(self.best, residual)
        self.past = [*self.past, (sites, gap)][-_DEPTH - 1 :]
        if self.taken <= _PLAIN or len(self.past) == 1:
            return np.asarray(sites + self.share * gap)
        bends = np.column_stack([(gap - old).ravel() for _, old in self.past[:-1]])
        moves = np.column_stack([(sites - at).ravel() for at, _ in self.past[:-1]])
        shares = np.linalg.lstsq(bends, gap.ravel(), rcond=1e-8)[0]
        new = matched - ((moves + bends) @ shares).reshape(gap.shape)
        new[0] = np.where((new[0] < 0) & (matched[0] >= 0), matched[0], new[0])
        return np.asarray(new)
