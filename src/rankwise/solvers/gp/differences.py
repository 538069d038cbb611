"""Differences of a Gaussian process as linear functions of standard normal weights.

With a factor C of the prior covariance, K = C C', the process at the compared rows is f = C u for
weights u of N(0, I), and the differences are d = A u, A = C[first] - C[second]. There are as many
weights as the numerical rank of K: at most one per row, per comparison, or per landmark. If raters
differ, each difference is multiplied by the slope of its rater.

A Cholesky factor is a staircase: row i is zero after column i. The precision of u is stored in
reverse order and factored from its last row and column upwards. A row of C that ends early then
meets only a part of the factor, and still ends early after a triangular solve.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import lapack
from scipy.linalg.blas import dsyrk, dtrsm

from rankwise.backends.arrays import Array, Index, is_sparse
from rankwise.backends.blas import cross_product, matmul, solve_lower
from rankwise.backends.jit import compiled

_BLOCK = 256  # rows or columns of a staircase that are processed together
_SMALL = 2**17  # entries up to which A is always stored


@dataclass(frozen=True, eq=False)
class Differences:
    """d = A u with A = S (C[first] - C[second]) = B C; A is stored only if it is small."""

    C: Array  # of shape (n, r), in C order
    first: Index  # rows of C, of shape (N,)
    second: Index
    stairs: int = 0  # how many rows at the top are a staircase: row i is zero after column i
    slopes: Array | None = None  # the diagonal of S, of shape (N,); None: all are 1

    @property
    def rank(self) -> int:
        return int(self.C.shape[1])

    def __len__(self) -> int:
        return len(self.first)

    def rows(self, which: Index) -> Array:
        """Rows of A."""
        rows = np.asarray(self.C[self.first[which]] - self.C[self.second[which]])
        return rows if self.slopes is None else rows * self.slopes[which, None]

    def of_rows(self, f: Array) -> Array:
        """B f: differences of values that belong to the rows of C."""
        out = np.asarray(f[self.first] - f[self.second])
        return out if self.slopes is None else (out.T * self.slopes).T

    def to_rows(self, z: Array) -> Array:
        """B'z: for every row of C, the sum over its comparisons."""
        n = len(self.C)
        z = z if self.slopes is None else z * self.slopes
        gained, lost = np.bincount(self.first, z, n), np.bincount(self.second, z, n)
        return np.asarray(gained - lost, dtype=np.float64)

    def apply(self, u: Array) -> Array:
        """A u."""
        return self.of_rows(self.C @ u)

    def transpose(self, z: Array) -> Array:
        """A'z."""
        return np.asarray(self.C.T @ self.to_rows(z))

    def laplacian(self, tau: Array) -> Any:
        """B' diag(tau) B, sparse unless there are few rows."""
        n = len(self.C)
        i, j = self.first, self.second
        tau = tau if self.slopes is None else tau * self.slopes**2
        if self._few_rows:
            L = np.bincount(i * n + j, -tau, n * n).reshape(n, n)
            L += L.T
            L[np.arange(n), np.arange(n)] = np.bincount(i, tau, n) + np.bincount(j, tau, n)
            return L
        rows, columns = np.concatenate((i, j, i, j)), np.concatenate((i, j, j, i))
        values = np.concatenate((tau, tau, -tau, -tau))
        return sp.csr_array(sp.coo_array((values, (rows, columns)), shape=(n, n)))

    def smoothed(self, tau: Array) -> Array:
        """B' diag(tau) B C: O(r min(n^2, N)) time."""
        L = self.laplacian(tau)
        return np.asarray(L @ self.C if is_sparse(L) or not self.C.size else matmul(L, self.C))

    def precision(self, tau: Array) -> Array:
        """I + A' diag(tau) A in reverse order, lower triangle: O(r^2 min(n, N) + N r) time."""
        A, C, r = self._kept, self.C, self.rank
        if A is not None and (tau >= 0).all():
            P = dsyrk(1.0, (np.sqrt(tau)[:, None] * A).T, lower=1)
        elif A is not None:
            P = cross_product(tau[:, None] * A, A)
        else:
            P = np.empty((r, r), order="F")
            Y = self.smoothed(tau)
            for start in range(0, r, _BLOCK):
                stop = min(start + _BLOCK, r)
                top = min(start, self.stairs)
                product = cross_product(Y[top:, :stop], C[top:, start:stop])
                P[r - stop :, r - stop : r - start] = product[::-1, ::-1]
        P[np.arange(r), np.arange(r)] += 1.0
        return P

    @cached_property
    def prior_variances(self) -> Array:
        """Prior variance of every difference."""
        return self.squared_norms(self.C)

    def variances(self, weights: WeightPosterior) -> Array:
        """Posterior variance of every difference: O(r^2 min(n, N) + N r) time."""
        if self._kept is not None:
            rows = self._kept.copy()
            solve_lower(weights.root, rows)
            return np.asarray(np.einsum("ij,ij->i", rows, rows))
        rows, root, r = np.ascontiguousarray(self.C[:, ::-1]), weights.root, self.rank
        for start in range(0, self.stairs, _BLOCK):
            stop = min(start + _BLOCK, self.stairs)
            solve_lower(root[r - stop :, r - stop :], rows[start:stop, r - stop :])
        solve_lower(root, rows[self.stairs :])
        return self.squared_norms(rows)

    def squared_norms(self, rows: Array) -> Array:
        """|S (rows[first] - rows[second])|^2 for every difference, O(r min(N, n^2))."""
        if self._few_rows:
            G = matmul(rows, rows.T) if rows.size else np.zeros((len(self.C), len(self.C)))
            norms = np.diagonal(G)
            out = norms[self.first] + norms[self.second] - 2.0 * G[self.first, self.second]
            out = np.asarray(np.maximum(out, 0.0))
        else:
            out = np.empty(len(self))
            _squared_gaps(rows, self.first, self.second, out)
        return out if self.slopes is None else out * self.slopes**2

    @property
    def _few_rows(self) -> bool:
        """Whether products of all rows cost less than those of the compared pairs."""
        return len(self.C) ** 2 <= 8 * len(self)

    @cached_property
    def _kept(self) -> Array | None:
        """A in reverse order, if it is small, or smaller than a C without stairs; else None."""
        if self._few_rows and len(self) > len(self.C):
            return None
        if len(self) * self.rank > _SMALL and (self.stairs or len(self) >= len(self.C)):
            return None
        return np.ascontiguousarray(self.rows(np.arange(len(self)))[:, ::-1])


