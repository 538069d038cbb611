"""A model as a tree of values that JSON can hold, and back.

None, booleans, whole and finite numbers, texts and lists stand for themselves. All else is an
object with one key, which says what the value is: ``{"tuple": [...]}``,
``{"array": "arrays/0.npy"}``,
``{"ranker": {"name": "rankrls", "parameters": {...}, "fitted": {...}}}``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields
from inspect import signature
from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp

from rankwise.backends.arrays import is_sparse, is_tensor, to_host
from rankwise.errors import ModelFileError
from rankwise.persistence.archive import ArchiveReader, ArchiveWriter
from rankwise.persistence.fitted_shapes import check_shapes
from rankwise.persistence.scikit_learn_parts import (
    dump_part,
    is_scikit_learn,
    load_part,
    object_array,
)
from rankwise.persistence.stable_names import (
    GP_KERNELS,
    PRIVATE_ATTRIBUTES,
    describe,
    make_value_object,
    value_object_name,
)
from rankwise.rankers import RANKERS, ranker_class, ranker_name

SCALARS = {
    name: np.dtype(name).type
    for name in (
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float16", "float32", "float64", "str",
    )
}  # fmt: skip
BIT_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
RANDOM_POSITIONS = {"pos": 624, "buffer_pos": 4}  # the largest position in a generator's buffer


def encode(value: Any, archive: ArchiveWriter, where: str) -> Any:
    """A value for ``model.json``; arrays go into members of their own.

    Parameters
    ----------
    value : object
    archive : ArchiveWriter
    where : str
        What the value is, for error messages.
    """
    if value is None or isinstance(value, bool):
        return value
    if is_tensor(value):
        value = to_host(value)
    if isinstance(value, np.generic):
        return _encode_scalar(value, where)
    if isinstance(value, (int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if type(value) is list:
        return [encode(entry, archive, where) for entry in value]
    if type(value) is tuple:
        return {"tuple": [encode(entry, archive, where) for entry in value]}
    if type(value) in (set, frozenset):
        entries = [encode(entry, archive, where) for entry in sorted(value, key=repr)]
        return {type(value).__name__: entries}
    if type(value) is dict:
        pairs = [[encode(part, archive, where) for part in pair] for pair in value.items()]
        return {"dict": pairs}
    if isinstance(value, np.ndarray):
        return _encode_array(value, archive, where)
    if is_sparse(value):
        return _encode_csr(value, archive, where)
    return _encode_object(value, archive, where)


def _encode_object(value: Any, archive: ArchiveWriter, where: str) -> Any:
    """Rankers, value objects, kernels, generators and what is scikit-learn's."""
    cls = type(value)
    ranker, value_object = ranker_name(cls), value_object_name(cls)
    if ranker is not None:
        return {"ranker": _encode_ranker(ranker, value, archive)}
    if value_object is not None:
        named = {field.name: getattr(value, field.name) for field in fields(value)}
        return {"object": {"name": value_object, "fields": _encode_dict(named, archive, where)}}
    if _is_gp_kernel(value):
        parameters = value.get_params(deep=False)
        return {
            "kernel": {
                "name": cls.__name__,
                "parameters": _encode_dict(parameters, archive, f"{where}, {cls.__name__}"),
            }
        }
    if isinstance(value, np.random.Generator):
        return {"generator": encode(value.bit_generator.state, archive, where)}
    if isinstance(value, np.random.RandomState):
        return {"random-state": encode(value.get_state(legacy=False), archive, where)}
    if is_scikit_learn(value):
        content, taken = dump_part(value, _is_stored_by_us)
        parts = [encode(part, archive, type(part).__name__) for part in taken]
        return {"scikit-learn": {"member": archive.add_part(content), "values": parts}}
    if cls.__module__ == "torch" and cls.__name__ == "device":
        return str(value)
    return _refuse(value, where)


def _encode_ranker(name: str, ranker: Any, archive: ArchiveWriter) -> Any:
    """Parameters and fitted attributes, by their names."""
    class_name = type(ranker).__name__
    parameters = ranker.get_params(deep=False)
    state = ranker.__getstate__()
    stable = {attribute: key for key, attribute in PRIVATE_ATTRIBUTES.items()}
    fitted = {
        stable.get(attribute, attribute): value
        for attribute, value in state.items()
        if attribute not in parameters and attribute != "_sklearn_version"
    }
    if "metadata-request" in fitted:
        fitted["metadata-request"] = _requests(fitted["metadata-request"])
    for key in fitted:
        if not _is_fitted_name(type(ranker), key):
            raise ModelFileError(f"{class_name} has an attribute {key}, which files do not store.")
    return {
        "name": name,
        "parameters": _encode_dict(parameters, archive, class_name),
        "fitted": _encode_dict(fitted, archive, class_name),
    }


def _requests(metadata_request: Any) -> dict[str, dict[str, Any]]:
    """What the methods of an estimator request by scikit-learn's metadata routing."""
    methods = {
        name: getattr(method, "requests", None) for name, method in vars(metadata_request).items()
    }
    return {name: dict(requests) for name, requests in methods.items() if requests}


