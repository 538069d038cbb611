"""Scaling of the columns of groups of rows, as torch expressions on rows sorted by group."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from rankwise.backends._torch_group_means import segment_sums
from rankwise.backends.arrays import Index
from rankwise.backends.backend import Backend


class Groups:
    """Consecutive groups of rows; the methods are those of group_scaling.py on some columns."""

    def __init__(self, on: Backend, ptr: Index) -> None:
        self.on, self.lengths = on, np.diff(ptr)
        self.starts = on.index(ptr[:-1])
        self.of_row = on.index(np.repeat(np.arange(len(self.lengths)), self.lengths))

    def minmax(self, x: Any) -> bool:
        low, high = self._extreme(x, "min"), self._extreme(x, "max")
        span = high - low
        finite = bool(torch.isfinite(span).all())
        span[span == 0] = 1.0
        x.sub_(low[self.of_row]).div_(span[self.of_row])
        return finite

    def standardize(self, x: Any) -> None:
        z = x.to(torch.float64)
        sizes = self.on.array(np.maximum(self.lengths, 1))[:, None]
        z = z - (segment_sums(self.on, z, self.lengths) / sizes)[self.of_row]
        deviation = torch.sqrt(segment_sums(self.on, z * z, self.lengths) / sizes)
        deviation[deviation == 0] = 1.0
        x.copy_(z / deviation[self.of_row])

    def rank(self, x: Any) -> None:
        n = len(x)
        order = x.argsort(dim=0, stable=True)
        order = order.gather(0, self.of_row[order].argsort(dim=0, stable=True))
        ordered = x.gather(0, order)
        position = torch.arange(n, device=x.device)[:, None].expand_as(x)
        # Runs of equal values within a group: where they start, and where the next one starts.
        starts = torch.ones_like(ordered, dtype=torch.bool)
        starts[1:] = ordered[1:] != ordered[:-1]
        starts[self.starts[self.starts < n]] = True
        first = torch.where(starts, position, 0).cummax(dim=0).values
        ends = torch.ones_like(starts)
        ends[:-1] = starts[1:]
        last = torch.where(ends, position, n).flip(0).cummin(dim=0).values.flip(0)
        size = self.on.index(self.lengths)[self.of_row][:, None]
        before = self.starts[self.of_row][:, None]
        rank = (first + last - 2 * before - (size - 1)).to(torch.float64)
        rank /= 2.0 * (size - 1).clamp(min=1)
        x.scatter_(0, order, rank.to(x.dtype))

    def _extreme(self, x: Any, which: str) -> Any:
        lengths = self.on.index(self.lengths)
        return torch.segment_reduce(x.contiguous(), which, lengths=lengths, axis=0, unsafe=True)
