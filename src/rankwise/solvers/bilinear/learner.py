"""Algorithm 1 as an object that can stop, tell where it is, and go on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from rankwise.backends.arrays import Array
from rankwise.errors import DataError
from rankwise.solvers.bilinear.layout import (
    ADAGRAD,
    CONSTANT,
    DONE,
    INVSQRT,
    OVERFLOW,
    Debts,
    Ints,
    Plan,
    Sparse,
    Store,
    Work,
)
from rankwise.solvers.bilinear.steps import (
    advance,
    advance_together,
    collect,
    copy_rows,
    count_rows,
    margins,
    place_rows,
)

SCHEDULES = {"invsqrt": INVSQRT, "constant": CONSTANT, "adagrad": ADAGRAD}
BATCH = 16
"""Triplets whose margins are measured before W moves, where several threads work."""
OVERFLOWED = "W overflowed: scale rows to unit length or lower eta0."
FULL = 0.6
"""A collected arena that is fuller than this grows; every other one has enough free space."""


@dataclass(frozen=True)
class Settings:
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
    dtype : dtype
        Of W.
    """

    lam: float
    eta0: float
    schedule: str = "invsqrt"
    shrink_every: int = 100
    n_threads: int = 1
    dtype: Any = np.float64


class Learner:
    """Stochastic subgradient steps on the hinge loss of q'W(d+ - d-), with L1 shrinkage.

    With eta_t the rate of step t, each step adds eta_t q (d+ - d-)' to W if the margin is below 1
    (equation (4)), and after every T-th step each entry of W moves by λ times the sum of the last
    T rates towards 0 (equation (7)). Memory is in the order of the nonzeros of W.

    Parameters
    ----------
    W : CSR array
        Where to begin; its explicit zeros count as entries where `frozen`.
    settings : Settings
    dense : bool
        Store every row as a vector.
    frozen : bool
        Entries that W does not have stay 0: PΩ of section III.B.
    dense_from : int, optional
        Length from which rows are stored as vectors. None: where that takes at most four times
        the room of the compact form.
    """

    def __init__(
        self,
        W: Any,
        settings: Settings,
        *,
        dense: bool = False,
        frozen: bool = False,
        dense_from: int | None = None,
    ) -> None:
        self.settings = settings
        self.shape: tuple[int, int] = W.shape
        n_rows, n_columns = W.shape
        itemsize = np.dtype(settings.dtype).itemsize
        if dense_from is None:
            dense_from = max(1, n_columns * itemsize // (4 * (itemsize + 4)))
        self._plan = Plan(
            float(settings.lam),
            float(settings.eta0),
            SCHEDULES[settings.schedule],
            int(settings.shrink_every),
            frozen,
            0 if dense else dense_from,
        )
        rows = _Rows(n_rows)
        self._debts = Debts(rows.base, np.zeros(2), rows.total, rows.part, rows.since, rows.squares)
        self._store = _stored(W, self._plan, settings, rows)
        self._work: Work | None = None
        self.step = 0
        self.totals = np.zeros(2)

    def advance(self, Q: Sparse, D: Sparse, triplets: Ints) -> None:
        """One step for each triplet, in their order.

        Parameters
        ----------
        Q, D : Sparse
            Queries and documents.
        triplets : ndarray of shape (n_steps, 3)
            Rows of Q, D and D: a query, the preferred document, the other one.
        """
        n_threads, batch = self.settings.n_threads, self.batch
        take = advance if n_threads == 1 else advance_together
        work = self._scratch(D)
        done, cleared = 0, -1
        while done < len(triplets):
            taken, code = take(
                self._store, self._debts, self._plan, Q, D, triplets[done:], self.step, batch,
                work, self.totals,
            )  # fmt: skip
            done += taken
            self.step += taken
            if code == OVERFLOW:
                raise DataError(OVERFLOWED)
            if code != DONE:
                # A step for which clearing away was not enough needs more, however little is used.
                self._make_room(grow=cleared == self.step)
                cleared = self.step
        if not np.isfinite(self._debts.squares).all():  # adagrad's rates would be 0 from here on
            raise DataError(OVERFLOWED)

    @property
    def batch(self) -> int:
        """Steps whose margins are measured at once: W depends on cuts at other steps than these."""
        return 1 if self.settings.n_threads == 1 else BATCH

    def count(self) -> int:
        """Entries of W that are not 0 now."""
        return int(self._counts().sum())

    def weights(self) -> sp.csr_array:
        """W as it is now; the learner stays as it is, to the last bit."""
        counts = self._counts()
        indptr = np.zeros(self.shape[0] + 1, np.int64)
        np.cumsum(counts, out=indptr[1:])
        cols = np.empty(indptr[-1], np.int32)
        vals = np.empty(indptr[-1], self.settings.dtype)
        copy_rows(self._store, self._debts, self._plan, self.step, indptr, cols, vals)
        if indptr[-1] < np.iinfo(np.int32).max:
            indptr = indptr.astype(np.int32)
        W = sp.csr_array((vals, cols, indptr), shape=self.shape)
        W.sort_indices()
        return W

    def margins(self, Q: Sparse, D: Sparse, triplets: Ints) -> Array:
        """q'W(d+ - d-) of triplets, as W is now."""
        out = np.empty(len(triplets))
        work = self._scratch(D)
        margins(self._store, self._debts, self._plan, Q, D, triplets, self.step, work, out)
        return out

    @property
    def nbytes(self) -> int:
        """Bytes of all that this holds of W."""
        return sum(array.nbytes for array in self._store) + sum(a.nbytes for a in self._debts)

    def state(self) -> dict[str, NDArray[Any]]:
        """All that changes, as arrays: with the same arguments, `restore` goes on from it."""
        s = self._store
        size = int(s.end[0])
        used = [slice(p * size, int(top)) for p, top in enumerate(s.top)]
        return {
            **s._asdict(),
            "cols": np.concatenate([s.cols[part] for part in used]),
            "vals": np.concatenate([s.vals[part] for part in used]),
            "dense": s.dense[: s.n_dense[0]],
            "dense_room": np.array(len(s.dense)),
            **{f"debts_{name}": array for name, array in self._debts._asdict().items()},
            "step": np.array(self.step),
            "totals": self.totals,
        }

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go back to a state, bit for bit."""
        end, top = state["end"], state["top"]
        size, n = int(end[0]), len(end)
        cols, vals = np.empty(n * size, np.int32), np.empty(n * size, self.settings.dtype)
        begin = 0
        for p in range(n):
            length = int(top[p]) - p * size
            cols[p * size : top[p]] = state["cols"][begin : begin + length]
            vals[p * size : top[p]] = state["vals"][begin : begin + length]
            begin += length
        dense = np.empty((int(state["dense_room"]), self.shape[1]), self.settings.dtype)
        dense[: len(state["dense"])] = state["dense"]
        rows = _Rows(self.shape[0])
        for name in ("start", "length", "room"):
            getattr(rows, name)[:] = state[name]
        for name in ("base", "total", "part", "since", "squares"):
            getattr(rows, name)[:] = state[f"debts_{name}"]
        parts = {name: state[name].copy() for name in Store._fields}
        parts |= {"start": rows.start, "length": rows.length, "room": rows.room}
        self._store = Store(**{**parts, "cols": cols, "vals": vals, "dense": dense})
        self._debts = Debts(
            rows.base, state["debts_clock"].copy(), rows.total, rows.part, rows.since, rows.squares
        )
        self.step = int(state["step"])
        self.totals = state["totals"].copy()

    def _counts(self) -> Ints:
        counts = np.empty(self.shape[0], np.int64)
        count_rows(self._store, self._debts, self._plan, self.step, counts)
        return counts

    def _scratch(self, D: Sparse) -> Work:
        n, width = self.settings.n_threads, 2 * _longest(D) + 1
        if self._work is None or self._work.cols.shape[1] < width:
            n_rows, n_columns = self.shape
            self._work = Work(
                np.empty((n, width), np.int32), np.empty((n, width)),
                np.zeros((n, n_columns), np.int32), np.empty((n, n_columns + 1), np.int32),
                np.zeros((n, width), np.int64), np.zeros(n, np.int64),
                np.empty((n, n_rows), np.int64), np.empty((n, n_rows)), np.empty((n, n_rows)),
                np.zeros((n, 1), np.int64), np.zeros((n, BATCH)),
                np.zeros(n_rows, np.int64),
            )  # fmt: skip
        return self._work

    def _make_room(self, grow: bool) -> None:
        """Clear away what is 0 by now, and grow where that does not free enough."""
        order = np.argsort(self._store.start, kind="stable")
        n = self.settings.n_threads
        collect(self._store, self._debts, self._plan, self.step, order, n)
        s = self._store
        size = int(s.end[0])
        used = int((s.top - size * np.arange(n)).max())
        # One row must always find space, however empty the arena is.
        wanted = max(int(used / FULL), used + int(s.rooms[-1]))
        if grow or wanted > size:
            s = _with_arena(s, max(wanted, 3 * size // 2), size)
        if grow or s.n_dense[0] > FULL * len(s.dense):
            s = _with_dense(s, min(self.shape[0], 64 + 3 * len(s.dense) // 2))
        self._store = s


class _Rows:
    """What is known of each row of W, eight numbers side by side.

    A step looks at all that is known of some rows: that should be one line of memory for each.
    """

    def __init__(self, n_rows: int) -> None:
        numbers = np.zeros((n_rows, 8), np.int64)
        floats = numbers.view(np.float64)
        self.start, self.length, self.room, self.since = numbers[:, :4].T
        self.base, self.total, self.part, self.squares = floats[:, 4:].T


def _stored(W: Any, plan: Plan, settings: Settings, rows: _Rows) -> Store:
    """The rows of W, laid out compactly, or as vectors where they are long."""
    n_rows, n_columns = W.shape
    n = settings.n_threads
    rooms = _sizes(max(plan.dense_from, int(np.diff(W.indptr).max(initial=0))))
    lengths = np.diff(W.indptr).astype(np.int64)
    is_dense = lengths >= plan.dense_from
    compact = np.where(is_dense, 0, lengths)
    room = compact  # a frozen row does not grow
    if not plan.frozen:
        room = np.where(compact > 0, rooms[np.searchsorted(rooms, compact)], 0)
    partition = np.arange(n_rows) % n
    used = np.bincount(partition, weights=room, minlength=n).astype(np.int64)
    size = int(used.max()) + (0 if plan.frozen else int(rooms[-1]) + 4 * n_rows)
    start, top = np.zeros(n_rows, np.int64), size * np.arange(n, dtype=np.int64)
    for p in range(n):
        mine = np.flatnonzero(partition == p)
        start[mine] = top[p] + np.cumsum(room[mine]) - room[mine]
        top[p] += used[p]
    cols, vals = np.empty(n * size, np.int32), np.empty(n * size, settings.dtype)
    n_dense = int(is_dense.sum())
    start[is_dense] = np.arange(n_dense)
    slots = n_dense if plan.frozen else min(n_rows, 64 + 5 * n_dense // 4)
    dense = np.zeros((slots, n_columns), settings.dtype)
    support = np.zeros((n_dense if plan.frozen else 0, n_columns), np.bool_)
    rows.start[:], rows.length[:], rows.room[:] = start, compact, np.where(is_dense, -1, room)
    store = Store(
        cols, vals, rows.start, rows.length, rows.room, dense, support,
        top, size * np.arange(1, n + 1, dtype=np.int64), np.array([n_dense]), rooms,
        np.full((n, len(rooms)), -1, np.int64),
    )  # fmt: skip
    place_rows(store, plan.frozen, Sparse(W.indptr, W.indices, W.data))
    return store


def _sizes(largest: int) -> Ints:
    """Sizes of spaces, from 4 to `largest` or more, each a quarter larger than the one before."""
    sizes = [4]
    while sizes[-1] < largest:
        sizes.append(sizes[-1] + max(1, sizes[-1] // 4))
    return np.array(sizes)


def _with_arena(store: Store, size: int, old: int) -> Store:
    """The same rows in an arena whose regions have another size."""
    n = len(store.top)
    cols, vals = np.empty(n * size, np.int32), np.empty(n * size, store.vals.dtype)
    for p in range(n):
        used = slice(p * old, int(store.top[p]))
        length = used.stop - used.start
        cols[p * size : p * size + length] = store.cols[used]
        vals[p * size : p * size + length] = store.vals[used]
    shift = (size - old) * np.arange(n)
    moved = store.start + shift[np.arange(len(store.start)) % n]
    store.start[:] = np.where(store.room < 0, store.start, moved)
    return store._replace(
        cols=cols, vals=vals,
        top=store.top + shift, end=size * np.arange(1, n + 1, dtype=np.int64),
    )  # fmt: skip


def _with_dense(store: Store, slots: int) -> Store:
    """The same rows with room for more vectors."""
    used = int(store.n_dense[0])
    dense = np.zeros((slots, store.dense.shape[1]), store.dense.dtype)
    dense[:used] = store.dense[:used]
    return store._replace(dense=dense)


def _longest(D: Sparse) -> int:
    return int(np.diff(D.indptr).max(initial=0))
