"""Compiled loops of permutation tests: permuted labels, and signs of held-out differences."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.backends.jit import compiled, inlined


@compiled
def shuffle_rows(
    labels: Array, unit_starts: Index, keys: Array, start: int, columns: Array
) -> None:
    """Continue permutations of the labels within units, in all columns but the first.

    Rows from `start` on are inserted at random places of their unit (Fisher and Yates), with the
    uniform random numbers `keys`: a row for each of them, and a column for each permutation.
    """
    for k in range(len(keys)):
        row = start + k
        first, label = unit_starts[row], labels[row]
        for c in range(keys.shape[1]):
            other = first + int(keys[k, c] * (row - first + 1))
            columns[row, c + 1] = columns[other, c + 1]
            columns[other, c + 1] = label


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
def _count_ahead(
    f_i: Any, r_i: Any, u: Any, v: Any, f: Any, r: Any, margin: Any
) -> tuple[Any, Any]:
    """How many rows are behind row i by more than `margin`, and how many by at least -margin.

    All values have single precision. So have counts: wider ones would take twice the time.
    """
    ahead, level = np.int32(0), np.int32(0)
    for j in range(len(u)):
        difference = ((f_i - f[j]) - u[j] * r_i) + v[j] * r[j]
        ahead = np.int32(ahead + np.int32(difference > margin))
        level = np.int32(level + np.int32(difference >= -margin))
    return ahead, level


@partial(compiled, fastmath={"contract"})
def count_wins(
    u: Array,
    v: Array,
    short_u: Array,
    short_v: Array,
    starts: Index,
    ends: Index,
    y: Array,
    chosen: float,
    f: Array,
    r: Array,
    margin: float,
    low: int,
    high: int,
    wins: Array,
) -> None:
    """Twice the wins of rows with the label `chosen` over others, for columns low:high.

    A tie counts as one. There are two labels; `u` and `v` are those of `add_agreement` for all rows
    i and j. Only rows of one label are visited. The others of that label have an infinite score: in
    their place, a branch would keep the loop from being vectorized.

    The signs of a row are those of single precision if all differences are larger than `margin`,
    its rounding errors; if not, those of double precision. `short_u` and `short_v` may have
    additional columns, with which loops over all rows have no remainder.
    """
    n, padded = len(u), short_u.shape[1]
    own, residuals = np.zeros((8, padded), np.float32), np.zeros((8, padded), np.float32)
    scores = np.full((8, padded), np.float32(np.inf))
    for start in range(low, high, 8):
        width = min(8, high - start)
        for j in range(n):  # eight columns at a time are those of a cache line
            for k in range(width):
                own[k, j], residuals[k, j] = f[j, start + k], r[j, start + k]
                scores[k, j] = np.inf if y[j, start + k] == chosen else own[k, j]
        total = np.zeros(width, np.int64)
        for i in range(n):
            there = slice(starts[i], ends[i] if ends[i] < n else padded)
            for k in range(width):
                if scores[k, i] != np.inf:
                    continue
                ahead, level = _count_ahead(
                    own[k, i],
                    residuals[k, i],
                    short_u[i, there],
                    short_v[i, there],
                    scores[k, there],
                    residuals[k, there],
                    np.float32(margin),
                )
                if ahead == level and margin < np.inf:
                    total[k] += 2 * ahead
                    continue
                c = start + k
                for j in range(starts[i], ends[i]):
                    if y[j, c] != chosen:
                        one, two = f[i, c] - u[i, j] * r[i, c], f[j, c] - v[i, j] * r[j, c]
                        total[k] += int(one > two) + int(one >= two)
        wins[start : start + width] = total
