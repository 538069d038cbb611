"""Write ranking data as LETOR (svmlight) text."""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from rankwise.data.query_rows import finite_matrix
from rankwise.errors import DataError
from rankwise.files import replacing
from rankwise.graph.query_groups import QueryGroups

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
    heads = _row_heads(_check_labels(y, n_rows), qid)
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


def _check_labels(y: ArrayLike, n_rows: int) -> NDArray[np.float64]:
    labels = np.asarray(y, dtype=np.float64)
    if labels.shape != (n_rows,):
        raise DataError(
            f"y must have one label per row of X: got shape {labels.shape} for {n_rows} rows."
        )
    if not np.isfinite(labels).all():
        row = int(np.argmin(np.isfinite(labels)))
        raise DataError(f"y is {labels[row]} in row {row}: labels must be finite.")
    return labels


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
