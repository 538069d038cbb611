"""Values of scikit-learn's kernels and their derivatives, checked, with the own parts of items."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwise.backends.arrays import Array
from rankwise.errors import DataError
from rankwise.kernels.own_parts import has_own_parts, same_items, with_own_parts


def kernel_values(kernel: Any, X: Array, Y: Array | None = None) -> Array:
    """k(X, Y), checked to be finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        K = with_own_parts(kernel, X, Y, np.asarray(kernel(X, Y), dtype=np.float64))
    return _finite(kernel, K)


def kernel_gradient(kernel: Any, X: Array) -> tuple[Array, Array]:
    """k(X, X), which may be overwritten, and its derivatives by theta, checked to be finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        K, dK = kernel(X, eval_gradient=True)
        K, dK = np.array(K, dtype=np.float64), np.asarray(dK, dtype=np.float64)
        if has_own_parts(kernel):
            same = same_items(X)
            if same is not None:
                K = np.where(same, np.diagonal(K)[:, None].copy(), K)
                own = np.einsum("iip->ip", dK)
                dK = np.where(same[:, :, None], own[:, None], dK)
    return _finite(kernel, K), _finite(kernel, dK)


def _finite(kernel: Any, values: Array) -> Array:
    if not np.isfinite(values.sum()):
        raise DataError(
            f"The kernel {kernel} has values that are not finite. Scale the features, for example "
            "with sklearn.preprocessing.StandardScaler, or narrow the bounds of its parameters."
        )
    return values
