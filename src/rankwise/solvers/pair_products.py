"""X'LX by products: the linear form of RankRLS without any square matrix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from rankwise.backends.arrays import Array, Index, is_sparse
from rankwise.backends.dispatch import as_given, backend_of
from rankwise.graph import PairGraph, QueryGroups
from rankwise.solvers.shifted_cg import Apply

CHUNK = 2**21  # stored values of sparse rows that are looked at together


@dataclass(frozen=True, eq=False)
class PairProducts:
    """The systems (X'LX + lam I) w = X'Ly of several graphs L on the same rows.

    A product with X'LX takes O(nnz) time, and O(m + n) memory for each column. The systems are
    solved side by side, and a column of products belongs to each output of each system.

    Attributes
    ----------
    forward, transpose : callable
        P -> X P and Q -> X'Q.
    graphs : list of PairGraph
    columns : list of slice
        The columns of each graph.
    b : array of shape (n_features, n_columns)
        X'Ly.
    """

    forward: Apply
    transpose: Apply
    graphs: Sequence[PairGraph]
    columns: Sequence[slice]
    b: Array

    @classmethod
    def of(
        cls,
        X: Any,
        graphs: Sequence[PairGraph],
        targets: Sequence[Array | None],
        groups: QueryGroups | None = None,
    ) -> PairProducts:
        """The systems of these graphs and their targets, on the backend of X.

        A feature that all rows of a query have counts only by its differences within the query. It
        is replaced by the difference from the first row, so that no digits cancel. No graph
        compares rows of different `groups`, by default the groups of the first graph.
        """
        on = backend_of(X)
        groups = graphs[0].compared if groups is None else groups
        forward, transpose = on.products(within_queries(as_given(X), groups))
        rhs, columns, end = [], [], 0
        for graph, y in zip(graphs, targets, strict=True):
            found = on.array(graph.rhs(y))
            rhs.append(found.reshape(len(found), -1))
            columns.append(slice(end, end + rhs[-1].shape[1]))
            end = columns[-1].stop
        b = transpose(on.contiguous(on.xp.hstack(rhs)))
        return cls(forward, transpose, graphs, columns, b)

    def __call__(self, P: Array) -> Array:
        """X'LX P. P has the columns of all systems, several times if there are more of them."""
        Q = self.forward(P)
        if len(self.graphs) == 1:
            return self.transpose(self.graphs[0] @ Q)
        on, width = backend_of(Q), self.columns[-1].stop
        for start in range(0, P.shape[1], width):
            for graph, part in zip(self.graphs, self.columns, strict=True):
                some = slice(start + part.start, start + part.stop)
                Q[:, some] = graph @ on.contiguous(Q[:, some])
        return self.transpose(Q)


def within_queries(X: Any, groups: QueryGroups) -> Any:
    """X with the first row of its query subtracted from features that no row of the query lacks.

    L X is the same. Sparse rows stay sparse: a feature that some rows of a query do not have stays
    as it is, since 0 is among its values and they are not far from it.
    """
    if not is_sparse(X):
        on = backend_of(X)
        first = groups.order[groups.indptr[:-1]]
        X = on.array(X)
        return X - X[on.index(first)][on.index(groups.codes)]
    X = X.tocsr()
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    cells = _shared_cells(X, groups)
    if cells.nnz == 0:
        return X
    keys, n = cells.row.astype(np.int64) * X.shape[1] + cells.col, X.shape[1]
    counts = np.zeros(len(keys), dtype=np.int64)
    wanted = np.zeros(n, dtype=bool)
    wanted[cells.col] = True
    for _, cell in _entries(X, groups.codes, keys, wanted):
        counts += np.bincount(cell, minlength=len(keys))
    full = counts == groups.sizes[cells.row]
    if not full.any():
        return X
    data = X.data.astype(np.float64)
    for entry, cell in _entries(X, groups.codes, keys, wanted):
        shifted = full[cell]
        data[entry[shifted]] -= cells.data[cell[shifted]]
    found = sp.csr_array((data, X.indices.copy(), X.indptr.copy()), shape=X.shape)
    found.eliminate_zeros()
    return found


def _shared_cells(X: Any, groups: QueryGroups) -> Any:
    """The features that the first two rows of each query have, with their values in the first.

    They are sorted by query and feature.
    """
    several = np.flatnonzero(groups.sizes > 1)
    first, second = (X[groups.order[groups.indptr[several] + k]] for k in (0, 1))
    first.data = first.data.astype(np.float64)
    has_both = first.astype(bool).multiply(second.astype(bool))
    cells = has_both.multiply(first).tocsr()
    cells.sort_indices()
    found = cells.tocoo()
    shape = (groups.n_groups, X.shape[1])
    return sp.coo_array((found.data, (several[found.row], found.col)), shape=shape)


def _entries(X: Any, codes: Index, keys: Index, wanted: Array) -> Iterator[tuple[Index, Index]]:
    """Positions in ``X.data`` of values that belong to cells with these keys, and their cells."""
    for rows in row_chunks(X):
        low, high = X.indptr[rows.start], X.indptr[rows.stop]
        entry = low + np.flatnonzero(wanted[X.indices[low:high]])
        row = np.searchsorted(X.indptr, entry, side="right") - 1
        key = codes[row].astype(np.int64) * X.shape[1] + X.indices[entry]
        cell = np.searchsorted(keys, key).clip(max=len(keys) - 1)
        hit = keys[cell] == key
        yield entry[hit], cell[hit]


def row_chunks(X: Any) -> Iterator[slice]:
    """Slices of the rows of a CSR matrix with about CHUNK stored values each."""
    start, n_rows = 0, X.shape[0]
    while start < n_rows:
        stop = int(np.searchsorted(X.indptr, X.indptr[start] + CHUNK, side="right")) - 1
        stop = min(max(stop, start + 1), n_rows)
        yield slice(start, stop)
        start = stop


def pair_squares(X: Any, graph: PairGraph) -> Array:
    """The diagonal of X'LX for sparse rows, from some queries at a time."""
    groups = graph.compared
    X = within_queries(as_given(X), groups)
    if groups.n_groups == 1 or graph.groups is None:
        return graph.squares(X)
    total = np.zeros(X.shape[1])
    before = np.concatenate(([0], np.cumsum(np.diff(X.indptr)[groups.order])))[groups.indptr]
    chunk_of_query = before[:-1] // CHUNK
    for queries in np.split(
        np.arange(groups.n_groups), np.flatnonzero(np.diff(chunk_of_query)) + 1
    ):
        rows = groups.order[groups.indptr[queries[0]] : groups.indptr[queries[-1] + 1]]
        total += graph.take(rows).squares(X[rows])
    return total
