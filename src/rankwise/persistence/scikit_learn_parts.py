"""scikit-learn's own objects in a model file, as skops writes them."""

from __future__ import annotations

import io
from collections.abc import Callable
from copy import copy
from typing import Any
from zipfile import ZipFile

import numpy as np

from rankwise.backends.arrays import is_sparse
from rankwise.errors import ModelFileError
from rankwise.persistence.archive import check_members

# What a part may hold beside the types that skops trusts, which are most of scikit-learn's and
# NumPy's.
TRUSTED = (
    "scipy.sparse._csr.csr_array",
    "scipy.sparse._csr.csr_matrix",
    "sklearn.metrics._scorer._PassthroughScorer",  # of GridSearchCV
    *(
        f"sklearn.model_selection._split.{splitter}"
        for splitter in (
            "GroupKFold", "GroupShuffleSplit", "KFold", "LeaveOneGroupOut", "LeavePGroupsOut",
            "ShuffleSplit", "StratifiedGroupKFold", "StratifiedKFold",
        )
    ),
)  # fmt: skip
PLACEHOLDER = "rankwise value"
"""The key of a dictionary that stands for something that is stored in ``model.json``."""


def is_scikit_learn(value: Any) -> bool:
    """Whether an object, but not a class or a function, is scikit-learn's own."""
    return type(value).__module__.partition(".")[0] == "sklearn"


def dump_part(value: Any, take: Callable[[Any], bool]) -> tuple[bytes, list[Any]]:
    """The content of a skops file, and the values that were taken out of it."""
    from skops.io import dumps, get_untrusted_types

    taken: list[Any] = []

    def replace(inner: Any) -> Any:
        if not take(inner):
            return inner
        taken.append(inner)
        return {PLACEHOLDER: len(taken) - 1}

    content = dumps(_rebuilt(value, replace))
    foreign = sorted(set(get_untrusted_types(data=content)) - set(TRUSTED))
    if foreign:
        raise ModelFileError(
            f"The model holds {', '.join(foreign)}, which a model file cannot: it could not be "
            "read back safely."
        )
    return content, taken


def load_part(content: bytes, values: list[Any]) -> Any:
    """The object in a skops file, with the values that were taken out of it."""
    from skops.io import get_untrusted_types, loads

    with ZipFile(io.BytesIO(content)) as archive:
        check_members(archive, len(content))
    foreign = sorted(set(get_untrusted_types(data=content)) - set(TRUSTED))
    if foreign:
        raise ModelFileError(
            f"it holds types that rankwise does not trust: {', '.join(foreign)}. It was not "
            "written by rankwise.save_model"
        )

    def replace(inner: Any) -> Any:
        if is_sparse(inner) and inner.format in ("csr", "csc"):
            inner.check_format(full_check=True)
        if type(inner) is dict and inner.keys() == {PLACEHOLDER}:
            return values[inner[PLACEHOLDER]]
        return inner

    return _rebuilt(loads(content, trusted=list(TRUSTED)), replace)


def object_array(shape: tuple[int, ...], entries: list[Any]) -> Any:
    """An array of objects, which may be sequences themselves."""
    array = np.empty(len(entries), object)
    for k, entry in enumerate(entries):
        array[k] = entry
    return array.reshape(shape)


def _rebuilt(value: Any, replace: Callable[[Any], Any]) -> Any:
    """A copy of an object of scikit-learn with its inner values replaced."""
    new = replace(value)
    if new is not value:
        return new
    if type(value) in (list, tuple):
        return type(value)(_rebuilt(entry, replace) for entry in value)
    if type(value) is dict:
        return {key: _rebuilt(entry, replace) for key, entry in value.items()}
    if type(value) is np.ndarray and value.dtype == object:
        return object_array(value.shape, [_rebuilt(entry, replace) for entry in value.flat])
    if is_scikit_learn(value) and hasattr(value, "__dict__") and not isinstance(value, dict):
        twin = copy(value)
        for name, entry in vars(value).items():
            twin.__dict__[name] = _rebuilt(entry, replace)
        return twin
    return value
