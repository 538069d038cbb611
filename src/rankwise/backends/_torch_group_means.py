"""Means of nested groups of rows, as torch expressions."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from rankwise.backends.arrays import Index
from rankwise.backends.backend import Backend

FEW_GROUPS = 64  # up to this many are summed by a product with their indicator


class Nest:
    """The formula of group_means.py as torch expressions, on rows sorted by group."""

    def __init__(self, on: Backend, lengths: Index, a: Any, shift: Any) -> None:
        self.on, self.lengths, self.a, self._between = on, lengths, a, shift
        self.size = int(lengths[0]) if len(lengths) and (lengths == lengths[0]).all() else 0
        self.level = None if self.size else on.index(np.repeat(np.arange(len(lengths)), lengths))

    @classmethod
    def of(cls, on: Backend, level_ptr: Index, group_ptr: Index, a: Any, b: Any) -> Nest:
        """From levels and groups; only groups of several levels need a mean of their own."""
        levels = np.diff(group_ptr)
        between = None
        if bool((levels > 1).any()):
            of_group = np.where(levels > 1, b, 0.0)
            between = (levels, level_ptr[group_ptr], on.array(np.repeat(of_group, levels)))
        return cls(on, np.diff(level_ptr), on.array(a), between)

    def combine(self, x: Any, out: Any) -> None:
        """out <- a_l (x - mean_l) + b_g (mean_l - mean_g); `out` may be x."""
        sums = segment_sums(self.on, x, self.lengths)
        lengths = self.on.array(self.lengths)[:, None]
        means = sums / lengths
        torch.sub(self._rows(x), self._spread(means), out=self._rows(out))
        self._rows(out).mul_(self._spread(self.a[:, None]))
        if self._between is None:
            return
        levels, ends, b = self._between
        totals = segment_sums(self.on, sums, levels) / self.on.array(np.diff(ends))[:, None]
        group = self.on.index(np.repeat(np.arange(len(levels)), levels))
        self._rows(out).add_(self._spread(b[:, None] * (means - totals[group])))

    def _rows(self, x: Any) -> Any:
        return x.unflatten(0, (len(self.lengths), self.size)) if self.size else x

    def _spread(self, of_level: Any) -> Any:
        """Repeat one row per level for each row of that level."""
        return of_level[:, None] if self.size else of_level[self.level]


def segment_sums(on: Backend, x: Any, lengths: Index) -> Any:
    """Sums of consecutive segments of the given lengths; deterministic."""
    if len(lengths) == 1:
        return x.sum(dim=0, keepdim=True)
    if len(lengths) <= FEW_GROUPS:
        group = on.index(np.repeat(np.arange(len(lengths)), lengths))
        member = group[:, None] == torch.arange(len(lengths), device=x.device)
        return member.to(x.dtype).T @ x
    return torch.segment_reduce(
        x.contiguous(), "sum", lengths=on.index(lengths), axis=0, unsafe=True
    )
