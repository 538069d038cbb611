"""Parsed blocks of a LETOR file, refused where they cannot be used, with file and line."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing

import numpy as np
from numpy.typing import DTypeLike

from rankwise.data.letor.collecting import QueryIds
from rankwise.data.letor.faults import explain
from rankwise.data.letor.parsing import MAX_INDEX, NO_QID
from rankwise.data.letor.text_blocks import Block, parsed_blocks
from rankwise.errors import LetorFormatError, ParameterError


def checked_blocks(
    path: str,
    n_features: int | None,
    dtype: type[np.float32 | np.float64],
    span: tuple[int, int] | None = None,
) -> Generator[tuple[Block, int, bool | None], None, None]:
    """(block, lines before it, whether rows have query ids); None: no row so far.

    With a `span` of bytes, lines before it are counted only where something is wrong.
    """
    has_qid: bool | None = None
    n_lines = 0
    limit = MAX_INDEX if n_features is None else int(n_features)
    with closing(parsed_blocks(path, limit, span=span)) as blocks:
        for block in blocks:
            try:
                _check_lines(path, n_lines, block, n_features, dtype)
                has_qid = _check_qid(path, n_lines, block, has_qid)
            except LetorFormatError:
                if span is None:
                    raise
                n_lines += lines_before(path, span[0])
                _check_lines(path, n_lines, block, n_features, dtype)
                _check_qid(path, n_lines, block, has_qid)
            yield block, n_lines, has_qid
            n_lines += block.n_lines


def lines_before(path: str, byte: int) -> int:
    """How many lines end in the first bytes of a file."""
    count, left = 0, byte
    with open(path, "rb") as file:
        while left > 0 and (text := file.read(min(left, 1 << 20))):
            count += text.count(b"\n")
            left -= len(text)
    return count


def append_ids(qid: QueryIds, block: Block, path: str, n_lines: int) -> None:
    """Add the ids of a block with `n_lines` lines before it."""
    try:
        qid.append(block)
    except UnicodeDecodeError as error:
        at = block.text.index(b"qid:" + error.object)
        raise LetorFormatError(
            f"{place(path, n_lines, block, at)}: the query id is not UTF-8. Save the file as UTF-8."
        ) from error


def check_arguments(
    n_features: int | None, layout: str, dtype: DTypeLike
) -> type[np.float32 | np.float64]:
    """The type of the features; refuses arguments that make no sense."""
    if n_features is not None and (
        not isinstance(n_features, int | np.integer) or isinstance(n_features, bool)
    ):
        raise ParameterError(f"n_features must be a whole number or None: got {n_features!r}.")
    if n_features is not None and n_features < 1:
        raise ParameterError(f"n_features must be at least 1: got {n_features}.")
    if layout not in ("auto", "dense", "sparse"):
        raise ParameterError(f"layout must be 'auto', 'dense' or 'sparse': got {layout!r}.")
    if np.dtype(dtype) == np.float64:
        return np.float64
    if np.dtype(dtype) == np.float32:
        return np.float32
    raise ParameterError(f"dtype must be float64 or float32: got {np.dtype(dtype)}.")


def _check_lines(
    path: str,
    n_lines: int,
    block: Block,
    n_features: int | None,
    dtype: type[np.float32 | np.float64],
) -> None:
    """Refuse a line that could not be read, or a value that X cannot hold."""
    fault_at = block.fault_at
    if dtype is np.float32:
        too_large = np.abs(block.rows.values[: block.n_pairs]) > np.finfo(dtype).max
        if too_large.any():
            ends = block.rows.indptr[1 : block.n_rows + 1]
            row = np.searchsorted(ends, np.argmax(too_large), side="right")
            fault_at = int(block.rows.row_at[row])
    if fault_at >= 0:
        reason = explain(block.line(fault_at), n_features=n_features, dtype=dtype)
        raise LetorFormatError(f"{place(path, n_lines, block, fault_at)}: {reason}")


def _check_qid(path: str, n_lines: int, block: Block, has_qid: bool | None) -> bool | None:
    """Whether rows have query ids: all of them or none. None: no row so far."""
    kinds = block.rows.qid_kind[: block.n_rows]
    if len(kinds) == 0:
        return has_qid
    has = kinds != NO_QID
    if has_qid is None:
        has_qid = bool(has[0])
    if (has != has_qid).any():
        at = int(block.rows.row_at[np.argmax(has != has_qid)])
        one, others = ("no qid", "have one") if has_qid else ("a qid", "have none")
        raise LetorFormatError(
            f"{place(path, n_lines, block, at)}: this row has {one}, but the rows before it "
            f"{others}. Write qid:ID after the label of every row, or of none."
        )
    return has_qid


def place(path: str, n_lines: int, block: Block, at: int) -> str:
    """The file and line of byte `at` in a block with `n_lines` lines before it."""
    return f"{path}, line {n_lines + block.line_number(at)}"
