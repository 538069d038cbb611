"""The largest eigenvalues of a symmetric matrix and their eigenvectors."""

from __future__ import annotations

import numpy as np

from rankwise.backends.arrays import Array
from rankwise.backends.dispatch import backend_of

# Lanczos pays off, as measured, from this size on and up to this share of the eigenvectors.
SMALL = 1500  # rows
FEW = 1 / 6  # of all eigenvectors

WIDTH = 16  # vectors in a block: they share one pass over the matrix
CONVERGED = 1e-14  # residuals relative to the largest eigenvalue, as those of a dense solver
RESTARTS = 60


def leading_eigenpairs(S: Array, n: int) -> tuple[Array, Array]:
    """The n largest eigenvalues of S, descending, and their vectors as columns.

    If n is small relative to m (`is_few`), a block Lanczos method finds them in O(m^2 n) time, with
    memory for about 7 n vectors and a few 3 n by 3 n matrices. Otherwise, or if Lanczos breaks down
    on repeated eigenvalues, a dense LAPACK routine does, with a copy of S.
    """
    m, on = len(S), backend_of(S)
    if is_few(m, n):
        found = _block_lanczos(S, n)
        if found is not None:
            return found
    s, V = on.largest_eigh(S, n)
    return on.copy(on.xp.flip(s, (0,))), on.contiguous(on.xp.flip(V, (1,)))


def is_few(m: int, n: int) -> bool:
    """Whether n of m eigenvectors are few enough to try Lanczos first."""
    return m >= SMALL and n <= FEW * m


def matrices_needed(m: int, n: int) -> float:
    """Memory of `leading_eigenpairs`, including S and the vectors, in units of m by m matrices."""
    share = n / m
    return 1 + 7 * share + 3 * (3 * share) ** 2 if is_few(m, n) else 2 + share


def _block_lanczos(S: Array, n: int) -> tuple[Array, Array] | None:
    """Block Lanczos with full orthogonalization, restarted with the leading Ritz vectors.

    With the basis Q and the next block B, S Q = Q T + B R E', where E has the last columns of the
    identity. So a Ritz pair (theta, Q y) has the residual |R y_last|. None if a block becomes
    rank-deficient or the method does not converge.
    """
    m, on = len(S), backend_of(S)
    most = 3 * n + 4 * WIDTH
    keep = n + max(n // 2, WIDTH)
    Q = on.empty(most + 2 * WIDTH, m).T  # column-major
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
    """H = Q'block, and B R = block - Q H with orthonormal B orthogonal to Q, in two passes."""
    on = backend_of(Q)
    H = on.matmul(Q.T, block)
    B, R = on.qr(block - on.matmul(Q, H))
    B, again = on.qr(B - on.matmul(Q, on.matmul(Q.T, B)))
    return H, B, again @ R
