"""The arrays of the compiled steps: sparse rows, W in memory, and constants of a run."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.arrays import Array

Ints = NDArray[np.int64]
Columns = NDArray[np.int32]

INVSQRT, CONSTANT, ADAGRAD = 0, 1, 2
INT32_MAX = np.iinfo(np.int32).max

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


def csr_parts(X: Any, dtype: Any = np.float64) -> CSR:
    """The arrays of a CSR array, always of the same types, so that code is compiled once."""
    types = (np.int32 if X.nnz <= INT32_MAX else np.int64, np.int32, dtype)
    arrays = zip((X.indptr, X.indices, X.data), types, strict=True)
    return CSR(*(np.require(part, kind, ["C_CONTIGUOUS", "WRITEABLE"]) for part, kind in arrays))


class RowStore(NamedTuple):
    """W in memory."""

    rows: Any  # of dtype ROW
    cols: Columns  # the pool: columns and values of all compact rows
    vals: Any
    dense: Any  # rows that are vectors
    support: Any  # which entries of `dense` may change, where W is frozen
    used: Ints  # two numbers: entries of the pool and vectors in use
    rates: Array  # two numbers: sum of rates over all steps, and up to the last boundary
    norms: Array  # of the values of each row, where it shrinks as a group; -1: not known
    prior: CSR  # added to these rows; it does not shrink


class StepRule(NamedTuple):
    """Constants of a run."""

    lam: float
    eta0: float
    schedule: int
    shrink_every: int
    frozen: bool  # entries that W does not have stay 0
    dense_from: int  # length from which a row is stored as a vector
    grouped: bool  # a row shrinks as a whole


class Scratch(NamedTuple):
    """Working memory of a thread."""

    cols: Columns  # columns of d+ - d-
    x: Array  # and its values
    taken: Array  # what four rows of W have in these columns
    spot: Columns  # by column, 1 + its place in `cols`; 0 for all other columns
    fresh: Any  # by place, whether the row has no such column
    hits: Columns  # entries of a compact row that have a column of `cols`
    slot: Ints  # rows of W that the query touches and that are vectors: where they are,
    debt: Array  # what they owe,
    weight: Array  # and their factor; three more entries, for a multiple of four
    margins: Array  # of the triplets of a batch
