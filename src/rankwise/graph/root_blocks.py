"""The root of a query graph, applied to features that are read block by block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rankwise.backends.arrays import Array, Index, Loader, Rows
from rankwise.backends.dispatch import backend_of
from rankwise.graph.pair_graph import row_scale
from rankwise.graph.weighted_means import combine_weighted


class NestedLevels(NamedTuple):
    """x_i <- a_l (x_i - mean_l) + b_g (mean_l - mean_g): rows in levels, levels in groups.

    Level l holds the positions level_ptr[l]:level_ptr[l + 1] of `rows`, group g the levels
    group_ptr[g]:group_ptr[g + 1].
    """

    rows: Index
    level_ptr: Index
    group_ptr: Index
    a: Array
    b: Array


class RootBlock(NamedTuple):
    """Features F and targets t of some rows, R F and R t, and the weights of the rows."""

    F: Array
    t: Array
    root_F: Array
    root_t: Array
    weights: Array | None = None


@dataclass
class RootBlocks:
    """Blocks of R F and R t, from at most `max_rows` rows of features at a time.

    If rows have `weights`, means are weighted, and row i of a block is multiplied by the square
    root of its weight.
    """

    nest: NestedLevels
    load: Loader
    targets: Array
    max_rows: int
    weights: Array | None = None
    _buffer: Array | None = None

    def __iter__(self) -> Iterator[tuple[Array, Array]]:
        level_ptr, group_ptr = self.nest.level_ptr, self.nest.group_ptr
        for first, last in runs(np.diff(level_ptr[group_ptr]), self.max_rows):
            levels = slice(group_ptr[first], group_ptr[last])
            if level_ptr[levels.stop] - level_ptr[levels.start] > self.max_rows:
                yield from self._long_group(first)
            else:
                block = self._block(
                    level_ptr[levels.start : levels.stop + 1],
                    group_ptr[first : last + 1] - levels.start,
                    self.nest.a[levels],
                    self.nest.b[first:last],
                )
                yield block.root_F, block.root_t

    def _long_group(self, group: int) -> Iterator[tuple[Array, Array]]:
        """Blocks of a group that has more rows than a block.

        The scatter of a group is the scatter within its parts plus the scatter of their means. So
        each part is centred on its own, and a few rows made of the means follow.
        """
        nest = self.nest
        begin, end = nest.group_ptr[group], nest.group_ptr[group + 1]
        parts = _PartMeans()
        for first, last in runs(np.diff(nest.level_ptr[begin : end + 1]), self.max_rows):
            levels = slice(begin + first, begin + last)
            ptr = nest.level_ptr[levels.start : levels.stop + 1]
            if ptr[-1] - ptr[0] <= self.max_rows:
                one_group = np.array([0, last - first])
                block = self._block(ptr, one_group, nest.a[levels], nest.b[group : group + 1])
                yield block.root_F, block.root_t
                parts.add(block)
                continue
            pieces = _PartMeans()
            for start in range(ptr[0], ptr[-1], self.max_rows):
                piece = np.array([start, min(start + self.max_rows, ptr[-1])])
                block = self._block(piece, np.array([0, 1]), nest.a[levels], np.zeros(1))
                yield block.root_F, block.root_t
                pieces.add(block)
            yield pieces.spread(nest.a[levels.start])
            parts.extend(pieces)
        yield parts.spread(nest.b[group])

    def _block(self, level_ptr: Index, group_ptr: Index, a: Array, b: Array) -> RootBlock:
        rows = self.nest.rows[level_ptr[0] : level_ptr[-1]]
        low, high = int(rows.min()), int(rows.max()) + 1
        taken: Rows = rows
        local = np.arange(len(rows))
        if high - low == len(rows):  # a slice avoids the copy
            taken, local = slice(low, high), rows - low
        F, t = self.load(taken), self.targets[taken]
        if self.weights is not None:
            level = np.empty(len(rows), dtype=np.intp)
            level[local] = np.repeat(np.arange(len(a)), np.diff(level_ptr))
            group_of_level = np.repeat(np.arange(len(b)), np.diff(group_ptr))
            weights = self.weights[taken]
            root_F, root_t = (
                row_scale(
                    np.sqrt(weights), combine_weighted(part, weights, level, group_of_level, a, b)
                )
                for part in (F, t)
            )
            return RootBlock(F, t, root_F, root_t, weights)
        on, size = backend_of(F), F.shape[0] * F.shape[1]
        if self._buffer is None or len(self._buffer) < size:
            self._buffer = on.empty(size)
        root_F, root_t = self._buffer[:size].reshape(F.shape), on.empty(*t.shape)
        in_order, level_ptr = np.arange(len(rows)), level_ptr - level_ptr[0]
        on.combine_rows(F, root_F, local, in_order, level_ptr, group_ptr, a, b)
        on.combine_rows(t, root_t, local, in_order, level_ptr, group_ptr, a, b)
        return RootBlock(F, t, root_F, root_t)


class _PartMeans:
    """The means of the parts of a group, and the numbers of rows (or weights) of the parts."""

    def __init__(self) -> None:
        self.sizes: list[float] = []
        self.F: list[Array] = []
        self.t: list[Array] = []

    def add(self, block: RootBlock) -> None:
        if block.weights is None:
            self._append(len(block.F), block.F.mean(axis=0), block.t.mean(axis=0))
        else:
            total = float(block.weights.sum())
            shares = backend_of(block.F).array(block.weights / total)
            self._append(total, shares @ block.F, shares @ block.t)

    def extend(self, pieces: _PartMeans) -> None:
        """Add the parts of another collection as one part."""
        on = backend_of(pieces.F[0])
        weights = on.array(np.array(pieces.sizes) / sum(pieces.sizes))
        F, t = on.xp.stack(pieces.F), on.xp.stack(pieces.t)
        self._append(sum(pieces.sizes), weights @ F, weights @ t)

    def spread(self, scale: float) -> tuple[Array, Array]:
        """Rows whose products are the scatter between the parts."""
        on, sizes = backend_of(self.F[0]), np.array(self.sizes, dtype=np.float64)
        factors = on.array(scale * np.sqrt(sizes)[:, None])
        F, t = on.xp.stack(self.F), on.xp.stack(self.t)
        weights = on.array(sizes / sizes.sum())
        return factors * (F - weights @ F), factors * (t - weights @ t)

    def _append(self, size: float, F: Array, t: Array) -> None:
        self.sizes.append(size)
        self.F.append(F)
        self.t.append(t)


def runs(sizes: Index, max_rows: int) -> Iterator[tuple[int, int]]:
    """Consecutive items [first, last) with at most `max_rows` rows, or a single larger item."""
    ends = np.cumsum(sizes)
    first = 0
    while first < len(sizes):
        begin = ends[first] - sizes[first]
        last = max(first + 1, int(np.searchsorted(ends, begin + max_rows, side="right")))
        yield first, last
        first = last
