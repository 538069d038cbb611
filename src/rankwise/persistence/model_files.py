"""Write and read model files."""

from __future__ import annotations

import json
import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZipFile, is_zipfile

from sklearn.utils.validation import check_is_fitted

from rankwise.errors import ModelFileError, RankwiseWarning
from rankwise.files import replacing
from rankwise.persistence.archive import ArchiveReader, ArchiveWriter
from rankwise.persistence.values import decode, encode

FORMAT = 1
"""Raised when a file of the new format could not be read by the code for the old one."""

TREE = "model.json"


@dataclass(frozen=True)
class ModelFile:
    """What a model file holds; made by `open_model`.

    Attributes
    ----------
    model : estimator
        The fitted ranker, or a pipeline with one.
    normalized_per_query : bool
        Whether the model was fitted to the output of `rankwise.data.normalize_per_query`, so
        that new rows must be normalized as well.
    version : str
        The version of rankwise that wrote the file; empty if it is not known.
    """

    model: Any
    normalized_per_query: bool = False
    version: str = ""


def save_model(
    model: Any, path: str | os.PathLike[str], *, normalized_per_query: bool = False
) -> Path:
    """Write a fitted ranker, or a scikit-learn pipeline with one, to a file.

    The file is a zip archive of a JSON document and arrays; see `rankwise.persistence` for the
    format. It stays readable when classes are renamed or moved. It is written under a temporary
    name in the same folder and then renamed, so a reader never sees an incomplete file.

    Parameters
    ----------
    model : estimator
    path : path-like
        Any name; ``.rankwise`` is the usual suffix.
    normalized_per_query : bool, default=False
        Whether the features are the output of `rankwise.data.normalize_per_query`. That function
        needs the queries of new rows, which ``predict(X)`` does not get, so it cannot be a step
        of a pipeline. The file records it instead: the command line normalizes new rows, and
        `load_model` issues a reminder.

    Returns
    -------
    Path

    Raises
    ------
    ModelFileError
        If the model holds something that cannot be read back safely, such as a function.

    Examples
    --------
    >>> import tempfile
    >>> from rankwise import RankRLS, load_model, save_model
    >>> ranker = RankRLS().fit([[0.0], [1.0], [2.0]], [0, 1, 2])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     same = load_model(save_model(ranker, f"{folder}/ranker.rankwise"))
    >>> same.predict([[3.0]]).round(2).tolist() == ranker.predict([[3.0]]).round(2).tolist()
    True
    """
    if isinstance(model, type) or not hasattr(model, "predict"):
        raise ModelFileError(f"Only a fitted ranker or pipeline can be saved: got {model!r}.")
    check_is_fitted(model)
    path = Path(path)
    name = type(model).__name__
    with replacing(path) as temporary, ZipFile(temporary, "w") as archive:
        writer = ArchiveWriter(archive)
        try:
            tree = {
                "format": FORMAT,
                "rankwise": _version(),
                "normalized_per_query": bool(normalized_per_query),
                "model": encode(model, writer, "The model"),
            }
            writer.add_bytes(TREE, json.dumps(tree, indent=1, allow_nan=False).encode())
        except (OSError, MemoryError, ModelFileError):
            raise
        except Exception as error:
            raise ModelFileError(f"A {name} cannot be written to a model file: {error}") from error
    return path


def load_model(path: str | os.PathLike[str]) -> Any:
    """Read the ranker that `save_model` wrote; nothing in the file is executed.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    estimator

    Raises
    ------
    ModelFileError
        If the file is damaged, comes from a newer version, or holds anything but a model of
        rankwise or scikit-learn.

    Warns
    -----
    RankwiseWarning
        If the model needs features that are normalized per query. `open_model` returns this
        information instead.
    """
    file = open_model(path)
    if file.normalized_per_query:
        warnings.warn(
            f"The model in {path} was fitted to features normalized per query: predict from "
            "rankwise.data.normalize_per_query(X, qid).",
            RankwiseWarning,
            stacklevel=2,
        )
    return file.model


def open_model(path: str | os.PathLike[str]) -> ModelFile:
    """Read what `save_model` wrote, with what the file says about it.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    ModelFile
        With attributes `model`, `normalized_per_query` and `version`.

    Examples
    --------
    >>> import tempfile
    >>> from rankwise import RankRLS, save_model
    >>> from rankwise.data import normalize_per_query
    >>> qid = ["a", "a", "b", "b"]
    >>> X = normalize_per_query([[0.0], [1.0], [20.0], [30.0]], qid)
    >>> ranker = RankRLS().fit(X, [0, 1, 0, 1], qid=qid)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save_model(ranker, f"{folder}/ranker.rankwise", normalized_per_query=True)
    ...     open_model(path).normalized_per_query
    True
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"There is no model file {path}.")
    if path.is_file():
        path.open("rb").close()  # raises the right error if the file may not be read
    if not path.is_file() or not is_zipfile(path):
        raise _not_a_model_file(path)
    try:
        with ZipFile(path) as archive:
            if TREE not in archive.namelist():
                raise _not_a_model_file(path)
            reader = ArchiveReader(archive, path)
            tree = json.loads(reader.read_bytes(TREE))
            _check_format(tree, path)
            model = decode(tree["model"], reader)
    except (MemoryError, _Refused):
        raise
    except Exception as error:  # whatever a damaged archive can lead to
        reason = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise ModelFileError(
            f"{path} is damaged or was not written by rankwise: {reason.rstrip('.')}."
        ) from error
    if not hasattr(model, "predict"):
        raise ModelFileError(
            f"{path} holds a {type(model).__name__}, not a ranker. It was not written by "
            "rankwise.save_model."
        )
    return ModelFile(model, bool(tree.get("normalized_per_query")), str(tree.get("rankwise", "")))


class _Refused(ModelFileError):
    """An error that needs no explanation around it."""


def _not_a_model_file(path: Path) -> ModelFileError:
    return _Refused(
        f"{path} is not a model file of rankwise. Write one with rankwise.save_model, or with "
        "rankwise fit on the command line."
    )


def _check_format(tree: dict[str, Any], path: Path) -> None:
    """Refuse formats of later versions."""
    if type(tree["format"]) is not int or tree["format"] < 1:
        raise ModelFileError(f"the format number is {tree['format']!r}")
    if tree["format"] > FORMAT:
        raise _Refused(
            f"{path} was written by rankwise {tree.get('rankwise')} in format {tree['format']}; "
            f"this version ({_version()}) reads formats up to {FORMAT}. Install a newer version."
        )


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("rankwise")
    except PackageNotFoundError:  # run from a source folder
        return ""
