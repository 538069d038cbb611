"""From pairs or scores to the observations of a pairwise Gaussian process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.errors import DataError
from rankwise.estimators.gp.process import Observations
from rankwise.graph import PreferenceGraph
from rankwise.graph.comparison_graph import ComparisonGraph
from rankwise.solvers.gp.comparisons import PairCounts


@dataclass(frozen=True, eq=False)
class Comparisons:
    """Comparisons between training rows, as they were given.

    Attributes
    ----------
    pairs : ndarray of shape (n_comparisons, 2)
    margin : ndarray of shape (n_comparisons,)
        Of a probit model: 1, 0 (a tie) or -1.
    weight : ndarray of shape (n_comparisons,)
    """

    pairs: Index
    margin: Array
    weight: Array

    @classmethod
    def given(
        cls, n_rows: int, pairs: Any, margin: Any, weight: Any, likelihood: str
    ) -> Comparisons:
        """Check what a user gives; no comparison at all is fine."""
        if np.shape(pairs) in ((0,), (0, 2)):
            for name, values in (("margin", margin), ("weight", weight)):
                if values is not None and np.size(values):
                    shape = np.shape(values)
                    raise DataError(f"{name} needs one entry per pair: got {shape} for 0 pairs.")
            return cls(np.zeros((0, 2), np.intp), np.zeros(0), np.zeros(0))
        graph = ComparisonGraph.build(n_rows, pairs, margin, weight)
        if graph.margin.ndim > 1:
            raise DataError(
                f"margin needs one number per pair: got shape {graph.margin.shape}. "
                "A Gaussian process has one output; fit one for each."
            )
        if likelihood == "probit" and not np.isin(graph.margin, (-1.0, 0.0, 1.0)).all():
            k = int(np.argmin(np.isin(graph.margin, (-1.0, 0.0, 1.0))))
            raise DataError(
                "The probit likelihood knows who won, not by how much: margin must be 1, 0 (a "
                f"tie) or -1, and entry {k} is {graph.margin[k]:g}. Use numpy.sign(margin), or "
                'likelihood="gaussian".'
            )
        counted = graph.weight > 0
        chosen = np.column_stack((graph.first, graph.second))[counted]
        return cls(chosen, graph.margin[counted], graph.weight[counted])

    @classmethod
    def of_scores(
        cls, y: Array, qid: Any, likelihood: str, max_pairs: int, rng: np.random.Generator
    ) -> Comparisons:
        """All pairs of rows of a query, or `max_pairs` of them drawn at random."""
        graph = PreferenceGraph.from_groups(qid, n_rows=len(y))
        total = graph.n_pairs
        drawn = None
        if total > max_pairs:
            drawn = np.sort(rng.choice(total, max_pairs, replace=False))
        blocks, seen = [], 0
        for first, second, _ in graph.pairs():
            block = np.column_stack((first, second))
            if drawn is not None:
                low, high = np.searchsorted(drawn, (seen, seen + len(block)))
                block = block[drawn[low:high] - seen]
                seen += len(first)
            blocks.append(block)
        pairs = np.concatenate(blocks) if blocks else np.zeros((0, 2), np.intp)
        gap = y[pairs[:, 0]] - y[pairs[:, 1]]
        margin = np.sign(gap) if likelihood == "probit" else gap
        return cls(pairs.astype(np.intp), margin, np.ones(len(pairs)))

    def __iter__(self) -> Iterator[Comparisons]:
        for k in range(len(self.pairs)):
            one = slice(k, k + 1)
            yield Comparisons(self.pairs[one], self.margin[one], self.weight[one])

    def __add__(self, other: Comparisons) -> Comparisons:
        return Comparisons(
            np.vstack((self.pairs, other.pairs)),
            np.concatenate((self.margin, other.margin)),
            np.concatenate((self.weight, other.weight)),
        )

    def observations(self, likelihood: str, half_ties: bool) -> Observations:
        """Of rows as they are numbered here; a pair of a probit model once, with its counts."""
        first, second = self.pairs[:, 0].copy(), self.pairs[:, 1].copy()
        if likelihood == "gaussian":
            return Observations(first, second, margin=self.margin, weight=self.weight)
        merged = PairCounts.of(first, second, self.margin, self.weight, half_ties=half_ties)
        return Observations(merged.first, merged.second, counts=merged.counts)
