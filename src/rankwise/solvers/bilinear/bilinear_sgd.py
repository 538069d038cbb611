"""Algorithm 1 as an object that can stop, report where it is, and resume."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from rankwise.backends.arrays import Array
from rankwise.errors import DataError
from rankwise.solvers.bilinear.lazy_steps import (
    ADAGRAD,
    CONSTANT,
    CSR,
    DONE,
    INVSQRT,
    OVERFLOW,
    ROW,
    Columns,
    Ints,
    RowStore,
    Scratch,
    StepRule,
    advance,
    copy_rows,
    count_steps,
    measure,
    purge_compact,
    repack,
    reserve,
    update,
)

SCHEDULES = {"invsqrt": INVSQRT, "constant": CONSTANT, "adagrad": ADAGRAD}
BATCH = 16
"""Triplets whose margins are measured before W changes, where several threads share the work."""
OVERFLOWED = "W overflowed: scale rows to unit length or lower eta0."


@dataclass(frozen=True)
class SGDSettings:
    """How to learn.

    Attributes
    ----------
    lam : float
        λ of equation (5); 0 for no shrinkage.
    eta0 : float
        C in the rate C / sqrt(t), or the rate itself, or adagrad's factor.
    schedule : {"invsqrt", "constant", "adagrad"}
    shrink_every : int
        T of Algorithm 1.
    n_threads : int
    dtype : str
        Of W.
    """

    lam: float
    eta0: float
    schedule: str = "invsqrt"
    shrink_every: int = 100
    n_threads: int = 1
    dtype: str = "float64"


@dataclass(frozen=True)
class SGDState:
    """Everything about a run that changes, as arrays."""

    step: Ints
    rows: Ints  # of shape (n_rows, 8), the bytes of the `ROW` records
    cols: Columns
    vals: Any
    dense: Any
    support: Any
    sizes: Ints  # entries of the pool, and vectors, that there is space for
    rates: Array
    totals: Array


class BilinearSGD:
    """Stochastic subgradient steps on the hinge loss of q'W(d+ - d-), with L1 shrinkage.

    With eta_t the rate of step t, each step adds eta_t q (d+ - d-)' to W if the margin is below 1
    (equation (4)). After every T-th step, each entry of W moves towards 0 by λ times the sum of
    the last T rates (equation (7)). Memory is in the order of the nonzeros of W.

    Parameters
    ----------
    W : CSR array
        Where to begin; its explicit zeros count as entries where `frozen`.
    settings : SGDSettings
    dense : bool
        Store every row as a vector.
    frozen : bool
        Entries that W does not have stay 0: PΩ of section III.B.
    dense_from : int, optional
        Length from which rows are stored as vectors. None: where that takes at most four times
        the memory of the compact form.
    """

    def __init__(
        self,
        W: Any,
        settings: SGDSettings,
        *,
        dense: bool = False,
        frozen: bool = False,
        dense_from: int | None = None,
    ) -> None:
        self.settings = settings
        self.shape: tuple[int, int] = W.shape
        itemsize = np.dtype(settings.dtype).itemsize
        if dense_from is None:
            dense_from = max(1, W.shape[1] * itemsize // (4 * (itemsize + 4)))
        self._rule = StepRule(
            float(settings.lam),
            float(settings.eta0),
            SCHEDULES[settings.schedule],
            int(settings.shrink_every),
            frozen,
            0 if dense else dense_from,
        )
        self._store = self._stored(W)
        self._work: Scratch | None = None
        self.step = 0
        self.totals = np.zeros(2)

    def advance(self, Q: CSR, D: CSR, triplets: Ints) -> None:
        """Take one step for each triplet, in order.

        Parameters
        ----------
        Q, D : CSR
            Queries and documents.
        triplets : ndarray of shape (n_steps, 3)
            Rows of Q, D and D: a query, the preferred document, the other one.
        """
        take = advance if self.settings.n_threads == 1 else self._advance_together
        work = self._scratch(D)
        done, full_at = 0, -1
        while done < len(triplets):
            taken, code = take(
                self._store, self._rule, Q, D, triplets[done:], self.step, work, self.totals
            )
            done += taken
            self.step += taken
            if code == OVERFLOW:
                raise DataError(OVERFLOWED)
            if code != DONE:
                # Dropping zeros was not enough if the same step runs out of space again.
                self._make_room(grow=full_at == self.step)
                full_at = self.step
        # An infinite sum of squares would make adagrad's rates 0.
        if not np.isfinite(self._store.rows["squares"]).all():
            raise DataError(OVERFLOWED)

    @property
    def batch(self) -> int:
        """Steps whose margins are measured at once; only cuts between batches leave W the same."""
        return 1 if self.settings.n_threads == 1 else BATCH

    def count(self) -> int:
        """Entries of W that are not 0."""
        return int(self._row_ends()[-1])

    def weights(self) -> sp.csr_array:
        """W as it is now; the learner does not change."""
        W = sp.csr_array(self._rows(), shape=self.shape)
        W.sort_indices()
        return W

    def margins(self, Q: CSR, D: CSR, triplets: Ints) -> Array:
        """q'W(d+ - d-) of triplets, as W is now."""
        work = self._scratch(D)
        size = work.margins.shape[1]
        out = np.empty(len(triplets))
        for begin in range(0, len(triplets), size):
            some = triplets[begin : begin + size]
            measure(self._store, self._rule, Q, D, some, self.step, 0, 1, work)
            out[begin : begin + size] = work.margins[0, : len(some)]
        return out

    def state(self) -> SGDState:
        """Everything that changes: with the same arguments, `restore` continues from it."""
        s = self._store
        n_entries, n_vectors = s.used
        return SGDState(
            np.array(self.step), s.rows.view(np.int64).reshape(-1, 8).copy(),
            s.cols[:n_entries].copy(), s.vals[:n_entries].copy(), s.dense[:n_vectors].copy(),
            s.support.copy(), np.array([len(s.cols), len(s.dense)]), s.rates.copy(),
            self.totals.copy(),
        )  # fmt: skip

    def restore(self, state: SGDState) -> None:
        """Return to a state, bit for bit."""
        pool, vectors = state.sizes
        dtype = self.settings.dtype
        cols, vals = np.empty(pool, np.int32), np.empty(pool, dtype)
        dense = np.zeros((vectors, self.shape[1]), dtype)
        cols[: len(state.cols)], vals[: len(state.vals)] = state.cols, state.vals
        dense[: len(state.dense)] = state.dense
        self._store = RowStore(
            state.rows.reshape(-1).copy().view(ROW), cols, vals, dense, state.support.copy(),
            np.array([len(state.cols), len(state.dense)]), state.rates.copy(),
        )  # fmt: skip
        self.step = int(state.step)
        self.totals = state.totals.copy()

    def _advance_together(
        self, store: RowStore, rule: StepRule, Q: CSR, D: CSR, triplets: Ints, t: int,
        work: Scratch, totals: Array,
    ) -> tuple[int, int]:  # fmt: skip
        """`advance` with several threads, batch by batch.

        Batches end at multiples of their size, counted from the first step, and at shrinkages.
        """
        n = self.settings.n_threads
        taken = 0
        with ThreadPoolExecutor(n) as pool:
            while taken < len(triplets):
                now = t + taken
                left = rule.shrink_every - now % rule.shrink_every
                some = triplets[taken : taken + min(BATCH - now % BATCH, left)]
                share = partial(_call, (store, rule, Q, D, some, now), (n, work))
                list(pool.map(partial(share, measure), range(n)))
                code = reserve(store, rule, Q, D, some, now, work)
                if code != DONE:
                    return taken, code
                list(pool.map(partial(share, update), range(n)))
                count_steps(store, rule, now, len(some), work, totals)
                taken += len(some)
        return taken, DONE

    def _row_ends(self) -> Ints:
        """The `indptr` of W."""
        indptr = np.zeros(self.shape[0] + 1, np.int64)
        copy_rows(self._store, self._rule, self.step, self._csr(indptr, 0))
        return np.cumsum(indptr)

    def _rows(self) -> tuple[Any, Columns, Ints]:
        """Values, columns in no order, and `indptr` of W."""
        W = self._csr(self._row_ends())
        if len(W.indices):
            copy_rows(self._store, self._rule, self.step, W)
        small = len(W.indices) < np.iinfo(np.int32).max
        return W.data, W.indices, W.indptr.astype(np.int32) if small else W.indptr

    def _csr(self, indptr: Ints, n: int | None = None) -> CSR:
        n = int(indptr[-1]) if n is None else n
        return CSR(indptr, np.empty(n, np.int32), np.empty(n, self.settings.dtype))

    def _scratch(self, D: CSR) -> Scratch:
        n, width = self.settings.n_threads, 2 * int(np.diff(D.indptr).max(initial=0))
        if self._work is None or self._work.cols.shape[1] < width:
            n_rows, n_columns = self.shape
            self._work = Scratch(
                np.empty((n, width), np.int32), np.empty((n, width)),
                np.zeros((n, n_columns), np.int32), np.empty((n, n_columns + 1), np.int32),
                np.empty((n, width), np.bool_), np.empty((n, n_rows), np.int64),
                np.empty((n, n_rows)), np.empty((n, n_rows)), np.zeros((n, BATCH)),
                np.zeros(n_rows, np.int64),
            )  # fmt: skip
        return self._work

    def _make_room(self, grow: bool) -> None:
        """Drop what has become 0 from the compact rows, and make space where that is too little."""
        store = self._store
        used = purge_compact(store, self._rule, self.step)
        # Even an almost empty pool has space for a long row.
        free = max(2 * used // 3, 2 * self._rule.dense_from + 4 * self.shape[0])
        size = max(used + free, 3 * len(store.cols) // 2 if grow else 0)
        cols, vals = np.empty(size, np.int32), np.empty(size, store.vals.dtype)
        repack(store, cols, vals)
        self._store = store._replace(cols=cols, vals=vals)
        if store.used[1] == len(store.dense):
            size = min(self.shape[0], 64 + 3 * len(store.dense) // 2)
            dense = np.zeros((size, self.shape[1]), store.vals.dtype)
            dense[: len(store.dense)] = store.dense
            self._store = self._store._replace(dense=dense)

    def _stored(self, W: Any) -> RowStore:
        """The rows of W: those that are long as vectors, the others where they are in W."""
        dtype, frozen = self.settings.dtype, self._rule.frozen
        rows = np.zeros(self.shape[0], ROW)
        rows["start"], lengths = W.indptr[:-1], np.diff(W.indptr)
        long = np.flatnonzero(lengths >= self._rule.dense_from)
        dense = np.zeros((len(long), self.shape[1]), dtype)
        support = np.zeros(dense.shape if frozen else (0, self.shape[1]), np.bool_)
        for k, i in enumerate(long):
            entries = slice(W.indptr[i], W.indptr[i + 1])
            dense[k, W.indices[entries]] = W.data[entries]
            if frozen:
                support[k, W.indices[entries]] = True
        rows["length"] = rows["room"] = lengths
        rows["start"][long], rows["length"][long], rows["room"][long] = np.arange(len(long)), 0, -1
        return RowStore(
            rows, W.indices.astype(np.int32), W.data.astype(dtype), dense, support,
            np.array([W.nnz, len(long)]), np.zeros(2),
        )  # fmt: skip


def _call(before: Any, after: Any, function: Any, p: int) -> None:
    """Thread p's share of the work."""
    function(*before, p, *after)
