"""From arrays, frames, Parquet folders and LETOR files to parts that workers load."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import Any

import numpy as np
from dask.base import compute
from dask.delayed import Delayed, delayed
from numpy.typing import NDArray

from rankwise.backends.arrays import Array, is_sparse
from rankwise.errors import DataError

SPAN_BYTES = 64 * 2**20  # of LETOR text in a part, about


@dataclass(frozen=True)
class Part:
    """Rows that one worker has at a time; `where` names them in errors."""

    X: Any
    y: Array
    qid: Any
    where: str
    first_row: int = 0

    def checked(self) -> Part:
        """The part, if its features are numbers; or an error that names the first row."""
        self._refuse(~np.isfinite(self.X.data if is_sparse(self.X) else self.X))
        return self

    def _refuse(self, bad: NDArray[np.bool_]) -> None:
        if not bad.any():
            return
        if is_sparse(self.X):
            k = int(np.argmax(bad))
            row = int(np.searchsorted(self.X.indptr, k, side="right")) - 1
            column = int(self.X.indices[k])
        else:
            row, column = (int(k) for k in np.argwhere(bad)[0])
        raise _missing(self.where, self.first_row + row, f"feature {column}")


@dataclass(frozen=True)
class Parts:
    """All rows: a delayed `Part` for each of the places they lie in, and names of features."""

    delayed: Sequence[Delayed]
    feature_names: list[str] | None = None
    shape: tuple[int, int] | None = None  # rows and features, where reading has told them

    def __len__(self) -> int:
        return len(self.delayed)

    def map(self, function: Callable[..., Any], *columns: Sequence[Any], **same: Any) -> list[Any]:
        """``function(part, entry of each column, same)`` for each part, delayed."""
        task = delayed(function, pure=False)
        rows = zip(self.delayed, *columns, strict=True)
        return [task(*row, **same) for row in rows]


def open_parts(
    data: Any, label: str | None, qid: str | None, n_features: int | None = None
) -> Parts:
    """Parts of whatever `data` is."""
    if isinstance(data, Parts):
        return data
    if isinstance(data, tuple):
        return _of_arrays(data)
    if hasattr(data, "to_delayed") and hasattr(data, "columns"):
        return _of_frame(data, label, qid)
    if isinstance(data, (str, os.PathLike)):
        return _of_files(_files_at(os.fspath(data)), label, qid, n_features)
    if isinstance(data, list) and data and all(isinstance(f, (str, os.PathLike)) for f in data):
        return _of_files([os.fspath(file) for file in data], label, qid, n_features)
    raise DataError(
        "data must be a tuple (X, y, qid) of Dask arrays, a Dask data frame, a folder or pattern "
        f"of Parquet or LETOR files, or a list of such files: got {type(data).__name__}."
    )


def _of_arrays(data: tuple[Any, ...]) -> Parts:
    if len(data) not in (2, 3) or not all(hasattr(a, "to_delayed") for a in data if a is not None):
        raise DataError("data must be (X, y) or (X, y, qid), all of them Dask arrays.")
    X, y, qid = (*data, None) if len(data) == 2 else data
    if X.ndim != 2:
        raise DataError(f"X must have two dimensions: got {X.ndim}.")
    if X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    aligned = [a if a is None or a.chunks[0] == X.chunks[0] else _like(a, X) for a in (y, qid)]
    y, qid = (a if a is None or a.ndim == 1 else a.rechunk({1: -1}) for a in aligned)
    blocks = X.to_delayed().ravel()
    labels = y.to_delayed().ravel()
    ids = [None] * len(blocks) if qid is None else qid.to_delayed().ravel()
    make = delayed(_checked, pure=False)
    return Parts(
        [
            make(*block, f"Partition {k}")
            for k, block in enumerate(zip(blocks, labels, ids, strict=True))
        ]
    )


def _like(array: Any, X: Any) -> Any:
    """`array` in the chunks of X."""
    if array.shape[0] != X.shape[0] and not np.isnan(array.shape[0] + X.shape[0]):
        raise DataError(
            f"Arrays need one entry per row of X: got {array.shape[0]} for {X.shape[0]} rows."
        )
    if np.isnan(sum(X.chunks[0])):
        raise DataError(
            "The arrays have chunks of unknown and different lengths: call compute_chunk_sizes() "
            "on them first."
        )
    return array.rechunk({0: X.chunks[0]})


def _of_frame(frame: Any, label: str | None, qid: str | None) -> Parts:
    columns = list(frame.columns)
    names = _feature_names(columns, label, qid, "The data frame")
    make = delayed(_from_frame, pure=False)
    parts = frame.to_delayed()
    return Parts(
        [make(part, names, label, qid, f"Partition {k}") for k, part in enumerate(parts)], names
    )


def _feature_names(columns: list[Any], label: str | None, qid: str | None, whose: str) -> list[str]:
    for role, name in (("label", label), ("qid", qid)):
        if name is not None and name not in columns:
            raise DataError(
                f"{whose} has no column {name!r}, which {role}={name!r} names: its columns are "
                f"{', '.join(map(str, columns))}."
            )
    return [name for name in columns if name not in (label, qid)]


def _from_frame(
    frame: Any, names: list[str], label: str | None, qid: str | None, where: str
) -> Part:
    X = frame[names].to_numpy()
    y = np.zeros(len(frame)) if label is None else frame[label].to_numpy()
    return _checked(X, y, None if qid is None else frame[qid].to_numpy(), where)


def _files_at(path: str) -> list[str]:
    """Files of a folder, or of a pattern, or the one file."""
    if Path(path).is_dir():
        found = [str(p) for p in Path(path).iterdir() if p.is_file() and p.name[0] not in "._"]
    else:
        found = glob(path)
    if not found:
        raise DataError(f"{path}: no such file, and nothing that fits it as a pattern.")
    return sorted(found)


def _of_files(
    files: list[str], label: str | None, qid: str | None, n_features: int | None
) -> Parts:
    parquet = [file.endswith((".parquet", ".pq")) for file in files]
    if any(parquet) and not all(parquet):
        raise DataError("Files must be all Parquet or all LETOR: got both.")
    return _of_parquet(files, label, qid) if all(parquet) else _of_letor(files, n_features)


def _of_parquet(files: list[str], label: str | None, qid: str | None) -> Parts:
    import pyarrow.parquet as pq

    first: list[str] | None = None
    read, parts = delayed(_read_parquet, pure=False), []
    for file in files:
        opened = pq.ParquetFile(file)
        index = (opened.schema_arrow.pandas_metadata or {}).get("index_columns", [])
        columns = [name for name in opened.schema_arrow.names if name not in index]
        names = _feature_names(columns, label, qid, file)
        first = first or names
        if set(names) != set(first):
            other = sorted(set(names) ^ set(first))
            raise DataError(f"{file} has other columns than {files[0]}: {', '.join(other)}.")
        row = 0
        for group in range(opened.num_row_groups):
            parts.append(read(file, group, first, label, qid, row))
            row += opened.metadata.row_group(group).num_rows
    return Parts(parts, first)


def _read_parquet(
    file: str, group: int, names: list[str], label: str | None, qid: str | None, first_row: int
) -> Part:
    import pyarrow.parquet as pq

    table = pq.ParquetFile(file).read_row_group(group)
    X = np.empty((table.num_rows, len(names)))
    for k, name in enumerate(names):
        X[:, k] = table[name].to_numpy()
    y = np.zeros(len(X)) if label is None else table[label].to_numpy()
    ids = None if qid is None else table[qid].to_numpy()
    return _checked(X, y, ids, file, first_row)


def _of_letor(files: list[str], n_features: int | None) -> Parts:
    from rankwise.data._letor_collect import DENSE_FILL
    from rankwise.data.letor_spans import letor_spans, survey_span

    spans = [span for file in files for span in letor_spans(file, SPAN_BYTES)]
    surveys = compute(*(delayed(survey_span, pure=False)(span) for span in spans))
    used = [(span, survey) for span, survey in zip(spans, surveys, strict=True) if survey.n_rows]
    if not used:
        raise DataError(f"{', '.join(files)}: no rows, all lines are blank or comments.")
    width = max(survey.largest_index for _, survey in used)
    if n_features is not None and width > n_features:
        raise DataError(f"A row has the feature {width}, beyond the {n_features} expected.")
    width = n_features or width
    n_values = sum(survey.n_values for _, survey in used)
    n_rows = sum(survey.n_rows for _, survey in used)
    layout = "dense" if n_values >= DENSE_FILL * n_rows * width else "sparse"
    text_ids = any(survey.text_ids for _, survey in used)
    read = delayed(_read_letor, pure=False)
    parts = [read(span, width, layout, text_ids) for span, _ in used]
    return Parts(parts, shape=(n_rows, width))


def _read_letor(span: Any, n_features: int, layout: str, text_ids: bool) -> Part:
    from rankwise.data.letor_spans import read_span

    data = read_span(span, n_features, layout, text_ids=text_ids)
    return Part(data.X, data.y, data.qid, span.path)


def _checked(X: Any, y: Any, qid: Any, where: str, first_row: int = 0) -> Part:
    """A part whose labels are finite, or an error that names the row.

    Features are looked at when they are used: reading them is what a pass costs.
    """
    try:
        X = X.tocsr() if is_sparse(X) else np.ascontiguousarray(X)
        if X.dtype not in (np.float64, np.float32):
            X = X.astype(np.float64)
        y = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{where}: features and labels must be numbers: {error}.") from error
    if len(y) != X.shape[0]:
        raise DataError(f"{where}: {X.shape[0]} rows of features, but {len(y)} labels.")
    bad = ~np.isfinite(y).reshape(len(y), y.size // max(len(y), 1)).all(axis=1)
    if bad.any():
        raise _missing(where, first_row + int(np.argmax(bad)), "the label")
    return Part(X, y, qid, where, first_row)


def _missing(where: str, row: int, what: str) -> DataError:
    return DataError(
        f"{where}, row {row}: {what} is missing or infinite. Impute or drop such rows first."
    )
