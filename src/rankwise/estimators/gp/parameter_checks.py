"""Checks of the parameters of a pairwise Gaussian process."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwise.errors import ParameterError
from rankwise.parameters import (
    AnyOf,
    Choice,
    Flag,
    Number,
    Rule,
    Whole,
    check_parameters,
    check_value,
)

_GAUSSIAN_NOISE_BOUNDS = (1e-5, 1e5)
_LEAST, _MOST = 1e-100, 1e100  # numbers whose squares are finite and not 0
_POSITIVE = Number(_LEAST, _MOST)
PARAMETERS: dict[str, Rule] = {
    "likelihood": Choice("probit", "gaussian"),
    "noise": _POSITIVE,
    "tie_model": Choice("half", "threshold"),
    "threshold": _POSITIVE,
    "flips": AnyOf(Choice("auto"), Number(0, 0.5, open_high=True)),
    "n_restarts_optimizer": Whole(0, 10**6),
    "inference": Choice("ep", "laplace"),
    "sweeps": Choice("parallel", "sequential"),
    "marginalize": AnyOf(None, Choice("grid", "all")),
    "grid_step": Number(0.01, _MOST),
    "max_pairs": Whole(1, 10**12),
    "tol": _POSITIVE,
    "max_sweeps": Whole(1, 10**9),
    "verbose": Flag(),
}


def check_gp_parameters(gp: Any) -> None:
    """Check every parameter of a `PairwiseGP` but the landmarks, which are checked when chosen."""
    check_parameters(gp, PARAMETERS)
    if not callable(gp.optimizer):
        check_value("optimizer", gp.optimizer, AnyOf(None, Choice("lbfgs")))
    if not isinstance(gp.flips, str) and gp.flips and not _models_flips(gp):
        raise ParameterError('flips needs likelihood="probit" and inference="ep".')
    _check_prior_scale(gp.prior_scale)
    noise_bounds(gp)
    usable = hasattr(gp.kernel, "clone_with_theta") and not isinstance(gp.kernel, type)
    if gp.kernel is not None and not usable:
        raise ParameterError(
            "kernel must be one of sklearn.gaussian_process.kernels, such as RBF(1.0), or None: "
            f"got {gp.kernel!r}."
        )


def noise_bounds(gp: Any) -> tuple[float, float] | None:
    """Bounds of the noise; None if it is fixed."""
    bounds = gp.noise_bounds
    if isinstance(bounds, str):
        check_value("noise_bounds", bounds, Choice("auto", "fixed"))
        free = bounds == "auto" and gp.likelihood == "gaussian"
        return _GAUSSIAN_NOISE_BOUNDS if free else None
    try:
        low, high = (float(value) for value in bounds)
    except (TypeError, ValueError):
        low, high = np.nan, np.nan
    if not _LEAST <= low <= high <= _MOST:
        raise ParameterError(
            f'noise_bounds must be "auto", "fixed" or two numbers from {_LEAST:g} to {_MOST:g}, '
            f"the smaller first: got {bounds!r}."
        )
    return low, high


def first_flips(gp: Any) -> float:
    """The share of flips that a fit starts with; "auto" starts without."""
    return 0.0 if isinstance(gp.flips, str) else float(gp.flips)


def may_learn_flips(gp: Any) -> bool:
    """Whether a share of flips is learned if the evidence supports one."""
    return isinstance(gp.flips, str) and gp.optimizer is not None and _models_flips(gp)


def _models_flips(gp: Any) -> bool:
    return bool(gp.likelihood == "probit" and gp.inference == "ep")


def _check_prior_scale(scale: Any) -> None:
    if scale is None:
        return
    try:
        values = np.asarray(scale, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.full(1, np.nan)
    if not ((values > 0) & np.isfinite(values)).all():
        raise ParameterError(f"prior_scale must be finite and above 0, or None: got {scale!r}.")
