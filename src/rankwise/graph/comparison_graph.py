"""Explicit comparisons: L = B' diag(w) B."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import lapack, solve_triangular

from rankwise.backends.arrays import Array, Index, Loader, is_sparse
from rankwise.backends.dispatch import backend_of
from rankwise.graph.comparisons import Comparisons
from rankwise.graph.query_graph import PairBlock, PairGraph, row_scale
from rankwise.graph.query_groups import QueryGroups

PAIRS_TOGETHER = 2**14  # whose differences of sparse rows are in memory


@dataclass(frozen=True, eq=False, repr=False)
class ComparisonGraph(PairGraph):
    """Comparisons between rows, each with a weight w and a margin.

    With B the incidence matrix (1 at the preferred row of a pair, -1 at the other),
    L = B' diag(w) B and the right-hand side is B' diag(w) margin.

    The root is diag(sqrt w) B, with a row per comparison; or, if there are more comparisons than
    rows, the pivoted Cholesky factor of L, with at most one row per row of X.

    Attributes
    ----------
    n_rows : int
    first, second : ndarray of shape (n_pairs,)
        The preferred and the other row of each pair.
    margin : ndarray of shape (n_pairs,) or (n_pairs, n_outputs)
    weight : ndarray of shape (n_pairs,)
    context : ndarray of shape (n_pairs, n_columns) or None
        Features of the comparisons themselves. Each column is a further row of the graph, after
        the rows of X, and B has its values there: B F is then the differences of features plus the
        context, if the features of these rows are unit vectors (see `ContextSpace`).
    group_of_pair : ndarray of shape (n_pairs,) or None
        The group of each comparison, numbered from 0, if whole groups are to be held out.
    """

    n_rows: int
    first: Index
    second: Index
    margin: Array
    weight: Array
    context: Array | None = None
    group_of_pair: Index | None = None
    groups = None

    @classmethod
    def build(cls, n_rows: int, pairs: Any, margin: Any, weight: Any) -> ComparisonGraph:
        return cls.of(n_rows, Comparisons.check(n_rows, pairs, margin, weight))

    @classmethod
    def of(cls, n_rows: int, given: Comparisons, context: Array | None = None) -> ComparisonGraph:
        """Checked comparisons of this many rows, with scaled context columns."""
        first, second = given.pairs.T.copy()
        n_rows += 0 if context is None else context.shape[1]
        groups = None if given.groups is None else QueryGroups.of(given.groups).codes
        return cls(n_rows, first, second, given.margin, given.weight, context, groups)

    def with_context_columns(self) -> ComparisonGraph:
        """With a comparison of weight 0 and margin 0 as the unit of each context column."""
        assert self.context is not None
        n, none = self.context.shape[1], np.zeros(self.context.shape[1], dtype=np.intp)
        return replace(
            self,
            first=np.append(self.first, none),
            second=np.append(self.second, none),
            margin=np.concatenate((self.margin, np.zeros((n, *self.margin.shape[1:])))),
            weight=np.append(self.weight, np.zeros(n)),
            context=np.vstack((self.context, np.eye(n))),
            group_of_pair=None,
        )

    @property
    def n_pairs(self) -> int:
        return int(np.count_nonzero(self.weight))

    @property
    def n_root_rows(self) -> int:
        return len(self.first)

    @property
    def compared(self) -> QueryGroups:
        """One group of all rows of X; each context column is alone."""
        n_columns = 0 if self.context is None else self.context.shape[1]
        codes = np.zeros(self.n_rows, dtype=np.intp)
        codes[self.n_rows - n_columns :] = 1 + np.arange(n_columns)
        return QueryGroups.of(codes)

    @property
    def degrees(self) -> Array:
        both = np.concatenate((self.first, self.second))
        weights = np.tile(self.weight, 2)
        found = np.bincount(both, weights, self.n_rows).astype(np.float64)
        if self.context is not None:
            found[self.n_rows - self.context.shape[1] :] = self.weight @ self.context**2
        return found

    @cached_property
    def incidence(self) -> Any:
        """B, sparse, of shape (n_pairs, n_rows)."""
        n = len(self.first)
        values = np.tile([1.0, -1.0], n)
        columns = np.column_stack((self.first, self.second)).ravel()
        ends = np.arange(0, 2 * n + 1, 2)
        if self.context is None:
            return sp.csr_array((values, columns, ends), shape=(n, self.n_rows))
        differences = sp.csr_array(
            (values, columns, ends), shape=(n, self.n_rows - self.context.shape[1])
        )
        return sp.hstack((differences, sp.csr_array(self.context)), format="csr")

    @cached_property
    def laplacian(self) -> Any:
        """L, sparse, of shape (n_rows, n_rows): repeated pairs are merged."""
        return (self.incidence.T @ row_scale(self.weight, self.incidence)).tocsr()

    @cached_property
    def _cholesky(self) -> CholeskyRoot | None:
        """The root with fewer rows than B, if there are more comparisons than rows."""
        return CholeskyRoot.of(self.laplacian) if len(self.first) > self.n_rows else None

    def __matmul__(self, X: Any) -> Any:
        if is_sparse(X):
            self._check_rows(X)
            return self.laplacian @ X
        on = backend_of(X)
        X = on.array(X)
        self._check_rows(X)
        return on.sparse_product(self.laplacian, X)

    def rhs(self, y: Any = None) -> Array:
        """B' diag(w) margin, or L y if scores are given."""
        if y is not None:
            return super().rhs(y)
        return np.asarray(self.incidence.T @ row_scale(self.weight, self.margin))

    def root(self, X: Any) -> Array:
        on = backend_of(X)
        X = on.array(X)
        if self._cholesky is not None:
            return on.array(on.array(self._cholesky.U) @ X)
        differences = on.sparse_product(self.incidence, X)
        return on.array(row_scale(np.sqrt(self.weight), differences))

    def root_transpose(self, Z: Array) -> Array:
        on = backend_of(Z)
        if self._cholesky is not None:
            return on.array(self._cholesky.U).T @ Z
        return on.sparse_product(self.incidence.T, row_scale(np.sqrt(self.weight), Z))

    def root_kernel(self, K: Array) -> Array:
        return self.root(self.root(K).T)

    def root_target(self, y: Array | None) -> Array:
        if self._cholesky is not None:
            return self._cholesky.target(self.rhs(y))
        on = backend_of(y)
        margin = self.margin if y is None else on.sparse_product(self.incidence, y)
        return on.array(row_scale(np.sqrt(self.weight), margin))

    def root_blocks(
        self, load: Loader, y: Array | None, max_rows: int
    ) -> Iterator[tuple[Array, Array]]:
        for start in range(0, len(self.first), max_rows):
            part = np.arange(start, min(start + max_rows, len(self.first)))
            D = self.differences(load, part)
            root_weight = np.sqrt(self.weight[part])
            margin = self.margin[part] if y is None else y[self.first[part]] - y[self.second[part]]
            t = backend_of(D).array(row_scale(root_weight, margin))
            yield row_scale(root_weight, D), t

    def differences(self, load: Loader, some: Index) -> Array:
        """Rows of B F for some comparisons; ``load(rows)`` returns the features of rows."""
        pairs = np.concatenate((self.first[some], self.second[some]))
        rows, where = np.unique(pairs, return_inverse=True)
        D = _subtract_rows(load(rows), *np.split(where, 2))
        if self.context is not None:
            start = self.n_rows - self.context.shape[1]
            D += backend_of(D).array(self.context[some]) @ load(np.arange(start, self.n_rows))
        return D

    def stored_differences(self, F: Array, some: Index) -> Array:
        """Rows of B F for some comparisons, with the features of all rows at hand."""
        D = _subtract_rows(F, self.first[some], self.second[some])
        if self.context is not None:
            on, start = backend_of(D), self.n_rows - self.context.shape[1]
            D += on.matmul(on.array(self.context[some]), on.contiguous(F[start:]))
        return D

    def gram(self, X: Any) -> Array:
        # A product of differences: nothing cancels, unlike in X' (L X).
        Z = row_scale(np.sqrt(self.weight), self.incidence @ X)
        return np.asarray((Z.T @ Z).toarray())

    def squares(self, X: Any) -> Array:
        total = np.zeros(X.shape[1])
        for start in range(0, len(self.first), PAIRS_TOGETHER):
            part = slice(start, start + PAIRS_TOGETHER)
            differences = self.incidence[part] @ X
            total += differences.multiply(differences).T @ self.weight[part]
        return total

    def take(self, rows: Any) -> ComparisonGraph:
        assert self.context is None  # its rows are not rows of X
        rows = np.arange(self.n_rows)[rows]
        position = np.full(self.n_rows, -1, dtype=np.intp)
        position[rows] = np.arange(len(rows))
        first, second = position[self.first], position[self.second]
        kept = (first >= 0) & (second >= 0)
        return ComparisonGraph(
            len(rows), first[kept], second[kept], self.margin[kept], self.weight[kept]
        )

    def to_dense(self) -> Array:
        """L as an array, for tests and small examples: O(n_rows^2) memory."""
        return np.asarray(self.laplacian.toarray())

    def pairs(self, block_size: int = 65536) -> Iterator[PairBlock]:
        """Each comparison as given: `first` is the preferred row."""
        counted = np.flatnonzero(self.weight)
        for start in range(0, len(counted), block_size):
            part = counted[start : start + block_size]
            yield PairBlock(self.first[part], self.second[part], self.weight[part])


@dataclass(frozen=True)
class CholeskyRoot:
    """U with U'U = L; its columns `pivots`, in this order, are upper triangular."""

    U: Array
    pivots: Index

    @classmethod
    def of(cls, laplacian: Any) -> CholeskyRoot:
        factor, pivot, rank, _ = lapack.dpstrf(laplacian.toarray(order="F"), overwrite_a=1)
        U = np.empty((rank, len(pivot)))
        U[:, pivot - 1] = np.triu(factor[:rank])
        return cls(U, pivot[:rank].astype(np.intp) - 1)

    def target(self, rhs: Array) -> Array:
        """The t with U't = rhs, for a right-hand side in the range of L."""
        return solve_triangular(
            self.U[:, self.pivots], rhs[self.pivots], trans="T", check_finite=False
        )


def _subtract_rows(F: Array, first: Index, second: Index) -> Array:
    """F[first] - F[second]."""
    if not backend_of(F).is_host:
        return F[first] - F[second]
    # Indices are valid; "clip" spares NumPy a check that makes it slower.
    D: Array = F.take(first, axis=0, mode="clip")
    with np.errstate(over="ignore"):  # the solver checks for overflow
        D -= F.take(second, axis=0, mode="clip")
    return D
