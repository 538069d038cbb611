"""RankRLS with a graph of labelled and unlabelled rows, from its definition."""

import numpy as np

from tests.oracles.laplacian import grouped_laplacian, laplacian


def neighbor_weights(X, qid, n_neighbors):
    """1 where a row is among the nearest of another in its query, row by row."""
    n = len(X)
    W = np.zeros((n, n))
    for i in range(n):
        others = [j for j in range(n) if j != i and qid[j] == qid[i]]
        others.sort(key=lambda j: np.linalg.norm(X[i] - X[j]))
        for j in others[:n_neighbors]:
            W[i, j] = W[j, i] = 1.0
    return W


def transductive_scores(
    X, K, y, qid, lam, *, smoothness, n_neighbors, ties="include", weighting="rows", near=None
):
    """Scores K a of all rows, where a minimizes the penalized squared errors of labelled pairs.

    `near` has the groups in which neighbours are looked for; None: the queries.
    """
    M = laplacian(neighbor_weights(X, qid if near is None else near, n_neighbors))
    length = sum(
        -M[i, j] * (K[i, i] + K[j, j] - 2 * K[i, j]) for i in range(len(K)) for j in range(i)
    )
    some = np.flatnonzero(~np.isnan(y))
    L = np.zeros_like(K)
    L[np.ix_(some, some)] = grouped_laplacian(y[some], qid[some], ties, weighting)
    penalty = K + (smoothness / length if length > 0 else 0.0) * K @ M @ K
    target = np.where(np.isnan(y), 0.0, y)
    return K @ np.linalg.lstsq(K @ L @ K + lam * penalty, K @ L @ target, rcond=1e-13)[0]
