"""Compiled loops of the hold-outs: differences and losses of pairs, moments of short folds.

With the dual weights a = P y and the predictions f = H y, the fit without rows U = {i, j} has the
residuals e_U = P_UU^-1 a_U and predicts f_U - H_UU e_U.
"""

from __future__ import annotations

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.backends.jit import compiled, inlined


@inlined
def _inverse(p_ii: float, p_jj: float, p_ij: float) -> tuple[float, float, float]:
    """Entries (i, i), (j, j) and (i, j) of the inverse of a symmetric 2 by 2 matrix.

    If it is numerically singular, those of its pseudo-inverse: P / trace^2 for rank one.
    """
    det = p_ii * p_jj - p_ij * p_ij
    if abs(det) > 1e-15 * abs(p_ii * p_jj):
        return p_jj / det, p_ii / det, -p_ij / det
    trace = p_ii + p_jj
    if trace == 0.0:
        return 0.0, 0.0, 0.0
    scale = 1.0 / trace / trace
    return p_ii * scale, p_jj * scale, p_ij * scale


@compiled
def centred_block(
    M: Array,
    is_hat: bool,
    n: int,
    start: int,
    diagonal: Array,
    f: Array,
    r: Array,
    first: Index,
    second: Index,
    out: Array,
) -> int:
    """Pairs (i, j > i) of a block of rows for P = (C - H) / mu, where C centres n rows.

    M holds rows start, start + 1, ... of H, from column `start` on, or, if `is_hat` is False, those
    of C - H = mu P. `f` = H y and `r` = y - f, for a centred y.
    """
    count = 0
    for row in range(M.shape[0]):
        i = start + row
        for j in range(i + 1, n):
            first[count], second[count] = i, j
            _centred_pair(
                M[row, j - start], diagonal[i], diagonal[j], is_hat, n, i, j, f, r, out[count]
            )
            count += 1
    return count


@compiled
def centred_list(
    entries: Array,
    is_hat: bool,
    n: int,
    diagonal: Array,
    f: Array,
    r: Array,
    first: Index,
    second: Index,
    out: Array,
) -> None:
    """Like `centred_block`, for listed pairs: `entries` holds M[first, second]."""
    for k in range(len(first)):
        i, j = first[k], second[k]
        _centred_pair(entries[k], diagonal[i], diagonal[j], is_hat, n, i, j, f, r, out[k])


@inlined
def _centred_pair(
    m_ij: float,
    m_ii: float,
    m_jj: float,
    is_hat: bool,
    n: int,
    i: int,
    j: int,
    f: Array,
    r: Array,
    out: Array,
) -> None:
    c = 1.0 / n
    if is_hat:
        h_ij, h_ii, h_jj = m_ij, m_ii, m_jj
        q_ij, q_ii, q_jj = -c - m_ij, 1.0 - c - m_ii, 1.0 - c - m_jj
    else:
        q_ij, q_ii, q_jj = m_ij, m_ii, m_jj
        h_ij, h_ii, h_jj = -c - m_ij, 1.0 - c - m_ii, 1.0 - c - m_jj
    inverse = _inverse(q_ii, q_jj, q_ij)
    for o in range(f.shape[1]):
        e_i = inverse[0] * r[i, o] + inverse[2] * r[j, o]
        e_j = inverse[1] * r[j, o] + inverse[2] * r[i, o]
        out[o] = (f[i, o] - f[j, o]) - (h_ii - h_ij) * e_i - (h_ij - h_jj) * e_j


