"""Data sets by name: bundled with scikit-learn, generated, or in the folder RANKWISE_DATA."""

from __future__ import annotations

import difflib
import gzip
import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankwise.data.letor.reading import LetorData, read_letor
from rankwise.data.synthetic import make_ranking
from rankwise.errors import DataError, ParameterError

FOLDER_VARIABLE = "RANKWISE_DATA"
PARTS = ("train", "validation", "test")


@dataclass(frozen=True, eq=False)
class RankingDataset:
    """Rows to be ranked.

    Attributes
    ----------
    name : str
        As `load_dataset` knows it.
    X : ndarray or csr_array of shape (n_rows, n_features)
        Features.
    y : ndarray of shape (n_rows,)
        Labels; larger is better.
    qid : ndarray of shape (n_rows,) or None
        Query of each row; None: one global ranking.
    feature_names : tuple of str or None
        Names of the columns of X, where they have any.
    description : str
        What the rows and labels are.
    """

    name: str
    X: NDArray[Any] | sparse.csr_array
    y: NDArray[np.float64]
    qid: NDArray[Any] | None
    feature_names: tuple[str, ...] | None = None
    description: str = ""


@dataclass(frozen=True)
class DatasetInfo:
    """One line of `list_datasets`; prints as such.

    Attributes
    ----------
    name : str
        What to give to `load_dataset`.
    description : str
        What the rows and labels are.
    available : bool
        Whether it can be loaded now.
    splits : str
        How `fold` and `part` may be given; empty if they may not.
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
class _Rows:
    """What a loader returns."""

    X: NDArray[Any] | sparse.csr_array
    y: NDArray[Any]
    qid: NDArray[Any] | None = None
    feature_names: tuple[str, ...] | None = None


@dataclass(frozen=True)
class _Source:
    """How to get a data set."""

    description: str
    load: Callable[[int | None, str | None], _Rows]
    n_folds: int = 0
    parts: tuple[str, ...] = ()
    file: str = ""  # one that is there if the data set is; none needed where empty

    @property
    def splits(self) -> str:
        fold = [f"fold=1..{self.n_folds}"] if self.n_folds else []
        return ", ".join(fold + ([f"part={'|'.join(self.parts)}"] if self.parts else []))


def load_dataset(name: str, *, fold: int | None = None, part: str | None = None) -> RankingDataset:
    """Load a data set by name; `list_datasets` tells the names.

    Parameters
    ----------
    name : str
        For example "diabetes", which needs no download, or "ohsumed", which is read from the
        folder that the environment variable ``RANKWISE_DATA`` names.
    fold : int, optional
        Number of an official fold, from 1, where there are folds.
    part : {"train", "validation", "test"}, optional
        Part of the fold, or of the data set where there are parts but no folds. Without `fold`
        and `part`: all rows, each once.

    Returns
    -------
    RankingDataset
        With attributes `name`, `X`, `y`, `qid`, `feature_names` and `description`.

    Raises
    ------
    ParameterError
        For a name, fold or part that there is not.
    DataError
        If its files are not there.

    Examples
    --------
    >>> data = load_dataset("diabetes")
    >>> data.X.shape, data.qid is None, data.feature_names[:3]
    ((442, 10), True, ('age', 'sex', 'bmi'))
    """
    source = _SOURCES.get(name)
    if source is None:
        close = difflib.get_close_matches(str(name), _SOURCES, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ParameterError(
            f"There is no data set {name!r}.{hint} Known: {', '.join(sorted(_SOURCES))}."
        )
    _check_split(name, source, fold, part)
    if source.file:
        _file(source.file)
    rows = source.load(fold, part)
    y = np.asarray(rows.y, dtype=np.float64)
    return RankingDataset(name, rows.X, y, rows.qid, rows.feature_names, source.description)


def list_datasets() -> list[DatasetInfo]:
    """All data sets that `load_dataset` knows, and whether each can be loaded now.

    Examples
    --------
    >>> print(next(info for info in list_datasets() if info.name == "diabetes"))
    diabetes      Diabetes progression after a year, a global ranking; 442 rows, 10 features
    """
    folder = os.environ.get(FOLDER_VARIABLE)
    return [
        DatasetInfo(
            name,
            source.description,
            not source.file or bool(folder and Path(folder, source.file).exists()),
            source.splits,
        )
        for name, source in sorted(_SOURCES.items())
    ]


def _check_split(name: str, source: _Source, fold: int | None, part: str | None) -> None:
    """Refuse a fold or a part that the data set does not have."""
    if fold is not None and not source.n_folds:
        raise ParameterError(f"{name!r} has no folds: leave fold out.")
    if part is not None and not source.parts:
        raise ParameterError(f"{name!r} has no parts: leave part out.")
    if part is not None and part not in source.parts:
        raise ParameterError(f"part of {name!r} is one of {source.parts}: got {part!r}.")
    if source.n_folds and (fold is None) != (part is None):
        raise ParameterError(
            f"{name!r} is split by fold and part together, for example fold=1, part='train': "
            f"got fold={fold}, part={part!r}."
        )
    if fold is not None and fold not in range(1, source.n_folds + 1):
        raise ParameterError(f"fold of {name!r} is 1 to {source.n_folds}: got {fold!r}.")


def _file(relative: str) -> Path:
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        raise DataError(
            f"This data set does not come with rankwise: set the environment variable "
            f"{FOLDER_VARIABLE} to the folder that holds {relative}."
        )
    path = Path(folder, relative)
    if not path.exists():
        raise DataError(
            f"{path} is not there. {FOLDER_VARIABLE} is {folder!r}: it must be the folder that "
            f"holds {relative}."
        )
    return path


def _bundled(name: str) -> Any:
    """A data set of scikit-learn's own."""
    from sklearn import datasets

    return getattr(datasets, f"load_{name}")()


