"""Held-out pairs of RankRLS without tied pairs, from one system for all pairs of levels.

Let n_l be the number of rows of level l, and n the number of all rows. With one row of level p and
one of level q held out, the Laplacian of the remaining rows is B - 11', with a block d_l I + 11'
for each level: d_l = n - 2 - n_l, or one more if l is p or q. Since B 1 = (n - 2) 1, the optimality
conditions are those of ridge regression with an intercept,

    (K + lam B^-1) a + c 1 = y,   1'a = 0,

where held-out rows have a = 0. Let B0 be B with d_l = n - 2 - n_l for all levels, and R its
symmetric root. In the coordinates R^-1 a, B0^-1 becomes the identity, and the blocks of p and q in
B^-1 become d_l / (d_l + 1) I. Let Q = C - H, with the hat matrix H of the rows R K R at mu = lam.
Only rows U of the two levels differ from the base system, and with w = 1 / (d_l + 1),

    Q_UU  <-  (I - Q_UU diag(w))^-1 Q_UU,   H_UU  <-  H_UU (I + diag(w) Q_UU).

The matrix to invert has eigenvalues between 1/2 and 1. Two rows of the same level leave it with
d_l + 2 instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.backends.dispatch import backend_of
from rankwise.holdout.hat import DenseHat, FeatureHat, Hat
from rankwise.holdout.pair_differences import level_differences

BLOCK_ENTRIES = 2**20  # of the blocks of level pairs processed at a time


class LevelPairs(NamedTuple):
    """Pairs of levels of the same sizes, and the held-out pairs of rows in them.

    `rows` has the rows of each pair of levels, shape (n_level_pairs, rows of both levels). `block`,
    `first` and `second` have, for each pair of rows, an index into `rows` and two columns.
    """

    rows: Index
    sizes: tuple[int, ...]  # of the two levels, or of the only one
    block: Index
    first: Index
    second: Index


@dataclass(frozen=True)
class Levels:
    """The rows of each level, in consecutive positions of `order`."""

    order: Index
    starts: Index
    sizes: Index

    @classmethod
    def of(cls, level: Index) -> Levels:
        sizes = np.bincount(level)
        starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
        return cls(np.argsort(level, kind="stable"), starts, sizes)

    @property
    def degrees(self) -> Index:
        """n - 2 - n_l; the base system exists if all of them are positive."""
        return np.asarray(self.sizes.sum() - 2 - self.sizes)

    def rows(self, levels: Index) -> Index:
        """Rows of levels of equal size, one line for each level."""
        return self.order[self.starts[levels][:, None] + np.arange(self.sizes[levels[0]])]

    def all_pairs(self) -> Iterator[LevelPairs]:
        """All pairs of rows of different levels."""
        by_size = [np.flatnonzero(self.sizes == size) for size in np.unique(self.sizes)]
        kinds = list(combinations_with_replacement(by_size, 2))
        for small, large in sorted(kinds, key=lambda kind: self.sizes[[k[0] for k in kind]].sum()):
            if small is large:
                p, q = (small[part] for part in np.triu_indices(len(small), 1))
            else:
                p, q = np.repeat(small, len(large)), np.tile(large, len(small))
            n_p, n_q = int(self.sizes[small[0]]), int(self.sizes[large[0]])
            i, j = np.repeat(np.arange(n_p), n_q), np.tile(n_p + np.arange(n_q), n_p)
            step = max(1, BLOCK_ENTRIES // (n_p + n_q) ** 2)
            for start in range(0, len(p), step):
                part = slice(start, start + step)
                rows = np.hstack((self.rows(p[part]), self.rows(q[part])))
                block = np.repeat(np.arange(len(rows)), len(i))
                pairs = np.tile(i, len(rows)), np.tile(j, len(rows))
                yield LevelPairs(rows, (n_p, n_q), block, *pairs)

    def listed_pairs(self, pairs: Index, level: Index) -> Iterator[LevelPairs]:
        """Listed pairs of rows, of different levels or of the same level."""
        position = np.empty(len(level), np.intp)
        position[self.order] = np.arange(len(level))
        position -= self.starts[level]
        blocks, block = np.unique(np.sort(level[pairs], axis=1), axis=0, return_inverse=True)
        by_block = np.argsort(block.ravel(), kind="stable")
        ends = np.searchsorted(block.ravel()[by_block], np.arange(len(blocks) + 1))
        by_sizes: dict[tuple[int, ...], list[int]] = {}
        for b, (p, q) in enumerate(blocks.tolist()):
            found = self.sizes[[p] if p == q else [p, q]]
            by_sizes.setdefault(tuple(found.tolist()), []).append(b)
        for sizes in sorted(by_sizes, key=self.lost_pairs):
            step = max(1, BLOCK_ENTRIES // sum(sizes) ** 2)
            for start in range(0, len(by_sizes[sizes]), step):
                part = np.array(by_sizes[sizes][start : start + step])
                sides = [self.rows(blocks[part, side]) for side in range(len(sizes))]
                listed = np.concatenate([by_block[ends[b] : ends[b + 1]] for b in part])
                of_part = np.repeat(np.arange(len(part)), ends[part + 1] - ends[part])
                in_first = level[pairs[listed]] == blocks[part[of_part], :1]
                columns = position[pairs[listed]] + np.where(in_first, 0, sizes[0])
                yield LevelPairs(np.hstack(sides), sizes, of_part, *columns.T)

    def lost_pairs(self, sizes: tuple[int, ...]) -> int:
        """The number of pairs that count of one row of each of two levels, or of two of one."""
        n = int(self.sizes.sum())
        if len(sizes) == 1:
            return 2 * (n - sizes[0])
        return 2 * n - sum(sizes) - 1  # the pair itself is one of both rows


@dataclass(frozen=True)
class BaseSystem:
    """The hat matrix of the rows R K R, the targets R y and their fit."""

    hat: Hat
    residual: Array
    fit: Array
    n: int

    @classmethod
    def of(
        cls, levels: Levels, lam: float, y: Array, kernel: Array | None, features: Array | None
    ) -> BaseSystem:
        """From a kernel matrix, which is overwritten, or from features."""
        n = len(y)
        nest = levels.order, np.append(levels.starts, n), np.array([0, len(levels.sizes)])
        scales = np.sqrt(levels.degrees), np.array([np.sqrt(n - 2.0)])
        on = backend_of(y)

        def root(X: Array) -> Array:
            X = on.copy(X)
            on.combine_rows(X, X, nest[0], nest[0], *nest[1:], *scales)
            return X

        hat: Hat
        if features is not None:
            hat = FeatureHat.of(root(features), lam)
        else:
            assert kernel is not None
            on.combine_columns(kernel, *nest, *scales)
            hat = DenseHat.of(root(kernel), lam)
        fit, residual = hat.fit(root(y))
        return cls(hat, residual, fit, n)

    def differences(self, pairs: LevelPairs) -> Array:
        """f(first) - f(second) of each pair of rows, with both held out."""
        rows, on = pairs.rows, backend_of(self.fit)
        n_blocks, s = rows.shape
        first, second = np.repeat(rows, s, axis=1).ravel(), np.tile(rows, s).ravel()
        stored = self.hat.entries(first, second).reshape(n_blocks, s, s)
        other = on.array(np.eye(s) - 1.0 / self.n) - stored
        H, Q = (stored, other) if self.hat.is_hat else (other, stored)
        root, inverse, weight = (on.array(part) for part in self._scales(pairs.sizes))
        # The products with Q and with the residuals, in the columns of one matrix.
        Q = on.xp.concatenate((Q, self.residual[rows.ravel()].reshape(n_blocks, s, -1)), axis=2)
        f = self.fit[rows.ravel()].reshape(n_blocks, s, -1)
        Q = on.solve(on.array(np.eye(s)) - Q[:, :, :s] * weight, Q)
        H = inverse @ (on.xp.concatenate((H, f), axis=2) + (H * weight) @ Q)
        Q = root @ Q
        P, a = Q[:, :, :s] @ root, Q[:, :, s:]
        H, f = H[:, :, :s] @ root, H[:, :, s:]
        at = pairs.block * s
        i, j = at + pairs.first, at + pairs.second

        def flat(M: Array, row: Index, column: Index) -> Array:
            return on.contiguous(M.reshape(-1, s)[row, column])

        every, column = np.arange(n_blocks * s), np.tile(np.arange(s), n_blocks)
        return level_differences(
            flat(P, i, pairs.second),
            flat(H, i, pairs.second),
            flat(H, j, pairs.first),
            flat(P, every, column),
            flat(H, every, column),
            on.contiguous(a.reshape(n_blocks * s, -1)),
            on.contiguous(f.reshape(n_blocks * s, -1)),
            i,
            j,
        )

    def _scales(self, sizes: tuple[int, ...]) -> tuple[Array, Array, Array]:
        """R and its inverse on the rows of the levels, and w."""
        s = sum(sizes)
        root, inverse, weight = np.zeros((s, s)), np.zeros((s, s)), np.empty(s)
        held_out = 3 - len(sizes)  # rows of each level: one of two levels, or two of the same
        start, mean_scale = 0, np.sqrt(self.n - 2.0)
        for size in sizes:
            degree, here = self.n - 2.0 - size, slice(start, start + size)
            mean = np.full((size, size), 1.0 / size)
            within = np.eye(size) - mean
            root[here, here] = np.sqrt(degree) * within + mean_scale * mean
            inverse[here, here] = within / np.sqrt(degree) + mean / mean_scale
            weight[here] = held_out / (degree + held_out)
            start += size
        return root, inverse, weight
