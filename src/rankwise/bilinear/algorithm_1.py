"""Sparse SGD: stochastic subgradient steps with shrinkage, on the nonzeros of W alone.

Algorithm 1 of "Learning preferences with millions of parameters by enforcing sparsity" (ICDM 2010),
for t = 1, 2, ..., in the words of the paper and of this file (`advance`):

1. draw a triplet (q, d+, d-);
2. compute the subgradient of the hinge loss max(0, 1 - q'W(d+ - d-)): it is -q(d+ - d-)' if the
   `margin` q'W(d+ - d-) is below 1, and otherwise 0;
3. `add` eta_t q(d+ - d-)' to W: a step against the subgradient, equation (4);
4. if t is a multiple of T, move every entry of W towards 0 by λ times the sum of the last T rates
   (`soft`, equation (7)).

`triplets.py` draws the triplets, or takes listed ones in order, and `learn` in
`bilinear_training.py` passes them to `advance`. The paper iterates until convergence; here, the
caller sets the number of steps.

Step 4 would touch all of W. It is not carried out, but counted: soft thresholds compose by adding,
soft(soft(u, a), b) = soft(u, a + b). A row of W therefore stores values u, and p (`owed`), the sum
of the shrinkages since they were written. The weights of the row are

    w = soft(u, p),    and setting a weight to w means storing    u = w + sign(w) p    (`hard`).

Up to rounding, the result is the same as shrinking all of W every T steps.

Extensions. With adagrad, each row has its own rates, and its own sum of them. A row can shrink as a
group: its norm moves towards 0 by p, so that w = (1 - p / |u|) u, or 0. This composes by adding as
well. The shrinkage can be towards a prior W_0 instead of 0: then u is stored for W - W_0.

Storage. A short row of W is compact: columns and values in a pool that all rows share, in no order.
A row becomes a plain vector once that takes at most four times the memory. Both kinds are copied to
the columns of d+ - d- before anything is computed, so results do not depend on the kind. Entries
that have become 0 are dropped when their row runs out of room.

A step takes O(nnz(q) (nnz(d+) + nnz(d-) + r)) time, where r is the length of a compact row.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from rankwise.backends.arrays import Array
from rankwise.backends.jit import compiled
from rankwise.errors import DataError, ModelFileError

Ints = NDArray[np.int64]
INT32_MAX = np.iinfo(np.int32).max
INVSQRT, CONSTANT, ADAGRAD = 0, 1, 2
SCHEDULES = {"invsqrt": INVSQRT, "constant": CONSTANT, "adagrad": ADAGRAD}
DONE, OVERFLOW = 0, -1
OVERFLOWED = "W overflowed: scale rows to unit length or lower eta0."

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
SUMS = ("base", "squares", "total", "part", "since")
"""What does not depend on where a row is stored."""


class CSR(NamedTuple):
    """The arrays of a CSR array, with ascending columns and no explicit zeros."""

    indptr: Any
    indices: Any
    data: Any


def csr_parts(X: Any, dtype: Any = np.float64) -> CSR:
    """The arrays of a CSR array, always of the same types, so that code is compiled once."""
    types = (np.int32 if X.nnz <= INT32_MAX else np.int64, np.int32, dtype)
    arrays = zip((X.indptr, X.indices, X.data), types, strict=True)
    return CSR(*(np.require(part, kind, ["C_CONTIGUOUS", "WRITEABLE"]) for part, kind in arrays))


class Weights(NamedTuple):
    """W in memory."""

    rows: Any  # of dtype ROW
    cols: Any  # the pool: columns and values of all compact rows
    vals: Any
    dense: Any  # rows that are vectors
    support: Any  # which entries of `dense` may change, where W is frozen
    used: Ints  # two numbers: entries of the pool and vectors in use
    rates: Array  # two numbers: sum of rates over all steps, and up to the last boundary;
    # adagrad does not use them
    norms: Array  # of the values of each row, where it shrinks as a group; -1: not known
    prior: CSR  # added to these rows; it does not shrink


class StepRule(NamedTuple):
    """Constants of a run."""

    lam: float
    eta0: float
    schedule: int
    shrink_every: int  # T
    frozen: bool  # entries that W does not have stay 0
    dense_from: int  # length from which a row is stored as a vector
    grouped: bool  # a row shrinks as a whole


class Scratch(NamedTuple):
    """Working memory of a step."""

    cols: Any  # columns of d+ - d-, ascending
    x: Array  # and its values
    u: Array  # what up to four rows of W have in these columns
    spot: Any  # by column, 1 + its place in `cols`; 0 for all other columns
    fresh: Any  # by place, whether a compact row has no such column
    hits: Any  # entries of a compact row that have a column of `cols`
    slot: Ints  # rows of W with a feature of q that are vectors: where they are,
    p: Array  # what they owe,
    factor: Array  # what they are multiplied by,
    term: Ints  # and their place in the query
    terms: Array  # of the margin, by place in the query


@compiled
def difference(D: CSR, a: int, b: int, work: Scratch) -> int:
    """d_a - d_b in `cols`, `x` and `spot`; returns the number of entries."""
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
def due(row: Any, rule: StepRule, rates: Array, taken: int) -> Any:
    """Sum of the rates of a row up to the last multiple of T within the first `taken` steps."""
    if rule.schedule != ADAGRAD:
        return rates[1]
    boundary = taken - taken % rule.shrink_every
    if row.since < boundary:
        return row.total + row.part + rate(row, rule) * (boundary - row.since)
    return row.total


@compiled
def owed(row: Any, rule: StepRule, rates: Array, taken: int) -> float:
    """p: by how much the values of a row have to shrink after `taken` steps."""
    return rule.lam * (due(row, rule, rates, taken) - row.base) if rule.lam > 0.0 else 0.0


@compiled
def soft(u: float, p: float) -> float:
    """Equation (7), compiled without a branch; NaN stays NaN, so that an overflow is noticed."""
    return math.copysign(max(abs(u) - p, 0.0), u)


@compiled
def hard(w: float, p: float) -> float:
    """A u whose soft threshold is w; also for w = 0, where there are many."""
    return w + math.copysign(p, w)


@compiled
def stored(W: Weights, row: Any) -> Any:
    """All values of a row, in the order in which they are stored."""
    if row.room < 0:
        return W.dense[row.start]
    return W.vals[row.start : row.start + row.length]


@compiled
def share_left(W: Weights, i: int, p: float) -> float:
    """1 - p / |u|: the factor of row i, which shrinks as a group by p; NaN stays NaN."""
    if p == 0.0:
        return 1.0
    if W.norms[i] < 0.0:
        squares = 0.0
        for u in stored(W, W.rows[i]):
            squares += u * u
        W.norms[i] = np.sqrt(squares)
    norm = W.norms[i]
    return 0.0 if norm <= p else 1.0 - p / norm


@compiled
def settle(W: Weights, rule: StepRule, i: int, taken: int) -> None:
    """Apply the pending shrinkage to row i."""
    row = W.rows[i]
    p, share = owed(row, rule, W.rates, taken), 1.0
    if rule.grouped:
        p, share = 0.0, share_left(W, i, p)
        W.norms[i] = -1.0
    values = stored(W, row)
    for k in range(len(values)):
        values[k] = share * soft(values[k], p)
    if share == 0.0:
        row.length = 0
    row.base = due(row, rule, W.rates, taken)


@compiled
def find(columns: Any, spot: Any, hits: Any) -> int:
    """Entries of a compact row that have a column of the difference: how many.

    Few have one. Reading only columns, without a branch, is as fast as memory is.
    """
    n = 0
    for k in range(len(columns)):
        hits[n] = k
        n += spot[np.uint32(columns[k])] != 0
    return n


@compiled
def compact_values(W: Weights, row: Any, n: int, work: Scratch) -> int:
    """Copy what a compact row has in the columns of the difference to `u[0]`; their number."""
    u, spot, begin, end = work.u[0], work.spot, row.start, row.start + row.length
    columns, values = W.cols[begin:end], W.vals[begin:end]
    u[:n] = 0.0
    n_hits = find(columns, spot, work.hits)
    for h in range(n_hits):
        k = work.hits[h]
        u[spot[np.uint32(columns[k])] - 1] = values[k]
    return n_hits


@compiled
def vector_values(W: Weights, r: int, n_rows: int, n: int, work: Scratch) -> None:
    """The same for vectors r to r + 3 of the query: `u` has four rows.

    Loads from four rows at once, which nothing waits for, are as fast as memory is.
    """
    u, cols, slot, last = work.u, work.cols, work.slot, n_rows - 1
    a, b = W.dense[slot[r]], W.dense[slot[min(r + 1, last)]]
    c, d = W.dense[slot[min(r + 2, last)]], W.dense[slot[min(r + 3, last)]]
    u_a, u_b, u_c, u_d = u[0], u[1], u[2], u[3]
    for k in range(n):
        j = np.uint32(cols[k])
        u_a[k], u_b[k], u_c[k], u_d[k] = a[j], b[j], c[j], d[j]


@compiled
def store_compact(W: Weights, rule: StepRule, row: Any, n: int, n_hits: int, work: Scratch) -> None:
    """Store `u[0]` in the columns of the difference, in a compact row with room for all of them."""
    u, cols, spot, fresh = work.u[0], work.cols, work.spot, work.fresh
    fresh[:n] = not rule.frozen
    for h in range(n_hits):
        k = row.start + work.hits[h]
        c = spot[np.uint32(W.cols[k])] - 1
        W.vals[k] = u[c]
        fresh[c] = False
    end = row.start + row.length
    for c in range(n):
        if fresh[c]:
            W.cols[end], W.vals[end] = cols[c], u[c]
            end += 1
    row.length = end - row.start


@compiled
def store_vector(W: Weights, rule: StepRule, slot: int, n: int, u: Array, cols: Any) -> None:
    """Store values in the columns of the difference of a vector."""
    values = W.dense[slot]
    for c in range(n):
        if not rule.frozen or W.support[slot, cols[c]]:
            values[np.uint32(cols[c])] = u[c]


@compiled
def move_by(u: Array, p: float, step: float, x: Array) -> None:
    """Set the weights soft(u, p) to soft(u, p) + step x."""
    if p == 0.0:
        u += step * x
        return
    for c in range(len(u)):
        u[c] = hard(soft(u[c], p) + step * x[c], p)


@partial(compiled, fastmath={"reassoc"})
def soft_dot(u: Array, p: float, x: Array) -> float:
    """soft(u, p)'x, summed in any order."""
    total = 0.0
    if p == 0.0:
        for k in range(len(u)):
            total += u[k] * x[k]
        return total
    for k in range(len(u)):
        total += soft(u[k], p) * x[k]
    return total


