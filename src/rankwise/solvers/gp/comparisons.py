"""Comparisons as counts: one factor for every pair of rows, however often it was compared."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankwise.backends.arrays import Array, Index


@dataclass(frozen=True, eq=False)
class PairCounts:
    """Every pair once, with the weights of its wins, losses and ties.

    Attributes
    ----------
    first, second : ndarray of shape (N,)
        Rows, the smaller number first.
    counts : ndarray of shape (N, 3)
        Wins of `first`, wins of `second`, ties; a tie that is half a win each way is counted
        as that.
    """

    first: Index
    second: Index
    counts: Array

    @classmethod
    def of(
        cls, first: Index, second: Index, outcome: Array, weight: Array, *, half_ties: bool
    ) -> PairCounts:
        """Count outcomes 1 (the first row won), 0 (a tie) and -1; O(N log N)."""
        low, high = np.minimum(first, second), np.maximum(first, second)
        outcome = np.where(first <= second, outcome, -outcome)
        span = int(high.max(initial=0)) + 1
        names, where = np.unique(low * span + high, return_inverse=True)
        counts = np.zeros((len(names), 3))
        for column, chosen in enumerate((outcome > 0, outcome < 0, outcome == 0)):
            counts[:, column] = np.bincount(where, weight * chosen, len(names))
        if half_ties:
            counts[:, :2] += 0.5 * counts[:, 2:]
            counts[:, 2] = 0.0
        kept = counts.sum(axis=1) > 0
        low, high = np.divmod(names[kept], span)
        return cls(low.astype(np.intp), high.astype(np.intp), counts[kept])
