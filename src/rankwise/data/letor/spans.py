"""Parts of LETOR files that can be read one by one, by different processes."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwise.data.letor.reading import LetorData, read_lines

GZIP = b"\x1f\x8b"


@dataclass(frozen=True)
class LetorSpan:
    """Whole lines of a LETOR file: all of it, or the bytes from `start` to `stop`."""

    path: str
    start: int = 0
    stop: int | None = None

    @property
    def bytes(self) -> tuple[int, int] | None:
        return None if self.stop is None else (self.start, self.stop)


def letor_spans(path: str, n_bytes: int) -> list[LetorSpan]:
    """A file in spans of some `n_bytes` each, cut at ends of lines; a packed file is one span."""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        packed = file.read(2) == GZIP
        if packed or size <= n_bytes:
            return [LetorSpan(path)]
        cuts = [0]
        for at in range(n_bytes, size, n_bytes):
            file.seek(max(at, cuts[-1]) - 1)
            file.readline()
            if cuts[-1] < file.tell() < size:
                cuts.append(file.tell())
    return [LetorSpan(path, *ends) for ends in zip(cuts, [*cuts[1:], size], strict=True)]


@dataclass(frozen=True)
class SpanSurvey:
    """What a first look at a span tells: rows, written values, and what ids are like.

    `has_ids` is None where there are no rows.
    """

    n_rows: int
    n_values: int
    largest_index: int
    has_ids: bool | None
    text_ids: bool


def survey_span(span: LetorSpan, n_features: int | None) -> SpanSurvey:
    """One pass over the text; refuses what cannot be read, with file and line.

    With `n_features`, no row may have one beyond it.
    """
    from rankwise.data.letor.checked import checked_blocks
    from rankwise.data.letor.parsing import TEXT_QID

    n_rows = n_values = largest = 0
    has_ids: bool | None = None
    text_ids = False
    with closing(checked_blocks(span.path, n_features, np.float64, span.bytes)) as blocks:
        for block, _, known in blocks:
            has_ids = known
            n_rows += block.n_rows
            n_values += block.n_pairs
            largest = max(largest, block.max_index)
            text_ids |= bool((block.rows.qid_kind[: block.n_rows] == TEXT_QID).any())
    return SpanSurvey(n_rows, n_values, largest, has_ids, text_ids)


def first_line(span: LetorSpan) -> int:
    """The number of the first line of a span in its file, counted from 1."""
    from rankwise.data.letor.checked import lines_before

    return lines_before(span.path, span.start) + 1


def read_span(span: LetorSpan, n_features: int, layout: Any, *, text_ids: bool) -> LetorData:
    """The rows of a span."""
    return read_lines(span.path, n_features, layout, np.float64, span=span.bytes, text_ids=text_ids)
