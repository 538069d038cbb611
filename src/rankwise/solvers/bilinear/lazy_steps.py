"""Compiled steps of Algorithm 1, with shrinkage that is never carried out.

Soft thresholds compose by adding: soft(soft(u, a), b) = soft(u, a + b) for a, b >= 0. So W need
not be touched when it shrinks. A row stores values u and the sum of rates at which they were
written. What it owes since then, p, is one number for the whole row; its weights are

    w = soft(u, p),    and setting a weight to w means storing    u = w + sign(w) p.

That gives exactly what shrinking all of W every T steps gives. Entries that have become 0 are
dropped when their row runs out of room, or owes so much that its values lose digits.

A short row is compact: columns and values in a common pool, in no order. A row is a plain vector
once that takes at most four times the memory. Where several threads share the work, row i belongs
to thread i mod P, so no two threads write to the same place.

Cost of a step: nnz(q) times (nnz(d+) + nnz(d-) + entries of the compact rows).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.arrays import Array
from rankwise.backends.jit import compiled

Ints = NDArray[np.int64]
Columns = NDArray[np.int32]

INVSQRT, CONSTANT, ADAGRAD = 0, 1, 2
DONE, POOL_FULL, OVERFLOW = 0, 1, 2

ROW = np.dtype(
    [
        ("start", np.int64),  # first entry in the pool, or number of the vector
        ("length", np.int64),  # entries of a compact row
        ("room", np.int64),  # entries that a compact row has space for; -1: the row is a vector
        ("base", np.float64),  # sum of rates that the values are already shrunk by
        # adagrad only, where each row has its own rate:
        ("squares", np.float64),  # sum of squared gradients
        ("total", np.float64),  # sum of rates up to the last boundary that was accounted for
        ("part", np.float64),  # sum of rates from there to step `since`
        ("since", np.int64),
    ]
)
"""All that a step needs to know about a row of W, in one line of the cache."""


class CSR(NamedTuple):
    """The arrays of a CSR array, with ascending columns and no explicit zeros."""

    indptr: Any
    indices: Any
    data: Any


class RowStore(NamedTuple):
    """W in memory."""

    rows: Any  # of dtype ROW
    cols: Columns  # the pool: columns and values of all compact rows
    vals: Any
    dense: Any  # rows that are vectors
    support: Any  # which entries of `dense` may change, where W is frozen
    used: Ints  # two numbers: entries of the pool and vectors in use
    rates: Array  # two numbers: sum of rates over all steps, and up to the last boundary


class StepRule(NamedTuple):
    """Constants of a run."""

    lam: float
    eta0: float
    schedule: int
    shrink_every: int
    frozen: bool  # entries that W does not have stay 0
    dense_from: int  # length from which a row is stored as a vector


class Vectors(NamedTuple):
    """The rows of W that a query touches and that are stored as vectors."""

    slot: Ints
    debt: Array
    weight: Array


class Scratch(NamedTuple):
    """Working memory, one line per thread."""

    cols: Columns  # columns of d+ - d-
    x: Array  # and its values
    spot: Columns  # by column, 1 + its place in `cols`; 0 for all other columns
    hits: Columns  # see `find`
    fresh: Any  # by place, whether the row has no such column
    slot: Ints  # see `Vectors`
    debt: Array
    weight: Array
    margins: Array
    need: Ints  # by row of W: entries that a batch may add


@compiled
def difference(D: CSR, a: int, b: int, cols: Columns, x: Array, spot: Columns) -> int:
    """d_a - d_b in `cols`, ascending, and `x`; returns the number of entries."""
    i, i_end, j, j_end = D.indptr[a], D.indptr[a + 1], D.indptr[b], D.indptr[b + 1]
    n = 0
    while i < i_end or j < j_end:
        left = D.indices[i] if i < i_end else np.int32(0x7FFFFFFF)
        right = D.indices[j] if j < j_end else np.int32(0x7FFFFFFF)
        cols[n], x[n] = min(left, right), 0.0
        if left <= right:
            x[n] += D.data[i]
            i += 1
        if right <= left:
            x[n] -= D.data[j]
            j += 1
        n += 1
        spot[cols[n - 1]] = n
    return n


@compiled
def rate(row: Any, rule: StepRule) -> float:
    """adagrad's rate of a row; 0 before its first gradient."""
    return rule.eta0 / np.sqrt(row.squares) if row.squares > 0.0 else 0.0


