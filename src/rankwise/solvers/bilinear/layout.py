"""How W, what it owes, and a step lie in memory: arrays with names, for compiled code."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.arrays import Array

Ints = NDArray[np.int64]
Columns = NDArray[np.int32]

INVSQRT, CONSTANT, ADAGRAD = 0, 1, 2
DONE, ARENA_FULL, DENSE_FULL, OVERFLOW = 0, 1, 2, 3


class Sparse(NamedTuple):
    """Rows of features: the parts of a CSR array, columns ascending, without explicit zeros."""

    indptr: Any
    indices: Any
    data: Array


class Store(NamedTuple):
    """The rows of W as they lie in memory."""

    cols: Columns  # arena of all partitions, region after region
    vals: Any
    start: Ints  # of a compact row in the arena; of a dense one among the dense rows
    length: Ints  # entries of a compact row
    room: Ints  # entries that a compact row has space for; -1: a dense row
    dense: Any
    support: Any  # which entries of dense rows may change, where W is frozen to its support
    top: Ints  # of each partition, where the space that was never used begins
    end: Ints
    n_dense: Ints  # one number: dense rows in use
    rooms: Ints  # the sizes that spaces of compact rows come in
    free: Ints  # of each partition and size, the last space that was given back; -1: none


class Debts(NamedTuple):
    """Sums of rates: λ times their growth since a row was written is what the row owes."""

    base: Array  # sum of rates that the values of a row are free of
    clock: Array  # two numbers: sum of rates over all steps, and up to the last boundary
    # Of adagrad, whose rows have rates of their own:
    total: Array  # sum of a row's rates up to the boundary at which it was last seen
    part: Array  # and from there up to the step `since`
    since: Ints
    squares: Array  # sum of the squared gradients of a row


class Plan(NamedTuple):
    """Numbers that do not change during a run."""

    lam: float
    eta0: float
    schedule: int
    shrink_every: int
    frozen: bool  # entries outside the support stay 0
    dense_from: int  # length from which a row is stored as a vector


class Work(NamedTuple):
    """Scratch space, one line for each partition."""

    cols: Columns  # where d+ - d- is not 0, ascending
    x: Array  # and its values
    spot: Columns  # by column, 1 + its place in `cols`; 0 everywhere else
    hits: Columns  # entries of a compact row that have such a column
    seen: Ints  # by place, the last row update that met it
    token: Ints  # number of the current row update
    slot: Ints  # rows of W that are stored as vectors, see `Rows`
    debt: Array
    weight: Array
    used: Ints
    margins: Array
    need: Ints  # by row of W


class Rows(NamedTuple):
    """The rows of W that a query touches and that are stored as vectors."""

    slot: Ints  # which vector
    debt: Array  # what the row owes
    weight: Array  # what it counts for
    used: Ints  # one number: how many there are
