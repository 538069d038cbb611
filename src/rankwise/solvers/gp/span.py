"""What the weights stand for: the few linear functions of a process that comparisons see."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from scipy.linalg.blas import dtrsm

from rankwise.backends.arrays import Array, Index
from rankwise.solvers.gp.approximation import Approximation
from rankwise.solvers.gp.differences import Differences, Factor
from rankwise.solvers.gp.gradient import covariance_gradient

_ALONE = -1  # in the place of a second point: the value at the first, not a difference
_NEGLIGIBLE = 1e-12  # share of a variance that is nothing but rounding


@dataclass(frozen=True, eq=False)
class Basis:
    """g = root u: values f(first), or differences f(first) - f(second), of some points.

    Attributes
    ----------
    root : ndarray of shape (r, r)
        Cholesky factor of the prior covariance of g, lower triangular.
    first, second : ndarray of shape (r,)
        Numbers of points; -1 as the second: a value.
    """

    root: Array
    first: Index
    second: Index

    def __len__(self) -> int:
        return len(self.first)

    def functionals(self, K: Array) -> Array:
        """Rows of K, one a point, as rows for g."""
        rows = K[self.first]
        two = np.flatnonzero(self.second != _ALONE)
        rows[two] -= K[self.second[two]]
        return rows

    def project(self, K: Array) -> Array:
        """c with f = c'u at new rows, of shape (r, m), from K, points by new rows: O(r^2 m)."""
        if not len(self) or not K.shape[1]:
            return np.zeros((len(self), K.shape[1]))
        rows = np.asfortranarray(self.functionals(K))
        return np.asarray(dtrsm(1.0, self.root, rows, lower=1, overwrite_b=1))


@dataclass(frozen=True, eq=False)
class Span:
    """Comparisons as differences of weighted features, and the basis of the weights.

    Attributes
    ----------
    differences : Differences
    basis : Basis
    order : ndarray, optional
        Which rows (`span_of_rows`) or comparisons (`span_of_pairs`) the rows of C are.
    """

    differences: Differences
    basis: Basis
    order: Index | None = None

    def scaled(self, scale: float) -> Differences:
        """The differences times a number."""
        d = self.differences
        return d if scale == 1.0 else replace(d, C=d.C * scale)


def span_of_rows(K: Array, first: Index, second: Index) -> Span:
    """One weight a row at most: for no more rows than comparisons. K is overwritten."""
    factor = Factor.of(np.asfortranarray(K))
    alone, position = np.full(len(factor.pivots), _ALONE), factor.position
    differences = Differences(factor.C, position[first], position[second], len(factor.root))
    return Span(differences, Basis(factor.root, factor.pivots, alone), factor.order)


def span_of_pairs(K: Array, first: Index, second: Index) -> Span:
    """One weight a comparison at most: for fewer comparisons than rows.

    A comparison is a row of its own then, compared with a row of zeros.
    """
    rows = K[first] - K[second]
    factor = Factor.of(np.asfortranarray(rows[:, first] - rows[:, second]))
    n, pivots = len(first), factor.pivots
    C = np.vstack((factor.C, np.zeros((1, len(pivots)))))
    differences = Differences(C, factor.position, np.full(n, n), len(pivots))
    return Span(differences, Basis(factor.root, first[pivots], second[pivots]), factor.order)


def span_of_landmarks(K_nm: Array, K_mm: Array, first: Index, second: Index) -> Span:
    """One weight a landmark: f at the rows is what the landmarks say of it. O(n r^2)."""
    factor = Factor.of(np.asfortranarray(K_mm))
    alone = np.full(len(factor.pivots), _ALONE)
    basis = Basis(factor.root, factor.pivots, alone)
    C = np.ascontiguousarray(basis.project(K_nm.T).T)
    return Span(Differences(C, first, second), basis)


def rows_gradient(
    span: Span, differences: Differences, a: Approximation, n_rows: int, pairs: tuple[Index, Index]
) -> Array:
    """Derivative of the evidence by K, of shape (n, n), for a span of rows or of pairs.

    Parameters
    ----------
    differences : Differences
        Those of the span, in the units that `a` was made in.
    n_rows : int
    pairs : (ndarray, ndarray)
        The rows that were compared.
    """
    M, order = covariance_gradient(differences, a), np.asarray(span.order)
    if len(order) == len(M):
        out = np.empty_like(M)
        out[np.ix_(order, order)] = M
        return out
    n = len(order)  # comparisons, and M has a row of zeros after them
    first, second = (rows[order] for rows in pairs)
    ones, alike = np.ones(n), np.arange(n)
    B = sp.coo_array(
        (np.concatenate((ones, -ones)), (np.tile(alike, 2), np.concatenate((first, second)))),
        shape=(n, n_rows),
    ).tocsr()
    return np.asarray(B.T @ (B.T @ M[:n, :n]).T)


def extended(span: Span, cross: Array, variance: float, points: tuple[int, int]) -> Span:
    """The span with one comparison more: O(n r + r^2).

    Parameters
    ----------
    cross : ndarray of shape (r,)
        Prior covariance of the new difference with the basis.
    variance : float
        Its prior variance; 0 or less: nothing is added to the basis.
    points : (int, int)
        Numbers of its two points.
    """
    basis, old = span.basis, span.differences
    r = len(basis)
    a = np.asarray(dtrsm(1.0, basis.root, cross[:, None], lower=1)).ravel() if r else cross
    rest = variance - a @ a
    if rest > _NEGLIGIBLE * variance:
        root = np.zeros((r + 1, r + 1), order="F")
        root[:r, :r], root[r, :r], root[r, r] = basis.root, a, np.sqrt(rest)
        basis = Basis(root, np.append(basis.first, points[0]), np.append(basis.second, points[1]))
        a = np.append(a, np.sqrt(rest))
    n = len(old.C)
    C = np.zeros((n + 2, len(basis)))
    C[:n, :r], C[n] = old.C, a
    first, second = np.append(old.first, n), np.append(old.second, n + 1)
    return Span(Differences(C, first, second, old.stairs), basis)
