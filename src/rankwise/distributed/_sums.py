"""Sums over partitions, and the reduction that combines them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from dask.delayed import delayed

from rankwise.backends.arrays import is_sparse
from rankwise.distributed._partitions import Partition, Partitions
from rankwise.errors import DataError
from rankwise.estimators._scaling import SAMPLE_ROWS, evenly_spaced
from rankwise.graph import QueryGroups
from rankwise.graph.id_arrays import join_ids
from rankwise.problem import Loss, System
from rankwise.problem.blocks import BlockSums, total_of
from rankwise.problem.landmarks import stacked
from rankwise.scaling import ColumnStatistics

FAN_IN = 8  # number of results that one task combines
PARTITION_ROWS = 200  # of each partition, at least, in the sample of rows
MOST_TASKS = 100_000  # to collect the rows of split queries


@dataclass(frozen=True)
class Survey:
    """The sizes of a partition and of its queries, its labels, and statistics of some rows.

    `labels` are the smallest and the largest one.
    """

    n_rows: int
    n_features: int
    outputs: tuple[int, ...]
    queries: dict[Any, int]
    labels: tuple[float, float]
    has_ids: bool
    sparse: bool
    columns: ColumnStatistics | None
    where: str


@dataclass(frozen=True)
class Overview:
    """The surveys of all partitions together.

    `split` maps each query with rows in several partitions to the indices of these partitions, and
    `split_rows` is the number of rows of such queries. `max_query_rows` is the size of the largest
    query, `constant` is whether all labels are equal, and `columns` are statistics of some rows.
    """

    n_rows: list[int]
    n_features: int
    n_queries: int
    max_query_rows: int
    split: dict[Any, list[int]]
    split_rows: int
    constant: bool
    has_ids: bool
    sparse: bool
    columns: ColumnStatistics


def surveyed(partitions: Partitions, run: Callable[..., Any]) -> tuple[Partitions, Overview]:
    """The partitions that have rows, and their overview."""
    sample = max(SAMPLE_ROWS // max(len(partitions), 1), PARTITION_ROWS)
    surveys = run(partitions.map(_survey, sample=sample))
    some = [k for k, one in enumerate(surveys) if one.n_rows]
    if not some:
        raise DataError("There are no rows: all partitions are empty.")
    kept = replace(partitions, delayed=[partitions.delayed[k] for k in some])
    return kept, _overview([surveys[k] for k in some])


def with_whole_queries(partitions: Partitions, overview: Overview) -> Partitions:
    """Partitions of whole queries: the rows of split queries are moved to partitions of their own.

    If rows are sorted by query, only queries at the boundaries of partitions are moved, and often
    all of them to a single partition.
    """
    split = overview.split
    if not split:
        return partitions
    queries = sorted(split, key=lambda query: split[query][0])
    # As large as the other partitions, on average.
    n_new = min(len(queries), -(-overview.split_rows * len(partitions) // sum(overview.n_rows)))
    moves = []  # the queries of each new partition, and the partitions that have rows of them
    for bucket in np.array_split(np.arange(len(queries)), n_new):
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
    join = delayed(_joined, pure=False)
    gathered = []
    for names, sources in moves:
        some = replace(partitions, delayed=[partitions.delayed[k] for k in sources])
        gathered.append(join(some.map(_take_queries, queries=names)))
    return replace(partitions, delayed=[*rest, *gathered])


def partition_sums(
    partition: Partition, system: System, loss: Loss, with_folds: bool, one_ranking: bool
) -> BlockSums | None:
    """The sums of one partition of whole queries, without the system; None if it has no rows."""
    X, y, qid = partition.X, partition.y, partition.qid
    if len(y) == 0:
        return None
    with np.errstate(over="ignore", invalid="ignore"):  # checked below, and by the solver
        sums = BlockSums.of(system, loss, X, y, qid, with_folds=with_folds, one_ranking=one_ranking)
    if not all(np.isfinite(one.A).all() for one in sums.moments):
        partition.checked()
    return replace(sums, system=None, queries=None)


def tree(items: Sequence[Any], join: Callable[[list[Any]], Any]) -> Any:
    """Combine delayed items by a tree in a fixed order, so that results are reproducible."""
    step = delayed(join, pure=False)
    level = list(items)
    while len(level) > 1:
        level = [step(level[k : k + FAN_IN]) for k in range(0, len(level), FAN_IN)]
    return level[0]


def partition_statistics(partition: Partition, scaling: Any) -> ColumnStatistics | None:
    """Statistics of all rows of a partition of whole queries, scaled; None if it has no rows."""
    if len(partition.y) == 0:
        return None
    return ColumnStatistics.of(scaled_partition(partition.checked(), scaling).X)


def scaled_partition(partition: Partition, scaling: Any) -> Partition:
    """A partition with scaled rows; for scalings within queries, it must hold whole queries."""
    if scaling is None or len(partition.y) == 0:
        return partition
    groups = QueryGroups.of(partition.qid, len(partition.y))
    return replace(partition, X=scaling.scale(partition.checked().X, groups))


def _survey(partition: Partition, sample: int) -> Survey:
    groups = QueryGroups.of(partition.qid, len(partition.y))
    sizes = dict(zip(groups.names.tolist(), groups.sizes.tolist(), strict=True))
    shape = len(partition.y), partition.X.shape[1], partition.y.shape[1:]
    labels = partition.y.min(initial=np.inf), partition.y.max(initial=-np.inf)
    columns = None
    if len(partition.y) and partition.X.shape[1]:
        with np.errstate(invalid="ignore"):  # rows that are not finite are refused later
            columns = ColumnStatistics.of(evenly_spaced(partition.X, sample))
    has_ids, sparse = partition.qid is not None, is_sparse(partition.X)
    return Survey(*shape, sizes, labels, has_ids, sparse, columns, partition.where)


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
    first_part: dict[Any, int] = {}
    split: dict[Any, list[int]] = {}
    for k, one in enumerate(surveys):
        for query in one.queries:
            found = first_part.setdefault(query, k)
            if found != k:
                split.setdefault(query, [found]).append(k)
    sizes = [sum(surveys[k].queries[query] for k in parts) for query, parts in split.items()]
    low, high = zip(*(one.labels for one in surveys), strict=True)
    columns = total_of(one.columns for one in surveys)
    assert columns is not None  # partitions without rows were left out
    return Overview(
        [one.n_rows for one in surveys],
        first.n_features,
        len(first_part),
        max([*sizes, *(max(one.queries.values()) for one in surveys)]),
        split,
        sum(sizes),
        min(low) == max(high),
        first.has_ids,
        first.sparse,
        columns,
    )


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
        qid = join_ids([part.qid for part in parts])
    numbers = None
    if parts[0].numbers is not None:
        numbers = np.concatenate([part.numbers for part in parts if part.numbers is not None])
    return Partition(X, y, qid, parts[0].where, numbers=numbers)


def _is_in(partition: Partition, queries: set[Any]) -> Any:
    groups = QueryGroups.of(partition.qid, len(partition.y))
    wanted = np.array([name in queries for name in groups.names.tolist()], dtype=bool)
    return wanted[groups.codes]
