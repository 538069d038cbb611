"""What users give us, checked once, at the edge."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from numbers import Real
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array
from rankwise.errors import ParameterError


def check_choice(name: str, value: Any, choices: Iterable[str]) -> None:
    """`value` is one of `choices`, or an error that names them."""
    choices = tuple(choices)
    if value not in choices:
        near = difflib.get_close_matches(str(value), choices, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ParameterError(f"{name} must be one of {', '.join(choices)}: got {value!r}.{hint}")


def check_alpha(alpha: Any) -> float:
    """A finite number that is not negative."""
    if type(alpha) is bool or not isinstance(alpha, Real) or not 0 <= float(alpha) < np.inf:
        raise ParameterError(f"alpha must be a finite number, 0 or more: got {alpha!r}.")
    return float(alpha)


def check_alphas(alphas: Any) -> Array:
    """A non-empty vector of them."""
    values = np.asarray(alphas) if np.ndim(alphas) else np.asarray([alphas])
    if values.ndim != 1 or len(values) == 0:
        raise ParameterError(f"alphas must be a non-empty list of numbers: got {alphas!r}.")
    return np.array([check_alpha(alpha) for alpha in values.tolist()])


def check_whole(name: str, value: Any, low: int, high: int = 2**62) -> None:
    """A whole number from `low` to `high`; by default all that compiled code can count with."""
    if type(value) is bool or not isinstance(value, (int, np.integer)) or not low <= value <= high:
        allowed = f"from {low} to {high} here" if high < 2**62 else f"of {low} or more"
        raise ParameterError(f"{name} must be a whole number {allowed}: got {value!r}.")


def check_random_state(random_state: Any) -> np.random.Generator:
    """A generator from whatever scikit-learn or NumPy would take."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise ParameterError(
            f"random_state must be None, a whole number, 0 or more, or a generator: got "
            f"{random_state!r}."
        ) from None
