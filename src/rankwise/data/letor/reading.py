"""Read LETOR (svmlight) text into memory."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from rankwise.errors import LetorFormatError, ParameterError
from rankwise.parameters import AnyOf, Choice, Whole, check_value

if TYPE_CHECKING:
    from rankwise.data.letor.text_blocks import TextBlock


@dataclass(frozen=True, eq=False)
class LetorData:
    """The rows of a LETOR file.

    Attributes
    ----------
    X : ndarray or csr_array of shape (n_rows, n_features)
        Features; feature 1 of the file is column 0.
    y : ndarray of shape (n_rows,)
        Labels, float64.
    qid : ndarray of shape (n_rows,) or None
        Query ids: int64 if every id is an integer of at most 64 bits, otherwise text; None if the
        file has none.
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
    qid: NDArray[np.int64] | NDArray[np.str_] | None
    comments: list[str] | None = None


def read_letor(
    path: str | os.PathLike[str],
    *,
    n_features: int | None = None,
    layout: Literal["auto", "dense", "sparse"] = "auto",
    comments: bool = False,
    dtype: DTypeLike = np.float64,
) -> LetorData:
    """Read LETOR text, plain or gzipped: rows of ``label qid:ID index:value ... # comment``.

    Blank lines and lines with only a comment are skipped. Feature indices start at 1 and ascend
    within a row; features that are not written are zero. Numbers are read exactly as by Python's
    ``float(text)``.

    Time is linear in the size of the file: all processors parse blocks of whole lines, at some
    hundred MB/s each. Memory: the result and 2 to 10 MB per processor, unless ``layout="auto"``
    has to convert because the first rows were misleading.

    Parameters
    ----------
    path : str or path-like
        The file. Gzip is recognized by its first bytes, not by its name.
    n_features : int, optional
        Number of columns of X. By default the largest index in the file: give it for a part of
        a data set in which the last features may be missing. A larger index is an error.
    layout : {"auto", "dense", "sparse"}, default="auto"
        "auto" is dense if at least a third of the cells are written, and CSR otherwise: a dense
        X then takes at most twice the memory of CSR and is several times as fast to work with.
        Zeros are not stored in CSR, even if they are written in the file.
    comments : bool, default=False
        Whether to keep the comments. Bytes that are not UTF-8 are replaced.
    dtype : {float64, float32}, default=float64
        Type of X. float32 rounds the float64 values.

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
    float_type = check_arguments(n_features, layout, dtype)
    return read_lines(os.fspath(path), n_features, layout, float_type, comments=comments)


def read_lines(
    path: str,
    n_features: int | None,
    layout: Literal["auto", "dense", "sparse"],
    dtype: type[np.float32 | np.float64],
    *,
    comments: bool = False,
    span: tuple[int, int] | None = None,
    text_ids: bool = False,
) -> LetorData:
    """As `read_letor`, for a span of bytes that are whole lines; ids are text on request."""
    # Numba takes longer to import than the rest of this package.
    from rankwise.data.letor.collecting import FeatureMatrix, GrowingArray, QueryIds
    from rankwise.data.letor.text_blocks import parsed_blocks, text_size

    n_bytes = text_size(path) if span is None else span[1] - span[0]
    X = FeatureMatrix(layout, n_features, dtype, n_bytes)
    y = GrowingArray(np.float64)
    qid = QueryIds(as_text=text_ids)
    texts: list[str] | None = [] if comments else None
    has_qid: bool | None = None
    n_lines = 0
    with closing(parsed_blocks(path, n_features, dtype, span)) as blocks:
        for block in blocks:
            X.append(block)
            y.append(block.rows.labels)
            has_qid = block.has_qid
            if has_qid:
                qid.append(block)
            if texts is not None:
                texts.extend(_comments(block))
            n_lines += block.n_lines
    if len(y) == 0:
        raise LetorFormatError(
            f"{path} has no rows: {n_lines} lines, all of them blank or comments."
        )
    return LetorData(X.finish(), y.finish(), qid.finish() if has_qid else None, texts)


def count_features(path: str | os.PathLike[str]) -> int:
    """The largest feature index in a file: one pass, in the memory of a few blocks."""
    from rankwise.data.letor.text_blocks import parsed_blocks

    with closing(parsed_blocks(os.fspath(path), None, np.float64)) as blocks:
        return max((block.max_index for block in blocks), default=0)


def check_arguments(
    n_features: int | None, layout: str, dtype: DTypeLike
) -> type[np.float32 | np.float64]:
    """Check the arguments of `read_letor`; returns the type of the features."""
    check_value("n_features", n_features, AnyOf(Whole(1), None))
    check_value("layout", layout, Choice("auto", "dense", "sparse"))
    if np.dtype(dtype) not in (np.float64, np.float32):
        raise ParameterError(f"dtype must be float64 or float32: got {np.dtype(dtype)}.")
    return np.float64 if np.dtype(dtype) == np.float64 else np.float32


def _comments(block: TextBlock) -> list[str]:
    """The text after the ``#`` of each row."""
    text = block.text
    return [
        text[at : text.index(b"\n", at)].strip(b" \t\r").decode("utf-8", "replace")
        if at >= 0
        else ""
        for at in block.rows.comment_at.tolist()
    ]
