"""A LETOR file in blocks of whole lines, parsed by a few threads and given in file order."""

from __future__ import annotations

import gzip
import math
import os
import re
import zlib
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from rankwise.data.letor.faults import archive
from rankwise.data.letor.parsing import PADDING, Scratch, parse_lines
from rankwise.errors import LetorFormatError

BLOCK_BYTES = 1 << 20
"""Text per block: large enough to hide the hand-over between threads, small enough for caches."""

MAX_WORKERS = 8
"""The one thread that reads cannot feed more parsers than this."""

_GZIP_MAGIC = b"\x1f\x8b"
_UTF8_MARK = b"\xef\xbb\xbf"
_TOKEN = re.compile(rb"[^ \t\r\n#]+")


class Block:
    """Some whole lines of text and the arrays they are parsed to; both are used again.

    Attributes
    ----------
    text : bytearray
        The lines are ``text[:n_bytes]``, the last of them with its newline.
    rows : Scratch
        What was parsed, valid for the first `n_rows` rows.
    fault_at : int
        A byte of the first line that could not be read; -1 if all could.
    n_lines : int
        Lines, those without a row included.
    complete : bool
        Whether every row has the features 1 to `max_index`.
    n_times : float
        Size of the file over that of the block, for its first block; 0 if not known.
    """

    def __init__(self, n_bytes: int) -> None:
        self._allocate(n_bytes)
        self.n_bytes = self.n_lines = self.n_rows = self.max_index = 0
        self.fault_at = -1
        self.complete = True
        self.n_times = 0.0

    def _allocate(self, n_bytes: int) -> None:
        self.text = bytearray(n_bytes + PADDING)
        self.rows = Scratch.allocate(n_bytes, n_lines=n_bytes // 256)

    @property
    def codes(self) -> NDArray[np.uint8]:
        """The text as numbers."""
        return np.frombuffer(self.text, dtype=np.uint8)

    @property
    def n_pairs(self) -> int:
        return int(self.rows.indptr[self.n_rows])

    def line(self, at: int) -> bytes:
        """The line around byte `at`."""
        start = self.text.rfind(b"\n", 0, at) + 1
        return bytes(self.text[start : self.text.index(b"\n", at)])

    def line_number(self, at: int) -> int:
        """How many lines of the block start at or before byte `at`."""
        return self.text.count(b"\n", 0, at) + 1

    def fill(self, stream: BinaryIO, carry: bytes) -> tuple[bytes, bool]:
        """Take whole lines from `stream`, behind the `carry` of the block before.

        Returns the line that was cut, for the next block, and whether there may be more.
        """
        n = len(carry)
        if n + PADDING >= len(self.text):
            self._allocate(2 * n)
        self.text[:n] = carry
        while True:
            room = len(self.text) - PADDING - 1  # one for a newline that may be missing
            n = _read_into(stream, self.text, n, room)
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

    def parse(self, limit: int) -> None:
        """Parse the text, with feature indices up to `limit`."""
        self.n_lines = int(np.count_nonzero(self.codes[: self.n_bytes] == ord("\n")))
        if self.n_lines > len(self.rows.labels):
            self.rows = Scratch.allocate(len(self.text), 2 * self.n_lines)
        self.fault_at, self.n_rows, n_inexact, self.max_index, self.complete = parse_lines(
            self.codes, self.n_bytes, limit, self.rows
        )
        for slot, at in self.rows.inexact[:n_inexact].tolist():
            token = _TOKEN.match(self.text, at)
            value = float(token[0]) if token else math.nan
            if not math.isfinite(value):
                self.fault_at = at
                break
            if slot < 0:
                self.rows.labels[-1 - slot] = value
            else:
                self.rows.values[slot] = value


def parsed_blocks(
    path: str,
    limit: int,
    *,
    block_bytes: int | None = None,
    n_workers: int | None = None,
    span: tuple[int, int] | None = None,
) -> Generator[Block, None, None]:
    """Parse a file block by block; each block is good until the next one is asked for.

    A few blocks are in flight at a time, whatever the size of the file. With a `span`, only the
    bytes from its start to its end are read, which must be whole lines of text that is not packed.
    """
    n_workers = n_workers or min(_n_cpus(), MAX_WORKERS)
    idle = [Block(block_bytes or BLOCK_BYTES) for _ in range(n_workers + 2)]
    pending: deque[tuple[Block, Future[None]]] = deque()
    carry, more, first = b"", True, True
    with _open(path) as (stream, n_bytes), ThreadPoolExecutor(n_workers) as pool:
        if span is not None:
            stream, n_bytes = cast(BinaryIO, _Span(stream, *span)), span[1] - span[0]
        while more or pending:
            while more and idle:
                block = idle.pop()
                carry, more = block.fill(stream, carry)
                if first:
                    first = False
                    block.n_times = n_bytes / max(block.n_bytes, 1)
                    if block.text.startswith(_UTF8_MARK):
                        block.text[: len(_UTF8_MARK)] = b"   "
                pending.append((block, pool.submit(block.parse, limit)))
            block, parsing = pending.popleft()
            parsing.result()
            yield block
            idle.append(block)


def text_size(path: str) -> int:
    """Bytes of text in a file; 0 where it is packed, and nobody knows before the end."""
    with _open(path) as (_, n_bytes):
        return n_bytes


@contextmanager
def _open(path: str) -> Iterator[tuple[BinaryIO, int]]:
    """The bytes of a text file, unpacked if it starts like gzip, and how many (0: not known)."""
    if Path(path).is_dir():
        raise LetorFormatError(f"{path} is a folder. Give one file in it.")
    with open(path, "rb") as file:
        start = file.peek(8)
        if not start:
            raise LetorFormatError(f"{path} is empty.")
        if kind := archive(start):
            raise LetorFormatError(
                f"{path} is not text but a {kind} archive. Unpack it first; plain and gzipped "
                "text can be read."
            )
        if not start.startswith(_GZIP_MAGIC):
            yield file, os.fstat(file.fileno()).st_size
            return
        try:
            with gzip.open(file) as unpacked:
                yield cast(BinaryIO, unpacked), 0
        except EOFError as error:
            raise LetorFormatError(
                f"{path} is cut off: the gzip stream has no end. Fetch or copy it again."
            ) from error
        except (gzip.BadGzipFile, zlib.error) as error:
            raise LetorFormatError(
                f"{path} is a damaged gzip file ({error}). Fetch or copy it again."
            ) from error


class _Span:
    """Some of the bytes of a file."""

    def __init__(self, stream: BinaryIO, start: int, stop: int) -> None:
        stream.seek(start)
        self._stream, self._left = stream, stop - start

    def readinto(self, view: memoryview) -> int:
        """As that of files."""
        count = self._stream.readinto(view[: self._left])  # type: ignore[attr-defined]
        self._left -= count
        return int(count)


def _read_into(stream: BinaryIO, text: bytearray, n: int, room: int) -> int:
    """Read behind the first `n` bytes until `room` is full or the stream ends; bytes now there."""
    with memoryview(text) as view:
        while n < room:
            count = stream.readinto(view[n:room])  # type: ignore[attr-defined]
            if not count:
                break
            n += count
    return n


def _n_cpus() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
