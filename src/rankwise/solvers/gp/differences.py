"""Differences of a Gaussian process as features of standard normal weights.

With a factor C of the prior covariance, K = C C', the process at the compared rows is f = C u for
weights u of N(0, I), and the differences are d = A u, A = C[first] - C[second]. There are as many
weights as K has numerical rank: at most one a row, one a comparison, or one a landmark.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import lapack
from scipy.linalg.blas import dsyrk, dtrsm

from rankwise.backends.arrays import Array, Index
from rankwise.backends.blas import matmul

_BLOCK = 512  # columns of a symmetric product computed at a time, so that half of it is left out
_SLICE_BYTES = 32 * 2**20  # of features of differences held at a time


@dataclass(frozen=True, eq=False)
class Differences:
    """d = A u with A = C[first] - C[second], never stored.

    Attributes
    ----------
    C : ndarray of shape (n, r)
        In Fortran order.
    first, second : ndarray of shape (N,)
        Rows of C.
    """

    C: Array
    first: Index
    second: Index

    @property
    def rank(self) -> int:
        return int(self.C.shape[1])

    def __len__(self) -> int:
        return len(self.first)

    def of_rows(self, f: Array) -> Array:
        """B f: differences of a value for every row of C."""
        return np.asarray(f[self.first] - f[self.second])

    def to_rows(self, z: Array) -> Array:
        """B'z: what every row of C gains and loses."""
        n = len(self.C)
        gained, lost = np.bincount(self.first, z, n), np.bincount(self.second, z, n)
        return np.asarray(gained - lost, dtype=np.float64)

    def apply(self, u: Array) -> Array:
        """A u."""
        return self.of_rows(self.C @ u)

    def transpose(self, z: Array) -> Array:
        """A'z."""
        return np.asarray(self.C.T @ self.to_rows(z))

    def laplacian(self, tau: Array) -> Any:
        """B' diag(tau) B, sparse."""
        n = len(self.C)
        i, j = self.first, self.second
        rows, columns = np.concatenate((i, j, i, j)), np.concatenate((i, j, j, i))
        values = np.concatenate((tau, tau, -tau, -tau))
        return sp.csr_array(sp.coo_array((values, (rows, columns)), shape=(n, n)))

    def precision(self, tau: Array) -> Array:
        """I + A' diag(tau) A on the lower triangle: O(r^2 min(n, N) + N r) time."""
        C, r = self.C, self.rank
        P = np.zeros((r, r), order="F")
        if len(self) < len(C) and not (tau < 0).any():
            for part in self._slices():
                Z = np.sqrt(tau[part])[:, None] * (C[self.first[part]] - C[self.second[part]])
                P = dsyrk(1.0, Z, beta=1.0, c=P, trans=1, lower=1, overwrite_c=1)
        else:
            Y = np.asfortranarray(self.laplacian(tau) @ C)
            for start in range(0, r, _BLOCK):
                stop = min(start + _BLOCK, r)
                P[start:, start:stop] = matmul(C[:, start:].T, Y[:, start:stop])
        P[np.arange(r), np.arange(r)] += 1.0
        return P

    @cached_property
    def prior_variances(self) -> Array:
        """Variance of every difference before any comparison."""
        return self.squared_norms(self.C.T)

    def squared_norms(self, V: Array) -> Array:
        """|V[:, first] - V[:, second]|^2 for every difference, O(r min(N, n^2))."""
        if len(self.C) ** 2 <= 8 * len(self):  # products of all rows cost less than reading pairs
            G = matmul(V.T, V) if V.size else np.zeros((len(self.C), len(self.C)))
            norms = np.diagonal(G)
            out = norms[self.first] + norms[self.second] - 2.0 * G[self.first, self.second]
            return np.asarray(np.maximum(out, 0.0))
        rows = np.ascontiguousarray(V.T)
        out = np.empty(len(self))
        for part in self._slices():
            gap = rows[self.first[part]] - rows[self.second[part]]
            out[part] = np.einsum("ij,ij->i", gap, gap)
        return out

    def _slices(self) -> list[slice]:
        step = max(1, _SLICE_BYTES // (8 * max(self.rank, 1)))
        return [slice(k, min(k + step, len(self))) for k in range(0, len(self), step)]


@dataclass(frozen=True, eq=False)
class Weights:
    """The Gaussian N(mean, P^-1) of the weights u, with P = I + A' diag(tau) A.

    Where tau >= 0, P has no eigenvalue below 1: its Cholesky factorization cannot fail.

    Attributes
    ----------
    root : ndarray of shape (r, r)
        Lower triangular, P = root root'; what lies above the diagonal is not to be read.
    mean : ndarray of shape (r,)
    """

    root: Array
    mean: Array

    @classmethod
    def of(cls, differences: Differences, tau: Array, nu: Array) -> Weights:
        """From sites exp(-tau d^2 / 2 + nu d)."""
        if differences.rank == 0:
            return cls(np.zeros((0, 0)), np.zeros(0))
        root, info = lapack.dpotrf(differences.precision(tau), lower=1, clean=0, overwrite_a=1)
        if info:
            raise FloatingPointError("The precision is not positive definite.")
        mean, _ = lapack.dpotrs(root, differences.transpose(nu), lower=1)
        return cls(root, np.asarray(mean).reshape(-1))

    @property
    def log_det(self) -> float:
        """log |P|."""
        return 2.0 * float(np.log(np.diagonal(self.root)).sum())

    def whiten(self, V: Array) -> Array:
        """root^-1 V, so that the columns' products are their covariances."""
        if not V.size:
            return V
        return np.asarray(dtrsm(1.0, self.root, np.asfortranarray(V), lower=1))

    def solve(self, v: Array) -> Array:
        """P^-1 v."""
        if not v.size:
            return v
        return np.asarray(lapack.dpotrs(self.root, v, lower=1)[0]).reshape(v.shape)

    def moments(self, differences: Differences) -> tuple[Array, Array]:
        """Mean and variance of every difference, O(n r^2 + N r)."""
        return (
            differences.apply(self.mean),
            differences.squared_norms(self.whiten(differences.C.T)),
        )


@dataclass(frozen=True, eq=False)
class Factor:
    """K = C C' up to rounding, by a Cholesky factorization that picks the largest pivot.

    Attributes
    ----------
    C : ndarray of shape (n, r)
    pivots : ndarray of shape (r,)
        The rows that all others follow from: C[pivots] is `root`.
    root : ndarray of shape (r, r)
        Lower triangular.
    """

    C: Array
    pivots: Index
    root: Array

    @classmethod
    def of(cls, K: Array) -> Factor:
        """O(n r^2 + n^2) time; K, which is overwritten if in Fortran order, may be singular."""
        n = len(K)
        if n == 0 or not np.diagonal(K).max() > 0:
            return cls(np.zeros((n, 0)), np.zeros(0, np.intp), np.zeros((0, 0)))
        lower, order, rank, _ = lapack.dpstrf(K, lower=1, overwrite_a=1)
        pivots = order.astype(np.intp) - 1
        C = np.zeros((n, rank), order="F")
        C[pivots] = np.tril(lower[:, :rank])
        root = np.asfortranarray(np.tril(lower[:rank, :rank]))
        return cls(C, pivots[:rank], root)