@partial(compiled, fastmath={"reassoc"})  # a sum in any order can use vector instructions
def _squared_gaps(rows: Array, first: Index, second: Index, out: Array) -> None:
    """|rows[first] - rows[second]|^2."""
    for k in range(len(first)):
        a, b = rows[first[k]], rows[second[k]]
        total = 0.0
        for j in range(len(a)):
            total += (a[j] - b[j]) ** 2
        out[k] = total


@dataclass(frozen=True, eq=False)
class WeightPosterior:
    """The Gaussian N(mean, P^-1) of the weights u, with P = I + A' diag(tau) A.

    If tau >= 0, no eigenvalue of P is below 1, and its Cholesky factorization cannot fail.
    """

    root: Array  # lower triangular, P in reverse order = root root'; arbitrary above the diagonal
    mean: Array

    @classmethod
    def of(cls, differences: Differences, tau: Array, nu: Array) -> WeightPosterior:
        """From sites exp(-tau d^2 / 2 + nu d)."""
        if differences.rank == 0:
            return cls(np.zeros((0, 0)), np.zeros(0))
        root, info = lapack.dpotrf(differences.precision(tau), lower=1, clean=0, overwrite_a=1)
        if info:
            raise FloatingPointError("The precision is not positive definite.")
        weights = cls(root, np.zeros(0))
        return cls(root, weights.solve(differences.transpose(nu)))

    @property
    def log_det(self) -> float:
        """log |P|."""
        return 2.0 * float(np.log(np.diagonal(self.root)).sum())

    def whiten(self, V: Array) -> Array:
        """W with W'W = V'P^-1 V, the covariance of V'u: O(r^2) per column."""
        if not V.size:
            return V
        return np.asarray(dtrsm(1.0, self.root, np.asfortranarray(V[::-1]), lower=1))

    def solve(self, v: Array) -> Array:
        """P^-1 v."""
        if not v.size:
            return v
        solved = np.asarray(lapack.dpotrs(self.root, v[::-1], lower=1)[0]).reshape(v.shape)
        return solved[::-1]

    def moments(self, differences: Differences) -> tuple[Array, Array]:
        """Mean and variance of every difference, O(r^2 min(n, N) + N r)."""
        return differences.apply(self.mean), differences.variances(self)


@dataclass(frozen=True, eq=False)
class PivotedCholesky:
    """K = C C' up to rounding, by a Cholesky factorization with complete pivoting."""

    C: Array  # of shape (n, r), a staircase; its rows are those of K in another order
    order: Index  # which rows of K they are; the first r determine all others
    root: Array  # the first r rows of C, in Fortran order

    @classmethod
    def of(cls, K: Array) -> PivotedCholesky:
        """O(n r^2 + n^2) time. K may be singular; it is overwritten if in Fortran order."""
        n = len(K)
        if n == 0 or not np.diagonal(K).max() > 0:
            return cls(np.zeros((n, 0)), np.arange(n), np.zeros((0, 0)))
        lower, order, rank, _ = lapack.dpstrf(K, lower=1, overwrite_a=1)
        C = np.ascontiguousarray(np.tril(lower[:, :rank]))
        return cls(C, order.astype(np.intp) - 1, np.asfortranarray(C[:rank]))

    @property
    def pivots(self) -> Index:
        """The rows of K that determine all others."""
        return self.order[: len(self.root)]

    @property
    def position(self) -> Index:
        """Where every row of K is in C."""
        position = np.empty_like(self.order)
        position[self.order] = np.arange(len(self.order))
        return position
