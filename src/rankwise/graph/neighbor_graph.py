"""The graph of nearest neighbours of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from rankwise.backends.arrays import Array, Index, is_sparse
from rankwise.graph.query_groups import QueryGroups

BLOCK = 2**24  # distances that are in memory at a time


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
    """Rows less their mean, so that products keep the digits of differences; and this mean.

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
    step = max(1, BLOCK // n)
    for first in range(0, n, step):
        block = np.arange(first, min(first + step, n))
        nearest[block] = _nearest(X, squares, block, k)
    return np.repeat(rows, k), rows[nearest.ravel()]


def _nearest(X: Any, squares: Array, block: Index, k: int) -> Index:
    products = X[block] @ X.T
    distances = squares - 2 * (products.toarray() if is_sparse(products) else products)
    distances[np.arange(len(block)), block] = np.inf
    return np.argpartition(distances, k - 1, axis=1)[:, :k]
