"""The comparisons that a Gaussian process learns from: given by the user, or made of scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.errors import DataError
from rankwise.graph import QueryGroups
from rankwise.graph.comparisons import Comparisons


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
