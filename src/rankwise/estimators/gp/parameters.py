"""Parameters of a pairwise Gaussian process, checked."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from rankwise.errors import ParameterError
from rankwise.estimators._checks import check_choice, check_whole

_GAUSSIAN_NOISE_BOUNDS = (1e-5, 1e5)
_CHOICES = {
    "likelihood": ("probit", "gaussian"),
    "ties": ("half", "threshold"),
    "inference": ("ep", "laplace"),
    "sweeps": ("parallel", "sequential"),
}
_LEAST, _MOST = 1e-100, 1e100  # so that squares are numbers
_FINEST = 0.01  # step of the logarithm of a width
_POSITIVE = ("noise", "threshold", "grid_step", "tol")
_WHOLE = {"n_restarts": (0, 10**6), "max_sweeps": (1, 10**9), "max_pairs": (1, 10**12)}


def check_parameters(gp: Any) -> None:
    """Every parameter of a `PairwiseGP` but the landmarks, which are checked when chosen."""
    for name, choices in _CHOICES.items():
        check_choice(name, getattr(gp, name), choices)
    for name in _POSITIVE:
        _check_positive(name, getattr(gp, name))
    for name, (low, high) in _WHOLE.items():
        check_whole(name, getattr(gp, name), low, high)
    if not gp.grid_step >= _FINEST:
        raise ParameterError(f"grid_step must be at least {_FINEST}: got {gp.grid_step!r}.")
    if gp.marginalize is not None:
        check_choice("marginalize", gp.marginalize, ("grid",))
    if gp.optimizer is not None and not callable(gp.optimizer):
        check_choice("optimizer", gp.optimizer, ("lbfgs",))
    _check_flips(gp)
    _check_prior_scale(gp.prior_scale)
    noise_bounds(gp)
    usable = hasattr(gp.kernel, "clone_with_theta") and not isinstance(gp.kernel, type)
    if gp.kernel is not None and not usable:
        raise ParameterError(
            "kernel must be one of sklearn.gaussian_process.kernels, such as RBF(1.0), or None: "
            f"got {gp.kernel!r}."
        )


def noise_bounds(gp: Any) -> tuple[float, float] | None:
    """Where the noise may go; None: it is fixed."""
    bounds = gp.noise_bounds
    if isinstance(bounds, str):
        check_choice("noise_bounds", bounds, ("auto", "fixed"))
        free = bounds == "auto" and gp.likelihood == "gaussian"
        return _GAUSSIAN_NOISE_BOUNDS if free else None
    if not _are_bounds(bounds):
        raise ParameterError(
            f'noise_bounds must be "auto", "fixed" or two numbers from {_LEAST:g} to {_MOST:g}, '
            f"the smaller first: got {bounds!r}."
        )
    return float(bounds[0]), float(bounds[1])


def _are_bounds(values: Any) -> bool:
    try:
        low, high = (float(value) for value in values)
    except (TypeError, ValueError):
        return False
    return _LEAST <= low <= high <= _MOST


def first_flips(gp: Any) -> float:
    """The share of flips that a fit starts with; "auto" starts without."""
    return 0.0 if isinstance(gp.flips, str) else float(gp.flips)


def may_learn_flips(gp: Any) -> bool:
    """Whether a share of flips is learned where the evidence asks for one."""
    able = gp.likelihood == "probit" and gp.inference == "ep" and gp.optimizer is not None
    return isinstance(gp.flips, str) and able


def _check_flips(gp: Any) -> None:
    flips = gp.flips
    if isinstance(flips, str):
        check_choice("flips", flips, ("auto",))
        return
    if type(flips) is bool or not isinstance(flips, Real) or not 0 <= float(flips) < 0.5:
        raise ParameterError(f'flips must be "auto" or a share from 0 to below 0.5: got {flips!r}.')
    if flips and (gp.likelihood != "probit" or gp.inference != "ep"):
        raise ParameterError('flips needs likelihood="probit" and inference="ep".')


def _check_prior_scale(scale: Any) -> None:
    if scale is None:
        return
    try:
        values = np.asarray(scale, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.full(1, np.nan)
    if not ((values > 0) & np.isfinite(values)).all():
        raise ParameterError(f"prior_scale must be finite and above 0, or None: got {scale!r}.")


def _check_positive(name: str, value: Any) -> None:
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not _LEAST <= float(value) <= _MOST:
        raise ParameterError(
            f"{name} must be a number from {_LEAST:g} to {_MOST:g}: got {value!r}."
        )
