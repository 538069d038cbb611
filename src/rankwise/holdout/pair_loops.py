"""Compiled loops of the hold-outs: differences and losses of pairs, moments of short folds.

Without the rows U = {i, j}, the residuals are e_U = P_UU^-1 a_U with a = P y (the dual weights
times lam), and the prediction is f_i - f_j - (h_i e_i - h_j e_j): see pair_systems.py, where f = y
and h = 1 if all pairs count.
"""

from __future__ import annotations

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.backends.jit import compiled, inlined


@inlined
def _inverse(p_ii: float, p_jj: float, p_ij: float) -> tuple[float, float, float]:
    """Entries (i, i), (j, j) and (i, j) of the inverse of a symmetric 2 by 2 matrix.

    If it is numerically singular, entries of its pseudo-inverse: P / trace^2 for rank one.
    """
    det = p_ii * p_jj - p_ij * p_ij
    if abs(det) > 1e-15 * abs(p_ii * p_jj):
        return p_jj / det, p_ii / det, -p_ij / det
    trace = p_ii + p_jj
    if trace == 0.0:
        return 0.0, 0.0, 0.0
    scale = 1.0 / trace / trace
    return p_ii * scale, p_jj * scale, p_ij * scale


@inlined
def _pair(
    p_ij: float,
    p_ii: float,
    p_jj: float,
    h_i: float,
    h_j: float,
    f: Array,
    a: Array,
    i: int,
    j: int,
    out: Array,
) -> None:
    """f_i - f_j without the rows i and j, for each output: Theorem 2 of leave-pair-out."""
    g_ii, g_jj, g_ij = _inverse(p_ii, p_jj, p_ij)
    for o in range(f.shape[1]):
        e_i = g_ii * a[i, o] + g_ij * a[j, o]
        e_j = g_jj * a[j, o] + g_ij * a[i, o]
        out[o] = (f[i, o] - f[j, o]) - (h_i * e_i - h_j * e_j)


@compiled
def block_pairs(
    P: Array,
    start: int,
    diagonal: Array,
    y: Array,
    a: Array,
    first: Index,
    second: Index,
    out: Array,
) -> None:
    """Pairs (i, j > i) of a block of rows: start, start + 1, ... of P, from column `start` on."""
    count = 0
    for row in range(P.shape[0]):
        i = start + row
        for column in range(row + 1, P.shape[1]):
            j = start + column
            first[count], second[count] = i, j
            _pair(P[row, column], diagonal[i], diagonal[j], 1.0, 1.0, y, a, i, j, out[count])
            count += 1


@compiled
def listed_pairs(
    entries: Array,
    diagonal: Array,
    h_i: Array,
    h_j: Array,
    f: Array,
    a: Array,
    first: Index,
    second: Index,
    out: Array,
) -> None:
    """Listed pairs: `entries` has P[first, second]."""
    for k in range(len(first)):
        i, j = first[k], second[k]
        _pair(entries[k], diagonal[i], diagonal[j], h_i[k], h_j[k], f, a, i, j, out[k])


@compiled
def right_without(P: Array, k: int, y: Array, a: Array, labels: Array, compared: Array) -> float:
    """How many compared pairs are in the right order by fits without them and row k.

    Ties count half. P is part of the inverse of a system with a row for each training row; without
    row k, it is P - p_k p_k' / p_kk, and a is a - p_k a_k / p_kk.
    """
    n, p_kk = len(P), P[k, k]
    diagonal, a_rest, out = np.empty(n), np.empty((n, 1)), np.empty(1)
    total = 0.0
    for i in range(n):
        diagonal[i] = P[i, i] - P[i, k] ** 2 / p_kk
        a_rest[i, 0] = a[i, 0] - P[i, k] * a[k, 0] / p_kk
    for i in range(n):
        for j in range(i + 1, n):
            gap = labels[i] - labels[j]
            if i == k or j == k or gap == 0.0 or compared[i, j] == 0.0:
                continue
            p_ij = P[i, j] - P[i, k] * P[j, k] / p_kk
            _pair(p_ij, diagonal[i], diagonal[j], 1.0, 1.0, y, a_rest, i, j, out)
            total += 0.5 * (1.0 + np.sign(out[0] * gap)) * compared[i, j]
    return total


