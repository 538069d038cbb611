"""From an array to the backend it lives on."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwise.backends._numpy import NUMPY
from rankwise.backends.arrays import is_tensor
from rankwise.backends.backend import Backend

__all__ = ["NUMPY", "at_home", "backend_of"]


def backend_of(X: Any) -> Backend:
    """Where X lives: the device of a tensor or of travelling rows, NumPy for all else."""
    if isinstance(X, np.ndarray):
        return NUMPY
    travelling = getattr(X, "backend", None)
    if isinstance(travelling, Backend):
        return travelling
    if is_tensor(X):
        from rankwise.backends._torch import TorchBackend  # only where there is a tensor

        return TorchBackend.on(X.device)
    return NUMPY


def at_home(X: Any) -> Any:
    """What the user gave: rows that travel as they lie here, all else as it is."""
    return X.host if isinstance(getattr(X, "backend", None), Backend) else X
