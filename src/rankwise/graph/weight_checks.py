"""The check of weights of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, to_host
from rankwise.errors import DataError
from rankwise.graph.conversion_checks import check_lossless

SMALLEST, LARGEST = 1e-100, 1e100  # so that products neither vanish nor overflow


def check_row_weights(sample_weight: Any, n_rows: int) -> Array:
    """One finite weight per row, at least 0, as a NumPy array."""
    check_lossless("sample_weight", sample_weight)
    try:
        weights = np.asarray(to_host(sample_weight), dtype=np.float64)
    except (OverflowError, TypeError, ValueError):
        raise DataError("sample_weight must hold numbers, one per row of X.") from None
    if weights.shape != (n_rows,):
        raise DataError(
            f"sample_weight needs one entry per row of X: got shape {weights.shape} for {n_rows} "
            "rows."
        )
    valid = np.isfinite(weights) & (weights >= 0)
    if not valid.all():
        row = int(np.argmin(valid))
        raise DataError(
            f"sample_weight must be finite and not negative: got {weights[row]} in row {row}. A "
            "weight of 0 leaves out the row."
        )
    out_of_range = (weights > 0) & ((weights < SMALLEST) | (weights > LARGEST))
    if out_of_range.any():
        row = int(np.argmax(out_of_range))
        raise DataError(
            f"sample_weight must be 0, or from {SMALLEST:g} to {LARGEST:g}: got {weights[row]:g} "
            f"in row {row}. Multiply all weights by a constant."
        )
    return weights
