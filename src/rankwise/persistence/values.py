"""A model as a tree of values that JSON can hold, and back.

None, booleans, whole and finite numbers, texts and lists stand for themselves. All else is an
object with one key, which says what the value is: ``{"tuple": [...]}``, ``{"array": "12ab.npy"}``,
``{"ranker": {"name": "rankrls", "parameters": {...}, "fitted": {...}}}``. NumPy's scalars become
Python's, tensors and data frames become arrays, and sparse matrices CSR arrays.

Members of a model file are never compressed, never larger than the file, and never pickled.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable
from copy import copy
from dataclasses import fields, is_dataclass
from hashlib import sha256
from typing import Any, NoReturn
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn import config_context

from rankwise.backends.arrays import check_compressed, is_sparse, is_tensor, to_host
from rankwise.errors import ModelFileError
from rankwise.parameters import AnyOf, Whole, check_parameters
from rankwise.persistence.value_objects import (
    check_axes,
    check_complete,
    describe,
    renamed_fields,
    value_object_class,
    value_object_name,
)
from rankwise.rankers import RANKERS, TRANSFORMERS, ranker_class, ranker_name


def add_member(archive: ZipFile, content: Any, suffix: str) -> str:
    """Write bytes, unless they are there already, and return the name of their member."""
    name = f"{sha256(content).hexdigest()[:16]}.{suffix}"
    if name not in archive.namelist():
        archive.writestr(ZipInfo(name), content)  # without the time: files are reproducible
    return name


def add_array(archive: ZipFile, array: NDArray[Any]) -> str:
    """Write an array in NumPy's own format, and return the name of its member."""
    content = io.BytesIO()
    np.save(content, array, allow_pickle=False)
    return add_member(archive, content.getbuffer(), "npy")


def read_array(archive: ZipFile, name: str) -> NDArray[Any]:
    """Read an array; objects, which would need pickle, are refused."""
    return np.asarray(np.load(io.BytesIO(archive.read(name)), allow_pickle=False))


def read_tree(archive: ZipFile, name: str, n_bytes: int, copies: int = 16) -> Any:
    """The JSON of an archive of `n_bytes`, whose values name other members.

    Members are not compressed, and all that the values name is at most `copies` times as large as
    the archive, so that a small file cannot ask for much memory.
    """
    members = archive.infolist()
    if any(member.compress_type != ZIP_STORED for member in members):
        raise ModelFileError("it has compressed members, which rankwise does not write")
    if sum(member.file_size for member in members) > n_bytes:
        raise ModelFileError("its members are larger than the file")
    sizes = {member.filename: member.file_size for member in members}
    named: list[int] = []

    def note(node: dict[str, Any]) -> dict[str, Any]:
        named.extend(sizes.get(value, 0) for value in node.values() if isinstance(value, str))
        return node

    tree = json.loads(archive.read(name), object_hook=note)
    if sum(named) > copies * n_bytes:
        raise ModelFileError(
            f"its arrays, as often as they are used, are more than {copies} times as large as it is"
        )
    return tree


CSR_PARTS = ("data", "indices", "indptr")
TRUSTED = (
    "numpy.dtype",  # of imputers and encoders
    "scipy.sparse._csr.csr_",
    "sklearn.metrics._scorer._PassthroughScorer",  # of GridSearchCV
    "sklearn.model_selection._split.",
    "sklearn.utils._metadata_requests.MetadataRequest",  # of GridSearchCV before 1.9
    "sklearn.utils._metadata_requests.MethodMetadataRequest",
)  # beginnings of names of types in skops files, in addition to the types that skops accepts
JOBS = AnyOf(None, Whole(-256, 256))  # workers that a part of scikit-learn may start
PLACEHOLDER = "rankwise value"  # the key of a dictionary that stands for a value in model.json


def encode(value: Any, archive: ZipFile, where: str) -> Any:
    """A value for ``model.json``; arrays become members. Error messages say `where` it is."""
    if is_tensor(value):
        value = to_host(value)
    if isinstance(value, np.generic):
        value = value.item()
    if hasattr(value, "__array__") and not isinstance(value, (np.ndarray, type)):
        value = np.asarray(value)  # of pandas or polars
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if type(value) is list:
        return [encode(entry, archive, where) for entry in value]
    if type(value) is tuple:
        return {"tuple": encode(list(value), archive, where)}
    if type(value) is frozenset:
        return {"frozenset": encode(sorted(value, key=repr), archive, where)}
    if type(value) is dict:
        value = {k.item() if isinstance(k, np.generic) else k: v for k, v in value.items()}
    if type(value) is dict and all(type(key) is str for key in value):
        return {"dict": _encode_dict(value, archive, where)}
    if type(value) is dict and all(type(key) in (int, str) for key in value):
        return {"items": encode([list(item) for item in value.items()], archive, where)}
    if isinstance(value, np.ma.MaskedArray):
        parts = {"data": np.asarray(value.data), "mask": np.ma.getmaskarray(value)}
        return {"masked": _encode_dict(parts, archive, where)}
    if isinstance(value, np.ndarray) and value.dtype == object:
        entries = encode(value.ravel().tolist(), archive, where)
        return {"objects": {"shape": list(value.shape), "entries": entries}}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufSUmM":
        return {"array": add_array(archive, value)}
    if is_sparse(value) and value.ndim == 2:
        rows = value if value.format == "csr" else sp.csr_array(value)
        members = {part: add_array(archive, getattr(rows, part)) for part in CSR_PARTS}
        return {"csr": {"shape": list(value.shape), **members}}
    return _encode_object(value, archive, where)