@compiled
def margin(W: Weights, rule: StepRule, Q: CSR, q: int, n: int, taken: int, work: Scratch) -> float:
    """q'W(d+ - d-) after `taken` steps, with the difference in `work`."""
    x, spot, prior, terms = work.x[:n], work.spot, W.prior, work.terms
    total, v, first, end = 0.0, 0, Q.indptr[q], Q.indptr[q + 1]
    for e in range(first, end):
        i, weight = Q.indices[e], Q.data[e]
        row = W.rows[i]
        for k in range(prior.indptr[i], prior.indptr[i + 1]):
            c = spot[prior.indices[k]]
            if c:
                total += weight * prior.data[k] * x[c - 1]
        p = owed(row, rule, W.rates, taken)
        if rule.grouped:
            weight, p = weight * share_left(W, i, p), 0.0
        if row.room < 0:
            work.slot[v], work.p[v], work.factor[v], work.term[v] = row.start, p, weight, e - first
            v += 1
        else:
            compact_values(W, row, n, work)
            terms[e - first] = weight * soft_dot(work.u[0, :n], p, x)
    for r in range(v):
        if r % 4 == 0:
            vector_values(W, r, v, n, work)
        terms[work.term[r]] = work.factor[r] * soft_dot(work.u[r % 4, :n], work.p[r], x)
    for k in range(end - first):  # in this order, however rows are stored
        total += terms[k]
    return total


