"""A compiled loop over the pairs of each query."""

from __future__ import annotations

from rankwise.backends.jit import compiled
from rankwise.metrics._row_order import Bools, Ints


@compiled
def count_pairs(
    level: Ints, tied: Bools, indptr: Ints, tree: Ints, seen: Ints, counts: Ints
) -> None:
    """Pairs of each query: discordant, tied in the labels, tied in the scores, tied in both.

    `level` has the labels in the order of the scores, as integers from 0; `counts` is filled in.
    Every row is compared with those that have better scores, by their number at each level
    (`seen`) and below it (`tree`, a binary indexed tree): O(log levels) for each row. Both need
    room for one more than the number of levels, and are 0.
    """
    top = len(tree)
    for g in range(len(indptr) - 1):
        lo, hi = indptr[g], indptr[g + 1]
        p = lo
        while p < hi:
            end = p + 1
            while end < hi and tied[end]:
                end += 1
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
