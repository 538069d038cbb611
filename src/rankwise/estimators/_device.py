"""The device on which a ranker computes.

There are three cases. Tensors are processed on their device, and results are tensors. NumPy
arrays with ``device="cuda"`` are sent to the GPU block by block, and results are NumPy arrays.
NumPy arrays without a device are processed by NumPy and SciPy.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from rankwise.backends.arrays import Array, is_tensor, to_host
from rankwise.backends.backend import Backend
from rankwise.backends.dispatch import backend_of, is_sent
from rankwise.errors import DataError, DeviceError, MissingExtraError, ParameterError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Record = TypeVar("Record", bound="DataclassInstance")


def send_rows(X: Any, device: Any) -> Any:
    """Validated NumPy or SciPy rows, ready to be sent to `device` block by block."""
    backend = _resolve(device)
    if backend is None:
        return X
    from rankwise.backends._host_rows import HostRows  # needs torch

    return HostRows(X, backend)


def returned(record: Record, X: Any) -> Record:
    """A record of arrays, copied back to the host if the rows X were sent from there."""
    if not is_sent(X):
        return record
    changed = {f.name: to_host(getattr(record, f.name)) for f in fields(record)}
    return replace(record, **changed)


def moved(record: Record, on: Backend) -> Record:
    """A record with its float64 arrays, and those of nested records, on a backend."""
    changed: dict[str, Any] = {}
    for f in fields(record):
        value = getattr(record, f.name)
        if is_tensor(value) or (isinstance(value, np.ndarray) and value.dtype == np.float64):
            changed[f.name] = on.array(value)
        elif isinstance(value, list):
            changed[f.name] = [_moved(entry, on) for entry in value]
        else:
            changed[f.name] = _moved(value, on)
    return replace(record, **changed)


def _moved(value: Any, on: Backend) -> Any:
    """`moved` for records, the identity for other values."""
    return moved(value, on) if is_dataclass(value) and not isinstance(value, type) else value


def _resolve(device: Any) -> Any:
    """The backend of a device; None for NumPy."""
    if device is None or device == "cpu":
        return None
    try:
        import torch
    except ImportError:
        if device == "auto":
            return None
        raise MissingExtraError("torch", "gpu") from None
    from rankwise.backends._torch import TorchBackend

    if device == "auto":
        if not torch.cuda.is_available():
            return None
        place = torch.device("cuda")
    else:
        place = _named_device(torch, device)
    if place.type == "cuda":
        if not torch.cuda.is_available():
            raise DeviceError(
                f"device={device!r} needs a GPU, but torch finds none. Use device=None for the "
                'CPU, or device="auto" to use a GPU only if there is one.'
            )
        number = torch.cuda.current_device() if place.index is None else place.index
        if number >= torch.cuda.device_count():
            raise DeviceError(
                f"device={device!r} does not exist: torch finds {torch.cuda.device_count()} GPUs, "
                "numbered from 0."
            )
        place = torch.device("cuda", number)
    _check_works(place)
    return TorchBackend.on(place)


def _check_works(device: Any) -> None:
    """Raise an error for devices without values, or without float64 (Apple's GPUs)."""
    if device.type == "meta":
        raise DeviceError(
            'Tensors on the device "meta" have no values: use device="cpu" or "cuda".'
        )
    if device.type == "mps":
        raise DeviceError(
            f"The device {device} does not support float64, which rankwise needs. Use the CPU "
            "(device=None, or X.cpu()), or a CUDA device."
        )


def _named_device(torch: Any, device: Any) -> Any:
    if isinstance(device, torch.device):
        return device
    if isinstance(device, str):
        try:
            return torch.device(device)
        except RuntimeError:
            pass
    raise ParameterError(
        f'device must be None, "cpu", "cuda", "cuda:1" or the like, "auto", or a torch.device: got '
        f"{device!r}."
    )


def check_tensor(ranker: Any, X: Any, *, reset: bool, min_rows: int) -> Any:
    """Rows as a tensor, with the checks that scikit-learn makes for arrays."""
    _check_device(X, ranker.device)
    name = type(ranker).__name__
    if X.layout != backend_of(X).xp.strided or X.is_complex():
        raise DataError(
            f"X must be a dense tensor of real numbers: got {X.layout}, {X.dtype}. Pass "
            'sparse rows as a scipy.sparse matrix, with device="cuda".'
        )
    if X.ndim != 2:
        raise DataError(
            f"Expected 2D array, got {X.ndim}D tensor instead. Reshape your data, for "
            "example with X.reshape(-1, 1) for a single feature."
        )
    if not X.dtype.is_floating_point or X.dtype.itemsize < 4:
        X = X.to(backend_of(X).xp.float64)
    n_rows, n_features = X.shape
    if n_rows < min_rows:
        raise DataError(
            f"Found array with {n_rows} sample(s) while a minimum of {min_rows} is required by "
            f"{name}."
        )
    if n_features < 1:
        raise DataError(
            f"Found array with 0 feature(s) while a minimum of 1 is required by {name}."
        )
    if reset:
        ranker.n_features_in_ = n_features
        ranker.__dict__.pop("feature_names_in_", None)
    elif n_features != ranker.n_features_in_:
        raise DataError(
            f"X has {n_features} features, but {name} is expecting {ranker.n_features_in_} "
            "features as input."
        )
    on = backend_of(X)
    if not on.is_finite(X):
        row, column = on.xp.nonzero(~on.xp.isfinite(X))[0].tolist()
        raise DataError(
            f"Input X contains NaN or infinity, which {name} does not accept: the first in row "
            f"{row}, column {column}. Use finite numbers instead, or drop these rows."
        )
    return X.detach()


def check_targets(y: Any, on: Backend, n_rows: int) -> Array:
    """Labels for rows that are tensors, as float64 on their device."""
    if y is None:
        raise DataError("requires y to be passed, but the target y is None.")
    if not is_tensor(y):
        y = np.asarray(y)
        if y.dtype.kind not in "biuf":
            try:
                y = y.astype(np.float64)
            except (TypeError, ValueError):
                raise DataError(f"y must hold numbers: got dtype {y.dtype}.") from None
    elif y.is_complex() or y.layout != on.xp.strided:
        raise DataError(f"y must be a dense tensor of real numbers: got {y.layout}, {y.dtype}.")
    else:
        _check_works(y.device)
    y = on.array(y)
    if y.ndim not in (1, 2) or 0 in y.shape[1:]:
        raise DataError(
            "y must have one or two dimensions, and at least one output: got shape "
            f"{tuple(y.shape)}."
        )
    if len(y) != n_rows:
        raise DataError(f"X and y must have the same number of rows: got {n_rows} and {len(y)}.")
    if not on.is_finite(y):
        row = int(on.xp.nonzero(~on.xp.isfinite(y))[0][0])
        raise DataError(
            f"Input y contains NaN or infinity, the first in row {row}. Drop these rows."
        )
    return y


def _check_device(X: Any, device: Any) -> None:
    """Raise an error for a device other than that of the tensors, which are not moved."""
    _check_works(X.device)
    if device is None or device == "auto":
        return
    wanted = _named_device(backend_of(X).xp, device)
    same = wanted.type == X.device.type and wanted.index in (None, X.device.index)
    if not same:
        raise DeviceError(
            f"X is on {X.device}, but device={str(device)!r}: tensors are not moved. Move them "
            f"yourself (X.to({str(device)!r})), or omit device."
        )
