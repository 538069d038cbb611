"""Landmarks the obvious way, and what they leave."""

import numpy as np


def one_pivot_at_a_time(K, n, rng):
    """Randomly pivoted Cholesky by dense updates: the rows it chose, sorted."""
    residual, chosen = K.copy(), []
    for _ in range(n):
        weights = np.maximum(np.diagonal(residual), 0.0)
        weights[chosen] = 0.0
        pivot = int(rng.choice(len(K), p=weights / weights.sum()))
        chosen.append(pivot)
        residual = residual - np.outer(residual[:, pivot], residual[pivot]) / residual[pivot, pivot]
    return tuple(sorted(chosen))


def residual_trace(K, rows):
    """The trace of K - K_MR K_RR^+ K_RM."""
    left = K[:, rows]
    return np.trace(K) - np.trace(left @ np.linalg.pinv(K[np.ix_(rows, rows)]) @ left.T)


def sparse_coefficients(K_MR, K_RR, L, y, lam):
    """Equation (8) of the sparse RankRLS paper, densely."""
    return np.linalg.solve(K_MR.T @ L @ K_MR + lam * K_RR, K_MR.T @ L @ y)
