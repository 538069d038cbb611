"""Choosing landmarks: a few rows whose kernel functions represent all others.

With landmarks R, a function is a sum of kernel functions at these rows alone. The error is
measured by the residual of the Nystroem approximation,

    K - K_MR K_RR^-1 K_RM.

`pivoted_cholesky_rows` and `leverage_rows` choose rows that make its trace small.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwise.backends.arrays import EPS, Array, Index, to_host
from rankwise.backends.dispatch import backend_of
from rankwise.errors import DataError
from rankwise.kernels.functions import Kernel, Precomputed
from rankwise.kernels.products import kernel_diagonal, kernel_values

BLOCK_BYTES = 32 * 2**20  # of kernel values in memory at a time
BATCH = 64  # rows proposed at a time in randomly pivoted Cholesky
EXHAUSTED = 1e-13  # a smaller share of the trace is rounding error


def landmark_points(kernel: Kernel, X: Any, rows: Index) -> Any:
    """The second argument of the kernel that represents these rows of X."""
    return rows if isinstance(kernel, Precomputed) else X[rows]


def random_rows(n_rows: int, n: int, rng: np.random.Generator) -> Index:
    """Random rows without replacement, ascending."""
    return np.sort(rng.choice(n_rows, n, replace=False)).astype(np.intp)


def stratified_rows(codes: Index, n: int, rng: np.random.Generator) -> Index:
    """Random rows, spread over queries as evenly as their sizes allow, ascending.

    `codes` is the query of each row. Queries take turns in a random order, one row at a time,
    until there are n rows.
    """
    shuffled = rng.permutation(len(codes))
    by_query = shuffled[np.argsort(codes[shuffled], kind="stable")]
    sizes = np.bincount(codes)
    position = np.arange(len(codes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    turn = np.repeat(rng.permutation(len(sizes)), sizes)
    return np.sort(by_query[np.lexsort((turn, position))[:n]]).astype(np.intp)


def pivoted_cholesky_rows(kernel: Kernel, X: Any, n: int, rng: np.random.Generator) -> Index:
    """Rows by randomly pivoted Cholesky, ascending.

    Each row is drawn with probability proportional to its diagonal entry of the residual, given
    the rows before it. Rows are proposed in batches, and each is accepted with the probability
    that corrects for the rows accepted before it; the distribution is the same as for single draws.
    Returns fewer than n rows if the rank of the kernel matrix is lower. O(m n^2) time and O(m n)
    memory for m rows.

    References
    ----------
    Chen, Epperly, Tropp, Webber: Randomly pivoted Cholesky: practical approximation of a kernel
    matrix with few entry evaluations. Communications on Pure and Applied Mathematics 78, 2025;
    batches as in Epperly, Tropp, Webber: Embrace rejection, 2024.
    """
    on = backend_of(X)
    residual = _diagonal(kernel, X)
    floor = EXHAUSTED * residual.sum()
    F = on.empty(n, len(residual)).T  # column-major
    chosen: list[int] = []
    while len(chosen) < n and residual.sum() > floor:
        k = len(chosen)
        drawn = rng.choice(len(residual), min(BATCH, n), p=residual / residual.sum())
        drawn = drawn.astype(np.intp)
        G = to_host(_values(kernel, X[drawn], landmark_points(kernel, X, drawn)))
        before = F[drawn, :k]
        G -= to_host(before @ before.T)
        accepted = _accept(G, rng)[: n - k]
        if not accepted:  # only rounding error is left of these rows
            residual[drawn] = 0.0
            continue
        rows = drawn[accepted]
        part = _values(kernel, X, landmark_points(kernel, X, rows))
        part -= on.matmul(F[:, :k], F[rows, :k].T)
        factor = np.linalg.cholesky(_lifted(G[np.ix_(accepted, accepted)]))
        block = on.solve_triangular(on.array(factor), part.T).T
        F[:, k : k + len(rows)] = block
        chosen.extend(rows.tolist())
        squares = to_host(on.xp.einsum("ij,ij->i", block, block))
        residual = np.maximum(residual - squares, 0.0)
        residual[chosen] = 0.0
    return np.sort(np.array(chosen, dtype=np.intp))


def leverage_rows(kernel: Kernel, X: Any, n: int, rng: np.random.Generator) -> Index:
    """Rows drawn with probability proportional to their ridge leverage scores, ascending.

    With S a random sample of n rows and mu the trace of its residual over n,

        score_i = (k_ii - k_iS (K_SS + mu I)^-1 k_Si) / mu

    estimates the part of row i that is linearly independent of the other rows. O(m n^2 + n^3)
    time; memory for a few n by n matrices and 64 MiB.

    References
    ----------
    Musco, Musco: Recursive sampling for the Nystroem method. NIPS 2017; one level
    of the recursion.
    """
    on, diagonal = backend_of(X), _diagonal(kernel, X)
    sample = random_rows(len(diagonal), n, rng)
    points = landmark_points(kernel, X, sample)
    s, V = on.eigh(_values(kernel, X[sample], points))
    used = s > 1e-12 * s.max()  # neither rounding error nor negative, if the kernel is indefinite
    s, half = s[used], on.contiguous(V[:, used] / on.xp.sqrt(s[used]))
    rest = diagonal - _squared_products(kernel, X, points, half)
    mu = max(float(rest.sum()) / n, 1e-10 * float(s.sum()))
    explained = _squared_products(kernel, X, points, half * on.xp.sqrt(s / (s + mu)))
    score = np.maximum(diagonal - explained, 1e-12 * mu)
    return np.sort(rng.choice(len(score), n, replace=False, p=score / score.sum())).astype(np.intp)


def _diagonal(kernel: Kernel, X: Any) -> Array:
    """k(x, x) of each row; negative values, of an indefinite kernel, count as 0."""
    with np.errstate(over="ignore", invalid="ignore"):  # see the error below
        diagonal: Array = np.maximum(to_host(kernel_diagonal(kernel, X)), 0.0)
    if not np.isfinite(diagonal).all():
        row = int(np.argmin(np.isfinite(diagonal)))
        raise DataError(
            f"The kernel of row {row} with itself is not finite. Scale the features, or lower "
            "gamma or degree."
        )
    if diagonal.max() <= 0.0:
        raise DataError(
            "The kernel of every row with itself is 0 or less, so no row can be a landmark. "
            "Check the features and the kernel."
        )
    return diagonal


def _accept(G: Array, rng: np.random.Generator) -> list[int]:
    """The accepted proposals, each given the previous ones; G is their residual kernel."""
    G, first = G.copy(), np.diagonal(G).copy()
    accepted = []
    for i, chance in enumerate(rng.random(len(G))):
        if G[i, i] > chance * first[i] and G[i, i] > EXHAUSTED * first[i]:
            accepted.append(i)
            G -= np.outer(G[:, i], G[i] / G[i, i])
    return accepted


def _lifted(G: Array) -> Array:
    """G plus the size of its rounding error on the diagonal, so that it has a Cholesky factor."""
    return np.asarray(G + 4 * len(G) * EPS * np.trace(G) * np.eye(len(G)))


def _squared_products(kernel: Kernel, X: Any, points: Any, V: Array) -> Array:
    """|k_iS V|^2 for each row i, block by block."""
    n_rows, on = X.shape[0], backend_of(X)
    out, step = np.empty(n_rows), max(1, on.block_bytes(BLOCK_BYTES) // (8 * len(V)))
    for start in range(0, n_rows, step):
        rows = slice(start, min(start + step, n_rows))
        U = on.matmul(_values(kernel, X[rows], points), V)
        out[rows] = to_host(on.xp.einsum("ij,ij->i", U, U))
    return out


def _values(kernel: Kernel, X: Any, points: Any) -> Array:
    """k(X, points) as a new float64 array, whatever the kernel returns."""
    on = backend_of(X)
    return on.copy(on.array(kernel_values(kernel, X, points)))
