"""Spans of LETOR files that several processes can read independently."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwise.data.letor.reading import LetorData, read_lines


@dataclass(frozen=True)
class LetorSpan:
    """Whole lines of a LETOR file: all of it, or the bytes from `start` to `stop`."""

    path: str
    start: int = 0
    stop: int | None = None

    @property
    def bytes(self) -> tuple[int, int] | None:
        """First byte and the byte after the last; None for a whole file."""
        return None if self.stop is None else (self.start, self.stop)


def letor_spans(path: str, n_bytes: int) -> list[LetorSpan]:
    """Cut a file at ends of lines into spans of about `n_bytes`; a gzipped file is one span."""
    from rankwise.data.letor.text_blocks import text_size

    size = text_size(path)
    if size <= n_bytes:
        return [LetorSpan(path)]
    cuts = [0]
    with open(path, "rb") as file:
        for at in range(n_bytes, size, n_bytes):
            file.seek(max(at, cuts[-1]) - 1)
            file.readline()
            if cuts[-1] < file.tell() < size:
                cuts.append(file.tell())
    return [LetorSpan(path, *ends) for ends in zip(cuts, [*cuts[1:], size], strict=True)]


@dataclass(frozen=True)
class SpanSurvey:
    """Counts of the rows and written values of a span, and the kind of its query ids.

    `has_ids` is None if there are no rows.
    """

    n_rows: int
    n_values: int
    largest_index: int
    has_ids: bool | None
    text_ids: bool


def survey_span(span: LetorSpan, n_features: int | None) -> SpanSurvey:
    """Read a span once; raise `LetorFormatError` for what cannot be read.

    With `n_features`, a larger feature index is an error too.
    """
    from rankwise.data.letor.parsing import TEXT_QID
    from rankwise.data.letor.text_blocks import parsed_blocks

    n_rows = n_values = largest = 0
    has_ids: bool | None = None
    text_ids = False
    with closing(parsed_blocks(span.path, n_features, np.float64, span.bytes)) as blocks:
        for block in blocks:
            has_ids = block.has_qid
            n_rows += block.n_rows
            n_values += len(block.rows.values)
            largest = max(largest, block.max_index)
            text_ids |= bool((block.rows.qid_kind == TEXT_QID).any())
    return SpanSurvey(n_rows, n_values, largest, has_ids, text_ids)


def first_line(span: LetorSpan) -> int:
    """The number of the first line of a span in its file, counted from 1."""
    from rankwise.data.letor.text_blocks import count_lines

    return count_lines(span.path, span.start) + 1


def read_span(span: LetorSpan, n_features: int, layout: Any, *, text_ids: bool) -> LetorData:
    """The rows of a span."""
    return read_lines(span.path, n_features, layout, np.float64, span=span.bytes, text_ids=text_ids)
