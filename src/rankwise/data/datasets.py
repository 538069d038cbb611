"""Data sets by name: from scikit-learn, or from files in the folder RANKWISE_DATA."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankwise.data.letor import read_letor
from rankwise.data.query_rows import DescribedRows
from rankwise.errors import DataError, ParameterError
from rankwise.parameters import Choice, check_value

FOLDER_VARIABLE = "RANKWISE_DATA"
PARTS = ("train", "validation", "test")


@dataclass(frozen=True, eq=False, repr=False)
class RankingDataset(DescribedRows):
    """Rows to be ranked.

    Attributes
    ----------
    name : str
        As passed to `load_dataset`.
    X : ndarray or csr_array of shape (n_rows, n_features)
        Features.
    y : ndarray of shape (n_rows,)
        Labels; larger is better.
    qid : ndarray of shape (n_rows,) or None
        Query of each row; None: one global ranking.
    feature_names : tuple of str or None
        Names of the columns of X, if they have any.
    description : str
        What the rows and labels are.

    Examples
    --------
    >>> from rankwise.data import load_dataset
    >>> data = load_dataset("breast_cancer")
    >>> data.name, int(data.y.sum())
    ('breast_cancer', 212)
    """

    name: str
    X: NDArray[Any] | sparse.csr_array
    y: NDArray[np.float64]
    qid: NDArray[Any] | None
    feature_names: tuple[str, ...] | None = None
    description: str = ""

    def _title(self) -> str:
        return f"{self.name}: {self.description}" if self.description else self.name


@dataclass(frozen=True)
class DatasetInfo:
    """A data set that `load_dataset` knows; prints as one line.

    Attributes
    ----------
    name : str
        The name to pass to `load_dataset`.
    description : str
        What the rows and labels are.
    available : bool
        Whether it can be loaded now.
    splits : str
        The valid values of `fold` and `part`; empty if there are none.

    Examples
    --------
    >>> from rankwise.data import list_datasets
    >>> next(info.splits for info in list_datasets() if info.name == "mq2008")
    'fold=1..5, part=train|validation|test'
    """

    name: str
    description: str
    available: bool
    splits: str = ""

    def __str__(self) -> str:
        missing = "" if self.available else f" (not available: needs {FOLDER_VARIABLE})"
        splits = f" [{self.splits}]" if self.splits else ""
        return f"{self.name:<14}{self.description}{splits}{missing}"


@dataclass(frozen=True)
class _Loader:
    """How to load a data set: ``load(fold, part)`` returns the fields of a `RankingDataset`."""

    description: str
    load: Callable[[int | None, str | None], dict[str, Any]]
    file: str = ""  # a file that exists if the data set does; empty if it needs none
    parts: tuple[str, ...] = ()
    n_folds: int = 0

    @property
    def splits(self) -> str:
        """The valid values of `fold` and `part`, in words."""
        fold = [f"fold=1..{self.n_folds}"] if self.n_folds else []
        return ", ".join(fold + ([f"part={'|'.join(self.parts)}"] if self.parts else []))


def load_dataset(name: str, *, fold: int | None = None, part: str | None = None) -> RankingDataset:
    """Load a data set by name; `list_datasets` lists the names.

    Parameters
    ----------
    name : str
        For example "diabetes", which comes with scikit-learn, or "ohsumed", which is read from
        the folder that the environment variable ``RANKWISE_DATA`` names.
    fold : int, optional
        Number of an official fold, from 1, if the data set has folds.
    part : {"train", "validation", "test"}, optional
        Part of the fold, or of the data set if it has parts but no folds. Without `fold` and
        `part`: all rows, each once.

    Returns
    -------
    RankingDataset

    Raises
    ------
    ParameterError
        For an unknown name, fold or part.
    DataError
        If the files do not exist.

    Examples
    --------
    >>> from rankwise.data import load_dataset
    >>> data = load_dataset("diabetes")
    >>> data.X.shape, data.qid is None, data.feature_names[:3]
    ((442, 10), True, ('age', 'sex', 'bmi'))
    """
    check_value("name", name, Choice(*sorted(_SOURCES)))
    source = _SOURCES[name]
    _check_split(name, source, fold, part)
    fields = {"qid": None, **source.load(fold, part)}
    fields["y"] = np.asarray(fields["y"], dtype=np.float64)
    return RankingDataset(name=name, description=source.description, **fields)


def list_datasets() -> list[DatasetInfo]:
    """List all data sets that `load_dataset` knows, and whether each can be loaded now.

    Examples
    --------
    >>> from rankwise.data import list_datasets
    >>> print(next(info for info in list_datasets() if info.name == "diabetes"))
    diabetes      Diabetes progression after a year, a global ranking; 442 rows, 10 features
    """
    folder = os.environ.get(FOLDER_VARIABLE, os.devnull)
    infos = []
    for name, source in sorted(_SOURCES.items()):
        available = not source.file or Path(folder, source.file).exists()
        infos.append(DatasetInfo(name, source.description, available, source.splits))
    return infos


def _check_split(name: str, source: _Loader, fold: int | None, part: str | None) -> None:
    """Raise an error for a fold and a part that the data set does not have."""
    folds = range(1, source.n_folds + 1) or [None]
    if (fold, part) not in [(None, None), *product(folds, source.parts or [None])]:
        splits = f"has {source.splits}" if source.splits else "has no folds and no parts"
        both = ", which belong together" if source.n_folds else ""
        raise ParameterError(f"{name!r} {splits}{both}: got fold={fold!r}, part={part!r}.")


def _file(relative: str) -> Path:
    """A file in the data folder."""
    folder = os.environ.get(FOLDER_VARIABLE)
    path = Path(folder or "", relative)
    if not folder or not path.exists():
        raise DataError(
            f"{path} does not exist. This data set does not come with rankwise: set the "
            f"environment variable {FOLDER_VARIABLE} to the folder that contains {relative}."
        )
    return path


def _bundled(name: str, positive: str | None, fold: int | None, part: str | None) -> dict[str, Any]:
    """A data set of scikit-learn; with `positive`, the rows of that class have label 1."""
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{name}")()
    y = bunch.target
    if positive is not None:
        y = y == list(bunch.target_names).index(positive)
    return {"X": bunch.data, "y": y, "feature_names": tuple(map(str, bunch.feature_names))}


def _ohsumed(fold: int | None, part: str | None) -> dict[str, Any]:
    stems = {"train": "training", "validation": "validation", "test": "test"}
    parts = PARTS if part is None else (part,)
    files = [f"letor1_ohsumed/Fold{fold or 1}/{stems[part]}set.txt.gz" for part in parts]
    return _stacked(files, 25)


def _mq2008(fold: int | None, part: str | None) -> dict[str, Any]:
    subsets = list(range(5))
    if fold is not None and part is not None:  # fold k trains on S_k and the next two, cyclically
        offsets = {"train": (0, 1, 2), "validation": (3,), "test": (4,)}[part]
        subsets = [(fold - 1 + offset) % 5 for offset in offsets]
    return _stacked([f"letor4_mq2008/S{subset + 1}.txt.gz" for subset in subsets], 46)


def _stacked(files: list[str], n_features: int) -> dict[str, Any]:
    """The rows of several dense LETOR files."""
    tables = [read_letor(_file(file), n_features=n_features, layout="dense") for file in files]
    fields = ("X", "y", "qid")
    return {field: np.concatenate([getattr(t, field) for t in tables]) for field in fields}


def _mnist(fold: int | None, part: str | None) -> dict[str, Any]:
    prefixes = {"train": "train", "test": "t10k"}
    parts = tuple(prefixes) if part is None else (part,)
    X, y = (
        np.concatenate([_idx(f"mnist/{prefixes[part]}-{kind}-ubyte.gz") for part in parts])
        for kind in ("images-idx3", "labels-idx1")
    )
    return {"X": X.reshape(len(X), -1), "y": y}


def _idx(relative: str) -> NDArray[np.uint8]:
    """An array of bytes in the idx format: 0, 0, 8, the number of axes, their lengths, the data."""
    path = _file(relative)
    try:
        with gzip.open(path) as file:
            content = file.read()
    except (EOFError, gzip.BadGzipFile, zlib.error):
        content = b""
    n_axes = content[3] if content[:3] == b"\0\0\x08" and len(content) > 3 else 0
    shape = np.frombuffer(content[4 : 4 + 4 * n_axes], dtype=">u4").astype(int)
    values = np.frombuffer(content, dtype=np.uint8)[4 + 4 * n_axes :]
    if not n_axes or len(shape) != n_axes or shape.prod() != len(values):
        raise DataError(f"{path} is not a complete idx file of bytes. Download it again.")
    return values.reshape(shape)


def _microarray(name: str, positive: str, fold: int | None, part: str | None) -> dict[str, Any]:
    with np.load(_file(f"microarray/{name}.npz"), allow_pickle=False) as arrays:
        return {"X": arrays["X"], "y": arrays["y"] == positive}


_SOURCES = {
    "diabetes": _Loader(
        "Diabetes progression after a year, a global ranking; 442 rows, 10 features",
        partial(_bundled, "diabetes", None),
    ),
    "breast_cancer": _Loader(
        "Breast tumours, malignant (1) before benign (0); 569 rows, 30 features",
        partial(_bundled, "breast_cancer", "malignant"),
    ),
    "digits": _Loader(
        "Images of digits, to be ordered by the digit; 1,797 rows, 64 features",
        partial(_bundled, "digits", None),
    ),
    "ohsumed": _Loader(
        "LETOR 1.0 OHSUMED, medical documents, grades 0 to 2, raw features; "
        "16,140 rows, 25 features, 106 queries",
        _ohsumed, "letor1_ohsumed/Fold1/trainingset.txt.gz", PARTS, n_folds=5,
    ),
    "mq2008": _Loader(
        "LETOR 4.0 MQ2008, web documents, grades 0 to 2, features normalized per query; "
        "15,211 rows, 46 features, 784 queries",
        _mq2008, "letor4_mq2008/S1.txt.gz", PARTS, n_folds=5,
    ),
    "mnist": _Loader(
        "Images of handwritten digits, to be ordered by the digit, pixels 0 to 255; "
        "70,000 rows, 784 features",
        _mnist, "mnist/train-images-idx3-ubyte.gz", ("train", "test"),
    ),
    "alon": _Loader(
        "Colon tissue, tumour (1) before normal (0); 62 rows, 2,000 genes",
        partial(_microarray, "alon", "t"), "microarray/alon.npz",
    ),
    "golub": _Loader(
        "Leukaemia, myeloid (1) before lymphoblastic (0); 72 rows, 7,129 genes",
        partial(_microarray, "golub", "AML"), "microarray/golub.npz",
    ),
    "shipp": _Loader(
        "Lymphoma, diffuse large B-cell (1) before follicular (0); 77 rows, 7,129 genes",
        partial(_microarray, "shipp", "DLBCL"), "microarray/shipp.npz",
    ),
}  # fmt: skip
