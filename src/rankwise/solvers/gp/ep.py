"""Expectation propagation: one Gaussian site for every pair that was compared."""

from __future__ import annotations

import numpy as np

from rankwise.backends.arrays import Array
from rankwise.solvers.gp.approximation import Approximation, Outcomes
from rankwise.solvers.gp.differences import Differences, Weights
from rankwise.solvers.gp.outcomes import NODE_WEIGHTS, NODES, sweep_in_turn, update_sites

_DEPTH = 5  # sweeps that a step is extrapolated from
_PLAIN = 3  # sweeps before that
_HALVINGS = 6  # of a step to sites without a proper posterior
_NARROWEST = 0.3  # least root of a precision of the weights, whose prior has 1


def expectation_propagation(
    differences: Differences,
    outcomes: Outcomes,
    *,
    start: tuple[Array, Array] | None = None,
    sequential: bool = False,
    tol: float = 1e-6,
    max_sweeps: int = 100,
) -> Approximation:
    """Sites that match the moments of one factor at a time: section 5 of the KPCRank paper.

    A site stands in for the likelihood of one difference. With the site taken out (the cavity)
    and the likelihood in its place, mean and variance are those of the posterior, for every
    site: a fixed point that sweeps reach. Likelihoods are log-concave (unless outcomes are
    turned round), so tau >= 0 and every posterior is proper. At the fixed point the evidence is
    stationary in the sites.

    A parallel sweep costs O(r^2 min(n, N) + r^3 + N r), r being the rank of the prior; a
    sequential one, which matches one site after the other, O(N r^2). Parallel sweeps are
    extrapolated from the last few of them, and damped where they do not come closer.

    Parameters
    ----------
    differences, outcomes
        In units of the noise.
    start : (tau, nu), optional
        Sites to start from, such as those of a similar problem. None: no information.
    sequential : bool
    tol : float
        How far moments may be off, in units of their spread.
    max_sweeps : int
    """
    n = len(differences)
    tau, nu = (np.zeros(n), np.zeros(n)) if start is None else (s.copy() for s in start)
    prior, counts = differences.prior_variances, np.ascontiguousarray(outcomes.counts)
    given = (counts, outcomes.threshold, outcomes.flips, NODES, NODE_WEIGHTS)
    matched, good = np.empty((n, 2)), np.zeros((2, n))
    steps = _Steps()
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
            first, second, order = differences.first, differences.second, np.arange(n)
            tau, nu = tau.copy(), nu.copy()
            sweep_in_turn(
                rows, first, second, order, S, weights.mean.copy(), prior, tau, nu, *given
            )
        else:
            tau, nu = steps.next(good, matched.T, residual, retreated)
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


def _proper(
    differences: Differences, tau: Array, nu: Array, good: Array
) -> tuple[Weights, Array, Array, bool]:
    """The posterior of these sites, or of some on the way back to good ones; and whether so.

    Where outcomes are turned round, sites may have negative precisions. Too many of them leave
    no posterior, or one that is far wider than the prior, which no comparison can mean.
    """
    for halvings in range(_HALVINGS):
        try:
            weights = Weights.of(differences, tau, nu)
        except FloatingPointError:
            if not (tau < 0).any():
                raise
        else:
            if (tau >= 0).all() or np.diagonal(weights.root).min() > _NARROWEST:
                return weights, tau, nu, halvings > 0
        tau, nu = 0.5 * (tau + good[0]), 0.5 * (nu + good[1])
    tau, nu = np.maximum(good[0], 0.0), good[1]
    return Weights.of(differences, tau, nu), tau, nu, True


class _Steps:
    """From sites and what they should have been to the next sites.

    Plain steps at first, then Anderson's: the combination of the last steps that would have
    come closest, were the map linear. A step that led away is taken back to a damped plain one.
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
