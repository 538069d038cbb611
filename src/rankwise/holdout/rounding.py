"""Where care ends: hold-outs with an alpha below the rounding errors of the data are refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from rankwise.backends.arrays import EPS, backend_of
from rankwise.errors import DataError, warn

REFUSED = 0.1  # relative error above which a hold-out is refused
UNRELIABLE = 1e-4  # relative error above which a hold-out has few correct digits
CLOSE = EPS / UNRELIABLE  # alphas below CLOSE times the norm of the data need a check
SAME_SCORES = 1e-2  # relative rounding error above which large alphas are refused
COMPARED = 1e-2  # relative error that does not matter for which of many alphas is best
_WARNED_FROM = ContextVar("warned_from", default=UNRELIABLE)


def lost_in_rounding() -> DataError:
    """The error for an alpha that is too small to have an effect."""
    return DataError(
        "An alpha is too small relative to the rounding errors of the data: exact hold-outs are "
        "not possible. Use a larger alpha, or scale the features."
    )


def check_digits(norm: float, least: float) -> None:
    """Refuse an alpha that leaves a matrix singular up to rounding errors; warn if it is close.

    All plans call this function with the norm and the smallest eigenvalue, or bounds of both, of
    the matrix that an alpha makes regular, such as K + lam I.
    """
    error = EPS * norm / least if least > 0.0 else np.inf
    if not error < REFUSED:  # also if it is NaN
        raise lost_in_rounding()
    if error > _WARNED_FROM.get():
        warn(
            "An alpha is too small relative to the rounding errors of the kernel: its hold-outs "
            f"are unreliable (relative error up to {error:.0e}). Use larger alphas.",
        )


def check_fold(error: float, least: float) -> None:
    """The same for the matrix of a fold, whose entries have errors of up to `error` times EPS.

    This is a bound, and can be far from the errors of features on very different scales. While
    alphas are compared, a fold is refused only if its matrix is singular itself.
    """
    check_digits(1.0 if _WARNED_FROM.get() == COMPARED else error, least)


@contextmanager
def alphas_compared() -> Iterator[None]:
    """Alphas of a grid of ours are compared: warn only of errors that could change the choice."""
    token = _WARNED_FROM.set(COMPARED)
    try:
        yield
    finally:
        _WARNED_FROM.reset(token)


def check_large_alpha(lam: float, norm: float) -> None:
    """Refuse an alpha beyond which the scores of all rows are equal up to rounding errors."""
    if EPS * lam > SAME_SCORES * norm:
        raise DataError(
            "An alpha is too large relative to the kernel: held-out rows differ by no more than "
            "rounding errors. Use a smaller alpha, or scale the features."
        )


def not_definite(M: Any, lam: float) -> DataError:
    """The error for a kernel matrix for which M + lam I has no Cholesky factor.

    If M has a negative eigenvalue below -lam, the objective has no minimum.
    """
    s = backend_of(M).eigh(M)[0]
    if not float(s[0]) < -100.0 * len(s) * EPS * float(abs(s).max()):
        return lost_in_rounding()
    return DataError(
        f"The kernel is not positive semidefinite (it has the eigenvalue {float(s[0]):.3g}), and "
        "exact hold-outs need a larger alpha or another kernel. As an alternative, "
        "RankingSearchCV with a splitter refits."
    )


@contextmanager
def explained_rounding() -> Iterator[None]:
    """Replace the error of a numerically singular system by one that explains it."""
    try:
        yield
    except np.linalg.LinAlgError:
        raise lost_in_rounding() from None
