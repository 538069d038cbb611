"""LETOR (svmlight) text, read whole, in blocks of queries or in spans of bytes, and written.

`parsed_blocks` is the one iterator over a file: checked blocks of whole lines, parsed by a few
threads, in file order. The fast parser only finds a line that cannot be read; `explain`, a slow
one, finds the reason.

Arrays have room for all rows from the first block on, by the size of the text: room that is never
used takes no memory. If that was too little, or the size of the text is not known, they grow.
"""

from __future__ import annotations

import gzip
import io
import math
import os
import re
import sys
import zlib
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy import sparse

from rankwise.backends.parallel import n_threads
from rankwise.data.letor_parsing import (
    MAX_INDEX,
    NO_QID,
    TEXT_QID,
    Null,
    ParsedRows,
    parse_lines,
)
from rankwise.data.query_rows import (
    DescribedRows,
    FileSurvey,
    QueryBlocks,
    finite_matrix,
    run_starts,
)
from rankwise.data.table_files import SPREADSHEETS, encoding_of
from rankwise.errors import DataError, LetorFormatError
from rankwise.files import check_regular, replacing
from rankwise.graph.query_groups import QueryGroups, finite_numbers
from rankwise.parameters import AnyOf, Choice, Number, Whole, check_float_type, check_value

BLOCK_BYTES = 1 << 20
"""Text per block: large enough to hide the cost of switching threads, small enough for caches."""

MAX_WORKERS = 8
"""The single thread that reads cannot feed more parsers than this."""

Float = type[np.float32 | np.float64]
Span = tuple[int, int]  # the first byte, and the one after the last

_GZIP_MAGIC = b"\x1f\x8b"
_UTF8_MARK = b"\xef\xbb\xbf"
_TOKEN = re.compile(rb"[^ \t\r\n#]+")


