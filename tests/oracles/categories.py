"""Ratings of categories by SciPy's optimizer, battle by battle."""

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_expit


def fit_categories(winners, losers, category, n_items, penalty, width):
    """Overall ratings, ratings of categories, the curvature, and the gradient of each battle.

    Parameters are overall ratings, and then deviations by category and item.
    """
    C = max(category) + 1
    size = n_items * (C + 1)
    precision = np.repeat([penalty, width**-2], [n_items, C * n_items])

    def differences():
        for a, b, c in zip(winners, losers, category, strict=True):
            d = np.zeros(size)
            d[a], d[b] = 1, -1
            d[(c + 1) * n_items + a], d[(c + 1) * n_items + b] = 1, -1
            yield d

    D = np.array(list(differences()))

    def loss(params):
        return 0.5 * precision @ params**2 - log_expit(D @ params).sum()

    found = minimize(loss, np.zeros(size), method="BFGS", options={"gtol": 1e-8}).x
    q = 1 / (1 + np.exp(D @ found))
    K = (D * (q * (1 - q))[:, None]).T @ D + np.diag(precision)
    overall = found[:n_items]
    return overall, found[n_items:].reshape(C, n_items) + overall, K, q[:, None] * D


def log_evidence(winners, losers, category, n_items, penalty, width):
    """Of the normal approximation around the maximum; overall ratings and ratings of categories."""
    overall, ratings, K, _ = fit_categories(winners, losers, category, n_items, penalty, width)
    deviations = ratings - overall
    fit = log_expit(ratings[category, winners] - ratings[category, losers]).sum()
    prior = -0.5 * penalty * overall @ overall - 0.5 * (deviations**2).sum() / width**2
    prior += 0.5 * n_items * np.log(penalty) - deviations.size * np.log(width)
    return fit + prior - 0.5 * np.linalg.slogdet(K)[1], overall, ratings
