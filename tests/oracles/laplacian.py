"""Laplacians of preference graphs by two loops over the rows."""

import numpy as np


def pair_weights(y, qid, ties, weighting, row_weight=None):
    """W of shape (n, n), its diagonal zero, entry by entry from the definition."""
    n = len(qid)
    v = np.ones(n) if row_weight is None else row_weight
    W = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if i != j and qid[i] == qid[j] and (ties == "include" or y[i] != y[j]):
                W[i, j] = v[i] * v[j]
    for q in set(qid):
        rows = [i for i in range(n) if qid[i] == q]
        n_pairs = sum(W[i, j] for i in rows for j in rows) / 2
        size = {"pairs": 1, "rows": sum(v[i] for i in rows), "queries": n_pairs}[weighting]
        for i in rows:
            for j in rows:
                if size:
                    W[i, j] /= size
    return W


def laplacian(W):
    """D - W."""
    return np.diag(W.sum(axis=1)) - W


def grouped_laplacian(
    y, qid, ties="include", weighting="pairs", query_weight=None, row_weight=None
):
    """The Laplacian of `PreferenceGraph.from_scores`; both weights have one entry per row."""
    W = pair_weights(y, qid, ties, weighting, row_weight)
    if query_weight is not None:
        for i in range(len(W)):
            W[i] *= query_weight[i]
    return laplacian(W)


def edge_laplacian(n_rows, pairs, weight):
    """The Laplacian of `PreferenceGraph.from_pairs`, a sum over comparisons."""
    L = np.zeros((n_rows, n_rows))
    for (i, j), w in zip(pairs, weight, strict=True):
        L[i, i] += w
        L[j, j] += w
        L[i, j] -= w
        L[j, i] -= w
    return L


def edge_rhs(n_rows, pairs, margin, weight):
    """B' diag(w) margin, comparison by comparison."""
    b = np.zeros((n_rows, *np.shape(margin)[1:]))
    for (i, j), delta, w in zip(pairs, margin, weight, strict=True):
        b[i] += w * delta
        b[j] -= w * delta
    return b
