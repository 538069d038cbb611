"""Gaussian approximations of the posterior of compared differences.

The posterior of f given comparisons D, equation (10) of the KPCRank paper, is

    p(f | D) = p(D)^-1 prod_l p(w_l | d_l) N(f | 0, K),   d_l = f_i - f_j.

Expectation propagation replaces each p(w_l | d_l) by a site exp(-tau_l d_l^2 / 2 + nu_l d_l), so
that the posterior is Gaussian. `update_sites` in `probit` matches the sites to their factors, and
`expectation_propagation` repeats this until nothing changes. Laplace's approximation takes the
sites from the curvature at the mode. Margins with Gaussian noise are sites already: the closed
form.

With Q = C C' the covariance of the rows and (d evidence) = tr(M dQ),

    M = (a a' - W) / 2,   a = B' slope,   W = B' (T^-1 + B Q B')^-1 B,

T = diag(tau). For Laplace's approximation the mode moves too: a q' + q a' is added to a a'.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr

from rankwise.backends.arrays import Array, is_sparse
from rankwise.backends.dispatch import matmul
from rankwise.gp.probit import derivatives, update_sites
from rankwise.gp.weights import Differences, WeightPosterior

Sites = tuple[Array, Array]  # tau and nu
_DEPTH = 5  # number of sweeps that a step is extrapolated from
_PLAIN = 3  # number of sweeps before the first extrapolation
_LEAST_SHARE = 0.05  # of a step
_ROUGH = 0.1  # largest change of a difference in the last step towards a start
_HALVINGS = 6  # of a step to sites without a proper posterior
_NARROWEST = 0.3  # smallest pivot of the weights' precision; it is 1 for the prior


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

    def sites_for(self, ratio: Array) -> Sites:
        """Sites to start from where prior variances of the differences are `ratio` times these.

        A site is about as wide as noise and posterior together. Where the noise is small
        relative to the posterior, the posterior grows with the prior.
        """
        share = (1.0 + self.variance) / (1.0 + ratio * self.variance)
        return self.tau * share, self.nu * np.sqrt(share)


def expectation_propagation(
    differences: Differences,
    counts: Array,
    threshold: float = 0.0,
    flips: float = 0.0,
    *,
    start: Sites | None = None,
    tol: float = 1e-6,
    max_sweeps: int = 100,
) -> Approximation:
    """Sites that match the moments of one factor at a time: section 5 of the KPCRank paper.

    A site stands for the likelihood of one difference. At the fixed point, replacing any site
    by its likelihood leaves mean and variance of the posterior as they are. Likelihoods are
    log-concave (unless outcomes are flipped), so tau >= 0 and every posterior is proper. At
    the fixed point the evidence is stationary in the sites.

    A sweep updates all sites at once: O(r^2 min(n, N) + r^3 + N r), where r is the rank of the
    prior. Sweeps are extrapolated from the last few, and damped while they do not converge.

    Parameters
    ----------
    differences : Differences
        In units of the noise, as is the threshold.
    counts : ndarray of shape (N, 3)
        Weights of wins, losses and ties of the first row.
    threshold, flips : float
        Half the width of the interval of ties, 0: no ties; and the share of flipped outcomes.
    start : (tau, nu), optional
        Sites to start from, such as the sites of a similar problem. None: no information, or
        Laplace's approximation if there are pairs with several comparisons, whose factors are
        integrals: these are cheap near the posterior, and costly near a wide prior.
    tol : float
        Largest error of the moments, relative to their spread, after at most `max_sweeps`.
    """
    n = len(differences)
    prior, counts = differences.prior_variances, np.ascontiguousarray(counts)
    tau, nu = np.zeros(n), np.zeros(n)
    if start is not None:
        tau, nu = start
    elif (counts.sum(axis=1) != counts.max(axis=1, initial=0.0)).any() or (counts > 1.0).any():
        near = laplace(differences, counts, threshold, tol=_ROUGH)
        tau, nu = near.tau, near.nu
    matched, good, steps = np.empty((n, 3)), np.zeros((2, n)), _Steps()
    for sweep in range(max_sweeps + 1):
        weights, tau, nu, retreated = _proper(differences, tau, nu, good)
        good = np.vstack((tau, nu))
        mean, variance = weights.moments(differences)
        residual, evidence, by_t, by_e = update_sites(
            mean, variance, prior, tau, nu, counts, threshold, flips, matched
        )
        if residual <= tol or sweep == max_sweeps:
            break
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
    would be best if the map were linear. After a step that diverges, damped plain steps: half the
    share and twice as many each time.
    """

    def __init__(self) -> None:
        self.best = np.inf
        self.failures = 0
        self.plain = _PLAIN
        self.past: list[tuple[Array, Array]] = []

    def next(self, sites: Array, matched: Array, residual: float, retreated: bool) -> Array:
        """The next (tau, nu), as rows of one array; tau stays proper."""
        gap = matched - sites
        if retreated or residual > 2.0 * self.best:
            self.past.clear()
            self.failures += 1
            self.plain = _PLAIN + 2**self.failures
            self.best = residual
        self.best = min(self.best, residual)
        self.past = [*self.past, (sites, gap)][-_DEPTH - 1 :]
        self.plain -= 1
        if self.plain >= 0 or len(self.past) == 1:
            return np.asarray(sites + max(0.5**self.failures, _LEAST_SHARE) * gap)
        bends = np.column_stack([(gap - old).ravel() for _, old in self.past[:-1]])
        moves = np.column_stack([(sites - at).ravel() for at, _ in self.past[:-1]])
        shares = np.linalg.lstsq(bends, gap.ravel(), rcond=1e-8)[0]
        new = matched - ((moves + bends) @ shares).reshape(gap.shape)
        new[0] = np.where((new[0] < 0) & (matched[0] >= 0), matched[0], new[0])
        return np.asarray(new)


