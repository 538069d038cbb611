"""The stored entries of sparse rows by query and feature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from rankwise.backends.arrays import Index
from rankwise.graph.query_groups import QueryGroups


@dataclass(frozen=True, eq=False)
class SparseCells:
    """A cell holds the entries of one feature in one query, if any of them is stored.

    Attributes
    ----------
    X : csr_array
        Rows without duplicates, which may be overwritten.
    order, indptr : ndarray
        ``order[indptr[c]:indptr[c + 1]]`` are the entries of cell c, as positions in ``X.data``.
    of_entry : ndarray of shape (nnz,)
        The cell of each entry.
    query, feature : ndarray of shape (n_cells,)
    incomplete : ndarray of bool, shape (n_cells,)
        Whether some values of the cell are zeros that are not stored.
    """

    X: Any
    order: Index
    indptr: Index
    of_entry: Index
    query: Index
    feature: Index
    incomplete: Any

    @classmethod
    def of(cls, X: Any, groups: QueryGroups) -> SparseCells:
        """Sort the entries by cell: O(z log z) time for z of them."""
        row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        key = groups.codes[row] * X.shape[1] + X.indices
        order = np.argsort(key, kind="stable")
        starts = np.flatnonzero(np.diff(key[order], prepend=-1))
        indptr = np.append(starts, len(key))
        of_entry = np.empty(len(key), dtype=np.intp)
        of_entry[order] = np.repeat(np.arange(len(starts)), np.diff(indptr))
        query, feature = np.divmod(key[order[starts]], max(X.shape[1], 1))
        incomplete = np.diff(indptr) < groups.sizes[query]
        return cls(X, order, indptr, of_entry, query, feature, incomplete)

    def reduce(self, function: np.ufunc) -> Any:
        """np.minimum or np.maximum of the stored entries of each cell."""
        if not len(self.query):
            return np.empty(0, dtype=self.X.dtype)
        return function.reduceat(self.X.data[self.order], self.indptr[:-1])

    def stored(self, cells: Any, groups: QueryGroups) -> SparseCells:
        """With all zeros of these cells stored."""
        if not cells.any():
            return self
        query, feature = self.query[cells], self.feature[cells]
        sizes = groups.sizes[query]
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        row = groups.order[np.repeat(groups.indptr[query], sizes) + within]
        entries = self.X.tocoo()
        values = np.concatenate([entries.data, np.zeros(len(row), dtype=self.X.dtype)])
        rows = np.concatenate([entries.row, row])
        columns = np.concatenate([entries.col, np.repeat(feature, sizes)])
        # Duplicates are added up, and a sum that is zero stays stored.
        X = sp.coo_array((values, (rows, columns)), shape=self.X.shape).tocsr()
        return SparseCells.of(X, groups)
