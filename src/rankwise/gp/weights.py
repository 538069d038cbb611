"""The compared differences of a Gaussian process as linear functions of standard normal weights.

With a factor C of the prior covariance, K = C C', the process at the compared rows is f = C u for
weights u from N(0, I), and the differences are d = A u, A = C[first] - C[second]. There are as many
weights as the numerical rank of K: at most one per row, per comparison, per landmark, or per column
of a linear kernel. If raters differ, each difference is multiplied by the slope of its rater.

A Cholesky factor is a staircase: row i is zero after column i. The precision of u is stored in
reverse order and factored from its last row and column upwards. A row of C that ends early then
meets only a part of the factor, and still ends early after a triangular solve.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, Literal, cast

import numpy as np
import scipy.sparse as sp
from scipy.linalg import lapack
from scipy.linalg.blas import dtrsm

from rankwise.backends.arrays import Array, Index, is_sparse
from rankwise.backends.blas import cross_product, matmul, solve_lower
from rankwise.backends.jit import compiled

CONSTANT = -1  # instead of a column: 1 in every row
_NO_SECOND = -1  # instead of a second point: the value at the first, not a difference
_BLOCK = 256  # rows or columns of a staircase that are processed together
_SMALL = 2**16  # entries up to which a Laplacian is always dense


@dataclass(frozen=True, eq=False)
class Differences:
    """d = A u with A = S (C[first] - C[second]) = B C, which is not stored."""

    C: Array  # of shape (n, r), in C order
    first: Index  # rows of C, of shape (N,)
    second: Index
    stairs: int = 0  # how many rows at the top are a staircase: row i is zero after column i
    slopes: Array | None = None  # the diagonal of S, of shape (N,); None: all are 1

    @cached_property
    def S(self) -> Array:
        """The diagonal of S."""
        return np.ones(len(self.first)) if self.slopes is None else self.slopes

    @property
    def rank(self) -> int:
        return int(self.C.shape[1])

    def __len__(self) -> int:
        return len(self.first)

    def rows(self, which: Index) -> Array:
        """Rows of A."""
        return self.S[which, None] * (self.C[self.first[which]] - self.C[self.second[which]])

    def of_rows(self, f: Array) -> Array:
        """B f: differences of values that belong to the rows of C."""
        return np.asarray(self.S * (f[self.first] - f[self.second]).T).T

    def to_rows(self, z: Array) -> Array:
        """B'z: for every row of C, the sum over its comparisons."""
        n, z = len(self.C), z * self.S
        gained, lost = np.bincount(self.first, z, n), np.bincount(self.second, z, n)
        return np.asarray(gained - lost, dtype=np.float64)

    def apply(self, u: Array) -> Array:
        """A u."""
        return self.of_rows(self.C @ u)

    def transpose(self, z: Array) -> Array:
        """A'z."""
        return np.asarray(self.C.T @ self.to_rows(z))

    def laplacian(self, tau: Array) -> Any:
        """B' diag(tau) B, sparse if there are many rows and few comparisons."""
        n, i, j, tau = len(self.C), self.first, self.second, tau * self.S**2
        if n * n <= max(8 * len(self), _SMALL):
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
        """I + A' diag(tau) A in reverse order, lower triangle: O(r^2 n + N r) time."""
        r, Y = self.rank, self.smoothed(tau)
        P = np.empty((r, r), order="F")
        for start in range(0, r, _BLOCK):
            stop = min(start + _BLOCK, r)
            top = min(start, self.stairs)
            product = cross_product(Y[top:, :stop], self.C[top:, start:stop])
            P[r - stop :, r - stop : r - start] = product[::-1, ::-1]
        P[np.arange(r), np.arange(r)] += 1.0
        return P

    @cached_property
    def prior_variances(self) -> Array:
        """Prior variance of every difference."""
        return self.squared_norms(self.C)

    def variances(self, weights: WeightPosterior) -> Array:
        """Posterior variance of every difference: O(r^2 n + N r) time."""
        rows, root, r = self.C[:, ::-1].copy(), weights.root, self.rank
        for start in range(0, self.stairs, _BLOCK):
            stop = min(start + _BLOCK, self.stairs)
            solve_lower(root[r - stop :, r - stop :], rows[start:stop, r - stop :])
        solve_lower(root, rows[self.stairs :])
        return self.squared_norms(rows)

    def squared_norms(self, rows: Array) -> Array:
        """|S (rows[first] - rows[second])|^2 for every difference: O(N r)."""
        out = np.empty(len(self))
        _squared_gaps(rows, self.first, self.second, out)
        return out * self.S**2


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
        """Mean and variance of every difference: O(r^2 n + N r)."""
        return differences.apply(self.mean), differences.variances(self)


