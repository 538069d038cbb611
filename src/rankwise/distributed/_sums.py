"""Sums over partitions, and the reduction that combines them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from dask.delayed import delayed

from rankwise.distributed._partitions import Partition, Partitions
from rankwise.errors import DataError
from rankwise.estimators._landmark_choice import stacked
from rankwise.graph import QueryGroups
from rankwise.problem import Loss, System
from rankwise.problem.fold_sums import Folds, add_folds, fold_loss, fold_sums

FAN_IN = 8  # number of results that one task combines
MOST_TASKS = 100_000  # to collect the rows of split queries


@dataclass(frozen=True)
class Survey:
    """The sizes, the query ids, and the smallest and largest label of a partition."""

    n_rows: int
    n_features: int
    outputs: tuple[int, ...]
    queries: frozenset[Any]
    labels: tuple[float, float]
    where: str


@dataclass(frozen=True)
class Overview:
    """The surveys of all partitions together.

    `split` maps each query with rows in several partitions to the indices of these partitions.
    `constant` is whether all labels are equal.
    """

    n_rows: list[int]
    n_features: int
    n_queries: int
    split: dict[Any, list[int]]
    constant: bool


@dataclass(frozen=True)
class Totals:
    """Moments and numbers of pairs over some partitions, one entry for each task.

    `folds` are the sums of folds of whole queries; None if alpha is not chosen.
    """

    moments: list[Any]
    n_pairs: list[int]
    folds: Folds | None = None

    def __add__(self, other: Totals) -> Totals:
        moments = [a + b for a, b in zip(self.moments, other.moments, strict=True)]
        n_pairs = [a + b for a, b in zip(self.n_pairs, other.n_pairs, strict=True)]
        folds = None
        if self.folds is not None and other.folds is not None:
            folds = add_folds(self.folds, other.folds)
        return Totals(moments, n_pairs, folds)


def surveyed(partitions: Partitions, run: Callable[..., Any]) -> tuple[Partitions, Overview]:
    """The partitions that have rows, and their overview."""
    surveys = run(partitions.map(_survey))
    some = [k for k, one in enumerate(surveys) if one.n_rows]
    if not some:
        raise DataError("There are no rows: all partitions are empty.")
    kept = replace(partitions, delayed=[partitions.delayed[k] for k in some])
    return kept, _overview([surveys[k] for k in some])


def with_whole_queries(partitions: Partitions, split: dict[Any, list[int]]) -> Partitions:
    """Partitions of whole queries: the rows of each split query are moved to one partition.

    If rows are sorted by query, only queries at the boundaries of partitions are moved.
    """
    if not split:
        return partitions
    queries = sorted(split, key=lambda query: split[query][0])
    buckets = [list(part) for part in np.array_split(np.arange(len(queries)), len(partitions))]
    moves = []  # the queries of each bucket, and the partitions that have rows of them
    for bucket in buckets:
        if bucket:
            names = {queries[k] for k in bucket}
            moves.append((names, sorted({k for name in names for k in split[name]})))
    if sum(len(sources) for _, sources in moves) > MOST_TASKS:
        raise DataError(
            f"Too many queries ({len(queries)}) have rows in several of the {len(partitions)} "
            "partitions. Sort the rows by query, or use fewer partitions."
        )
    moving: list[set[Any]] = [set() for _ in range(len(partitions))]
    for query, sources in split.items():
        for k in sources:
            moving[k].add(query)
    rest = partitions.map(_without_queries, moving)
    take, join = delayed(_take_queries, pure=False), delayed(_joined, pure=False)
    gathered = [
        join([take(partitions.delayed[k], names) for k in sources]) for names, sources in moves
    ]
    return replace(partitions, delayed=[*rest, *gathered])


def partition_totals(
    partition: Partition, system: System, loss: Loss, with_folds: bool, one_ranking: bool
) -> Totals | None:
    """The sums of one partition of whole queries; None if it has no rows."""
    if len(partition.y) == 0:
        return None
    tasks = loss.tasks(partition.y, partition.qid)
    with np.errstate(over="ignore", invalid="ignore"):  # checked below, and by the solver
        moments = [system.moments(partition.X, task, loss) for task in tasks]
    if not all(np.isfinite(one.A).all() for one in moments):
        partition.checked()
    n_rows = len(partition.y)
    n_pairs = [n_rows if loss.has_intercept else task.n_learnable for task in tasks]
    folds = None
    additive = fold_loss(loss, one_ranking=one_ranking)
    if with_folds and additive is not None:
        qid = None if one_ranking else partition.qid
        folds = fold_sums(system, additive, partition.X, partition.y, qid)
    return Totals(moments, n_pairs, folds)


def tree(items: Sequence[Any], join: Callable[[list[Any]], Any]) -> Any:
    """Combine delayed items by a tree in a fixed order, so that results are reproducible."""
    step = delayed(join, pure=False)
    level = list(items)
    while len(level) > 1:
        level = [step(level[k : k + FAN_IN]) for k in range(0, len(level), FAN_IN)]
    return level[0]


def added(totals: Sequence[Totals | None]) -> Totals | None:
    """The sum of totals, in their order; None if all are None."""
    total = None
    for one in totals:
        total = one if total is None else total if one is None else total + one
    return total


def _survey(partition: Partition) -> Survey:
    names = QueryGroups.of(partition.qid, len(partition.y)).names.tolist()
    shape = len(partition.y), partition.X.shape[1], partition.y.shape[1:]
    labels = partition.y.min(initial=np.inf), partition.y.max(initial=-np.inf)
    return Survey(*shape, frozenset(names), labels, partition.where)


def _overview(surveys: Sequence[Survey]) -> Overview:
    """Combine surveys; raise an error if partitions differ in their features or outputs."""
    first = surveys[0]
    if first.n_features == 0:
        raise DataError(f"{first.where}: the rows have no features.")
    for other in surveys[1:]:
        if (other.n_features, other.outputs) != (first.n_features, first.outputs):
            raise DataError(
                f"{other.where} has {other.n_features} features and labels of shape "
                f"{other.outputs}, but {first.where} has {first.n_features} and {first.outputs}."
            )
    sources: dict[Any, list[int]] = {}
    for k, one in enumerate(surveys):
        for query in one.queries:
            sources.setdefault(query, []).append(k)
    split = {query: found for query, found in sources.items() if len(found) > 1}
    low, high = zip(*(one.labels for one in surveys), strict=True)
    n_rows, constant = [one.n_rows for one in surveys], min(low) == max(high)
    return Overview(n_rows, first.n_features, len(sources), split, constant)


def _without_queries(partition: Partition, queries: set[Any]) -> Partition:
    return partition.take(np.flatnonzero(~_is_in(partition, queries))) if queries else partition


def _take_queries(partition: Partition, queries: set[Any]) -> Partition:
    return partition.take(np.flatnonzero(_is_in(partition, queries)))


def _joined(parts: list[Partition]) -> Partition:
    """Concatenate partitions, each of which is checked first, while errors can name its rows."""
    X = stacked([part.checked().X for part in parts])
    y = np.concatenate([part.y for part in parts])
    qid = None
    if parts[0].qid is not None:
        qid = np.concatenate([np.asarray(part.qid) for part in parts])
    return Partition(X, y, qid, parts[0].where)


def _is_in(partition: Partition, queries: set[Any]) -> Any:
    groups = QueryGroups.of(partition.qid, len(partition.y))
    wanted = np.array([name in queries for name in groups.names.tolist()], dtype=bool)
    return wanted[groups.codes]
