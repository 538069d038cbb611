"""Laplace's approximation: the mode of the posterior, and its curvature there."""

from __future__ import annotations

import numpy as np

from rankwise.backends.arrays import Array
from rankwise.solvers.gp.approximation import Approximation
from rankwise.solvers.gp.differences import Differences, WeightPosterior
from rankwise.solvers.gp.probit import derivatives


def laplace(
    differences: Differences,
    counts: Array,
    threshold: float = 0.0,
    *,
    start: tuple[Array, Array] | None = None,
    tol: float = 1e-6,
    max_sweeps: int = 100,
) -> Approximation:
    """N(u, P^-1) at the u that maximizes sum_l l(A u) - |u|^2 / 2, by Newton's method.

    Cheaper than expectation propagation, since no step needs variances, and less accurate: the
    mean of a skewed posterior is not at its mode, and its curvature there is not its spread.

    Parameters are those of `expectation_propagation`; `tol` is the largest change of a difference
    in the last of at most `max_sweeps` Newton steps, in units of the noise.
    """
    n = len(differences)
    counts, terms = np.ascontiguousarray(counts), np.empty((n, 7))
    u = np.zeros(differences.rank)
    if start is not None:
        u = WeightPosterior.of(differences, *start).mean
    step, steps = np.inf, 0
    value = _objective(differences.apply(u), u, counts, threshold, terms)
    while step > tol and steps < max_sweeps:
        steps += 1
        d = differences.apply(u)
        target = WeightPosterior.of(differences, *_sites(d, terms)).mean - u
        moved = np.abs(differences.apply(target)).max(initial=0.0)
        share = 1.0
        while True:
            new = u + share * target
            trial = _objective(differences.apply(new), new, counts, threshold, terms)
            # Written so that a NaN ends both loops.
            if not trial < value - 1e-10 * (1.0 + abs(value)) or not share * moved >= 1e-14:
                break
            share *= 0.5
        u, value, step = new, trial, share * moved
    d = differences.apply(u)
    tau, nu = _sites(d, terms)
    root = WeightPosterior.of(differences, tau, nu).root
    weights = WeightPosterior(root, u)
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


def _objective(d: Array, u: Array, counts: Array, threshold: float, terms: Array) -> float:
    """log p(outcomes | d) + log N(u | 0, I) up to a constant; `terms` is filled."""
    derivatives(d, counts, threshold, terms)
    return float(terms[:, 0].sum() - 0.5 * (u @ u))


def _sites(d: Array, terms: Array) -> tuple[Array, Array]:
    """The parabola that touches the log-likelihood at d."""
    tau = np.maximum(-terms[:, 2], 0.0)
    return tau, tau * d + terms[:, 1]
