"""Hold-outs by refitting: remove the rows, solve equation (8) and predict the removed rows."""

import mpmath
import numpy as np

from tests.oracles.laplacian import grouped_laplacian


def refit_predictions(K, y, qid, out, lam, ties="include", weighting="pairs"):
    """Predictions for the rows `out` of RankRLS trained on the others."""
    rest = np.setdiff1d(np.arange(len(y)), out)
    L = grouped_laplacian(y[rest], qid[rest], ties, weighting)
    inner = K[np.ix_(rest, rest)]
    a = np.linalg.solve(L @ inner + lam * np.eye(len(rest)), L @ y[rest])
    return K[np.ix_(out, rest)] @ a


def refit_ridge(K, y, out, lam):
    """Predictions for the rows `out` of kernel ridge regression with an intercept."""
    rest = np.setdiff1d(np.arange(len(y)), out)
    n = len(rest)
    system = np.zeros((n + 1, n + 1))
    system[:n, :n] = K[np.ix_(rest, rest)] + lam * np.eye(n)
    system[:n, n] = system[n, :n] = 1.0
    solution = np.linalg.solve(system, np.append(y[rest], 0.0))
    return K[np.ix_(out, rest)] @ solution[:n] + solution[n]


def precise_predictions(K, y, qid, out, lam, ties="include"):
    """Like `refit_predictions`, with 60 digits."""
    rest = np.setdiff1d(np.arange(len(y)), out)
    L = grouped_laplacian(y[rest], qid[rest], ties)
    with mpmath.workdps(60):
        L, inner = mpmath.matrix(L.tolist()), mpmath.matrix(K[np.ix_(rest, rest)].tolist())
        system = L * inner + mpmath.mpf(float(lam)) * mpmath.eye(len(rest))
        a = mpmath.lu_solve(system, L * mpmath.matrix(y[rest].tolist()))
        f = mpmath.matrix(K[np.ix_(out, rest)].tolist()) * a
        return [mpmath.mpf(value) for value in f]


def precise_difference(K, y, i, j, lam, ties="include"):
    """f(i) - f(j) of RankRLS trained on the other rows of a global ranking, with 60 digits."""
    with mpmath.workdps(60):
        first, second = precise_predictions(K, y, np.zeros(len(y)), [i, j], lam, ties)
        return float(first - second)
