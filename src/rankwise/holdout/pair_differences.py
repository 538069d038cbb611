"""Differences and losses of held-out pairs, and moments of folds, for arrays and tensors.

With the dual weights a = P y and the predictions f = H y, the fit without rows U = {i, j} has the
residuals e_U = P_UU^-1 a_U and predicts f_U - H_UU e_U. For NumPy arrays, compiled loops
(pair_loops.py) run over pairs. On a device, array expressions handle many pairs at once and need a
few arrays with an entry for each pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.backends.dispatch import backend_of
from rankwise.backends.threads import map_in_threads, threads_for
from rankwise.holdout import pair_loops

FOLDS_PER_CALL = 32  # whose moments one thread sums at a time
PADDED_BYTES = 64 * 2**20  # of folds padded to the same length


def block_differences(
    M: Array, is_hat: bool, n: int, start: int, diagonal: Array, f: Array, r: Array
) -> tuple[Index, Index, Array]:
    """(first, second, difference) of all pairs (i, j > i) of a block of rows.

    M holds rows start, start + 1, ... of the hat matrix H on n rows, from column `start` on, or, if
    `is_hat` is False, those of C - H. `f` = H y and `r` = y - f, for a centred y.
    """
    on = backend_of(M)
    if not on.is_host:
        first, second = on.xp.triu_indices(len(M), n - start, 1, device=M.device)
        entries = M[first, second]
        first, second = first + start, second + start
        return first, second, _centred(entries, is_hat, n, diagonal, f, r, first, second)
    count = len(M) * (n - start) - len(M) * (len(M) + 1) // 2
    first, second = np.empty(count, np.intp), np.empty(count, np.intp)
    out = np.empty((count, f.shape[1]))
    M = np.ascontiguousarray(M)
    pair_loops.centred_block(M, is_hat, n, start, diagonal, f, r, first, second, out)
    return first, second, out


def listed_differences(
    entries: Array,
    is_hat: bool,
    n: int,
    diagonal: Array,
    f: Array,
    r: Array,
    first: Index,
    second: Index,
) -> Array:
    """Like `block_differences`, for listed pairs: `entries` holds M[first, second]."""
    on = backend_of(entries)
    if not on.is_host:
        i, j = on.index(first), on.index(second)
        return _centred(entries, is_hat, n, diagonal, f, r, i, j)
    out = np.empty((len(first), f.shape[1]))
    pair_loops.centred_list(entries, is_hat, n, diagonal, f, r, first, second, out)
    return out


def block_slopes(
    M: Array, is_hat: bool, n: int, start: int, diagonal: Array
) -> tuple[Array, Array]:
    """u and v of all pairs (i, j > i) of a block of rows, at [i - start, j - start].

    f_i - f_j without both rows is (f_i - u r_i) - (f_j - v r_j), with the residuals r = y - f.
    """
    if backend_of(M).is_host:
        u, v = np.empty((2, *M.shape))
        pair_loops.pair_slopes(np.ascontiguousarray(M), is_hat, n, start, diagonal, u, v)
        return u, v
    c, m_ii, m_jj = 1.0 / n, diagonal[start : start + len(M), None], diagonal[start:]
    stored, other = (M, m_ii, m_jj), (-c - M, 1.0 - c - m_ii, 1.0 - c - m_jj)
    (h_ij, h_ii, h_jj), (q_ij, q_ii, q_jj) = (stored, other) if is_hat else (other, stored)
    s_ii, s_jj, s_ij = pair_inverse(q_ii, q_jj, q_ij)
    one, two = h_ii - h_ij, h_jj - h_ij
    return one * s_ii - two * s_ij, two * s_jj - one * s_ij


def level_differences(
    P: Array,
    H: Array,
    H_transposed: Array,
    P_diagonal: Array,
    H_diagonal: Array,
    a: Array,
    f: Array,
    first: Index,
    second: Index,
) -> Array:
    """Differences of listed pairs (i, j), from P_ij, H_ij, H_ji and the diagonals."""
    on = backend_of(P)
    if not on.is_host:
        i, j = on.index(first), on.index(second)
        e_i, e_j = _residuals(P_diagonal[i], P_diagonal[j], P, a[i], a[j])
        from_i = (H_diagonal[i] - H_transposed)[:, None] * e_i
        return on.array((f[i] - f[j]) - from_i - (H - H_diagonal[j])[:, None] * e_j)
    out = np.empty((len(first), a.shape[1]))
    pair_loops.level_pairs(P, H, H_transposed, P_diagonal, H_diagonal, a, f, first, second, out)
    return out


def add_losses(
    first: Index, second: Index, difference: Array, y: Array, loss: Any, compared: Any
) -> None:
    """Add the losses of pairs with different labels to both of their rows.

    The loss is 1 for a wrong order and 1/2 for tied predictions; `loss` and `compared` have shape
    (n_rows, n_outputs).
    """
    on = backend_of(difference)
    if on.is_host:
        pair_loops.count_losses(first, second, difference, y, loss, compared)
        return
    i, j = on.index(first), on.index(second)
    gap = on.xp.sign(y[i] - y[j])
    counts = abs(gap)
    # Sums of halves are exact in any order.
    cost = (1.0 - on.xp.sign(difference * gap)) / 2 * counts
    for rows in (i, j):
        loss.index_add_(0, rows, cost)
        compared.index_add_(0, rows, counts)


def add_wins(first: Index, second: Index, difference: Array, wins: Any, compared: Any) -> None:
    """Add the outcome of each pair to both of its rows: 1 for a win, 1/2 for a tie."""
    on = backend_of(difference)
    if on.is_host:
        pair_loops.count_wins(first, second, difference, wins, compared)
        return
    i, j = on.index(first), on.index(second)
    win = (on.xp.sign(difference) + 1.0) / 2
    one = on.xp.ones_like(difference[:, 0])
    for rows, won in ((i, win), (j, 1.0 - win)):
        wins.index_add_(0, rows, won)
        compared.index_add_(0, rows, one)


def moments_of_folds(Z: Array, t: Array, folds: Sequence[Index]) -> tuple[Array, Array]:
    """Z'Z and Z't of each fold."""
    on, n = backend_of(Z), Z.shape[1]
    A, b = on.zeros(len(folds), n, n), on.zeros(len(folds), n, t.shape[1])
    sizes = np.array([len(fold) for fold in folds])
    if on.is_host:
        rows, ptr = np.concatenate(folds), np.concatenate(([0], np.cumsum(sizes)))

        def fill(start: int) -> None:
            stop = start + FOLDS_PER_CALL
            part, ends = slice(start, stop), ptr[start : stop + 1]
            pair_loops.fold_moments(Z, t, rows, ends, A[part], b[part])

        map_in_threads(fill, range(0, len(folds), FOLDS_PER_CALL), threads_for(Z.size))
        return A, b
    with_zero = on.xp.concatenate((on.xp.hstack((Z, t)), on.zeros(1, n + t.shape[1])))
    step = max(1, on.block_bytes(PADDED_BYTES) // (8 * with_zero.shape[1] * int(sizes.max())))
    for start in range(0, len(folds), step):
        part = folds[start : start + step]
        rows = np.full((len(part), max(map(len, part))), len(Z))  # the row of zeros
        for k, fold in enumerate(part):
            rows[k, : len(fold)] = fold
        block = with_zero[on.index(rows)]
        products = block[:, :, :n].mT @ block
        A[start : start + step], b[start : start + step] = products[..., :n], products[..., n:]
    return A, b


def _centred(
    m_ij: Array, is_hat: bool, n: int, diagonal: Array, f: Array, r: Array, i: Any, j: Any
) -> Array:
    """Differences of pairs for P = (C - H) / mu, where C centres n rows; M is H or C - H."""
    c, (m_ii, m_jj) = 1.0 / n, (diagonal[i], diagonal[j])
    other_ij, other_ii, other_jj = -c - m_ij, 1.0 - c - m_ii, 1.0 - c - m_jj
    h_ij, h_ii, h_jj = (m_ij, m_ii, m_jj) if is_hat else (other_ij, other_ii, other_jj)
    q_ij, q_ii, q_jj = (other_ij, other_ii, other_jj) if is_hat else (m_ij, m_ii, m_jj)
    e_i, e_j = _residuals(q_ii, q_jj, q_ij, r[i], r[j])
    from_i, from_j = (h_ii - h_ij)[:, None] * e_i, (h_ij - h_jj)[:, None] * e_j
    return backend_of(f).array((f[i] - f[j]) - from_i - from_j)


def _residuals(
    p_ii: Array, p_jj: Array, p_ij: Array, a_i: Array, a_j: Array
) -> tuple[Array, Array]:
    """P_UU^-1 a_U for U = {i, j}."""
    g_ii, g_jj, g_ij = (g[:, None] for g in pair_inverse(p_ii, p_jj, p_ij))
    return g_ii * a_i + g_ij * a_j, g_jj * a_j + g_ij * a_i


def pair_inverse(p_ii: Array, p_jj: Array, p_ij: Array) -> tuple[Array, Array, Array]:
    """Entries (i, i), (j, j) and (i, j) of the inverses of symmetric 2 by 2 matrices.

    If a matrix is numerically singular, those of its pseudo-inverse: P / trace^2 for rank one.
    """
    xp = backend_of(p_ii).xp
    product = p_ii * p_jj
    det = product - p_ij * p_ij
    regular = abs(det) > 1e-15 * abs(product)
    trace = p_ii + p_jj
    scale = xp.where(trace == 0.0, 0.0, 1.0 / xp.where(trace == 0.0, 1.0, trace) ** 2)
    det = xp.where(regular, det, 1.0)
    return (
        xp.where(regular, p_jj / det, p_ii * scale),
        xp.where(regular, p_ii / det, p_jj * scale),
        xp.where(regular, -p_ij / det, p_ij * scale),
    )