def laplace(
    differences: Differences,
    counts: Array,
    threshold: float = 0.0,
    *,
    start: Sites | None = None,
    tol: float = 1e-6,
    max_sweeps: int = 100,
) -> Approximation:
    """N(u, P^-1) at the u that maximizes sum_l l(A u) - |u|^2 / 2, by Newton's method.

    Cheaper than expectation propagation, since no step needs variances, and less accurate: the
    mean of a skewed posterior is not at its mode, and its curvature there is not its spread.

    Parameters are as in `expectation_propagation`; `tol` is the largest change of a difference
    in the last of at most `max_sweeps` Newton steps, in units of the noise.
    """
    n = len(differences)
    counts, terms = np.ascontiguousarray(counts), np.empty((n, 7))

    def objective(u: Array) -> float:
        """log p(outcomes | d) + log N(u | 0, I) up to a constant; `terms` is filled."""
        derivatives(differences.apply(u), counts, threshold, terms)
        return float(terms[:, 0].sum() - 0.5 * (u @ u))

    def parabola(d: Array) -> Sites:
        """The sites that touch the log-likelihood at d."""
        tau = np.maximum(-terms[:, 2], 0.0)
        return tau, tau * d + terms[:, 1]

    u = np.zeros(differences.rank)
    if start is not None:
        u = WeightPosterior.of(differences, *start).mean
    step, steps, value = np.inf, 0, objective(u)
    while step > tol and steps < max_sweeps:
        steps += 1
        target = WeightPosterior.of(differences, *parabola(differences.apply(u))).mean - u
        moved = np.abs(differences.apply(target)).max(initial=0.0)
        share = 1.0
        while True:
            new = u + share * target
            trial = objective(new)
            # Written so that a NaN ends both loops.
            if not trial < value - 1e-10 * (1.0 + abs(value)) or not share * moved >= 1e-14:
                break
            share *= 0.5
        u, value, step = new, trial, share * moved
    d = differences.apply(u)
    tau, nu = parabola(d)
    weights = WeightPosterior(WeightPosterior.of(differences, tau, nu).root, u)
    variance = weights.moments(differences)[1]
    skew = 0.5 * variance * terms[:, 3]

    def smoothed(z: Array) -> Array:
        """The covariance of the differences times z."""
        return differences.apply(weights.solve(differences.transpose(z)))

    by_t = terms[:, 4].sum() + 0.5 * variance @ terms[:, 6] + skew @ smoothed(terms[:, 5])
    return Approximation(
        weights,
        tau,
        nu,
        d,
        variance,
        value - 0.5 * weights.log_det,
        terms[:, 1].copy(),
        bend=skew - tau * smoothed(skew),
        threshold_slope=float(by_t),
        converged=bool(step <= tol),
        n_sweeps=steps,
        residual=float(step) if n else 0.0,
    )


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
