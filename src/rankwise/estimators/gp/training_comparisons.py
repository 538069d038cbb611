"""The comparisons that a Gaussian process learns from: given by the user, or made of scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwise.backends.arrays import Array
from rankwise.errors import DataError
from rankwise.graph import PreferenceGraph
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
    graph: PreferenceGraph, y: Array, likelihood: str, max_pairs: int, rng: np.random.Generator
) -> Comparisons:
    """All pairs of a graph, or `max_pairs` of them drawn at random, compared by score."""
    drawn = None
    if graph.n_pairs > max_pairs:
        drawn = np.sort(rng.choice(graph.n_pairs, max_pairs, replace=False))
    blocks, seen = [np.zeros((0, 2), dtype=np.intp)], 0
    for first, second, _ in graph.pairs():
        block = np.column_stack((first, second))
        if drawn is not None:
            low, high = np.searchsorted(drawn, (seen, seen + len(block)))
            block = block[drawn[low:high] - seen]
            seen += len(first)
        blocks.append(block)
    pairs = np.concatenate(blocks).astype(np.intp)
    gap = y[pairs[:, 0]] - y[pairs[:, 1]]
    margin = np.sign(gap) if likelihood == "probit" else gap
    return Comparisons(pairs, margin, np.ones(len(pairs)))
