"""Functions that are smooth on a graph of rows, labelled or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.linalg import solve_triangular

from rankwise.backends.arrays import EPS, NUMPY, Array, Index, is_sparse
from rankwise.errors import DataError
from rankwise.graph.query_groups import QueryGroups
from rankwise.problem.problem import (
    Basis,
    Coordinates,
    Fit,
    Problem,
    Space,
    check_kernel_fits,
    solutions_of,
)
from rankwise.problem.spaces import FeatureBasis, FeatureSpace, direct_form
from rankwise.solvers.ridge_path import LandmarkFactor, primal

ACCURACY = 1e-9  # relative, of the regularizer
BLOCK = 2**20  # differences of features that are in memory at a time
DISTANCES = 2**24  # between rows that are in memory at a time


@dataclass(frozen=True, eq=False)
class SmoothRows:
    """Rows in coordinates in which the regularizer of a `SmoothSpace` is the identity.

    Attributes
    ----------
    rows : ndarray of shape (n_labelled,)
        The numbers of the labelled rows, which are the rows of the problem.
    n_rows : int
        The number of all rows.
    F : array or sparse of shape (n_labelled, n_coordinates)
        Features of the labelled rows, such that the norm of a function is the norm of its weights.
    C : ndarray of shape (n_coordinates, n_coordinates)
        Lower triangular.
    basis : Basis
        The basis of the other space.
    weights : callable
        Weights in this basis, given weights of the features F.
    """

    rows: Index
    n_rows: int
    F: Any
    C: Array
    basis: Basis
    weights: Callable[[Array], Array]

    @cached_property
    def features(self) -> Array:
        """F C^-T, dense."""
        whole = self.F.toarray() if is_sparse(self.F) else np.asarray(self.F)
        turned = whole.astype(np.float64, order="C").T  # a copy
        found = solve_triangular(self.C, turned, lower=True, overwrite_b=True, check_finite=False)
        return np.ascontiguousarray(found.T)

    def weights_of(self, z: Array) -> Array:
        """Weights in the basis, given weights of the coordinates."""
        return self.weights(solve_triangular(self.C, z, lower=True, trans="T"))


@dataclass(frozen=True, eq=False)
class SmoothSpace(Space):
    """The functions of another space, with a penalty for slopes between neighbouring rows.

    The regularizer is ``|f|^2 + s f'Mf / t``, where f has the values at all rows, labelled or not,
    and M is the Laplacian of a graph on them. With features F in which ``|f|`` is the norm of the
    weights, t is the trace of F'MF: the sum of the squared lengths of the edges. So f'Mf / t is a
    mean of squared slopes, and at most ``|f|^2``.

    With I + s F'MF / t = CC', the rows F C^-T have the identity as regularizer. They are all that a
    solution and exact hold-outs need.

    Attributes
    ----------
    space : Space
        With a `row_matrix` of features.
    smoothness : float
        s above.
    n_neighbors : int
        Number of nearest rows to which each row is connected.
    within_queries : bool
        Whether these are rows of the same query.
    chosen : SmoothRows or None
        What follows from the rows. None: the problem has all rows.

    Examples
    --------
    Of five rows on a line, the first and the third are labelled:

    >>> import numpy as np
    >>> from rankwise.graph import QueryGroups
    >>> from rankwise.problem import FeatureSpace
    >>> X = np.arange(5.0)[:, None]
    >>> space = SmoothSpace(FeatureSpace(), 1.0, n_neighbors=1)
    >>> space.on_rows(X, None, QueryGroups.of(None, 5), np.array([0, 2])).chosen.features.round(3)
    array([[0.   ],
           [1.414]])
    """

    space: Space
    smoothness: float
    n_neighbors: int = 10
    within_queries: bool = True
    chosen: SmoothRows | None = None
    takes_sparse: ClassVar[bool] = True
    keeps_rows: ClassVar[bool] = True

    def on_rows(self, X: Any, qid: Any, groups: QueryGroups, labelled: Index) -> SmoothSpace:
        """The same space with a graph of the rows X, of which some are labelled.

        O(n^2) time for each row, and O(n^3), with n features or landmarks.
        """
        near = groups if self.within_queries else QueryGroups.of(None, groups.n_rows)
        with np.errstate(over="ignore", invalid="ignore"):  # checked below
            F, basis, weights = _explicit(self.space, X, qid)
            M = neighbor_laplacian(X, near, self.n_neighbors)
            S = _slopes(F, M, self.smoothness)
            lengths = float(S.trace())
        if not np.isfinite(lengths):
            raise DataError("Products of features overflow. Scale the features.")
        Omega = np.eye(len(S))
        if lengths > 0:
            Omega += self.smoothness * (S + S.T) / (2 * lengths)
        try:
            C: Array = np.linalg.cholesky(Omega).astype(np.float64, copy=False)
        except np.linalg.LinAlgError:
            raise DataError(
                f"The norm of the function is lost in rounding errors next to {self.smoothness:g} "
                "times its slopes. Use a smaller smoothness."
            ) from None
        some = F if len(labelled) == groups.n_rows else F[labelled]
        return replace(self, chosen=SmoothRows(labelled, groups.n_rows, some, C, basis, weights))

    def solve(self, problem: Problem, alphas: Sequence[float]) -> Fit:
        """(F'LF + alpha CC') w = F'Ly, or as for linear functions of F C^-T."""
        rows = self._chosen(problem)
        if direct_form(rows.F) == "primal":  # without these features, which cost as much as F'LF
            found = [primal(rows.F, t.graph, t.y, alphas, rows.C) for t in problem.tasks]
            on_F = replace(problem, X=rows.F)
            solutions = solutions_of(on_F, FeatureBasis("primal"), found)
            weights = [rows.weights(s.weights) for s in solutions]
        else:
            solutions = _on_features(problem, rows).solve(alphas).solutions
            weights = [rows.weights_of(s.weights) for s in solutions]
        pairs = zip(solutions, weights, strict=True)
        return Fit(rows.basis, [replace(s, weights=w) for s, w in pairs])

    def coordinates(self, problem: Problem) -> Coordinates:
        """Features with the identity as regularizer, or their products."""
        return _on_features(problem, self._chosen(problem)).coordinates()

    @property
    def labelled(self) -> Index | None:
        """The numbers of the labelled rows, if others are unlabelled."""
        found = self.chosen
        return None if found is None or len(found.rows) == found.n_rows else found.rows

    def for_all_rows(self, values: Array) -> Array:
        """Values for labelled rows, which are the second axis, and NaN for the others."""
        if self.chosen is None:
            return values
        whole = np.full((len(values), self.chosen.n_rows, *values.shape[2:]), np.nan)
        whole[:, self.chosen.rows] = values
        return whole

    def _chosen(self, problem: Problem) -> SmoothRows:
        if self.chosen is not None:
            return self.chosen
        rows = np.arange(problem.n_rows)
        chosen = self.on_rows(problem.X, problem.qid, problem.groups, rows).chosen
        assert chosen is not None
        return chosen