@compiled
def due(row: Any, rule: StepRule, rates: Array, t: int) -> float:
    """Sum of the rates of a row up to the last boundary within the first t steps."""
    if rule.schedule != ADAGRAD:
        return rates[1]  # type: ignore[no-any-return]
    boundary = t - t % rule.shrink_every
    if row.since < boundary:
        return row.total + row.part + rate(row, rule) * (boundary - row.since)  # type: ignore[no-any-return]
    return row.total  # type: ignore[no-any-return]


@compiled
def owed(row: Any, rule: StepRule, rates: Array, t: int) -> float:
    """p: by how much the values of a row have to shrink after t steps."""
    return rule.lam * (due(row, rule, rates, t) - row.base) if rule.lam > 0.0 else 0.0


@compiled
def soft(u: float, p: float) -> float:
    """Equation (7), compiled without a branch; NaN stays NaN, so that an overflow is noticed."""
    return u - min(max(u, -p), p)


@compiled
def hard(w: float, p: float) -> float:
    """A u whose soft threshold is w; also for w = 0, where there are many."""
    return w + math.copysign(p, w)


@compiled
def purge(store: RowStore, rule: StepRule, i: int, t: int) -> None:
    """Shrink row i by what it owes and drop what has become 0."""
    if rule.frozen:
        return
    row = store.rows[i]
    p = owed(row, rule, store.rates, t)
    if row.room < 0:
        w = store.dense[row.start]
        for j in range(len(w)):
            w[j] = soft(w[j], p)
    else:
        kept = row.start
        for k in range(row.start, row.start + row.length):
            w_k = soft(store.vals[k], p)
            store.cols[kept], store.vals[kept] = store.cols[k], w_k
            kept += w_k != 0.0
        row.length = kept - row.start
    row.base = due(row, rule, store.rates, t)


@compiled
def repack(store: RowStore, cols: Columns, vals: Any) -> None:
    """Move the compact rows to another pool, with room to grow by a quarter."""
    top = 0
    for i in range(len(store.rows)):
        row = store.rows[i]
        if row.room >= 0:
            for k in range(row.length):
                cols[top + k] = store.cols[row.start + k]
                vals[top + k] = store.vals[row.start + k]
            row.start, row.room = top, row.length + row.length // 4
            top += row.room
    store.used[0] = top


@compiled
def purge_compact(store: RowStore, rule: StepRule, t: int) -> int:
    """Purge the compact rows; returns how much space `repack` gives them."""
    room = 0
    for i in range(len(store.rows)):
        row = store.rows[i]
        if row.room >= 0:
            purge(store, rule, i, t)
            room += row.length + row.length // 4
    return room


