"""LETOR files that do not fit in memory: blocks of whole queries, and spans for a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rankwise.data.letor.parsing import TEXT_QID
from rankwise.data.letor.reading import (
    DENSE_FILL,
    FeatureMatrix,
    GrowingArray,
    LetorData,
    QueryIds,
    check_arguments,
)
from rankwise.data.letor.text_blocks import Span, TextBlock, parsed_blocks, text_size
from rankwise.data.query_blocks import (
    BLOCK_BYTES,
    FileVersion,
    file_version,
    run_starts,
    whole_queries,
)
from rankwise.errors import LetorFormatError
from rankwise.files import check_regular
from rankwise.parameters import AnyOf, Whole, check_value


@dataclass(frozen=True)
class LetorSurvey:
    """Counts of a LETOR file, from a first pass over it."""

    version: FileVersion
    n_rows: int
    n_queries: int  # 0 if there are no query ids
    n_features: int
    n_bytes: int  # of text, decompressed
    layout: str  # "dense" if at least a third of the cells are written, otherwise "sparse"
    text_ids: bool  # whether some query id is not an integer


class LetorBlocks:
    """The rows of a LETOR file, block by block; a block never splits a query.

    Each iteration reads the file again and yields a `LetorData` per block. Before the first one,
    a pass over the whole file counts features and checks that every row can be read and that
    the rows of each query are contiguous, so that errors are raised before any work is done.

    Time is linear in the size of the file. Memory: about three blocks, or the longest query if
    that is larger, 2 to 10 MB per processor for reading, and the query ids.

    Parameters
    ----------
    path : str or path-like
        The file, plain or gzipped.
    n_features, dtype, fill
        As for `read_letor`.
    block_bytes : int, optional
        Approximate size of the features in a block, but at least that of 1 MB of text. None:
        32 MiB.
    progress : callable, optional
        Called with the bytes of text read so far in this pass, and the number of bytes in all (0
        if unknown, as in the first pass over a gzipped file).

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from rankwise.data import LetorBlocks
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
        fill: float | None = None,
        block_bytes: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        check_value("block_bytes", block_bytes, AnyOf(Whole(1), None))
        self.path = os.fspath(path)
        self._dtype = check_arguments(n_features, "auto", dtype, fill)
        self._n_features, self._fill = n_features, fill
        self._block_bytes = BLOCK_BYTES if block_bytes is None else int(block_bytes)
        self._progress = progress or (lambda done, total: None)

    @cached_property
    def survey(self) -> LetorSurvey:
        """Counts of the file; the first access reads it once."""
        size, version = text_size(self.path), file_version(self.path)
        n_rows = n_values = width = n_bytes = 0
        run_ids, run_lines = QueryIds(), GrowingArray(np.int64)  # of runs of equal ids
        for block in self._blocks(self._n_features, size):
            n_rows += block.n_rows
            n_values += len(block.rows.values)
            n_bytes += block.n_bytes
            width = max(width, block.max_index)
            if block.has_qid and block.n_rows:
                starts = run_starts(QueryIds.of(block, as_text=False))
                run_ids.append(block, starts)
                run_lines.append(block.line_numbers(starts))
        if n_rows == 0:
            raise LetorFormatError(f"{self.path} has no rows: its lines are blank or comments.")
        width = self._n_features or width
        layout = "dense" if n_values >= DENSE_FILL * n_rows * width else "sparse"
        ids = run_ids.finish()
        n_queries = self._count_queries(ids, run_lines.finish())
        text_ids = ids.dtype.kind in "UO"
        return LetorSurvey(version, n_rows, n_queries, width, n_bytes, layout, text_ids)

    def __iter__(self) -> Iterator[LetorData]:
        return whole_queries(self._pieces(self.survey), self._block_bytes)

    def __repr__(self) -> str:
        return f"LetorBlocks({self.path!r})"

    def _pieces(self, survey: LetorSurvey) -> Iterator[LetorData]:
        """The rows of each block of text, in arrays of their own."""
        layout: Any = survey.layout
        if file_version(self.path) != survey.version:
            raise LetorFormatError(
                f"{self.path} has changed since it was first read: make a new LetorBlocks."
            )
        for block in self._blocks(survey.n_features, survey.n_bytes):
            if block.n_rows:
                X = FeatureMatrix(layout, survey.n_features, self._dtype)
                X.append(block)
                qid = QueryIds.of(block, as_text=survey.text_ids) if block.has_qid else None
                yield LetorData(X.finish(), block.rows.labels.copy(), qid)

    def _blocks(self, n_features: int | None, n_bytes: int) -> Iterator[TextBlock]:
        """The blocks of text of the file; reports progress out of `n_bytes`."""
        done = 0
        self._progress(0, n_bytes)
        with closing(parsed_blocks(self.path, n_features, self._dtype, None, self._fill)) as blocks:
            for block in blocks:
                yield block
                done += block.n_bytes
                self._progress(done, n_bytes)

    def _count_queries(self, ids: NDArray[Any], lines: NDArray[np.int64]) -> int:
        """The number of queries; an error if the rows of one are not contiguous.

        One id and line per run of rows.
        """
        starts = run_starts(ids)  # a run may continue in the next block
        ids, lines = ids[starts], lines[starts]
        first = np.unique(ids, return_index=True)[1]
        if len(first) < len(ids):
            again = int(np.setdiff1d(np.arange(len(ids)), first)[0])
            raise LetorFormatError(
                f"{self.path}, line {lines[again]}: query {ids[again]} appears again after other "
                "queries. To be read in blocks, the rows of a query must be contiguous: sort the "
                "file by query, or read all of it with read_letor. On the command line, 'rankwise "
                "fit --workers 1' reads queries in any order."
            )
        return len(ids)


class SpanSurvey(NamedTuple):
    """Counts of the rows of a span; `has_ids` is None if there are none."""

    n_rows: int
    n_values: int
    largest_index: int
    has_ids: bool | None
    text_ids: bool


def survey_span(
    path: str, span: Span | None, n_features: int | None, fill: float | None = None
) -> SpanSurvey:
    """Read a span, or a whole file, once; raises `LetorFormatError` as `read_letor` does."""
    check_regular(path)
    n_rows = n_values = largest = 0
    has_ids, text_ids = None, False
    with closing(parsed_blocks(path, n_features, np.float64, span, fill)) as blocks:
        for block in blocks:
            has_ids = block.has_qid
            n_rows += block.n_rows
            n_values += len(block.rows.values)
            largest = max(largest, block.max_index)
            text_ids |= bool((block.rows.qid_kind == TEXT_QID).any())
    return SpanSurvey(n_rows, n_values, largest, has_ids, text_ids)


def letor_spans(path: str, n_bytes: int) -> list[Span | None]:
    """Cut a file at ends of lines into spans of about `n_bytes`; None is the whole of a file.

    A gzipped file cannot be cut.
    """
    size = text_size(path)
    if size <= n_bytes:
        return [None]
    cuts = [0]
    with open(path, "rb") as file:
        for at in range(n_bytes, size, n_bytes):
            file.seek(max(at, cuts[-1]) - 1)
            file.readline()
            if cuts[-1] < file.tell() < size:
                cuts.append(file.tell())
    return list(zip(cuts, [*cuts[1:], size], strict=True))
