"""Differences and losses of held-out pairs, for arrays and tensors: Theorem 2 of leave-pair-out.

Without the rows U = {i, j}, the prediction is

    f_i - f_j = base_i - base_j - (h_i e_i - h_j e_j),   e_U = P_UU^-1 (P y)_U.

If all pairs count, base is y, h is 1, and e_U are the residuals, up to a constant. pair_systems.py
derives this, and computes P, P y and base. `_pair` is the formula for one pair. For many pairs in
NumPy arrays, the compiled loops at the end run over pairs. For few pairs, and on a device, array
expressions handle many pairs at once and need a few arrays with an entry for each.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwise.backends.arrays import EPS, Array, Index, backend_of, to_host
from rankwise.backends.jit import compiled, inlined

FEW_ENTRIES = 2**19  # of a matrix, up to which slopes need no compiled loop
FEW_PAIRS = 2**14  # predictions of pairs, up to which nothing is worth compiling
TIED = 2.0**-46  # a difference of rounding errors, relative to the terms that cancel


def rounding_error(norm: float, largest: float) -> float:
    """About the relative error of differences, from the norms of a matrix and of its inverse."""
    return max(TIED, EPS * norm * largest / 4)


def settled(difference: Array, size: Array | float, tied: float = TIED) -> Array:
    """Differences, which are 0 where they are rounding errors of terms of this size.

    Rows with equal features have equal predictions. The rounding errors of their difference have
    signs that depend on their labels: such pairs would count as right or wrong, not as tied.

    Examples
    --------
    >>> settled(np.array([1e-16, 0.5]), np.array([1.0, 1.0]))
    array([0. , 0.5])
    """
    on = backend_of(difference)
    return on.array(on.xp.where(abs(difference) <= tied * size, 0.0, difference))


def settled_rows(f: Array, size: Array, codes: Index, tied: float = TIED) -> Array:
    """`settled` for the rows of each group: values of about the same size become equal.

    Every value becomes the next smaller one, if they differ by no more than rounding errors of the
    largest terms of the group.

    Examples
    --------
    >>> f = np.array([[0.5], [0.3], [0.1 + 0.2], [0.3]])
    >>> settled_rows(f, abs(f), np.array([0, 0, 0, 1])).ravel().tolist()
    [0.5, 0.3, 0.3, 0.3]
    """
    values, largest = np.array(to_host(f)), np.zeros((int(codes.max()) + 1, f.shape[1]))
    np.maximum.at(largest, codes, to_host(size))
    for column, most in zip(values.T, largest.T, strict=True):
        order = np.lexsort((column, codes))
        ordered, group = column[order], codes[order]
        with np.errstate(invalid="ignore"):
            close = np.diff(ordered) <= 2.0 * tied * most[group[1:]]
        starts = np.append(True, (np.diff(group) != 0) | ~close)
        column[order] = ordered[np.maximum.accumulate(np.where(starts, np.arange(len(f)), 0))]
    return backend_of(f).array(values)


def block_differences(
    P: Array, start: int, diagonal: Array, y: Array, Py: Array, tied: float = TIED
) -> tuple[Index, Index, Array]:
    """(first, second, difference) of all pairs (i, j > i) of a block of rows; all pairs count.

    The block has rows start, start + 1, ... of P, from column `start` on.
    """
    on, (rows, columns) = backend_of(P), P.shape
    if not on.is_host or P.size * y.shape[1] <= FEW_PAIRS:
        if on.is_host:
            first, second = np.triu_indices(rows, 1, columns)
        else:
            first, second = on.xp.triu_indices(rows, columns, 1, device=P.device)
        entries = P[first, second]
        first, second = first + start, second + start
        found = listed_differences(entries, diagonal, y, Py, first, second, tied=tied)
        return first, second, found
    count = rows * columns - rows * (rows + 1) // 2
    first, second = np.empty(count, np.intp), np.empty(count, np.intp)
    out = np.empty((count, y.shape[1]))
    block_pairs(np.ascontiguousarray(P), start, diagonal, y, Py, tied, first, second, out)
    return first, second, out


def block_losses(
    P: Array, start: int, diagonal: Array, y: Array, Py: Array, labels: Array, tied: float
) -> tuple[Array, Array] | None:
    """`add_losses` of the pairs of `block_differences`, without arrays of pairs, on the host.

    The loss and the number of pairs of each row; None if a difference is not finite.
    """
    loss, compared = np.zeros(labels.shape), np.zeros(labels.shape)
    block = np.ascontiguousarray(P)
    finite = count_block_losses(block, start, diagonal, y, Py, labels, tied, loss, compared)
    return (loss, compared) if finite else None


def listed_differences(
    entries: Array,
    diagonal: Array,
    base: Array,
    Py: Array,
    first: Index,
    second: Index,
    factors: tuple[Array, Array] | None = None,
    tied: float = TIED,
) -> Array:
    """Like `block_differences`, for listed pairs with the entries P_ij and the factors h.

    `factors` is None if all pairs count.
    """
    on = backend_of(entries)
    if on.is_host and len(first) * base.shape[1] > FEW_PAIRS:
        out = np.empty((len(first), base.shape[1]))
        h_i, h_j = factors or (np.ones(len(first)),) * 2
        listed_pairs(entries, diagonal, h_i, h_j, base, Py, first, second, tied, out)
        return out
    i, j = on.index(first), on.index(second)
    with np.errstate(all="ignore"):  # as in the loops
        g_ii, g_jj, g_ij = (g[:, None] for g in pair_inverse(diagonal[i], diagonal[j], entries))
        one = on.xp.ones_like(g_ii)
        h_i, h_j = (one, one) if factors is None else (h[:, None] for h in factors)
        of_i, of_j = (g_ii * Py[i], g_ij * Py[j]), (g_jj * Py[j], g_ij * Py[i])
        gap, e_i, e_j = base[i] - base[j], sum(of_i), sum(of_j)
        size = abs(h_i) * sum(map(abs, of_i)) + abs(h_j) * sum(map(abs, of_j))
        return on.array(settled(gap - (h_i * e_i - h_j * e_j), abs(gap) + size, tied))


def block_slopes(P: Array, start: int, diagonal: Array) -> tuple[Array, Array]:
    """u and v of all pairs (i, j > i) of a block of rows, at [i - start, j - start].

    f_i - f_j without both rows is (y_i - u (P y)_i) - (y_j - v (P y)_j), if all pairs count.
    """
    if backend_of(P).is_host and P.size > FEW_ENTRIES:
        u, v = np.empty((2, *P.shape))
        pair_slopes(np.ascontiguousarray(P), start, diagonal, u, v)
        return u, v
    g_ii, g_jj, g_ij = pair_inverse(diagonal[start : start + len(P), None], diagonal[start:], P)
    return g_ii - g_ij, g_jj - g_ij


def add_losses(
    first: Index, second: Index, difference: Array, y: Array, loss: Any, compared: Any
) -> None:
    """Add the losses of pairs with different labels to both of their rows.

    The loss is 1 for a wrong order and 1/2 for tied predictions; `loss` and `compared` have shape
    (n_rows, n_outputs).
    """
    on = backend_of(difference)
    if on.is_host and difference.size > FEW_PAIRS:
        count_losses(first, second, difference, y, loss, compared)
        return
    i, j = on.index(first), on.index(second)
    gap = on.xp.sign(y[i] - y[j])
    counts = abs(gap)
    # Sums of halves are exact in any order.
    cost = (1.0 - on.xp.sign(difference * gap)) / 2
    cost = on.xp.where(on.xp.isnan(cost), 1.0, cost) * counts
    for rows in (i, j):
        _add_rows(loss, rows, cost)
        _add_rows(compared, rows, counts)


def _add_rows(total: Any, rows: Index, values: Array) -> None:
    """Add values to rows, of which some occur several times."""
    if backend_of(values).is_host:
        np.add.at(total, rows, values)
    else:
        total.index_add_(0, rows, values)


def add_wins(first: Index, second: Index, difference: Array, wins: Any, compared: Any) -> None:
    """Add the outcome of each pair to both of its rows: 1 for a win, 1/2 for a tie."""
    on = backend_of(difference)
    if on.is_host and difference.size > FEW_PAIRS:
        count_wins(first, second, difference, wins, compared)
        return
    i, j = on.index(first), on.index(second)
    win = (on.xp.sign(difference) + 1.0) / 2
    win = on.xp.where(on.xp.isnan(win), 0.0, win)
    one = on.xp.ones_like(difference[:, 0])
    for rows, won in ((i, win), (j, 1.0 - win)):
        _add_rows(wins, rows, won)
        _add_rows(compared, rows, one)


def pair_inverse(p_ii: Array, p_jj: Array, p_ij: Array) -> tuple[Array, Array, Array]:
    """Entries (i, i), (j, j) and (i, j) of the inverses of symmetric 2 by 2 matrices.

    If a matrix is numerically singular, entries of its pseudo-inverse: P / trace^2 for rank one.
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
    base: Array,
    Py: Array,
    i: int,
    j: int,
    tied: float,
    out: Array,
) -> None:
    """f_i - f_j without the rows i and j, for each output: Theorem 2 of leave-pair-out.

    (e_i, e_j) = P_UU^-1 (P y)_U is a 2 by 2 system. `base` is (ii) of pair_systems.py without e: y
    if all pairs count, and then h is 1. Differences of rounding errors are 0, as in `settled`.
    """
    g_ii, g_jj, g_ij = _inverse(p_ii, p_jj, p_ij)
    for o in range(base.shape[1]):
        Py_i, Py_j = Py[i, o], Py[j, o]
        e_i, e_j = g_ii * Py_i + g_ij * Py_j, g_jj * Py_j + g_ij * Py_i
        gap = base[i, o] - base[j, o]
        difference = gap - (h_i * e_i - h_j * e_j)
        size_i, size_j = abs(g_ii * Py_i) + abs(g_ij * Py_j), abs(g_jj * Py_j) + abs(g_ij * Py_i)
        size = abs(gap) + abs(h_i) * size_i + abs(h_j) * size_j
        out[o] = 0.0 if abs(difference) <= tied * size else difference


