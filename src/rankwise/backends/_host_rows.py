"""Rows in host memory that are processed on a device."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch

from rankwise.backends._torch import TorchBackend
from rankwise.backends.arrays import Rows, is_sparse


@cache
def _copy_stream(device: Any) -> Any:
    return torch.cuda.Stream(device)


class HostRows:
    """Rows in host memory that are processed on a device.

    ``X[rows]`` copies them to the device through two pinned buffers: one is filled while the
    other is being copied and the device works on the previous rows.

    Attributes
    ----------
    host : ndarray or sparse of shape (n_rows, n_features)
    backend : TorchBackend
    """

    def __init__(self, host: Any, backend: TorchBackend) -> None:
        self.host, self.backend = host, backend
        self.shape, self.dtype, self.ndim = host.shape, host.dtype, 2
        self._buffers: list[Any] = [None, None]
        self._sent: list[Any] = [None, None]
        self._turn = 0

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, rows: Rows) -> Any:
        block = self.host[rows]
        block = block.toarray() if is_sparse(block) else block
        if self.backend.device.type != "cuda":
            return self.backend.array(block)
        return self._send(block)

    def _send(self, block: Any) -> Any:
        self._turn = 1 - self._turn
        if self._sent[self._turn] is not None:
            self._sent[self._turn].synchronize()  # the buffer is still being read
        kind = torch.float32 if block.dtype == np.float32 else torch.float64
        buffer = self._buffers[self._turn]
        if buffer is None or buffer.numel() < block.size:
            buffer = torch.empty(block.size, dtype=kind, pin_memory=True)
            self._buffers[self._turn] = buffer
        pinned = buffer[: block.size].view(block.shape)
        np.copyto(pinned.numpy(), block)
        device = self.backend.device
        stream, work = _copy_stream(device), torch.cuda.current_stream(device)
        with torch.cuda.stream(stream):
            sent = pinned.to(device, non_blocking=True)
            self._sent[self._turn] = stream.record_event()
        work.wait_event(self._sent[self._turn])
        sent.record_stream(work)
        return sent.to(torch.float64)
