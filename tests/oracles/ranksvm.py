"""The squared hinge on pairs, pair by pair, minimized by a general optimizer."""

import numpy as np
from scipy.optimize import minimize


def pairs_of(y, qid):
    """(i, j) for every two rows of a query with y_i > y_j."""
    rows = range(len(y))
    return [(i, j) for i in rows for j in rows if qid[i] == qid[j] and y[i] > y[j]]


def pair_weights(y, qid, weighting):
    """The weight of each of these pairs."""
    pairs = pairs_of(y, qid)
    of_query = [qid[i] for i, _ in pairs]
    if weighting == "pairs":
        return [1.0 for _ in pairs]
    if weighting == "rows":
        return [1.0 / list(qid).count(q) for q in of_query]
    return [1.0 / of_query.count(q) for q in of_query]


def hinge_loss(f, y, qid, weighting="pairs"):
    """sum W_ij max(0, 1 - (f_i - f_j))^2."""
    weights = pair_weights(y, qid, weighting)
    return sum(
        w * max(0.0, 1.0 - (f[i] - f[j])) ** 2
        for w, (i, j) in zip(weights, pairs_of(y, qid), strict=True)
    )


def hinge_gradient(f, y, qid, weighting="pairs"):
    """Its derivatives by the scores."""
    gradient = np.zeros(len(f))
    for w, (i, j) in zip(pair_weights(y, qid, weighting), pairs_of(y, qid), strict=True):
        missing = max(0.0, 1.0 - (f[i] - f[j]))
        gradient[i] -= 2 * w * missing
        gradient[j] += 2 * w * missing
    return gradient


def hinge_hessian(f, y, qid, weighting="pairs"):
    """Second derivatives, where a pair at the hinge itself counts as inactive."""
    H = np.zeros((len(f), len(f)))
    for w, (i, j) in zip(pair_weights(y, qid, weighting), pairs_of(y, qid), strict=True):
        if f[i] - f[j] < 1.0:
            H[i, i] += 2 * w
            H[j, j] += 2 * w
            H[i, j] -= 2 * w
            H[j, i] -= 2 * w
    return H


def minimize_hinge(X, y, qid, lam, weighting="pairs"):
    """The w that minimizes loss + lam |w|^2."""

    def objective(w):
        f = X @ w
        gradient = X.T @ hinge_gradient(f, y, qid, weighting) + 2 * lam * w
        return hinge_loss(f, y, qid, weighting) + lam * w @ w, gradient

    options = {"gtol": 1e-10, "maxiter": 5000}
    return minimize(objective, np.zeros(X.shape[1]), jac=True, method="BFGS", options=options).x


def listed_gradient(w, D, margin, weight, lam):
    """The gradient of the objective for comparisons with differences D, margins and weights."""
    gradient = 2.0 * lam * w
    for d, m, c in zip(D, margin, weight, strict=True):
        missing = m - d @ w
        if m == 0 or missing * np.sign(m) > 0:
            gradient = gradient - 2.0 * c * missing * d
    return gradient
