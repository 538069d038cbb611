"""Q W for sparse Q and W."""

from __future__ import annotations

from rankwise.backends.arrays import Array
from rankwise.backends.jit import compiled
from rankwise.solvers.bilinear.layout import Sparse


@compiled
def times_weights(Q: Sparse, W: Sparse, out: Array) -> None:
    """out = Q W, dense, for sparse Q and W."""
    for r in range(len(Q.indptr) - 1):
        row = out[r]
        row[:] = 0.0
        for k in range(Q.indptr[r], Q.indptr[r + 1]):
            i = Q.indices[k]
            x = Q.data[k]
            for e in range(W.indptr[i], W.indptr[i + 1]):
                row[W.indices[e]] += x * W.data[e]
