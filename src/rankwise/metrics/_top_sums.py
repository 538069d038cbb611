"""Sums over the first rows of each ranking, by array expressions.

They are as fast as compiled loops here, and there is nothing to compile at the first use. With
`average`, a value is the expectation over a random order of tied rows; otherwise rows keep their
order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rankwise.metrics._row_order import Bools, Floats, Ints
from rankwise.metrics.ranked_queries import RankedRows


@dataclass(frozen=True)
class TopRows:
    """The rows of each ranking down to the last of some ascending cut-offs.

    Attributes
    ----------
    rows : ndarray of shape (n_top,) or slice
        Where they are.
    weights : ndarray of shape (n_top,)
        Those of their ranks.
    starts : ndarray of shape (n_queries + 1,)
        ``rows[starts[g]:starts[g + 1]]`` are those of query g.
    ends : ndarray of shape (n_queries, n_cutoffs)
        ``rows[starts[g]:ends[g, j]]`` are those down to the cut-off j.
    """

    rows: Ints | slice
    weights: Floats
    starts: Ints
    ends: Ints

    @classmethod
    def of(cls, indptr: Ints, stops: Ints, weights: Callable[[int], Floats], ks: Ints) -> TopRows:
        """The first ``ks[-1]`` rows from ``indptr[g]`` to ``stops[g]``, for each query g.

        ``weights(n)`` are those of the first n ranks.
        """
        sizes = np.minimum(stops - indptr[:-1], ks[-1])
        starts = np.concatenate(([0], np.cumsum(sizes)))
        ranks = np.arange(starts[-1])
        ranks -= np.repeat(starts[:-1], sizes)
        is_all = len(ranks) == indptr[-1]
        rows = slice(None) if is_all else ranks + np.repeat(indptr[:-1], sizes)
        ends = np.minimum(starts[:-1, None] + ks, starts[1:, None])
        return cls(rows, weights(int(sizes.max()))[ranks], starts, ends)

    def sums(self, values: Floats) -> Floats:
        """The sum of values times weights down to each cut-off, shape (queries, cut-offs)."""
        return _sums(values[self.rows] * self.weights, self.starts, self.ends)


def mean_over_ties(values: Floats, tied: Bools) -> Floats:
    """The values of rows, each replaced by the mean of the rows that tie with it."""
    if not tied.any():
        return values
    first, n = _blocks(tied)
    return np.repeat(np.add.reduceat(values, first) / n, n)


def precision_curves(part: RankedRows, average: bool, relevant: float, ks: Ints) -> Floats:
    """The sum of the precisions at the relevant rows among the first k, for each k of `ks`."""
    labels, tied, indptr, stops = part.labels, part.tied, part.indptr, part.stops
    hits = labels >= relevant
    ends = np.minimum(indptr[:-1, None] + ks, stops[:, None])
    if average and tied.any():
        ranks = np.arange(1, len(hits) + 1) - np.repeat(indptr[:-1], np.diff(indptr))
        return _sums(_mean_found(hits, tied, indptr) / ranks, indptr, ends)
    rows = np.flatnonzero(hits)
    starts = np.searchsorted(rows, indptr)
    sizes = np.diff(starts)
    terms = np.arange(1.0, len(rows) + 1)
    terms -= np.repeat(starts[:-1].astype(np.float64), sizes)  # relevant rows down to each of them
    terms /= rows - np.repeat(indptr[:-1] - 1.0, sizes)  # ranks
    return _sums(terms, starts, np.searchsorted(rows, ends))


def _mean_found(hits: Bools, tied: Bools, indptr: Ints) -> Floats:
    """The number of relevant rows down to each row if it is relevant, else 0, expected over ties.

    In a block of n tied rows with r relevant ones, a row is relevant with probability r / n. Then
    each row before it in the block is relevant with probability (r - 1) / (n - 1).
    """
    first, n = _blocks(tied)
    r = np.add.reduceat(hits, first, dtype=np.int64)
    before = np.concatenate(([0], np.cumsum(r)))
    query = np.searchsorted(first, indptr)  # every query begins with a block
    found = before[:-1] - np.repeat(before[query[:-1]], np.diff(query)) + 1
    step = (r - 1) / np.maximum(n - 1, 1)
    within = np.arange(len(hits)) - np.repeat(first, n)
    return np.repeat(r / n, n) * (np.repeat(found, n) + within * np.repeat(step, n))


def _blocks(tied: Bools) -> tuple[Ints, Ints]:
    """Where the blocks of tied rows begin, and their sizes; a row without a tie is a block."""
    first = np.flatnonzero(~tied)
    return first, np.diff(first, append=len(tied))


def _sums(terms: Floats, starts: Ints, ends: Ints) -> Floats:
    """The sums of ``terms[starts[g]:ends[g, j]]``, with ascending ends up to ``starts[g + 1]``."""
    begins = np.column_stack((starts[:-1], ends))
    is_full = begins < np.column_stack((ends, starts[1:]))
    sums = np.zeros(begins.shape)
    if is_full.any():
        sums[is_full] = np.add.reduceat(terms, begins[is_full])
    return np.asarray(np.cumsum(sums[:, :-1], axis=1))
