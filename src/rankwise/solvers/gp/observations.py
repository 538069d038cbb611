"""Comparisons in the form that inference takes: what was observed of each pair of rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.graph.comparisons import Comparisons


@dataclass(frozen=True, eq=False)
class PairObservations:
    """Pairs of compared rows, each with what was observed of it.

    Rows and pairs stand in the order of their first appearance: further comparisons change the
    values of pairs that there are, and append others. If there are raters, a pair that two of them
    compared counts as two pairs.
    """

    rows: Index  # the rows that were compared
    first: Index  # positions in `rows`, of shape (N,)
    second: Index
    values: Array  # weights of wins, losses and ties (probit), or margin and weight (gaussian)
    parts: Array  # what each comparison adds to the values of its pair
    pair: Index  # number of its pair
    sign: Array  # -1 if its first row is the second of its pair
    rater: Index | None = None  # number of the rater of each pair, -1 for one who is not known

    @classmethod
    def from_outcomes(
        cls, comparisons: Comparisons, rater: Index | None = None, *, half_ties: bool
    ) -> PairObservations:
        """Each pair once (for each rater), with its wins, losses and ties: O(N log N).

        Margins are 1 (the first row won), 0 (a tie) or -1. With `half_ties`, a tie counts as
        half a win for each row.
        """
        rows, first, second = _positions(comparisons.pairs)
        sign = np.where(first < second, 1.0, -1.0)
        low, high = np.minimum(first, second), np.maximum(first, second)
        who = np.zeros(len(first), dtype=np.intp) if rater is None else rater + 1
        shape = (max(len(rows), 1), max(len(rows), 1), int(who.max(initial=0)) + 1)
        keys, number = _in_order_of_appearance(np.ravel_multi_index((low, high, who), shape))
        outcome = sign * comparisons.margin
        parts = np.column_stack((outcome > 0, outcome < 0, outcome == 0)).astype(np.float64)
        if half_ties:
            parts[:, :2] += 0.5 * parts[:, 2:]
            parts[:, 2] = 0.0
        parts *= comparisons.weight[:, None]
        counts = np.empty((len(keys), 3))
        for column, part in zip(counts.T, parts.T, strict=True):
            column[:] = np.bincount(number, part, len(keys))
        low, high, who = np.unravel_index(keys, shape)
        raters = None if rater is None else who - 1
        return cls(rows, low, high, counts, parts, number, sign, raters)

    @classmethod
    def from_margins(cls, comparisons: Comparisons, rater: Index | None = None) -> PairObservations:
        """Every comparison with its margin and weight, as it was given."""
        rows, first, second = _positions(comparisons.pairs)
        values = np.column_stack((comparisons.margin, comparisons.weight))
        each, sign = np.arange(len(values)), np.ones(len(values))
        return cls(rows, first, second, values, values, each, sign, rater)

    def __len__(self) -> int:
        return len(self.first)


def _positions(pairs: Index) -> tuple[Index, Index, Index]:
    """The distinct rows of pairs, and where the first and the second of each pair are in them."""
    rows, position = _in_order_of_appearance(pairs.ravel())
    return rows, position[::2].copy(), position[1::2].copy()


def _in_order_of_appearance(values: Index) -> tuple[Index, Index]:
    """Distinct values, and for every value its position among them."""
    distinct, where, number = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(where)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return distinct[order].astype(np.intp), rank[number].astype(np.intp)
