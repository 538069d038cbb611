"""Ridge regression on comparisons, refitted without those that are held out."""

import mpmath
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


def precise_refits(K, pairs, margin, weight, fold, lam):
    """Predictions of comparisons by fits without their fold, with 60 digits."""
    counted, found = np.flatnonzero(weight > 0), np.empty(len(pairs))
    with mpmath.workdps(60):
        B = mpmath.zeros(len(pairs), len(K))
        for k, (i, j) in enumerate(pairs.tolist()):
            B[k, i] += 1
            B[k, j] -= 1
        G = B * mpmath.matrix(K.tolist()) * B.T
        for one in np.unique(fold):
            rest = [k for k in counted.tolist() if fold[k] != one]
            system = mpmath.matrix([[G[k, j] for j in rest] for k in rest])
            for place, k in enumerate(rest):
                system[place, place] += mpmath.mpf(lam) / mpmath.mpf(float(weight[k]))
            a = mpmath.lu_solve(system, mpmath.matrix(margin[rest].tolist()))
            for k in np.flatnonzero(fold == one).tolist():
                found[k] = float(sum(G[k, j] * a[place] for place, j in enumerate(rest)))
    return found
