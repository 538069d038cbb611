"""A = F'LF and b = F'Ly, summed over blocks of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, dense_rows, is_sparse
from rankwise.backends.blas import add_gram, matmul, mirror_upper
from rankwise.graph import PreferenceGraph

BLOCK_BYTES = 8 * 2**20  # of features worked on at a time


@dataclass(frozen=True)
class Moments:
    """All that a least-squares ranker needs to know of its rows.

    A = F'LF and b = F'Ly for features F and a preference graph with Laplacian L; where the
    graph has comparisons, b = F'B' diag(w) margin. Moments of disjoint sets of queries add up.

    Attributes
    ----------
    A : ndarray of shape (n_features, n_features)
    b : ndarray of shape (n_features,) or (n_features, n_outputs)
    """

    A: Array
    b: Array

    @classmethod
    def of(cls, F: Any, graph: PreferenceGraph, y: Array | None = None) -> Moments:
        """Moments of dense or sparse features.

        A = Z'Z with Z = L^(1/2) F: half the flops of a general product, O(m n^2) time, and
        some 8 MiB beside the result. Comparisons cost O(N n^2) for N of them; where they
        outnumber rows by far, O(N + m n^2) and a copy of F. Sparse features stay sparse.
        """
        if is_sparse(F):
            return cls(graph.gram(F), np.asarray(F.T @ graph.rhs(y)))
        if graph.n_root_rows > 2 * graph.n_rows:  # many comparisons: a general product is less
            F = dense_rows(F, slice(None))
            A = matmul(F.T, graph @ F)
            return cls((A + A.T) / 2, np.asarray(F.T @ graph.rhs(y)))
        n = F.shape[1]
        A = np.zeros((n, n), order="F")
        b = np.zeros((n, 1))
        max_rows = max(256, BLOCK_BYTES // (8 * max(n, 1)))
        outputs: tuple[int, ...] = ()
        for Z, t in graph.root_blocks(lambda rows: dense_rows(F, rows), y, max_rows):
            A = add_gram(A, Z)
            b = b + matmul(Z.T, t.reshape(len(t), -1))
            outputs = t.shape[1:]
        return cls(mirror_upper(A), b.reshape(n, *outputs))

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.A + other.A, self.b + other.b)
