"""A LETOR file in blocks of whole queries, for files that do not fit in memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse

from rankwise.backends.arrays import is_sparse
from rankwise.data.letor import LetorData
from rankwise.errors import LetorFormatError

if TYPE_CHECKING:
    from rankwise.data._letor_blocks import Block

BLOCK_BYTES = 32 * 2**20  # of features in a block, about


@dataclass(frozen=True)
class Survey:
    """What a first pass over a file tells.

    Attributes
    ----------
    n_rows, n_queries, n_features : int
        Without query ids, `n_queries` is 0.
    n_bytes : int
        Of text, unpacked.
    layout : {"dense", "sparse"}
        Dense where at least a third of the cells are written.
    text_ids : bool
        Whether some query id is not an integer.
    """

    n_rows: int
    n_queries: int
    n_features: int
    n_bytes: int
    layout: str
    text_ids: bool


class LetorBlocks:
    """The rows of a LETOR file, block by block; a block never splits a query.

    Goes through the file each time it is iterated over, and gives a `LetorData` for each block.
    Before the first time, one pass over the file counts features and looks for rows that cannot
    be read and for queries that come back later: whatever is wrong with a file is said before
    the work begins. Rows of a query must stand together.

    Linear in the size of the file. Memory: that of one block, or of the longest query where that
    is more, some 2 to 10 MB per processor for reading, and the query ids.

    Parameters
    ----------
    path : str or path-like
        The file, plain or gzipped.
    n_features : int, optional
        As for `read_letor`.
    dtype : {float64, float32}, default=float64
        As for `read_letor`.
    block_bytes : int, default=33554432
        Of features in a block, about.
    progress : callable, optional
        Called with the bytes of text read so far in this pass, and with their number in all (0
        where it is not known yet, as in the first pass over a gzipped file).

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "train.txt")
    ...     _ = path.write_text("1 qid:7 1:0.5\\n0 qid:7 1:2\\n3 qid:8 1:1 2:1\\n")
    ...     blocks = LetorBlocks(path, block_bytes=16)
    ...     for block in blocks:
    ...         print(block.qid, block.X.tolist())
    [7 7] [[0.5, 0.0], [2.0, 0.0]]
    [8] [[1.0, 1.0]]
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        n_features: int | None = None,
        dtype: DTypeLike = np.float64,
        block_bytes: int = BLOCK_BYTES,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        from rankwise.data._letor_checked import check_arguments

        self.path = os.fspath(path)
        self._dtype = check_arguments(n_features, "auto", dtype)
        self._n_features = n_features
        self._block_bytes = block_bytes
        self._progress = progress or (lambda done, total: None)

    @cached_property
    def survey(self) -> Survey:
        """What the first pass tells, which is made when this is first asked for."""
        from rankwise.data._letor_checked import append_ids
        from rankwise.data._letor_collect import DENSE_FILL, QueryIds

        seen = _Queries(self.path)
        n_rows = n_pairs = width = n_bytes = 0
        size = 0 if _is_gzip(self.path) else os.path.getsize(self.path)
        for block, n_before, has_qid in self._blocks(size):
            n_rows += block.n_rows
            n_pairs += block.n_pairs
            n_bytes += block.n_bytes
            width = max(width, block.max_index)
            if has_qid and block.n_rows:
                ids = QueryIds()
                append_ids(ids, block, self.path, n_before)
                seen.add(ids.finish(), block, n_before)
        if n_rows == 0:
            raise LetorFormatError(f"{self.path} has no rows: its lines are blank or comments.")
        width = self._n_features or width
        layout = "dense" if n_pairs >= DENSE_FILL * n_rows * width else "sparse"
        return Survey(n_rows, len(seen), width, n_bytes, layout, seen.text)

    def __iter__(self) -> Iterator[LetorData]:
        survey = self.survey
        cell = np.dtype(self._dtype).itemsize
        pieces: list[LetorData] = []
        held, enough = 0, self._block_bytes
        for piece in self._pieces(survey):
            pieces.append(piece)
            held += _size(piece.X, cell)
            if held < enough:
                continue
            whole = _joined(pieces)
            cut = _last_query(whole)
            if cut == 0:  # one query so far: it is longer than a block
                pieces, enough = [whole], 2 * held
                continue
            yield _rows(whole, slice(0, cut))
            pieces, enough = [_rows(whole, slice(cut, None))], self._block_bytes
            held = _size(pieces[0].X, cell)
        whole = _joined(pieces)
        if len(whole.y):
            yield whole

    def _pieces(self, survey: Survey) -> Iterator[LetorData]:
        """What is parsed at a time, with arrays of its own."""
        from rankwise.data._letor_checked import append_ids
        from rankwise.data._letor_collect import Matrix, QueryIds

        layout: Any = survey.layout
        for block, n_before, has_qid in self._blocks(survey.n_bytes):
            if not block.n_rows:
                continue
            X = Matrix(layout, survey.n_features, self._dtype)
            block.n_times = 0.0  # no memory for the whole file
            X.append(block)
            qid: Any = None
            if has_qid:
                ids = QueryIds()
                append_ids(ids, block, self.path, n_before)
                qid = ids.finish()
                qid = qid.astype(str) if survey.text_ids else qid
            yield LetorData(X.finish(), block.rows.labels[: block.n_rows].copy(), qid)

    def _blocks(self, n_bytes: int) -> Iterator[tuple[Block, int, bool | None]]:
        """The checked blocks of the file, with progress out of `n_bytes`."""
        from rankwise.data._letor_checked import checked_blocks

        done = 0
        self._progress(0, n_bytes)
        with closing(checked_blocks(self.path, self._n_features, self._dtype)) as blocks:
            for entry in blocks:
                yield entry
                done += entry[0].n_bytes
                self._progress(done, n_bytes)


