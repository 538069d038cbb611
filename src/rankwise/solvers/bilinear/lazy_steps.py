"""Compiled steps of Algorithm 1, with shrinkage that is never carried out.

Soft thresholds compose by adding: soft(soft(u, a), b) = soft(u, a + b) for a, b >= 0. So W need
not be touched when it shrinks. A row stores values u and the sum of rates at which they were
written. What it owes since then, p, is one number for the whole row; its weights are

    w = soft(u, p),    and setting a weight to w means storing    u = w + sign(w) p.

That gives exactly what shrinking all of W every T steps gives. Entries that have become 0 are
dropped when their row runs out of room, or owes so much that its values lose digits.

Where a row shrinks as a group, its norm moves towards 0 by p instead, and its weights are
w = (1 - p / |u|) u, or 0. This composes by adding as well. A step that changes a row shrinks it
first, so that its other entries need not be scaled back.

A short row is compact: columns and values in a common pool, in no order. A row is a plain vector
once that takes at most four times the memory. Where several threads share the work, row i belongs
to thread i mod P, so no two threads write to the same place.

Cost of a step: nnz(q) times (nnz(d+) + nnz(d-) + entries of the compact rows).
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array
from rankwise.backends.jit import compiled
from rankwise.solvers.bilinear.step_arrays import (
    ADAGRAD,
    CONSTANT,
    CSR,
    Columns,
    Ints,
    RowStore,
    Scratch,
    StepRule,
)

DONE, FULL, OVERFLOW = 0, 1, 2


@compiled
def difference(D: CSR, a: int, b: int, work: Scratch) -> int:
    """d_a - d_b in `cols`, ascending, `x` and `spot`; returns the number of entries."""
    cols, x = work.cols, work.x
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
        work.spot[cols[n - 1]] = n
    return n


@compiled
def rate(row: Any, rule: StepRule) -> float:
    """adagrad's rate of a row; 0 before its first gradient."""
    return rule.eta0 / np.sqrt(row.squares) if row.squares > 0.0 else 0.0


@compiled
def due(row: Any, rule: StepRule, rates: Array, t: int) -> Any:
    """Sum of the rates of a row up to the last boundary within the first t steps."""
    if rule.schedule != ADAGRAD:
        return rates[1]
    boundary = t - t % rule.shrink_every
    if row.since < boundary:
        return row.total + row.part + rate(row, rule) * (boundary - row.since)
    return row.total


@compiled
def owed(row: Any, rule: StepRule, rates: Array, t: int) -> float:
    """p: by how much the values of a row have to shrink after t steps."""
    return rule.lam * (due(row, rule, rates, t) - row.base) if rule.lam > 0.0 else 0.0


@compiled
def owes_by_entry(rule: StepRule) -> bool:
    """Whether the entries of a row shrink one by one, so that it may owe something."""
    return rule.lam > 0.0 and not rule.grouped


@compiled
def soft(u: float, p: float) -> float:
    """Equation (7), compiled without a branch; NaN stays NaN, so that an overflow is noticed."""
    return math.copysign(max(abs(u) - p, 0.0), u)


@compiled
def hard(w: float, p: float) -> float:
    """A u whose soft threshold is w; also for w = 0, where there are many."""
    return w + math.copysign(p, w)


@compiled
def share_left(store: RowStore, i: int, p: float) -> float:
    """The factor of row i, which shrinks as a group by p; NaN stays NaN."""
    if p == 0.0:
        return 1.0
    if store.norms[i] < 0.0:
        row, squares = store.rows[i], 0.0
        if row.room < 0:
            for u in store.dense[row.start]:
                squares += u * u
        else:
            for k in range(row.start, row.start + row.length):
                squares += store.vals[k] ** 2
        store.norms[i] = np.sqrt(squares)
    norm = store.norms[i]
    return 0.0 if norm <= p else 1.0 - p / norm


@compiled
def purge(store: RowStore, rule: StepRule, i: int, t: int) -> None:
    """Shrink row i by what it owes and drop what has become 0."""
    row = store.rows[i]
    p, share = owed(row, rule, store.rates, t), 1.0
    if rule.grouped:
        p, share = 0.0, share_left(store, i, p)
        store.norms[i] = -1.0
    if row.room < 0:
        w = store.dense[row.start]
        for j in range(len(w)):
            w[j] = share * soft(w[j], p)
    else:
        kept = row.start
        for k in range(row.start, row.start + row.length):
            w_k = share * soft(store.vals[k], p)
            store.cols[kept], store.vals[kept] = store.cols[k], w_k
            kept += w_k != 0.0
        row.length = kept - row.start
    row.base = due(row, rule, store.rates, t)


