"""Diagonal blocks of (M + lam I)^-1 for any number of lam."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.backends.dispatch import backend_of
from rankwise.graph.query_graph import QueryGraph
from rankwise.holdout.rounding import nonnegative, warn_if_lost


class Resolvent(Protocol):
    """N = (M + lam I)^-1."""

    @property
    def lam(self) -> float: ...

    def apply(self, t: Array) -> Array:
        """N t."""

    def block(self, rows: Index) -> Array:
        """N[rows][:, rows]."""

    def cross(self, rows: Index, columns: Index) -> Array:
        """``N[rows] @ C[:, columns]`` for the C given to `resolvents`."""


@dataclass(frozen=True)
class InverseResolvent:
    """N as a matrix."""

    lam: float
    N: Array
    C: Array

    def apply(self, t: Array) -> Array:
        return backend_of(t).matmul(self.N, t)

    def block(self, rows: Index) -> Array:
        return self.N[rows[:, None], rows]

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
        on = backend_of(t)
        return on.matmul(self.V, on.matmul(self.V.T, t) / (self.s + self.lam)[:, None])

    def block(self, rows: Index) -> Array:
        part = self.V[rows]
        return (part / (self.s + self.lam)) @ part.T

    def cross(self, rows: Index, columns: Index) -> Array:
        return (self.V[rows] / (self.s + self.lam)) @ self.rotated_C[:, columns]


def lifted_root_kernel(K: Array, graph: QueryGraph) -> Array:
    """M = R K R, with the eigenvalues on the null space of R raised; K is overwritten.

    R maps the constant vector of each query to zero, and there N would be 1 / lam, which may be
    large and make the rest inaccurate. Targets and products are orthogonal to the null space, so
    raising its eigenvalues to the size of the others does not change the results. If rows have
    weights, M = R K R', and the square roots of the weights take the place of the constant vector.
    """
    M = graph.root_kernel(K)
    scale = float(M.diagonal().max())
    ends = graph.level_ptr[graph.query_ptr]
    # Different shifts: LAPACK is up to eight times slower on many equal eigenvalues.
    shifts = scale * np.linspace(1.0, 2.0, len(graph.pairs_of_query))
    for q, n_pairs in enumerate(graph.pairs_of_query):
        rows = graph.rows[ends[q] : ends[q + 1]]
        if n_pairs and graph.row_weights is not None:
            unit = np.sqrt(graph.row_weights[rows] / graph.query_totals[q])
            M[rows[:, None], rows] += backend_of(M).array(shifts[q] * np.outer(unit, unit))
        elif n_pairs:
            M[rows[:, None], rows] += float(shifts[q]) / len(rows)
        else:
            M[rows, rows] += float(shifts[q])
    return M


def resolvents(M: Array, lams: Sequence[float], C: Array) -> Iterator[Resolvent]:
    """N for each lam in turn, ready for products with C.

    M is not overwritten; memory for one or two further matrices of its size.
    """
    on = backend_of(M)
    if len(lams) > on.inverse_cost:
        yield from _spectral(M, lams, C)
        return
    for lam in lams:
        N = on.inverse_definite(on.copy(M), lam)
        if N is None:
            yield from _spectral(M, [lam], C)
            continue
        warn_if_lost(float(M.diagonal().sum()), float(N.diagonal().max()))
        yield InverseResolvent(lam, N, C)


def _spectral(M: Array, lams: Sequence[float], C: Array) -> Iterator[Resolvent]:
    on = backend_of(M)
    s, V = on.eigh(on.copy(M))
    s, V = nonnegative(s, min(lams)), on.contiguous(V)
    rotated = on.matmul(V.T, on.contiguous(C))
    warn_if_lost(float(s[-1]), 1.0 / float(s[0] + min(lams)))
    for lam in lams:
        yield SpectralResolvent(lam, V, s, rotated)
