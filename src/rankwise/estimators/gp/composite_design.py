"""Averaging over all hyperparameters: a central composite design around their mode.

In d standardized coordinates z, in which the posterior of the logarithms of the hyperparameters is
about standard normal, the points are the mode, corners of a cube, and a point on each half-axis.
All but the mode have the norm r sqrt(d). Weights of points times their densities integrate 1 and
z'z of a normal distribution exactly, whatever r > 1 is. So few points serve for many
hyperparameters, as in integrated nested Laplace approximations (Rue, Martino and Chopin, 2009).

The axes are those of the curvature at the mode. Each half-axis has its own scale, such that the
density at a distance of sqrt(2) is that of a normal distribution: the posterior may be skewed, and
it ends where the bounds of a hyperparameter are.

Variances of scores are about proportional to the variance of the kernel. Their mean over a standard
deviation of its logarithm of more than 1 depends on values that no point of the design reaches. Few
comparisons say little about that variance, so there must be a prior. For probit comparisons, whose
noise is the unit of scores, there is a default one (`PRIOR_SCALE`).
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array
from rankwise.errors import DataError, ParameterError, warn
from rankwise.estimators.gp.conditioned_process import ConditionedProcess
from rankwise.estimators.gp.evidence import Evidence, NotConverged

PRIOR_SCALE = 0.7  # of probit models, if none is given
RADIUS = 1.1
_STEP = 0.02  # of differences of gradients, in logarithms
_FAR = 3.0  # a distance at which the log density of a normal distribution has fallen by 4.5
_LEAST_FALL = 2.0  # less than this, and there is much probability there
_AT = 1e-6  # distance from a bound, in logarithms, that is none
_WIDEST = 3.0  # standard deviation of a logarithm that comparisons hardly determine
_MOST_SKEWED = 4.0  # how much wider than the curvature says a half-axis may be
_FLAT = 1.0 / _MOST_SKEWED**2
_MOST_UNCERTAIN = np.log(3.0)  # standard deviation of a logarithm; more gives a warning

Design = tuple[list[ConditionedProcess], Array]


def composite_points(d: int) -> tuple[Array, Array]:
    """Points of shape (n, d), the mode first, and their weights.

    Corners are all 2^d for four coordinates or fewer, and a fraction in which no product of four
    coordinates or fewer is constant for more.

    Examples
    --------
    >>> points, weights = composite_points(2)
    >>> points.shape, (points[1:] ** 2).sum(axis=1).round(2).tolist() == [2.42] * 8
    ((9, 2), True)
    >>> normal = weights * np.exp(-0.5 * (points**2).sum(axis=1))
    >>> (normal @ points**2 / normal.sum()).round(12).tolist()
    [1.0, 1.0]
    """
    stars = np.sqrt(d) * np.vstack((np.eye(d), -np.eye(d)))
    around = stars if d == 1 else np.vstack((_corners(d), stars))
    points = RADIUS * np.vstack((np.zeros((1, d)), around))
    outer = np.exp(0.5 * d * RADIUS**2) / (len(around) * (RADIUS**2 - 1.0))
    return points, np.append(1.0, np.full(len(around), outer))


def _corners(d: int) -> Array:
    """Rows of -1 and 1: products of the signs of binary digits, by numbers chosen greedily."""
    numbers: list[int] = []
    while len(numbers) < d:
        taken = {0}
        for size in (1, 2, 3):
            for some in combinations(numbers, size):
                taken.add(int(np.bitwise_xor.reduce(some)))
        numbers.append(next(k for k in range(1, 2 ** (len(numbers) + 1)) if k not in taken))
    n = 1 << max(numbers).bit_length()
    ones = np.array([[(row & number).bit_count() for number in numbers] for row in range(n)])
    return np.asarray(1.0 - 2.0 * (ones % 2))


def composite_design(evidence: Evidence, theta: Array) -> Design:
    """Processes at the points of a design around theta, and their prior weights.

    The slopes of raters stay as they are. This takes two gradients of the evidence for each other
    free hyperparameter, four posteriors for each, and one for each point of the design. Points
    whose posterior cannot be computed are left out. Warns if there is no prior, or if the design
    cannot describe the posterior of the hyperparameters.
    """
    free = np.flatnonzero(~evidence.is_slope)
    d = len(free)
    if not d:
        raise ParameterError(
            'marginalize="all" averages over the free hyperparameters, but all are fixed. Give '
            "them bounds, or use marginalize=None."
        )
    low, high = evidence.bounds[free].T
    theta = theta.copy()
    theta[free] = np.clip(theta[free], low, high)

    def whole(z: Array) -> Array:
        out = theta.copy()
        out[free] = np.clip(theta[free] + z, low, high)
        return out

    def look(z: Array) -> tuple[float, ConditionedProcess | None]:
        """The log density, and the posterior; minus infinity if there is none."""
        at = whole(z)
        try:
            process = evidence.process(at)
        except (DataError, NotConverged):
            return -np.inf, None
        return process.approximation.log_evidence + evidence.log_prior(at)[0], process

    centre, process = look(np.zeros(d))
    if process is None:
        evidence.process(theta)  # says why
    axes = _axes(evidence, free, whole)
    scales, least_fall = np.empty((2, d)), np.inf
    for k, axis in enumerate(axes.T):
        for s, sign in enumerate((-1.0, 1.0)):
            reach = _reach(sign * axis, low - theta[free], high - theta[free])
            t = min(np.sqrt(2.0), reach)
            fall = max(centre - look(t * sign * axis)[0], 0.0) if t > 0 else np.inf
            normal = 0.5 * t**2
            scale = np.sqrt(normal / fall) if fall > _FLAT * normal else _MOST_SKEWED
            scales[s, k] = min(scale, reach / (RADIUS * np.sqrt(d)))
            if 0 < _FAR * scale < reach:
                least_fall = min(least_fall, centre - look(_FAR * scale * sign * axis)[0])
    points, weights = composite_points(d)
    processes, prior, places = [], [], []
    for z, weight in zip(points, weights, strict=True):
        sides = np.where(z > 0, scales[1], np.where(z < 0, scales[0], scales.mean(axis=0)))
        volume = float(np.prod(sides))
        found = look(axes @ (sides * z))[1] if z.any() else process
        if volume > 0 and found is not None:
            at = whole(axes @ (sides * z))
            processes.append(found)
            prior.append(np.log(weight * volume) + evidence.log_prior(at)[0])
            places.append(at[free])
    log_weights = np.array(prior) + [p.approximation.log_evidence for p in processes]
    is_at_bound = (high > low) & ((theta[free] < low + _AT) | (theta[free] > high - _AT))
    if evidence.prior_scale is None:
        warn(
            'PairwiseGP: marginalize="all" needs a prior, without which standard deviations may be '
            f"far too small. Set prior_scale, such as {PRIOR_SCALE}, and let the kernel and the "
            "noise start at plausible values."
        )
    else:
        weights = np.exp(log_weights - log_weights.max())
        _warn_of_misfit(is_at_bound, least_fall, np.array(places), weights)
    return processes, np.exp(np.array(prior) - max(prior))


def _warn_of_misfit(is_at_bound: Any, least_fall: float, places: Array, weights: Array) -> None:
    """Warn if the mode is at a bound or not the only one, or if there is too much uncertainty."""
    mean = np.average(places, axis=0, weights=weights)
    deviation = np.sqrt(np.average((places - mean) ** 2, axis=0, weights=weights)).max()
    if is_at_bound.any():
        warn(
            'PairwiseGP: marginalize="all" averages around the best hyperparameters, and one of '
            "them is at its bound, so that standard deviations may be wrong. Set prior_scale "
            f"({PRIOR_SCALE} or less), widen the bounds, or use marginalize=None."
        )
    elif least_fall < _LEAST_FALL:
        warn(
            'PairwiseGP: marginalize="all" averages around the best hyperparameters, but quite '
            "different ones explain the comparisons nearly as well: standard deviations may be far "
            'too small. Set a smaller prior_scale, or compare with marginalize="grid".'
        )
    elif deviation > _MOST_UNCERTAIN:
        warn(
            'PairwiseGP: marginalize="all" averages over few points, and a hyperparameter is '
            f"uncertain by a factor of {np.exp(deviation):.1f}: standard deviations may be off by "
            f"more than 10%. Set prior_scale ({PRIOR_SCALE} or less), or use marginalize=None."
        )


def _axes(evidence: Evidence, free: Any, whole: Any) -> Array:
    """Principal axes of the curvature of the log posterior, as columns of standard deviations."""

    def slope(z: Array) -> tuple[Array, Array]:
        at = whole(z)
        return at[free], (evidence.value_and_gradient(at)[1] + evidence.log_prior(at)[1])[free]

    curvature = np.empty((len(free), len(free)))
    for k, e in enumerate(_STEP * np.eye(len(free))):
        (above, up), (below, down) = slope(e), slope(-e)
        curvature[k] = (down - up) / max(above[k] - below[k], np.finfo(float).tiny)
    values, vectors = np.linalg.eigh((curvature + curvature.T) / 2)
    return np.asarray(vectors / np.sqrt(np.maximum(values, _WIDEST**-2)))


def _reach(axis: Array, low: Array, high: Array) -> float:
    """The largest multiple of an axis within the bounds."""
    with np.errstate(divide="ignore", invalid="ignore"):
        limits = np.where(axis > 0, high / axis, np.where(axis < 0, low / axis, np.inf))
    return float(np.min(limits, initial=np.inf))
