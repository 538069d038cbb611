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
from rankwise.data.letor.reading import LetorData
from rankwise.errors import LetorFormatError, ParameterError

if TYPE_CHECKING:
    from rankwise.data.letor.text_blocks import Block

BLOCK_BYTES = 32 * 2**20  # of features in a block, about


@dataclass(frozen=True)
class Survey:
    """What a first pass over a file tells.

    Attributes
    ----------
    version : tuple
        Size and time of the file, by which it is known to be the same later.
    n_rows, n_queries, n_features : int
        Without query ids, `n_queries` is 0.
    n_bytes : int
        Of text, unpacked.
    layout : {"dense", "sparse"}
        Dense where at least a third of the cells are written.
    text_ids : bool
        Whether some query id is not an integer.
    """

    version: tuple[int, int]
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

    Linear in the size of the file. Memory: that of some three blocks, or of the longest query where
    that is more, 2 to 10 MB per processor for reading, and the query ids.

    Parameters
    ----------
    path : str or path-like
        The file, plain or gzipped.
    n_features : int, optional
        As for `read_letor`.
    dtype : {float64, float32}, default=float64
        As for `read_letor`.
    block_bytes : int, optional
        Of features in a block, about; not less than 1 MB of text gives. None: 32 MiB.
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
        block_bytes: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        from rankwise.data.letor.checked import check_arguments

        block_bytes = BLOCK_BYTES if block_bytes is None else block_bytes
        if not isinstance(block_bytes, int | np.integer) or block_bytes < 1:
            raise ParameterError(
                f"block_bytes must be a whole number above 0: got {block_bytes!r}."
            )
        self.path = os.fspath(path)
        self._dtype = check_arguments(n_features, "auto", dtype)
        self._n_features = n_features
        self._block_bytes = block_bytes
        self._progress = progress or (lambda done, total: None)

    @cached_property
    def survey(self) -> Survey:
        """What the first pass tells, which is made when this is first asked for."""
        from rankwise.data.letor.checked import append_ids
        from rankwise.data.letor.collecting import DENSE_FILL, QueryIds
        from rankwise.data.letor.text_blocks import text_size

        size = text_size(self.path)
        queries = _Queries(self.path)
        version = self._version()
        n_rows = n_pairs = width = n_bytes = 0
        for block, n_before, has_qid in self._blocks(self._n_features, size):
            n_rows += block.n_rows
            n_pairs += block.n_pairs
            n_bytes += block.n_bytes
            width = max(width, block.max_index)
            if has_qid and block.n_rows:
                ids = QueryIds(as_text=True)
                append_ids(ids, block, self.path, n_before)
                queries.add(ids.finish(), block, n_before)
        if n_rows == 0:
            raise LetorFormatError(f"{self.path} has no rows: its lines are blank or comments.")
        width = self._n_features or width
        layout = "dense" if n_pairs >= DENSE_FILL * n_rows * width else "sparse"
        n_queries, text_ids = queries.finish()
        return Survey(version, n_rows, n_queries, width, n_bytes, layout, text_ids)

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
            block, rest = _rows(whole, slice(0, cut)), _rows(whole, slice(cut, None))
            del whole, pieces
            yield block
            pieces, enough = [rest], self._block_bytes
            held = _size(pieces[0].X, cell)
        whole = _joined(pieces)
        if len(whole.y):
            yield whole

    def _pieces(self, survey: Survey) -> Iterator[LetorData]:
        """What is parsed at a time, with arrays of its own."""
        from rankwise.data.letor.checked import append_ids
        from rankwise.data.letor.collecting import Matrix, QueryIds

        layout: Any = survey.layout
        if self._version() != survey.version:
            raise LetorFormatError(
                f"{self.path} has changed since it was first looked through: begin anew."
            )
        for block, n_before, has_qid in self._blocks(survey.n_features, survey.n_bytes):
            if not block.n_rows:
                continue
            X = Matrix(layout, survey.n_features, self._dtype)
            block.n_times = 0.0  # no memory for the whole file
            X.append(block)
            qid: Any = None
            if has_qid:
                ids = QueryIds(as_text=survey.text_ids)
                append_ids(ids, block, self.path, n_before)
                qid = ids.finish()
            yield LetorData(X.finish(), block.rows.labels[: block.n_rows].copy(), qid)

    def __repr__(self) -> str:
        return f"LetorBlocks({self.path!r})"

    def _version(self) -> tuple[int, int]:
        status = os.stat(self.path)
        return status.st_size, status.st_mtime_ns

    def _blocks(
        self, n_features: int | None, n_bytes: int
    ) -> Iterator[tuple[Block, int, bool | None]]:
        """The checked blocks of the file, with progress out of `n_bytes`."""
        from rankwise.data.letor.checked import checked_blocks

        done = 0
        self._progress(0, n_bytes)
        with closing(checked_blocks(self.path, n_features, self._dtype)) as blocks:
            for entry in blocks:
                yield entry
                done += entry[0].n_bytes
                self._progress(done, n_bytes)


class _Queries:
    """The queries of a file, each of which may come only once.

    Ids are numbers if all of them are, and only the end of the file tells: "7" and "07" are the
    same number, but not the same text.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._texts, self._numbers = _Seen(), _Seen()
        self._are_text = False

    def add(self, ids: Any, block: Block, n_before: int) -> None:
        """The ids, as text, of the rows of a block with so many lines before it."""
        from rankwise.data.letor.checked import place
        from rankwise.data.letor.parsing import TEXT_QID

        self._are_text |= bool((block.rows.qid_kind[: block.n_rows] == TEXT_QID).any())
        starts = np.concatenate(([0], np.flatnonzero(ids[1:] != ids[:-1]) + 1))
        numbers = block.rows.qid[starts].tolist()
        for row, name, number in zip(starts.tolist(), ids[starts].tolist(), numbers, strict=True):
            for seen, value in ((self._texts, name), (self._numbers, number)):
                if seen.comes_back(value) and seen.first_again is None:
                    where = place(self._path, n_before, block, int(block.rows.row_at[row]))
                    seen.first_again = f"{where}: query {name}"

    def finish(self) -> tuple[int, bool]:
        """How many there are, and whether their ids are text."""
        seen = self._texts if self._are_text else self._numbers
        if seen.first_again is not None:
            raise LetorFormatError(
                f"{seen.first_again} comes back after other queries. To be read in blocks, the "
                "rows of a query must stand together: sort the file by query, or read it whole "
                "with read_letor."
            )
        return len(seen.ids), self._are_text


class _Seen:
    """Ids that have come by, the last of them, and where one first came back."""

    def __init__(self) -> None:
        self.ids: set[Any] = set()
        self.first_again: str | None = None
        self._last: Any = None

    def comes_back(self, value: Any) -> bool:
        """Whether `value` was there before, and another one after it; it is there from now on."""
        again = value != self._last and value in self.ids
        self.ids.add(value)
        self._last = value
        return again


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
    qid: Any = None if data.qid is None else data.qid[rows].copy()
    return LetorData(data.X[rows].copy(), data.y[rows].copy(), qid)