@dataclass(frozen=True, eq=False)
class WeightBasis:
    """g = root u: values f(first), or differences f(first) - f(second), at some points."""

    root: Array  # Cholesky factor of the prior covariance of g, lower triangular
    first: Index  # numbers of points, of shape (r,)
    second: Index  # -1 stands for a value
    is_linear: ClassVar[Literal[False]] = False

    def __len__(self) -> int:
        return len(self.first)

    def functionals(self, K: Array) -> Array:
        """Covariances with g from covariances with the points: both have one row each."""
        rows = K[self.first]
        two = np.flatnonzero(self.second != _NO_SECOND)
        rows[two] -= K[self.second[two]]
        return rows

    def project(self, K: Array) -> Array:
        """c with f = c'u at new rows, of shape (r, m), from K, points by new rows: O(r^2 m)."""
        if not len(self) or not K.shape[1]:
            return np.zeros((len(self), K.shape[1]))
        rows = np.asfortranarray(self.functionals(K))
        return np.asarray(dtrsm(1.0, self.root, rows, lower=1, overwrite_b=1))


@dataclass(frozen=True, eq=False)
class LinearBasis:
    """f(x) = sum_j u_j scales_j x[columns_j]: the weights are coefficients of columns."""

    columns: Index  # -1 stands for a constant
    scales: Array
    is_linear: ClassVar[Literal[True]] = True

    def __len__(self) -> int:
        return len(self.columns)

    def features(self, X: Array) -> Array:
        """c with f = c'u at rows of X, of shape (r, m)."""
        values = np.where(self.columns == CONSTANT, 1.0, X[:, self.columns])
        return np.asarray((values * self.scales).T)


@dataclass(frozen=True, eq=False)
class WeightSpace:
    """Differences as linear functions of the weights, and what the weights stand for.

    The rows of C are the compared rows. With fewer comparisons than rows, they are the comparisons,
    each of which is compared with a row of zeros.
    """

    differences: Differences
    basis: WeightBasis | LinearBasis
    order: Index  # which rows or comparisons the rows of C are

    def of_rows(self, V: Array, n_rows: int, first: Index, second: Index) -> Array:
        """Derivatives by the compared rows from derivatives by the rows of C, one row each."""
        if len(self.order) == len(V):
            out = np.empty_like(V)
            out[self.order] = V
            return out
        ones, each = np.ones(len(self.order)), np.arange(len(self.order))
        entries = (np.tile(each, 2), np.concatenate((first[self.order], second[self.order])))
        B = sp.csr_array((np.concatenate((ones, -ones)), entries), shape=(len(ones), n_rows))
        return np.asarray(B.T @ V[:-1])


def weights_of_rows(K: Array, first: Index, second: Index) -> WeightSpace:
    """At most one weight per row: for no more rows than comparisons. K is overwritten."""
    C, order = pivoted_cholesky(K)
    position, r = np.argsort(order), C.shape[1]
    basis = WeightBasis(np.asfortranarray(C[:r]), order[:r], np.full(r, _NO_SECOND))
    return WeightSpace(Differences(C, position[first], position[second], r), basis, order)


def weights_of_pairs(K: Array, first: Index, second: Index) -> WeightSpace:
    """At most one weight per comparison: for fewer comparisons than rows."""
    rows = K[first] - K[second]
    C, order = pivoted_cholesky(rows[:, first] - rows[:, second])
    n, r = C.shape
    basis = WeightBasis(np.asfortranarray(C[:r]), first[order[:r]], second[order[:r]])
    differences = Differences(_with_zeros(C), np.argsort(order), np.full(n, n), r)
    return WeightSpace(differences, basis, order)


def weights_of_landmarks(K_nm: Array, K_mm: Array, first: Index, second: Index) -> WeightSpace:
    """One weight per landmark: f at the rows follows from f at the landmarks. O(n r^2)."""
    basis = cast(WeightBasis, weights_of_rows(K_mm, first[:0], second[:0]).basis)
    return _weights_of(basis, basis.project(K_nm.T).T, first, second)


def weights_of_columns(basis: LinearBasis, X: Array, first: Index, second: Index) -> WeightSpace:
    """One weight per coordinate of a linear function: for fewer of them than rows and pairs."""
    return _weights_of(basis, basis.features(X).T, first, second)


def _weights_of(
    basis: WeightBasis | LinearBasis, C: Array, first: Index, second: Index
) -> WeightSpace:
    """The space of a basis in which the rows have the coordinates C."""
    if len(C) <= len(first):
        return WeightSpace(
            Differences(np.ascontiguousarray(C), first, second), basis, np.arange(len(C))
        )
    n = len(first)
    differences = Differences(_with_zeros(C[first] - C[second]), np.arange(n), np.full(n, n))
    return WeightSpace(differences, basis, np.arange(n))


def _with_zeros(C: Array) -> Array:
    """Rows and a row of zeros."""
    return np.vstack((C, np.zeros((1, C.shape[1]))))


def pivoted_cholesky(K: Array) -> tuple[Array, Index]:
    """C, a staircase, and an order of rows with K[order][:, order] = C C' up to rounding.

    O(n r^2 + n^2) time. K may be singular: the first r rows determine all others. It is overwritten
    if in Fortran order.
    """
    n = len(K)
    if n == 0 or not np.diagonal(K).max() > 0:
        return np.zeros((n, 0)), np.arange(n)
    lower, order, rank, _ = lapack.dpstrf(np.asfortranarray(K), lower=1, overwrite_a=1)
    return np.ascontiguousarray(np.tril(lower[:, :rank])), order.astype(np.intp) - 1
