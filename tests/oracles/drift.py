"""Drifting ratings by SciPy's optimizer, battle by battle."""

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_expit


def walk_log_posterior(theta, pairs, period, weight, penalty, drift, gaps):
    """Of ratings by period and item, without ties; winners are first in pairs."""
    total = -0.5 * penalty * theta[0] @ theta[0]
    for p, gap in enumerate(gaps):
        step = theta[p + 1] - theta[p]
        total -= 0.5 * step @ step / (drift**2 * gap)
    for (a, b), p, w in zip(pairs, period, weight, strict=True):
        total += w * log_expit(theta[p, a] - theta[p, b])
    return total


def fit_walk(pairs, period, weight, n_items, penalty, drift, gaps):
    """Ratings of all periods, and the matrix of minus second derivatives."""
    shape = (len(gaps) + 1, n_items)

    def loss(flat):
        theta = flat.reshape(shape)
        return -walk_log_posterior(theta, pairs, period, weight, penalty, drift, gaps)

    found = minimize(loss, np.zeros(np.prod(shape)), method="BFGS", options={"gtol": 1e-8}).x
    size = np.prod(shape)
    K = np.zeros((size, size))
    K[:n_items, :n_items] += penalty * np.eye(n_items)
    for p, gap in enumerate(gaps):
        D = np.zeros((n_items, size))
        D[:, p * n_items : (p + 1) * n_items] = -np.eye(n_items)
        D[:, (p + 1) * n_items : (p + 2) * n_items] = np.eye(n_items)
        K += D.T @ D / (drift**2 * gap)
    scores = np.zeros((len(pairs), size))
    for k, ((a, b), p, w) in enumerate(zip(pairs, period, weight, strict=True)):
        d = np.zeros(size)
        d[p * n_items + a], d[p * n_items + b] = 1, -1
        q = 1 / (1 + np.exp(d @ found))
        K += w * q * (1 - q) * np.outer(d, d)
        scores[k] = w * q * d
    return found.reshape(shape), K, scores
