"""Choosing the hyperparameters of a pairwise Gaussian process, or averaging over them.

`optimize` maximizes the evidence times the prior. `learn_slopes` and `learn_flips` add the slopes
of raters and a share of flips if the comparisons support them. `width_grid` and `composite_design`
average over hyperparameters instead.

The design is a central composite one. In d standardized coordinates z, in which the posterior of
the logarithms of the hyperparameters is about standard normal, the points are the mode, corners of
a cube, and a point on each half-axis. All but the mode have the norm r sqrt(d). Weights of points
times their densities integrate 1 and z'z of a normal distribution exactly, whatever r > 1 is. A few
points are therefore enough for many hyperparameters, as in integrated nested Laplace approximations
(Rue, Martino and Chopin, 2009).

The axes are the principal axes of the curvature at the mode. Each half-axis has its own scale, at
which the density at a distance of sqrt(2) is as for a normal distribution: the posterior may be
skewed, and it ends where the bounds of a hyperparameter are.

Variances of scores are about proportional to the variance of the kernel. Their mean over a standard
deviation of its logarithm of more than 1 depends on values that no point of the design reaches. A
few comparisons hardly determine this variance, so a prior is needed. For probit comparisons, whose
noise is the unit of scores, there is a default prior (`PRIOR_SCALE`).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, count
from typing import Any

import numpy as np
from scipy.optimize import fmin_l_bfgs_b
from sklearn.exceptions import ConvergenceWarning

from rankwise.backends.arrays import Array
from rankwise.errors import DataError, ParameterError, warn
from rankwise.gp.evidence import Evidence, NotConverged
from rankwise.gp.inference import gain_of_flips
from rankwise.gp.process import ConditionedProcess

Objective = Callable[[Array], tuple[float, Array]]  # minus the evidence, and its gradient
Design = tuple[list[ConditionedProcess], Array]  # processes, and their prior weights

_REACH, _BOXES = 1.0, 20  # size of the optimizer's first box, in logarithms; number of boxes
_STEPS, _CLOSE = 100, 1e-7  # iterations in a box, and the relative change that ends them
_FEW, _FIRST_SHARE = 0.01, 0.05  # share of flips that is tried, and where the search starts
_PATIENCE = 1.0  # sweeps with flips for each sweep without, unless the evidence rises enough
_ATTEMPTS = 3  # searches with flips
_COST_OF_INTEGRALS = 8.0  # relative cost of a pair with several comparisons, with flips
_ROUNDS, _SETTLED = 6, 0.05  # of slopes and spread in turn, until the log spread changes by less
_SPREADS = np.geomspace(1e-3, 10.0, 1000)  # standard deviations of log slopes that are tried
_NO_SPREAD = 0.02  # a spread of log slopes that is treated as none
_GRID_STEP = 0.25  # of the logarithm of the width
_NEGLIGIBLE = 8.0  # distance from the best log evidence beyond which weights are negligible
PRIOR_SCALE = 0.7  # of probit models with a design, if none is given
RADIUS = 1.1
_STEP = 0.02  # of differences of gradients, in logarithms
_FAR = 3.0  # a distance at which the log density of a normal distribution has fallen by 4.5
_LEAST_FALL = 2.0  # less than this, and there is much probability there
_AT = 1e-6  # distance from a bound, in logarithms, that is none
_WIDEST = 3.0  # standard deviation of a logarithm that comparisons hardly determine
_MOST_SKEWED = 4.0  # how much wider a half-axis may be than by the curvature
_FLAT = 1.0 / _MOST_SKEWED**2
_MOST_UNCERTAIN = np.log(3.0)  # standard deviation of a logarithm; more raises a warning


def optimize(
    evidence: Evidence, optimizer: Any, n_restarts: int, rng: np.random.Generator
) -> Array:
    """The theta that maximizes evidence times prior, from the start and from random points."""
    start, bounds = evidence.start, evidence.bounds
    if optimizer is None or not len(start):
        return start
    if n_restarts > 0 and not np.isfinite(bounds).all():
        raise ParameterError(
            "n_restarts_optimizer needs finite bounds of all free hyperparameters. Bound them, or "
            "use n_restarts_optimizer=0."
        )
    low, high = bounds.T
    begins = [np.clip(start, low, high)]
    begins += [rng.uniform(low, high) for _ in range(n_restarts)]
    results = [climb(evidence, optimizer, begin) for begin in begins]
    return min(results, key=lambda result: result[1])[0]


def learn_slopes(evidence: Evidence, theta: Array, optimizer: Any) -> tuple[Evidence, Array, Array]:
    """Add the slopes of raters, if these differ; also returns standard errors of log slopes.

    The slopes maximize evidence times prior together with all other hyperparameters. The spread of
    the prior maximizes an evidence in which log slopes are integrated out by Laplace's
    approximation. Both are found in turn. At first all slopes are 1: if raters do not differ, this
    costs a single posterior.
    """
    rater = evidence.observed.rater
    assert rater is not None
    n = int(rater.max(initial=-1)) + 1
    evidence, theta = evidence.with_slopes(theta, np.ones(n), 0.0)
    plain = evidence, theta, np.zeros(n)
    spread = 0.0
    for k in range(_ROUNDS + 1):
        slopes = evidence.at(theta).slopes
        assert slopes is not None
        slope, information = evidence.slope_estimates(theta)
        step = np.divide(slope, information, out=np.zeros(n), where=information > 0)
        before, spread = spread, spread_of(np.log(slopes) + step, information)
        if spread < _NO_SPREAD:
            return plain
        if k == _ROUNDS or (before and abs(np.log(spread / before)) < _SETTLED):
            break
        evidence, theta = evidence.with_slopes(theta, slopes, spread)
        theta = climb(evidence, optimizer, theta)[0]
    return evidence, theta, 1.0 / np.sqrt(information + evidence.spread**-2)


def spread_of(estimates: Array, information: Array) -> float:
    """The standard deviation w of log slopes with the greatest likelihood, or 0.

    An estimate is from N(0, w^2 + 1 / information). It is 0 unless w raises the log-likelihood by
    half the logarithm of the number of raters (Schwarz's penalty for a parameter).
    """
    known = information > 0
    widths = np.append(_SPREADS, 0.0)
    total = widths[:, None] ** 2 + 1.0 / information[known]
    loss = 0.5 * (np.log(total) + np.square(estimates[known]) / total).sum(axis=1)
    loss[-1] -= 0.5 * np.log(max(int(known.sum()), 1))
    return float(widths[::-1][np.argmin(loss[::-1])])


def learn_flips(evidence: Evidence, theta: Array, optimizer: Any) -> tuple[Evidence, Array]:
    """Add a share of flips if the comparisons support it; otherwise return what was given.

    If noise explains all contradictions, the evidence falls with the share from the start: a share
    is tried if one flip in a hundred explains the comparisons better than none. It is kept if the
    best evidence with it is greater by half the logarithm of the number of comparisons (Schwarz's
    penalty for a parameter). The search ends at the first posterior that does not converge, or when
    it has cost about as much as the fit without flips, unless such an evidence is found: then it
    begins again from the best hyperparameters so far, with small steps.
    """
    plain = evidence.process(theta).approximation
    counts, threshold = evidence.observed.values, evidence.at(theta).threshold
    if not plain.flips_slope > 0 or not gain_of_flips(plain, counts, threshold, _FEW) > 0:
        return evidence, theta
    penalty = 0.5 * np.log(max(float(counts.sum()), 1.0))
    flipped, begin = evidence.with_flips(_FIRST_SHARE), np.append(theta, np.log(_FIRST_SHARE))
    enough = plain.log_evidence + evidence.log_prior(theta)[0] + penalty
    repeated = float(np.mean(counts.sum(axis=1) != 1.0))
    patience = _PATIENCE * evidence.n_sweeps / (1.0 + _COST_OF_INTEGRALS * repeated)
    best, found = -np.inf, begin

    def watched(objective: Objective, start: Array, bounds: Array) -> tuple[Array, float]:
        def value_and_gradient(at: Array) -> tuple[float, Array]:
            nonlocal best, found
            if flipped.n_sweeps > patience and best <= enough:
                raise NotConverged
            value, gradient = objective(at)
            if -value > best:
                best, found = -value, np.array(at)
            return value, gradient

        run = optimizer if callable(optimizer) else _lbfgs
        return run(value_and_gradient, start, bounds)

    for _ in range(_ATTEMPTS):
        try:
            climb(flipped, watched, found)
            break
        except (DataError, NotConverged):
            if best <= enough:
                return evidence, theta
    try:
        gain = flipped.process(found).approximation.log_evidence + flipped.log_prior(found)[0]
    except (DataError, NotConverged):
        return evidence, theta
    return (flipped, found) if gain > enough else (evidence, theta)


def climb(evidence: Evidence, optimizer: Any, begin: Array) -> tuple[Array, float]:
    """The local maximum that the optimizer finds from one start, and minus its value."""

    def objective(theta: Array) -> tuple[float, Array]:
        value, gradient = evidence.value_and_gradient(theta)
        prior, slope = evidence.log_prior(theta)
        return -(value + prior), -(gradient + slope)

    run: Callable[..., tuple[Array, float]] = optimizer if callable(optimizer) else _lbfgs
    theta, value = run(objective, begin, evidence.bounds)
    return np.clip(theta, *evidence.bounds.T), float(value)


def _lbfgs(objective: Callable[[Array], Any], theta: Array, bounds: Array) -> tuple[Array, float]:
    """L-BFGS-B in a box around theta that moves with it.

    Far away the evidence is flat, and a long first step would end there. Therefore no step leaves
    the box, and the box moves and grows as long as theta is on its boundary.
    """
    low, high = bounds.T
    value, reach = np.inf, _REACH
    for _ in range(_BOXES):
        near, far = np.maximum(low, theta - reach), np.minimum(high, theta + reach)
        box = list(zip(near.tolist(), far.tolist(), strict=True))
        found, least, _ = fmin_l_bfgs_b(
            objective, theta, bounds=box, maxiter=_STEPS, factr=_CLOSE / np.finfo(float).eps,
            pgtol=1e-3,
        )  # fmt: skip
        moved, gain = np.abs(found - theta), value - float(least)
        theta, value = np.asarray(found), float(least)
        inside = (moved < reach - 1e-9) | (theta <= low + 1e-9) | (theta >= high - 1e-9)
        if inside.all() or gain < 1e-6 * (1.0 + abs(value)):
            return theta, value
        reach *= 2.0
    warn(
        f"The hyperparameters did not converge in {_BOXES} rounds of L-BFGS: narrow the bounds of "
        "the kernel, set prior_scale, or scale the features.",
        ConvergenceWarning,
    )
    return theta, value


def width_grid(evidence: Evidence, theta: Array) -> Design:
    """The process on a grid of widths of its kernel, and their prior weights.

    All length scales are multiplied by exp(k / 4), k = ..., -1, 0, 1, ..., within their bounds and
    until the evidence is negligible. The prior is uniform in their logarithm, or log-normal
    with `prior_scale`. The other hyperparameters stay as they are.
    """
    widths = _width_positions(evidence.hyper.kernel)
    low, high = evidence.bounds.T
    direction = np.zeros(len(theta))
    direction[widths] = _GRID_STEP
    found: dict[int, tuple[float, ConditionedProcess]] = {}

    def look(k: int) -> float:
        at = theta + k * direction
        process, prior = evidence.process(at), evidence.log_prior(at)[0]
        found[k] = (prior, process)
        return process.approximation.log_evidence + prior

    best = look(0)
    for sign in (1, -1):
        for k in count(sign, sign):
            at = (theta + k * direction)[widths]
            if (at < low[widths] - 1e-9).any() or (at > high[widths] + 1e-9).any():
                break
            value = look(k)
            best = max(best, value)
            if value < best - _NEGLIGIBLE:
                break
    priors = np.array([found[k][0] for k in sorted(found)])
    return [found[k][1] for k in sorted(found)], np.exp(priors - priors.max())


def _width_positions(kernel: Any) -> Any:
    """Positions of the length scales in theta."""
    free = [parameter for parameter in kernel.hyperparameters if not parameter.fixed]
    names = np.repeat([p.name for p in free], [p.n_elements for p in free])
    positions = np.flatnonzero(np.char.endswith(names.astype(str), "length_scale"))
    if not len(positions):
        raise ParameterError(
            'marginalize="grid" averages over the width of the kernel, but this kernel has no free '
            f"length_scale: {kernel}. Use RBF or Matern with bounds, or marginalize=None."
        )
    return positions


def warn_unless_converged(processes: list[ConditionedProcess], inference: str) -> None:
    """Warn about the posterior with the largest error, if one did not converge."""
    a = max((p.approximation for p in processes), key=lambda a: 0.0 if a.converged else a.residual)
    if a.converged:
        return
    newton = inference == "laplace"
    warn(
        f"{'Newton' if newton else 'Expectation propagation'} stopped after "
        f"{a.n_sweeps} {'steps' if newton else 'sweeps'}, with moments off by {a.residual:.1e} of "
        "their spread: raise max_sweeps or tol in GPOptions, or use a kernel with a smaller "
        "variance relative to the noise.",
        ConvergenceWarning,
    )


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
        evidence.process(theta)  # raises the error
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
    densities = np.exp(log_weights - log_weights.max())
    misfit = _misfit(evidence, is_at_bound.any(), least_fall, np.array(places), densities)
    if misfit:
        warn(f'PairwiseGP: marginalize="all" averages over few points, {misfit}.')
    return processes, np.exp(np.array(prior) - max(prior))


def _misfit(
    evidence: Evidence, is_at_bound: bool, least_fall: float, places: Array, densities: Array
) -> str | None:
    """Why the design may not describe the posterior of the hyperparameters, and what to do."""
    mean = np.average(places, axis=0, weights=densities)
    deviation = np.sqrt(np.average((places - mean) ** 2, axis=0, weights=densities)).max()
    faults = {
        "without a prior": evidence.prior_scale is None,
        "with a hyperparameter at its bound": is_at_bound,
        "with quite different hyperparameters that explain the comparisons nearly as well": (
            least_fall < _LEAST_FALL
        ),
        f"with a hyperparameter that is uncertain by a factor of {np.exp(deviation):.1f}": (
            deviation > _MOST_UNCERTAIN
        ),
    }
    found = next((words for words, holds in faults.items() if holds), None)
    return found and (
        f"{found}: standard deviations may be far off. Set prior_scale ({PRIOR_SCALE} or "
        "less), widen the bounds, or use marginalize=None"
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
