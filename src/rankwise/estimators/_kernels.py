"""From the kernel parameters of an estimator to a kernel of the core."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import clone

from rankwise.backends.arrays import Array, is_sparse, is_tensor, to_host
from rankwise.backends.dispatch import as_given, backend_of
from rankwise.errors import DataError, ParameterError
from rankwise.estimators._checks import check_choice
from rankwise.kernels import KERNELS, Kernel, NamedKernel, PairFunction, Precomputed
from rankwise.kernels.products import kernel_values


def make_kernel(kernel: Any, gamma: Any, degree: Any, coef0: Any, n_features: int) -> Kernel:
    """The kernel that these parameters name, as scikit-learn's KernelRidge understands them."""
    if callable(kernel):
        # scikit-learn's Gaussian process kernels take whole arrays, other functions two rows.
        takes_arrays = hasattr(kernel, "diag") and hasattr(kernel, "is_stationary")
        # A copy: what the user does to the kernel later is not done to the fitted ranker.
        return clone(kernel) if takes_arrays else PairFunction(kernel)
    check_choice("kernel", kernel, [*KERNELS, "precomputed"])
    if kernel == "precomputed":
        return Precomputed()
    for name, value in (("gamma", gamma), ("degree", degree), ("coef0", coef0)):
        if name == "gamma" and value is None:
            continue
        if not isinstance(value, Real) or np.isnan(float(value)):
            raise ParameterError(f"{name} must be a number: got {value!r}.")
    if gamma is not None and not 0 < gamma < np.inf:
        raise ParameterError(f"gamma must be a finite number above 0, or None: got {gamma!r}.")
    return NamedKernel(
        kernel,
        gamma=1.0 / n_features if gamma is None else float(gamma),
        degree=degree,
        coef0=coef0,
    )


def training_kernel(kernel: Kernel, X: Any) -> Array:
    """The kernel matrix of the training rows, ours to overwrite, where they are or travel to."""
    if isinstance(kernel, Precomputed):
        check_precomputed(X)
    on = backend_of(X)
    X = X if on.is_host or is_tensor(X) else X[slice(None)]
    with np.errstate(over="ignore", invalid="ignore"):  # said below, with a way out
        K = on.contiguous(on.array(kernel_values(kernel, X)))
        finite = on.is_finite(K.diagonal()) and on.is_finite(K.sum())
    if not finite:
        row = int(np.argmin(np.isfinite(to_host(K)).all(axis=1)))
        raise DataError(
            f"The kernel has values that are not finite, the first in row {row}. Scale the "
            "features, for example with sklearn.preprocessing.StandardScaler, or lower gamma "
            "or degree."
        )
    return K


def check_precomputed(K: Any) -> None:
    """A square and symmetric matrix."""
    K = as_given(K)
    xp = backend_of(K).xp
    if K.shape[0] != K.shape[1]:
        raise DataError(
            f"A precomputed kernel must be square, training rows by training rows: got shape "
            f"{tuple(K.shape)}. Did you mean kernel='linear' or 'rbf'?"
        )
    size = abs(K).max()
    for start in range(0, K.shape[0], 256):  # in blocks: no second matrix of this size
        rows = slice(start, start + 256)
        gap = abs(K[rows] - K[:, rows].T)
        gap = gap.max(axis=1).toarray().ravel() if is_sparse(gap) else xp.amax(gap, axis=1)
        if gap.max() > 1e-6 * size:
            row = start + int(gap.argmax())
            raise DataError(
                f"A precomputed kernel must be symmetric: row {row} is not column {row}."
            )
