"""Values of scikit-learn's kernels, with what `WhiteKernel` means for rows that are compared.

`WhiteKernel` gives each item a part of its own. Rows with equal features are the same item, whether
they were trained on or are new: k(x, x) is the variance of one item wherever x appears. To
scikit-learn, whose rows are observations and not items, k(X, Y) has no such part.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import WhiteKernel

from rankwise.backends.arrays import Array, Index
from rankwise.errors import DataError


def kernel_values(kernel: Any, X: Array, Y: Array | None = None) -> Array:
    """k(X, Y), checked to be finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        K = np.asarray(kernel(X, Y), dtype=np.float64)
        if has_own_parts(kernel):
            same = _same_items(X, Y)
            if same is not None:
                K = np.where(same, np.asarray(kernel.diag(X))[:, None], K)
    return _finite(kernel, K)


def kernel_gradient(kernel: Any, X: Array) -> tuple[Array, Array]:
    """k(X, X), which may be overwritten, and its derivatives by theta, checked to be finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        K, dK = kernel(X, eval_gradient=True)
        K, dK = np.array(K, dtype=np.float64), np.asarray(dK, dtype=np.float64)
        if has_own_parts(kernel):
            same = _same_items(X)
            if same is not None:
                K = np.where(same, np.diagonal(K)[:, None].copy(), K)
                own = np.einsum("iip->ip", dK)
                dK = np.where(same[:, :, None], own[:, None], dK)
    return _finite(kernel, K), _finite(kernel, dK)


def has_own_parts(kernel: Any) -> bool:
    """Whether there is a `WhiteKernel` in a kernel."""
    parts = (kernel, *kernel.get_params().values())
    return any(isinstance(part, WhiteKernel) for part in parts)


def _same_items(X: Array, Y: Array | None = None) -> Any:
    """Which rows of X and Y are equal, of shape (n, m); None if none are, but for the diagonal."""
    items = _item_numbers(X if Y is None else np.vstack((X, Y)))
    if items.max(initial=-1) + 1 == len(items):
        return None
    return items[: len(X), None] == items[0 if Y is None else len(X) :]


def _item_numbers(X: Array) -> Index:
    """A number for every row, the same for equal rows."""
    rows = np.ascontiguousarray(X + 0.0)  # there is one zero, not two
    if not rows.shape[1]:
        return np.zeros(len(rows), dtype=np.intp)
    whole = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
    return np.asarray(np.unique(whole, return_inverse=True)[1], dtype=np.intp)


def _finite(kernel: Any, values: Array) -> Array:
    if not np.isfinite(values.sum()):
        raise DataError(
            f"The kernel {kernel} has values that are not finite. Scale the features, for example "
            "with sklearn.preprocessing.StandardScaler, or narrow the bounds of its parameters."
        )
    return values
