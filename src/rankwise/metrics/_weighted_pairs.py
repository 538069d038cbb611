"""Pairs that the scores order correctly, with weights of rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.errors import UndefinedMetricError
from rankwise.graph.query_groups import QueryGroups
from rankwise.metrics.ranked_queries import as_column


def weighted_concordance(y: Any, scores: Any, qid: Any, weights: Array) -> float:
    """The concordance index, where a pair counts the product of the weights of its rows.

    The share of correct pairs is averaged over the queries that have pairs of different labels, all
    with the same weight; rows of weight 0 are left out.

    O(n log n) time for each bit of the number of different labels.

    Examples
    --------
    >>> weighted_concordance([1, 0, 0], [0.5, 0.9, 0.1], None, np.array([1.0, 1.0, 3.0]))
    0.75
    """
    labels, values = as_column(y, "y"), as_column(scores, "scores")
    kept = np.flatnonzero(weights)
    groups = QueryGroups.of(qid, len(labels)).take(kept)
    labels, values, weights, code = labels[kept], values[kept], weights[kept], groups.codes
    weights = weights / np.bincount(code, weights)[code]  # does not change shares
    level, place = (np.unique(column, return_inverse=True)[1] for column in (labels, values))
    correct, total = np.zeros((2, groups.n_groups))
    # Two labels differ first in one bit: each pair is in one block of rows, one on either side.
    for bit in range(int(level.max(initial=0)).bit_length()):
        order = np.lexsort((place, level >> (bit + 1), code))
        query, block, score = code[order], level[order] >> (bit + 1), place[order]
        is_above = (level[order] >> bit) & 1 == 1
        below, above = (np.where(side, weights[order], 0.0) for side in (~is_above, is_above))
        blocks, ties = _Runs.of(query, block), _Runs.of(query, block, score)
        before = np.cumsum(below) - below
        lower = before[ties.start] - before[blocks.start]
        correct += np.bincount(query, above * (lower + 0.5 * ties.sums(below)), groups.n_groups)
        total += np.bincount(query, above * blocks.sums(below), groups.n_groups)
    if not (total > 0).any():
        raise UndefinedMetricError(
            f"The score is not defined for any of the {groups.n_groups} queries: each has only one "
            "row of weight above 0, or only one distinct label. Check y, qid and sample_weight."
        )
    return float((correct[total > 0] / total[total > 0]).mean())


class _Runs(NamedTuple):
    """Runs of rows that have the same values in some columns."""

    starts: Index
    start: Index  # of the run of each row

    @classmethod
    def of(cls, *columns: Index) -> _Runs:
        new = np.ones(len(columns[0]), dtype=bool)
        new[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
        starts = np.flatnonzero(new)
        return cls(starts, np.repeat(starts, np.diff(np.append(starts, len(new)))))

    def sums(self, values: Array) -> Array:
        """The sum over the run of each row."""
        lengths = np.diff(np.append(self.starts, len(values)))
        return np.repeat(np.add.reduceat(values, self.starts), lengths)