@compiled
def add(W: Weights, rule: StepRule, Q: CSR, q: int, n: int, taken: int, work: Scratch) -> None:
    """W <- W + eta_(taken + 1) q(d+ - d-)': against the subgradient, equation (4)."""
    u, x, eta, v = work.u, work.x[:n], common_rate(rule, taken + 1), 0
    squares = 0.0
    for c in range(n):
        squares += x[c] ** 2
    for e in range(Q.indptr[q], Q.indptr[q + 1]):
        i = Q.indices[e]
        row = W.rows[i]
        if rule.schedule == ADAGRAD:
            add_rates(row, rule, W.rates, taken)
            row.squares += Q.data[e] ** 2 * squares
            eta = rate(row, rule)
        p = owed(row, rule, W.rates, taken)
        # u = w + p has lost the digits of w where p is much larger.
        if p > eta or rule.grouped:
            if p > 0.0:
                settle(W, rule, i, taken)
            p = 0.0
            W.norms[i] = -1.0
        if row.room < 0:
            work.slot[v], work.p[v], work.factor[v] = row.start, p, eta * Q.data[e]
            v += 1
        else:
            n_hits = compact_values(W, row, n, work)
            move_by(u[0, :n], p, eta * Q.data[e], x)
            store_compact(W, rule, row, n, n_hits, work)
    for r in range(v):
        if r % 4 == 0:
            vector_values(W, r, v, n, work)
        move_by(u[r % 4, :n], work.p[r], work.factor[r], x)
        store_vector(W, rule, work.slot[r], n, u[r % 4], work.cols)


