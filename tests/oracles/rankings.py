"""Probabilities of rankings, order by order, and ratings by SciPy's optimizers."""

from itertools import permutations, product

import numpy as np
from scipy.optimize import minimize


def order_probability(scores):
    """Of an order, the best first: each is chosen from itself and those after it."""
    size = np.exp(scores)
    return np.prod([size[k] / size[k:].sum() for k in range(len(size))])


def ranking_log_likelihood(levels):
    """Of a ranking: lists of scores, tied within a list; a sum over all orders that agree."""
    orders = product(*(permutations(level) for level in levels))
    return np.log(sum(order_probability(np.concatenate(order)) for order in orders))


def fit_rankings(rankings, n_items, penalty, n_columns=0, weights=None):
    """Ratings and coefficients that maximize the penalized likelihood, by BFGS.

    A ranking is a list of levels, and a level a list of (item, x).
    """
    weights = np.ones(len(rankings)) if weights is None else weights

    def loss(params):
        theta, coef = params[:n_items], params[n_items:]
        total = -0.5 * penalty * theta @ theta
        for weight, ranking in zip(weights, rankings, strict=True):
            levels = [[theta[i] + np.dot(x, coef) for i, x in level] for level in ranking]
            total += weight * ranking_log_likelihood(levels)
        return -total

    start = np.zeros(n_items + n_columns)
    found = minimize(loss, start, method="BFGS", options={"gtol": 1e-7}).x
    found[:n_items] -= found[:n_items].mean()
    return found