@compiled
def right_without(
    M: Array, is_hat: bool, k: int, f: Array, r: Array, labels: Array, compared: Array
) -> float:
    """How many compared pairs are in the right order by fits without them and row k.

    Ties count half. M, f and r are those of `centred_block` for all n rows. Q = C - H is part of
    the inverse of a system with a row for each training row; without row k, it is
    Q - q_k q_k' / q_kk. H without row k is written such that no large terms cancel, and f up to a
    constant.
    """
    n = len(M)
    c, m_kk = 1.0 / n, M[k, k]
    q_kk = 1.0 - c - m_kk if is_hat else m_kk
    diagonal, f_rest, r_rest, out = np.empty(n), np.empty((n, 1)), np.empty((n, 1)), np.empty(1)
    step, total = r[k, 0] / q_kk, 0.0
    for i in range(n):
        m_ik = M[i, k]
        diagonal[i] = _without(M[i, i], m_ik, m_ik, m_kk, q_kk, is_hat, n)
        f_rest[i, 0] = f[i, 0] + (-m_ik if is_hat else m_ik) * step
        r_rest[i, 0] = r[i, 0] - (-c - m_ik if is_hat else m_ik) * step
    for i in range(n):
        for j in range(i + 1, n):
            gap = labels[i] - labels[j]
            if i == k or j == k or gap == 0.0 or compared[i, j] == 0.0:
                continue
            m_ij = _without(M[i, j], M[i, k], M[j, k], m_kk, q_kk, is_hat, n)
            _centred_pair(m_ij, diagonal[i], diagonal[j], is_hat, n - 1, i, j, f_rest, r_rest, out)
            total += 0.5 * (1.0 + np.sign(out[0] * gap)) * compared[i, j]
    return total


@inlined
def _without(
    m_ij: float, m_ik: float, m_jk: float, m_kk: float, q_kk: float, is_hat: bool, n: int
) -> float:
    """An entry of H, or of C - H, without row k."""
    if not is_hat:
        return m_ij - m_ik * m_jk / q_kk
    return m_ij + (m_ik * m_jk + (m_ik + m_jk + m_kk / (n - 1)) / n) / q_kk


@compiled
def pair_slopes(
    M: Array, is_hat: bool, n: int, start: int, diagonal: Array, u: Array, v: Array
) -> None:
    """u and v for the pairs of a block of rows, as in `centred_block`.

    f_i - f_j without both rows is (f_i - u r_i) - (f_j - v r_j), with the residuals r = y - f. If
    the block has all rows, the pairs (j, i) are there as well.
    """
    shift, whole = 1.0 / n, M.shape[0] == n
    for row in range(M.shape[0]):
        i = start + row
        for j in range(i + 1, n):
            m_ii, m_jj, m_ij = diagonal[i], diagonal[j], M[row, j - start]
            o_ii, o_jj, o_ij = 1.0 - shift - m_ii, 1.0 - shift - m_jj, -shift - m_ij
            if is_hat:
                inverse, one, two = _inverse(o_ii, o_jj, o_ij), m_ii - m_ij, m_jj - m_ij
            else:
                inverse, one, two = _inverse(m_ii, m_jj, m_ij), o_ii - o_ij, o_jj - o_ij
            u[row, j - start] = one * inverse[0] - two * inverse[2]
            v[row, j - start] = two * inverse[1] - one * inverse[2]
            if whole:
                u[j, i], v[j, i] = v[i, j], u[i, j]
        if whole:
            u[i, i] = v[i, i] = 0.0


@compiled
def level_pairs(
    P: Array,
    H: Array,
    H_transposed: Array,
    P_diagonal: Array,
    H_diagonal: Array,
    a: Array,
    f: Array,
    first: Index,
    second: Index,
    out: Array,
) -> None:
    """Differences of listed pairs (i, j), from P_ij, H_ij, H_ji and the diagonals."""
    for k in range(len(first)):
        i, j = first[k], second[k]
        p_ii, p_jj = P_diagonal[i], P_diagonal[j]
        inverse = _inverse(p_ii, p_jj, P[k])
        for o in range(a.shape[1]):
            e_i = inverse[0] * a[i, o] + inverse[2] * a[j, o]
            e_j = inverse[1] * a[j, o] + inverse[2] * a[i, o]
            out[k, o] = (
                (f[i, o] - f[j, o])
                - (H_diagonal[i] - H_transposed[k]) * e_i
                - (H[k] - H_diagonal[j]) * e_j
            )


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
def solve_definite(A: Array, b: Array, strengths: Array, penalty: Array, out: Array) -> None:
    """(A[f] + strengths[f, k] penalty)^-1 b[f] for each fold f and lam k, into out[f, k].

    Raises LinAlgError if a matrix is not positive definite. For small systems, a Cholesky factor
    and these loops take less time than a general solver and the matrices of all systems.
    """
    n = A.shape[1]
    for f in range(len(A)):
        for k in range(strengths.shape[1]):
            C = np.linalg.cholesky(A[f] + strengths[f, k] * penalty)
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
