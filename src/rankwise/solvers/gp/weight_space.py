"""The weight-space view of a Gaussian process: what its comparisons depend on."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from scipy.linalg.blas import dtrsm

from rankwise.backends.arrays import Array, Index
from rankwise.solvers.gp.approximation import Approximation, covariance_gradient
from rankwise.solvers.gp.differences import Differences, PivotedCholesky

CONSTANT = -1  # instead of a column: 1 in every row
_NO_SECOND = -1  # instead of a second point: the value at the first, not a difference


@dataclass(frozen=True, eq=False)
class WeightBasis:
    """g = root u: values f(first), or differences f(first) - f(second), at some points."""

    root: Array  # Cholesky factor of the prior covariance of g, lower triangular
    first: Index  # numbers of points, of shape (r,)
    second: Index  # -1 stands for a value

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
    """f(x) = sum_j u_j scales_j x[columns_j]: the weights are those of a linear function."""

    columns: Index  # -1 stands for a constant
    scales: Array

    def __len__(self) -> int:
        return len(self.columns)

    def features(self, X: Array) -> Array:
        """c with f = c'u at rows of X, of shape (r, m)."""
        values = np.where(self.columns == CONSTANT, 1.0, X[:, self.columns])
        return np.asarray((values * self.scales).T)


@dataclass(frozen=True, eq=False)
class WeightSpace:
    """Differences as linear functions of the weights, and what the weights stand for."""

    differences: Differences
    basis: WeightBasis | LinearBasis
    order: Index | None = None  # which rows or comparisons the rows of C are

    def scaled(self, scale: float, slopes: Array | None = None) -> Differences:
        """The differences times a number, and times slopes if there are any."""
        d = self.differences
        if scale == 1.0 and slopes is None:
            return d
        return replace(d, C=d.C if scale == 1.0 else d.C * scale, slopes=slopes)


def weights_of_rows(K: Array, first: Index, second: Index) -> WeightSpace:
    """At most one weight per row: for no more rows than comparisons. K is overwritten."""
    factor = PivotedCholesky.of(np.asfortranarray(K))
    position = factor.position
    differences = Differences(factor.C, position[first], position[second], len(factor.root))
    return WeightSpace(differences, _values_at(factor), factor.order)


def weights_of_pairs(K: Array, first: Index, second: Index) -> WeightSpace:
    """At most one weight per comparison: for fewer comparisons than rows.

    A comparison has a row of its own in C then, and is compared with a row of zeros.
    """
    rows = K[first] - K[second]
    factor = PivotedCholesky.of(np.asfortranarray(rows[:, first] - rows[:, second]))
    n, pivots = len(first), factor.pivots
    C = np.vstack((factor.C, np.zeros((1, len(pivots)))))
    differences = Differences(C, factor.position, np.full(n, n), len(pivots))
    basis = WeightBasis(factor.root, first[pivots], second[pivots])
    return WeightSpace(differences, basis, factor.order)


def weights_of_landmarks(K_nm: Array, K_mm: Array, first: Index, second: Index) -> WeightSpace:
    """One weight per landmark: f at the rows follows from f at the landmarks. O(n r^2)."""
    basis = _values_at(PivotedCholesky.of(np.asfortranarray(K_mm)))
    C = np.ascontiguousarray(basis.project(K_nm.T).T)
    return WeightSpace(Differences(C, first, second), basis)


def weights_of_columns(basis: LinearBasis, X: Array, first: Index, second: Index) -> WeightSpace:
    """One weight per coordinate of a linear function: for fewer of them than rows and pairs."""
    C = np.ascontiguousarray(basis.features(X).T)
    return WeightSpace(Differences(C, first, second), basis)


def _values_at(factor: PivotedCholesky) -> WeightBasis:
    """The basis of values of f at the pivots of a factor."""
    pivots = factor.pivots
    return WeightBasis(factor.root, pivots, np.full(len(pivots), _NO_SECOND))


def rows_gradient(
    space: WeightSpace,
    differences: Differences,
    a: Approximation,
    n_rows: int,
    pairs: tuple[Index, Index],
) -> Array:
    """Derivative of the evidence by K, of shape (n, n), for weights of rows or of pairs.

    `differences` are those of the space in the units of `a`; `pairs` are the compared rows.
    """
    M, order = covariance_gradient(differences, a), np.asarray(space.order)
    if len(order) == len(M):
        out = np.empty_like(M)
        out[np.ix_(order, order)] = M
        return out
    n = len(order)  # comparisons; the last row of M belongs to the row of zeros
    first, second = (rows[order] for rows in pairs)
    ones, alike = np.ones(n), np.arange(n)
    B = sp.coo_array(
        (np.concatenate((ones, -ones)), (np.tile(alike, 2), np.concatenate((first, second)))),
        shape=(n, n_rows),
    ).tocsr()
    return np.asarray(B.T @ (B.T @ M[:n, :n]).T)
