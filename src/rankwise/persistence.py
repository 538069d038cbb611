"""Model files without pickle: nothing in them runs when they are read."""

from __future__ import annotations

import json
import os
import sys
import warnings
import zipfile
from copy import copy
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from rankwise.backends.arrays import is_tensor, to_host
from rankwise.errors import ModelFileError, RankwiseWarning
from rankwise.files import replacing

# What a model file may hold beside the types that skops trusts, which are most of scikit-learn's
# and NumPy's: the rankers, and what their attributes are made of.
TRUSTED = (
    "rankwise.estimators.components.number.ComponentErrors",
    "rankwise.estimators.components.kpcrank.KPCR",
    "rankwise.estimators.components.kpcrank.KPCRank",
    "rankwise.estimators.bilinear.sparse_bilinear.SparseBilinearRanker",
    "rankwise.estimators.gp.conditioned_process.ConditionedProcess",
    "rankwise.estimators.gp.conditioned_process.Hyperparameters",
    "rankwise.estimators.gp.pairwise_gp.PairwiseGP",
    "rankwise.estimators.gp.process_mixture.ProcessMixture",
    "rankwise.estimators.least_squares.rankrls.RankRLS",
    "rankwise.estimators.least_squares.rankrls.RLS",
    "rankwise.estimators.rank_svm.RankSVM",
    "rankwise.estimators.least_squares.landmark_ranker.Sums",
    "rankwise.estimators.least_squares.sparse_rankrls.SparseRLS",
    "rankwise.estimators.least_squares.sparse_rankrls.SparseRankRLS",
    "rankwise.kernels.functions.NamedKernel",
    "rankwise.kernels.functions.Precomputed",
    "rankwise.model_selection.search.scoring.RankingScorer",
    "rankwise.model_selection.search.ranking_search.RankingSearchCV",
    "rankwise.solvers.moments.CentredMoments",
    "rankwise.solvers.moments.Moments",
    "rankwise.solvers.landmark_basis.LandmarkBasis",
    "rankwise.solvers.gp.approximation.Approximation",
    "rankwise.solvers.gp.differences.WeightPosterior",
    "rankwise.solvers.gp.weight_space.WeightBasis",
    "scipy.sparse._csr.csr_array",
    "scipy.sparse._csr.csr_matrix",
    *(
        f"sklearn.gaussian_process.kernels.{kernel}"
        for kernel in (
            "CompoundKernel",
            "ConstantKernel",
            "DotProduct",
            "ExpSineSquared",
            "Exponentiation",
            "Matern",
            "PairwiseKernel",
            "Product",
            "RBF",
            "RationalQuadratic",
            "Sum",
            "WhiteKernel",
        )
    ),
)
NOTE = "rankwise.json"  # our own member of the archive; skops reads only its own
FORMAT = 1


@dataclass(frozen=True)
class ModelFile:
    """What a model file holds; made by `open_model`.

    Attributes
    ----------
    model : estimator
        The fitted ranker, or a pipeline with one.
    normalized_per_query : bool
        Whether the model was fitted to features out of `rankwise.data.normalize_per_query`, so
        that new rows must go through it as well.
    version : str
        The version of rankwise that wrote the file; empty where it is not known.
    """

    model: Any
    normalized_per_query: bool = False
    version: str = ""


