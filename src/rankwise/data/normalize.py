"""Normalization of features within each query."""

from __future__ import annotations

from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from rankwise.backends.dispatch import NUMPY
from rankwise.errors import DataError
from rankwise.graph.query_groups import QueryGroups
from rankwise.scaling import QueryMinMax


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

    Dense X: O(n d) time and one copy of X.
    Sparse X: O(z log z) time for z nonzeros; zeros that are not stored count as values.

    Parameters
    ----------
    X : array-like or sparse array of shape (n_rows, n_features)
        Features; not modified.
    qid : array-like of shape (n_rows,) or None
        Query of each row, as integers or text, in any order. None: all rows are one query.

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
    given: Any = sparse.csr_array(X) if is_sparse else np.asarray(X)
    if given.ndim != 2:
        raise DataError(f"X must have two dimensions, rows and features: got shape {given.shape}.")
    if given.dtype.kind not in "biuf":
        raise DataError(f"X must contain numbers: got dtype {given.dtype}.")
    dtype: Any = np.float32 if given.dtype == np.float32 else np.float64
    groups = QueryGroups.of(qid, given.shape[0])
    rows = given.astype(dtype, copy=False)
    if not NUMPY.is_finite(rows.data if is_sparse else rows):
        raise DataError("X contains NaN or infinite values. Replace them, or drop these rows.")
    scaled: NDArray[Any] | sparse.csr_array = QueryMinMax().scale(rows, groups)
    return scaled
