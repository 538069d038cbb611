"""Moments of rows that lie in several places, queries split between these included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, Index, Loader, Rows, dense_rows, is_sparse
from rankwise.graph.partitioned import Level, PartOfGraph, SplitQueries
from rankwise.graph.query_graph import indicator, pair_weight
from rankwise.solvers.moments import Moments


@dataclass(frozen=True)
class PartMeans:
    """Means of features and targets over those rows of a level that lie in one place."""

    level: Level
    n_rows: int
    F: Array
    t: Array


@dataclass(frozen=True)
class PlaceMoments:
    """Moments of the rows of some places, and what is left to be added for split queries.

    Those of two sets of places add up; `settled` is their end.
    """

    moments: Moments
    means: tuple[PartMeans, ...]

    @classmethod
    def of(cls, load: Loader, n_features: int, graph: PartOfGraph, y: Array) -> PlaceMoments:
        """Moments of features that are made block by block, each once: O(m n^2) time."""
        levels = graph.split_levels
        number = np.full(len(graph.level_sizes), -1, dtype=np.intp)
        number[levels] = np.arange(len(levels))
        sums = np.zeros((len(levels), n_features))

        def load_and_sum(rows: Rows) -> Array:
            F = load(rows)
            split = number[graph.level_of_row[rows]]
            some = split >= 0
            if some.any():
                present, code = np.unique(split[some], return_inverse=True)
                sums[present] += indicator(code, len(present)).T @ F[some]
            return F

        watched = load_and_sum if len(levels) else load
        moments = Moments.of_blocks(watched, n_features, graph, y)
        return cls(moments, _means(graph, sums, y))

    @classmethod
    def of_sparse(cls, X: Any, graph: PartOfGraph, y: Array) -> PlaceMoments:
        """Moments of sparse features, which stay sparse."""
        sums = np.empty((len(graph.split_levels), X.shape[1]))
        for k, level in enumerate(graph.split_levels):
            sums[k] = np.asarray(X[_rows(graph, level)].sum(axis=0)).ravel()
        return cls(Moments.of(X, graph, y), _means(graph, sums, y))

    @classmethod
    def of_features(cls, X: Any, graph: PartOfGraph, y: Array) -> PlaceMoments:
        """Moments of features in memory, dense or sparse."""
        if is_sparse(X):
            return cls.of_sparse(X, graph, y)
        return cls.of(lambda rows: dense_rows(X, rows), X.shape[1], graph, y)

    def __add__(self, other: PlaceMoments) -> PlaceMoments:
        return PlaceMoments(self.moments + other.moments, self.means + other.means)

    def settled(self, split: SplitQueries, *, ties: str, weighting: str) -> Moments:
        """The moments of all rows: those of places, and the scatter between parts of queries.

        A level of a query with parts p of n_p rows has, beside the scatter within its parts,
        sum_p n_p (mean_p - mean_l)(mean_p - mean_l)', with the coefficient of rows of a level;
        and levels of a query have sum_l n_l (mean_l - mean)(mean_l - mean)', with that of levels.
        """
        if not self.means:
            return self.moments
        names = list(split.levels)
        code = {level: k for k, level in enumerate(names)}
        queries = {query: k for k, query in enumerate(split.n_rows)}
        level = np.array([code[part.level] for part in self.means])
        query = np.array([queries[name] for name, _ in names])
        n_rows = np.array(list(split.n_rows.values()))
        n_pairs = np.array(list(split.n_pairs(ties).values()))
        weight = pair_weight(weighting, n_rows, n_pairs)
        sizes = np.array([part.n_rows for part in self.means], dtype=np.float64)
        level_sizes = np.array(list(split.levels.values()), dtype=np.float64)
        partners = n_rows[query] - (level_sizes if ties == "exclude" else 0.0)
        within = (weight[query] * partners)[level]
        between = (weight * n_rows)[query]
        rows = []
        for values in (
            np.array([part.F for part in self.means]),
            np.array([part.t for part in self.means]),
        ):
            flat = values.reshape(len(values), -1)
            of_level = _averages(flat, sizes, level, len(names))
            of_query = _averages(of_level, level_sizes, query, len(queries))
            Z = np.concatenate(
                (
                    np.sqrt(within * sizes)[:, None] * (flat - of_level[level]),
                    np.sqrt(between * level_sizes)[:, None] * (of_level - of_query[query]),
                )
            )
            rows.append(Z.reshape(len(Z), *values.shape[1:]))
        return self.moments + Moments.of_root_blocks([(rows[0], rows[1])], rows[0].shape[1])


def added(parts: Sequence[Any]) -> Any:
    """The sum of some, in their order."""
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _means(graph: PartOfGraph, sums: Array, y: Array) -> tuple[PartMeans, ...]:
    found = []
    for k, level in enumerate(graph.split_levels):
        rows = _rows(graph, level)
        name = graph.names[graph.query_of_level[level]]
        name = name.item() if isinstance(name, np.generic) else name
        key = (name, float(graph.labels[level]))
        found.append(
            PartMeans(key, len(rows), sums[k] / len(rows), np.asarray(y[rows].mean(axis=0)))
        )
    return tuple(found)


def _rows(graph: PartOfGraph, level: int) -> Index:
    """Rows of a level that lie here."""
    return graph.rows[graph.level_ptr[level] : graph.level_ptr[level + 1]]


def _averages(values: Array, sizes: Array, group: Index, n_groups: int) -> Array:
    """Means of groups of rows that stand for so many each."""
    total = indicator(group, n_groups).T @ (sizes[:, None] * values)
    return np.asarray(total) / np.bincount(group, sizes, minlength=n_groups)[:, None]
