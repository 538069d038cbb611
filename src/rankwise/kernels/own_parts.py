"""What scikit-learn's `WhiteKernel` means for rows that are ranked.

`WhiteKernel` gives each item a part of its own. Rows with equal features are the same item, whether
they were trained on or are new: k(x, x) is the variance of one item wherever x appears. To
scikit-learn, whose rows are observations and not items, k(X, Y) has no such part.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, Index, is_sparse


def has_own_parts(kernel: Any) -> bool:
    """Whether there is a `WhiteKernel` in a kernel."""
    if not hasattr(kernel, "clone_with_theta"):  # not one of scikit-learn's
        return False
    from sklearn.gaussian_process.kernels import WhiteKernel  # imported late: it takes a while

    parts = (kernel, *kernel.get_params().values())
    return any(isinstance(part, WhiteKernel) for part in parts)


def with_own_parts(kernel: Any, X: Any, Y: Any, K: Array) -> Array:
    """K = k(X, Y), and in the places of equal rows k(x, x)."""
    if not has_own_parts(kernel):
        return K
    same = same_items(X, Y)
    return K if same is None else np.where(same, np.asarray(kernel.diag(X))[:, None], K)


def same_items(X: Any, Y: Any = None) -> Any:
    """Which rows of X and Y are equal, of shape (n, m); None if none are, but for the diagonal."""
    X, Y = (rows.toarray() if is_sparse(rows) else rows for rows in (X, Y))
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