class _Queries:
    """The queries of a file, each of which may come only once."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._names: set[str] = set()
        self._last: str | None = None
        self.text = False

    def __len__(self) -> int:
        return len(self._names)

    def add(self, ids: Any, block: Block, n_before: int) -> None:
        """The ids of the rows of a block with so many lines before it."""
        from rankwise.data._letor_checked import place

        self.text = self.text or ids.dtype.kind == "U"
        starts = np.concatenate(([0], np.flatnonzero(ids[1:] != ids[:-1]) + 1))
        for row, name in zip(starts.tolist(), ids[starts].astype(str).tolist(), strict=True):
            if name == self._last:
                continue
            if name in self._names:
                where = place(self._path, n_before, block, int(block.rows.row_at[row]))
                raise LetorFormatError(
                    f"{where}: query {name} comes back after other queries. To be read in blocks, "
                    "the rows of a query must stand together: sort the file by query, or read it "
                    "whole with read_letor."
                )
            self._names.add(name)
            self._last = name


def _is_gzip(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(2) == b"\x1f\x8b"


def _size(X: Any, cell: int) -> int:
    """Bytes of features."""
    return int(X.nnz * (cell + 4) if is_sparse(X) else X.size * cell)


def _joined(pieces: list[LetorData]) -> LetorData:
    if len(pieces) == 1:
        return pieces[0]
    Xs: list[Any] = [piece.X for piece in pieces]
    X = sparse.vstack(Xs, format="csr") if is_sparse(Xs[0]) else np.concatenate(Xs)
    ids: list[Any] = [piece.qid for piece in pieces]
    qid = None if ids[0] is None else np.concatenate(ids)
    return LetorData(X, np.concatenate([piece.y for piece in pieces]), qid)


def _last_query(data: LetorData) -> int:
    """Where the last query begins; without query ids, rows may be cut anywhere."""
    if data.qid is None:
        return len(data.y)
    changes = np.flatnonzero(data.qid[1:] != data.qid[:-1])
    return int(changes[-1]) + 1 if len(changes) else 0


def _rows(data: LetorData, rows: slice) -> LetorData:
    return LetorData(data.X[rows], data.y[rows], None if data.qid is None else data.qid[rows])
