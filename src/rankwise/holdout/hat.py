"""The hat matrix of ridge regression with an intercept, stored or made block by block.

On n rows with the kernel K, the intercept centres: with Kc = C K C,

    H = Kc (Kc + mu I)^-1,   C - H = mu (Kc + mu I)^-1 on centred vectors.

H is the more accurate of the two where mu is large, C - H where it is small.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.linalg import cho_factor, eigh, lapack, solve_triangular

from rankwise.backends.arrays import Array, Index
from rankwise.backends.blas import add_gram, matmul, mirror_lower, mirror_upper
from rankwise.holdout.rounding import nonnegative, warn_if_lost

BLOCK_BYTES = 8 * 2**20  # of a hat matrix made at a time


class Hat(Protocol):
    """Rows and entries of H or of C - H."""

    @property
    def n(self) -> int: ...

    @property
    def is_hat(self) -> bool: ...

    @property
    def diagonal(self) -> Array: ...

    def fit(self, y: Array) -> Array:
        """H y for a centred y."""

    def blocks(self) -> Iterator[tuple[int, Array]]:
        """(start, rows from `start` on) of the upper triangle: columns from `start` on."""

    def entries(self, first: Index, second: Index) -> Array:
        """Single entries."""


@dataclass(frozen=True)
class DenseHat:
    """One n by n matrix."""

    M: Array
    is_hat: bool

    @classmethod
    def of(cls, K: Array, mu: float) -> DenseHat:
        """From a kernel matrix, which is overwritten: n^3 flops."""
        n = len(K)
        centred(K)
        scale = float(np.abs(np.diagonal(K)).max(initial=0.0))
        if mu > 100.0 * scale:
            return cls(_solve(K, mu), is_hat=True)
        # Kc takes the constant vector to zero. Lifted to the size of the others, that
        # eigenvalue does not spoil the inverse, and is taken out of it again.
        K += scale / n
        residual = shifted_inverse(K, np.full(n, mu))
        warn_if_lost(n * scale, float(np.diagonal(residual).max()))
        residual *= mu
        residual -= mu / (mu + scale) / n
        return cls(residual, is_hat=False)

    @property
    def n(self) -> int:
        return len(self.M)

    @property
    def diagonal(self) -> Array:
        return np.ascontiguousarray(np.diagonal(self.M))

    def fit(self, y: Array) -> Array:
        product = matmul(self.M, y)
        return product if self.is_hat else y - product

    def blocks(self) -> Iterator[tuple[int, Array]]:
        for start, stop in _spans(self.n):
            yield start, self.M[start:stop, start:]

    def entries(self, first: Index, second: Index) -> Array:
        return self.M[first, second]


@dataclass(frozen=True)
class FeatureHat:
    """H = U U' from few features: never n by n."""

    U: Array
    is_hat: bool = True

    @classmethod
    def of(cls, F: Array, mu: float) -> FeatureHat:
        """From features: O(n d^2) flops for d of them."""
        centred = np.ascontiguousarray(F - F.mean(axis=0))
        d = F.shape[1]
        A = mirror_upper(add_gram(np.zeros((d, d), order="F"), centred))
        np.fill_diagonal(A, np.diagonal(A) + mu)
        try:
            factor, _ = cho_factor(A, lower=True, check_finite=False)
        except np.linalg.LinAlgError:
            s, V = eigh(A - mu * np.eye(d), check_finite=False)
            return cls(matmul(centred, V / np.sqrt(np.maximum(s, 0.0) + mu)))
        U = solve_triangular(np.tril(factor), centred.T, lower=True, check_finite=False).T
        return cls(np.ascontiguousarray(U))

    @property
    def n(self) -> int:
        return len(self.U)

    @property
    def diagonal(self) -> Array:
        return np.asarray(np.einsum("ij,ij->i", self.U, self.U))

    def fit(self, y: Array) -> Array:
        return matmul(self.U, matmul(self.U.T, y))

    def blocks(self) -> Iterator[tuple[int, Array]]:
        for start, stop in _spans(self.n):
            yield start, matmul(self.U[start:stop], self.U[start:].T)

    def entries(self, first: Index, second: Index) -> Array:
        return np.asarray(np.einsum("ij,ij->i", self.U[first], self.U[second]))


def centred(K: Array) -> Array:
    """C K C, in the memory of K."""
    K -= K.mean(axis=0)
    K -= K.mean(axis=1)[:, None]
    return K


def shifted_inverse(K: Array, shift: Array) -> Array:
    """(K + diag(shift))^-1, in the memory of K.

    Where rounding has made K indefinite, its negative part is taken to be zero.
    """
    diagonal = np.diagonal(K).copy()
    np.fill_diagonal(K, diagonal + shift)
    factor, info = lapack.dpotrf(K.T, clean=0, overwrite_a=1)
    if info == 0:
        inverse, _ = lapack.dpotri(factor, overwrite_c=1)
        return mirror_lower(inverse.T)
    above = np.triu(K, 1)  # which is as it was
    K = above + above.T + np.diag(diagonal)
    scale = 1.0 / np.sqrt(shift)
    s, V = eigh(scale[:, None] * K * scale, check_finite=False)
    half = scale[:, None] * V / np.sqrt(nonnegative(s, 1.0) + 1.0)
    return matmul(np.ascontiguousarray(half), np.ascontiguousarray(half.T))


def _solve(K: Array, mu: float) -> Array:
    """(K + mu I)^-1 K for a mu that is large beside K."""
    system = K.copy()
    np.fill_diagonal(system, np.diagonal(K) + mu)
    factor, info = lapack.dpotrf(system.T, overwrite_a=1)
    if info:
        nonnegative(eigh(K, eigvals_only=True, check_finite=False), mu)
    solution, _ = lapack.dpotrs(factor, K.T)
    return np.ascontiguousarray(solution)


def _spans(n: int) -> Iterator[tuple[int, int]]:
    step = max(1, BLOCK_BYTES // (8 * max(n, 1)))
    for start in range(0, n, step):
        yield start, min(start + step, n)