@compiled
def move_row(store: RowStore, row: Any, start: int, room: int) -> None:
    """Move a compact row to another place in the pool, where it may overlap from above."""
    columns, values = store.cols, store.vals
    for k in range(row.length):
        columns[start + k], values[start + k] = columns[row.start + k], values[row.start + k]
    row.start, row.room = start, room


@compiled
def repack(store: RowStore, rule: StepRule, t: int, order: Ints) -> None:
    """Move the compact rows to the front of the pool, without what has become 0.

    `order` has the rows by where they begin. No row gets more room than it had, so each moves
    towards the front.
    """
    top = 0
    for i in order:
        row = store.rows[i]
        if row.room >= 0:
            purge(store, rule, i, t)
            move_row(store, row, top, min(row.room, row.length + row.length // 4))
            top += row.room
    store.used[0] = top


@compiled
def four_rows(dense: Any, work: Scratch, r: int, n_rows: int) -> Any:
    """Rows r to r + 3 of those that are vectors, the last one again where there are fewer.

    Loads from four rows at once, which nothing waits for, are as fast as memory is.
    """
    slot, last = work.slot, n_rows - 1
    b, c, d = min(r + 1, last), min(r + 2, last), min(r + 3, last)
    return dense[slot[r]], dense[slot[b]], dense[slot[c]], dense[slot[d]]


@compiled
def gather(dense: Any, work: Scratch, r: int, n_rows: int, n: int) -> None:
    """Copy what four rows have in the columns of the difference to `taken`.

    What is done with the copies then runs on several numbers at a time.
    """
    cols = work.cols
    a, b, c, d = four_rows(dense, work, r, n_rows)
    u_a, u_b, u_c, u_d = work.taken[0], work.taken[1], work.taken[2], work.taken[3]
    for k in range(n):
        j = np.uint32(cols[k])
        u_a[k], u_b[k], u_c[k], u_d[k] = a[j], b[j], c[j], d[j]


@partial(compiled, fastmath={"reassoc"})
def soft_dot(u: Array, p: float, x: Array) -> float:
    """soft(u, p)'x, summed in any order."""
    total = 0.0
    for k in range(len(u)):
        total += soft(u[k], p) * x[k]
    return total


@compiled
def dot_dense(dense: Any, work: Scratch, n_rows: int, n: int, owing: bool) -> float:
    """Rows that are vectors, times their weights, times the difference.

    Where no row is `owing`, entries are read where they are: a copy would take longer.
    """
    total, cols, x, weight = 0.0, work.cols, work.x[:n], work.weight
    if owing:
        for r in range(n_rows):
            if r % 4 == 0:
                gather(dense, work, r, n_rows, n)
            total += weight[r] * soft_dot(work.taken[r % 4, :n], work.debt[r], x)
        return total
    weight[n_rows : n_rows + 3] = 0.0
    for r in range(0, n_rows, 4):
        a, b, c, d = four_rows(dense, work, r, n_rows)
        a_x, b_x, c_x, d_x = 0.0, 0.0, 0.0, 0.0
        for k in range(n):
            j = np.uint32(cols[k])
            a_x += a[j] * x[k]
            b_x += b[j] * x[k]
            c_x += c[j] * x[k]
            d_x += d[j] * x[k]
        total += weight[r] * a_x + weight[r + 1] * b_x + weight[r + 2] * c_x + weight[r + 3] * d_x
    return total


@compiled
def add_dense(dense: Any, work: Scratch, n_rows: int, n: int, owing: bool) -> None:
    """Add the weight of a row times the difference, for rows that are vectors."""
    cols, x = work.cols, work.x
    for r in range(n_rows):
        row, u, p, weight = dense[work.slot[r]], work.taken[r % 4], work.debt[r], work.weight[r]
        if not owing:
            for k in range(n):
                row[np.uint32(cols[k])] += weight * x[k]
            continue
        if r % 4 == 0:
            gather(dense, work, r, n_rows, n)
        for k in range(n):
            u[k] = hard(soft(u[k], p) + weight * x[k], p)
        for k in range(n):
            row[np.uint32(cols[k])] = u[k]


@compiled
def find(columns: Columns, spot: Columns, hits: Columns) -> int:
    """Entries of a compact row that have a column of the difference: how many.

    Few have one. Reading only columns, without a branch, is as fast as memory is.
    """
    n = 0
    for k in range(len(columns)):
        hits[n] = k
        n += spot[np.uint32(columns[k])] != 0
    return n


@compiled
def measure(
    store: RowStore, rule: StepRule, Q: CSR, D: CSR, triplets: Ints, t: int, p: int,
    n_threads: int, work: Scratch,
) -> None:  # fmt: skip
    """Thread p's share of the margins q'W(d+ - d-)."""
    x, spot, hits, columns, values = work.x, work.spot, work.hits, store.cols, store.vals
    prior, owing = store.prior, owes_by_entry(rule)
    for m in range(len(triplets)):
        q = triplets[m, 0]
        n = difference(D, triplets[m, 1], triplets[m, 2], work)
        total, v = 0.0, 0
        for k in range(Q.indptr[q], Q.indptr[q + 1]):
            if Q.indices[k] % n_threads != p:
                continue
            i, weight = Q.indices[k], Q.data[k]
            for e in range(prior.indptr[i], prior.indptr[i + 1]):
                place = spot[prior.indices[e]]
                if place:
                    total += weight * prior.data[e] * x[place - 1]
            row = store.rows[i]
            debt = owed(row, rule, store.rates, t)
            if rule.grouped:
                weight, debt = weight * share_left(store, i, debt), 0.0
            if row.room < 0:
                work.slot[v], work.debt[v], work.weight[v] = row.start, debt, weight
                v += 1
                continue
            dot, begin = 0.0, row.start
            for h in range(find(columns[begin : begin + row.length], spot, hits)):
                e = begin + hits[h]
                dot += soft(values[e], debt) * x[spot[np.uint32(columns[e])] - 1]
            total += weight * dot
        total += dot_dense(store.dense, work, v, n, owing)
        work.margins[m] = total
        for c in range(n):
            spot[work.cols[c]] = 0


@compiled
def update(
    store: RowStore, rule: StepRule, Q: CSR, D: CSR, triplets: Ints, t: int, p: int,
    n_threads: int, work: Scratch,
) -> None:  # fmt: skip
    """W <- W + eta_t q (d+ - d-)' in the rows of thread p, where margins are below 1.

    This is equation (4).
    """
    cols, x, spot, fresh, hits = work.cols, work.x, work.spot, work.fresh, work.hits
    columns, values, owing = store.cols, store.vals, owes_by_entry(rule)
    for m in range(len(triplets)):
        if not work.margins[m] < 1.0:
            continue
        q, now = triplets[m, 0], t + m + 1
        n = difference(D, triplets[m, 1], triplets[m, 2], work)
        eta = rule.eta0 if rule.schedule == CONSTANT else rule.eta0 / np.sqrt(now)
        squares, v = 0.0, 0
        for c in range(n):
            squares += x[c] ** 2
        for k in range(Q.indptr[q], Q.indptr[q + 1]):
            if Q.indices[k] % n_threads != p:
                continue
            row = store.rows[Q.indices[k]]
            if rule.schedule == ADAGRAD:
                add_rates(row, rule, store.rates, t, now)
                row.squares += Q.data[k] ** 2 * squares
                eta = rate(row, rule)
            debt = owed(row, rule, store.rates, t)
            # u = w + p has lost the digits of w where p is much larger.
            if debt > eta or rule.grouped:
                if debt > 0.0:
                    purge(store, rule, Q.indices[k], t)
                debt = 0.0
                store.norms[Q.indices[k]] = -1.0
            step = eta * Q.data[k]
            if row.room < 0 and not rule.frozen:
                work.slot[v], work.debt[v], work.weight[v] = row.start, debt, step
                v += 1
                continue
            if row.room < 0:
                w, support = store.dense[row.start], store.support[row.start]
                for c in range(n):
                    w[cols[c]] += step * x[c] * support[cols[c]]
                continue
            fresh[:n] = True
            begin, end = row.start, row.start + row.length
            for h in range(find(columns[begin:end], spot, hits)):
                e = begin + hits[h]
                place = spot[np.uint32(columns[e])] - 1
                values[e] = hard(soft(values[e], debt) + step * x[place], debt)
                fresh[place] = False
            if not rule.frozen:
                for c in range(n):
                    if fresh[c]:
                        columns[end], values[end] = cols[c], hard(step * x[c], debt)
                        end += 1
                row.length = end - row.start
        add_dense(store.dense, work, v, n, owing)
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
            return FULL
        w = store.dense[store.used[1]]
        w[:] = 0.0
        for k in range(row.start, row.start + row.length):
            w[store.cols[k]] = store.vals[k]
        row.start, row.length, row.room = store.used[1], 0, -1
        store.used[1] += 1
        return DONE
    new, room = store.used[0], min(wanted + wanted // 4, rule.dense_from)
    if new + room > len(store.cols):
        return FULL
    move_row(store, row, new, room)
    store.used[0] += room  # the old space is lost until the pool is packed again
    return DONE


@compiled
def reserve(
    store: RowStore, rule: StepRule, Q: CSR, D: CSR, triplets: Ints, t: int, margins: Array,
    need: Ints,
) -> int:  # fmt: skip
    """Reserve space for the updates of a batch; returns a code.

    `need` is working memory, one zero per row of W.
    """
    code = DONE
    if not np.isfinite(margins[: len(triplets)]).all():
        return OVERFLOW
    if rule.frozen or rule.dense_from == 0:
        return DONE
    for m in range(len(triplets)):
        if margins[m] < 1.0:
            q, a, b = triplets[m]
            more = D.indptr[a + 1] - D.indptr[a] + D.indptr[b + 1] - D.indptr[b]
            for k in range(Q.indptr[q], Q.indptr[q + 1]):
                need[Q.indices[k]] += more
    for m in range(len(triplets)):
        q = triplets[m, 0]
        for k in range(Q.indptr[q], Q.indptr[q + 1]):
            i = Q.indices[k]
            if need[i] > 0 and code == DONE:
                code = reserve_row(store, rule, i, t, need[i])
            need[i] = 0
    return code


@compiled
def count_steps(
    store: RowStore, rule: StepRule, t: int, n_steps: int, margins: Array, totals: Array
) -> None:
    """Add the rates, hinge losses and updates of steps t + 1 to t + n_steps."""
    for m in range(n_steps):
        now = t + m + 1
        store.rates[0] += rule.eta0 if rule.schedule == CONSTANT else rule.eta0 / np.sqrt(now)
        totals[0] += max(0.0, 1.0 - margins[m])
        totals[1] += margins[m] < 1.0
        if now % rule.shrink_every == 0:
            store.rates[1] = store.rates[0]


@compiled
def advance(
    store: RowStore, rule: StepRule, Q: CSR, D: CSR, triplets: Ints, t: int, work: Scratch,
    need: Ints, totals: Array,
) -> tuple[int, int]:  # fmt: skip
    """Take one step for each triplet, after the first t steps, in one thread.

    Returns the number of steps taken and a code that says why it is not all of them.
    """
    for m in range(len(triplets)):
        now = triplets[m : m + 1]
        measure(store, rule, Q, D, now, t + m, 0, 1, work)
        code = reserve(store, rule, Q, D, now, t + m, work.margins, need)
        if code != DONE:
            return m, code
        update(store, rule, Q, D, now, t + m, 0, 1, work)
        count_steps(store, rule, t + m, 1, work.margins, totals)
    return len(triplets), DONE


@compiled
def copy_rows(store: RowStore, rule: StepRule, t: int, W: CSR) -> None:
    """Copy W after t steps to a CSR array, columns in no order; only count if that is empty.

    Counts of the rows go to ``indptr[1:]``. Where W is frozen, zeros count as well.
    """
    columns, values, dense = store.cols, store.vals, store.dense  # local: four times as fast
    only_count = len(W.indices) == 0
    for i in range(len(W.indptr) - 1):
        row = store.rows[i]
        p, share = owed(row, rule, store.rates, t), 1.0
        if rule.grouped:
            p, share = 0.0, share_left(store, i, p)
        is_dense = row.room < 0
        out = 0 if only_count else W.indptr[i]
        for k in range(dense.shape[1] if is_dense else row.length):
            u = dense[row.start, k] if is_dense else values[row.start + k]
            allowed = not (rule.frozen and is_dense) or store.support[row.start, k]
            if allowed and (rule.frozen or not abs(share * u) <= p):
                if not only_count:
                    W.indices[out] = k if is_dense else columns[row.start + k]
                    W.data[out] = share * soft(u, p)
                out += 1
        if only_count:
            W.indptr[i + 1] = out


@compiled
def score_rows(Q: CSR, W: CSR, D: CSR, n_columns: int) -> Array:
    """q'Wd for each row of Q and the same row of D."""
    scores, d = np.zeros(len(Q.indptr) - 1), np.zeros(n_columns)
    for r in range(len(scores)):
        entries = slice(D.indptr[r], D.indptr[r + 1])
        d[D.indices[entries]] = D.data[entries]
        for k in range(Q.indptr[r], Q.indptr[r + 1]):
            dot = 0.0
            for e in range(W.indptr[Q.indices[k]], W.indptr[Q.indices[k] + 1]):
                dot += W.data[e] * d[W.indices[e]]
            scores[r] += Q.data[k] * dot
        d[D.indices[entries]] = 0.0
    return scores
