"""Write and read model files."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any
from zipfile import ZipFile, ZipInfo, is_zipfile

from sklearn.utils.validation import check_is_fitted

from rankwise.errors import ModelFileError
from rankwise.files import replacing
from rankwise.persistence.archive import check_members
from rankwise.persistence.trial_scores import check_that_it_scores
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
    version : str
        The version of rankwise that wrote the file.
    """

    model: Any
    version: str


def save_model(model: Any, path: str | os.PathLike[str]) -> Path:
    """Write a fitted ranker, or a scikit-learn pipeline with one, to a file.

    The file stays readable when classes are renamed or moved; `rankwise.persistence` describes
    its format. It is written under a temporary name in the same folder and then renamed, so a
    reader never sees an incomplete file.

    Parameters
    ----------
    model : estimator
    path : path-like
        Any name; ``.rankwise`` is the usual suffix.

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
    with replacing(path) as temporary, _new_archive(temporary) as archive:
        tree = {
            "format": FORMAT,
            "rankwise": version("rankwise"),
            "model": encode(model, archive, "The model"),
        }
        archive.writestr(ZipInfo("model.json"), json.dumps(tree, allow_nan=False))
    return Path(path)


@contextmanager
def _new_archive(path: Path) -> Iterator[ZipFile]:
    """A zip archive; one for a device or a pipe, which have no positions, is made in memory."""
    if path.is_file():
        with ZipFile(path, "w") as archive:
            yield archive
        return
    content = io.BytesIO()
    with ZipFile(content, "w") as archive:
        yield archive
    path.write_bytes(content.getbuffer())


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
    """
    return open_model(path).model


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
    ...     path = save_model(ranker, f"{folder}/ranker.rankwise")
    ...     open_model(path).version
    '0.1.0'
    """
    with open(path, "rb") as file:
        if not is_zipfile(file):
            raise ModelFileError(
                f"{path} cannot be read as a model file of rankwise: it is not one, or it is "
                "damaged. save_model and the commands fit, tune and auto write model files."
            )
        try:
            with ZipFile(file) as archive:
                check_members(archive, os.path.getsize(path))
                tree = json.loads(archive.read("model.json"))
                if tree["format"] != FORMAT:
                    raise ModelFileError(
                        f"it has format {tree['format']!r} of rankwise {tree['rankwise']}, and "
                        f"this version ({version('rankwise')}) reads format {FORMAT}"
                    )
                if tree.get("normalized_per_query"):
                    raise ModelFileError(
                        "it is of a development version and needs features that are normalized per "
                        'query: fit again with scale="query-minmax"'
                    )
                model = decode(tree["model"], archive)
            if not hasattr(model, "predict"):
                raise ModelFileError(f"it holds a {type(model).__name__}, not a ranker")
            check_is_fitted(model, msg="it holds a %(name)s that is not fitted")
            check_that_it_scores(model)
            return ModelFile(model, tree["rankwise"])
        except Exception as error:  # whatever a damaged archive can lead to
            reason = f"missing {error}" if isinstance(error, KeyError) else str(error)
            raise ModelFileError(
                f"{path} cannot be read as a model file of rankwise: {reason.rstrip('.')}."
            ) from error