def _encode_dict(values: dict[str, Any], archive: ZipFile, owner: str) -> dict[str, Any]:
    return {name: encode(value, archive, f"{name} of {owner}") for name, value in values.items()}


def _encode_object(value: Any, archive: ZipFile, where: str) -> Any:
    """Rankers, value objects and what is scikit-learn's."""
    cls = type(value)
    ranker, value_object = ranker_name(cls), value_object_name(cls)
    if ranker is not None:
        return {"ranker": {"name": ranker, **_encode_ranker(value, archive)}}
    if value_object is not None:
        if is_dataclass(value):
            named = {field.name: getattr(value, field.name) for field in fields(value)}
        else:  # a kernel of scikit-learn
            named = value.get_params(deep=False)
        return {"object": {"name": value_object, "fields": _encode_dict(named, archive, where)}}
    if _is_scikit_learn(value) or isinstance(value, (np.random.Generator, np.random.RandomState)):
        return {"scikit-learn": _encode_part(value, archive)}
    if cls.__module__ == "torch" and cls.__name__ == "device":
        return str(value)
    return _refuse(value, where)


def _encode_ranker(ranker: Any, archive: ZipFile) -> dict[str, Any]:
    """Parameters and fitted attributes, by their names."""
    class_name, node = type(ranker).__name__, {}
    parameters = ranker.get_params(deep=False)
    fitted = {key: value for key, value in ranker.__getstate__().items() if key not in parameters}
    if "_sklearn_output_config" in fitted:
        node["output"] = fitted.pop("_sklearn_output_config")
    if "_metadata_request" in fitted:
        methods = vars(fitted.pop("_metadata_request"))
        requests = {key: getattr(method, "requests", None) for key, method in methods.items()}
        node["requests"] = {key: names for key, names in requests.items() if names}
    for key in fitted:
        if not _is_fitted_name(type(ranker), key):
            raise ModelFileError(f"{class_name} has an attribute {key}, which files do not store.")
    node["parameters"] = _encode_dict(parameters, archive, class_name)
    node["fitted"] = _encode_dict(fitted, archive, class_name)
    return node


def _encode_part(value: Any, archive: ZipFile) -> dict[str, Any]:
    """An object of scikit-learn as a skops file, with our values taken out of it."""
    from skops.io import dumps

    taken: list[Any] = []

    def replace(inner: Any) -> Any:
        cls = type(inner)
        if _is_ours(cls):
            taken.append(encode(inner, archive, cls.__name__))
            return {PLACEHOLDER: len(taken) - 1}
        return to_host(inner) if is_tensor(inner) else inner

    content = dumps(_rebuilt(value, replace))
    _trusted_types(content)
    return {"member": add_member(archive, content, "skops"), "values": taken}


def _refuse(value: Any, where: str) -> NoReturn:
    raise ModelFileError(
        f"{where} is {describe(value)}, which cannot be saved. Ids can be saved if they are text "
        "or integers, kernels by name, and arrays as NumPy arrays or sparse matrices. A ranker "
        "needs a stable name in rankwise.rankers.RANKERS, and a value object in "
        "rankwise.persistence.value_objects.VALUE_OBJECTS."
    )


def decode(node: Any, archive: ZipFile) -> Any:
    """The value that `encode` wrote, checked."""
    if node is None or isinstance(node, (bool, int, float, str)):
        return node
    if isinstance(node, list):
        return [decode(entry, archive) for entry in node]
    ((kind, content),) = node.items()
    if kind not in DECODERS:
        raise ModelFileError(f"model.json has a {kind!r}, which this version does not know")
    return DECODERS[kind](content, archive)


def _decode_dict(content: Any, archive: ZipFile) -> dict[str, Any]:
    return {name: decode(node, archive) for name, node in content.items()}


def _decode_csr(content: Any, archive: ZipFile) -> Any:
    """A CSR array whose indices all lie within its shape, as compiled loops assume."""
    data, indices, indptr = (read_array(archive, content[part]) for part in CSR_PARTS)
    if indices.dtype.kind != "i" or indptr.dtype.kind != "i" or data.dtype.kind not in "biuf":
        raise ModelFileError("the arrays of a CSR matrix have the wrong dtypes")
    matrix = sp.csr_array((data, indices, indptr), shape=tuple(content["shape"]))
    check_compressed(matrix)
    return matrix


