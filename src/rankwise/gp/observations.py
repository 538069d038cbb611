"""Comparisons in the form that inference takes: what was observed of each pair of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.errors import DataError
from rankwise.graph import QueryGroups
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


def check_comparisons(
    X: Any, n_rows: int, pairs: Any, margin: Any, weight: Any, context: Any, likelihood: str
) -> Comparisons:
    """Check comparisons of the rows of X for a likelihood; there may be none."""
    given = Comparisons.given(
        X, n_rows, pairs, margin=margin, weight=weight, context=context, allow_empty=True
    )
    if given.margin.ndim > 1:
        raise DataError(
            f"margin needs one number per pair: got shape {given.margin.shape}. "
            "A Gaussian process has one output: fit one for each column."
        )
    is_outcome = np.isin(given.margin, (-1.0, 0.0, 1.0))
    if likelihood == "probit" and not is_outcome.all():
        k = int(np.argmin(is_outcome))
        raise DataError(
            "The probit likelihood models who won, not by how much: margin must be 1, 0 (a tie) "
            f"or -1, but entry {k} is {given.margin[k]:g}. Use numpy.sign(margin), or "
            'likelihood="gaussian".'
        )
    return given


def comparisons_of_scores(
    groups: QueryGroups, y: Array, likelihood: str, max_pairs: int, rng: np.random.Generator
) -> Comparisons:
    """All pairs of rows of a query, or `max_pairs` of them drawn at random, compared by score."""
    ends = np.cumsum(groups.sizes * (groups.sizes - 1) // 2)
    n_pairs = int(ends[-1])
    if n_pairs > max_pairs:
        chosen = np.sort(rng.choice(n_pairs, max_pairs, replace=False))
    else:
        chosen = np.arange(n_pairs)
    query = np.searchsorted(ends, chosen, side="right")
    begins = np.concatenate(([0], ends[:-1]))
    i, j = _pair_of_number(chosen - begins[query], groups.sizes[query])
    both = groups.order[groups.indptr[query][:, None] + np.column_stack((i, j))]
    pairs = np.sort(both, axis=1)
    gap = y[pairs[:, 0]] - y[pairs[:, 1]]
    margin = np.sign(gap) if likelihood == "probit" else gap
    return Comparisons(pairs, margin, np.ones(len(pairs)))


def _pair_of_number(number: Index, n: Index) -> tuple[Index, Index]:
    """The pair i < j of that number in (0, 1), (0, 2), ..., (0, n - 1), (1, 2), ..."""
    half = n - 0.5
    i = np.floor(half - np.sqrt(np.maximum(half**2 - 2.0 * number, 0.0))).astype(np.intp)
    i += (i + 1) * (2 * n - i - 2) // 2 <= number  # where the root was rounded
    i -= i * (2 * n - i - 1) // 2 > number
    return i, number - i * (2 * n - i - 1) // 2 + i + 1
