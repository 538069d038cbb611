"""Diagonal blocks of (M + lam I)^-1 for one or many lam."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.linalg import eigh, lapack

from rankwise.backends.arrays import Array, Index
from rankwise.backends.blas import matmul, mirror_lower

INVERSES = 4  # so many inverses cost as much as one eigendecomposition


class Resolvent(Protocol):
    """N = (M + lam I)^-1."""

    @property
    def lam(self) -> float: ...

    def apply(self, t: Array) -> Array:
        """N t."""

    def block(self, rows: Index) -> Array:
        """N with these rows and columns."""

    def bilinear(self, rows: Index, columns: Array) -> Array:
        """``N[rows] @ columns``."""


@dataclass(frozen=True)
class InverseResolvent:
    """N itself."""

    lam: float
    N: Array

    def apply(self, t: Array) -> Array:
        return matmul(self.N, t)

    def block(self, rows: Index) -> Array:
        return self.N[np.ix_(rows, rows)]

    def bilinear(self, rows: Index, columns: Array) -> Array:
        return self.N[rows] @ columns


@dataclass(frozen=True)
class SpectralResolvent:
    """N = V diag(1 / (s + lam)) V'."""

    lam: float
    V: Array
    s: Array

    def apply(self, t: Array) -> Array:
        return matmul(self.V, matmul(self.V.T, t) / (self.s + self.lam)[:, None])

    def block(self, rows: Index) -> Array:
        part = self.V[rows]
        return (part / (self.s + self.lam)) @ part.T

    def bilinear(self, rows: Index, columns: Array) -> Array:
        return (self.V[rows] / (self.s + self.lam)) @ (self.V.T @ columns)


def resolvents(M: Array, lams: Sequence[float]) -> Iterator[Resolvent]:
    """N for each lam in turn; M is kept as it is, and one or two arrays of its size are made."""
    if len(lams) > INVERSES:
        yield from _spectral(M, lams)
        return
    for lam in lams:
        shifted = M.copy()
        np.fill_diagonal(shifted, np.diagonal(M) + lam)
        factor, info = lapack.dpotrf(shifted.T, clean=0, overwrite_a=1)
        if info:
            yield from _spectral(M, [lam])
            continue
        inverse, _ = lapack.dpotri(factor, overwrite_c=1)
        yield InverseResolvent(lam, mirror_lower(inverse.T))


def _spectral(M: Array, lams: Sequence[float]) -> Iterator[Resolvent]:
    s, V = eigh(M, check_finite=False)
    s, V = np.maximum(s, 0.0), np.ascontiguousarray(V)  # below zero is rounding
    for lam in lams:
        yield SpectralResolvent(lam, V, s)