def save_model(
    model: Any, path: str | os.PathLike[str], *, normalized_per_query: bool = False
) -> Path:
    """Write a fitted ranker, or a scikit-learn pipeline with one, to a file.

    The file is a skops archive with a note of our own in it. It is written beside its place and
    renamed, so that a reader never sees half of it.

    Parameters
    ----------
    model : estimator
    path : path-like
    normalized_per_query : bool, default=False
        Say so if the features came out of `rankwise.data.normalize_per_query`. That needs the
        queries of new rows, which ``predict(X)`` does not get, so no step of a pipeline can do
        it: the file remembers it, the command line does the same to new rows, and `load_model`
        reminds of it.

    Returns
    -------
    Path

    Raises
    ------
    ModelFileError
        If the model holds what cannot be read back safely, such as a function of yours.

    Examples
    --------
    >>> import tempfile
    >>> from rankwise import RankRLS, load_model, save_model
    >>> ranker = RankRLS().fit([[0.0], [1.0], [2.0]], [0, 1, 2])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     same = load_model(save_model(ranker, f"{folder}/ranker.skops"))
    >>> bool((same.predict([[3.0]]) == ranker.predict([[3.0]])).all())
    True
    """
    from skops.io import dump

    if isinstance(model, type) or not hasattr(model, "predict"):
        raise ModelFileError(f"Only a fitted ranker or pipeline can be saved: got {model!r}.")
    check_is_fitted(model)
    path = Path(path)
    note = {
        "format": FORMAT,
        "version": _version(),
        "normalized_per_query": bool(normalized_per_query),
    }
    with replacing(path) as beside:
        try:
            dump(_without_tensors(model), beside)
            foreign = _foreign_types(beside)
        except OSError:
            raise
        except Exception as error:
            raise ModelFileError(
                f"A {type(model).__name__} cannot be written to a model file: {error}"
            ) from error
        if foreign:
            raise ModelFileError(
                f"The model holds {', '.join(foreign)}, which a model file cannot: it could not "
                "be read back safely. Kernels can be saved by name, arrays as NumPy's or SciPy's."
            )
        with zipfile.ZipFile(beside, "a") as archive:
            archive.writestr(NOTE, json.dumps(note))
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
        If the file is damaged, or holds anything but a model of rankwise or scikit-learn.

    Warns
    -----
    RankwiseWarning
        If the model wants features that are normalized per query; `open_model` tells instead.
    """
    file = open_model(path)
    if file.normalized_per_query:
        warnings.warn(
            f"The model in {path} was fitted to features normalized per query: give it "
            "rankwise.data.normalize_per_query(X, qid) to predict from.",
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
    ...     path = save_model(ranker, f"{folder}/ranker.skops", normalized_per_query=True)
    ...     open_model(path).normalized_per_query
    True
    """
    from skops.io import load

    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"There is no model file {path}.")
    if path.is_file():
        path.open("rb").close()  # the right error, where it may not be read
    if not path.is_file() or not zipfile.is_zipfile(path):
        raise ModelFileError(
            f"{path} is not a model file of rankwise. Write one with rankwise.save_model, or with "
            "rankwise fit on the command line."
        )
    try:
        note = _read_note(path)
        foreign = _foreign_types(path)
        model = None if foreign else load(path, trusted=list(TRUSTED))
    except (MemoryError, ModelFileError):
        raise
    except Exception as error:  # whatever a damaged archive can lead to
        raise ModelFileError(
            f"{path} is damaged or was not written by rankwise: {error}"
        ) from error
    if foreign:
        raise ModelFileError(
            f"{path} holds types that rankwise does not trust: {', '.join(foreign)}. "
            "It was not written by rankwise.save_model."
        )
    if not hasattr(model, "predict"):
        raise ModelFileError(
            f"{path} holds a {type(model).__name__}, which is no ranker. "
            "It was not written by rankwise.save_model."
        )
    return ModelFile(model, bool(note.get("normalized_per_query")), str(note.get("version", "")))


def _without_tensors(value: Any) -> Any:
    """A model with NumPy's arrays in the place of tensors: a file knows no device."""
    if "torch" not in sys.modules:
        return value
    if is_tensor(value):
        return to_host(value)
    if type(value).__module__ == "torch" and type(value).__name__ == "device":
        return str(value)
    if isinstance(value, BaseEstimator) or is_dataclass(value):
        twin = copy(value)
        for name, part in vars(value).items():
            object.__setattr__(twin, name, _without_tensors(part))
        return twin
    if type(value) in (list, tuple):
        return type(value)(map(_without_tensors, value))
    if type(value) is dict:
        return {key: _without_tensors(part) for key, part in value.items()}
    return value


def _foreign_types(path: Path) -> list[str]:
    """Types in an archive that nobody has vouched for."""
    from skops.io import get_untrusted_types

    return sorted(set(get_untrusted_types(file=path)) - set(TRUSTED))


def _read_note(path: Path) -> dict[str, Any]:
    """Our note in an archive; empty in one that skops alone has written."""
    with zipfile.ZipFile(path) as archive:
        if NOTE not in archive.namelist():
            return {}
        note = json.loads(archive.read(NOTE))
    if note["format"] > FORMAT:
        raise ModelFileError(
            f"{path} was written by rankwise {note.get('version')}, in a format that this version "
            f"({_version()}) does not know. Install the newer one."
        )
    return dict(note)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("rankwise")
    except PackageNotFoundError:  # run from a source folder
        return ""
