"""The places where arrays are: NumPy, tensors on a device, or NumPy arrays copied to a device."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np


@dataclass(frozen=True)
class Place:
    """How a check passes arrays, which parameters it sets, and which results it expects."""

    name: str
    give: Callable[[Any], Any]
    parameters: dict[str, Any]
    check: Callable[[Any], None]
    strict: Callable[[], AbstractContextManager[Any]] = nullcontext

    def of(self, estimator: Any) -> Any:
        """The estimator with the parameters of this place."""
        return estimator.set_params(**self.parameters)


def _is_numpy(value: Any) -> None:
    assert isinstance(value, (np.ndarray, float)), f"NumPy in, {type(value)} out"


NUMPY = Place("numpy", lambda values: values, {}, _is_numpy)


def tensors(device: str) -> Place:
    """Tensors on a device; results must be tensors on the same device."""
    import torch

    def give(values: Any) -> Any:
        return torch.tensor(values, device=device)

    def check(value: Any) -> None:
        if isinstance(value, float):
            return
        assert isinstance(value, torch.Tensor), f"tensors in, {type(value)} out"
        assert value.device.type == torch.device(device).type

    return Place(f"tensors on {device}", give, {}, check, no_implicit_copies)


def no_implicit_copies() -> AbstractContextManager[Any]:
    """Make NumPy reject tensors on the CPU, as it rejects tensors on a GPU."""
    return patch("torch.Tensor.__array__", _raise_error)


def _raise_error(self: Any, *_: Any, **__: Any) -> Any:
    raise TypeError("a tensor was silently converted to a NumPy array")


def copied_from_host(device: str) -> Place:
    """NumPy arrays that rankers copy to a device; results must be NumPy arrays."""
    import torch

    return Place(
        f"NumPy to {device}",
        lambda values: values,
        {"device": torch.device(device)},
        _is_numpy,
        no_implicit_copies,
    )


def to_numpy(value: Any) -> Any:
    return value.cpu().numpy() if hasattr(value, "cpu") else np.asarray(value)
