"""The RankRLS objective as the paper writes it, minimized by a general optimizer."""

import numpy as np
from scipy.optimize import minimize


def pairwise_objective(f, y, W, lam, squared_norm):
    """Equation (6) with the cost (7): two loops over the rows."""
    cost = 0.0
    for i in range(len(y)):
        for j in range(len(y)):
            cost += W[i, j] * ((y[i] - y[j]) - (f[i] - f[j])) ** 2 / 2
    return cost + lam * squared_norm


def minimize_linear(X, y, W, lam):
    """The w that minimizes (6) over linear functions."""
    return _minimum(lambda w: pairwise_objective(X @ w, y, W, lam, w @ w), X.shape[1])


def minimize_kernel(K, y, W, lam):
    """Predictions K a of the a that minimizes (9)."""
    return K @ _minimum(lambda a: pairwise_objective(K @ a, y, W, lam, a @ K @ a), len(K))


def minimize_comparisons(X, pairs, margin, weight, lam):
    """The w that minimizes the weighted squared errors of the margins."""

    def objective(w):
        f = X @ w
        errors = [
            c * (delta - (f[i] - f[j])) ** 2
            for (i, j), delta, c in zip(pairs, margin, weight, strict=True)
        ]
        return sum(errors) + lam * w @ w

    return _minimum(objective, X.shape[1])


def minimize_regression(X, y, lam):
    """(w, intercept) of ridge regression with an unpenalized intercept."""
    solution = _minimum(
        lambda v: ((y - X @ v[:-1] - v[-1]) ** 2).sum() + lam * v[:-1] @ v[:-1], X.shape[1] + 1
    )
    return solution[:-1], solution[-1]


def _minimum(objective, n):
    result = minimize(
        objective, np.zeros(n), method="BFGS", options={"gtol": 1e-9, "maxiter": 5000}
    )
    return result.x
