"""Choosing the hyperparameters of a pairwise Gaussian process, or averaging over them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
from scipy.optimize import fmin_l_bfgs_b
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct

from rankwise.backends.arrays import Array
from rankwise.errors import DataError, ParameterError, warn
from rankwise.estimators._scaling import check_not_tiny
from rankwise.estimators.gp.conditioned_process import ConditionedProcess
from rankwise.estimators.gp.evidence import Evidence, InferenceSettings, NotConverged
from rankwise.estimators.gp.on_columns import OnColumns
from rankwise.scaling import ColumnStatistics
from rankwise.solvers.gp.ep import gain_of_flips

Objective = Callable[[Array], tuple[float, Array]]  # minus the evidence, and its gradient

_MEDIAN_ROWS = 500  # rows whose median distance is taken
_WIDEST = 1e150  # a distance whose square is finite
_FEW, _FIRST_SHARE = 0.01, 0.05  # share of flips that is tried, and where the search starts
_STEPS_IN_REACH = 3.0  # how far the rise of the last two values is extrapolated
_LAST_SWEEPS = 2.5  # times that patience, if the rise is in reach
_PATIENCE = 0.4  # sweeps with flips for each sweep without, unless the evidence rises enough
_COST_OF_INTEGRALS = 8.0  # relative cost of a pair with several comparisons, with flips
_REACH, _BOXES = 1.0, 20  # size of the optimizer's first box, in logarithms; number of boxes
_STEPS, _CLOSE = 100, 1e-7  # iterations in a box, and the relative change that ends them
_NEGLIGIBLE = 8.0  # distance from the best log evidence beyond which weights are negligible


def default_kernel(X: Array) -> Any:
    """A constant times RBF, whose width starts at the median distance of rows."""
    from scipy.spatial.distance import pdist

    rows = X[:: max(1, len(X) // _MEDIAN_ROWS)]
    check_not_tiny(ColumnStatistics.of(rows))
    with np.errstate(over="ignore"):
        distances = pdist(rows) if len(rows) > 1 else np.ones(1)
    distances = distances[distances > 0]
    width = float(np.median(distances)) if len(distances) else 1.0
    if not width < _WIDEST:
        raise DataError(
            "Rows of X are too far apart for their distances to be computed. Scale the features, "
            "for example with sklearn.preprocessing.StandardScaler."
        )
    return ConstantKernel(1.0, (1e-2, 1e4)) * RBF(width, (1e-2 * width, 1e2 * width))


def has_one_scale(kernel: Any) -> bool:
    """Whether a part of a kernel has the same scale for all features."""
    parts = (kernel, *kernel.get_params().values())
    if any(isinstance(part, OnColumns) for part in parts):
        return False
    return any(
        isinstance(part, DotProduct) or np.size(getattr(part, "length_scale", ())) == 1
        for part in parts
    )


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


def learn_flips(evidence: Evidence, theta: Array, optimizer: Any) -> tuple[Evidence, Array]:
    """Add a share of flips if the comparisons support it; otherwise return what was given.

    If noise explains all contradictions, the evidence falls with the share from the start: a share
    is tried if one flip in a hundred explains the comparisons better than none. It is kept if the
    best evidence with it is greater by half the logarithm of the number of comparisons (Schwarz's
    penalty for a parameter). The search ends at the first posterior that does not converge. It also
    ends when it has cost about half as much as the fit without flips, unless such an evidence is
    found, or is in reach: a few more steps like the last ones would lead there. Then it may cost as
    much as the fit.
    """
    plain = evidence.process(theta).approximation
    counts, threshold = evidence.observed.values, evidence.at(theta).threshold
    if not plain.flips_slope > 0 or not gain_of_flips(plain, counts, threshold, _FEW) > 0:
        return evidence, theta
    penalty = 0.5 * np.log(max(float(counts.sum()), 1.0))
    flipped, begin = evidence.with_flips(_FIRST_SHARE), np.append(theta, np.log(_FIRST_SHARE))
    without = plain.log_evidence + evidence.log_prior(theta)[0]
    enough = without + penalty
    repeated = float(np.mean(counts.sum(axis=1) != 1.0))
    patience = _PATIENCE * evidence.n_sweeps / (1.0 + _COST_OF_INTEGRALS * repeated)
    values: list[float] = []

    def watched(objective: Objective, start: Array, bounds: Array) -> tuple[Array, float]:
        def value_and_gradient(at: Array) -> tuple[float, Array]:
            if values and flipped.n_sweeps > patience and max(values) <= enough:
                rise = max(values) - max(values[:-2], default=-np.inf)
                in_reach = max(values) + _STEPS_IN_REACH * rise > enough
                if not in_reach or flipped.n_sweeps > _LAST_SWEEPS * patience:
                    raise NotConverged
            value, gradient = objective(at)
            values.append(-value)
            return value, gradient

        run = optimizer if callable(optimizer) else _lbfgs
        return run(value_and_gradient, start, bounds)

    try:
        found, _ = climb(flipped, watched, begin)
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

    Far away the evidence is flat, and a long first step would end there. So no step leaves the
    box, and the box moves and grows as long as theta is on its edge.
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


def width_grid(
    evidence: Evidence, theta: Array, step: float
) -> tuple[list[ConditionedProcess], Array]:
    """The process on a grid of widths of its kernel, and their prior weights.

    All length scales are multiplied by exp(k step), k = ..., -1, 0, 1, ..., within their bounds
    and until the evidence is negligible. The prior is uniform in their logarithm, or log-normal
    with `prior_scale`. The other hyperparameters stay as they are.
    """
    widths = _width_positions(evidence.hyper.kernel)
    low, high = evidence.bounds.T
    direction = np.zeros(len(theta))
    direction[widths] = step
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


def warn_unless_converged(
    processes: list[ConditionedProcess], inference: InferenceSettings
) -> None:
    """Warn about the posterior with the largest error, if one did not converge."""
    a = max((p.approximation for p in processes), key=lambda a: 0.0 if a.converged else a.residual)
    if a.converged:
        return
    newton = inference.method == "laplace"
    sequential = "" if newton or inference.sequential else 'use sweeps="sequential", '
    warn(
        f"{'Newton' if newton else 'Expectation propagation'} stopped after "
        f"{a.n_sweeps} {'steps' if newton else 'sweeps'}, with moments off by {a.residual:.1e} of "
        f"their spread: raise max_sweeps or tol, {sequential}or use a kernel with a smaller "
        "variance relative to the noise.",
        ConvergenceWarning,
    )
