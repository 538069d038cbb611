"""Choosing the hyper-parameters of a pairwise Gaussian process, or averaging over them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import fmin_l_bfgs_b
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from rankwise.backends.arrays import Array
from rankwise.errors import DataError, ParameterError
from rankwise.estimators.gp.evidence import Evidence
from rankwise.estimators.gp.process import Component, Inference

_MEDIAN_ROWS = 500  # rows whose distances are looked at
_WIDEST = 1e150  # distance whose square is a number
_FEW, _FIRST_SHARE = 0.01, 0.05  # flips: the share they are tried with, and where it starts
_REACH, _BOXES = 1.5, 20  # of a box that the optimizer stays in, in logarithms; and how many
_STEPS, _CLOSE = 100, 1e-7  # of the optimizer in a box, and change that ends them, relative
_NEGLIGIBLE = 8.0  # a log evidence so far below the best has no weight


def default_kernel(X: Array) -> Any:
    """A constant times RBF, its width starting at the median distance of rows."""
    from scipy.spatial.distance import pdist

    rows = X[:: max(1, len(X) // _MEDIAN_ROWS)]
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


def log_prior(theta: Array, start: Array, scale: Any) -> tuple[float, Array]:
    """Log-normal, its median where theta starts, up to a constant; with its gradient."""
    if scale is None:
        return 0.0, np.zeros(len(theta))
    z = (theta - start) / np.broadcast_to(np.asarray(scale, dtype=np.float64), theta.shape)
    return float(-0.5 * z @ z), -z / scale


@dataclass(frozen=True)
class Search:
    """How hyper-parameters are looked for.

    Attributes
    ----------
    optimizer : "lbfgs", callable or None
    n_restarts : int
    prior_scale : float, array-like or None
    """

    optimizer: Any
    n_restarts: int
    prior_scale: Any


def optimize(evidence: Evidence, search: Search, rng: np.random.Generator) -> Array:
    """The theta of greatest evidence times prior, from the start and from random places."""
    start, bounds, prior_scale = evidence.start, evidence.bounds, search.prior_scale
    if np.ndim(prior_scale) and np.shape(prior_scale) != start.shape:
        raise ParameterError(
            f"prior_scale needs one entry for each of the {len(start)} free hyper-parameters, or "
            f"one for all: got shape {np.shape(prior_scale)}."
        )
    if search.optimizer is None or not len(start):
        return start
    if search.n_restarts > 0 and not np.isfinite(bounds).all():
        raise ParameterError(
            "n_restarts needs bounds that are finite for all free hyper-parameters. Bound them, "
            "or use n_restarts=0."
        )

    low, high = bounds.T
    begins = [np.clip(start, low, high)]
    begins += [rng.uniform(low, high) for _ in range(search.n_restarts)]
    results = [_climb(evidence, search, begin) for begin in begins]
    return min(results, key=lambda result: result[1])[0]


def learn_flips(evidence: Evidence, theta: Array, search: Search) -> tuple[Evidence, Array, Search]:
    """With a share of flips as well, if the comparisons ask for one; else as it was.

    They may where one flip in a hundred explains them better than none: if noise explains all
    contradictions, the evidence falls with the share from the start. The share stays if the
    best evidence with it is greater by half the logarithm of the number of comparisons,
    Schwarz's price of a parameter, and its posterior converged.
    """
    plain = evidence.component(theta).approximation
    nothing, more, wider = (evidence, theta, search), evidence.with_flips(_FIRST_SHARE), search
    if search.prior_scale is not None:  # none on the share
        scale = np.broadcast_to(np.asarray(search.prior_scale, np.float64), theta.shape)
        wider = replace(search, prior_scale=np.append(scale, np.inf))
    try:
        few = more.component(np.append(theta, np.log(_FEW))).approximation
        if not few.log_evidence > plain.log_evidence:
            return nothing
        found, _ = _climb(more, wider, np.append(theta, np.log(_FIRST_SHARE)))
        slips = more.component(found).approximation
    except DataError:  # a model without a posterior is not one to choose
        return nothing
    price = 0.5 * np.log(max(float(np.asarray(evidence.observed.counts).sum()), 1.0))
    gain = slips.log_evidence + log_prior(found, more.start, wider.prior_scale)[0]
    gain -= plain.log_evidence + log_prior(theta, evidence.start, search.prior_scale)[0]
    return (more, found, wider) if slips.converged and gain > price else nothing


def _climb(evidence: Evidence, search: Search, begin: Array) -> tuple[Array, float]:
    """The top that is reached from one place, and minus its height."""
    start, bounds = evidence.start, evidence.bounds

    def objective(theta: Array) -> tuple[float, Array]:
        value, gradient = evidence.value_and_gradient(theta)
        prior, slope = log_prior(theta, start, search.prior_scale)
        return -(value + prior), -(gradient + slope)

    run: Callable[..., tuple[Array, float]]
    run = search.optimizer if callable(search.optimizer) else _lbfgs
    theta, value = run(objective, begin, bounds)
    return np.clip(theta, *bounds.T), float(value)


def _lbfgs(objective: Callable[[Array], Any], theta: Array, bounds: Array) -> tuple[Array, float]:
    """L-BFGS-B in a box around theta that follows it.

    The evidence is flat far away, where a long step would end: no step leaves the box, which
    grows where theta leans on it.
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
    warnings.warn(
        f"The hyper-parameters were still moving after {_BOXES} rounds of L-BFGS: narrow the "
        "bounds of the kernel, give prior_scale, or scale the features.",
        ConvergenceWarning,
        stacklevel=6,
    )
    return theta, value


