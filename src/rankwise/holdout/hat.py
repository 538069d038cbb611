"""The hat matrix of ridge regression with an intercept, stored or computed block by block.

For n rows with the kernel K, the intercept amounts to centring: with Kc = C K C,

    H = Kc (Kc + mu I)^-1,   C - H = mu (Kc + mu I)^-1 on centred vectors.

H is more accurate if mu is large, and C - H if mu is small.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rankwise.backends.arrays import Array, Index, to_host
from rankwise.backends.dispatch import Backend, backend_of
from rankwise.holdout.rounding import check_not_lost, nonnegative, warn_if_lost

BLOCK_BYTES = 8 * 2**20  # of a hat matrix computed at a time


class Hat(Protocol):
    """Rows and entries of H or of C - H."""

    @property
    def n(self) -> int: ...

    @property
    def is_hat(self) -> bool: ...

    @property
    def diagonal(self) -> Array: ...

    def fit(self, y: Array) -> tuple[Array, Array]:
        """H y and the residuals y - H y, for a centred y."""

    def blocks(self) -> Iterator[tuple[int, Array]]:
        """(start, block) of the upper triangle: rows and columns from index `start` on."""

    def entries(self, first: Index, second: Index) -> Array:
        """Single entries."""

    def dense(self) -> DenseHat:
        """All entries, as one NumPy array."""


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
        scale = float(abs(K.diagonal()).max())
        if mu > 100.0 * scale:
            return cls(_solve(K, mu), is_hat=True)
        # Kc maps the constant vector to zero. Raising that eigenvalue to the size of the others
        # keeps the inverse accurate; its contribution is subtracted afterwards.
        K += scale / n
        residual = ridge_inverse(K, mu)
        warn_if_lost(n * scale, float(residual.diagonal().max()))
        residual *= mu
        residual -= mu / (mu + scale) / n
        return cls(residual, is_hat=False)

    @property
    def n(self) -> int:
        return len(self.M)

    @property
    def diagonal(self) -> Array:
        return backend_of(self.M).contiguous(self.M.diagonal())

    def fit(self, y: Array) -> tuple[Array, Array]:
        product = backend_of(self.M).matmul(self.M, y)
        # The smaller of the two is computed: it keeps its digits.
        return (product, y - product) if self.is_hat else (y - product, product)

    def blocks(self) -> Iterator[tuple[int, Array]]:
        for start, stop in _spans(backend_of(self.M), self.n):
            yield start, self.M[start:stop, start:]

    def entries(self, first: Index, second: Index) -> Array:
        return self.M[first, second]

    def dense(self) -> DenseHat:
        return DenseHat(np.ascontiguousarray(to_host(self.M)), self.is_hat)


@dataclass(frozen=True)
class FeatureHat:
    """H = U U' from few features, without an n by n matrix."""

    U: Array
    is_hat: bool = True

    @classmethod
    def of(cls, F: Array, mu: float) -> FeatureHat:
        """From d features: O(n d^2) flops."""
        on = backend_of(F)
        centred = on.contiguous(F - F.mean(axis=0))
        A = on.mirror_upper(on.add_gram(on.zeros(F.shape[1], F.shape[1]), centred))
        on.diagonal(A)[:] += mu
        factor = on.cholesky(A)
        if factor is None:
            on.diagonal(A)[:] -= mu
            s, V = on.eigh(A)
            return cls(on.matmul(centred, V / on.xp.sqrt(s.clip(min=0.0) + mu)))
        return cls(on.contiguous(on.solve_triangular(factor, centred.T).T))

    @property
    def n(self) -> int:
        return len(self.U)

    @property
    def diagonal(self) -> Array:
        on = backend_of(self.U)
        return on.array(on.xp.einsum("ij,ij->i", self.U, self.U))

    def fit(self, y: Array) -> tuple[Array, Array]:
        on = backend_of(self.U)
        fitted = on.matmul(self.U, on.matmul(self.U.T, y))
        return fitted, y - fitted

    def blocks(self) -> Iterator[tuple[int, Array]]:
        on = backend_of(self.U)
        for start, stop in _spans(on, self.n):
            yield start, on.matmul(self.U[start:stop], self.U[start:].T)

    def entries(self, first: Index, second: Index) -> Array:
        on = backend_of(self.U)
        return on.array(on.xp.einsum("ij,ij->i", self.U[first], self.U[second]))

    def dense(self) -> DenseHat:
        U = to_host(self.U)
        return DenseHat(U @ U.T, is_hat=True)


def centred(K: Array) -> Array:
    """C K C, in place."""
    K -= K.mean(axis=0)
    K -= K.mean(axis=1)[:, None]
    return K


def ridge_inverse(K: Array, ridge: Array | float) -> Array:
    """(K + diag(ridge))^-1, in place.

    If K is indefinite by rounding errors, its negative eigenvalues are set to zero.
    """
    on = backend_of(K)
    inverse = on.inverse_definite(K, ridge)
    if inverse is not None:
        return inverse
    smallest = ridge if isinstance(ridge, float) else float(ridge.min())
    check_not_lost(float(K.diagonal().max()), 1.0 / smallest)
    scale = 1.0 / on.xp.sqrt(on.zeros(len(K)) + ridge)
    s, V = on.eigh(scale[:, None] * K * scale)
    half = scale[:, None] * V / on.xp.sqrt(nonnegative(s, 1.0) + 1.0)
    return on.matmul(on.contiguous(half), on.contiguous(half.T))


def _solve(K: Array, mu: float) -> Array:
    """(K + mu I)^-1 K for a mu that is large relative to K."""
    on = backend_of(K)
    solution = on.solve_definite(on.copy(K), K, mu)
    if solution is None:
        s, V = on.eigh(on.copy(K))
        half = V / on.xp.sqrt(nonnegative(s, mu) + mu)
        solution = on.matmul(on.contiguous(half), on.matmul(on.contiguous(half.T), K))
    return on.contiguous(solution)


def _spans(on: Backend, n: int) -> Iterator[tuple[int, int]]:
    n_arrays = 1 if on.is_host else 4  # on a device, pairs need more arrays of this size
    step = max(1, on.block_bytes(BLOCK_BYTES) // n_arrays // (8 * max(n, 1)))
    for start in range(0, n, step):
        yield start, min(start + step, n)
