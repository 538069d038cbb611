"""Normalization of features within each query."""

from __future__ import annotations

from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from rankwise.errors import DataError
from rankwise.graph.query_groups import QueryGroups

_ROWS_AT_A_TIME = 4096


@overload
def normalize_per_query(
    X: sparse.sparray | sparse.spmatrix, qid: ArrayLike | None
) -> sparse.csr_array: ...
@overload
def normalize_per_query(X: ArrayLike, qid: ArrayLike | None) -> NDArray[Any]: ...
def normalize_per_query(X: Any, qid: ArrayLike | None) -> NDArray[Any] | sparse.csr_array:
    """Map each feature of each query to [0, 1]: (x - min) / (max - min) over the query's rows.

    A feature that is constant within a query becomes 0 there. LETOR data sets are normalized in
    this way to make queries comparable: a raw term count means little without the counts of the
    other documents.

    Dense X: O(n d) time and one copy of X (two if the rows of a query are not contiguous).
    Sparse X: O(z log z) time for z nonzeros; zeros that are not stored count as values.

    Parameters
    ----------
    X : array-like or sparse array of shape (n_rows, n_features)
        Features; not modified.
    qid : array-like of shape (n_rows,) or None
        Query of each row, of any dtype and in any order. None: all rows are one query.

    Returns
    -------
    ndarray or csr_array of shape (n_rows, n_features)
        float32 if X is float32, otherwise float64. Sparse if X is; where a feature has a
        negative minimum in a query, all rows of that query are stored, as zeros become positive.

    Raises
    ------
    DataError
        If X is not a finite matrix, max - min overflows, or qid is not one id per row.

    Examples
    --------
    >>> from rankwise.data import normalize_per_query
    >>> normalize_per_query([[1.0, 5.0], [3.0, 5.0], [2.0, 5.0], [7.0, 6.0]], ["a", "a", "a", "b"])
    array([[0. , 0. ],
           [1. , 0. ],
           [0.5, 0. ],
           [0. , 0. ]])
    """
    is_sparse = sparse.issparse(X)
    given: Any = X if is_sparse else np.asarray(X)
    if given.ndim != 2:
        raise DataError(f"X must have two dimensions, rows and features: got shape {given.shape}.")
    if given.dtype.kind not in "biuf":
        raise DataError(f"X must contain numbers: got dtype {given.dtype}.")
    dtype: Any = np.float32 if given.dtype == np.float32 else np.float64
    groups = QueryGroups.of(qid, given.shape[0])
    if not is_sparse:
        return _normalize_dense(given.astype(dtype, copy=False), groups)
    rows = sparse.csr_array(given, dtype=dtype, copy=True)
    rows.sum_duplicates()
    return _normalize_sparse(rows, groups)


def _normalize_dense(X: NDArray[Any], groups: QueryGroups) -> NDArray[Any]:
    out = X.copy()
    if groups.n_groups == 0:
        return out
    by_query = X if groups.contiguous else X[groups.order]
    low = np.minimum.reduceat(by_query, groups.indptr[:-1], axis=0)
    high = np.maximum.reduceat(by_query, groups.indptr[:-1], axis=0)
    span = _span(low, high)
    for start in range(0, len(out), _ROWS_AT_A_TIME):
        rows = out[start : start + _ROWS_AT_A_TIME]
        query = groups.codes[start : start + _ROWS_AT_A_TIME]
        rows -= low[query]
        rows /= span[query]
    return out


def _normalize_sparse(X: sparse.csr_array, groups: QueryGroups) -> sparse.csr_array:
    """The same on stored entries; overwrites X."""
    if X.nnz == 0:
        return X
    row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    key = groups.codes[row] * X.shape[1] + X.indices  # one number per query and feature
    order = np.argsort(key, kind="stable")
    starts = np.flatnonzero(np.diff(key[order], prepend=-1))
    cell = np.empty(len(key), dtype=np.intp)
    cell[order] = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(key)))
    low = np.minimum.reduceat(X.data[order], starts)
    high = np.maximum.reduceat(X.data[order], starts)
    query, feature = np.divmod(key[order][starts], X.shape[1])
    has_zeros = np.bincount(cell) < groups.sizes[query]
    needed = has_zeros & (low < 0)
    if needed.any():
        return _normalize_sparse(_store(X, query[needed], feature[needed], groups), groups)
    low[has_zeros] = 0
    high[has_zeros] = np.maximum(high[has_zeros], 0)
    span = _span(low, high)
    X.data -= low[cell]
    X.data /= span[cell]
    X.eliminate_zeros()
    return X


def _store(
    X: sparse.csr_array, query: NDArray[np.intp], feature: NDArray[np.intp], groups: QueryGroups
) -> sparse.csr_array:
    """X with the zeros of these features stored in all rows of these queries."""
    sizes = groups.sizes[query]
    within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    row = groups.order[np.repeat(groups.indptr[query], sizes) + within]
    column = np.repeat(feature, sizes)
    stored = X.tocoo()
    values = np.concatenate([stored.data, np.zeros(len(row), dtype=X.dtype)])
    places = np.concatenate([stored.row, row]), np.concatenate([stored.col, column])
    return sparse.coo_array((values, places), shape=X.shape).tocsr()


def _span(low: NDArray[Any], high: NDArray[Any]) -> NDArray[Any]:
    """max - min, or 1 where both are equal."""
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise DataError("X contains NaN or infinite values. Replace them, or drop these rows.")
    with np.errstate(over="ignore"):
        span = high - low
    if np.isinf(span).any():
        raise DataError(f"The values of a feature are too far apart for {span.dtype}. Scale X.")
    return np.where(span == 0, 1, span).astype(span.dtype, copy=False)
