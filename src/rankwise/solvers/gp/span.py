"""What the weights stand for: the few linear functions of a process that comparisons see."""

from __future__ import annotations

from dataclasses import dataclass

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
    """Comparisons as differences of weighted features, and the basis of the weights."""

    differences: Differences
    basis: Basis

    def scaled(self, scale: float) -> Differences:
        """The differences times a number."""
        d = self.differences
        return d if scale == 1.0 else Differences(d.C * scale, d.first, d.second)


def span_of_rows(K: Array, first: Index, second: Index) -> Span:
    """One weight a row at most: for no more rows than comparisons. K is overwritten."""
    factor = Factor.of(np.asfortranarray(K))
    alone = np.full(len(factor.pivots), _ALONE)
    return Span(Differences(factor.C, first, second), Basis(factor.root, factor.pivots, alone))


def span_of_pairs(K: Array, first: Index, second: Index) -> Span:
    """One weight a comparison at most: for fewer comparisons than rows.

    A comparison is a row of its own then, compared with a row of zeros.
    """
    rows = K[first] - K[second]
    factor = Factor.of(np.asfortranarray(rows[:, first] - rows[:, second]))
    n = len(first)
    C = np.zeros((n + 1, factor.C.shape[1]), order="F")
    C[:n] = factor.C
    differences = Differences(C, np.arange(n), np.full(n, n))
    return Span(differences, Basis(factor.root, first[factor.pivots], second[factor.pivots]))


def span_of_landmarks(K_nm: Array, K_mm: Array, first: Index, second: Index) -> Span:
    """One weight a landmark: f at the rows is what the landmarks say of it. O(n r^2)."""
    factor = Factor.of(np.asfortranarray(K_mm))
    alone = np.full(len(factor.pivots), _ALONE)
    basis = Basis(factor.root, factor.pivots, alone)
    C = np.asfortranarray(basis.project(K_nm.T).T)
    return Span(Differences(C, first, second), basis)


def rows_gradient(span: Span, differences: Differences, a: Approximation, n_rows: int,
                  first: Index, second: Index) -> Array:  # fmt: skip
    """Derivative of the evidence by K, of shape (n, n), for a span of rows or of pairs.

    Parameters
    ----------
    differences : Differences
        Those of the span, in the units that `a` was made in.
    n_rows : int
    first, second : ndarray of shape (N,)
        The rows that were compared.
    """
    M = covariance_gradient(differences, a)
    if span.differences.first is first:
        return M
    n, alike = len(first), np.arange(len(first))
    ones = np.ones(n)
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
    C = np.zeros((n + 2, len(basis)), order="F")
    C[:n, :r], C[n] = old.C, a
    return Span(Differences(C, np.append(old.first, n), np.append(old.second, n + 1)), basis)
