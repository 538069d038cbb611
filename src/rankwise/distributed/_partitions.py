"""Partitions of Dask collections and files, and the sums over them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from glob import glob
from pathlib import Path
from typing import Any

import numpy as np
from dask.base import is_dask_collection
from dask.delayed import Delayed, delayed
from scipy.sparse import coo_array

from rankwise.backends.arrays import Array, Index, as_slice, is_sparse
from rankwise.errors import DataError, LetorFormatError
from rankwise.estimators.ranker_rows import SAMPLE_ROWS, evenly_spaced
from rankwise.graph import QueryGroups
from rankwise.graph.query_groups import check_ids, is_number, join_ids
from rankwise.problem import Loss, System
from rankwise.problem.block_sums import BlockSums, rows_of, total_of
from rankwise.problem.landmarks import stacked
from rankwise.scaling import ColumnStatistics

SPAN_BYTES = 64 * 2**20  # approximate size of LETOR text in a partition


@dataclass(frozen=True)
class Partition:
    """Rows that one worker processes at a time.

    `where` is the name of the partition (or its file) in error messages, `first_row` is the number
    of its first row there, and `rows` are the rows that were selected from it (None for all).
    `numbers` are the numbers of its rows among all partitions' rows, where they are needed.
    """

    X: Any
    y: Array
    qid: Any
    where: str
    first_row: int = 0
    rows: Index | None = None
    numbers: Index | None = None

    @property
    def groups(self) -> QueryGroups:
        """The rows by query."""
        return QueryGroups.of(self.qid, len(self.y))

    def take(self, rows: Index) -> Partition:
        """Some of the rows, as a view if they are consecutive."""
        where = as_slice(rows)
        qid = None if self.qid is None else self.qid[where]
        selected = rows if self.rows is None else self.rows[rows]
        numbers = None if self.numbers is None else self.numbers[rows]
        return replace(
            self, X=self.X[where], y=self.y[where], qid=qid, rows=selected, numbers=numbers
        )

    def checked(self) -> Partition:
        """The partition itself; raise an error that names the first non-finite feature."""
        if np.isfinite(self.X.data if is_sparse(self.X) else self.X).all():
            return self
        cells = coo_array(self.X)
        first = int(np.argmax(~np.isfinite(cells.data)))
        row, column = (int(numbers[first]) for numbers in cells.coords)
        row = row if self.rows is None else int(self.rows[row])
        raise _missing(self.where, self.first_row + row, f"feature {column}")


@dataclass(frozen=True)
class Partitions:
    """All rows, as delayed `Partition` objects, and the names of features.

    `shape` is the number of rows and features, or None if it is unknown. `moved`: whether rows are
    numbered, since they were moved between partitions. `has_ids`, for LETOR files: whether there
    are query ids.
    """

    delayed: Sequence[Delayed]
    feature_names: list[str] | None = None
    shape: tuple[int, int] | None = None
    moved: bool = False
    has_ids: bool = True

    def __len__(self) -> int:
        return len(self.delayed)

    def numbered(self, n_rows: Sequence[int]) -> Partitions:
        """The same partitions, with `numbers`; `n_rows` are their sizes."""
        first = np.cumsum([0, *n_rows[:-1]])
        return replace(self, delayed=self.map(_numbered, first.tolist()), moved=True)

    def map(self, function: Callable[..., Any], *columns: Sequence[Any], **same: Any) -> list[Any]:
        """``function(partition, entry of each column, **same)`` for each partition, delayed."""
        later = {name: value for name, value in same.items() if is_dask_collection(value)}
        # Plain values are bound by `partial`, since Dask would traverse them for every partition.
        now = {name: value for name, value in same.items() if name not in later}
        task = delayed(partial(function, **now), pure=False)
        rows = zip(self.delayed, *columns, strict=True)
        return [task(*row, **later) for row in rows]


def _numbered(partition: Partition, first: int) -> Partition:
    return replace(partition, numbers=np.arange(first, first + len(partition.y)))


def open_partitions(
    data: Any,
    label: str | None,
    qid: str | None,
    n_features: int | None,
    run: Callable[[Sequence[Any]], list[Any]],
) -> Partitions:
    """The partitions of any kind of data that `fit` accepts; `run` computes delayed tasks."""
    if isinstance(data, Partitions):  # of the command line, which has opened them to check them
        return data
    if isinstance(data, tuple):
        return _of_arrays(data)
    if hasattr(data, "to_delayed") and hasattr(data, "columns"):
        return _of_frame(data, label, qid)
    if isinstance(data, (str, os.PathLike)):
        return _of_files(_files_at(os.fspath(data)), label, qid, n_features, run)
    if isinstance(data, list) and data and all(isinstance(f, (str, os.PathLike)) for f in data):
        return _of_files([os.fspath(file) for file in data], label, qid, n_features, run)
    raise DataError(
        "data must be a tuple (X, y, qid) of Dask arrays, a Dask data frame, a folder or pattern "
        f"of Parquet or LETOR files, or a list of such files: got {type(data).__name__}."
    )


def _of_arrays(data: tuple[Any, ...]) -> Partitions:
    X, y, qid = (*data, *(None,) * 3)[:3]
    given = [X, y] if qid is None else [X, y, qid]
    if len(data) > 3 or not all(hasattr(a, "chunks") for a in given):
        raise DataError("data must be (X, y) or (X, y, qid), all of them Dask arrays.")
    if X.ndim != 2:
        raise DataError(f"X must have two dimensions: got {X.ndim}.")
    if y.ndim not in (1, 2) or (y.ndim == 2 and y.shape[1] == 0):
        raise DataError(f"y must have shape (n_rows,) or (n_rows, n_outputs): got shape {y.shape}.")
    if X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    aligned = [a if a is None or a.chunks[0] == X.chunks[0] else _like(a, X) for a in (y, qid)]
    y, qid = (a if a is None or a.ndim == 1 else a.rechunk({1: -1}) for a in aligned)
    blocks = X.to_delayed().ravel()
    labels = y.to_delayed().ravel()
    ids = [None] * len(blocks) if qid is None else qid.to_delayed().ravel()
    make = delayed(_checked, pure=False)
    return Partitions(
        [
            make(*block, f"Partition {k}")
            for k, block in enumerate(zip(blocks, labels, ids, strict=True))
        ]
    )


def _like(array: Any, X: Any) -> Any:
    """`array` in the chunks of X."""
    if array.shape[0] != X.shape[0] and not np.isnan(array.shape[0] + X.shape[0]):
        raise DataError(
            f"All arrays must have the same number of rows: got {array.shape[0]}, but X has "
            f"{X.shape[0]}."
        )
    if np.isnan(sum((*X.chunks[0], *array.chunks[0]))):
        raise DataError(
            "The arrays have chunks of unknown and different lengths: call compute_chunk_sizes() "
            "on them first."
        )
    return array.rechunk({0: X.chunks[0]})


def _of_frame(frame: Any, label: str | None, qid: str | None) -> Partitions:
    columns = list(frame.columns)
    names = _feature_names(columns, label, qid, "The data frame")
    make = delayed(_from_frame, pure=False)
    parts = frame.to_delayed()
    # Like scikit-learn, keep names only if all of them are strings.
    known = names if all(isinstance(name, str) for name in names) else None
    return Partitions(
        [make(part, names, label, qid, f"Partition {k}") for k, part in enumerate(parts)], known
    )


def _feature_names(columns: list[Any], label: str | None, qid: str | None, whose: str) -> list[str]:
    twice = [name for name, n in Counter(columns).items() if n > 1]
    if twice:
        raise DataError(f"{whose} has several columns named {twice[0]!r}: rename them.")
    if label is not None and label == qid:
        raise DataError(f"label and qid are both {label!r}: they must be different columns.")
    for role, name in (("label", label), ("qid", qid)):
        if name is not None and name not in columns:
            raise DataError(
                f"{whose} has no column {name!r} for {role}={name!r}: its columns are "
                f"{', '.join(map(str, columns))}."
            )
    return [name for name in columns if name not in (label, qid)]


def _from_frame(
    frame: Any, names: list[str], label: str | None, qid: str | None, where: str
) -> Partition:
    X = frame[names].to_numpy()
    y = np.zeros(len(frame)) if label is None else frame[label].to_numpy()
    return _checked(X, y, None if qid is None else frame[qid].to_numpy(), where)


def _files_at(path: str) -> list[str]:
    """The files of a folder or glob pattern, or a single file."""
    if Path(path).is_dir():
        found = [str(p) for p in Path(path).iterdir() if p.is_file() and p.name[0] not in "._"]
        if not found:
            raise DataError(
                f"{path}: no files in this folder. If they are in subfolders, pass a glob pattern "
                "or the result of dask.dataframe.read_parquet."
            )
    else:
        found = [path] if Path(path).exists() else glob(path)
    if not found:
        raise DataError(f"{path}: no such file, and no file matches it as a pattern.")
    return sorted(found)


def _of_files(
    files: list[str], label: str | None, qid: str | None, n_features: int | None, run: Any
) -> Partitions:
    parquet = [file.endswith((".parquet", ".pq")) for file in files]
    if any(parquet) and not all(parquet):
        raise DataError("Files must be all Parquet or all LETOR: got both.")
    return _of_parquet(files, label, qid) if all(parquet) else _of_letor(files, n_features, run)


def _of_parquet(files: list[str], label: str | None, qid: str | None) -> Partitions:
    import pyarrow.parquet as pq
    from pyarrow import ArrowInvalid

    first: list[str] | None = None
    read, parts = delayed(_read_parquet, pure=False), []
    for file in files:
        try:
            opened = pq.ParquetFile(file)
        except ArrowInvalid as error:
            raise DataError(f"{file}: this is not a Parquet file. {error}.") from error
        index = (opened.schema_arrow.pandas_metadata or {}).get("index_columns", [])
        columns = [name for name in opened.schema_arrow.names if name not in index]
        names = _feature_names(columns, label, qid, file)
        first = first or names
        if set(names) != set(first):
            other = sorted(set(names) ^ set(first))
            raise DataError(
                f"All files must have the same columns: {file} and {files[0]} differ in "
                f"{', '.join(other)}."
            )
        row = 0
        for group in range(opened.num_row_groups):
            parts.append(read(file, group, first, label, qid, row))
            row += opened.metadata.row_group(group).num_rows
    return Partitions(parts, first)


def _read_parquet(
    file: str, group: int, names: list[str], label: str | None, qid: str | None, first_row: int
) -> Partition:
    import pyarrow.parquet as pq

    table = pq.ParquetFile(file).read_row_group(group)
    X = np.empty((table.num_rows, len(names)))
    for k, name in enumerate(names):
        X[:, k] = _numbers(table[name].to_numpy(), file, first_row, f"feature {name!r}")
    y = np.zeros(len(X)) if label is None else table[label].to_numpy()
    ids = None if qid is None else table[qid].to_numpy()
    return _checked(X, y, ids, file, first_row)


def _of_letor(files: list[str], n_features: int | None, run: Any) -> Partitions:
    from rankwise.data.letor import DENSE_FILL, count_lines, letor_spans, survey_span

    spans = [(file, span) for file in files for span in letor_spans(file, SPAN_BYTES)]
    look = delayed(survey_span, pure=False)
    surveys = run([look(*span, n_features) for span in spans])
    used = [(span, survey) for span, survey in zip(spans, surveys, strict=True) if survey.n_rows]
    if not used:
        raise DataError(f"{', '.join(files)}: no rows, since all lines are blank or comments.")
    width = max(survey.largest_index for _, survey in used) if n_features is None else n_features
    (first, _), has_ids = used[0][0], used[0][1].has_ids
    for (file, span), survey in used:
        if survey.has_ids != has_ids:
            line = count_lines(file, span[0] if span else 0) + 1
            raise LetorFormatError(
                f"Either all rows or no rows must have a qid: {first} begins with rows "
                f"{'with' if has_ids else 'without'} qid, but the rows of {file} from line {line} "
                f"on have {'none' if has_ids else 'one'}. Write qid:ID after the label of every "
                "row, or of none."
            )
    n_values = sum(survey.n_values for _, survey in used)
    n_rows = sum(survey.n_rows for _, survey in used)
    layout = "dense" if n_values >= DENSE_FILL * n_rows * width else "sparse"
    text_ids = any(survey.text_ids for _, survey in used)
    read = delayed(_read_letor, pure=False)
    parts = [read(*span, width, layout, text_ids) for span, _ in used]
    return Partitions(parts, shape=(n_rows, width), has_ids=has_ids)


def _read_letor(file: str, span: Any, n_features: int, layout: Any, text_ids: bool) -> Partition:
    from rankwise.data.letor import read_lines

    data = read_lines(file, n_features, layout, np.float64, span=span, text_ids=text_ids)
    return Partition(data.X, data.y, data.qid, file)


def _checked(X: Any, y: Any, qid: Any, where: str, first_row: int = 0) -> Partition:
    """A partition with validated labels and query ids; errors name the row.

    Features are checked when they are used, since reading them dominates the cost of a pass.
    """
    for values, what in ((X, "a feature"), (y, "a label"), (qid, "a qid")):
        if np.ma.is_masked(values):
            raise DataError(f"{where}: {what} is masked. Impute or drop such rows first.")
    X = X.tocsr() if is_sparse(X) else np.ascontiguousarray(X)
    if X.dtype not in (np.float64, np.float32):
        X = _numbers(X, where, first_row, "a feature")
    y = _numbers(np.asarray(y), where, first_row, "the label")
    if len(y) != X.shape[0]:
        raise DataError(f"{where}: {X.shape[0]} rows of features, but {len(y)} labels.")
    bad = ~np.isfinite(y).reshape(len(y), y.size // max(len(y), 1)).all(axis=1)
    if bad.any():
        raise _missing(where, first_row + int(np.argmax(bad)), "the label")
    if qid is not None:
        try:
            qid = check_ids(qid, len(y), first_row)
        except DataError as error:
            raise DataError(f"{where}: {error}") from None
    return Partition(X, y, qid, where, first_row)


def _numbers(values: Any, where: str, first_row: int, what: str) -> Any:
    """Values as float64; raise an error that names the first row with an invalid value."""
    try:
        if values.dtype.kind in "biufOSU":
            return values.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError):
        for place, value in np.ndenumerate(values):
            if is_number(value):
                continue
            raise DataError(
                f"{where}, row {first_row + place[0]}: {what} must be a number: got {value!r}."
            ) from None
    raise DataError(f"{where}: {what} must be a number: got dtype {values.dtype}.")


def _missing(where: str, row: int, what: str) -> DataError:
    return DataError(
        f"{where}, row {row}: {what} is missing or infinite. Impute or drop such rows first."
    )


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
    """Partitions of whole queries: the rows of split queries are moved to new partitions.

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
    return replace(partition, X=scaling.scale(partition.checked().X, partition.groups))


def _survey(partition: Partition, sample: int) -> Survey:
    groups = partition.groups
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
    if not queries:
        return partition
    rest = np.delete(np.arange(len(partition.y)), rows_of(partition.groups, queries))
    return partition.take(rest)


def _take_queries(partition: Partition, queries: set[Any]) -> Partition:
    return partition.take(rows_of(partition.groups, queries))


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