def _diabetes(fold: int | None, part: str | None) -> _Rows:
    bunch = _bundled("diabetes")
    return _Rows(bunch.data, bunch.target, feature_names=tuple(bunch.feature_names))


def _breast_cancer(fold: int | None, part: str | None) -> _Rows:
    bunch = _bundled("breast_cancer")
    malignant = bunch.target == list(bunch.target_names).index("malignant")
    return _Rows(bunch.data, malignant, feature_names=tuple(map(str, bunch.feature_names)))


def _digits(fold: int | None, part: str | None) -> _Rows:
    bunch = _bundled("digits")
    return _Rows(bunch.data, bunch.target, feature_names=tuple(bunch.feature_names))


def _synthetic(fold: int | None, part: str | None) -> _Rows:
    problem = make_ranking(n_levels=5, random_state=0)
    return _Rows(problem.X, problem.y, problem.qid)


def _sinc(fold: int | None, part: str | None) -> _Rows:
    x = np.linspace(-4, 4, 2000)
    return _Rows(x[:, None], np.sinc(x), feature_names=("x",))


def _ohsumed(fold: int | None, part: str | None) -> _Rows:
    parts = PARTS if part is None else (part,)
    files = {"train": "training", "validation": "validation", "test": "test"}
    return _stacked(
        [f"letor1_ohsumed/Fold{fold or 1}/{files[part]}set.txt.gz" for part in parts], 25
    )


def _mq2008(fold: int | None, part: str | None) -> _Rows:
    if fold is None or part is None:
        subsets = list(range(5))
    else:  # fold k trains on S_k and the two after it, counting round
        places = {"train": (0, 1, 2), "validation": (3,), "test": (4,)}[part]
        subsets = [(fold - 1 + place) % 5 for place in places]
    return _stacked([f"letor4_mq2008/S{subset + 1}.txt.gz" for subset in subsets], 46)


def _bioinfer(fold: int | None, part: str | None) -> _Rows:
    parts = ("train", "test") if part is None else (part,)
    return _stacked([f"bioinfer/parse_sample/rank_{part}.light.gz" for part in parts], 195_097)


