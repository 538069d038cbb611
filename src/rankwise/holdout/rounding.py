"""Checks that the results of a hold-out are numerically meaningful."""

from __future__ import annotations

from rankwise.backends.arrays import EPS, Array
from rankwise.errors import DataError, warn

UNRELIABLE = 1e-2  # relative error above which a hold-out is unreliable
NO_DIGIT = 1.0  # relative error above which a hold-out may have no right digit
HOPELESS = 1e100  # relative error above which squares may overflow


def loses_digits(norm: float, inverse_norm: float) -> bool:
    """Whether the condition number amplifies rounding errors too much."""
    return EPS * norm * inverse_norm > UNRELIABLE


def lost_in_rounding() -> DataError:
    """The error for an alpha that is too small to have an effect."""
    return DataError(
        "An alpha is too small relative to the rounding errors of the data: exact hold-outs are "
        "not possible. Use a larger alpha, or scale the features."
    )


def check_not_lost(norm: float, inverse_norm: float) -> None:
    """Raise an error if the condition number leaves nothing but rounding errors."""
    if not EPS * norm * inverse_norm < HOPELESS:  # also if it is NaN
        raise lost_in_rounding()


def warn_if_lost(norm: float, inverse_norm: float) -> None:
    """Warn if the condition number amplifies rounding errors too much; an error if hopelessly."""
    check_not_lost(norm, inverse_norm)
    if loses_digits(norm, inverse_norm):
        error = EPS * norm * inverse_norm
        warn(
            "An alpha is too small relative to the rounding errors of the kernel: its hold-outs "
            f"are unreliable (relative error up to {error:.0e}). Use larger alphas.",
        )


def check_digits(lam: float, norm: float, inverse_norm: float) -> None:
    """Raise an error if held-out comparisons may have no right digit; warn if they have few."""
    error = EPS * norm * inverse_norm
    if not error <= NO_DIGIT:  # also if it is NaN
        raise DataError(
            f"alpha={lam:g} is too small relative to the rounding errors of the kernel: its "
            f"hold-outs may have no right digit (relative error up to {error:.0e}). Use a larger "
            "alpha or, with a linear kernel and fewer features than comparisons, "
            'RankRLS(solver="primal").'
        )
    warn_if_lost(norm, inverse_norm)


def nonnegative(s: Array, lam: float) -> Array:
    """Ascending eigenvalues of a kernel, with those that are negative by rounding set to zero.

    A kernel may be indefinite as long as its smallest eigenvalue plus lam is positive. Otherwise
    the objective has no minimum, and the formulas of the hold-outs do not apply.
    """
    if len(s) == 0:
        return s
    floor = 100.0 * len(s) * EPS * float(abs(s).max())
    if s[0] < -floor:
        if s[0] + lam <= floor:
            raise DataError(
                f"The kernel is not positive semidefinite (it has the eigenvalue {s[0]:.3g}), and "
                "exact hold-outs need a larger alpha or another kernel. As an alternative, "
                "RankingSearchCV with a splitter refits."
            )
        return s
    return s.clip(min=0.0)
