"""What workers do with a part, and how what they find is put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from dask.delayed import delayed
from numpy.typing import NDArray

from rankwise.backends.arrays import Array, Loader, dense_rows
from rankwise.distributed._parts import Part, Parts
from rankwise.errors import DataError
from rankwise.estimators._landmark_choice import stacked
from rankwise.graph import QueryGroups
from rankwise.graph.partitioned import PartOfGraph, SplitQueries, count_levels
from rankwise.solvers.moments import CentredMoments, Moments
from rankwise.solvers.partition_moments import PlaceMoments

FAN_IN = 8  # sums that are added at a time: a tree, so that no one worker gets them all


@dataclass(frozen=True)
class Survey:
    """What a first look at a part tells."""

    n_rows: int
    n_features: int
    outputs: tuple[int, ...]
    queries: frozenset[Any]
    where: str
    edges: list[dict[Any, int]]  # level counts of the first and the last query, for each graph


@dataclass(frozen=True)
class Overview:
    """What the surveys of all parts tell together.

    `split` has the queries of each part that lie in other parts as well.
    """

    n_rows: list[int]
    n_features: int
    outputs: tuple[int, ...]
    n_queries: int
    split: list[set[Any]]
    edges: list[list[dict[Any, int]]]


@dataclass(frozen=True)
class Loss:
    """What a ranker wants to be small: pairs, with or without ties; or errors of rows."""

    pointwise: bool
    ties: str
    weighting: str

    def columns(self, y: Array) -> list[tuple[Array | None, Array]]:
        """Labels that tell ties, and targets, for each graph that there must be."""
        if self.pointwise or self.ties == "include":
            return [(None, y)]
        return [(y, y)] if y.ndim == 1 else [(column, column) for column in y.T]


def survey(part: Part, loss: Loss) -> Survey:
    """Sizes and queries of a part; those at its edges are counted, as they may be split."""
    names = QueryGroups.of(part.qid, len(part.y)).names.tolist()
    edges = level_counts(part, {*names[:1], *names[-1:]}, loss)
    shape = len(part.y), part.X.shape[1], part.y.shape[1:]
    return Survey(*shape, frozenset(names), part.where, edges)


def overview(surveys: Sequence[Survey]) -> Overview:
    """Refuses parts that do not fit together."""
    first = surveys[0]
    if first.n_features == 0:
        raise DataError(f"{first.where}: the rows have no features.")
    for other in surveys[1:]:
        if (other.n_features, other.outputs) != (first.n_features, first.outputs):
            raise DataError(
                f"{other.where} has {other.n_features} features and labels of shape "
                f"{other.outputs}, but {first.where} has {first.n_features} and {first.outputs}."
            )
    seen: set[Any] = set()
    several: set[Any] = set()
    for one in surveys:
        several |= seen & one.queries
        seen |= one.queries
    return Overview(
        [one.n_rows for one in surveys],
        first.n_features,
        first.outputs,
        len(seen),
        [several & one.queries for one in surveys],
        [one.edges for one in surveys],
    )


def level_counts(part: Part, queries: set[Any], loss: Loss) -> list[dict[Any, int]]:
    """Rows of the levels of split queries, for each graph."""
    return [
        count_levels(part.y if labels is None else labels, part.qid, queries, ties=loss.ties)
        for labels, _ in loss.columns(part.y)
    ]


@dataclass(frozen=True)
class FeatureSpace:
    """Rows are their features."""

    n_features: int

    def sums(self, part: Part, graph: PartOfGraph, y: Array) -> PlaceMoments:
        return PlaceMoments.of_features(part.X, graph, y)

    def features(self, X: Any) -> Loader:
        return lambda rows: dense_rows(X, rows)

    def coordinates(self, X: Any) -> Loader:
        """What weights with the norm of the regularizer belong to."""
        return self.features(X)

    def coordinate_moments(self, moments: Moments) -> tuple[Array, Array]:
        """Moments of features as moments of coordinates."""
        return moments.A.copy(), moments.b


@dataclass(frozen=True)
class LandmarkSpace:
    """Rows are their kernel values against landmarks, or coordinates made of these."""

    ranker: Any  # with landmarks, without weights
    basis: Any

    @property
    def n_features(self) -> int:
        return int(self.basis.rank)

    def sums(self, part: Part, graph: PartOfGraph, y: Array) -> PlaceMoments:
        return PlaceMoments.of(self.features(part.X), self.n_features, graph, y)

    def features(self, X: Any) -> Loader:
        return self.ranker._load(self.basis, X)

    def coordinates(self, X: Any) -> Loader:
        load = self.ranker._loader(self.basis, X)
        return lambda rows: self.basis.whiten(load(rows))

    def coordinate_moments(self, moments: Moments) -> tuple[Array, Array]:
        if self.basis.delicate:  # these are of coordinates already
            return moments.A.copy(), moments.b
        return self.basis.whiten_system(moments.A, moments.b)


@dataclass(frozen=True)
class Totals:
    """Sums over some parts, an entry for each graph, and how many pairs of whole queries."""

    moments: list[Any]
    n_pairs: list[int]

    def __add__(self, other: Totals) -> Totals:
        moments = [a + b for a, b in zip(self.moments, other.moments, strict=True)]
        n_pairs = [a + b for a, b in zip(self.n_pairs, other.n_pairs, strict=True)]
        return Totals(moments, n_pairs)


def part_totals(part: Part, split: list[SplitQueries], space: Any, loss: Loss) -> Totals:
    """The sums of one part."""
    if loss.pointwise:
        load = space.features(part.X)
        with np.errstate(over="ignore", invalid="ignore"):  # said below, or by the solver
            centred = CentredMoments.of_blocks(load, space.n_features, part.y)
        return _explained(part, Totals([centred], [0]), [centred.A])
    moments, n_pairs = [], []
    for (labels, targets), elsewhere in zip(loss.columns(part.y), split, strict=True):
        graph = part_graph(part, labels, elsewhere, loss)
        with np.errstate(over="ignore", invalid="ignore"):  # said when the system is solved
            moments.append(space.sums(part, graph, targets))
        n_pairs.append(graph.n_pairs)
    return _explained(part, Totals(moments, n_pairs), [one.moments.A for one in moments])


def _explained(part: Part, totals: Totals, products: list[Array]) -> Totals:
    """Sums that are numbers, or large; where a feature is none, an error that names its row."""
    if not all(np.isfinite(A).all() for A in products):
        part.checked()
    return totals


def part_graph(
    part: Part, labels: Array | None, elsewhere: SplitQueries, loss: Loss
) -> PartOfGraph:
    return PartOfGraph.of(
        labels, part.qid, elsewhere, n_rows=len(part.y), ties=loss.ties, weighting=loss.weighting
    )


def tree(items: Sequence[Any], join: Callable[[list[Any]], Any]) -> Any:
    """Delayed items joined by a tree, in their order: the sum does not depend on who is first."""
    step = delayed(join, pure=False)
    level = list(items)
    while len(level) > 1:
        level = [step(level[k : k + FAN_IN]) for k in range(0, len(level), FAN_IN)]
    return level[0]


def take_rows(part: Part, rows: Any) -> Any:
    return part.checked().X[rows]


def take_queries(part: Part, queries: set[Any]) -> Part | None:
    """The rows of some queries."""
    return _rows_of(part, _is_in(part, queries))


def without_queries(part: Part, queries: set[Any]) -> Part | None:
    """The rows of the other queries."""
    return _rows_of(part, ~_is_in(part, queries)) if queries else part


def joined_parts(parts: list[Part | None]) -> Part:
    """Rows of several parts as one."""
    some = [part for part in parts if part is not None]
    X, y = stacked([part.X for part in some]), np.concatenate([part.y for part in some])
    qid = np.concatenate([np.asarray(part.qid) for part in some])
    return Part(X, y, qid, some[0].where)


def _is_in(part: Part, queries: set[Any]) -> NDArray[np.bool_]:
    groups = QueryGroups.of(part.qid, len(part.y))
    wanted = np.array([name in queries for name in groups.names.tolist()], dtype=bool)
    return wanted[groups.codes]


def _rows_of(part: Part, mask: NDArray[np.bool_]) -> Part | None:
    if not mask.any():
        return None
    qid = None if part.qid is None else np.asarray(part.qid)[mask]
    return Part(part.X[np.flatnonzero(mask)], part.y[mask], qid, part.where)


def surveyed(parts: Parts, loss: Loss, run: Callable[..., Any]) -> tuple[Parts, Overview]:
    """The parts that have rows, and what a first look at them tells."""
    surveys = run(parts.map(survey, loss=loss))
    some = [k for k, one in enumerate(surveys) if one.n_rows]
    if not some:
        raise DataError("There are no rows: all partitions are empty.")
    kept = replace(parts, delayed=[parts.delayed[k] for k in some])
    return kept, overview([surveys[k] for k in some])
