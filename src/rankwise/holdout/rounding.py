"""Whether a hold-out means anything."""

from __future__ import annotations

import warnings

import numpy as np

from rankwise.errors import RankwiseWarning

WORTHLESS = 1e-2  # relative error from which a hold-out is not worth looking at


def warn_if_lost(norm: float, inverse_norm: float) -> None:
    """Warn where the condition number leaves no digits: rounding grows by as much."""
    error = float(np.finfo(np.float64).eps) * norm * inverse_norm
    if error > WORTHLESS:
        warnings.warn(
            f"An alpha is lost in the rounding of the kernel (relative error up to {error:.0e}): "
            "its hold-outs are not reliable. Leave so small an alpha out.",
            RankwiseWarning,
            stacklevel=2,
        )
