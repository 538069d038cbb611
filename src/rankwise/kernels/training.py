"""The kernel matrix of training rows, checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, is_sparse, is_tensor, to_host
from rankwise.backends.dispatch import as_given, backend_of
from rankwise.errors import DataError
from rankwise.kernels.functions import Kernel, Precomputed
from rankwise.kernels.products import kernel_values, why_not_finite


def training_kernel(kernel: Kernel, X: Any) -> Array:
    """The kernel matrix of the training rows, which callers may overwrite, on their backend."""
    if isinstance(kernel, Precomputed):
        check_precomputed(X)
    on = backend_of(X)
    X = X if on.is_host or is_tensor(X) else X[slice(None)]
    with np.errstate(over="ignore", invalid="ignore"):  # checked below
        K = on.contiguous(on.array(kernel_values(kernel, X)))
        finite = on.is_finite(K.diagonal()) and on.is_finite(K.sum())
    if not finite:
        row = int(np.argmin(np.isfinite(to_host(K)).all(axis=1)))
        raise DataError(why_not_finite(kernel, row))
    return K


def check_precomputed(K: Any) -> None:
    """Raise an error where a precomputed kernel matrix is not square and symmetric."""
    K = as_given(K)
    xp = backend_of(K).xp
    if K.shape[0] != K.shape[1]:
        raise DataError(
            f"A precomputed kernel must be square, training rows by training rows: got shape "
            f"{tuple(K.shape)}. Did you mean kernel='linear' or 'rbf'?"
        )
    size = max(K.max(), -K.min())
    for start in range(0, K.shape[0], 256):  # in blocks: no second matrix of this size
        rows = slice(start, start + 256)
        gap = abs(K[rows, start:] - K[start:, rows].T)
        gap = gap.max(axis=1).toarray().ravel() if is_sparse(gap) else xp.amax(gap, axis=1)
        if gap.max() > 1e-6 * size:
            row = start + int(gap.argmax())
            raise DataError(
                f"A precomputed kernel must be symmetric: row {row} differs from column {row}."
            )