def _decode_ranker(content: Any, archive: ZipFile) -> Any:
    name = content["name"]
    if name not in RANKERS | TRANSFORMERS:
        known = ", ".join(RANKERS | TRANSFORMERS)
        raise ModelFileError(f"this version has no ranker {name!r}. It has {known}")
    cls = ranker_class(name)
    parameters = _decode_dict(content["parameters"], archive)
    fitted = _decode_dict(content["fitted"], archive)
    for key in fitted:
        if key in parameters or not _is_fitted_name(cls, key):
            raise ModelFileError(f"it sets {key!r}, which is not a fitted attribute of {name}")
    for key in ("n_features_in_", "n_queries_", "max_query_rows_"):
        if not Whole(1).allows(fitted.get(key, 1)):
            raise ModelFileError(f"{key} of {name} must be {Whole(1)}: got {fitted[key]!r}")
    ranker = cls(**getattr(cls, "upgraded_parameters", dict)(parameters))
    check_parameters(ranker, getattr(cls, "parameters", {}))
    ranker.__setstate__(ranker.__getstate__() | fitted)
    with config_context(enable_metadata_routing=True):
        for method, requests in content.get("requests", {}).items():
            getattr(ranker, f"set_{method}_request")(**requests)
    if "output" in content:
        ranker.set_output(**content["output"])
    if name in TRANSFORMERS and fitted:
        check_complete(name, ranker)
    check_axes(name, ranker, lengths={"2": 2})
    return ranker


def _decode_part(content: Any, archive: ZipFile) -> Any:
    """The object in a skops file, with the values that were taken out of it."""
    from skops.io import loads

    values, part = decode(content["values"], archive), archive.read(content["member"])
    with ZipFile(io.BytesIO(part)) as members:
        read_tree(members, "schema.json", len(part))
    for value in values:
        if not _is_ours(type(value)):
            raise ModelFileError(f"it has {describe(value)} where a part of rankwise is needed")

    def replace(inner: Any) -> Any:
        if not JOBS.allows(getattr(inner, "n_jobs", None)):
            raise ModelFileError(
                f"n_jobs of {type(inner).__name__} must be {JOBS}: got {inner.n_jobs!r}"
            )
        if is_sparse(inner) and inner.format in ("csr", "csc"):
            check_compressed(inner)
        if type(inner) is dict and inner.keys() == {PLACEHOLDER}:
            return values[inner[PLACEHOLDER]]
        return inner

    return _rebuilt(loads(part, trusted=_trusted_types(part)), replace)


DECODERS: dict[str, Callable[[Any, ZipFile], Any]] = {
    "float": lambda content, _: float(content),
    "bytes": lambda content, _: bytes.fromhex(content),
    "tuple": lambda content, archive: tuple(decode(content, archive)),
    "frozenset": lambda content, archive: frozenset(decode(content, archive)),
    "dict": _decode_dict,
    "items": lambda content, archive: dict(decode(content, archive)),
    "masked": lambda content, archive: np.ma.MaskedArray(**_decode_dict(content, archive)),
    "objects": lambda content, archive: _objects(**_decode_dict(content, archive)),
    "array": lambda content, archive: read_array(archive, content),
    "csr": _decode_csr,
    "object": lambda content, archive: value_object_class(content["name"])(
        **renamed_fields(content["name"], _decode_dict(content["fields"], archive))
    ),
    "ranker": _decode_ranker,
    "scikit-learn": _decode_part,
}
"""How to read a value, by its kind."""


def _is_fitted_name(cls: type, key: str) -> bool:
    """Whether a file may set an attribute of this name: not a method, and nothing private."""
    return key.isidentifier() and not key.startswith("_") and not hasattr(cls, key)


def _is_ours(cls: type) -> bool:
    """Whether values of a class are taken out of parts of scikit-learn."""
    return cls.__module__.startswith("rankwise.") or value_object_name(cls) is not None


def _is_scikit_learn(value: Any) -> bool:
    """Whether an object, but not a class or a function, is scikit-learn's own."""
    return type(value).__module__.partition(".")[0] == "sklearn"


def _trusted_types(part: bytes) -> list[str]:
    """Types in a skops file that skops does not know; refused if they could execute code."""
    from skops.io import get_untrusted_types

    found = sorted(get_untrusted_types(data=part))
    foreign = [name for name in found if not name.startswith(TRUSTED)]
    if foreign:
        raise ModelFileError(f"The model holds {', '.join(foreign)}, which cannot be read safely.")
    return found


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
        return _objects(value.shape, [_rebuilt(entry, replace) for entry in value.flat])
    if _is_scikit_learn(value) and hasattr(value, "__dict__") and not isinstance(value, dict):
        twin = copy(value)
        for name, entry in vars(value).items():
            if name == "owner":  # of requests for metadata: from scikit-learn 1.9 on, the object
                entry = entry if isinstance(entry, str) else type(entry).__name__
            twin.__dict__[name] = _rebuilt(entry, replace)
        return twin
    return value


def _objects(shape: Any, entries: list[Any]) -> Any:
    """An array of objects, which may be sequences themselves."""
    return np.fromiter(entries, object, len(entries)).reshape(shape)
