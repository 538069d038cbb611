"""Write and read model files."""

from __future__ import annotations

import json
import os
import warnings
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any
from zipfile import ZipFile, ZipInfo

from sklearn.utils.validation import check_is_fitted

from rankwise.errors import ModelFileError, RankwiseWarning
from rankwise.files import replacing
from rankwise.persistence.archive import check_members
from rankwise.persistence.values import decode, encode

FORMAT = 1
"""Increased when versions that read the last format cannot read new files."""


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
        The version of rankwise that wrote the file.
    """

    model: Any
    normalized_per_query: bool
    version: str


def save_model(
    model: Any, path: str | os.PathLike[str], *, normalized_per_query: bool = False
) -> Path:
    """Write a fitted ranker, or a scikit-learn pipeline with one, to a file.

    The file stays readable when classes are renamed or moved; `rankwise.persistence` describes
    its format. It is written under a temporary name in the same folder and then renamed, so a
    reader never sees an incomplete file.

    Parameters
    ----------
    model : estimator
    path : path-like
        Any name; ``.rankwise`` is the usual suffix.
    normalized_per_query : bool, default=False
        Whether the features are the output of `rankwise.data.normalize_per_query`. That function
        needs the queries of new rows, so it cannot be a step of a pipeline. The file records it
        instead: the command line normalizes new rows, and `load_model` issues a reminder.

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
    with replacing(path) as temporary, ZipFile(temporary, "w") as archive:
        tree = {
            "format": FORMAT,
            "rankwise": version("rankwise"),
            "normalized_per_query": bool(normalized_per_query),
            "model": encode(model, archive, "The model"),
        }
        archive.writestr(ZipInfo("model.json"), json.dumps(tree, allow_nan=False))
    return Path(path)


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

    Examples
    --------
    >>> import tempfile
    >>> from rankwise import RankRLS, save_model
    >>> ranker = RankRLS().fit([[0.0], [0.5], [1.0]], [0, 1, 2])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save_model(ranker, f"{folder}/ranker.rankwise", normalized_per_query=True)
    ...     open_model(path).normalized_per_query
    True
    """
    with open(path, "rb") as file:
        try:
            with ZipFile(file) as archive:
                check_members(archive, os.path.getsize(path))
                tree = json.loads(archive.read("model.json"))
                if tree["format"] != FORMAT:
                    raise ModelFileError(
                        f"it has format {tree['format']!r} of rankwise {tree['rankwise']}, and "
                        f"this version ({version('rankwise')}) reads format {FORMAT}"
                    )
                model = decode(tree["model"], archive)
            if not hasattr(model, "predict"):
                raise ModelFileError(f"it holds a {type(model).__name__}, not a ranker")
            check_is_fitted(model, msg="it holds a %(name)s that is not fitted")
            return ModelFile(model, tree["normalized_per_query"], tree["rankwise"])
        except Exception as error:  # whatever a damaged archive can lead to
            reason = f"missing {error}" if isinstance(error, KeyError) else str(error)
            raise ModelFileError(
                f"{path} cannot be read as a model file of rankwise: {reason.rstrip('.')}."
            ) from error
