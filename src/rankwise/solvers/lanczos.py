"""The largest eigenvalues of a symmetric matrix, and their vectors."""

from __future__ import annotations

import numpy as np

from rankwise.backends.arrays import Array
from rankwise.backends.dispatch import backend_of

# Measured: below these, one dense reduction costs no more than some hundred products.
SMALL = 1500  # rows
FEW = 1 / 6  # of all eigenvectors

WIDTH = 16  # of a block: as many vectors for the price of reading the matrix once
CONVERGED = 1e-14  # of the largest eigenvalue: residuals that a dense solver leaves as well
RESTARTS = 60


def leading_eigenpairs(S: Array, n: int) -> tuple[Array, Array]:
    """The n largest eigenvalues of S, descending, and their vectors as columns.

    By a block Lanczos method, O(m^2 n) time and memory for some 7 n vectors and a few matrices of
    3 n by 3 n, where n is small beside m (`is_few`); by dense LAPACK, with a copy of S, otherwise,
    or where Lanczos finds equal eigenvalues, which it cannot count.
    """
    m, on = len(S), backend_of(S)
    if is_few(m, n):
        found = _block_lanczos(S, n)
        if found is not None:
            return found
    s, V = on.largest_eigh(S, n)
    return on.copy(on.xp.flip(s, (0,))), on.contiguous(on.xp.flip(V, (1,)))


def is_few(m: int, n: int) -> bool:
    """Whether n of m eigenvectors are so few that Lanczos is tried first."""
    return m >= SMALL and n <= FEW * m


def matrices_needed(m: int, n: int) -> float:
    """Memory of `leading_eigenpairs`, S and its vectors included, in matrices of m by m."""
    share = n / m
    return 1 + 7 * share + 3 * (3 * share) ** 2 if is_few(m, n) else 2 + share


def _block_lanczos(S: Array, n: int) -> tuple[Array, Array] | None:
    """Block Lanczos with full orthogonalization, restarted with its best vectors.

    With Q the basis and B the block that comes next, S Q = Q T + B R (the last rows of the
    identity)', so that a Ritz pair (theta, Q y) has the residual |R y_last|. None where the
    blocks run out of directions, or do not converge.
    """
    m, on = len(S), backend_of(S)
    most = 3 * n + 4 * WIDTH
    keep = n + max(n // 2, WIDTH)
    Q = on.empty(most + 2 * WIDTH, m).T  # column after column
    T = on.zeros(most + 2 * WIDTH, most + 2 * WIDTH)
    start = np.random.default_rng(0).standard_normal((m, WIDTH))
    Q[:, :WIDTH] = on.qr(on.array(start))[0]
    k = 0
    for _ in range(RESTARTS):
        while k < most:
            new = slice(k, k + WIDTH)
            k += WIDTH
            block = on.matmul(S, Q[:, new])
            H, B, R = _orthogonalize(Q[:, :k], block)
            T[:k, new], T[new, :k] = H, H.T
            if abs(R.diagonal()).min() <= 1e-12 * abs(T[:k, :k]).max():
                return None
            Q[:, k : k + WIDTH] = B
        theta, Y = on.eigh((T[:k, :k] + T[:k, :k].T) / 2)
        theta, Y = on.xp.flip(theta, (0,)), on.contiguous(on.xp.flip(Y, (1,)).T).T
        residuals = on.xp.linalg.norm(R @ Y[k - WIDTH : k, :n], axis=0)
        if residuals.max() <= CONVERGED * theta[0]:
            return on.copy(theta[:n]), on.matmul(Q[:, :k], Y[:, :n])
        Q[:, :keep] = on.matmul(Q[:, :k], Y[:, :keep])
        Q[:, keep : keep + WIDTH] = B
        T[:] = 0.0
        on.diagonal(T)[:keep] = theta[:keep]
        k = keep
    return None


def _orthogonalize(Q: Array, block: Array) -> tuple[Array, Array, Array]:
    """H = Q'block, and B R = block - Q H with orthonormal B, orthogonal to Q: twice is enough."""
    on = backend_of(Q)
    H = on.matmul(Q.T, block)
    B, R = on.qr(block - on.matmul(Q, H))
    B, again = on.qr(B - on.matmul(Q, on.matmul(Q.T, B)))
    return H, B, again @ R