@compiled
def common_rate(rule: StepRule, t: int) -> float:
    """eta_t, where all rows have the same."""
    return rule.eta0 if rule.schedule == CONSTANT else rule.eta0 / np.sqrt(t)


@compiled
def add_rates(row: Any, rule: StepRule, rates: Array, taken: int) -> None:
    """Sum up adagrad's rates of a row over the `taken` steps, after which its rate changes."""
    boundary = taken - taken % rule.shrink_every
    if row.since < boundary:
        row.total = due(row, rule, rates, taken)
        row.part = 0.0
        row.since = boundary
    row.part += rate(row, rule) * (taken - row.since)
    row.since = taken


@compiled
def move(W: Weights, rule: StepRule, i: int, taken: int, start: int, room: int) -> None:
    """Move a compact row, without what has become 0, to another place in the pool.

    That may overlap with where it was, from above.
    """
    row, cols, vals = W.rows[i], W.cols, W.vals
    p = owed(row, rule, W.rates, taken)
    if rule.grouped:
        p = 0.0 if share_left(W, i, p) > 0.0 else np.inf
    end = start
    for k in range(row.start, row.start + row.length):
        cols[end], vals[end] = cols[k], vals[k]
        end += rule.frozen or not abs(vals[k]) <= p
    row.start, row.length, row.room = start, end - start, room


