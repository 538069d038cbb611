"""Landmarks by definition, and the residual of their approximation."""

import numpy as np


def pivot_probabilities(K, n):
    """{sorted rows: probability} of randomly pivoted Cholesky, over all sequences of n pivots."""
    found = {}

    def extend(residual, chosen, probability):
        if len(chosen) == n:
            rows = tuple(sorted(chosen))
            found[rows] = found.get(rows, 0.0) + probability
            return
        weights = np.maximum(np.diagonal(residual), 0.0)
        weights[chosen] = 0.0
        for i in np.flatnonzero(weights):
            rest = residual - np.outer(residual[:, i], residual[i]) / residual[i, i]
            extend(rest, [*chosen, int(i)], probability * weights[i] / weights.sum())

    extend(K, [], 1.0)
    return found


def residual_trace(K, rows):
    """The trace of K - K_MR K_RR^+ K_RM."""
    left = K[:, rows]
    return np.trace(K) - np.trace(left @ np.linalg.pinv(K[np.ix_(rows, rows)]) @ left.T)


def sparse_coefficients(K_MR, K_RR, L, y, lam):
    """Equation (8) of the sparse RankRLS paper with dense matrices."""
    return np.linalg.solve(K_MR.T @ L @ K_MR + lam * K_RR, K_MR.T @ L @ y)
