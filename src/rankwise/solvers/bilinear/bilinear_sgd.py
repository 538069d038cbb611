"""Algorithm 1 as an object that can stop, report where it is, and resume."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import scipy.sparse as sp

from rankwise.backends.arrays import Array
from rankwise.errors import DataError, ModelFileError
from rankwise.solvers.bilinear.lazy_steps import (
    DONE,
    OVERFLOW,
    advance,
    copy_rows,
    count_steps,
    measure,
    repack,
    reserve,
    update,
)
from rankwise.solvers.bilinear.step_arrays import (
    ADAGRAD,
    CONSTANT,
    CSR,
    INVSQRT,
    ROW,
    Ints,
    RowStore,
    Scratch,
    StepRule,
    csr_parts,
)

SCHEDULES = {"invsqrt": INVSQRT, "constant": CONSTANT, "adagrad": ADAGRAD}
BATCH = 16
"""Triplets whose margins are measured before W changes, where several threads share the work."""
OVERFLOWED = "W overflowed: scale rows to unit length or lower eta0."


class BilinearSGD:
    """Stochastic subgradient steps on the hinge loss of q'W(d+ - d-), with L1 shrinkage.

    With eta_t the rate of step t, each step adds eta_t q (d+ - d-)' to W if the margin is below 1
    (equation (4)). After every T-th step, each entry of W moves towards 0 by λ times the sum of
    the last T rates (equation (7)). Memory is in the order of the nonzeros of W.

    With a `prior` W_0, this is done for W - W_0, which then moves towards 0. Where rows are
    `grouped`, their norms move towards 0 instead of their entries.

    Parameters
    ----------
    W : CSR array
        Where to begin, without the prior; its explicit zeros count as entries where `frozen`.
    lam : float
        λ of equation (5); 0 for no shrinkage.
    eta0 : float
        C in the rate C / sqrt(t), or the rate itself, or adagrad's factor.
    schedule : {"invsqrt", "constant", "adagrad"}
    shrink_every : int
        T of Algorithm 1.
    n_threads : int
    frozen : bool
        Entries that W does not have stay 0: PΩ of section III.B.
    dense_from : int, optional
        Length from which rows are stored as vectors; 0: all. None: where that takes at most four
        times the memory of the compact form.
    grouped : bool
    prior : CSR array, optional
    """

    def __init__(
        self,
        W: Any,
        *,
        lam: float,
        eta0: float,
        schedule: str = "invsqrt",
        shrink_every: int = 100,
        n_threads: int = 1,
        frozen: bool = False,
        dense_from: int | None = None,
        grouped: bool = False,
        prior: Any = None,
    ) -> None:
        self.shape: tuple[int, int] = W.shape
        self.n_threads, self.dtype = n_threads, W.dtype
        if dense_from is None:
            itemsize = W.dtype.itemsize
            dense_from = max(1, W.shape[1] * itemsize // (4 * (itemsize + 4)))
        self._rule = StepRule(
            float(lam), float(eta0), SCHEDULES[schedule], int(shrink_every), frozen, dense_from,
            grouped,
        )  # fmt: skip
        self._prior = prior
        self._work: list[Scratch] = []
        self._need = np.zeros(W.shape[0], np.int64)
        self.step = 0
        self.totals = np.zeros(2)
        self._store = self._stored(W)

    def advance(self, Q: CSR, D: CSR, triplets: Ints) -> None:
        """Take one step for each triplet, in order.

        Parameters
        ----------
        Q, D : CSR
            Queries and documents.
        triplets : ndarray of shape (n_steps, 3)
            Rows of Q, D and D: a query, the preferred document, the other one.
        """
        take = self._advance_alone if self.n_threads == 1 else self._advance_together
        done, full_at = 0, -1
        while done < len(triplets):
            taken, code = take(Q, D, triplets[done:])
            done += taken
            self.step += taken
            if code == OVERFLOW:
                raise DataError(OVERFLOWED)
            if code != DONE:
                self._make_room(again=full_at == self.step)
                full_at = self.step
        # An infinite sum of squares would make adagrad's rates 0.
        if not np.isfinite(self._store.rows["squares"]).all():
            raise DataError(OVERFLOWED)

    @property
    def batch(self) -> int:
        """Steps whose margins are measured at once; only cuts between batches leave W the same."""
        return 1 if self.n_threads == 1 else BATCH

    def count(self) -> int:
        """Entries of W that are not 0."""
        return int(self._row_ends()[-1]) if self._prior is None else int(self.weights().nnz)

    def weights(self) -> sp.csr_array:
        """W as it is now; the learner does not change."""
        changes = self._sorted_weights()
        return changes if self._prior is None else sp.csr_array(self._prior + changes)

    def changes(self) -> sp.csr_array:
        """W without the prior."""
        return self._sorted_weights()

    def sum_of_rates(self) -> float:
        """Sum of the rates so far; with adagrad, the median over the rows that have changed."""
        if self._rule.schedule != ADAGRAD:
            return float(self._store.rates[0])
        rows = self._store.rows[self._store.rows["squares"] > 0.0]
        if not len(rows):
            return math.inf
        rates = self._rule.eta0 / np.sqrt(rows["squares"])
        return float(np.median(rows["total"] + rows["part"] + rates * (self.step - rows["since"])))

    def trim(self) -> None:
        """Release the memory that only further steps would need; W stays the same."""
        if not self._rule.frozen:  # where zeros count, and nothing grows
            self._repack()
            self._resize(*self._store.used.tolist())

    def margins(self, Q: CSR, D: CSR, triplets: Ints) -> Array:
        """q'W(d+ - d-) of triplets, as W is now."""
        work = self._scratch(D)[0]
        out = np.empty(len(triplets))
        for begin in range(0, len(triplets), BATCH):
            some = triplets[begin : begin + BATCH]
            measure(self._store, self._rule, Q, D, some, self.step, 0, 1, work)
            out[begin : begin + BATCH] = work.margins[: len(some)]
        return out

    def state(self) -> dict[str, Any]:
        """Arrays with everything that changes; `restore` continues from them."""
        s = self._store
        n_entries, n_vectors = s.used
        return {
            "step": np.array(self.step),
            "rows": s.rows.view(np.int64).reshape(-1, 8).copy(),  # the bytes of the records
            "cols": s.cols[:n_entries].copy(),
            "vals": s.vals[:n_entries].copy(),
            "dense": s.dense[:n_vectors].copy(),
            "support": s.support.copy(),
            "sizes": np.array([len(s.cols), len(s.dense)]),
            "rates": s.rates.copy(),
            "totals": self.totals.copy(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Return to a state of a learner with the same arguments, bit for bit.

        Raises ModelFileError if compiled code would read or write outside of the arrays.
        """
        s = {name: np.array(state.get(name), order="C") for name in self.state()}
        self._check_shapes(s)
        rows = s["rows"].reshape(-1).view(ROW)
        self._check_places(s, rows)
        n_entries, n_vectors = len(s["cols"]), len(s["dense"])
        cols, vals, dense = self._arrays(*s["sizes"].tolist())
        cols[:n_entries], vals[:n_entries], dense[:n_vectors] = s["cols"], s["vals"], s["dense"]
        used = np.array([n_entries, n_vectors])
        self._store = self._store._replace(
            rows=rows, cols=cols, vals=vals, dense=dense, support=s["support"], used=used,
            rates=s["rates"], norms=np.full(self.shape[0], -1.0),
        )  # fmt: skip
        self.step, self.totals = int(s["step"]), s["totals"]

    def _check_shapes(self, state: dict[str, Any]) -> None:
        """Raise an error for an array of another type or shape than in a state of this learner."""
        n_entries, n_vectors = state["cols"].size, len(np.atleast_1d(state["dense"]))
        shapes = {
            "cols": (n_entries,),
            "vals": (n_entries,),
            "dense": (n_vectors, self.shape[1]),
            "support": (n_vectors if self._rule.frozen else 0, self.shape[1]),
        }
        for name, known in self.state().items():
            shape, dtype = shapes.get(name, known.shape), known.dtype
            if state[name].shape != shape or state[name].dtype != dtype:
                raise ModelFileError(
                    f"The saved state is damaged: {name} must have shape {shape} and type {dtype}, "
                    f"got {state[name].shape} and {state[name].dtype}. Start again."
                )

    def _check_places(self, state: dict[str, Any], rows: Any) -> None:
        """Raise an error if a row has entries outside of the arrays, or those of another row.

        Each vector must belong to a row: more are never made than there are rows, so that one
        that no row has would be missing for ever.
        """
        pool, vectors = state["sizes"].tolist()
        n_entries, n_vectors = len(state["cols"]), len(state["dense"])
        room, start, length = rows["room"], rows["start"], rows["length"]
        compact = room >= 0
        in_pool = (start >= 0) & (start <= n_entries) & (length >= 0) & (length <= room)
        in_pool &= room <= n_entries - start
        is_vector = (room == -1) & (length == 0) & (start >= 0) & (start < n_vectors)
        order = np.lexsort((room[compact], start[compact]))
        begin, size = start[compact][order], room[compact][order]
        numbers, limit = start[~compact], 64 * (self.shape[0] + 1) * (self.shape[1] + 1)
        in_time = (rows["since"] >= 0) & (rows["since"] <= state["step"])
        sums = [rows[name] for name in ("base", "squares", "total", "part")]
        sound = {
            "step": state["step"] >= 0,
            "rows": np.where(compact, in_pool, is_vector).all()
            and in_time.all()
            and np.isfinite(sums).all()
            and (begin[1:] - begin[:-1] >= size[:-1]).all()
            and len(np.unique(numbers)) == len(numbers) == n_vectors,
            "cols": ((state["cols"] >= 0) & (state["cols"] < self.shape[1])).all(),
            "sizes": n_entries <= pool <= limit and n_vectors <= vectors <= self.shape[0],
            "rates": np.isfinite(state["rates"]).all(),
        }
        for name, holds in sound.items():
            if not holds:
                raise ModelFileError(
                    f"The saved state is damaged: {name} has values outside of their range. "
                    "Start again."
                )

    def _advance_alone(self, Q: CSR, D: CSR, triplets: Ints) -> tuple[int, int]:
        """Steps taken, and a code that says why it is not all of them."""
        work = self._scratch(D)[0]
        return advance(
            self._store, self._rule, Q, D, triplets, self.step, work, self._need, self.totals
        )

    def _advance_together(self, Q: CSR, D: CSR, triplets: Ints) -> tuple[int, int]:
        """The same with several threads, batch by batch.

        Batches end at multiples of their size, counted from the first step, and at shrinkages.
        """
        n, store, rule, work = self.n_threads, self._store, self._rule, self._scratch(D)
        taken, margins = 0, work[0].margins
        with ThreadPoolExecutor(n) as pool:

            def share(function: Callable[..., None], *of: Any) -> None:
                list(pool.map(lambda p: function(store, rule, Q, D, *of, p, n, work[p]), range(n)))

            while taken < len(triplets):
                now = self.step + taken
                left = rule.shrink_every - now % rule.shrink_every
                some = triplets[taken : taken + min(BATCH - now % BATCH, left)]
                share(measure, some, now)
                margins[:] = sum(w.margins for w in work)
                code = reserve(store, rule, Q, D, some, now, margins, self._need)
                if code != DONE:
                    return taken, code
                for w in work:
                    w.margins[:] = margins
                share(update, some, now)
                count_steps(store, rule, now, len(some), margins, self.totals)
                taken += len(some)
        return taken, DONE

    def _row_ends(self) -> Ints:
        """The `indptr` of W."""
        indptr = np.zeros(self.shape[0] + 1, np.int64)
        nothing = CSR(indptr, np.empty(0, np.int32), np.empty(0, self.dtype))
        copy_rows(self._store, self._rule, self.step, nothing)
        return np.cumsum(indptr)

    def _sorted_weights(self) -> sp.csr_array:
        """W without the prior, as it is stored, with sorted columns."""
        indptr = self._row_ends()
        n = int(indptr[-1])
        W = CSR(indptr, np.empty(n, np.int32), np.empty(n, self.dtype))
        if n:
            copy_rows(self._store, self._rule, self.step, W)
        places = np.int32 if n < np.iinfo(np.int32).max else np.int64
        found = sp.csr_array((W.data, W.indices, indptr.astype(places)), shape=self.shape)
        found.sort_indices()
        return found

    def _scratch(self, D: CSR) -> list[Scratch]:
        """Working memory of each thread, for the longest documents so far."""
        width = 2 * int(np.diff(D.indptr).max(initial=0))
        if not self._work or len(self._work[0].x) < width:
            n_rows, n_columns = self.shape
            self._work = [
                Scratch(
                    np.empty(width, np.int32), np.empty(width), np.empty((4, width)),
                    np.zeros(n_columns, np.int32), np.empty(width, np.bool_),
                    np.empty(n_columns + 1, np.int32),
                    np.empty(n_rows, np.int64), np.empty(n_rows), np.empty(n_rows + 3),
                    np.zeros(BATCH),
                )
                for _ in range(self.n_threads)
            ]  # fmt: skip
        return self._work

    def _make_room(self, again: bool) -> None:
        """Drop what has become 0 from the compact rows, and make space to grow.

        Vectors stay vectors. If the same step has run out of space before, the pool grows.
        """
        self._repack()
        store, rule = self._store, self._rule
        used, n_vectors = store.used.tolist()
        # Even an almost empty pool has space for a long row.
        wanted = used + max(used // 2, 2 * rule.dense_from + 4 * self.shape[0])
        pool = max(wanted, len(store.cols), 3 * len(store.cols) // 2 if again else 0)
        vectors = len(store.dense)
        if n_vectors == vectors:
            vectors = min(self.shape[0], 64 + 3 * vectors // 2)
        self._resize(pool, vectors)

    def _repack(self) -> None:
        order = np.argsort(self._store.rows["start"], kind="stable")
        repack(self._store, self._rule, self.step, order)

    def _resize(self, pool: int, vectors: int) -> None:
        """Resize the arrays, to which nothing else refers: in place, but NumPy 2.5 copies them."""
        store = self._store
        store.cols.resize(pool, refcheck=False)
        store.vals.resize(pool, refcheck=False)
        store.dense.resize((vectors, self.shape[1]), refcheck=False)

    def _arrays(self, pool: int, vectors: int) -> tuple[Any, Any, Any]:
        """Columns and values of a pool, and vectors."""
        dense = np.zeros((vectors, self.shape[1]), self.dtype)
        return np.zeros(pool, np.int32), np.zeros(pool, self.dtype), dense

    def _stored(self, W: Any) -> RowStore:
        """The rows of W, those that are long as vectors."""
        lengths = np.diff(W.indptr)
        long = np.flatnonzero(lengths >= self._rule.dense_from)
        cols, vals, dense = self._arrays(W.nnz, len(long))
        cols[:], vals[:] = W.indices, W.data
        support = np.zeros((len(long) if self._rule.frozen else 0, self.shape[1]), np.bool_)
        for k, i in enumerate(long):
            entries = slice(W.indptr[i], W.indptr[i + 1])
            dense[k, W.indices[entries]] = W.data[entries]
            support[k : k + 1, W.indices[entries]] = True
        rows = np.zeros(self.shape[0], ROW)
        rows["start"], rows["length"], rows["room"] = W.indptr[:-1], lengths, lengths
        rows["start"][long], rows["length"][long], rows["room"][long] = np.arange(len(long)), 0, -1
        used, norms = np.array([W.nnz, len(long)]), np.full(self.shape[0], -1.0)
        prior = sp.csr_array(self.shape) if self._prior is None else self._prior
        parts = csr_parts(prior)
        return RowStore(rows, cols, vals, dense, support, used, np.zeros(2), norms, parts)