@compiled
def reserve(W: Weights, rule: StepRule, Q: CSR, q: int, n: int, taken: int) -> int:
    """Make room for n more entries in each row that has a feature of q.

    Returns 0, or how many entries of the pool this takes if there is no room.
    """
    if rule.frozen:
        return 0
    need = 0
    for e in range(Q.indptr[q], Q.indptr[q + 1]):
        row = W.rows[Q.indices[e]]
        if 0 <= row.room < row.length + n:
            need += 2 * (row.length + n)
    if need and W.used[0] + need > len(W.cols):
        return need
    for e in range(Q.indptr[q], Q.indptr[q + 1]):
        row = W.rows[Q.indices[e]]
        if not 0 <= row.room < row.length + n:
            continue
        move(W, rule, Q.indices[e], taken, row.start, row.room)
        wanted = row.length + n
        if row.room < wanted <= rule.dense_from:
            room = min(wanted + wanted // 4, rule.dense_from)
            move(W, rule, Q.indices[e], taken, W.used[0], room)
            W.used[0] += room  # the old space is lost until the pool is packed again
        elif row.room < wanted:
            if W.used[1] == len(W.dense):
                return need
            values = W.dense[W.used[1]]
            values[:] = 0.0
            for k in range(row.start, row.start + row.length):
                values[W.cols[k]] = W.vals[k]
            row.start, row.length, row.room = W.used[1], 0, -1
            W.used[1] += 1
    return 0


@compiled
def pack(W: Weights, rule: StepRule, taken: int, order: Ints) -> None:
    """Move all compact rows to the front of the pool; `order` has the rows by where they begin.

    No row gets more room than it had, so each moves towards the front.
    """
    top = 0
    for i in order:
        row = W.rows[i]
        if row.room >= 0:
            room = row.room
            move(W, rule, i, taken, top, room)
            row.room = min(room, row.length + row.length // 4)
            top += row.room
    W.used[0] = top


@compiled
def advance(
    W: Weights, rule: StepRule, Q: CSR, D: CSR, triplets: Ints, taken: int, work: Scratch,
    totals: Array,
) -> tuple[int, int]:  # fmt: skip
    """Take one step of Algorithm 1 for each triplet, after the steps `taken` so far.

    Adds the losses, and the number of margins below 1, to `totals`. Returns the number of steps
    taken, and why it is not all of them: OVERFLOW, or how many entries the pool lacks.
    """
    for k in range(len(triplets)):
        t = taken + k + 1
        q, better, worse = triplets[k]  # 1) the triplet
        n = difference(D, better, worse, work)
        # 2) The subgradient at W^(t-1); it is 0 if q'W(d+ - d-) is at least 1.
        q_W_d = margin(W, rule, Q, q, n, t - 1, work)
        code = DONE if np.isfinite(q_W_d) else OVERFLOW
        if code == DONE and q_W_d < 1.0:
            code = reserve(W, rule, Q, q, n, t - 1)
            if code == DONE:
                add(W, rule, Q, q, n, t - 1, work)  # 3) the step
        work.spot[work.cols[:n]] = 0
        if code != DONE:
            return k, code
        W.rates[0] += common_rate(rule, t)
        if t % rule.shrink_every == 0:
            # 4) The shrinkage by lam (eta_(t-T+1) + ... + eta_t): from here on, it is part of what
            #    rows owe (`owed`), and `soft` applies it wherever a weight is read.
            W.rates[1] = W.rates[0]
        totals[0] += max(0.0, 1.0 - q_W_d)
        totals[1] += q_W_d < 1.0
    return len(triplets), DONE


@compiled
def copy_rows(W: Weights, rule: StepRule, taken: int, as_stored: bool, out: CSR) -> None:
    """Copy W after `taken` steps to a CSR array, columns in no order; only count if that is empty.

    Counts of the rows go to ``indptr[1:]``. Where W is frozen, zeros count as well. `as_stored`
    copies the values u instead of the weights.
    """
    columns, values, dense = W.cols, W.vals, W.dense  # local: four times as fast
    only_count = len(out.indices) == 0
    for i in range(len(out.indptr) - 1):
        row = W.rows[i]
        p, share = 0.0 if as_stored else owed(row, rule, W.rates, taken), 1.0
        if rule.grouped:
            p, share = 0.0, share_left(W, i, p)
        is_dense = row.room < 0
        keeps_zeros = rule.frozen or (as_stored and not is_dense)
        end = 0 if only_count else out.indptr[i]
        for k in range(dense.shape[1] if is_dense else row.length):
            u = dense[row.start, k] if is_dense else values[row.start + k]
            allowed = not (rule.frozen and is_dense) or W.support[row.start, k]
            if allowed and (keeps_zeros or not abs(share * u) <= p):
                if not only_count:
                    out.indices[end] = k if is_dense else columns[row.start + k]
                    out.data[end] = share * soft(u, p)
                end += 1
        if only_count:
            out.indptr[i + 1] = end


@compiled
def measure(
    W: Weights, rule: StepRule, Q: CSR, D: CSR, triplets: Ints, taken: int, work: Scratch
) -> Array:
    """The margins of triplets after `taken` steps."""
    margins = np.empty(len(triplets))
    for m in range(len(triplets)):
        n = difference(D, triplets[m, 1], triplets[m, 2], work)
        margins[m] = margin(W, rule, Q, triplets[m, 0], n, taken, work)
        work.spot[work.cols[:n]] = 0
    return margins


@compiled
def score_rows(Q: CSR, W: CSR, D: CSR, n_columns: int) -> Array:
    """q'Wd for each row of Q and the same row of D."""
    scores, d = np.zeros(len(Q.indptr) - 1), np.zeros(n_columns)
    for r in range(len(scores)):
        for e in range(D.indptr[r], D.indptr[r + 1]):
            d[D.indices[e]] = D.data[e]
        for k in range(Q.indptr[r], Q.indptr[r + 1]):
            dot = 0.0
            for e in range(W.indptr[Q.indices[k]], W.indptr[Q.indices[k] + 1]):
                dot += W.data[e] * d[W.indices[e]]
            scores[r] += Q.data[k] * dot
        for e in range(D.indptr[r], D.indptr[r + 1]):
            d[D.indices[e]] = 0.0
    return scores


class BilinearSGD:
    """Algorithm 1 as an object that can stop, report where it is, and resume.

    Parameters
    ----------
    W : CSR array
        W before the first step, without the prior. Explicit zeros count as entries if `frozen`.
    lam : float
        λ of equation (5); 0 for no shrinkage.
    eta0 : float
        C in the rate C / sqrt(t), or the rate itself, or adagrad's factor.
    schedule : {"invsqrt", "constant", "adagrad"}
    shrink_every : int
        T of Algorithm 1.
    frozen : bool
        Entries that W does not have stay 0: PΩ of section III.B.
    dense_from : int, optional
        Length from which rows are stored as vectors; 0: all. None: where that takes at most four
        times the memory of the compact form.
    grouped : bool
        Whether the norms of rows shrink instead of single entries.
    prior : CSR array, optional
        W shrinks towards this matrix instead of 0.
    """

    def __init__(
        self,
        W: Any,
        *,
        lam: float,
        eta0: float,
        schedule: str = "invsqrt",
        shrink_every: int = 100,
        frozen: bool = False,
        dense_from: int | None = None,
        grouped: bool = False,
        prior: Any = None,
    ) -> None:
        self.shape: tuple[int, int] = W.shape
        self.dtype = W.dtype
        if dense_from is None:
            itemsize = W.dtype.itemsize
            dense_from = max(1, W.shape[1] * itemsize // (4 * (itemsize + 4)))
        self._rule = StepRule(
            float(lam), float(eta0), SCHEDULES[schedule], int(shrink_every), frozen, dense_from,
            grouped,
        )  # fmt: skip
        self._prior = None if prior is None else sp.csr_array(prior)
        self._work: Scratch | None = None
        self.step = 0
        self.totals = np.zeros(2)
        self._W = self._stored(W, np.diff(W.indptr) >= dense_from)

    def advance(self, Q: CSR, D: CSR, triplets: Ints) -> None:
        """Take one step for each triplet, in order.

        Parameters
        ----------
        Q, D : CSR
            Queries and documents.
        triplets : ndarray of shape (n_steps, 3)
            Rows of Q, D and D: a query, the preferred document, the other one.
        """
        done, work = 0, self._scratch(D)
        while done < len(triplets):
            taken, lacks = advance(
                self._W, self._rule, Q, D, triplets[done:], self.step, work, self.totals
            )
            done += taken
            self.step += taken
            if lacks == OVERFLOW:
                raise DataError(OVERFLOWED)
            if lacks != DONE:
                self._make_room(lacks)
        # An infinite sum of squares would make adagrad's rates 0.
        if not np.isfinite(self._W.rows["squares"]).all():
            raise DataError(OVERFLOWED)

    def margins(self, Q: CSR, D: CSR, triplets: Ints) -> Array:
        """q'W(d+ - d-) of triplets, as W is now."""
        return measure(self._W, self._rule, Q, D, triplets, self.step, self._scratch(D))

    def count(self) -> int:
        """Entries of W that are not 0."""
        return int(self._row_ends()[-1]) if self._prior is None else int(self.weights().nnz)

    def weights(self) -> sp.csr_array:
        """W as it is now; the learner does not change."""
        changes = self.changes()
        return changes if self._prior is None else sp.csr_array(self._prior + changes)

    def changes(self) -> sp.csr_array:
        """W without the prior."""
        W = self._copied()
        places = np.int32 if len(W.indices) < INT32_MAX else np.int64
        found = sp.csr_array((W.data, W.indices, W.indptr.astype(places)), shape=self.shape)
        found.sort_indices()
        return found

    def sum_of_rates(self) -> float:
        """Sum of the rates so far; with adagrad, the median over the rows that have changed."""
        if self._rule.schedule != ADAGRAD:
            return float(self._W.rates[0])
        rows = self._W.rows[self._W.rows["squares"] > 0.0]
        if not len(rows):
            return math.inf
        rates = self._rule.eta0 / np.sqrt(rows["squares"])
        return float(np.median(rows["total"] + rows["part"] + rates * (self.step - rows["since"])))

    def trim(self) -> None:
        """Release the memory that only further steps would need; W stays the same."""
        if not self._rule.frozen:  # where nothing grows
            self._pack()
            self._resize(*self._W.used.tolist())

    def state(self) -> dict[str, Any]:
        """Arrays with everything that changes; `restore` continues from them."""
        rows, values = self._W.rows, self._copied(as_stored=True)
        return {
            "step": np.array(self.step),
            "sums": np.column_stack([rows[name] for name in SUMS]),
            "is_vector": rows["room"] < 0,
            "indptr": values.indptr,
            "cols": values.indices,
            "vals": values.data,
            "rates": self._W.rates.copy(),
            "totals": self.totals.copy(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Return to a state of a learner with the same arguments, bit for bit.

        Raises ModelFileError if compiled code would read or write outside of the arrays.
        """
        if "sums" not in state:
            state = _of_earlier_version(state)
        s = {name: np.array(state.get(name), order="C") for name in self.state()}
        self._check(s)
        matrix = sp.csr_array((s["vals"], s["cols"], s["indptr"]), shape=self.shape)
        W = self._stored(matrix, s["is_vector"])
        for name, values in zip(SUMS, s["sums"].T, strict=True):
            W.rows[name] = values
        W.rates[:] = s["rates"]
        self._W, self.step, self.totals = W, int(s["step"]), s["totals"]

    def _check(self, state: dict[str, Any]) -> None:
        """Raise an error for a state that is not possible for this learner."""
        n_entries = state["cols"].size
        sound: dict[str, Any] = {}
        for name, known in self.state().items():
            shape = (n_entries,) if name in ("cols", "vals") else known.shape
            sound[name] = state[name].shape == shape and state[name].dtype == known.dtype
        if all(sound.values()):
            ends, cols, since = state["indptr"], state["cols"], state["sums"][:, -1]
            in_order = ends[0] == 0 and ends[-1] == n_entries and (np.diff(ends) >= 0).all()
            row = np.repeat(np.arange(self.shape[0]), np.diff(ends)) if in_order else cols
            in_range = ((cols >= 0) & (cols < self.shape[1])).all()
            seen = ((since >= 0) & (since <= state["step"])).all()
            sound = {
                "step": state["step"] >= 0,
                "indptr": in_order,
                "cols": in_range and len(np.unique(row * self.shape[1] + cols)) == n_entries,
                "sums": seen and np.isfinite(state["sums"]).all(),
                "rates": np.isfinite(state["rates"]).all(),
            }
        for name, holds in sound.items():
            if not holds:
                raise ModelFileError(
                    f"The saved state is damaged: {name} has values, a shape or a type that it "
                    "cannot have. Start again."
                )

    def _row_ends(self, *, as_stored: bool = False) -> Ints:
        """The `indptr` of W."""
        indptr = np.zeros(self.shape[0] + 1, np.int64)
        nothing = CSR(indptr, np.empty(0, np.int32), np.empty(0, self.dtype))
        copy_rows(self._W, self._rule, self.step, as_stored, nothing)
        return np.cumsum(indptr)

    def _copied(self, *, as_stored: bool = False) -> CSR:
        """W without the prior, or the values in memory, in the order in which they are stored."""
        indptr = self._row_ends(as_stored=as_stored)
        n = int(indptr[-1])
        W = CSR(indptr, np.empty(n, np.int32), np.empty(n, self.dtype))
        if n:
            copy_rows(self._W, self._rule, self.step, as_stored, W)
        return W

    def _scratch(self, D: CSR) -> Scratch:
        """Working memory for the longest documents so far."""
        width = 2 * int(np.diff(D.indptr).max(initial=0))
        if self._work is None or len(self._work.x) < width:
            n_rows, n_columns = self.shape
            self._work = Scratch(
                cols=np.empty(width, np.int32), x=np.empty(width), u=np.empty((4, width)),
                spot=np.zeros(n_columns, np.int32), fresh=np.empty(width, np.bool_),
                hits=np.empty(n_columns + 1, np.int32), slot=np.empty(n_rows, np.int64),
                p=np.empty(n_rows), factor=np.empty(n_rows), term=np.empty(n_rows, np.int64),
                terms=np.empty(n_rows),
            )  # fmt: skip
        return self._work

    def _make_room(self, lacks: int) -> None:
        """Drop what has become 0 from the compact rows, and make space to grow."""
        self._pack()
        used, n_vectors = self._W.used.tolist()
        pool, vectors = max(used + max(used // 2, lacks), len(self._W.cols)), len(self._W.dense)
        if n_vectors == vectors:
            vectors = min(self.shape[0], 64 + 3 * vectors // 2)
        self._resize(pool, vectors)

    def _pack(self) -> None:
        order = np.argsort(self._W.rows["start"], kind="stable")
        pack(self._W, self._rule, self.step, order)

    def _resize(self, pool: int, vectors: int) -> None:
        """Resize the arrays, to which nothing else refers: in place, but NumPy 2.5 copies them."""
        self._W.cols.resize(pool, refcheck=False)
        self._W.vals.resize(pool, refcheck=False)
        self._W.dense.resize((vectors, self.shape[1]), refcheck=False)

    def _stored(self, W: Any, is_vector: NDArray[np.bool_]) -> Weights:
        """The rows of a CSR array in memory, some of them as vectors."""
        n_rows, long = self.shape[0], np.flatnonzero(is_vector)
        rows, lengths = np.zeros(n_rows, ROW), np.diff(W.indptr)
        rows["start"], rows["length"], rows["room"] = W.indptr[:-1], lengths, lengths
        rows["start"][long], rows["length"][long], rows["room"][long] = np.arange(len(long)), 0, -1
        dense = np.zeros((len(long), self.shape[1]), self.dtype)
        support = np.zeros((len(long) if self._rule.frozen else 0, self.shape[1]), np.bool_)
        for k, i in enumerate(long):
            entries = slice(W.indptr[i], W.indptr[i + 1])
            dense[k, W.indices[entries]] = W.data[entries]
            support[k : k + 1, W.indices[entries]] = True
        cols, vals = W.indices.astype(np.int32), W.data.astype(self.dtype)
        used, norms = np.array([W.nnz, len(long)]), np.full(n_rows, -1.0)
        prior = csr_parts(sp.csr_array(self.shape) if self._prior is None else self._prior)
        return Weights(rows, cols, vals, dense, support, used, np.zeros(2), norms, prior)


def _of_earlier_version(state: dict[str, Any]) -> dict[str, Any]:
    """The state of a stream that rankwise 0.1 saved, with the pool and the vectors as they were."""
    try:
        rows = np.ascontiguousarray(state["rows"], np.int64).reshape(-1).view(ROW)
        columns, values = [], []
        for row in rows:
            if row["room"] < 0:
                support = state["support"] if len(state["support"]) else state["dense"]
                columns.append(np.flatnonzero(support[row["start"]]).astype(np.int32))
                values.append(state["dense"][row["start"]][columns[-1]])
            else:
                entries = slice(row["start"], row["start"] + row["length"])
                columns.append(state["cols"][entries])
                values.append(state["vals"][entries])
        return {
            **{name: state[name] for name in ("step", "rates", "totals")},
            "sums": np.column_stack([rows[name] for name in SUMS]),
            "is_vector": rows["room"] < 0,
            "indptr": np.cumsum([0, *map(len, columns)]),
            "cols": np.concatenate(columns),
            "vals": np.concatenate(values),
        }
    except (IndexError, KeyError, TypeError, ValueError):
        raise ModelFileError("The saved state is damaged. Start again.") from None


CHUNK = 4096
"""Triplets whose differences of documents are in memory at once."""


class TransposedSGD(BilinearSGD):
    """`BilinearSGD` for W', so that columns of W shrink as groups and have adagrad's rates.

    q'W(d+ - d-) = (d+ - d-)'W'q: the differences take the place of queries, and a query takes the
    place of a document, which is compared with an empty one. Arguments and results are about W.
    """

    def __init__(self, W: Any, *, prior: Any = None, **how: Any) -> None:
        super().__init__(sp.csr_array(W.T), prior=None if prior is None else prior.T, **how)

    def advance(self, Q: CSR, D: CSR, triplets: Ints) -> None:
        """Take one step for each triplet, in order."""
        for begin in range(0, len(triplets), CHUNK):
            super().advance(*self._swapped(Q, D, triplets[begin : begin + CHUNK]))

    def margins(self, Q: CSR, D: CSR, triplets: Ints) -> Array:
        """q'W(d+ - d-) of triplets, as W is now."""
        return super().margins(*self._swapped(Q, D, triplets))

    def weights(self) -> sp.csr_array:
        """W as it is now; the learner does not change."""
        changes = self.changes()
        return changes if self._prior is None else sp.csr_array(self._prior.T + changes)

    def changes(self) -> sp.csr_array:
        """W without the prior."""
        return sp.csr_array(super().changes().T)

    def _swapped(self, Q: CSR, D: CSR, triplets: Ints) -> tuple[CSR, CSR, Ints]:
        """Differences of documents, queries and an empty row, and triplets of these."""
        n, n_queries = len(triplets), len(Q.indptr) - 1
        shape = (len(D.indptr) - 1, self.shape[0])
        documents = sp.csr_array((D.data, D.indices, D.indptr), shape=shape)
        differences = sp.csr_array(documents[triplets[:, 1]] - documents[triplets[:, 2]])
        differences.sort_indices()
        rows = CSR(np.append(Q.indptr, Q.indptr[-1:]), Q.indices, Q.data)
        swapped = np.column_stack((np.arange(n), triplets[:, 0], np.full(n, n_queries)))
        return csr_parts(differences), rows, swapped
