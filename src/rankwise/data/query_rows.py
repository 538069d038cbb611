"""Rows of queries: described, cut into blocks, numbered by group sizes, normalized."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from rankwise.backends.arrays import NUMPY, is_sparse
from rankwise.errors import DataError
from rankwise.graph.query_groups import QueryGroups, join_ids
from rankwise.parameters import AnyOf, Whole, check_value
from rankwise.scaling import QueryMinMax
from rankwise.tables import Column, Table, plural, require_pandas

FEW_LABELS = 6  # so many are counted one by one


class DescribedRows:
    """A short description of rows with `X`, `y` and perhaps `qid`, and a data frame of them."""

    X: Any
    y: Any
    qid: Any

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features; None if they have none."""
        return None

    def to_frame(self) -> Any:
        """The rows as a pandas data frame: columns qid (if there are queries), y, and features.

        Features without names are called x0, x1, and so on. Sparse features stay sparse.
        """
        pandas = require_pandas("X, y and qid")
        names = self.feature_names or [f"x{j}" for j in range(self.X.shape[1])]
        if sparse.issparse(self.X):
            frame = pandas.DataFrame.sparse.from_spmatrix(self.X, columns=names)
            if any(dtype.fill_value != 0 for dtype in frame.dtypes):
                frame = frame.fillna(0.0)  # pandas 3.0 takes absent entries for missing values
        else:
            frame = pandas.DataFrame(self.X, columns=names)
        if self.y is not None:
            frame.insert(0, "y", self.y)
        if self.qid is not None:
            frame.insert(0, "qid", self.qid)
        return frame

    def __repr__(self) -> str:
        lines = [f"{name:<9}{text}" for name, text in self._facts().items()]
        return "\n  ".join((self._title(), *lines))

    def _repr_html_(self) -> str:
        rows = tuple(self._facts().items())
        return Table((Column("", ""), Column("", "")), rows, self._title()).to_html()

    def _title(self) -> str:
        return type(self).__name__

    def _facts(self) -> dict[str, str]:
        n, d = self.X.shape
        rows = f"{plural(n, 'row')}, {plural(d, 'feature')}"
        stored = getattr(self.X, "nnz", None)
        if stored is not None:
            rows += f" ({stored / max(n * d, 1):.2g} of the values are not zero)"
        if self.qid is None:
            rows += ", one ranking"
        else:
            sizes = np.unique(self.qid, return_counts=True)[1]
            low, high = sizes.min(initial=n), sizes.max(initial=0)
            each = f"{low}" if low == high else f"{low} to {high}"
            rows += f", {plural(len(sizes), 'query')} of {each} rows"
        return {"size": rows, "labels": "none" if self.y is None else _labels(np.asarray(self.y))}


def _labels(y: Any) -> str:
    values, counts = np.unique(y, return_counts=True)
    if 0 < len(values) <= FEW_LABELS:
        of_label = (f"{v:g} ({plural(int(n), 'row')})" for v, n in zip(values, counts, strict=True))
        return ", ".join(of_label)
    if not len(values):
        return "none"
    return f"{len(values):,} different, from {values[0]:.3g} to {values[-1]:.3g}"


Rows = TypeVar("Rows", bound=DescribedRows)

BLOCK_BYTES = 32 * 2**20  # of features in a block, about


@dataclass(frozen=True)
class FileSurvey:
    """Counts of a file, from a first pass over it."""

    version: tuple[int, int]  # size and modification time, to notice changes
    n_rows: int
    n_queries: int  # 0 if there are no query ids
    n_features: int
    text_ids: bool  # whether some query id is not a number
    n_bytes: int = 0  # of text, decompressed
    layout: Literal["dense", "sparse"] = "dense"


