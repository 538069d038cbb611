"""Compiled steps of Algorithm 1: margins, updates, and shrinkage that is never carried out.

Soft thresholds compose by adding: soft(soft(u, a), b) = soft(u, a + b) for a, b >= 0. So W need
not be touched when it is to be shrunk. A row stores values u and the sum of rates at which they
were written; what it owes since then, p, is one number for the whole row, and its weights are

    w = soft(u, p),    and to make a weight w is to store    u = w + sign(w) p.

That is exactly what shrinking all of W every T steps gives, at no cost. Entries that have become
0 are dropped when their row is out of room, or owes so much that its values lose digits.

Steps wait for memory more than they compute. So the difference d+ - d- is one sorted list, rows
that are vectors are walked four at a time, all that is known of a row lies in one place, and a
compact row is first searched by its columns alone.

Rows are stored compactly, as columns and values in one long arena, in no order; a row that has
grown so long that a plain vector takes at most four times the room is one. Where several partitions
share the work, row i belongs to partition i mod P, with an arena region of its own, so that no
two threads ever write to the same place and the result does not depend on which is faster.

Cost of a step: nnz(q) times (nnz(d+ - d-) + what the rows hold).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import prange

from rankwise.backends.arrays import Array
from rankwise.backends.jit import compiled, inlined, larger, smaller
from rankwise.solvers.bilinear.layout import (
    ADAGRAD,
    ARENA_FULL,
    CONSTANT,
    DENSE_FULL,
    DONE,
    OVERFLOW,
    Columns,
    Debts,
    Ints,
    Plan,
    Rows,
    Sparse,
    Store,
    Work,
)


@compiled
def _difference(D: Sparse, a: int, b: int, cols: Columns, x: Array, spot: Columns) -> int:
    """d_a - d_b: how many entries it has."""
    i, i_end = D.indptr[a], D.indptr[a + 1]
    j, j_end = D.indptr[b], D.indptr[b + 1]
    n = 0
    while i < i_end or j < j_end:
        if j == j_end or (i < i_end and D.indices[i] < D.indices[j]):
            cols[n], x[n] = D.indices[i], D.data[i]
            i += 1
        elif i == i_end or D.indices[j] < D.indices[i]:
            cols[n], x[n] = D.indices[j], -D.data[j]
            j += 1
        else:
            cols[n], x[n] = D.indices[i], D.data[i] - D.data[j]
            i += 1
            j += 1
        n += x[n] != 0.0
    for c in range(n):
        spot[cols[c]] = c + 1
    return n


@compiled
def _forget(cols: Columns, spot: Columns, n: int) -> None:
    """There is no difference any more."""
    for c in range(n):
        spot[cols[c]] = 0


@inlined
def _rate(debts: Debts, plan: Plan, i: int) -> float:
    """adagrad's rate of row i; a row without a gradient has none."""
    return plan.eta0 / np.sqrt(debts.squares[i]) if debts.squares[i] > 0.0 else 0.0


@inlined
def _due(debts: Debts, plan: Plan, i: int, t: int) -> float:
    """Sum of the rates of row i up to the last boundary of the first t steps."""
    due = debts.clock[1]
    if plan.schedule == ADAGRAD:
        boundary = t - t % plan.shrink_every
        due = debts.total[i]
        if debts.since[i] < boundary:
            due += debts.part[i] + _rate(debts, plan, i) * (boundary - debts.since[i])
    return due  # type: ignore[no-any-return]


@inlined
def _owed(debts: Debts, plan: Plan, i: int, t: int) -> float:
    """By how much the values of row i are to be shrunk after t steps."""
    return plan.lam * (_due(debts, plan, i, t) - debts.base[i]) if plan.lam > 0.0 else 0.0


@compiled
def _soft(u: float, p: float) -> float:
    """Equation (7), without a branch: signs are as good as random, and guesses cost more.

    What is no number stays so: an overflow must not look like a weight of 0. No float() here: it
    makes a step seven times as slow.
    """
    return u - smaller(larger(u, -p), p)  # type: ignore[no-any-return]


@compiled
def _hard(w: float, p: float) -> float:
    """A u whose soft threshold is w; also for w = 0, where there are many."""
    return w + math.copysign(p, w)


