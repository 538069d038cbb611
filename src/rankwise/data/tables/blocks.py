"""Tables that do not fit in memory: blocks of whole queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from rankwise.data.query_blocks import (
    BLOCK_BYTES,
    FileVersion,
    file_version,
    run_starts,
    whole_queries,
)
from rankwise.data.tables.arrow_files import TableFile
from rankwise.data.tables.columns import check_features, check_values, ids, labels, matrix
from rankwise.data.tables.reading import TableData, as_frame
from rankwise.data.tables.roles import Roles
from rankwise.errors import DataError
from rankwise.parameters import AnyOf, Whole, check_float_type, check_value


@dataclass(frozen=True)
class TableSurvey:
    """Counts of a table, from a first pass over it."""

    version: FileVersion
    n_rows: int
    n_queries: int  # 0 if there are no query ids
    n_features: int
    text_ids: bool  # whether some query id is not a number


class TableBlocks:
    """The rows of a table, block by block; a block never splits a query.

    Each iteration reads the file again and yields a `TableData` per block. Before the first one,
    a pass over the whole file checks that every row can be read, that no value is missing, and
    that the rows of each query are contiguous. Features are numbers.

    Time is linear in the size of the file. Memory: about three blocks, or the longest query if
    that is larger, and the query ids.

    Parameters
    ----------
    path : str or path-like
    qid, label, features, ignore, format, separator, decimal, dtype
        As for `read_table`.
    block_bytes : int, optional
        Approximate size of the features in a block. None: 32 MiB.
    progress : callable, optional
        Called with the rows read so far in this pass, and the number of rows in all (0 in the
        first pass).

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from rankwise.data import TableBlocks
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "train.csv")
    ...     _ = path.write_text("qid,label,price\\n7,1,0.5\\n7,0,2\\n8,3,1\\n")
    ...     for block in TableBlocks(path, block_bytes=16):
    ...         print(block.qid, block.X["price"].tolist())
    [7 7] [0.5, 2.0]
    [8] [1.0]
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        qid: str | None = None,
        label: str | None = None,
        features: Sequence[str] | None = None,
        ignore: Sequence[str] = (),
        format: str | None = None,
        separator: str | None = None,
        decimal: str | None = None,
        dtype: DTypeLike = np.float64,
        block_bytes: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        check_value("block_bytes", block_bytes, AnyOf(Whole(1), None))
        self.file = TableFile.of(Path(path), format, separator, decimal)
        self.roles = Roles.of(
            self.file.path, self.file.names, query=qid, label=label, features=features,
            ignore=ignore,
        )  # fmt: skip
        self._dtype = check_float_type(dtype)
        self._block_bytes = BLOCK_BYTES if block_bytes is None else int(block_bytes)
        self._progress = progress or (lambda done, total: None)

    @cached_property
    def survey(self) -> TableSurvey:
        """Counts of the file; the first access reads it once."""
        version = file_version(self.file.path)
        seen: set[Any] = set()
        n_rows, last, text_ids = 0, None, False
        for piece in self._read(0):
            if piece.qid is not None:
                starts = run_starts(piece.qid)
                text_ids |= piece.qid.dtype.kind in "UO"
                for start, name in zip(starts, map(str, piece.qid[starts]), strict=True):
                    if name != last and name in seen:
                        raise DataError(
                            f"{self.file.place(n_rows + int(start))}: query {name} appears again "
                            "after other queries. To be read in blocks, the rows of a query must "
                            "be contiguous: sort the table by query, or read all of it with "
                            "read_table."
                        )
                    seen.add(name)
                    last = name
            n_rows += len(piece.X)
        if n_rows == 0:
            raise DataError(f"{self.file.path} has no rows: only the names of its columns.")
        return TableSurvey(version, n_rows, len(seen), len(self.roles.features), text_ids)

    def __iter__(self) -> Iterator[TableData]:
        if file_version(self.file.path) != self.survey.version:
            raise DataError(
                f"{self.file.path} has changed since it was first read: make a new TableBlocks."
            )
        for block in whole_queries(self._read(self.survey.n_rows), self._block_bytes):
            yield replace(block, X=as_frame(block.X, self.roles.features))

    def __repr__(self) -> str:
        return f"TableBlocks({str(self.file.path)!r})"

    def _read(self, n_rows: int) -> Iterator[TableData]:
        """The rows of each batch in arrays; after the survey, all ids are of one type."""
        roles, done = self.roles, 0
        used = [name for name in (roles.query, roles.label) if name is not None]
        texts = [] if roles.query is None else [roles.query]
        as_text = bool(n_rows) and self.survey.text_ids
        assert roles.label is not None  # Roles.of needs one
        self._progress(0, n_rows)
        for table in self.file.batches([*used, *roles.features], texts):
            if not table.num_rows:
                continue
            qid = None if roles.query is None else ids(self.file, table, roles.query, done)
            if as_text and qid is not None and qid.dtype.kind != "U":
                qid = np.array([str(name) for name in qid.tolist()], dtype=object)
            y = labels(self.file, table, roles.label, done)
            check_features(self.file, table, roles.features, keep_text=False, first=done)
            X = matrix(table, roles.features, self._dtype)
            check_values(self.file, X, roles.features, keep_missing=False, first=done)
            done += table.num_rows
            yield TableData(X, y, qid, None, roles)
            self._progress(done, n_rows)