class QueryBlocks(ABC, Generic[Rows]):
    """The rows of a file, block by block; a block never splits a query."""

    fault: type[DataError] = DataError

    def __init__(
        self,
        path: str | os.PathLike[str],
        block_bytes: int | None,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        check_value("block_bytes", block_bytes, AnyOf(Whole(1), None))
        self.path = os.fspath(path)
        self._block_bytes = BLOCK_BYTES if block_bytes is None else int(block_bytes)
        self._progress = progress or (lambda done, total: None)

    @cached_property
    @abstractmethod
    def survey(self) -> FileSurvey:
        """Counts of the file; the first access reads it once."""

    def version(self) -> tuple[int, int]:
        """The version of the file as it is now."""
        status = os.stat(self.path)
        return status.st_size, status.st_mtime_ns

    def __iter__(self) -> Iterator[Rows]:
        if self.version() != self.survey.version:
            name = type(self).__name__
            raise self.fault(f"{self.path} has changed since it was first read: make new {name}.")
        return whole_queries(self._pieces(), self._block_bytes)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"

    @abstractmethod
    def _pieces(self) -> Iterator[Rows]:
        """Pieces of any size, which may split queries."""

    def _count_queries(self, ids: NDArray[Any], place: Callable[[int], str]) -> int:
        """The number of queries; an error if the rows of a query are not contiguous.

        `ids` has an entry per run of rows, and ``place(k)`` is the place of the run k.
        """
        starts = run_starts(ids)  # a run may continue in the next piece of a file
        first = np.unique(ids[starts], return_index=True)[1]
        if len(first) < len(starts):
            again = int(starts[np.setdiff1d(np.arange(len(starts)), first)[0]])
            raise self.fault(
                f"{place(again)}: query {ids[again]} appears again after other queries. To be read "
                "in blocks, the rows of a query must be contiguous: sort the rows by query, or "
                "read all of them with read_letor or read_table."
            )
        return len(starts)


def whole_queries(pieces: Iterator[Rows], block_bytes: int) -> Iterator[Rows]:
    """Join and cut pieces of any size into blocks of about `block_bytes`, at ends of queries."""
    held_back: list[Rows] = []
    held, enough = 0, block_bytes
    for piece in pieces:
        held_back.append(piece)
        held += _size(piece.X)
        if held < enough:
            continue
        whole = _joined(held_back)
        cut = len(whole.y) if whole.qid is None else int(run_starts(whole.qid)[-1])
        if cut == 0:  # a single query so far, longer than a block
            held_back, enough = [whole], 2 * held
            continue
        block, rest = _rows(whole, slice(0, cut)), _rows(whole, slice(cut, None))
        del whole, held_back
        yield block
        held_back, enough = [rest], block_bytes
        held = _size(rest.X)
    whole = _joined(held_back)
    if len(whole.y):
        yield whole


def run_starts(ids: Any) -> NDArray[np.intp]:
    """Where runs of equal ids start."""
    return np.flatnonzero(np.concatenate((np.ones(min(len(ids), 1), bool), ids[1:] != ids[:-1])))


def _size(X: Any) -> int:
    """Bytes of features."""
    return int(X.data.nbytes + X.indices.nbytes) if is_sparse(X) else int(X.nbytes)


def _joined(pieces: list[Any]) -> Any:
    if len(pieces) == 1:
        return pieces[0]
    Xs: list[Any] = [piece.X for piece in pieces]
    X = sparse.vstack(Xs, format="csr") if is_sparse(Xs[0]) else np.concatenate(Xs)
    ids: list[Any] = [piece.qid for piece in pieces]
    qid = None if ids[0] is None else join_ids(ids)
    return replace(pieces[0], X=X, y=np.concatenate([piece.y for piece in pieces]), qid=qid)


def _rows(data: Any, rows: slice) -> Any:
    qid = None if data.qid is None else data.qid[rows].copy()
    return replace(data, X=data.X[rows].copy(), y=data.y[rows].copy(), qid=qid)


SUFFIXES = (".query", ".group")  # of LightGBM and of XGBoost


def qid_from_groups(sizes: Any) -> NDArray[np.intp]:
    """Query ids of adjacent rows, from the number of rows of each query.

    LightGBM's ``group`` is such a list of sizes.

    Parameters
    ----------
    sizes : array-like of shape (n_queries,)
        Whole numbers of at least 1.

    Returns
    -------
    ndarray of shape (n_rows,)
        0 for the rows of the first query, 1 for the rows of the second, and so on.

    Examples
    --------
    >>> from rankwise.data import qid_from_groups
    >>> qid_from_groups([2, 3])
    array([0, 0, 1, 1, 1])
    """
    found = np.asarray(sizes)
    if found.ndim != 1 or len(found) == 0:
        raise DataError(f"sizes must be a list of group sizes: got shape {found.shape}.")
    wrong = np.ones(len(found), dtype=bool)
    if found.dtype.kind in "iuf":
        wrong = ~((found >= 1) & (found == np.floor(found)) & np.isfinite(found))
    if wrong.any():
        k = int(np.argmax(wrong))
        raise DataError(
            f"Group sizes must be whole numbers of at least 1: got {found[k]} for group {k}."
        )
    return np.repeat(np.arange(len(found)), found.astype(np.intp))


def group_file_beside(path: str | os.PathLike[str]) -> Path | None:
    """The file of group sizes beside a data file, such as train.txt.query; None if there is none.

    For a gzipped file, the name may lack ``.gz``.
    """
    name = os.fspath(path)
    names = [name, name.removesuffix(".gz")]
    candidates = [Path(f"{stem}{suffix}") for stem in names for suffix in SUFFIXES]
    return next((file for file in candidates if file.is_file()), None)


def read_group_file(path: str | os.PathLike[str], n_rows: int) -> NDArray[np.intp]:
    """Query ids of `n_rows` rows from a file with one group size per line."""
    sizes = []
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            word = line.strip()
            if not word:
                continue
            if not (word.isascii() and word.isdigit()) or int(word) == 0:
                raise DataError(
                    f"{path}, line {number}: {word[:40]!r} is not a group size. Each line "
                    "must be the number of rows of a query."
                )
            sizes.append(int(word))
    if sum(sizes) != n_rows:
        raise DataError(
            f"The group sizes in {path} add up to {sum(sizes)}, but the data has {n_rows} rows: "
            "they do not belong together."
        )
    return qid_from_groups(sizes)


def finite_matrix(X: Any) -> Any:
    """X as a dense or a CSR array of finite numbers: float32 if X is, otherwise float64."""
    matrix: Any = sparse.csr_array(X) if is_sparse(X) else np.asarray(X)
    if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        raise DataError(
            "X must contain numbers in two dimensions, rows and features: got "
            f"{matrix.dtype} of shape {matrix.shape}."
        )
    dtype = np.float32 if matrix.dtype == np.float32 else np.float64
    matrix = matrix.astype(dtype, copy=False)
    if not NUMPY.is_finite(matrix.data if is_sparse(X) else matrix):
        raise DataError("X contains NaN or infinite values. Replace them, or drop these rows.")
    return matrix


@overload
def normalize_per_query(
    X: sparse.sparray | sparse.spmatrix, qid: ArrayLike | None
) -> sparse.csr_array: ...
@overload
def normalize_per_query(X: ArrayLike, qid: ArrayLike | None) -> NDArray[Any]: ...
def normalize_per_query(X: Any, qid: ArrayLike | None) -> NDArray[Any] | sparse.csr_array:
    """Map each feature of each query to [0, 1]: (x - min) / (max - min) over the query's rows.

    A feature that is constant within a query becomes 0 there. LETOR data sets are normalized in
    this way to make queries comparable: a raw term count means little without the counts of the
    other documents.

    Dense X: O(n d) time and one copy of X.
    Sparse X: O(z log z) time for z nonzeros; zeros that are not stored count as values.

    Parameters
    ----------
    X : array-like or sparse array of shape (n_rows, n_features)
        Features; not modified.
    qid : array-like of shape (n_rows,) or None
        Query of each row, as integers or text, in any order. None: all rows are one query.

    Returns
    -------
    ndarray or csr_array of shape (n_rows, n_features)
        float32 if X is float32, otherwise float64. Sparse if X is; where a feature has a
        negative minimum in a query, all rows of that query are stored, as zeros become positive.

    Raises
    ------
    DataError
        If X is not a finite matrix, max - min overflows, or qid is not one id per row.

    Examples
    --------
    >>> from rankwise.data import normalize_per_query
    >>> normalize_per_query([[1.0, 5.0], [3.0, 5.0], [2.0, 5.0], [7.0, 6.0]], ["a", "a", "a", "b"])
    array([[0. , 0. ],
           [1. , 0. ],
           [0.5, 0. ],
           [0. , 0. ]])
    """
    rows = finite_matrix(X)
    groups = QueryGroups.of(qid, rows.shape[0])
    scaled: NDArray[Any] | sparse.csr_array = QueryMinMax().scale(rows, groups)
    return scaled
