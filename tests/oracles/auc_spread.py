"""The spread of a held-out AUC: a refit for every pair, and for every pair without each row."""

import numpy as np


def scores(X, y, train, alpha):
    """Ridge regression with an intercept, from its normal equations."""
    x = np.column_stack((X, np.ones(len(X))))
    penalty = np.diag([alpha] * X.shape[1] + [0.0])
    weights = np.linalg.solve(x[train].T @ x[train] + penalty, x[train].T @ y[train])
    return x @ weights


def outcome(X, y, i, j, out, alpha):
    """Whether row i is above row j, by a fit without both and without the rows in `out`."""
    train = np.setdiff1d(np.arange(len(y)), [i, j, *out])
    f = scores(X, y, train, alpha)
    return (1 + np.sign(f[i] - f[j])) / 2


def refitted_outcomes(X, y, alpha):
    """Outcomes of all pairs, positive by negative, and the effect of each row on those of others.

    The effect is how many pairs more are in the right order with the row among the training rows.
    """
    y = np.asarray(y, dtype=float)
    positive, negative = np.flatnonzero(y == 1), np.flatnonzero(y == 0)
    right = np.array([[outcome(X, y, i, j, [], alpha) for j in negative] for i in positive])
    effects = np.zeros(len(y))
    for k in range(len(y)):
        for a, i in enumerate(positive):
            for b, j in enumerate(negative):
                if k not in (i, j):
                    effects[k] += right[a, b] - outcome(X, y, i, j, [k], alpha)
    return right, effects


def spread(right, effects, y):
    """Standard error and degrees of freedom, class by class, from `refitted_outcomes`."""
    y = np.asarray(y)
    shares = {1: right.mean(axis=1) - right.mean(), 0: right.mean(axis=0) - right.mean()}
    test = cross = training = noise = 0.0
    for label, own in shares.items():
        n, others = len(own), right.size / len(own)
        effect = effects[y == label] / others
        effect = effect - effect.mean()
        terms = (own**2 + own * effect + effect**2 / 20) / (n * (n - 1))
        test += (own**2).sum() / (n * (n - 1))
        cross += (own * effect).sum() / (n * (n - 1))
        training += (effect**2).sum() / (n * (n - 1))
        noise += n * terms.var(ddof=1)
    variance = test + max(cross, 0.0) + training / 20
    return np.sqrt(variance), np.clip(2 * variance**2 / noise, 1, len(y) - 2)