def _on_features(problem: Problem, rows: SmoothRows) -> Problem:
    """The same problem on these coordinates, which has the same solution."""
    return replace(problem, X=rows.features, space=FeatureSpace(direct_form(rows.features)))


def _slopes(F: Any, M: sp.csr_array, smoothness: float) -> Array:
    """F'MF, of which rounding errors change the regularizer by about `ACCURACY` at most."""
    S = _dense(F.T @ (M @ F))
    squares = F.multiply(F).sum(axis=1) if is_sparse(F) else np.einsum("ij,ij->i", F, F)
    rounding = EPS * float(M.diagonal() @ np.asarray(squares).ravel())
    # The product is much faster, but features far from zero leave no digits of the differences.
    accurate = smoothness * rounding <= ACCURACY * S.trace()
    return S if accurate else _slopes_by_edge(F, M)


def _slopes_by_edge(F: Any, M: sp.csr_array) -> Array:
    """The sum of (F_i - F_j)(F_i - F_j)' over the edges, all of weight 1."""
    edges = sp.triu(M, k=1).tocoo()
    S = np.zeros((F.shape[1], F.shape[1]))
    values = F.nnz // F.shape[0] + 1 if is_sparse(F) else F.shape[1]
    step = max(1000, BLOCK // values)
    for first in range(0, edges.nnz, step):
        block = slice(first, first + step)
        D = F[edges.row[block]].astype(np.float64) - F[edges.col[block]]
        S += _dense(D.T @ D)
    return S


def _dense(A: Any) -> Array:
    """A matrix as a dense one of float64."""
    return np.asarray(A.toarray() if is_sparse(A) else A, dtype=np.float64)


def _explicit(space: Space, X: Any, qid: Any) -> tuple[Any, Basis, Callable[[Array], Array]]:
    """Features of rows such that the norm of a function is the norm of its weights."""
    rows = space.row_matrix(X, qid)
    assert rows is not None
    F = rows.matrix
    if F.shape[1] <= F.shape[0]:
        return F, rows.basis or FeatureBasis("primal"), rows.weights
    check_kernel_fits(F.shape[0], NUMPY, n_matrices=3)
    G, mean = centred_rows(F)  # differences of rows span the same solutions
    K = _dense(G @ G.T)
    if not K.any():  # all rows are equal
        G, mean = F, np.zeros_like(mean)
        K = _dense(G @ G.T)
    factor = LandmarkFactor.of(K.copy())
    K += G @ mean
    whitened = factor.whiten(K[:, factor.kept])
    basis = rows.basis or FeatureBasis("dual")
    return whitened, basis, lambda w: rows.weights(np.asarray(G.T @ factor.coefficients(w)))


def neighbor_laplacian(X: Any, groups: QueryGroups, n_neighbors: int) -> sp.csr_array:
    """The Laplacian of the graph that connects each row to its nearest neighbours in its group.

    Two rows are connected, with weight 1, if one of them is among the `n_neighbors` nearest rows
    of the other. In a group with fewer rows, all are connected. O(n m_g) time for each row of a
    group of m_g rows with n features.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0], [3.0]])
    >>> neighbor_laplacian(X, QueryGroups.of(None, 3), 1).toarray()
    array([[ 1., -1.,  0.],
           [-1.,  2., -1.],
           [ 0., -1.,  1.]])
    """
    found = [_edges(X[rows], rows, n_neighbors) for rows in groups if len(rows) > 1]
    shape = (groups.n_rows, groups.n_rows)
    if not found:
        return sp.csr_array(shape)
    start, end = (np.concatenate(ends) for ends in zip(*found, strict=True))
    near = sp.coo_array((np.ones(len(start)), (start, end)), shape=shape).tocsr()
    W = near.maximum(near.T)
    return sp.csr_array(sp.diags_array(W.sum(axis=1)) - W)


def centred_rows(X: Any) -> tuple[Any, Array]:
    """Rows minus their mean, so that products keep the digits of differences; and this mean.

    Only columns of sparse rows in which no value is missing are centred: the mean of others is 0.
    """
    X = X.astype(np.float64)  # a copy
    if not is_sparse(X):
        mean = X.mean(axis=0)
        X -= mean
        return X, mean
    X, (n_rows, n_features) = X.tocsr(), X.shape
    X.sum_duplicates()
    full = np.bincount(X.indices, minlength=n_features) == n_rows
    mean = np.where(full, np.bincount(X.indices, X.data, n_features) / n_rows, 0.0)
    X.data -= mean[X.indices]
    return X, mean


def _edges(X: Any, rows: Index, n_neighbors: int) -> tuple[Index, Index]:
    """Each row of a group, as often as it has neighbours, and these."""
    n, k = len(rows), min(n_neighbors, len(rows) - 1)
    X, _ = centred_rows(X)
    if is_sparse(X):
        squares = np.asarray(X.multiply(X).sum(axis=1)).ravel()
    else:
        squares = np.einsum("ij,ij->i", X, X)
    nearest = np.empty((n, k), dtype=np.intp)
    step = max(1, DISTANCES // n)
    for first in range(0, n, step):
        block = np.arange(first, min(first + step, n))
        nearest[block] = _nearest(X, squares, block, k)
    return np.repeat(rows, k), rows[nearest.ravel()]


def _nearest(X: Any, squares: Array, block: Index, k: int) -> Index:
    products = X[block] @ X.T
    distances = squares - 2 * (products.toarray() if is_sparse(products) else products)
    distances[np.arange(len(block)), block] = np.inf
    return np.argpartition(distances, k - 1, axis=1)[:, :k]