def _encode_dict(values: dict[str, Any], archive: ArchiveWriter, owner: str) -> dict[str, Any]:
    return {name: encode(value, archive, f"{name} of {owner}") for name, value in values.items()}


def _encode_scalar(value: Any, where: str) -> Any:
    name = "str" if value.dtype.kind == "U" else value.dtype.name
    if name not in SCALARS:
        return _refuse(value, where)
    plain = value.item()
    if isinstance(plain, float) and not math.isfinite(plain):
        plain = {"float": str(plain)}
    return {"scalar": {"dtype": name, "value": plain}}


def _encode_array(value: Any, archive: ArchiveWriter, where: str) -> Any:
    if isinstance(value, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(value)
        parts = {"data": np.asarray(value.data), "mask": mask}
        return {"masked": _encode_dict(parts, archive, where)}
    if value.dtype == object:
        entries = [encode(entry, archive, where) for entry in value.ravel()]
        return {"objects": {"shape": list(value.shape), "values": entries}}
    if value.dtype.hasobject or value.dtype.names:
        return _refuse(value, where)
    return {"array": archive.add_array(value if type(value) is np.ndarray else np.asarray(value))}


def _encode_csr(value: Any, archive: ArchiveWriter, where: str) -> Any:
    if value.format != "csr" or value.ndim != 2:
        return _refuse(value, where)
    return {
        "csr": {
            "kind": "array" if isinstance(value, sp.sparray) else "matrix",
            "shape": list(value.shape),
            **{part: archive.add_array(getattr(value, part)) for part in CSR_PARTS},
        }
    }


CSR_PARTS = ("data", "indices", "indptr")


def _is_gp_kernel(value: Any) -> bool:
    cls = type(value)
    return cls.__module__ == "sklearn.gaussian_process.kernels" and cls.__name__ in GP_KERNELS


def _is_stored_by_us(value: Any) -> bool:
    """Whether a value inside of an object of scikit-learn is taken out of it."""
    ours = type(value).__module__.partition(".")[0] == "rankwise"
    return ours or is_tensor(value) or _is_gp_kernel(value)


def _is_fitted_name(cls: type, key: Any) -> bool:
    """Whether a file may set an attribute of this name: not a method, and nothing private."""
    if key in PRIVATE_ATTRIBUTES:
        return True
    return str.isidentifier(key) and not key.startswith("_") and not hasattr(cls, key)


def _refuse(value: Any, where: str) -> NoReturn:
    raise ModelFileError(
        f"{where} is {describe(value)}, which a model file cannot hold: it could not be read back "
        "safely. Kernels can be saved by name, arrays as NumPy arrays or CSR matrices."
    )


def decode(node: Any, archive: ArchiveReader) -> Any:
    """The value that `encode` wrote, checked."""
    if node is None or isinstance(node, (bool, int, float, str)):
        return node
    if isinstance(node, list):
        return [decode(entry, archive) for entry in node]
    if not isinstance(node, dict) or len(node) != 1:
        raise ModelFileError("model.json has a value that is not in this format")
    ((kind, content),) = node.items()
    if kind not in DECODERS:
        raise ModelFileError(f"model.json has a {kind!r}, which this version does not know")
    return DECODERS[kind](content, archive)


def _decode_dict(content: Any, archive: ArchiveReader) -> dict[str, Any]:
    return {name: decode(node, archive) for name, node in content.items()}


def _decode_array(content: Any, archive: ArchiveReader) -> Any:
    return archive.read_array(content)


def _decode_ranker(content: Any, archive: ArchiveReader) -> Any:
    name = content["name"]
    if name not in RANKERS:
        raise ModelFileError(
            f"it holds a ranker {name!r}, which this version does not know. It knows "
            f"{', '.join(RANKERS)}"
        )
    cls = ranker_class(name)
    parameters = _decode_dict(content["parameters"], archive)
    unknown = sorted(parameters.keys() - signature(cls).parameters.keys())
    if unknown:
        raise ModelFileError(f"it has a parameter {unknown[0]!r}, which {cls.__name__} has not")
    ranker = cls(**parameters)
    state = ranker.__getstate__()
    for key, value in _decode_dict(content["fitted"], archive).items():
        if key in parameters or not _is_fitted_name(cls, key):
            raise ModelFileError(f"it sets {key!r}, which is not a fitted attribute of {name}")
        if key == "metadata-request":
            value = _metadata_request(ranker, value)
        state[PRIVATE_ATTRIBUTES.get(key, key)] = value
    ranker.__setstate__(state)
    check_shapes(name, ranker)
    return ranker


def _metadata_request(ranker: Any, requests: dict[str, dict[str, Any]]) -> Any:
    from sklearn.utils.metadata_routing import MetadataRequest

    made = MetadataRequest(owner=ranker)
    for method, parameters in requests.items():
        for parameter, alias in parameters.items():
            getattr(made, method).add_request(param=parameter, alias=alias)
    return made


def _decode_object(content: Any, archive: ArchiveReader) -> Any:
    name = content["name"]
    thing = make_value_object(name, _decode_dict(content["fields"], archive))
    check_shapes(name, thing)
    return thing


def _decode_kernel(content: Any, archive: ArchiveReader) -> Any:
    from sklearn.gaussian_process import kernels

    name, parameters = content["name"], _decode_dict(content["parameters"], archive)
    if name not in GP_KERNELS:
        raise ModelFileError(f"it has a kernel {name!r}, which this version does not know")
    for key, value in parameters.items():
        if not _is_kernel_parameter(key, value):
            raise ModelFileError(f"the {key} of the kernel {name} is {describe(value)}")
    return getattr(kernels, name)(**parameters)


def _is_kernel_parameter(key: str, value: Any) -> bool:
    """Whether a parameter of a Gaussian process kernel has the type that its name says."""
    if key in ("k1", "k2", "kernel"):
        return _is_gp_kernel(value)
    if key == "kernels":
        return isinstance(value, list) and all(map(_is_gp_kernel, value))
    if key == "metric":
        return isinstance(value, str)
    if key == "pairwise_kernels_kwargs":
        return value is None or isinstance(value, dict)
    if key.endswith("_bounds") and isinstance(value, str):
        return value == "fixed"
    return np.asarray(value).dtype.kind in "iuf" and not np.isnan(value).any()


def _decode_scalar(content: Any, archive: ArchiveReader) -> Any:
    return SCALARS[content["dtype"]](decode(content["value"], archive))


def _decode_masked(content: Any, archive: ArchiveReader) -> Any:
    parts = _decode_dict(content, archive)
    return np.ma.MaskedArray(parts["data"], parts["mask"])


def _decode_objects(content: Any, archive: ArchiveReader) -> Any:
    return object_array(tuple(content["shape"]), decode(content["values"], archive))


def _decode_csr(content: Any, archive: ArchiveReader) -> Any:
    """A CSR matrix whose indices all lie within its shape: compiled loops rely on it."""
    data, indices, indptr = (archive.read_array(content[part]) for part in CSR_PARTS)
    make = {"array": sp.csr_array, "matrix": sp.csr_matrix}[content["kind"]]
    n_rows, n_columns = content["shape"]
    sound = (
        data.ndim == indices.ndim == indptr.ndim == 1
        and indices.dtype.kind == indptr.dtype.kind == "i"
        and data.dtype.kind in "biuf"
        and len(data) == len(indices)
        and len(indptr) == n_rows + 1
        and indptr[0] == 0
        and indptr[-1] == len(data)
        and bool((np.diff(indptr) >= 0).all())
        and (not len(indices) or bool(indices.min() >= 0 and indices.max() < n_columns))
    )
    if not sound:
        raise ModelFileError("the arrays of a CSR matrix do not belong together")
    return make((data, indices, indptr), shape=(n_rows, n_columns))


def _decode_generator(content: Any, archive: ArchiveReader) -> Any:
    state = _random_state(content, archive)
    name = state["bit_generator"]
    if name not in BIT_GENERATORS:
        raise ModelFileError(f"it has a random generator {name!r}, which no model uses")
    bits = getattr(np.random, name)()
    bits.state = state
    return np.random.Generator(bits)


def _decode_random_state(content: Any, archive: ArchiveReader) -> Any:
    random_state = np.random.RandomState()
    random_state.set_state(_random_state(content, archive))
    return random_state


def _random_state(content: Any, archive: ArchiveReader) -> Any:
    """The state of a generator; its position is checked, which NumPy does not do."""
    state = decode(content, archive)
    for owner in (state, state["state"]):
        for key, highest in RANDOM_POSITIONS.items():
            if not 0 <= owner.get(key, 0) <= highest:
                raise ModelFileError("the position of a random generator is out of range")
    return state


def _decode_part(content: Any, archive: ArchiveReader) -> Any:
    values = decode(content["values"], archive)
    return load_part(archive.read_bytes(content["member"]), values)


DECODERS: dict[str, Callable[[Any, ArchiveReader], Any]] = {
    "float": lambda content, _: float(content),
    "bytes": lambda content, _: bytes.fromhex(content),
    "tuple": lambda content, archive: tuple(decode(content, archive)),
    "set": lambda content, archive: set(decode(content, archive)),
    "frozenset": lambda content, archive: frozenset(decode(content, archive)),
    "dict": lambda content, archive: dict(decode(content, archive)),
    "scalar": _decode_scalar,
    "array": _decode_array,
    "masked": _decode_masked,
    "objects": _decode_objects,
    "csr": _decode_csr,
    "object": _decode_object,
    "ranker": _decode_ranker,
    "kernel": _decode_kernel,
    "generator": _decode_generator,
    "random-state": _decode_random_state,
    "scikit-learn": _decode_part,
}
"""How to read a value, by its kind."""
