"""Which rows may stand for all: landmarks of a kernel.

A function f lives on r landmarks when it is a sum of kernel functions at these rows alone. What
is lost is measured by the residual of the Nystroem approximation,

    K - K_MR K_RR^-1 K_RM,

whose trace the last two of these methods make small.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwise.backends.arrays import EPS, Array, Index, to_host
from rankwise.backends.dispatch import backend_of
from rankwise.errors import DataError
from rankwise.kernels.functions import Kernel, Precomputed
from rankwise.kernels.products import kernel_diagonal, kernel_values

BLOCK_BYTES = 32 * 2**20  # of kernel values held at a time
BATCH = 64  # rows proposed at a time in randomly pivoted Cholesky
EXHAUSTED = 1e-13  # a residual below this share of the trace is rounding


def landmark_points(kernel: Kernel, X: Any, rows: Index) -> Any:
    """What the kernel takes as its second argument for these rows of X."""
    return rows if isinstance(kernel, Precomputed) else X[rows]


def random_rows(n_rows: int, n: int, rng: np.random.Generator) -> Index:
    """Rows at random, each at most once, ascending."""
    return np.sort(rng.choice(n_rows, n, replace=False)).astype(np.intp)


def stratified_rows(codes: Index, n: int, rng: np.random.Generator) -> Index:
    """Rows at random, as evenly over queries as their sizes allow, ascending.

    `codes` has the query of every row. First one row of each query in a random order of the
    queries, then a second one, and so on, until there are n.
    """
    shuffled = rng.permutation(len(codes))
    by_query = shuffled[np.argsort(codes[shuffled], kind="stable")]
    sizes = np.bincount(codes)
    place = np.arange(len(codes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    turn = np.repeat(rng.permutation(len(sizes)), sizes)
    return np.sort(by_query[np.lexsort((turn, place))[:n]]).astype(np.intp)


def pivoted_cholesky_rows(kernel: Kernel, X: Any, n: int, rng: np.random.Generator) -> Index:
    """Rows by randomly pivoted Cholesky: each drawn by its residual, given those before.

    Rows are proposed some at a time and accepted with the chance that the residual has left
    them, which draws from the same distribution as one row at a time. Fewer than n where the
    kernel has a lower rank. O(m n^2) time and m n memory for m rows.

    References
    ----------
    Chen, Epperly, Tropp, Webber: Randomly pivoted Cholesky: practical approximation of a kernel
    matrix with few entry evaluations. Communications on Pure and Applied Mathematics 78, 2025;
    the proposals are those of Epperly, Tropp, Webber: Embrace rejection, 2024.
    """
    on = backend_of(X)
    residual = _diagonal(kernel, X)
    floor = EXHAUSTED * residual.sum()
    F = on.empty(n, len(residual)).T  # column after column
    chosen: list[int] = []
    while len(chosen) < n and residual.sum() > floor:
        k = len(chosen)
        drawn = rng.choice(len(residual), min(BATCH, n), p=residual / residual.sum())
        drawn = drawn.astype(np.intp)
        G = to_host(_values(kernel, X[drawn], landmark_points(kernel, X, drawn)))
        before = F[drawn, :k]
        G -= to_host(before @ before.T)
        accepted = _accept(G, rng)[: n - k]
        if not accepted:  # nothing but rounding is left of these
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
    """Rows drawn by their ridge leverage scores, ascending.

    With S a random sample of n rows and mu the residual that S leaves, shared by n rows,

        score_i = (k_ii - k_iS (K_SS + mu I)^-1 k_Si) / mu

    estimates how much of row i the others do not tell. O(m n^2 + n^3) time; memory for some n by n
    matrices and 64 MiB.

    References
    ----------
    Musco, Musco: Recursive sampling for the Nystroem method. NIPS 2017; one level of it.
    """
    on, diagonal = backend_of(X), _diagonal(kernel, X)
    sample = random_rows(len(diagonal), n, rng)
    points = landmark_points(kernel, X, sample)
    s, V = on.eigh(_values(kernel, X[sample], points))
    used = s > 1e-12 * s.max()  # without what is rounding, or negative in a kernel that is none
    s, half = s[used], on.contiguous(V[:, used] / on.xp.sqrt(s[used]))
    rest = diagonal - _squared_products(kernel, X, points, half)
    mu = max(float(rest.sum()) / n, 1e-10 * float(s.sum()))
    told = _squared_products(kernel, X, points, half * on.xp.sqrt(s / (s + mu)))
    score = np.maximum(diagonal - told, 1e-12 * mu)
    return np.sort(rng.choice(len(score), n, replace=False, p=score / score.sum())).astype(np.intp)


def _diagonal(kernel: Kernel, X: Any) -> Array:
    """k(x, x) of every row; below 0 only if the kernel is not semidefinite, and then taken as 0."""
    with np.errstate(over="ignore", invalid="ignore"):  # said below, with a way out
        diagonal: Array = np.maximum(to_host(kernel_diagonal(kernel, X)), 0.0)
    if not np.isfinite(diagonal).all():
        row = int(np.argmin(np.isfinite(diagonal)))
        raise DataError(
            f"The kernel of row {row} with itself is not finite. Scale the features, or lower "
            "gamma or degree."
        )
    if diagonal.max() <= 0.0:
        raise DataError(
            "The kernel of every row with itself is 0 or less: there is nothing to choose "
            "landmarks by. Check the features and the kernel."
        )
    return diagonal


def _accept(G: Array, rng: np.random.Generator) -> list[int]:
    """Proposals that are taken, given those taken before; G is their residual kernel."""
    G, first = G.copy(), np.diagonal(G).copy()
    accepted = []
    for i, chance in enumerate(rng.random(len(G))):
        if G[i, i] > chance * first[i] and G[i, i] > EXHAUSTED * first[i]:
            accepted.append(i)
            G -= np.outer(G[:, i], G[i] / G[i, i])
    return accepted


def _lifted(G: Array) -> Array:
    """G with its diagonal raised by rounding, so that it has a Cholesky factor."""
    return np.asarray(G + 4 * len(G) * EPS * np.trace(G) * np.eye(len(G)))


def _squared_products(kernel: Kernel, X: Any, points: Any, V: Array) -> Array:
    """|k_iS V|^2 for every row i, block by block."""
    n_rows, on = X.shape[0], backend_of(X)
    out, step = np.empty(n_rows), max(1, on.block_bytes(BLOCK_BYTES) // (8 * len(V)))
    for start in range(0, n_rows, step):
        rows = slice(start, min(start + step, n_rows))
        U = on.matmul(_values(kernel, X[rows], points), V)
        out[rows] = to_host(on.xp.einsum("ij,ij->i", U, U))
    return out


def _values(kernel: Kernel, X: Any, points: Any) -> Array:
    """k(X, points), ours to overwrite, in float64 whatever the kernel gives."""
    on = backend_of(X)
    return on.copy(on.array(kernel_values(kernel, X, points)))
