"""All pairs within a query, with or without tied ones: L by nested means."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from rankwise.backends.arrays import Array, Index, is_sparse
from rankwise.backends.dispatch import backend_of
from rankwise.errors import DataError, ParameterError
from rankwise.graph.preference_graph import Loader, PairBlock, PreferenceGraph, required, row_scale
from rankwise.graph.query_groups import QueryGroups
from rankwise.graph.root_blocks import Nest, NestStream

TIES = ("include", "exclude")
WEIGHTINGS = ("pairs", "rows", "queries")


@dataclass(frozen=True, eq=False, repr=False)
class QueryGraph(PreferenceGraph):
    """Pairs of rows of the same query; where ties are excluded, of different levels.

    On a query of n rows with weight w, the level l of row i holding n_l of them,

        (L x)_i = within_l (x_i - mean_l) + between (mean_l - mean),

    with between = w n and within_l = w (n - n_l). Where ties count, the query is a single
    level, and within = w n. The two parts are orthogonal projections, so a power of L, its
    square root above all, has the powers of the two coefficients. This is the low-rank form
    of sections 2.3 and 3 of the RankRLS paper, sorted by eigenvalue.

    Attributes
    ----------
    n_rows : int
    rows : ndarray of shape (n_rows,)
        Row numbers, query after query, and within a query level after level.
    level_ptr : ndarray of shape (n_levels + 1,)
        Where the levels begin and end in `rows`.
    query_ptr : ndarray of shape (n_queries + 1,)
        Where the queries begin and end among the levels.
    ties, weighting : str
        As given.
    """

    n_rows: int
    rows: Index
    level_ptr: Index
    query_ptr: Index
    ties: str
    weighting: str

    @classmethod
    def build(
        cls, y: Any, qid: Any, *, n_rows: int | None, ties: str, weighting: str
    ) -> QueryGraph:
        """Sort rows into queries and levels; the only O(n log n) step."""
        if ties not in TIES:
            raise ParameterError(f"ties must be one of {TIES}: got {ties!r}.")
        if weighting not in WEIGHTINGS:
            raise ParameterError(f"weighting must be one of {WEIGHTINGS}: got {weighting!r}.")
        if y is not None:
            y = np.asarray(y)
            if y.ndim != 1:
                raise DataError(f"Scores must be one-dimensional: got shape {y.shape}.")
            if n_rows is not None and len(y) != n_rows:
                raise DataError(f"y needs one entry per row: got {len(y)} for {n_rows} rows.")
            n_rows = len(y)
        groups = QueryGroups.of(qid, n_rows)
        if ties == "include":
            one_level_each = np.arange(groups.n_groups + 1)
            return cls(groups.n_rows, groups.order, groups.indptr, one_level_each, ties, weighting)
        if y is None:
            raise DataError("Ties can only be excluded where scores are given.")
        return cls._with_levels(groups, y, weighting)

    @classmethod
    def _with_levels(cls, groups: QueryGroups, y: Any, weighting: str) -> QueryGraph:
        rows = np.lexsort((y, groups.codes))
        query, label = groups.codes[rows], y[rows]
        new_level = np.ones(len(rows), dtype=bool)
        new_level[1:] = (query[1:] != query[:-1]) | (label[1:] != label[:-1])
        starts = np.flatnonzero(new_level)
        levels_of_query = np.bincount(query[starts], minlength=groups.n_groups)
        return cls(
            groups.n_rows,
            rows.astype(np.intp, copy=False),
            np.append(starts, len(rows)).astype(np.intp),
            np.concatenate(([0], np.cumsum(levels_of_query))).astype(np.intp),
            "exclude",
            weighting,
        )

    @cached_property
    def level_sizes(self) -> Index:
        """Rows of every level."""
        return np.diff(self.level_ptr)

    @cached_property
    def query_sizes(self) -> Index:
        """Rows of every query."""
        return np.diff(self.level_ptr[self.query_ptr])

    @cached_property
    def query_of_level(self) -> Index:
        return np.repeat(np.arange(len(self.query_ptr) - 1), np.diff(self.query_ptr))

    @cached_property
    def pairs_of_query(self) -> Index:
        """Pairs that count, query by query."""
        n_pairs = self.query_sizes * (self.query_sizes - 1) // 2
        if self.ties == "exclude":
            tied = self.level_sizes * (self.level_sizes - 1) // 2
            n_pairs = n_pairs - np.bincount(
                self.query_of_level, tied, minlength=len(n_pairs)
            ).astype(np.intp)
        return n_pairs

    @cached_property
    def pair_weight(self) -> Array:
        """What one pair of a query weighs, query by query."""
        weight = pair_weight(self.weighting, self.query_sizes, self.pairs_of_query)
        return np.asarray(weight, dtype=np.float64)

    @cached_property
    def between(self) -> Array:
        """The coefficient of mean_l - mean, query by query."""
        return self.pair_weight * self.query_sizes

    @cached_property
    def within(self) -> Array:
        """The coefficient of x_i - mean_l, level by level."""
        others = self.query_sizes[self.query_of_level].astype(np.float64)
        if self.ties == "exclude":
            others -= self.level_sizes
        return self.pair_weight[self.query_of_level] * others

    @property
    def n_pairs(self) -> int:
        return int(self.pairs_of_query.sum())

    @property
    def n_root_rows(self) -> int:
        return self.n_rows

    @cached_property
    def level_of_row(self) -> Index:
        return self._of_row(self.level_sizes)

    @cached_property
    def query_of_row(self) -> Index:
        return self._of_row(self.query_sizes)

    def _of_row(self, sizes: Index) -> Index:
        """Which of these consecutive parts of `rows` each row lies in."""
        part = np.empty(self.n_rows, dtype=np.intp)
        part[self.rows] = np.repeat(np.arange(len(sizes)), sizes)
        return part

    @property
    def degrees(self) -> Array:
        size, own = self.query_sizes[self.query_of_level], self.level_sizes
        partners = size - own if self.ties == "exclude" else size - 1
        of_level: Array = self.pair_weight[self.query_of_level] * partners
        return of_level[self.level_of_row]

    def _combine(self, X: Any, within: Array, between: Array) -> Array:
        on = backend_of(X)
        X = on.array(X)
        self._check_rows(X)
        flat = on.contiguous(X.reshape(self.n_rows, -1))
        out = on.empty(*flat.shape)
        on.combine_rows(
            flat, out, self.rows, self.rows, self.level_ptr, self.query_ptr, within, between
        )
        return out.reshape(X.shape)

    def __matmul__(self, X: Any) -> Any:
        if not is_sparse(X):
            return self._combine(X, self.within, self.between)
        self._check_rows(X)
        product = row_scale(self.within[self.level_of_row], X)
        for indicator, coefficient in self._low_rank():
            product = product + indicator @ row_scale(coefficient, indicator.T @ X)
        return product.tocsr()

    def _low_rank(self) -> list[tuple[Any, Array]]:
        """L - diag(within) as P diag(c) P' terms, P the indicator of levels and of queries."""
        level = self.level_of_row
        of_query = self.between / self.query_sizes
        if self.ties == "include":
            return [(indicator(level, len(self.level_sizes)), -of_query)]
        of_level = (self.between[self.query_of_level] - self.within) / self.level_sizes
        return [
            (indicator(level, len(self.level_sizes)), of_level),
            (indicator(self.query_of_row, len(self.query_sizes)), -of_query),
        ]

    def root(self, X: Any) -> Array:
        return self._combine(X, *self._root_coefficients)

    def root_transpose(self, Z: Array) -> Array:
        return self.root(Z)  # this root is symmetric

    @cached_property
    def _root_coefficients(self) -> tuple[Array, Array]:
        return np.sqrt(self.within), np.sqrt(self.between)

    def root_inverse(self, X: Any) -> Array:
        """The pseudo-inverse of R, times X: R+ R centres every query that has pairs."""
        a, b = self._root_coefficients
        return self._combine(X, _reciprocal(a), _reciprocal(b))

    def root_kernel(self, K: Array) -> Array:
        nest = Nest(self.rows, self.level_ptr, self.query_ptr, *self._root_coefficients)
        on = backend_of(K)
        on.combine_rows(K, K, self.rows, *nest)
        on.combine_columns(K, *nest)
        return K

    def root_target(self, y: Array | None) -> Array:
        return self.root(required(y))

    def root_blocks(
        self, load: Loader, y: Array | None, max_rows: int
    ) -> Iterator[tuple[Array, Array]]:
        y = required(y)
        nest = Nest(self.rows, self.level_ptr, self.query_ptr, *self._root_coefficients)
        on = backend_of(y)
        targets = on.contiguous(on.array(y).reshape(self.n_rows, -1))
        for Z, t in NestStream(nest, load, targets, max_rows):
            yield Z, t.reshape(len(t), *y.shape[1:])

    def gram(self, X: Any) -> Array:
        A = X.T @ row_scale(self.within[self.level_of_row], X)
        for indicator, coefficient in self._low_rank():
            sums = indicator.T @ X
            A = A + sums.T @ row_scale(coefficient, sums)
        A = np.asarray(A.toarray())
        offset = self.offset_columns(X)
        if len(offset):
            Z = self.root(X[:, offset].toarray())
            A[:, offset] = X.T @ self.root(Z)
            A[offset] = A[:, offset].T
            A[np.ix_(offset, offset)] = Z.T @ Z
        return A

    def offset_columns(self, X: Any) -> Index:
        """Columns of a sparse X whose products would cancel: values far from zero, spread little.

        Their scatter is the difference of two large sums; they are to be made dense and centred.
        """
        squares = X.multiply(X)
        raw = np.asarray(squares.T @ self.within[self.level_of_row]).ravel()
        scatter = raw.copy()
        for indicator, coefficient in self._low_rank():
            sums = indicator.T @ X
            scatter += np.asarray(sums.multiply(sums).T @ coefficient).ravel()
        return np.flatnonzero((raw > 0) & (scatter < 1e-4 * raw))

    def take(self, rows: Any) -> QueryGraph:
        rows = np.arange(self.n_rows)[rows]
        level, query = self.level_of_row[rows], self.query_of_row[rows]
        return QueryGraph.build(level, query, n_rows=None, ties=self.ties, weighting=self.weighting)

    def pairs(self, block_size: int = 65536) -> Iterator[PairBlock]:
        for q in range(len(self.query_sizes)):
            levels = self.level_ptr[self.query_ptr[q] : self.query_ptr[q + 1] + 1]
            rows = self.rows[levels[0] : levels[-1]]
            level = np.repeat(np.arange(len(levels) - 1), np.diff(levels))
            step = max(1, block_size // max(len(rows), 1))
            for start in range(0, len(rows), step):
                i, j = np.nonzero(
                    np.arange(start, min(start + step, len(rows)))[:, None] < np.arange(len(rows))
                )
                i += start
                if self.ties == "exclude":
                    differ = level[i] != level[j]
                    i, j = i[differ], j[differ]
                if len(i):
                    first, second = np.minimum(rows[i], rows[j]), np.maximum(rows[i], rows[j])
                    yield PairBlock(first, second, np.full(len(i), self.pair_weight[q]))


def pair_weight(weighting: str, n_rows: Any, n_pairs: Any) -> Any:
    """What a pair weighs in a query with so many rows, and so many pairs that count."""
    size = {"pairs": np.ones_like(n_rows), "rows": n_rows, "queries": n_pairs}[weighting]
    return 1.0 / np.maximum(size, 1)


def indicator(codes: Index, n_columns: int) -> Any:
    """The sparse matrix with a one at (i, codes[i])."""
    n = len(codes)
    return sp.csr_array((np.ones(n), codes, np.arange(n + 1)), shape=(n, n_columns))


def _reciprocal(values: Array) -> Array:
    """1 / values, and 0 for 0."""
    return np.divide(1.0, values, out=np.zeros_like(values), where=values > 0)
