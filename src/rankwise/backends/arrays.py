"""Array types, and functions for dense arrays, sparse arrays and tensors."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]  # or a torch tensor
Index: TypeAlias = NDArray[np.intp]
Sparse: TypeAlias = Any  # scipy.sparse arrays and matrices share no public base class
Rows: TypeAlias = slice | Index  # which rows of an array
Loader: TypeAlias = Callable[[Rows], Array]  # the features of some rows: dense, C-ordered

EPS = float(np.finfo(np.float64).eps)  # the rounding unit of float64


def is_sparse(X: Any) -> bool:
    """Whether X is a scipy.sparse array or matrix."""
    return bool(sp.issparse(X))


def check_compressed(X: Sparse) -> None:
    """Raise a ValueError if numbers in a CSR or CSC array point outside of it.

    SciPy's own check stops where the last pointer is 0 or less.
    """
    if (X.indptr[1:] < X.indptr[:-1]).any():
        raise ValueError("its index pointers decrease")
    X.check_format(full_check=True)


def is_tensor(X: Any) -> bool:
    """Whether X is a torch tensor; does not import torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(X, getattr(torch, "Tensor", ()))


def to_host(X: Any) -> Any:
    """A tensor as a NumPy array of the same dtype; anything else unchanged."""
    return X.detach().cpu().numpy() if is_tensor(X) else X


def dense_rows(X: Any, rows: Rows) -> Array:
    """``X[rows]`` as a C-ordered float64 array; a view of X if possible."""
    block = X[rows]
    if is_sparse(block):
        block = block.toarray()
    return np.ascontiguousarray(block, dtype=np.float64)


def as_slice(rows: Index) -> Rows:
    """Consecutive ascending row numbers as a slice, others unchanged."""
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1 and bool((np.diff(rows) == 1).all()):
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows
