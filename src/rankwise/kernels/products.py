"""Kernel matrices: of training rows, checked, and products with ones that are never stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, Index, is_sparse, is_tensor, to_host
from rankwise.backends.dispatch import as_given, backend_of
from rankwise.errors import DataError
from rankwise.kernels.functions import Kernel, NamedKernel, Precomputed

PREDICT_BYTES = 64 * 2**20  # of kernel values in memory at a time


def kernel_product(kernel: Kernel, X: Any, Y: Any, V: Array) -> Array:
    """k(X, Y) V, a block of rows of X at a time.

    O(n m (d + c)) time for n rows in X, m in Y and c columns in V; 64 MiB of memory besides the
    result, or one block of the device's size. The product is on the device of X, or on the device
    to which its rows are moved.
    """
    on = backend_of(X)
    if on.is_host:
        Y = to_host(Y)
    elif Y is not None and isinstance(kernel, NamedKernel):
        Y = on.array(Y)
    return _product_by_blocks(X, V, lambda rows: kernel_values(kernel, X[rows], Y))


def feature_product(X: Any, V: Array) -> Array:
    """X V, a block of rows of X at a time, on the device as for `kernel_product`."""
    return _product_by_blocks(X, V, lambda rows: backend_of(X).rows(X, rows))


def _product_by_blocks(X: Any, V: Array, values: Callable[[slice], Array]) -> Array:
    """M V, where `values(rows)` returns the rows of M that belong to these rows of X."""
    on = backend_of(X)
    columns = on.array(V).reshape(len(V), -1)
    step = max(1, on.block_bytes(PREDICT_BYTES) // (8 * max(len(V), 1)))
    out = on.empty(X.shape[0], columns.shape[1])
    for start in range(0, X.shape[0], step):
        rows = slice(start, start + step)
        out[rows] = on.matmul(values(rows), columns)
    return out.reshape(len(out), *V.shape[1:])


def finite_kernel_product(kernel: Kernel, X: Any, Y: Any, V: Array) -> Array:
    """As `kernel_product`, with an error where the result is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):  # checked below
        product = kernel_product(kernel, X, Y, V)
    if not backend_of(product).is_finite(product):
        raise DataError(
            _without_roots(kernel)
            or "The kernel overflows between these rows and the training rows: scale the features "
            "of both in the same way, for example in a pipeline with a scaler."
        )
    return product


def _without_roots(kernel: Kernel) -> str:
    """An explanation, if the degree of a polynomial kernel is not whole."""
    degree = getattr(kernel, "degree", 1)
    if getattr(kernel, "name", "") not in ("polynomial", "poly") or float(degree).is_integer():
        return ""
    return (
        f"The polynomial kernel of degree {degree:g} is not finite: gamma x'y + coef0 is negative "
        "for some rows, and has no such power. Use a whole degree, or a larger coef0."
    )


def why_not_finite(kernel: Kernel, row: int) -> str:
    """Why a kernel matrix of training rows is not finite, the first time in a row."""
    return _without_roots(kernel) or (
        f"The kernel matrix has values that are not finite, the first of them in row {row}. "
        "Scale the features, for example with sklearn.preprocessing.StandardScaler, or lower "
        "gamma or degree."
    )


def kernel_values(kernel: Kernel, X: Any, Y: Any = None) -> Array:
    """k(X, Y) on the device of X; kernels from elsewhere get NumPy arrays."""
    on = backend_of(X)
    if isinstance(kernel, (NamedKernel, Precomputed)):
        return kernel(X, Y)
    X, Y = (X, Y) if on.is_host else (to_host(as_given(X)), to_host(Y))
    try:
        values = kernel(X, Y)
    except (TypeError, ValueError) as error:  # of SciPy's distances, for example
        if not (is_sparse(X) or is_sparse(Y)):
            raise
        raise DataError(
            f"Kernels of scikit-learn, such as {kernel}, take dense rows: pass X.toarray(), or use "
            'a kernel with a name, such as "rbf".'
        ) from error
    return on.array(with_own_parts(kernel, X, Y, values))


def kernel_diagonal(kernel: Kernel, X: Any) -> Array:
    """k(x, x) of each row, on the device of X."""
    on = backend_of(X)
    if on.is_host or isinstance(kernel, (NamedKernel, Precomputed)):
        return on.array(kernel.diag(X))
    return on.array(kernel.diag(to_host(as_given(X))))


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