def _mnist(fold: int | None, part: str | None) -> _Rows:
    prefixes = {"train": "train", "test": "t10k"}
    parts = tuple(prefixes) if part is None else (part,)
    images = [_idx(f"mnist/{prefixes[part]}-images-idx3-ubyte.gz") for part in parts]
    labels = [_idx(f"mnist/{prefixes[part]}-labels-idx1-ubyte.gz") for part in parts]
    X = np.concatenate(images)
    return _Rows(X.reshape(len(X), -1), np.concatenate(labels))


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
        raise DataError(f"{path} is not an idx file of bytes, or not a whole one: get it again.")
    return values.reshape(shape)


def _microarray(name: str, positive: str) -> Callable[[int | None, str | None], _Rows]:
    def load(fold: int | None, part: str | None) -> _Rows:
        with np.load(_file(f"microarray/{name}.npz"), allow_pickle=False) as arrays:
            return _Rows(arrays["X"], arrays["y"] == positive)

    return load


def _stacked(files: list[str], n_features: int) -> _Rows:
    """LETOR files one below the other."""
    pieces: list[LetorData] = [read_letor(_file(file), n_features=n_features) for file in files]
    if any(sparse.issparse(piece.X) for piece in pieces):
        X = sparse.vstack([sparse.csr_array(piece.X) for piece in pieces], format="csr")
    else:
        X = np.vstack([np.asarray(piece.X) for piece in pieces])
    y = np.concatenate([piece.y for piece in pieces])
    qid = [piece.qid for piece in pieces if piece.qid is not None]
    return _Rows(X, y, np.concatenate(qid))


_SOURCES = {
    "diabetes": _Source(
        "Diabetes progression after a year, a global ranking; 442 rows, 10 features", _diabetes
    ),
    "breast_cancer": _Source(
        "Breast tumours, malignant (1) before benign (0); 569 rows, 30 features", _breast_cancer
    ),
    "digits": _Source(
        "Images of digits, to be ordered by the digit; 1,797 rows, 64 features", _digits
    ),
    "synthetic": _Source(
        "Generated queries with five grades, of which make_ranking can make more; "
        "100 queries, 20 features",
        _synthetic,
    ),
    "sinc": _Source("sinc(x) at 2,000 points of [-4, 4], a global ranking", _sinc),
    "ohsumed": _Source(
        "LETOR 1.0 OHSUMED, medical documents, grades 0 to 2, raw features; "
        "16,140 rows, 25 features, 106 queries",
        _ohsumed,
        n_folds=5,
        parts=PARTS,
        file="letor1_ohsumed/Fold1/trainingset.txt.gz",
    ),
    "mq2008": _Source(
        "LETOR 4.0 MQ2008, web documents, grades 0 to 2, features normalized per query; "
        "15,211 rows, 46 features, 784 queries",
        _mq2008,
        n_folds=5,
        parts=PARTS,
        file="letor4_mq2008/S1.txt.gz",
    ),
    "bioinfer": _Source(
        "BioInfer candidate parses of sentences with their F-scores, sparse graph features; "
        "200 rows, 195,097 features, 42 sentences",
        _bioinfer,
        parts=("train", "test"),
        file="bioinfer/parse_sample/rank_train.light.gz",
    ),
    "mnist": _Source(
        "Images of handwritten digits, to be ordered by the digit, pixels 0 to 255; "
        "70,000 rows, 784 features",
        _mnist,
        parts=("train", "test"),
        file="mnist/train-images-idx3-ubyte.gz",
    ),
    "alon": _Source(
        "Colon tissue, tumour (1) before normal (0); 62 rows, 2,000 genes",
        _microarray("alon", "t"),
        file="microarray/alon.npz",
    ),
    "golub": _Source(
        "Leukaemia, myeloid (1) before lymphoblastic (0); 72 rows, 7,129 genes",
        _microarray("golub", "AML"),
        file="microarray/golub.npz",
    ),
    "shipp": _Source(
        "Lymphoma, diffuse large B-cell (1) before follicular (0); 77 rows, 7,129 genes",
        _microarray("shipp", "DLBCL"),
        file="microarray/shipp.npz",
    ),
}
