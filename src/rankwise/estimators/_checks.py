"""What users give us, checked once, at the edge."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterable
from numbers import Real
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array
from rankwise.backends.backend import Backend
from rankwise.backends.dispatch import NUMPY
from rankwise.errors import DataError, KernelSizeError, ParameterError

LANDMARK_MATRICES = 7  # of landmarks by landmarks that a fit on a device holds at its widest


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


def check_has_pairs(n_pairs: int, n_rows: int, n_queries: int = 0, ties: str = "include") -> None:
    """Rows without a pair teach nothing; no queries means comparisons."""
    if n_pairs:
        return
    if n_queries == 0:
        raise DataError("Every comparison weighs 0: there is nothing to learn from.")
    queries = "query" if n_queries == 1 else "queries"
    if ties == "exclude":
        raise DataError(
            f"No query has two different labels ({n_queries} {queries}, {n_rows} rows): "
            'there is no pair to learn from. Check the labels and qid, or use ties="include".'
        )
    raise DataError(
        f"Every query has a single row ({n_queries} queries): there is no pair to learn from. "
        "Check qid: rows that are ranked together share one id."
    )


def check_kernel_fits(
    n_rows: int,
    on: Backend = NUMPY,
    way_out: str = "Use SparseRankRLS, kernel='linear', or fewer rows.",
    n_matrices: float = 1.0,
) -> None:
    """A kernel matrix of these rows, and others of its size, fit the memory there is."""
    others = " and its eigenvectors" if n_matrices > 1 else ""
    if not on.is_host:  # where nothing is factored in place, and factoring needs room
        n_matrices, others = n_matrices + 2, " and what is made of it"
    _check_memory(
        f"The kernel matrix of {n_rows} rows{others}",
        int(8 * n_matrices * n_rows**2),
        on,
        lambda free: f"{way_out} {int((free / 8 / n_matrices) ** 0.5)} rows would fit.",
    )


def check_features_fit(n_rows: int, n_features: int, on: Backend = NUMPY) -> None:
    """Dense features of these rows fit the memory there is."""
    _check_memory(
        f"Holding out needs the coordinates of {n_rows} rows on {n_features} landmarks, which",
        8 * n_rows * n_features,
        on,
        lambda free: f"Use fewer landmarks or rows: {free // 8 // n_rows} landmarks would fit.",
    )


def check_landmarks_fit(n_landmarks: int, on: Backend) -> None:
    """What a fit on landmarks holds at its widest fits the memory of a device.

    The kernel matrix of the landmarks, its factor, the moments, what is made of them for one
    alpha, and a few blocks of rows.
    """
    if on.is_host:
        return
    _check_memory(
        f"A fit on {n_landmarks} landmarks",
        8 * LANDMARK_MATRICES * n_landmarks**2 + 8 * 256 * n_landmarks,
        on,
        lambda free: (
            f"Use fewer: {int((free / 8 / LANDMARK_MATRICES) ** 0.5)} landmarks would fit."
        ),
    )


def _check_memory(what: str, needed: int, on: Backend, way_out: Callable[[int], str]) -> None:
    free = on.free_bytes()
    if free is not None:
        if needed > free:
            raise KernelSizeError(
                f"{what} needs {needed / 2**30:.1f} GiB, and the device has {free / 2**30:.1f} "
                f"free: {(needed - free) / 2**30:.1f} too little. {way_out(free)}"
            )
        return
    if not hasattr(os, "sysconf"):  # Windows does not tell this way
        return
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > total:
        raise KernelSizeError(
            f"{what} needs {needed / 2**30:.0f} GiB, and this machine has {total / 2**30:.0f}. "
            f"{way_out(total)}"
        )


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
