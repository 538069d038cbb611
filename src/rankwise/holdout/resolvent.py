"""Diagonal blocks of (M + lam I)^-1 for one or many lam."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.linalg import eigh, lapack

from rankwise.backends.arrays import Array, Index
from rankwise.backends.blas import matmul, mirror_lower
from rankwise.graph.grouped import GroupedGraph
from rankwise.holdout.rounding import nonnegative, warn_if_lost

INVERSES = 4  # so many inverses cost as much as one eigendecomposition


class Resolvent(Protocol):
    """N = (M + lam I)^-1."""

    @property
    def lam(self) -> float: ...

    def apply(self, t: Array) -> Array:
        """N t."""

    def block(self, rows: Index) -> Array:
        """N with these rows and columns."""

    def cross(self, rows: Index, columns: Index) -> Array:
        """``N[rows] @ C[:, columns]`` for the C that it was made with."""


@dataclass(frozen=True)
class InverseResolvent:
    """N itself."""

    lam: float
    N: Array
    C: Array

    def apply(self, t: Array) -> Array:
        return matmul(self.N, t)

    def block(self, rows: Index) -> Array:
        return self.N[np.ix_(rows, rows)]

    def cross(self, rows: Index, columns: Index) -> Array:
        return self.N[rows] @ self.C[:, columns]


@dataclass(frozen=True)
class SpectralResolvent:
    """N = V diag(1 / (s + lam)) V'."""

    lam: float
    V: Array
    s: Array
    rotated_C: Array

    def apply(self, t: Array) -> Array:
        return matmul(self.V, matmul(self.V.T, t) / (self.s + self.lam)[:, None])

    def block(self, rows: Index) -> Array:
        part = self.V[rows]
        return (part / (self.s + self.lam)) @ part.T

    def cross(self, rows: Index, columns: Index) -> Array:
        return (self.V[rows] / (self.s + self.lam)) @ self.rotated_C[:, columns]


def lifted_root_kernel(K: Array, graph: GroupedGraph) -> Array:
    """M = R K R, with the null space of R lifted to the size of all else; K is overwritten.

    R takes the constant vector of a query to zero, where N would be 1 / lam: large, of no
    interest, and ruinous for the accuracy of the rest. Targets and products have no part in
    the null space, so lifting it changes nothing else.
    """
    M = graph.root_kernel(K)
    scale = float(np.diagonal(M).max(initial=0.0))
    ends = graph.level_ptr[graph.query_ptr]
    for q, n_pairs in enumerate(graph.pairs_of_query):
        rows = graph.rows[ends[q] : ends[q + 1]]
        if n_pairs:
            M[np.ix_(rows, rows)] += scale / len(rows)
        else:
            M[rows, rows] += scale
    return M


def resolvents(M: Array, lams: Sequence[float], C: Array) -> Iterator[Resolvent]:
    """N for each lam in turn, ready for products with C.

    M is kept as it is, and one or two arrays of its size are made.
    """
    if len(lams) > INVERSES:
        yield from _spectral(M, lams, C)
        return
    for lam in lams:
        shifted = M.copy()
        np.fill_diagonal(shifted, np.diagonal(M) + lam)
        factor, info = lapack.dpotrf(shifted.T, clean=0, overwrite_a=1)
        if info:
            yield from _spectral(M, [lam], C)
            continue
        inverse, _ = lapack.dpotri(factor, overwrite_c=1)
        N = mirror_lower(inverse.T)
        warn_if_lost(float(np.trace(M)), float(np.diagonal(N).max()))
        yield InverseResolvent(lam, N, C)


def _spectral(M: Array, lams: Sequence[float], C: Array) -> Iterator[Resolvent]:
    s, V = eigh(M, check_finite=False)
    s, V = nonnegative(s, min(lams)), np.ascontiguousarray(V)
    rotated = matmul(V.T, np.ascontiguousarray(C))
    warn_if_lost(float(s[-1]), 1.0 / float(s[0] + min(lams)))
    for lam in lams:
        yield SpectralResolvent(lam, V, s, rotated)
