"""Compiled loops over the rows of rankings, and over their pairs.

Every function takes the labels of several queries, query by query and best score first.
``tied`` marks a row that has the score of the row before it in its query. Query g ends at
``indptr[g + 1]``; rows from ``stops[g]`` on were not retrieved and have no rank. A value is the
expectation over a random order of tied rows.
`values`, of shape (queries, cut-offs), is 0 at first and filled in. All are linear in the number of
rows.

Slices and functions of NumPy take as long to compile as the rest of a loop, so there are few.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.jit import compiled

Array: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]


@compiled
def _block_end(tied: Bools, p: int, hi: int) -> int:
    """The end of the rows that tie with row p."""
    end = p + 1
    while end < hi and tied[end]:
        end += 1
    return end


@compiled
def cascade_curves(
    stopping: Array, tied: Bools, indptr: Ints, stops: Ints, ks: Ints, values: Array
) -> None:
    """Expected reciprocal rank at each of the ascending cut-offs `ks`.

    ``stopping`` is the probability that a reader stops at a row. In a random order of n tied rows,
    the mean probability of passing the first i of them is e_i / binomial(n, i), with the elementary
    symmetric polynomials e_i of the probabilities of passing a row; `passing` holds these means.
    """
    for g in range(len(indptr) - 1):
        lo, stop = indptr[g], min(stops[g], indptr[g] + ks[-1])
        reached, total = 1.0, 0.0
        j = 0
        p = lo
        while p < stop:
            end = _block_end(tied, p, stops[g])
            depth = min(end, stop) - p
            passing = np.zeros(depth + 1)
            passing[0] = 1.0
            for m in range(1, end - p + 1):
                here = 1.0 - stopping[p + m - 1]
                for i in range(min(m, depth), 0, -1):
                    passing[i] = ((m - i) * passing[i] + i * here * passing[i - 1]) / m
            for i in range(depth):
                rank = p - lo + i + 1
                total += reached * (passing[i] - passing[i + 1]) / rank
                if rank == ks[j]:
                    values[g, j] = total
                    j += 1
            reached *= passing[depth]
            p = end
        for rest in range(j, len(ks)):
            values[g, rest] = total


@compiled
def count_pairs(
    level: Ints, tied: Bools, indptr: Ints, tree: Ints, seen: Ints, counts: Ints
) -> None:
    """Pairs of each query: discordant, tied in the labels, tied in the scores, tied in both.

    `level` has the labels in the order of the scores, as integers from 0; `counts` is filled in.
    Every row is compared with the rows that have better scores, by their number at each level
    (`seen`) and below it (`tree`, a binary indexed tree): O(log levels) for each row. Both are
    zeros at first, with one entry more than the number of levels.
    """
    top = len(tree)
    for g in range(len(indptr) - 1):
        lo, hi = indptr[g], indptr[g + 1]
        p = lo
        while p < hi:
            end = _block_end(tied, p, hi)
            for q in range(p, end):
                k = level[q]
                counts[g, 3] -= seen[k]
                while k > 0:  # rows at lower levels, whose scores are better
                    counts[g, 0] += tree[k]
                    k -= k & -k
            for q in range(p, end):
                counts[g, 2] += q - p
                k = level[q]
                counts[g, 1] += seen[k]
                counts[g, 3] += seen[k]
                seen[k] += 1
                k += 1
                while k < top:
                    tree[k] += 1
                    k += k & -k
            p = end
        for q in range(lo, hi):
            k = level[q]
            seen[k] = 0
            k += 1
            while k < top:
                tree[k] = 0
                k += k & -k
