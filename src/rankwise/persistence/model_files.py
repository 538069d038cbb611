"""Write and read model files."""

from __future__ import annotations

import io
import json
import os
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any
from zipfile import ZipFile, ZipInfo, is_zipfile

import numpy as np
import scipy.sparse as sp
from sklearn.base import OneToOneFeatureMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from rankwise.data.table_files import Source
from rankwise.errors import ModelFileError, RankwiseError
from rankwise.files import replacing
from rankwise.persistence.values import decode, encode, read_tree

FORMAT = 1
"""Increased when versions that read the last format cannot read new files."""
MOST_COPIES = 256  # of a file, in memory: equal arrays share one member
COLUMNS = ("qid", "label", "id")
MARKS = ("separator", "decimal", "thousands")


@dataclass(frozen=True)
class ModelFile:
    """What a model file holds; made by `open_model`.

    Attributes
    ----------
    model : estimator
        The fitted ranker, or a pipeline with one.
    version : str
        The version of rankwise that wrote the file.
    table : dict
        How the training table was read, with the names of arguments of `rankwise.data.read_table`;
        empty if there was none, or if it is not known.
    """

    model: Any
    version: str
    table: Mapping[str, Any] = field(default_factory=dict)


def save_model(
    model: Any, path: str | os.PathLike[str], *, table: Mapping[str, Any] | None = None
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
    table : mapping of str to object, optional
        How the training table was read: the arguments `qid`, `label`, `id`, `grades`, `separator`,
        `decimal` and `thousands` of `rankwise.data.read_table`. Commands read later tables in the
        same way. Both marks are for files with the same separator only.

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
    table = _checked_table({} if table is None else dict(table))
    with replacing(path) as beside:
        # A device or a pipe has no positions, which the archive needs.
        content: Any = beside if beside.is_file() else io.BytesIO()
        with ZipFile(content, "w") as archive:
            tree = {
                "format": FORMAT,
                "rankwise": version("rankwise"),
                "model": encode(model, archive, "The model"),
            }
            if table:
                tree["table"] = table
            archive.writestr(ZipInfo("model.json"), json.dumps(tree, allow_nan=False))
        if content is not beside:
            beside.write_bytes(content.getbuffer())
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

    Examples
    --------
    >>> import tempfile
    >>> from rankwise import RankRLS, load_model, save_model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save_model(RankRLS(0.5).fit([[0.0], [1.0]], [0, 1]), f"{folder}/ranker.rankwise")
    ...     print(load_model(path))
    RankRLS(alpha=0.5)
    """
    return open_model(path).model


def open_model(path: str | os.PathLike[str]) -> ModelFile:
    """Read a model that `save_model` wrote, with the version recorded in the file.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    ModelFile

    Examples
    --------
    >>> import tempfile
    >>> import rankwise
    >>> from rankwise import RankRLS, save_model
    >>> ranker = RankRLS().fit([[0.0], [0.5], [1.0]], [0, 1, 2])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save_model(ranker, f"{folder}/ranker.rankwise")
    ...     open_model(path).version == rankwise.__version__
    True
    """
    with open(path, "rb") as file:
        if not is_zipfile(file):
            raise ModelFileError(
                f"{path} cannot be read as a model file of rankwise: it is not one, or it is "
                "damaged. save_model and the commands fit, tune and auto write model files."
            )
        try:
            with ZipFile(file) as archive:
                tree = read_tree(archive, "model.json", os.path.getsize(path), MOST_COPIES)
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
            return ModelFile(model, tree["rankwise"], _checked_table(tree.get("table", {})))
        except Exception as error:  # whatever a damaged archive can lead to
            reason = f"missing {error}" if isinstance(error, KeyError) else str(error)
            raise ModelFileError(
                f"{path} cannot be read as a model file of rankwise: {reason.rstrip('.')}."
            ) from error


def _checked_table(table: Any) -> dict[str, Any]:
    """How a table was read; an error if `read_table` does not take it."""
    if type(table) is not dict or not table.keys() <= {*COLUMNS, *MARKS, "grades"}:
        raise ModelFileError(
            f"table must be a dictionary of {', '.join((*COLUMNS, *MARKS))} and grades: got "
            f"{str(table)[:80]}"
        )
    for name in {*COLUMNS, *MARKS} & table.keys():
        if type(table[name]) is not str:
            raise ModelFileError(f"{name} of table must be text: got {str(table[name])[:80]}")
    has_marks = "decimal" in table or "thousands" in table
    if len(table.get("separator", "" if has_marks else ",")) != 1:
        raise ModelFileError(
            "separator of table must be a single character, and is needed with decimal or thousands"
        )
    named = [table[name] for name in COLUMNS if name in table]
    if len(set(named)) < len(named):
        raise ModelFileError("qid, label and id of table must be different columns")
    grades = table.get("grades", {})
    if type(grades) is not dict or not all(
        type(word) is str and type(grade) in (int, float) and abs(grade) <= sys.float_info.max
        for word, grade in grades.items()
    ):
        raise ModelFileError("grades of table must be a finite number for each word")
    Source("table", decimal=table.get("decimal", "."), thousands=table.get("thousands"))
    return table


MOST_DENSE = 10_000  # features of rows that are not sparse


def check_that_it_scores(model: Any) -> None:
    """Raise an error if a model cannot score two rows of zeros, or if scores are not finite.

    A model may refuse such rows with a `RankwiseError`; any other error means a damaged file.
    """
    ranker = getattr(model, "best_estimator_", model)
    if hasattr(ranker, "steps"):
        for _, step in ranker.steps:
            if hasattr(step, "fit"):  # not "passthrough"
                check_is_fitted(step, msg="its %(name)s is not fitted")
        for _, step in ranker.steps[:-1]:
            if not (step is None or isinstance(step, str) or hasattr(step, "transform")):
                raise ModelFileError(f"its {type(step).__name__} is not a transformer")
        _check_widths([step for _, step in ranker.steps if hasattr(step, "fit")])
        ranker = ranker.steps[-1][1]
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            rows = _rows(ranker)
            scores = np.asarray(ranker.predict(*rows), dtype=np.float64)
    except (RankwiseError, MemoryError):
        return
    except Exception as error:
        raise ModelFileError(f"its {type(ranker).__name__} cannot score rows: {error}") from error
    if not np.isfinite(scores).all() or (rows and (len(scores) != 2 or not scores.size)):
        raise ModelFileError(
            f"its {type(ranker).__name__} does not give finite scores, one per row"
        )


def _check_widths(steps: list[Any]) -> None:
    """Each step must take as many features as the previous step returns, where that is known."""
    given = None
    for step in steps:
        taken = getattr(step, "n_features_in_", None)
        names = getattr(step, "feature_names_in_", None)
        if taken is not None and names is not None and len(names) != taken:
            raise ModelFileError(
                f"its {type(step).__name__} takes {taken} features, but it has {len(names)} names"
            )
        if taken is not None and given is not None and given != taken:
            raise ModelFileError(
                f"its {type(step).__name__} takes {taken} features, but the step before it gives "
                f"{given}"
            )
        given = _n_features_out(step)


def _n_features_out(step: Any) -> int | None:
    """The number of columns that a transformer returns; None if it is not known."""
    if isinstance(step, OneToOneFeatureMixin):
        return getattr(step, "n_features_in_", None)
    if hasattr(step, "n_features_out_"):
        return int(step.n_features_out_)
    try:
        few = step.n_features_in_ <= MOST_DENSE  # names take memory
        return len(step.get_feature_names_out()) if few else None
    except (AttributeError, NotFittedError, TypeError, ValueError):  # no names, or not of all
        return None


def _rows(ranker: Any) -> list[Any]:
    """What `predict` takes: nothing for the ratings of items, and two kinds of rows for pairs."""
    if hasattr(ranker, "ratings_"):
        return []
    if hasattr(ranker, "sides_"):
        return [side.zeros(2) for side in ranker.sides_]
    widths = [ranker.n_features_in_]
    if hasattr(ranker, "n_document_features_"):
        widths.append(ranker.n_document_features_)
    return [
        np.zeros((2, width)) if width <= MOST_DENSE else sp.csr_array((2, width))
        for width in widths
    ]