@compiled
def pair_slopes(P: Array, start: int, diagonal: Array, u: Array, v: Array) -> None:
    """u and v for the pairs of a block of rows, as in `block_pairs`.

    f_i - f_j without both rows is (y_i - u a_i) - (y_j - v a_j). If the block has all rows, the
    pairs (j, i) are there as well.
    """
    n = P.shape[1]
    whole = P.shape[0] == n
    for row in range(P.shape[0]):
        for column in range(row + 1, n):
            g_ii, g_jj, g_ij = _inverse(
                diagonal[start + row], diagonal[start + column], P[row, column]
            )
            u[row, column] = g_ii - g_ij
            v[row, column] = g_jj - g_ij
            if whole:
                u[column, row], v[column, row] = v[row, column], u[row, column]
        if whole:
            u[row, row] = v[row, row] = 0.0


@compiled
def count_losses(
    first: Index, second: Index, difference: Array, y: Array, loss: Array, compared: Array
) -> None:
    """Add the losses of pairs with different labels to both of their rows.

    The loss is 1 for a wrong order and 1/2 for tied predictions; `loss` and `compared` have shape
    (n_rows, n_outputs).
    """
    for k in range(len(first)):
        i, j = first[k], second[k]
        for o in range(y.shape[1]):
            gap = y[i, o] - y[j, o]
            if gap == 0.0:
                continue
            agreement = difference[k, o] * np.sign(gap)
            cost = 0.0 if agreement > 0.0 else (0.5 if agreement == 0.0 else 1.0)
            loss[i, o] += cost
            loss[j, o] += cost
            compared[i, o] += 1.0
            compared[j, o] += 1.0


@compiled
def count_wins(
    first: Index, second: Index, difference: Array, wins: Array, compared: Array
) -> None:
    """Add the outcome of each pair to both of its rows: 1 for a win, 1/2 for a tie."""
    for k in range(len(first)):
        i, j = first[k], second[k]
        compared[i] += 1.0
        compared[j] += 1.0
        for o in range(wins.shape[1]):
            d = difference[k, o]
            win = 1.0 if d > 0.0 else (0.5 if d == 0.0 else 0.0)
            wins[i, o] += win
            wins[j, o] += 1.0 - win


@compiled
def fold_moments(Z: Array, t: Array, rows: Index, ptr: Index, A: Array, b: Array) -> None:
    """Add Z'Z and Z't over the rows ptr[f]:ptr[f + 1] of `rows` to A[f] and b[f].

    For short folds, BLAS calls would spend more time starting threads than on the products.
    """
    n = Z.shape[1]
    for f in range(len(ptr) - 1):
        for k in range(ptr[f], ptr[f + 1]):
            z, target = Z[rows[k]], t[rows[k]]
            for i in range(n):
                line, z_i = A[f, i], z[i]
                for j in range(i + 1):
                    line[j] += z_i * z[j]
                for o in range(len(target)):
                    b[f, i, o] += z_i * target[o]
        for i in range(n):
            for j in range(i):
                A[f, j, i] = A[f, i, j]


@compiled
def solve_definite(A: Array, b: Array, strengths: Array, penalty: Array, out: Array) -> float:
    """(A[f] + strengths[f, k] penalty)^-1 b[f] for each fold f and lam k, into out[f, k].

    Returns the smallest pivot relative to the diagonal, and raises LinAlgError if a matrix is not
    positive definite. For small systems, a Cholesky factor and these loops take less time than a
    general solver and the matrices of all systems.
    """
    n, least = A.shape[1], np.inf
    for f in range(len(A)):
        for k in range(strengths.shape[1]):
            M = A[f] + strengths[f, k] * penalty
            C = np.linalg.cholesky(M)
            for i in range(n):
                least = min(least, C[i, i] ** 2 / M[i, i])
            x = out[f, k]
            for i in range(n):
                for o in range(x.shape[1]):
                    total = b[f, i, o]
                    for j in range(i):
                        total -= C[i, j] * x[j, o]
                    x[i, o] = total / C[i, i]
            for i in range(n - 1, -1, -1):
                for o in range(x.shape[1]):
                    x[i, o] /= C[i, i]
                    for j in range(i):
                        x[j, o] -= C[i, j] * x[i, o]
    return least
