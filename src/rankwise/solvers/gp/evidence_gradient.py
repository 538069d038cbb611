"""Derivatives of the evidence by the prior covariance.

With Q = C C' the covariance of the rows and (d evidence) = tr(M dQ),

    M = (a a' - W) / 2,   a = B' slope,   W = B' (T^-1 + B Q B')^-1 B,

T = diag(tau). For Laplace's approximation the mode moves too: a q' + q a' is added to a a'.
"""

from __future__ import annotations

from rankwise.backends.arrays import Array
from rankwise.backends.blas import matmul
from rankwise.solvers.gp.approximation import Approximation
from rankwise.solvers.gp.differences import Differences


def covariance_gradient(differences: Differences, a: Approximation) -> Array:
    """M, of shape (n, n): O(n^2 r) time.

    W = L - L C P^-1 C'L with L = B'TB, since C P^-1 C' is the posterior covariance.
    """
    L = differences.laplacian(a.tau)
    V = a.weights.whiten((L @ differences.C).T)
    M = matmul(V.T, V) if V.size else V.T @ V
    M -= L.toarray()
    rows = differences.to_rows(a.slope)
    M += rows[:, None] * rows
    if a.bend is not None:
        bend = differences.to_rows(a.bend)
        M += rows[:, None] * bend + bend[:, None] * rows
    M *= 0.5
    return M


def factor_gradient(differences: Differences, a: Approximation) -> Array:
    """M C, of shape (n, r), without M: O(n r^2 + N r) time.

    W C = L C P^-1, since C'L C = P - I.
    """
    C = differences.C
    Y = differences.laplacian(a.tau) @ C
    out = -a.weights.solve(Y.T).T
    rows = differences.to_rows(a.slope)
    out += rows[:, None] * (rows @ C)
    if a.bend is not None:
        bend = differences.to_rows(a.bend)
        out += rows[:, None] * (bend @ C) + bend[:, None] * (rows @ C)
    return out / 2
