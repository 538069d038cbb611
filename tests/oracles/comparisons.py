"""Ridge regression on comparisons, refitted without those that are held out."""

import numpy as np


def differences(F, pairs, context=None):
    """Rows F[i] - F[j], one after the other, with the columns of the context."""
    D = np.array([F[i] - F[j] for i, j in pairs])
    return D if context is None else np.hstack((D, context))


def refit(D, margin, weight, out, lam):
    """Predictions for the comparisons `out` of a fit to the others."""
    A, b = lam * np.eye(D.shape[1]), np.zeros(D.shape[1])
    for k in range(len(D)):
        if k not in out:
            A += weight[k] * np.outer(D[k], D[k])
            b += weight[k] * margin[k] * D[k]
    return D[sorted(out)] @ np.linalg.solve(A, b)


def clustered_error(values, weight, groups):
    """The standard error of a weighted mean, a sum over groups."""
    mean = np.average(values, weights=weight)
    total, n = 0.0, 0
    for group in {group for group, w in zip(groups, weight, strict=True) if w > 0}:
        inside = [k for k in range(len(groups)) if groups[k] == group]
        total += sum(weight[k] * (values[k] - mean) for k in inside) ** 2
        n += 1
    return np.sqrt(n / (n - 1) * total) / sum(weight)