def grid(
    evidence: Evidence, theta: Array, step: float, search: Search
) -> tuple[list[Component], Array]:
    """The process at many widths of its kernel, and their prior weights.

    All length scales are multiplied by exp(k step), k = ..., -1, 0, 1, ..., as far as their
    bounds and the evidence reach; the prior is uniform in their logarithm, or log-normal with
    `prior_scale`. The other hyper-parameters stay as they are.
    """
    widths = _width_positions(evidence.kernel)
    low, high = evidence.bounds.T
    direction = np.zeros(len(theta))
    direction[widths] = step
    found: dict[int, tuple[float, Component]] = {}

    def look(k: int) -> float:
        at = theta + k * direction
        component = evidence.component(at)
        prior = log_prior(at, evidence.start, search.prior_scale)[0]
        found[k] = (prior, component)
        return component.approximation.log_evidence + prior

    best = look(0)
    for sign in (1, -1):
        k = sign
        while True:
            at = (theta + k * direction)[widths]
            if (at < low[widths] - 1e-9).any() or (at > high[widths] + 1e-9).any():
                break
            value = look(k)
            best = max(best, value)
            if value < best - _NEGLIGIBLE:
                break
            k += sign
    priors = np.array([found[k][0] for k in sorted(found)])
    return [found[k][1] for k in sorted(found)], np.exp(priors - priors.max())


def _width_positions(kernel: Any) -> Any:
    """Where theta holds logarithms of length scales."""
    positions: list[int] = []
    k = 0
    for parameter in kernel.hyperparameters:
        if parameter.fixed:
            continue
        if parameter.name.endswith("length_scale"):
            positions += range(k, k + parameter.n_elements)
        k += parameter.n_elements
    if not positions:
        raise ParameterError(
            'marginalize="grid" averages over the width of the kernel, and this one has no free '
            f"length_scale: {kernel}. Use RBF or Matern with bounds, or marginalize=None."
        )
    return np.array(positions)


def warn_unless_converged(components: list[Component], inference: Inference) -> None:
    """Say how far off the posterior is, the worst of them, and what to do."""
    a = max((c.approximation for c in components), key=lambda a: 0.0 if a.converged else a.residual)
    if a.converged:
        return
    newton = inference.method == "laplace"
    turns = "" if newton or inference.sequential else 'use sweeps="sequential", '
    warnings.warn(
        f"{'Newton' if newton else 'Expectation propagation'} stopped after "
        f"{a.n_sweeps} {'steps' if newton else 'sweeps'} with moments off by {a.residual:.1e} of "
        f"their spread: raise max_sweeps or tol, {turns}or take a kernel whose variance is smaller "
        "beside the noise.",
        ConvergenceWarning,
        stacklevel=4,
    )
