"""Blocks of rows that never split a query."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankwise.backends.arrays import is_sparse
from rankwise.data._described_rows import DescribedRows
from rankwise.graph.id_arrays import join_ids

Rows = TypeVar("Rows", bound=DescribedRows)

BLOCK_BYTES = 32 * 2**20  # of features in a block, about

FileVersion = tuple[int, int]
"""Size and modification time of a file, to notice changes between two passes over it."""


def file_version(path: str | os.PathLike[str]) -> FileVersion:
    """The version of a file as it is now."""
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns


def whole_queries(pieces: Iterator[Rows], block_bytes: int) -> Iterator[Rows]:
    """Join and cut pieces of any size into blocks of about `block_bytes`, at ends of queries."""
    held_back: list[Rows] = []
    held, enough = 0, block_bytes
    for piece in pieces:
        held_back.append(piece)
        held += _size(piece.X)
        if held < enough:
            continue
        whole = _joined(held_back)
        cut = len(whole.y) if whole.qid is None else int(run_starts(whole.qid)[-1])
        if cut == 0:  # a single query so far, longer than a block
            held_back, enough = [whole], 2 * held
            continue
        block, rest = _rows(whole, slice(0, cut)), _rows(whole, slice(cut, None))
        del whole, held_back
        yield block
        held_back, enough = [rest], block_bytes
        held = _size(rest.X)
    whole = _joined(held_back)
    if len(whole.y):
        yield whole


def run_starts(ids: Any) -> NDArray[np.intp]:
    """Where runs of equal ids start."""
    return np.flatnonzero(np.concatenate((np.ones(min(len(ids), 1), bool), ids[1:] != ids[:-1])))


def _size(X: Any) -> int:
    """Bytes of features."""
    return int(X.data.nbytes + X.indices.nbytes) if is_sparse(X) else int(X.nbytes)


def _joined(pieces: list[Any]) -> Any:
    if len(pieces) == 1:
        return pieces[0]
    Xs: list[Any] = [piece.X for piece in pieces]
    X = sparse.vstack(Xs, format="csr") if is_sparse(Xs[0]) else np.concatenate(Xs)
    ids: list[Any] = [piece.qid for piece in pieces]
    qid = None if ids[0] is None else join_ids(ids)
    return replace(pieces[0], X=X, y=np.concatenate([piece.y for piece in pieces]), qid=qid)


def _rows(data: Any, rows: slice) -> Any:
    qid = None if data.qid is None else data.qid[rows].copy()
    return replace(data, X=data.X[rows].copy(), y=data.y[rows].copy(), qid=qid)
