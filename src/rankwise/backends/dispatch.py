"""The backend of an array."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwise.backends._numpy import NUMPY
from rankwise.backends.arrays import is_tensor
from rankwise.backends.backend import Backend

__all__ = ["NUMPY", "as_given", "backend_of", "is_sent"]


def backend_of(X: Any) -> Backend:
    """The backend of X: that of the device of a tensor or of `HostRows`, otherwise NumPy's."""
    if isinstance(X, np.ndarray):
        return NUMPY
    backend = getattr(X, "backend", None)
    if isinstance(backend, Backend):
        return backend
    if is_tensor(X):
        from rankwise.backends._torch import TorchBackend  # torch is already imported

        return TorchBackend.on(X.device)
    return NUMPY


def as_given(X: Any) -> Any:
    """The array that the user passed: the host array of `HostRows`, anything else unchanged."""
    return X.host if isinstance(getattr(X, "backend", None), Backend) else X


def is_sent(X: Any) -> bool:
    """Whether rows are in host memory but processed on a device: results are then copied back."""
    return not is_tensor(X) and not backend_of(X).is_host
