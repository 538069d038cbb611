"""Query ids from group sizes, as in the files that LightGBM and XGBoost read beside their data."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.errors import DataError

SUFFIXES = (".query", ".group")  # of LightGBM and of XGBoost


def qid_from_groups(sizes: Any) -> NDArray[np.intp]:
    """Query ids of adjacent rows, from the number of rows of each query.

    LightGBM's ``group`` is such a list of sizes.

    Parameters
    ----------
    sizes : array-like of shape (n_queries,)
        Whole numbers of at least 1.

    Returns
    -------
    ndarray of shape (n_rows,)
        0 for the rows of the first query, 1 for those of the second, and so on.

    Examples
    --------
    >>> from rankwise.data import qid_from_groups
    >>> qid_from_groups([2, 3])
    array([0, 0, 1, 1, 1])
    """
    found = np.asarray(sizes)
    if found.ndim != 1 or len(found) == 0:
        raise DataError(f"sizes must be a list of group sizes: got shape {found.shape}.")
    wrong = np.ones(len(found), dtype=bool)
    if found.dtype.kind in "iuf":
        wrong = ~((found >= 1) & (found == np.floor(found)))
    if wrong.any():
        k = int(np.argmax(wrong))
        raise DataError(
            f"Group sizes must be whole numbers of at least 1: got {found[k]} for group {k}."
        )
    return np.repeat(np.arange(len(found)), found.astype(np.intp))


def group_file_beside(path: str | os.PathLike[str]) -> Path | None:
    """The file of group sizes beside a data file, such as train.txt.query; None if there is none.

    For a gzipped file, the name may be that of the file without ``.gz``.
    """
    name = os.fspath(path)
    names = [name, name.removesuffix(".gz")]
    candidates = [Path(f"{stem}{suffix}") for stem in names for suffix in SUFFIXES]
    return next((file for file in candidates if file.is_file()), None)


def read_group_file(path: str | os.PathLike[str], n_rows: int) -> NDArray[np.intp]:
    """Query ids of `n_rows` rows from a file with the size of a group per line."""
    sizes = []
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            word = line.strip()
            if not word:
                continue
            if not (word.isascii() and word.isdigit()) or int(word) == 0:
                raise DataError(
                    f"{path}, line {number}: {word[:40]!r} is not a group size. Such a file "
                    "has the number of rows of a query per line."
                )
            sizes.append(int(word))
    if sum(sizes) != n_rows:
        raise DataError(
            f"The group sizes in {path} add up to {sum(sizes)}, but the data has {n_rows} rows: "
            "they do not belong together."
        )
    return qid_from_groups(sizes)
