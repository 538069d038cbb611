"""Checks of values that users pass to functions and methods."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from numbers import Real
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array
from rankwise.errors import ParameterError


def check_choice(name: str, value: Any, choices: Iterable[str]) -> None:
    """Raise an error if `value` is not one of `choices`."""
    choices = tuple(choices)
    if value not in choices:
        near = difflib.get_close_matches(str(value), choices, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ParameterError(f"{name} must be one of {', '.join(choices)}: got {value!r}.{hint}")


def check_alpha(alpha: Any) -> float:
    """A finite, nonnegative number as a float."""
    if type(alpha) is bool or not isinstance(alpha, Real) or not 0 <= float(alpha) < np.inf:
        raise ParameterError(f"alpha must be a finite number, 0 or more: got {alpha!r}.")
    return float(alpha)


def check_alphas(alphas: Any) -> Array:
    """A non-empty vector of alphas."""
    values = np.asarray(alphas) if np.ndim(alphas) else np.asarray([alphas])
    if values.ndim != 1 or len(values) == 0:
        raise ParameterError(f"alphas must be a non-empty list of numbers: got {alphas!r}.")
    return np.array([check_alpha(alpha) for alpha in values.tolist()])


def check_whole(name: str, value: Any, low: int, high: int = 2**62) -> None:
    """Raise an error if `value` is not an integer from `low` to `high`."""
    if type(value) is bool or not isinstance(value, (int, np.integer)) or not low <= value <= high:
        allowed = f"from {low} to {high}" if high < 2**62 else f"of at least {low}"
        raise ParameterError(f"{name} must be an integer {allowed}: got {value!r}.")


def check_random_state(random_state: Any) -> np.random.Generator:
    """A random generator from any seed that NumPy or scikit-learn accepts."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise ParameterError(
            f"random_state must be None, an integer of at least 0, or a generator: got "
            f"{random_state!r}."
        ) from None
