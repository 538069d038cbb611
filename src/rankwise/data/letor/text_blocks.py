"""A LETOR file as checked blocks of whole lines, parsed by a few threads, in file order.

The fast parser only finds a line that cannot be read; `explain`, a slow one, finds the reason."""

from __future__ import annotations

import gzip
import io
import math
import os
import re
import sys
import zlib
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rankwise.data.letor.parsing import MAX_INDEX, NO_QID, PADDING, Null, ParsedRows, parse_lines
from rankwise.data.tables.formats import SPREADSHEETS, encoding_of
from rankwise.errors import LetorFormatError
from rankwise.files import check_regular

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
        self._path, self._span_start = path, span_start
        self._allocate(n_bytes)

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

    def fill(self, stream: _Stream, carry: bytes) -> tuple[bytes, bool]:
        """Read whole lines after the `carry` of the previous block.

        Returns the start of a line for the next block, and whether there may be more text.
        """
        n = len(carry)
        if n + PADDING >= len(self.text):
            self._allocate(2 * n)
        self.text[:n] = carry
        while True:
            room = len(self.text) - PADDING - 1  # one for a missing last newline
            n = stream.read_into(self.text, n, room)
            if n < room:
                if n and self.text[n - 1] != ord("\n"):
                    self.text[n] = ord("\n")
                    n += 1
                self.n_bytes = n
                return b"", False
            cut = self.text.rfind(b"\n", 0, n) + 1
            if cut:
                self.n_bytes = cut
                return bytes(self.text[cut:n]), True
            line = self.text
            self._allocate(2 * len(line))
            self.text[:n] = line[:n]

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

        `has_qid` is that of the previous block.
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

    def _allocate(self, n_bytes: int) -> None:
        self.text = bytearray(n_bytes + PADDING)
        self._scratch = ParsedRows.allocate(n_bytes, n_lines=n_bytes // 256)


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
    n_workers = min(_n_cpus(), MAX_WORKERS)
    start = span[0] if span else 0
    idle = [TextBlock(path, BLOCK_BYTES, start) for _ in range(n_workers + 2)]
    pending: deque[tuple[TextBlock, Future[None]]] = deque()
    carry, more, is_first = b"", True, True
    n_lines, has_qid = 0, None
    with _open(path, span) as stream, ThreadPoolExecutor(n_workers) as pool:
        while more or pending:
            while more and idle:
                block = idle.pop()
                carry, more = block.fill(stream, carry)
                if is_first and block.text.startswith(_UTF8_MARK):
                    block.text[: len(_UTF8_MARK)] = b"   "
                is_first = False
                pending.append((block, pool.submit(block.parse, limit, null)))
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


class _Stream:
    """Bytes of an open file; at most `left` of them."""

    def __init__(self, file: Any, left: int = sys.maxsize) -> None:
        self._file, self._left = file, left

    def read_into(self, text: bytearray, n: int, room: int) -> int:
        """Read after the first `n` bytes until `room` is full or no more come; the new length."""
        with memoryview(text) as view:
            while n < room and (count := self._file.readinto(view[n:room][: self._left])):
                n += count
                self._left -= count
        return n


@contextmanager
def _open(path: str, span: Span | None) -> Iterator[_Stream]:
    """The text of a file, decompressed if necessary, or of a span of its bytes."""
    if Path(path).is_dir():
        raise LetorFormatError(f"{path} is a folder. Give one file in it.")
    with open(path, "rb") as file:
        if not _is_gzipped(path, file):
            start, stop = span or (0, sys.maxsize)
            if span:
                file.seek(start)
            yield _Stream(file, stop - start)
            return
        try:
            with gzip.open(file) as unpacked:
                yield _Stream(unpacked)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise LetorFormatError(
                f"{path} is a damaged gzip file, or a part of one ({error}). Download or copy it "
                "again."
            ) from error


def _n_cpus() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)
_INDEX = re.compile(r"0*(\d{1,18})", re.ASCII)
_NOT_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_ARCHIVES = {b"PK\x03\x04": "zip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
_MISSING = (
    "A missing value is written as NULL, and read as the number that fill= of read_letor or --fill "
    "on the command line gives; boosted trees take nan."
)
_ROW = "A row reads 'label qid:ID index:value index:value ...'."


def explain(line: bytes, *, n_features: int | None, dtype: DTypeLike) -> str:
    """The first error in a line, and what to do about it."""
    content = line.partition(b"#")[0]
    text = content.decode("utf-8", "replace")
    if _NOT_TEXT.search(content) or "\ufffd" in text:
        return (
            "this is not UTF-8 text. Only plain or gzipped LETOR text can be read; if it is in "
            f"another encoding, for example {encoding_of(line) or 'UTF-16'}, save it as UTF-8."
        )
    label, *pairs = [token for token in re.split(r"[ \t\r\n]+", text) if token] or [""]
    if fault := _number_fault(label, np.float64):
        return f"the label {_short(label)} {fault}. {_ROW}"
    if pairs and pairs[0].startswith("qid:") and pairs.pop(0) == "qid:":
        return "'qid:' has no id after it. Write it without blanks, for example qid:12."
    last = 0
    for pair in pairs:
        name, colon, value = pair.partition(":")
        if name == "qid":
            return f"{_short(pair)} comes after a feature or another qid. {_ROW}"
        digits = _INDEX.fullmatch(name)
        index = int(digits[1]) if colon and digits else -1
        if not 0 <= index <= MAX_INDEX:
            return (
                f"{_short(pair)} is not an index:value pair, with an index from 1 to {MAX_INDEX} "
                f"in plain digits. {_ROW}"
            )
        if index <= last:
            return (
                f"feature {index} is out of order: indices start at 1 and ascend within a row, "
                "each once. Sort the pairs of each row; if the file counts from 0, add one to "
                "every index."
            )
        if n_features is not None and index > n_features:
            return (
                f"feature {index} exceeds n_features={n_features}. Give a larger n_features, "
                "or None to take it from the file."
            )
        if value == "NULL" or (fault := _number_fault(value, dtype)):
            missing = value == "NULL" or _NOT_FINITE.fullmatch(value)
            fault = "is a missing value" if value == "NULL" else fault
            hint = f" {_MISSING}" if missing else ""
            return f"the value {_short(value)} of feature {index} {fault}.{hint}"
        last = index
    return f"the line cannot be read. {_ROW}"


def archive(start: bytes) -> str | None:
    """The kind of archive that starts with these bytes; None if there is none."""
    return next((kind for magic, kind in _ARCHIVES.items() if start.startswith(magic)), None)


def _number_fault(text: str, dtype: DTypeLike) -> str | None:
    if _NOT_FINITE.fullmatch(text):
        return "is not finite: replace it, or leave out the pair or the row"
    if not _NUMBER.fullmatch(text):
        return "is not a number"
    if abs(float(text)) > float(np.finfo(dtype).max):
        return f"is too large for {np.dtype(dtype)}"
    return None


def _short(token: str) -> str:
    return repr(token if len(token) <= 40 else token[:37] + "...")
