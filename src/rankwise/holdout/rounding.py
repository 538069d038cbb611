"""Whether a hold-out means anything."""

from __future__ import annotations

import warnings

from rankwise.backends.arrays import EPS, Array
from rankwise.errors import DataError, RankwiseWarning

WORTHLESS = 1e-2  # relative error from which a hold-out is not worth looking at


def warn_if_lost(norm: float, inverse_norm: float) -> None:
    """Warn where the condition number leaves no digits: rounding grows by as much."""
    error = EPS * norm * inverse_norm
    if error > WORTHLESS:
        warnings.warn(
            f"An alpha is lost in the rounding of the kernel (relative error up to {error:.0e}): "
            "its hold-outs are not reliable. Leave so small an alpha out.",
            RankwiseWarning,
            stacklevel=2,
        )


def nonnegative(s: Array, shift: float) -> Array:
    """Ascending eigenvalues of a kernel, those that are negative by rounding set to zero.

    A kernel may be indefinite as long as the shift outweighs it; otherwise the objective has
    no minimum, and its stationary point is not what these formulas hold out.
    """
    if len(s) == 0:
        return s
    floor = 100.0 * len(s) * EPS * float(abs(s).max())
    if s[0] < -floor:
        if s[0] + shift <= floor:
            raise DataError(
                f"The kernel is not positive semidefinite (it has the eigenvalue {s[0]:.3g}): "
                "exact hold-outs need a larger alpha, or another kernel. RankingSearchCV with a "
                "splitter refits instead."
            )
        return s
    return s.clip(min=0.0)
