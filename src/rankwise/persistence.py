"""Model files without pickle: nothing in them runs when they are read."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from rankwise.errors import ModelFileError

# Types of ours that a model file may hold. skops trusts scikit-learn's, NumPy's and SciPy's.
TRUSTED = (
    "rankwise.estimators.rankrls.RankRLS",
    "rankwise.estimators.rankrls.RLS",
    "rankwise.kernels.functions.NamedKernel",
    "rankwise.kernels.functions.Precomputed",
)


def save_model(model: Any, path: str | os.PathLike[str]) -> Path:
    """Write a fitted ranker, or a scikit-learn pipeline with one, to a file.

    The file is a skops archive. It is written beside its place and renamed, so that a reader
    never sees half of it.

    Parameters
    ----------
    model : estimator
    path : path-like

    Returns
    -------
    Path

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
    from skops.io import dump, get_untrusted_types

    path = Path(path)
    handle, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    try:
        dump(model, beside)
        foreign = sorted(set(get_untrusted_types(file=beside)) - set(TRUSTED))
        if foreign:
            raise ModelFileError(
                f"The model holds {', '.join(foreign)}, which a model file cannot: it could not "
                "be read back safely. Use a kernel by name, or precomputed kernel values."
            )
        os.replace(beside, path)
    finally:
        if os.path.exists(beside):
            os.unlink(beside)
    return path


def load_model(path: str | os.PathLike[str]) -> Any:
    """Read what `save_model` wrote; nothing in the file is executed.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    estimator
    """
    import zipfile

    from skops.io import get_untrusted_types, load

    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"There is no model file {path}.")
    if not path.is_file() or not zipfile.is_zipfile(path):
        raise ModelFileError(
            f"{path} is not a model file of rankwise. Write one with rankwise.save_model, or with "
            "rankwise fit on the command line."
        )
    try:
        foreign = sorted(set(get_untrusted_types(file=path)) - set(TRUSTED))
        if not foreign:
            return load(path, trusted=list(TRUSTED))
    except Exception as error:
        raise ModelFileError(f"{path} is damaged or was not written by rankwise: {error}") from error
    raise ModelFileError(
        f"{path} holds types that rankwise does not trust: {', '.join(foreign)}. "
        "It was not written by rankwise.save_model."
    )