class TextBlock:
    """Whole lines of a file and their parsed rows; the memory is used again for later lines."""

    text: bytearray  # the lines are text[:n_bytes]; the last one ends in a newline too
    rows: ParsedRows
    _scratch: ParsedRows
    n_bytes = n_lines = 0
    max_index = 0  # the largest feature index
    complete = True  # whether every row has the features 1 to max_index
    has_qid: bool | None = None  # whether rows of the file have query ids; None: no row so far
    lines_before = 0  # lines of the file, or of the span, before this block
    _fault_at = -1  # a byte of the first line that could not be parsed

    def __init__(self, path: str, n_bytes: int, span_start: int = 0) -> None:
        self._path, self._span_start, self._room = path, span_start, n_bytes
        self.text = bytearray(n_bytes + n_bytes // 8 + 1)  # for the end of a line
        self._scratch = ParsedRows.allocate(len(self.text), n_lines=n_bytes // 256)

    @property
    def codes(self) -> NDArray[np.uint8]:
        """The text as numbers."""
        return np.frombuffer(self.text, dtype=np.uint8)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.rows.labels)

    def line_numbers(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """The lines of the file that these rows are on, counted from 1; not for spans."""
        newlines = np.flatnonzero(self.codes[: self.n_bytes] == ord("\n"))
        return self.lines_before + 1 + np.searchsorted(newlines, self.rows.row_at[rows])

    def comments(self) -> list[str]:
        """The text after the ``#`` of each row, or an empty one."""
        text = self.text
        return [
            text[at : text.index(b"\n", at)].strip(b" \t\r").decode("utf-8", "replace")
            if at >= 0
            else ""
            for at in self.rows.comment_at.tolist()
        ]

    def token(self, at: int) -> bytes:
        """The bytes from `at` to the next blank."""
        found = _TOKEN.match(self.text, at)
        return bytes(found[0]) if found else b""

    def error(self, at: int, message: str) -> LetorFormatError:
        """An error about the line that holds byte `at`, with file and line number."""
        line = self.lines_before + self.text.count(b"\n", 0, at) + 1
        line += count_lines(self._path, self._span_start)
        return LetorFormatError(f"{self._path}, line {line}: {message}")

    def fill(self, file: Any, left: int) -> bool:
        """Read whole lines, of at most `left` bytes; returns whether there were any."""
        room = max(min(self._room, left), 0)
        with memoryview(self.text) as view:
            n: int = file.readinto(view[:room])
        line = file.readline() if n == room < left else b""  # the end of the last line
        if n + len(line) >= len(self.text):
            self.text.extend(bytes(len(line)))
            self._scratch = ParsedRows.allocate(len(self.text), 0)
        self.text[n : n + len(line)] = line
        n += len(line)
        if n and self.text[n - 1] != ord("\n"):
            self.text[n] = ord("\n")
            n += 1
        self.n_bytes = n
        return n > 0

    def parse(self, limit: int, null: Null) -> None:
        """Parse the text, with feature indices up to `limit`."""
        self.n_lines = int(np.count_nonzero(self.codes[: self.n_bytes] == ord("\n")))
        if self.n_lines > len(self._scratch.labels):
            self._scratch = ParsedRows.allocate(len(self.text), 2 * self.n_lines)
        self._fault_at, n_rows, n_inexact, self.max_index, self.complete = parse_lines(
            self.codes, self.n_bytes, limit, null, self._scratch
        )
        self.rows = self._scratch.first(n_rows)
        for slot, at in self._scratch.inexact[:n_inexact].tolist():
            value = float(self.token(at) or "nan")
            if not math.isfinite(value):
                self._fault_at = at
                break
            if slot < 0:
                self._scratch.labels[-1 - slot] = value
            else:
                self._scratch.values[slot] = value

    def check(self, n_features: int | None, dtype: Float, has_qid: bool | None) -> None:
        """Refuse lines that cannot be parsed, large values, and rows that differ in having a qid.

        `has_qid` comes from the previous block.
        """
        at = self._fault_at
        if dtype is np.float32:
            too_large = np.abs(self.rows.values) > np.finfo(dtype).max
            if too_large.any():
                row = np.searchsorted(self.rows.indptr[1:], np.argmax(too_large), side="right")
                at = int(self.rows.row_at[row])
        if at >= 0:
            start = self.text.rfind(b"\n", 0, at) + 1
            line = bytes(self.text[start : self.text.index(b"\n", at)])
            raise self.error(at, explain(line, n_features=n_features, dtype=dtype))
        has = self.rows.qid_kind != NO_QID
        self.has_qid = bool(has[0]) if has_qid is None and len(has) else has_qid
        if (has != self.has_qid).any():
            at = int(self.rows.row_at[np.argmax(has != self.has_qid)])
            one, others = ("no qid", "have one") if self.has_qid else ("a qid", "have none")
            raise self.error(
                at,
                f"this row has {one}, but the rows before it {others}. Write qid:ID after the "
                "label of every row, or of none.",
            )


def parsed_blocks(
    path: str,
    n_features: int | None,
    dtype: Float,
    span: Span | None = None,
    fill: float | None = None,
) -> Generator[TextBlock, None, None]:
    """Parse and check a file block by block; each block is valid until the next one.

    Only a few blocks are in memory at a time. With a `span`, only the bytes from its start to
    its end are read; these must be whole lines of a file that is not gzipped. With a `fill`, NULL
    is read as this number.
    """
    null = Null(fill is not None, 0.0 if fill is None else float(fill))
    limit = MAX_INDEX if n_features is None else int(n_features)
    n_workers = min(n_threads(), MAX_WORKERS)
    start = span[0] if span else 0
    idle = [TextBlock(path, BLOCK_BYTES, start) for _ in range(n_workers + 2)]
    pending: deque[tuple[TextBlock, Future[None]]] = deque()
    left = span[1] - start if span else sys.maxsize
    n_lines, has_qid, is_first = 0, None, True
    with _open(path, start) as file, ThreadPoolExecutor(n_workers) as pool:
        while left > 0 or pending:
            while left > 0 and idle:
                block = idle.pop()
                if not block.fill(file, left):
                    idle.append(block)
                    left = 0
                    break
                left -= block.n_bytes
                if is_first and block.text.startswith(_UTF8_MARK):
                    block.text[: len(_UTF8_MARK)] = b"   "
                is_first = False
                pending.append((block, pool.submit(block.parse, limit, null)))
            if not pending:
                return
            block, parsing = pending.popleft()
            parsing.result()
            block.lines_before = n_lines
            block.check(n_features, dtype, has_qid)
            has_qid = block.has_qid
            yield block
            n_lines += block.n_lines
            idle.append(block)


def text_size(path: str) -> int:
    """Bytes of text in a file that can be read again, or 0 if it is gzipped."""
    check_regular(path)
    with open(path, "rb") as file:
        return 0 if _is_gzipped(path, file) else os.path.getsize(path)


def _is_gzipped(path: str, file: io.BufferedReader) -> bool:
    """Whether a file is gzipped, not plain text; refuses all else. Nothing is read from it."""
    start = file.peek(8)
    if not start:
        raise LetorFormatError(f"{path} is empty.")
    if Path(path).suffix.lower() in SPREADSHEETS:
        raise LetorFormatError(f"{path} is a spreadsheet. Save the sheet as a CSV file.")
    if kind := archive(start):
        raise LetorFormatError(
            f"{path} is not text but a {kind} archive. Unpack it first; plain and gzipped text "
            "can be read."
        )
    return start.startswith(_GZIP_MAGIC)


def count_lines(path: str, n_bytes: int) -> int:
    """Number of lines that end within the first `n_bytes` of a file."""
    count = 0
    if not n_bytes:  # what is not a regular file must not be opened again
        return count
    with open(path, "rb") as file:
        while text := file.read(min(n_bytes - file.tell(), 1 << 20)):
            count += text.count(b"\n")
    return count


@contextmanager
def _open(path: str, start: int) -> Iterator[Any]:
    """The text of a file, decompressed if necessary, or from a byte on."""
    if os.path.isdir(path):
        raise LetorFormatError(f"{path} is a folder. Give one file in it.")
    with open(path, "rb") as file:
        if not _is_gzipped(path, file):
            if start:
                file.seek(start)
            yield file
            return
        try:
            with gzip.open(file) as unpacked:
                yield unpacked
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise LetorFormatError(
                f"{path} is a damaged gzip file, or a part of one ({error}). Download or copy it "
                "again."
            ) from error


_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_MISSING = re.compile(r"NULL|[+-]?(nan|inf|infinity)", re.IGNORECASE)
_INDEX = re.compile(r"0*(\d{1,18})", re.ASCII)
_NOT_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_ARCHIVES = {b"PK\x03\x04": "zip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd"}


def explain(line: bytes, *, n_features: int | None, dtype: DTypeLike) -> str:
    """The first error in a line, and what to do about it."""
    content = line.partition(b"#")[0]
    text = content.decode("utf-8", "replace")
    if _NOT_TEXT.search(content) or "\ufffd" in text:
        return (
            "this is not UTF-8 text. Only plain or gzipped LETOR text can be read; if it is in "
            f"another encoding, for example {encoding_of(line) or 'UTF-16'}, save it as UTF-8."
        )
    last = 0
    for place, token in enumerate(re.split(r"[ \t\r\n]+", text.strip(" \t\r\n"))):
        name, _, value = token.partition(":") if place else ("label", "", token)
        if place == 1 and name == "qid" and value:
            continue
        shown = repr(token if len(token) <= 40 else f"{token[:37]}...")
        digits = _INDEX.fullmatch(name)
        index = int(digits[1]) if digits and ":" in token else -1
        if place and n_features is not None and index > n_features:
            return (
                f"feature {index} exceeds n_features={n_features}. Give a larger n_features, "
                "or None to take it from the file."
            )
        if place and not last < index <= MAX_INDEX:
            return (
                f"{shown} is out of place. A row reads 'label qid:ID index:value index:value ...', "
                f"with indices from 1 to {MAX_INDEX} that ascend within the row. Sort the pairs of "
                "each row; if the file counts from 0, add one to every index."
            )
        if _MISSING.fullmatch(value):
            return (
                f"{shown} is a missing or an infinite value. A missing value is written as NULL, "
                "and read as a number of your choice: use fill=0.0 in read_letor. Boosted trees "
                "take nan."
            )
        number_type = dtype if place else np.float64
        if not _NUMBER.fullmatch(value) or abs(float(value)) > float(np.finfo(number_type).max):
            return f"{shown} has no number, or one that is too large for {np.dtype(number_type)}."
        last = max(index, 0)
    return "the line cannot be read."


def archive(start: bytes) -> str | None:
    """The kind of archive that starts with these bytes; None if there is none."""
    return next((kind for magic, kind in _ARCHIVES.items() if start.startswith(magic)), None)


Layout = Literal["auto", "dense", "sparse"]

DENSE_FILL = 1 / 3
"""From this share of written cells on, "auto" is dense: at most twice the memory of CSR, which
takes 12 bytes per cell instead of 8, and products run at BLAS speed."""

LONG_ID = 64
"""Letters of an id. Arrays of text are as wide as the longest one; longer ones become objects."""


@dataclass(frozen=True, eq=False, repr=False)
class LetorData(DescribedRows):
    """The rows of a LETOR file.

    Attributes
    ----------
    X : ndarray or csr_array of shape (n_rows, n_features)
        Features; feature 1 of the file is column 0.
    y : ndarray of shape (n_rows,)
        Labels, float64.
    qid : ndarray of shape (n_rows,) or None
        Query ids: int64 if every id is an integer of at most 64 bits, written without a plus sign
        and without zeros in front; otherwise text, so that 1 and 01 are two queries. Text is of
        dtype object if an id is longer than 64 letters. None if the file has none.
    comments : list of str or None
        The text after ``#`` in each row, without surrounding blanks (empty if there is no
        comment); None unless requested.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise.data import LetorData
    >>> LetorData(np.eye(2), np.array([1.0, 0.0]), np.array([7, 7])).X.shape
    (2, 2)
    """

    X: NDArray[Any] | sparse.csr_array
    y: NDArray[np.float64]
    qid: NDArray[Any] | None
    comments: list[str] | None = None


def read_letor(
    path: str | os.PathLike[str],
    *,
    n_features: int | None = None,
    layout: Layout = "auto",
    comments: bool = False,
    dtype: DTypeLike = np.float64,
    fill: float | None = None,
) -> LetorData:
    """Read LETOR text, plain or gzipped: rows of ``label qid:ID index:value # comment``.

    Blank lines and lines with only a comment are skipped. Feature indices start at 1 and ascend
    within a row; features that are not written are zero. Numbers are read exactly as by Python's
    ``float(text)``.

    Time is linear in the size of the file: all processors parse blocks of whole lines, at some
    hundred MB/s each. Memory: the result and 2 to 10 MB per processor; briefly up to twice the rows
    so far, if these have fewer features than later rows or suggest another layout. From NumPy 2.5
    on also if the first megabyte of text has fewer values than others, and for pipes.

    Parameters
    ----------
    path : str or path-like
        The file, or a pipe. Gzip is recognized by its first bytes, not by its name.
    n_features : int, optional
        Number of columns of X. By default the largest index in the file: pass it for a part of a
        data set in which the last features may be missing. A larger index is an error.
    layout : {"auto", "dense", "sparse"}, default="auto"
        "auto" is dense if at least a third of the cells are written, and CSR otherwise: a dense
        X then takes at most twice the memory of CSR and is several times as fast to work with.
        Zeros are not stored in CSR, even if they are written in the file.
    comments : bool, default=False
        Whether to keep the comments. Bytes that are not UTF-8 are replaced.
    dtype : {float64, float32}, default=float64
        Type of X. float32 rounds the float64 values.
    fill : float, optional
        The number to read for ``NULL``, a missing value in LETOR; it may be NaN. None: ``NULL`` is
        an error.

    Returns
    -------
    LetorData
        With attributes `X`, `y`, `qid` and `comments`.

    Raises
    ------
    LetorFormatError
        If the file cannot be read; the message names the file, the line and what to do.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from rankwise.data import read_letor
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "train.txt")
    ...     _ = path.write_text("2 qid:7 1:0.5 2:3 # best\\n0 qid:7 2:1e-1\\n")
    ...     data = read_letor(path, comments=True)
    >>> data.X
    array([[0.5, 3. ],
           [0. , 0.1]])
    >>> data.y, data.qid, data.comments
    (array([2., 0.]), array([7, 7]), ['best', ''])
    """
    float_type = check_arguments(n_features, layout, dtype, fill)
    return read_lines(os.fspath(path), n_features, layout, float_type, comments=comments, fill=fill)


def read_lines(
    path: str,
    n_features: int | None,
    layout: Layout,
    dtype: Float,
    *,
    comments: bool = False,
    span: Span | None = None,
    text_ids: bool = False,
    fill: float | None = None,
) -> LetorData:
    """As `read_letor`, for a span of bytes that are whole lines; ids are text on request."""
    if span is not None:
        n_bytes = span[1] - span[0]
    else:  # a pipe can be read once
        n_bytes = text_size(path) if os.path.isfile(path) else 0
    X = FeatureMatrix(layout, n_features, dtype, n_bytes)
    y = GrowingArray(np.float64)
    qid = QueryIds(as_text=text_ids)
    texts: list[str] = []
    has_qid: bool | None = None
    n_lines = 0
    with closing(parsed_blocks(path, n_features, dtype, span, fill)) as blocks:
        for block in blocks:
            X.append(block)
            y.append(block.rows.labels)
            has_qid = block.has_qid
            if has_qid:
                qid.append(block)
            if comments:
                texts += block.comments()
            n_lines += block.n_lines
    if len(y) == 0:
        raise LetorFormatError(
            f"{path} has no rows: {n_lines} lines, all of them blank or comments."
        )
    ids = qid.finish() if has_qid else None
    return LetorData(X.finish(), y.finish(), ids, texts if comments else None)


def check_arguments(
    n_features: int | None, layout: str, dtype: DTypeLike, fill: float | None = None
) -> Float:
    """Check the arguments of `read_letor`; returns the type of the features."""
    check_value("n_features", n_features, AnyOf(Whole(1, MAX_INDEX), None))
    check_value("layout", layout, Choice("auto", "dense", "sparse"))
    if fill is not None and fill == fill:  # NaN is allowed
        check_value("fill", fill, Number())
    return check_float_type(dtype)


class GrowingArray:
    """A one-dimensional array that grows at its end."""

    def __init__(self, dtype: Any) -> None:
        self._array = np.empty(0, dtype)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def reserve(self, n: float) -> None:
        """Room for `n` entries; only for an array without entries."""
        with suppress(MemoryError):  # an estimate may be far too large
            self._array = np.empty(int(n), self._array.dtype)

    def append(self, values: NDArray[Any]) -> None:
        """Add values at the end."""
        size = self._size + len(values)
        if size > len(self._array):
            self._array.resize(size + size // 8, refcheck=False)  # Linux moves pages, not bytes
        self._array[self._size : size] = values
        self._size = size

    def finish(self) -> NDArray[Any]:
        """The array at its true size."""
        return self._array[: self._size]


class FeatureMatrix:
    """Rows of features, dense or CSR: as requested, or by the share of written cells.

    `n_bytes` is the size of the text that all rows together take, 0 if it is not known.
    """

    def __init__(
        self, layout: Layout, n_features: int | None, dtype: Float, n_bytes: int = 0
    ) -> None:
        self._layout, self._dtype, self._fixed_width = layout, dtype, n_features
        self._n_bytes = n_bytes
        self._width = n_features or 0
        self._n_rows = self._n_pairs = 0
        self._is_dense = layout != "sparse"
        self._cells = GrowingArray(dtype)  # dense: row after row
        self._values, self._indices = GrowingArray(dtype), GrowingArray(np.int32)  # CSR
        self._row_sizes = GrowingArray(np.int64)

    def append(self, block: TextBlock) -> None:
        """Add the rows of a block."""
        rows = block.rows
        width = self._fixed_width or max(self._width, block.max_index)
        self._n_pairs += len(rows.values)
        if self._is_dense and not self._worth_dense(self._n_rows + block.n_rows, width):
            # At most once, if the first rows were misleading.
            before = sparse.csr_array(self._take_dense())
            self._append_sparse(before.indptr, before.indices, before.data)
            self._is_dense = False
        if self._n_rows == 0:  # the others should be like the first block
            share = 1.1 * self._n_bytes / max(block.n_bytes, 1)
            self._cells.reserve(share * block.n_rows * width * self._is_dense)
            for array in (self._values, self._indices):
                array.reserve(share * np.count_nonzero(rows.values) * (not self._is_dense))
        if not self._is_dense:
            self._append_sparse(rows.indptr, rows.indices, rows.values)
        else:
            if self._n_rows and width > self._width:
                wide = np.zeros((self._n_rows, width), self._dtype)
                wide[:, : self._width] = self._take_dense()
                self._cells.append(wide.ravel())
            cells = rows.values
            if not block.complete or block.max_index != width:
                cells = np.zeros(block.n_rows * width, self._dtype)
                starts = np.repeat(np.arange(block.n_rows) * width, np.diff(rows.indptr))
                cells[starts + rows.indices] = rows.values
            self._cells.append(cells)
        self._width = width
        self._n_rows += block.n_rows

    def finish(self) -> NDArray[Any] | sparse.csr_array:
        """The whole matrix; this object must not be used afterwards."""
        if self._is_dense:
            return self._take_dense()
        shape = (self._n_rows, self._width)
        # Of the type of the indices, if it can be: SciPy would copy these to the larger type.
        index_type = np.int32 if len(self._values) <= np.iinfo(np.int32).max else np.int64
        indptr = np.zeros(self._n_rows + 1, index_type)
        np.cumsum(self._row_sizes.finish(), out=indptr[1:])
        X = sparse.csr_array(
            (self._values.finish(), self._indices.finish(), indptr), shape=shape, copy=False
        )
        X.has_canonical_format = True
        return X.toarray() if self._layout == "auto" and self._worth_dense(*shape) else X

    def _worth_dense(self, n_rows: int, width: int) -> bool:
        return self._layout == "dense" or self._n_pairs >= DENSE_FILL * n_rows * width

    def _take_dense(self) -> NDArray[Any]:
        """The dense rows so far, which are no longer held here."""
        rows: NDArray[Any] = self._cells.finish().reshape(self._n_rows, self._width)
        self._cells = GrowingArray(self._dtype)
        return rows

    def _append_sparse(
        self, indptr: NDArray[Any], indices: NDArray[Any], values: NDArray[Any]
    ) -> None:
        """Add CSR rows without written zeros, so that the result does not depend on the blocks."""
        stored = values != 0
        if not stored.all():
            indptr = np.concatenate(([0], np.cumsum(stored)))[indptr]
            indices, values = indices[stored], values[stored]
        self._row_sizes.append(np.diff(indptr))
        self._indices.append(indices)
        self._values.append(values)


class QueryIds:
    """One query id per row: integers if all of them are, otherwise (or on request) text."""

    def __init__(self, *, as_text: bool = False) -> None:
        self._integers = GrowingArray(np.int64)
        self._texts: list[tuple[NDArray[np.intp], NDArray[Any]]] = []
        self._is_text = as_text

    @classmethod
    def of(cls, block: TextBlock, *, as_text: bool) -> NDArray[Any]:
        """The ids of one block."""
        ids = cls(as_text=as_text)
        ids.append(block)
        return ids.finish()

    def append(self, block: TextBlock, rows: slice | NDArray[np.intp] = slice(None)) -> None:
        """Add the ids of a block, or of some of its rows."""
        kinds, starts = block.rows.qid_kind[rows], block.rows.qid_at[rows]
        first = len(self._integers)
        self._integers.append(block.rows.qid[rows])
        texts = np.flatnonzero(kinds == TEXT_QID)
        if len(texts):
            self._texts.append((first + texts, _tokens(block, starts[texts])))
            self._is_text = True

    def finish(self) -> NDArray[Any]:
        """All ids; this object must not be used afterwards."""
        integers = self._integers.finish()
        if not self._is_text:
            return integers
        dtype = np.result_type("U20", *(text.dtype for _, text in self._texts))
        ids: NDArray[Any] = integers.astype("U20").astype(dtype)
        for rows, text in self._texts:
            ids[rows] = text
        return ids


def _tokens(block: TextBlock, starts: NDArray[np.int64]) -> NDArray[Any]:
    """The ids that start at these bytes, as text; objects if one is longer than `LONG_ID`."""
    texts = []
    for at in starts.tolist():
        token: Any = _TOKEN.match(block.text, at)
        try:
            texts.append(token[0].decode())
        except UnicodeDecodeError as error:
            raise block.error(at, "the query id is not UTF-8. Save the file as UTF-8.") from error
    null = next((k for k, text in enumerate(texts) if "\0" in text), None)
    if null is not None:
        fault = "the query id has a null byte. Save the file as UTF-8 text."
        raise block.error(int(starts[null]), fault)
    return np.array(texts, dtype=object if max(map(len, texts)) > LONG_ID else np.str_)


class LetorBlocks(QueryBlocks[LetorData]):
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
        Approximate size of the features in a block; at least 1 MB of text is read. None:
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

    fault = LetorFormatError

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
        super().__init__(path, block_bytes, progress)
        self._dtype = check_arguments(n_features, "auto", dtype, fill)
        self._n_features, self._fill = n_features, fill

    @cached_property
    def survey(self) -> FileSurvey:
        """Counts of the file; the first access reads it once."""
        size, version = text_size(self.path), self.version()
        run_ids, run_lines = QueryIds(), GrowingArray(np.int64)  # of runs of equal ids
        counts = SpanSurvey()
        for block in self._blocks(self._n_features, size):
            counts = counts.with_block(block)
            if block.has_qid and block.n_rows:
                starts = run_starts(QueryIds.of(block, as_text=False))
                run_ids.append(block, starts)
                run_lines.append(block.line_numbers(starts))
        if counts.n_rows == 0:
            raise LetorFormatError(f"{self.path} has no rows: its lines are blank or comments.")
        width = self._n_features or counts.largest_index
        is_dense = counts.n_values >= DENSE_FILL * counts.n_rows * width
        ids, lines = run_ids.finish(), run_lines.finish()
        n_queries = self._count_queries(ids, lambda k: f"{self.path}, line {lines[k]}")
        layout: Literal["dense", "sparse"] = "dense" if is_dense else "sparse"
        return FileSurvey(
            version, counts.n_rows, n_queries, width, counts.text_ids, counts.n_bytes, layout
        )

    def _pieces(self) -> Iterator[LetorData]:
        """The rows of each block of text, in separate arrays."""
        survey = self.survey
        for block in self._blocks(survey.n_features, survey.n_bytes):
            if block.n_rows:
                X = FeatureMatrix(survey.layout, survey.n_features, self._dtype)
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


class SpanSurvey(NamedTuple):
    """Counts of the rows of a span; `has_ids` is None if there are none."""

    n_rows: int = 0
    n_values: int = 0
    largest_index: int = 0
    has_ids: bool | None = None
    text_ids: bool = False
    n_bytes: int = 0

    def with_block(self, block: TextBlock) -> SpanSurvey:
        """The counts after another block of text."""
        return SpanSurvey(
            self.n_rows + block.n_rows,
            self.n_values + len(block.rows.values),
            max(self.largest_index, block.max_index),
            block.has_qid,
            self.text_ids or bool((block.rows.qid_kind == TEXT_QID).any()),
            self.n_bytes + block.n_bytes,
        )


def survey_span(path: str, span: Span | None, n_features: int | None) -> SpanSurvey:
    """Read a span, or a whole file, once; raises `LetorFormatError` as `read_letor` does."""
    check_regular(path)
    with closing(parsed_blocks(path, n_features, np.float64, span)) as blocks:
        return reduce(SpanSurvey.with_block, blocks, SpanSurvey())


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


_ROWS_AT_A_TIME = 1024
_QUERY_ID = re.compile(r"[^\s#\x00-\x1f\ud800-\udfff]+")


def write_letor(
    path: str | os.PathLike[str],
    X: Any,
    y: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    comments: Sequence[str] | None = None,
) -> None:
    """Write rows as ``label qid:ID index:value # comment``, the format of `read_letor`.

    Each number is written as its shortest exact decimal text, so nothing is rounded. Zeros of X
    are not written, whether X is dense or sparse; if the last columns are all zero, pass
    `n_features` when reading. Text ids that all look like integers are read as integers, and
    blanks around a comment are lost.

    Time is linear in the nonzeros of X, about a million per second. The text is written to a
    temporary file that replaces `path` when complete: an error leaves `path` unchanged.

    Parameters
    ----------
    path : str or path-like
        The file to write; gzipped if the name ends in ``.gz``.
    X : array-like or sparse array of shape (n_rows, n_features)
        Features. Column 0 becomes feature 1.
    y : array-like of shape (n_rows,)
        Labels.
    qid : array-like of shape (n_rows,), optional
        Query ids: integers, or text without blanks and without ``#``.
    comments : sequence of str, optional
        One per row, without line breaks; empty ones are not written.

    Raises
    ------
    DataError
        For values that are not finite, different lengths, or ids or comments that could not be
        read again.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from rankwise.data import write_letor
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "train.txt")
    ...     write_letor(path, [[0.5, 3.0], [0.0, 0.1]], [2, 0], ["a", "a"], comments=["best", ""])
    ...     print(path.read_text(), end="")
    2 qid:a 1:0.5 2:3 # best
    0 qid:a 2:0.1
    """
    features = finite_matrix(X)
    n_rows = features.shape[0]
    heads = _row_heads(finite_numbers("y", y, n_rows), qid)
    tails = _row_tails(comments, n_rows)
    with ExitStack() as stack:
        file: Any = stack.enter_context(open(stack.enter_context(replacing(path)), "wb"))
        if Path(path).suffix == ".gz":  # without a name and a time: equal rows are equal bytes
            file = stack.enter_context(gzip.GzipFile("", "wb", 6, file, mtime=0))
        for start in range(0, n_rows, _ROWS_AT_A_TIME):
            stop = min(start + _ROWS_AT_A_TIME, n_rows)
            bodies = _pairs(features[start:stop])
            lines = map("".join, zip(heads[start:stop], bodies, tails[start:stop], strict=True))
            file.write("".join(lines).encode())


def _row_heads(labels: NDArray[np.float64], qid: ArrayLike | None) -> list[str]:
    """Label and query id of every row."""
    numbers = [repr(label).removesuffix(".0") for label in labels.tolist()]
    if qid is None:
        return numbers
    groups = QueryGroups.of(qid, len(labels))
    ids = [f" qid:{_query_id(name)}" for name in groups.names.tolist()]
    if len(set(ids)) < len(ids):
        twice = next(text for k, text in enumerate(ids) if text in ids[:k])
        raise DataError(
            f"Two query ids are both written as{twice}: ids of a file are text. Use one type."
        )
    return [number + ids[code] for number, code in zip(numbers, groups.codes.tolist(), strict=True)]


def _query_id(name: object) -> str:
    if isinstance(name, bytes):
        name = name.decode(errors="surrogateescape")
    text = str(name)
    if not _QUERY_ID.fullmatch(text):
        raise DataError(
            f"The query id {text!r} cannot be written: an id must not be empty and must not "
            "contain blanks, '#' or control characters."
        )
    return text


def _row_tails(comments: Sequence[str] | None, n_rows: int) -> list[str]:
    """Comment and line end of every row."""
    if comments is None:
        return ["\n"] * n_rows
    if len(comments) != n_rows:
        raise DataError(
            f"comments must have one entry per row of X: got {len(comments)} for {n_rows} rows."
        )
    for row, comment in enumerate(comments):
        if "\n" in comment or "\r" in comment:
            raise DataError(f"The comment of row {row} contains a line break: {comment!r}.")
    return [f" # {comment}\n" if comment else "\n" for comment in comments]


def _pairs(features: Any) -> Iterator[str]:
    """The index:value pairs of every row, each with a blank before it."""
    rows = sparse.csr_array(features).astype(np.float64)
    rows.sum_duplicates()  # sorts the indices as well
    rows.eliminate_zeros()
    pairs = [
        f" {index}:{value!r}"
        for index, value in zip((rows.indices + 1).tolist(), rows.data.tolist(), strict=True)
    ]
    for start, stop in pairwise(rows.indptr.tolist()):
        yield "".join(pairs[start:stop]).replace(".0 ", " ").removesuffix(".0")
