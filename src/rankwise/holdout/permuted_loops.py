"""Compiled loops of permutation tests: permuted labels, and signs of held-out differences."""

from __future__ import annotations

from functools import partial

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.backends.jit import compiled, inlined


@compiled
def shuffle_columns(labels: Array, keys: Array, ptr: Index) -> None:
    """Permute rows ptr[u]:ptr[u + 1] of every column but the first, in place.

    Fisher and Yates, with the uniform random numbers `keys`: one column for each permutation.
    """
    for u in range(len(ptr) - 1):
        start = ptr[u]
        for row in range(ptr[u + 1] - 1, start, -1):
            for c in range(keys.shape[1]):
                other = start + int(keys[row, c] * (row - start + 1))
                kept = labels[row, c + 1]
                labels[row, c + 1] = labels[other, c + 1]
                labels[other, c + 1] = kept


@inlined
def _clipped(value: float) -> float:
    value = value if value < 1.0 else 1.0
    return value if value > -1.0 else -1.0


@partial(compiled, fastmath={"contract"})
def add_agreement(
    u: Array,
    v: Array,
    start: int,
    ends: Index,
    y: Array,
    f: Array,
    r: Array,
    low: int,
    high: int,
    agreement: Array,
) -> None:
    """Add pairs in the right order less those in the wrong order, for columns low:high.

    Row k of `u` and `v` belongs to row i = start + k of the data, and column j - start to a row
    j > i, which is compared with i if j < ends[i]. Without both rows, f_i - f_j is
    (f_i - u r_i) - (f_j - v r_j). The labels `y` are multiplied by a huge number: the product of
    differences, clipped to [-1, 1], is its sign, without a branch.
    """
    width = high - low
    total = np.zeros(width)
    row = 0
    while row < len(u):
        i = start + row
        y0, f0, r0 = y[i, low:high], f[i, low:high], r[i, low:high]
        both = row + 1 < len(u) and i + 1 < ends[i]
        for j in range(i + 1, i + 2 if both else ends[i]):
            y2, f2, r2 = y[j, low:high], f[j, low:high], r[j, low:high]
            u0, v0 = u[row, j - start], v[row, j - start]
            for c in range(width):
                d0 = (f0[c] - u0 * r0[c]) - (f2[c] - v0 * r2[c])
                total[c] += _clipped(d0 * (y0[c] - y2[c]))
        if both:  # two rows at a time: row j is loaded once for both
            y1, f1, r1 = y[i + 1, low:high], f[i + 1, low:high], r[i + 1, low:high]
            for j in range(i + 2, ends[i]):
                y2, f2, r2 = y[j, low:high], f[j, low:high], r[j, low:high]
                u0, v0 = u[row, j - start], v[row, j - start]
                u1, v1 = u[row + 1, j - start], v[row + 1, j - start]
                for c in range(width):
                    d0 = (f0[c] - u0 * r0[c]) - (f2[c] - v0 * r2[c])
                    d1 = (f1[c] - u1 * r1[c]) - (f2[c] - v1 * r2[c])
                    first = _clipped(d0 * (y0[c] - y2[c]))
                    total[c] += first + _clipped(d1 * (y1[c] - y2[c]))
        row += 2 if both else 1
    agreement[low:high] += total


@partial(compiled, fastmath={"contract"})
def count_wins(
    u: Array,
    v: Array,
    starts: Index,
    ends: Index,
    y: Array,
    chosen: float,
    f: Array,
    r: Array,
    low: int,
    high: int,
    wins: Array,
) -> None:
    """Twice the wins of rows with the label `chosen` over others, for columns low:high.

    A tie counts as one. There are two labels; `u` and `v` are those of `add_agreement` for all rows
    i and j. Only rows of one label are visited. The others of that label have an infinite score: in
    their place, a branch would keep the loop from being vectorized, as would indices that may be
    negative.
    """
    n = len(u)
    scores, residuals, own = np.empty((8, n)), np.empty((8, n)), np.empty((8, n))
    for start in range(low, high, 8):
        width = min(8, high - start)
        for j in range(n):  # eight columns at a time are those of a cache line
            for k in range(width):
                own[k, j], residuals[k, j] = f[j, start + k], r[j, start + k]
                scores[k, j] = np.inf if y[j, start + k] == chosen else f[j, start + k]
        for k in range(width):
            total = 0
            for i in range(n):
                if scores[k, i] != np.inf:
                    continue
                there = slice(starts[i], ends[i])
                f_i, r_i, u_i, v_i = own[k, i], residuals[k, i], u[i, there], v[i, there]
                f_j, r_j, ahead, level = scores[k, there], residuals[k, there], 0, 0
                for j in range(len(u_i)):
                    one, two = f_i - u_i[j] * r_i, f_j[j] - v_i[j] * r_j[j]
                    ahead += 1 if one > two else 0
                    level += 1 if one >= two else 0
                total += ahead + level
            wins[start + k] = total
