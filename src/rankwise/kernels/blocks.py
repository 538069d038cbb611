"""Products with kernel matrices that are never stored."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwise.backends.arrays import Array
from rankwise.backends.blas import matmul
from rankwise.kernels.functions import Kernel

PREDICT_BYTES = 64 * 2**20  # of kernel values held at a time


def kernel_product(kernel: Kernel, X: Any, Y: Any, V: Array) -> Array:
    """k(X, Y) V, some rows of X at a time.

    O(n m (d + c)) time for n rows in X, m in Y and c columns in V; 64 MiB beside the result.
    """
    columns = V.reshape(len(V), -1)
    step = max(1, PREDICT_BYTES // (8 * max(len(V), 1)))
    out = np.empty((X.shape[0], columns.shape[1]))
    for start in range(0, X.shape[0], step):
        out[start : start + step] = matmul(kernel(X[start : start + step], Y), columns)
    return out.reshape(len(out), *V.shape[1:])
