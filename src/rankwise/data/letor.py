"""Reading ranking data in LETOR (svmlight) text."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from rankwise.data._letor_faults import explain
from rankwise.errors import LetorFormatError, ParameterError

if TYPE_CHECKING:
    from rankwise.data._letor_blocks import Block


@dataclass(frozen=True, eq=False)
class LetorData:
    """What a LETOR file holds.

    Attributes
    ----------
    X : ndarray or csr_array of shape (n_rows, n_features)
        Features; feature 1 of the file is column 0.
    y : ndarray of shape (n_rows,)
        Labels, float64.
    qid : ndarray of shape (n_rows,) or None
        Query ids: int64 if every id is an integer of at most 64 bits, text otherwise; None if the
        file has none.
    comments : list of str or None
        What stands after ``#`` in each row, without the blanks around it (empty where there is
        no comment); None unless asked for.
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
    within a row; features that are not written are zero. Every number is the double nearest to
    its decimal text, exactly Python's ``float(text)``.

    Linear in the size of the file: it is read in blocks of whole lines, which all processors
    parse (some hundred MB/s each). Memory: the result and some 2 to 10 MB per processor, except
    where ``layout="auto"`` finds out late that it began with the wrong layout and converts.

    Parameters
    ----------
    path : str or path-like
        The file. Gzip is recognized by its first bytes, not by its name.
    n_features : int, optional
        Columns of X. By default the largest index in the file: give it for a part of a data set
        in which the last features may be missing. An index beyond it is an error.
    layout : {"auto", "dense", "sparse"}, default="auto"
        "auto" is dense where at least a third of the cells are written, and CSR otherwise. At
        that fill a dense X takes twice the memory of CSR and is several times as fast to work
        with. Zeros are not stored in CSR, even if they are written in the file.
    comments : bool, default=False
        Whether to keep the comments. Bytes that are not UTF-8 are replaced.
    dtype : {float64, float32}, default=float64
        Type of X. float32 rounds the doubles.

    Returns
    -------
    LetorData
        With attributes `X`, `y`, `qid` and `comments`.

    Raises
    ------
    LetorFormatError
        If the file cannot be read, with its name, the line and what to do.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
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
    # Numba takes longer to import than the rest of this package.
    from rankwise.data._letor_blocks import parsed_blocks
    from rankwise.data._letor_collect import Growing, Matrix, QueryIds
    from rankwise.data._letor_parse import MAX_INDEX

    float_type = _check_arguments(n_features, layout, dtype)
    path = os.fspath(path)
    limit = MAX_INDEX if n_features is None else int(n_features)
    X = Matrix(layout, n_features, float_type)
    y = Growing(np.float64)
    qid = QueryIds()
    texts: list[str] | None = [] if comments else None
    has_qid: bool | None = None
    n_lines = 0
    with closing(parsed_blocks(path, limit)) as blocks:
        for block in blocks:
            _check_lines(path, n_lines, block, n_features, float_type)
            has_qid = _check_qid(path, n_lines, block, has_qid)
            X.append(block)
            y.append(block.rows.labels[: block.n_rows])
            if has_qid:
                try:
                    qid.append(block)
                except UnicodeDecodeError as error:
                    at = block.text.index(b"qid:" + error.object)
                    raise LetorFormatError(
                        f"{_place(path, n_lines, block, at)}: the query id is not UTF-8. "
                        "Save the file as UTF-8."
                    ) from error
            if texts is not None:
                texts.extend(_comments(block))
            n_lines += block.n_lines
    if len(y) == 0:
        raise LetorFormatError(
            f"{path} has no rows: {n_lines} lines, all of them blank or comments."
        )
    return LetorData(X.finish(), y.finish(), qid.finish() if has_qid else None, texts)


def _check_arguments(
    n_features: int | None, layout: str, dtype: DTypeLike
) -> type[np.float32 | np.float64]:
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
        raise LetorFormatError(f"{_place(path, n_lines, block, fault_at)}: {reason}")


def _check_qid(path: str, n_lines: int, block: Block, has_qid: bool | None) -> bool | None:
    """Whether rows have query ids: all of them or none. None: no row so far."""
    from rankwise.data._letor_parse import NO_QID

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
            f"{_place(path, n_lines, block, at)}: this row has {one}, but the rows before it "
            f"{others}. Write qid:ID after the label of every row, or of none."
        )
    return has_qid


def _place(path: str, n_lines: int, block: Block, at: int) -> str:
    """The file and line of byte `at` in a block with `n_lines` lines before it."""
    return f"{path}, line {n_lines + block.line_number(at)}"


def _comments(block: Block) -> list[str]:
    """What stands after the ``#`` of each row."""
    text = block.text
    return [
        text[at : text.index(b"\n", at)].strip(b" \t\r").decode("utf-8", "replace")
        if at >= 0
        else ""
        for at in block.rows.comment_at[: block.n_rows].tolist()
    ]
