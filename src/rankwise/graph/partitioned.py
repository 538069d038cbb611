"""Queries whose rows lie in several places: what each place must know of the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.arrays import Array, Index
from rankwise.graph.query_graph import QueryGraph, pair_weight
from rankwise.graph.query_groups import QueryGroups

Level = tuple[Any, float]  # a query id and a label; where ties count, a query is a single level 0.0


@dataclass(frozen=True)
class SplitQueries:
    """Rows of each level of those queries that lie in several places, over all places."""

    levels: Mapping[Level, int]

    @classmethod
    def total(cls, places: Sequence[Mapping[Level, int]]) -> SplitQueries:
        """Summed over places."""
        levels: dict[Level, int] = {}
        for place in places:
            for level, n_rows in place.items():
                levels[level] = levels.get(level, 0) + n_rows
        return cls(levels)

    @cached_property
    def n_rows(self) -> dict[Any, int]:
        """Rows of each query."""
        found: dict[Any, int] = {}
        for (query, _), n in self.levels.items():
            found[query] = found.get(query, 0) + n
        return found

    def n_pairs(self, ties: str) -> dict[Any, int]:
        """Pairs of each query that count."""
        found = {query: n * (n - 1) // 2 for query, n in self.n_rows.items()}
        if ties == "exclude":
            for (query, _), n in self.levels.items():
                found[query] -= n * (n - 1) // 2
        return found

    def of(self, queries: set[Any]) -> SplitQueries:
        """Those of some queries only."""
        return SplitQueries({level: n for level, n in self.levels.items() if level[0] in queries})


@dataclass(frozen=True, eq=False, repr=False)
class PartOfGraph(QueryGraph):
    """The rows of a grouped graph that lie in one place.

    Queries that lie here as a whole are as in `QueryGraph`. Of the others, each level is
    centred on its own, with the coefficient that the query has over all places: what is missing
    is the scatter between the means of these parts, which
    `rankwise.solvers.partition_moments` adds.

    Attributes
    ----------
    names : ndarray of shape (n_queries,)
    labels : ndarray of shape (n_levels,)
    query_totals, pair_totals : ndarray of shape (n_queries,)
        Rows and pairs of each query, over all places.
    level_totals : ndarray of shape (n_levels,)
        Rows of each level, over all places.
    split : ndarray of shape (n_queries,)
        Whether a query lies in several places.
    """

    names: NDArray[Any]
    labels: Array
    query_totals: Index
    pair_totals: Index
    level_totals: Index
    split: NDArray[np.bool_]

    @classmethod
    def of(
        cls, y: Any, qid: Any, elsewhere: SplitQueries, *, n_rows: int, ties: str, weighting: str
    ) -> PartOfGraph:
        """The graph of the rows here; `elsewhere` tells of queries that have more."""
        whole = QueryGraph.build(y, qid, n_rows=n_rows, ties=ties, weighting=weighting)
        names = whole.groups.names
        labels = np.zeros(len(whole.level_sizes))
        if ties == "exclude":
            labels = np.asarray(y, dtype=np.float64)[whole.rows[whole.level_ptr[:-1]]]
        query_totals, pair_totals = whole.query_sizes.copy(), whole.pairs_of_query.copy()
        level_totals, split = whole.level_sizes.copy(), np.zeros(len(names), dtype=bool)
        n_pairs = elsewhere.n_pairs(ties)
        for q, name in enumerate(names.tolist()):
            if name not in elsewhere.n_rows:
                continue
            split[q] = True
            query_totals[q], pair_totals[q] = elsewhere.n_rows[name], n_pairs[name]
            for level in range(whole.query_ptr[q], whole.query_ptr[q + 1]):
                level_totals[level] = elsewhere.levels[name, float(labels[level])]
        fields = (whole.n_rows, whole.groups, whole.rows, whole.level_ptr, whole.query_ptr)
        totals = (query_totals, pair_totals, level_totals)
        return cls(*fields, ties, weighting, names, labels, *totals, split)

    @cached_property
    def pairs_of_query(self) -> Index:
        """Pairs that count, of queries that lie here as a whole."""
        return np.where(self.split, 0, self.pair_totals)

    @cached_property
    def pair_weight(self) -> Array:
        weight = pair_weight(self.weighting, self.query_totals, self.pair_totals)
        return np.asarray(weight, dtype=np.float64)

    @cached_property
    def within(self) -> Array:
        others = self.query_totals[self.query_of_level].astype(np.float64)
        if self.ties == "exclude":
            others -= self.level_totals
        return self.pair_weight[self.query_of_level] * others

    @cached_property
    def between(self) -> Array:
        coefficient = self.pair_weight * self.query_totals
        return np.where(self.split & (self.ties == "exclude"), 0.0, coefficient)

    @cached_property
    def split_levels(self) -> Index:
        """Levels of queries that lie in several places."""
        return np.flatnonzero(self.split[self.query_of_level])


def count_levels(y: Any, qid: Any, queries: set[Any], *, ties: str) -> dict[Level, int]:
    """Rows of each level of some queries, in one place."""
    groups = QueryGroups.of(qid, len(y))
    counts: dict[Level, int] = {}
    for k, name in enumerate(groups.names.tolist()):
        if name not in queries:
            continue
        rows = groups.order[groups.indptr[k] : groups.indptr[k + 1]]
        if ties == "include":
            counts[name, 0.0] = len(rows)
            continue
        labels, sizes = np.unique(np.asarray(y, dtype=np.float64)[rows], return_counts=True)
        counts.update(
            {(name, label): n for label, n in zip(labels.tolist(), sizes.tolist(), strict=True)}
        )
    return counts