@compiled
def block_pairs(
    P: Array,
    start: int,
    diagonal: Array,
    y: Array,
    Py: Array,
    tied: float,
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
            entry, found = P[row, column], out[count]
            _pair(entry, diagonal[i], diagonal[j], 1.0, 1.0, y, Py, i, j, tied, found)
            count += 1


@compiled
def listed_pairs(
    entries: Array,
    diagonal: Array,
    h_i: Array,
    h_j: Array,
    base: Array,
    Py: Array,
    first: Index,
    second: Index,
    tied: float,
    out: Array,
) -> None:
    """Listed pairs: `entries` has P[first, second]."""
    for k in range(len(first)):
        i, j = first[k], second[k]
        _pair(entries[k], diagonal[i], diagonal[j], h_i[k], h_j[k], base, Py, i, j, tied, out[k])


def right_without(
    P: Array, k: int, y: Array, Py: Array, labels: Array, compared: Array, tied: float
) -> float:
    """How many compared pairs are in the right order by fits without them and row k.

    Ties count half. P is part of the inverse of a system with a row for each training row; without
    row k, it is P - p_k p_k' / p_kk, and P y becomes P y - p_k (P y)_k / p_kk.
    """
    if P.size > FEW_PAIRS:
        return float(count_right_without(P, k, y, Py, labels, compared, tied))
    with np.errstate(all="ignore"):
        rest = P - np.outer(P[:, k], P[k]) / P[k, k]
        Py_rest = Py - P[:, k, None] * Py[k] / P[k, k]
        u, v = block_slopes(rest, 0, rest.diagonal())
        gap, e_i, e_j = y - y[:, 0], u * Py_rest, v * Py_rest[:, 0]
        difference = settled(gap - (e_i - e_j), abs(gap) + abs(e_i) + abs(e_j), tied)
        gap = labels[:, None] - labels
        counted = (gap != 0.0) & (compared != 0.0)
        right = np.where(counted, 0.5 * (1.0 + np.sign(difference * gap)) * compared, 0.0)
    right[k] = right[:, k] = 0.0
    return float(np.triu(right, 1).sum())


@compiled
def count_right_without(
    P: Array, k: int, y: Array, Py: Array, labels: Array, compared: Array, tied: float
) -> float:
    """`right_without` for many rows."""
    n, p_kk = len(P), P[k, k]
    diagonal, Py_rest, out = np.empty(n), np.empty((n, 1)), np.empty(1)
    total = 0.0
    for i in range(n):
        diagonal[i] = P[i, i] - P[i, k] ** 2 / p_kk
        Py_rest[i, 0] = Py[i, 0] - P[i, k] * Py[k, 0] / p_kk
    for i in range(n):
        for j in range(i + 1, n):
            gap = labels[i] - labels[j]
            if i == k or j == k or gap == 0.0 or compared[i, j] == 0.0:
                continue
            p_ij = P[i, j] - P[i, k] * P[j, k] / p_kk
            _pair(p_ij, diagonal[i], diagonal[j], 1.0, 1.0, y, Py_rest, i, j, tied, out)
            total += 0.5 * (1.0 + np.sign(out[0] * gap)) * compared[i, j]
    return total


@compiled
def pair_slopes(P: Array, start: int, diagonal: Array, u: Array, v: Array) -> None:
    """u and v for the pairs of a block of rows, as in `block_pairs`.

    f_i - f_j without both rows is (y_i - u (P y)_i) - (y_j - v (P y)_j). If the block has all rows,
    the pairs (j, i) are there as well.
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
def count_block_losses(
    P: Array,
    start: int,
    diagonal: Array,
    y: Array,
    Py: Array,
    labels: Array,
    tied: float,
    loss: Array,
    compared: Array,
) -> bool:
    """`block_pairs` and `count_losses` at once; whether all differences are finite."""
    finite, difference = True, np.empty(y.shape[1])
    for row in range(P.shape[0]):
        i = start + row
        for column in range(row + 1, P.shape[1]):
            j = start + column
            entry = P[row, column]
            _pair(entry, diagonal[i], diagonal[j], 1.0, 1.0, y, Py, i, j, tied, difference)
            for o in range(y.shape[1]):
                gap = labels[i, o] - labels[j, o]
                finite &= np.isfinite(difference[o])
                if gap == 0.0:
                    continue
                agreement = difference[o] * np.sign(gap)
                cost = 0.0 if agreement > 0.0 else (0.5 if agreement == 0.0 else 1.0)
                loss[i, o] += cost
                loss[j, o] += cost
                compared[i, o] += 1.0
                compared[j, o] += 1.0
    return finite


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