@compiled
def _dot_vectors(dense: Any, rows: Rows, plain: bool, cols: Columns, x: Array, n: int) -> float:
    """Rows that are stored as vectors, times the difference, which has n entries, summed up.

    Four at a time, so that memory has more to do at once than wait for one number.
    """
    total = 0.0
    for r in range(0, rows.used[0] - 3, 4):
        slot, debt, weight = rows.slot[r : r + 4], rows.debt[r : r + 4], rows.weight[r : r + 4]
        a, b, c, d = dense[slot[0]], dense[slot[1]], dense[slot[2]], dense[slot[3]]
        dot_a, dot_b, dot_c, dot_d = 0.0, 0.0, 0.0, 0.0
        if plain:
            for k in range(n):
                j = np.uint32(cols[k])
                dot_a += a[j] * x[k]
                dot_b += b[j] * x[k]
                dot_c += c[j] * x[k]
                dot_d += d[j] * x[k]
        else:
            p_a, p_b, p_c, p_d = debt[0], debt[1], debt[2], debt[3]
            for k in range(n):
                j = np.uint32(cols[k])
                dot_a += _soft(a[j], p_a) * x[k]
                dot_b += _soft(b[j], p_b) * x[k]
                dot_c += _soft(c[j], p_c) * x[k]
                dot_d += _soft(d[j], p_d) * x[k]
        total += weight[0] * dot_a + weight[1] * dot_b + weight[2] * dot_c + weight[3] * dot_d
    for r in range(rows.used[0] // 4 * 4, rows.used[0]):
        a, p = dense[rows.slot[r]], rows.debt[r]
        dot_a = 0.0
        for k in range(n):
            dot_a += _soft(a[np.uint32(cols[k])], p) * x[k]
        total += rows.weight[r] * dot_a
    return total


@compiled
def _find(columns: Columns, spot: Columns, hits: Columns) -> int:
    """Entries of a compact row whose columns are in the difference: how many.

    Most are not. Columns alone are read, and nothing is guessed: that is as fast as memory is.
    """
    n = 0
    for k in range(len(columns)):
        hits[n] = k
        n += spot[np.uint32(columns[k])] != 0
    return n


@compiled
def _dot_compact(
    columns: Columns, values: Any, p: float, x: Array, spot: Columns, hits: Columns
) -> float:
    """A compact row of W times the difference."""
    total = 0.0
    for h in range(_find(columns, spot, hits)):
        k = hits[h]
        total += _soft(values[k], p) * x[spot[np.uint32(columns[k])] - 1]
    return total


@compiled
def _add_vectors(dense: Any, rows: Rows, plain: bool, cols: Columns, x: Array, n: int) -> None:
    """Add the weight of a row times the difference, for rows that are stored as vectors."""
    for r in range(0, rows.used[0] - 3, 4):
        slot, debt, weight = rows.slot[r : r + 4], rows.debt[r : r + 4], rows.weight[r : r + 4]
        a, b, c, d = dense[slot[0]], dense[slot[1]], dense[slot[2]], dense[slot[3]]
        s_a, s_b, s_c, s_d = weight[0], weight[1], weight[2], weight[3]
        if plain:
            for k in range(n):
                j = np.uint32(cols[k])
                a[j] += s_a * x[k]
                b[j] += s_b * x[k]
                c[j] += s_c * x[k]
                d[j] += s_d * x[k]
        else:
            p_a, p_b, p_c, p_d = debt[0], debt[1], debt[2], debt[3]
            for k in range(n):
                j = np.uint32(cols[k])
                a[j] = _hard(_soft(a[j], p_a) + s_a * x[k], p_a)
                b[j] = _hard(_soft(b[j], p_b) + s_b * x[k], p_b)
                c[j] = _hard(_soft(c[j], p_c) + s_c * x[k], p_c)
                d[j] = _hard(_soft(d[j], p_d) + s_d * x[k], p_d)
    for r in range(rows.used[0] // 4 * 4, rows.used[0]):
        a, p, s_a = dense[rows.slot[r]], rows.debt[r], rows.weight[r]
        for k in range(n):
            j = np.uint32(cols[k])
            a[j] = _hard(_soft(a[j], p) + s_a * x[k], p)


@compiled
def _add_frozen(w: Any, support: Any, step: float, cols: Columns, x: Array, n: int) -> None:
    """The same where W is frozen to its support."""
    for c in range(n):
        w[cols[c]] += step * x[c] * support[cols[c]]


@compiled
def _add_compact(
    columns: Columns, values: Any, p: float, step: float, x: Array, spot: Columns, hits: Columns,
    seen: Ints, token: int,
) -> None:  # fmt: skip
    """Add `step` times the difference to the entries that a compact row has."""
    for h in range(_find(columns, spot, hits)):
        k = hits[h]
        c = spot[np.uint32(columns[k])] - 1
        values[k] = _hard(_soft(values[k], p) + step * x[c], p)
        seen[c] = token


@compiled
def _append(
    columns: Columns, values: Any, p: float, step: float, cols: Columns, x: Array, n: int,
    seen: Ints, token: int,
) -> int:  # fmt: skip
    """Add those that it does not have, in the space behind the row: how many."""
    last = 0
    for c in range(n):
        # What is there already is written over by the next one, or lies beyond the end.
        columns[last] = cols[c]
        values[last] = _hard(step * x[c], p)
        last += seen[c] != token
    return last


@compiled
def _purge(store: Store, debts: Debts, plan: Plan, i: int, t: int) -> None:
    """Write row i anew, free of debts and without what has become 0."""
    if plan.frozen:
        return
    p = _owed(debts, plan, i, t)
    first = store.start[i]
    if store.room[i] < 0:
        w = store.dense[first]
        for j in range(len(w)):
            w[j] = _soft(w[j], p)
    else:
        columns, values = store.cols, store.vals
        kept = first
        for k in range(first, first + store.length[i]):
            w_k = _soft(values[k], p)
            columns[kept] = columns[k]
            values[kept] = w_k
            kept += w_k != 0.0
        store.length[i] = kept - first
    debts.base[i] = _due(debts, plan, i, t)


@compiled
def _measure(
    store: Store, debts: Debts, plan: Plan, Q: Sparse, D: Sparse, triplets: Ints, t: int,
    p: int, n_partitions: int, work: Work,
) -> None:  # fmt: skip
    """Partition p's share of the margins q'W(d+ - d-).

    Arrays get names before the loops: to look one up in a tuple takes time, row by row.
    """
    cols, x, spot, hits = work.cols[p], work.x[p], work.spot[p], work.hits[p]
    rows = Rows(work.slot[p], work.debt[p], work.weight[p], work.used[p])
    slot, debt, weight, used = rows
    start, length, room, base = store.start, store.length, store.room, debts.base
    columns, values, words, data = store.cols, store.vals, Q.indices, Q.data
    due, own, lam = debts.clock[1], plan.schedule == ADAGRAD, plan.lam
    for m in range(len(triplets)):
        n = _difference(D, triplets[m, 1], triplets[m, 2], cols, x, spot)
        q = triplets[m, 0]
        total, v = 0.0, 0
        for k in range(Q.indptr[q], Q.indptr[q + 1]):
            i = words[k]
            if i % n_partitions != p:
                continue
            owed = _owed(debts, plan, i, t) if own else lam * (due - base[i])
            first = start[i]
            if room[i] < 0:
                slot[v], debt[v], weight[v] = first, owed, data[k]
                v += 1
            else:
                row = slice(first, first + length[i])
                total += data[k] * _dot_compact(columns[row], values[row], owed, x, spot, hits)
        used[0] = v
        total += _dot_vectors(store.dense, rows, plan.lam == 0.0, cols, x, n)
        work.margins[p, m] = total
        _forget(cols, spot, n)


@inlined
def _wind(debts: Debts, plan: Plan, i: int, t: int, now: int) -> None:
    """Sum up adagrad's rates of row i to the step before `now`, where its rate will change.

    The first t steps had a boundary that none of the steps from there to `now` have.
    """
    boundary = t - t % plan.shrink_every
    if debts.since[i] < boundary:
        debts.total[i] = _due(debts, plan, i, t)
        debts.part[i] = 0.0
        debts.since[i] = boundary
    debts.part[i] += _rate(debts, plan, i) * (now - 1 - debts.since[i])
    debts.since[i] = now - 1


@compiled
def _update(
    store: Store, debts: Debts, plan: Plan, Q: Sparse, D: Sparse, triplets: Ints, t: int,
    p: int, n_partitions: int, work: Work,
) -> None:  # fmt: skip
    """W <- W + eta_t q (d+ - d-)' in the rows of partition p, for the triplets inside the margin.

    Equation (4); `margins` holds the whole margins in its first line.
    """
    cols, x, spot, hits = work.cols[p], work.x[p], work.spot[p], work.hits[p]
    rows = Rows(work.slot[p], work.debt[p], work.weight[p], work.used[p])
    slot, debt, weight, used = rows
    seen, start, length, room, base = (
        work.seen[p],
        store.start,
        store.length,
        store.room,
        debts.base,
    )
    columns, values, words, data = store.cols, store.vals, Q.indices, Q.data
    due, own, lam = debts.clock[1], plan.schedule == ADAGRAD, plan.lam
    for m in range(len(triplets)):
        if not work.margins[0, m] < 1.0:  # the very condition that space was reserved on
            continue
        n = _difference(D, triplets[m, 1], triplets[m, 2], cols, x, spot)
        q = triplets[m, 0]
        now = t + m + 1
        eta = plan.eta0 if plan.schedule == CONSTANT else plan.eta0 / np.sqrt(now)
        squares, v = 0.0, 0
        if own:
            for c in range(n):
                squares += x[c] ** 2
        for k in range(Q.indptr[q], Q.indptr[q + 1]):
            i = words[k]
            if i % n_partitions != p:
                continue
            if own:
                _wind(debts, plan, i, t, now)
                debts.squares[i] += data[k] ** 2 * squares
                eta = _rate(debts, plan, i)
            owed = _owed(debts, plan, i, t) if own else lam * (due - base[i])
            if owed > eta:  # u = w + p has lost the digits of w where p is much larger
                _purge(store, debts, plan, i, t)
                owed = 0.0
            step, first = eta * data[k], start[i]
            if room[i] >= 0:
                work.token[p] += 1
                token, last = work.token[p], first + length[i]
                row = slice(first, last)
                _add_compact(columns[row], values[row], owed, step, x, spot, hits, seen, token)
                if not plan.frozen:
                    free = slice(last, first + room[i])
                    length[i] += _append(
                        columns[free], values[free], owed, step, cols, x, n, seen, token
                    )
            elif plan.frozen:
                _add_frozen(store.dense[first], store.support[first], step, cols, x, n)
            else:
                slot[v], debt[v], weight[v] = first, owed, step
                v += 1
        used[0] = v
        _add_vectors(store.dense, rows, lam == 0.0, cols, x, n)
        _forget(cols, spot, n)


@compiled
def _take_space(store: Store, p: int, size: int) -> int:
    """Where a space of size number `size` is; -1: nowhere."""
    space = int(store.free[p, size])
    if space >= 0:  # it begins with the way to the one before it, in two numbers
        store.free[p, size] = (np.int64(store.cols[space]) << 31) + store.cols[space + 1]
        return space
    space = int(store.top[p])
    if space + store.rooms[size] > store.end[p]:
        return -1
    store.top[p] += store.rooms[size]
    return space


@compiled
def _give_back(store: Store, p: int, i: int) -> None:
    """Nobody needs the space of row i any longer."""
    if store.room[i] > 0:
        size = np.searchsorted(store.rooms, store.room[i])
        space, before = store.start[i], store.free[p, size]
        store.cols[space], store.cols[space + 1] = before >> 31, before & 0x7FFFFFFF
        store.free[p, size] = space


@compiled
def _reserve_row(
    store: Store, debts: Debts, plan: Plan, i: int, t: int, more: int, n_partitions: int
) -> int:
    """Room for so many more entries in row i, or the code of what there is too little of."""
    if store.room[i] < 0 or store.length[i] + more <= store.room[i]:
        return DONE
    _purge(store, debts, plan, i, t)
    p = i % n_partitions
    first, length = store.start[i], store.length[i]
    wanted = length + more
    if wanted <= store.room[i]:
        return DONE
    if wanted >= plan.dense_from:
        slot = store.n_dense[0]
        if slot == len(store.dense):
            return DENSE_FULL
        store.n_dense[0] += 1
        store.dense[slot] = 0.0
        for k in range(first, first + length):
            store.dense[slot, store.cols[k]] = store.vals[k]
        _give_back(store, p, i)
        store.start[i], store.length[i], store.room[i] = slot, 0, -1
        return DONE
    size = np.searchsorted(store.rooms, wanted)
    new = _take_space(store, p, size)
    if new < 0:
        return ARENA_FULL
    for k in range(length):
        store.cols[new + k] = store.cols[first + k]
        store.vals[new + k] = store.vals[first + k]
    _give_back(store, p, i)
    store.start[i], store.room[i] = new, store.rooms[size]
    return DONE


@compiled
def _reserve(
    store: Store, debts: Debts, plan: Plan, Q: Sparse, D: Sparse, triplets: Ints, t: int,
    n_partitions: int, work: Work,
) -> int:  # fmt: skip
    """Room for the updates of these triplets, or a code; what was reserved stays so."""
    code, more = DONE, 0
    for m in range(len(triplets)):
        if work.margins[0, m] < 1.0:
            q, a, b = triplets[m]
            more = D.indptr[a + 1] - D.indptr[a] + D.indptr[b + 1] - D.indptr[b]
            if len(triplets) == 1:
                break
            for k in range(Q.indptr[q], Q.indptr[q + 1]):
                work.need[Q.indices[k]] += more
    if len(triplets) == 1:
        q = triplets[0, 0]
        words, length, room = Q.indices, store.length, store.room
        for k in range(Q.indptr[q], Q.indptr[q + 1]):
            i = words[k]
            full = room[i] >= 0 and length[i] + more > room[i]
            if full and more > 0 and code == DONE:
                code = _reserve_row(store, debts, plan, i, t, more, n_partitions)
        return code
    for m in range(len(triplets)):
        q = triplets[m, 0]
        for k in range(Q.indptr[q], Q.indptr[q + 1]):
            i = Q.indices[k]
            if work.need[i] > 0 and code == DONE:
                code = _reserve_row(store, debts, plan, i, t, work.need[i], n_partitions)
            work.need[i] = 0
    return code


def _advance(
    store: Store, debts: Debts, plan: Plan, Q: Sparse, D: Sparse, triplets: Ints, t: int,
    batch: int, work: Work, totals: Array,
) -> tuple[int, int]:  # fmt: skip
    """Take one step for each triplet, after the first t steps.

    W stands still while the margins of `batch` triplets are measured; 1 is Algorithm 1. Batches
    end at multiples of `batch`, counted from the first step of all, and none crosses a boundary of
    shrinkage. Gives how many steps were taken, and, where that is not all of them, what there is
    too little room for, or that a margin overflowed. Adds hinge losses and updates to `totals`.
    """
    n_partitions = len(store.top)
    taken = 0
    while taken < len(triplets):
        left = plan.shrink_every - (t + taken) % plan.shrink_every
        size = min(batch - (t + taken) % batch, left, len(triplets) - taken)
        now = triplets[taken : taken + size]
        for p in prange(n_partitions):
            _measure(store, debts, plan, Q, D, now, t + taken, p, n_partitions, work)
        for m in range(size):
            for p in range(1, n_partitions):
                work.margins[0, m] += work.margins[p, m]
            if not np.isfinite(work.margins[0, m]):
                return taken, OVERFLOW
        if not plan.frozen and plan.dense_from > 0:
            code = _reserve(store, debts, plan, Q, D, now, t + taken, n_partitions, work)
            if code != DONE:
                return taken, code
        for p in prange(n_partitions):
            _update(store, debts, plan, Q, D, now, t + taken, p, n_partitions, work)
        for m in range(size):
            step = t + taken + m + 1
            debts.clock[0] += plan.eta0 if plan.schedule == CONSTANT else plan.eta0 / np.sqrt(step)
            totals[0] += max(0.0, 1.0 - work.margins[0, m])
            totals[1] += work.margins[0, m] < 1.0
        taken += size
        if (t + taken) % plan.shrink_every == 0:
            debts.clock[1] = debts.clock[0]
    return taken, DONE


advance = compiled(_advance)
advance_together = compiled(_advance, parallel=True)


@compiled
def collect(store: Store, debts: Debts, plan: Plan, t: int, order: Ints, n_partitions: int) -> None:
    """Pay all debts, close the gaps of the arena, and let short dense rows be compact again.

    `order` has the rows by where they begin, so that every row moves towards the beginning.
    """
    store.free[:] = -1
    region = store.end[0]
    for p in range(n_partitions):
        store.top[p] = p * region
    for i in order:
        _purge(store, debts, plan, i, t)
        if store.room[i] < 0:
            continue
        p = i % n_partitions
        new, length = store.top[p], store.length[i]
        for k in range(length):
            store.cols[new + k] = store.cols[store.start[i] + k]
            store.vals[new + k] = store.vals[store.start[i] + k]
        # No larger than before, as sizes go: the row has not grown.
        store.room[i] = store.rooms[np.searchsorted(store.rooms, length)] if length > 0 else 0
        store.start[i] = new
        store.top[p] += store.room[i]
    slot = 0
    for i in order:
        if store.room[i] >= 0:
            continue
        old = store.start[i]
        w = store.dense[old]
        count = 0
        for j in range(len(w)):
            count += w[j] != 0.0
        p = i % n_partitions
        size = int(np.searchsorted(store.rooms, max(count, 1)))
        new = _take_space(store, p, size) if 2 * count < plan.dense_from else -1
        if new >= 0:
            k = new
            for j in range(len(w)):
                if w[j] != 0.0:
                    store.cols[k] = j
                    store.vals[k] = w[j]
                    k += 1
            store.start[i], store.length[i], store.room[i] = new, count, store.rooms[size]
        else:
            if slot != old:
                store.dense[slot] = w
            store.start[i] = slot
            slot += 1
    store.n_dense[0] = slot


@compiled
def place_rows(store: Store, frozen: bool, W: Sparse) -> None:
    """Copy the rows of W to where the store has space for them."""
    for i in range(len(W.indptr) - 1):
        first = store.start[i]
        for k in range(W.indptr[i], W.indptr[i + 1]):
            j = W.indices[k]
            if store.room[i] >= 0:
                place = first + k - W.indptr[i]
                store.cols[place] = j
                store.vals[place] = W.data[k]
            else:
                store.dense[first, j] = W.data[k]
                if frozen:
                    store.support[first, j] = True


@compiled
def count_rows(store: Store, debts: Debts, plan: Plan, t: int, counts: Ints) -> None:
    """How many weights of each row are not 0 after t steps; entries, where W is frozen."""
    values = store.vals
    for i in range(len(counts)):
        p = -1.0 if plan.frozen else _owed(debts, plan, i, t)
        first = store.start[i]
        n = 0
        if store.room[i] < 0:
            w = store.dense[first]
            for j in range(len(w)):
                n += store.support[first, j] if plan.frozen else not abs(w[j]) <= p
        else:
            for k in range(first, first + store.length[i]):
                n += not abs(values[k]) <= p
        counts[i] = n


@compiled
def copy_rows(
    store: Store, debts: Debts, plan: Plan, t: int, indptr: Ints, cols: Columns, vals: Any
) -> None:
    """W after t steps as the parts of a CSR array, columns in no order."""
    columns, values = store.cols, store.vals
    for i in range(len(indptr) - 1):
        p = _owed(debts, plan, i, t)
        first = store.start[i]
        out = indptr[i]
        if store.room[i] < 0:
            w = store.dense[first]
            for j in range(len(w)):
                if store.support[first, j] if plan.frozen else not abs(w[j]) <= p:
                    cols[out] = j
                    vals[out] = _soft(w[j], p)
                    out += 1
        else:
            for k in range(first, first + store.length[i]):
                if plan.frozen or not abs(values[k]) <= p:
                    cols[out] = columns[k]
                    vals[out] = _soft(values[k], p)
                    out += 1


@compiled
def margins(
    store: Store, debts: Debts, plan: Plan, Q: Sparse, D: Sparse, triplets: Ints, t: int,
    work: Work, out: Array,
) -> None:  # fmt: skip
    """q'W(d+ - d-) of each triplet after t steps; one partition is all of W."""
    for m in range(len(triplets)):
        _measure(store, debts, plan, Q, D, triplets[m : m + 1], t, 0, 1, work)
        out[m] = work.margins[0, 0]