@compiled
def dot_dense(
    dense: Any, rows: Vectors, n_rows: int, plain: bool, cols: Columns, x: Array, n: int
) -> float:
    """Rows that are vectors, times their weights, times the difference.

    Four rows at a time, and without soft thresholds where nothing is owed (`plain`), take half the
    time of one row at a time: memory has more to do at once.
    """
    total = 0.0
    for r in range(0, n_rows - 3, 4):
        slot, p, weight = rows.slot[r : r + 4], rows.debt[r : r + 4], rows.weight[r : r + 4]
        a, b, c, d = dense[slot[0]], dense[slot[1]], dense[slot[2]], dense[slot[3]]
        p_a, p_b, p_c, p_d = p[0], p[1], p[2], p[3]
        dot_a, dot_b, dot_c, dot_d = 0.0, 0.0, 0.0, 0.0
        if plain:
            for k in range(n):
                j = np.uint32(cols[k])
                dot_a += a[j] * x[k]
                dot_b += b[j] * x[k]
                dot_c += c[j] * x[k]
                dot_d += d[j] * x[k]
        else:
            for k in range(n):
                j = np.uint32(cols[k])
                dot_a += soft(a[j], p_a) * x[k]
                dot_b += soft(b[j], p_b) * x[k]
                dot_c += soft(c[j], p_c) * x[k]
                dot_d += soft(d[j], p_d) * x[k]
        total += weight[0] * dot_a + weight[1] * dot_b + weight[2] * dot_c + weight[3] * dot_d
    for r in range(n_rows // 4 * 4, n_rows):
        a, p_a, dot_a = dense[rows.slot[r]], rows.debt[r], 0.0
        for k in range(n):
            dot_a += soft(a[np.uint32(cols[k])], p_a) * x[k]
        total += rows.weight[r] * dot_a
    return total


@compiled
def add_dense(
    dense: Any, rows: Vectors, n_rows: int, plain: bool, cols: Columns, x: Array, n: int
) -> None:
    """Add the weight of a row times the difference, for rows that are vectors."""
    for r in range(0, n_rows - 3, 4):
        slot, p, weight = rows.slot[r : r + 4], rows.debt[r : r + 4], rows.weight[r : r + 4]
        a, b, c, d = dense[slot[0]], dense[slot[1]], dense[slot[2]], dense[slot[3]]
        p_a, p_b, p_c, p_d = p[0], p[1], p[2], p[3]
        w_a, w_b, w_c, w_d = weight[0], weight[1], weight[2], weight[3]
        if plain:
            for k in range(n):
                j = np.uint32(cols[k])
                a[j] += w_a * x[k]
                b[j] += w_b * x[k]
                c[j] += w_c * x[k]
                d[j] += w_d * x[k]
        else:
            for k in range(n):
                j = np.uint32(cols[k])
                a[j] = hard(soft(a[j], p_a) + w_a * x[k], p_a)
                b[j] = hard(soft(b[j], p_b) + w_b * x[k], p_b)
                c[j] = hard(soft(c[j], p_c) + w_c * x[k], p_c)
                d[j] = hard(soft(d[j], p_d) + w_d * x[k], p_d)
    for r in range(n_rows // 4 * 4, n_rows):
        a, p_a, w_a = dense[rows.slot[r]], rows.debt[r], rows.weight[r]
        for k in range(n):
            j = np.uint32(cols[k])
            a[j] = hard(soft(a[j], p_a) + w_a * x[k], p_a)


@compiled
def find(columns: Columns, spot: Columns, hits: Columns) -> int:
    """Which entries of a compact row have a column of the difference; returns how many.

    Most do not. Reading the columns alone, without a branch, makes a step a tenth faster.
    """
    n = 0
    for e in range(len(columns)):
        hits[n] = e
        n += spot[np.uint32(columns[e])] != 0
    return n


@compiled
def measure(
    store: RowStore, rule: StepRule, Q: CSR, D: CSR, triplets: Ints, t: int, p: int,
    n_threads: int, work: Scratch,
) -> None:  # fmt: skip
    """Thread p's share of the margins q'W(d+ - d-)."""
    cols, x, spot, hits = work.cols[p], work.x[p], work.spot[p], work.hits[p]
    rows, rates, columns, values = store.rows, store.rates, store.cols, store.vals
    words, counts = Q.indices, Q.data
    slot, debts, weight = work.slot[p], work.debt[p], work.weight[p]
    vectors = Vectors(slot, debts, weight)
    for m in range(len(triplets)):
        q = triplets[m, 0]
        n = difference(D, triplets[m, 1], triplets[m, 2], cols, x, spot)
        total, v = 0.0, 0
        for k in range(Q.indptr[q], Q.indptr[q + 1]):
            if words[k] % n_threads != p:
                continue
            row = rows[words[k]]
            debt = owed(row, rule, rates, t)
            if row.room < 0:
                slot[v], debts[v], weight[v] = row.start, debt, counts[k]
                v += 1
                continue
            dot = 0.0
            for h in range(find(columns[row.start : row.start + row.length], spot, hits)):
                e = row.start + hits[h]
                dot += soft(values[e], debt) * x[spot[columns[e]] - 1]
            total += counts[k] * dot
        total += dot_dense(store.dense, vectors, v, rule.lam == 0.0, cols, x, n)
        work.margins[p, m] = total
        for c in range(n):
            spot[cols[c]] = 0


@compiled
def update(
    store: RowStore, rule: StepRule, Q: CSR, D: CSR, triplets: Ints, t: int, p: int,
    n_threads: int, work: Scratch,
) -> None:  # fmt: skip
    """W <- W + eta_t q (d+ - d-)' in the rows of thread p, for triplets inside the margin.

    Equation (4). `margins` holds the whole margins in its first line.
    """
    cols, x, spot, hits = work.cols[p], work.x[p], work.spot[p], work.hits[p]
    fresh = work.fresh[p]
    rows, rates, columns, values = store.rows, store.rates, store.cols, store.vals
    words, counts = Q.indices, Q.data
    slot, debts, weight = work.slot[p], work.debt[p], work.weight[p]
    vectors = Vectors(slot, debts, weight)
    for m in range(len(triplets)):
        if not work.margins[0, m] < 1.0:
            continue
        q, now = triplets[m, 0], t + m + 1
        n = difference(D, triplets[m, 1], triplets[m, 2], cols, x, spot)
        eta = rule.eta0 if rule.schedule == CONSTANT else rule.eta0 / np.sqrt(now)
        squares, v = 0.0, 0
        for c in range(n):
            squares += x[c] ** 2
        for k in range(Q.indptr[q], Q.indptr[q + 1]):
            if words[k] % n_threads != p:
                continue
            row = rows[words[k]]
            if rule.schedule == ADAGRAD:
                add_rates(row, rule, rates, t, now)
                row.squares += counts[k] ** 2 * squares
                eta = rate(row, rule)
            debt = owed(row, rule, rates, t)
            if debt > eta:  # u = w + p has lost the digits of w where p is much larger
                purge(store, rule, words[k], t)
                debt = 0.0
            step = eta * counts[k]
            if row.room < 0 and not rule.frozen:
                slot[v], debts[v], weight[v] = row.start, debt, step
                v += 1
                continue
            if row.room < 0:
                w, support = store.dense[row.start], store.support[row.start]
                for c in range(n):
                    w[cols[c]] += step * x[c] * support[cols[c]]
                continue
            fresh[:n] = True
            end = row.start + row.length
            for h in range(find(columns[row.start : end], spot, hits)):
                e = row.start + hits[h]
                place = spot[columns[e]] - 1
                values[e] = hard(soft(values[e], debt) + step * x[place], debt)
                fresh[place] = False
            if not rule.frozen:
                for c in range(n):
                    if fresh[c]:
                        columns[end], values[end] = cols[c], hard(step * x[c], debt)
                        end += 1
                row.length = end - row.start
        add_dense(store.dense, vectors, v, rule.lam == 0.0, cols, x, n)
        for c in range(n):
            spot[cols[c]] = 0


@compiled
def add_rates(row: Any, rule: StepRule, rates: Array, t: int, now: int) -> None:
    """Sum up adagrad's rates of a row to the step before `now`, where its rate changes.

    The first t steps end in the batch's last boundary; no step from there to `now` is one.
    """
    boundary = t - t % rule.shrink_every
    if row.since < boundary:
        row.total = due(row, rule, rates, t)
        row.part = 0.0
        row.since = boundary
    row.part += rate(row, rule) * (now - 1 - row.since)
    row.since = now - 1


@compiled
def reserve_row(store: RowStore, rule: StepRule, i: int, t: int, more: int) -> int:
    """Space for so many more entries in row i."""
    row = store.rows[i]
    if row.room < 0 or row.length + more <= row.room:
        return DONE
    purge(store, rule, i, t)
    wanted = row.length + more
    if wanted <= row.room:
        return DONE
    if wanted >= rule.dense_from:
        if store.used[1] == len(store.dense):
            return POOL_FULL
        w = store.dense[store.used[1]]
        w[:] = 0.0
        for k in range(row.start, row.start + row.length):
            w[store.cols[k]] = store.vals[k]
        row.start, row.length, row.room = store.used[1], 0, -1
        store.used[1] += 1
        return DONE
    new, room = store.used[0], wanted + wanted // 4
    if new + room > len(store.cols):
        return POOL_FULL
    for k in range(row.length):
        store.cols[new + k] = store.cols[row.start + k]
        store.vals[new + k] = store.vals[row.start + k]
    row.start, row.room = new, room  # the old space is lost until the pool is laid out again
    store.used[0] += room
    return DONE


@compiled
def reserve(
    store: RowStore, rule: StepRule, Q: CSR, D: CSR, triplets: Ints, t: int, work: Scratch
) -> int:
    """Add up the margins and reserve space for the updates; returns a code."""
    code, need, words = DONE, work.need, Q.indices
    for m in range(len(triplets)):
        for p in range(1, len(work.margins)):
            work.margins[0, m] += work.margins[p, m]
        if not np.isfinite(work.margins[0, m]):
            return OVERFLOW
    if rule.frozen or rule.dense_from == 0:
        return DONE
    for m in range(len(triplets)):
        if work.margins[0, m] < 1.0:
            q, a, b = triplets[m]
            more = D.indptr[a + 1] - D.indptr[a] + D.indptr[b + 1] - D.indptr[b]
            for k in range(Q.indptr[q], Q.indptr[q + 1]):
                need[words[k]] += more
    for m in range(len(triplets)):
        q = triplets[m, 0]
        for k in range(Q.indptr[q], Q.indptr[q + 1]):
            i = words[k]
            if need[i] > 0 and code == DONE:
                code = reserve_row(store, rule, i, t, need[i])
            need[i] = 0
    return code


@compiled
def count_steps(
    store: RowStore, rule: StepRule, t: int, n_steps: int, work: Scratch, totals: Array
) -> None:
    """Add the rates, hinge losses and updates of steps t + 1 to t + n_steps."""
    for m in range(n_steps):
        now, margin = t + m + 1, work.margins[0, m]
        eta = rule.eta0 if rule.schedule == CONSTANT else rule.eta0 / np.sqrt(now)
        store.rates[0] += eta
        totals[0] += max(0.0, 1.0 - margin)
        totals[1] += margin < 1.0
        if now % rule.shrink_every == 0:
            store.rates[1] = store.rates[0]


@compiled
def advance(
    store: RowStore, rule: StepRule, Q: CSR, D: CSR, triplets: Ints, t: int, work: Scratch,
    totals: Array,
) -> tuple[int, int]:  # fmt: skip
    """Take one step for each triplet, after the first t steps, in one thread.

    Returns the number of steps taken and a code that says why it is not all of them.
    """
    for m in range(len(triplets)):
        now = triplets[m : m + 1]
        measure(store, rule, Q, D, now, t + m, 0, 1, work)
        code = reserve(store, rule, Q, D, now, t + m, work)
        if code != DONE:
            return m, code
        update(store, rule, Q, D, now, t + m, 0, 1, work)
        count_steps(store, rule, t + m, 1, work, totals)
    return len(triplets), DONE


@compiled
def copy_rows(store: RowStore, rule: StepRule, t: int, W: CSR) -> None:
    """Copy W after t steps to a CSR array, columns in no order; only count if that is empty.

    Counts of the rows go to ``indptr[1:]``. Where W is frozen, zeros count as well.
    """
    columns, values, dense = store.cols, store.vals, store.dense
    only_count = len(W.indices) == 0
    for i in range(len(W.indptr) - 1):
        row = store.rows[i]
        p = owed(row, rule, store.rates, t)
        is_dense = row.room < 0
        out = 0 if only_count else W.indptr[i]
        for k in range(dense.shape[1] if is_dense else row.length):
            u = dense[row.start, k] if is_dense else values[row.start + k]
            allowed = not (rule.frozen and is_dense) or store.support[row.start, k]
            if allowed and (rule.frozen or not abs(u) <= p):
                if not only_count:
                    W.indices[out] = k if is_dense else columns[row.start + k]
                    W.data[out] = soft(u, p)
                out += 1
        if only_count:
            W.indptr[i + 1] = out
