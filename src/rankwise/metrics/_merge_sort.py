"""Compiled merge sort: the rows of each query by score, and the pairs that it passes.

One merge sort of integers per query, O(n log n) even in the worst case; all counts are exact.
A plain insertion and merge sort would be 60 lines shorter, but takes about one and a half times
as long: average precision is then hardly faster than in ranx (``python -m benchmarks metrics``).

Indices are unsigned where it matters: Numba tests signed ones for negative values, and without
these tests the merges have no branch to mispredict and take a third of the time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.jit import compiled

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_LARGEST = np.iinfo(np.int64).max
_SMALLEST = np.iinfo(np.int64).min
_BLOCK = 8  # rows that a sorting network orders before the merges start
_ONE = np.uint64(1)


@compiled
def _count_block(a: Ints, lo: int) -> int:
    """Pairs of a[lo:lo + 8] in descending order."""
    b = a[lo : lo + _BLOCK]
    count = 0
    for i in range(_BLOCK):
        for j in range(i + 1, _BLOCK):
            count += b[i] > b[j]
    return count


@compiled
def _sort_block(a: Ints, lo: int) -> None:
    """Sort a[lo:lo + 8] by a network of 19 comparisons, none of them a branch."""
    b = a[lo : lo + _BLOCK]
    x0, x1, x2, x3, x4, x5, x6, x7 = b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]
    x0, x2 = min(x0, x2), max(x0, x2)
    x1, x3 = min(x1, x3), max(x1, x3)
    x4, x6 = min(x4, x6), max(x4, x6)
    x5, x7 = min(x5, x7), max(x5, x7)
    x0, x4 = min(x0, x4), max(x0, x4)
    x1, x5 = min(x1, x5), max(x1, x5)
    x2, x6 = min(x2, x6), max(x2, x6)
    x3, x7 = min(x3, x7), max(x3, x7)
    x0, x1 = min(x0, x1), max(x0, x1)
    x2, x3 = min(x2, x3), max(x2, x3)
    x4, x5 = min(x4, x5), max(x4, x5)
    x6, x7 = min(x6, x7), max(x6, x7)
    x2, x4 = min(x2, x4), max(x2, x4)
    x3, x5 = min(x3, x5), max(x3, x5)
    x1, x4 = min(x1, x4), max(x1, x4)
    x3, x6 = min(x3, x6), max(x3, x6)
    x1, x2 = min(x1, x2), max(x1, x2)
    x3, x4 = min(x3, x4), max(x3, x4)
    x5, x6 = min(x5, x6), max(x5, x6)
    b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7] = x0, x1, x2, x3, x4, x5, x6, x7


@compiled
def _merge_equal(src: Ints, dst: Ints, lo: int, mid: int, hi: int) -> np.int64:
    """Merge two sorted halves of one length n from both ends; returns the inversions.

    The n smallest entries come from the front, the n largest from the back: two chains of loads
    that do not wait for each other. Let i_k be the number of entries of the first half among the
    first k of the result, and t_a the position of its a-th entry in the result. That entry passes
    t_a - a entries of the other half, and the t_a sum to n (2n - 1) minus the sum of the i_k.
    The front sees i_k for k < n, the back sees n - i_k for the others (p).
    """
    n = np.uint64(mid - lo)
    a, b, out = src[lo:mid], src[mid:hi], dst[lo:hi]
    i = p = area = np.uint64(0)
    last = n - _ONE
    top = n + last
    for step in range(mid - lo):
        k = np.uint64(step)
        area -= i
        x, y = a[i], b[k - i]
        out[k] = min(x, y)
        i += np.uint64(x <= y)
        u, v = a[last - p], b[last - k + p]
        out[top - k] = max(u, v)
        p += np.uint64(u > v)
        area += p
    return np.int64(n * last // np.uint64(2) + area)


@compiled
def _merge(src: Ints, dst: Ints, lo: int, mid: int, hi: int) -> np.int64:
    """Merge two sorted halves of any length; returns the inversions, by the same formula."""
    a, b, out = src[lo:mid], src[mid:hi], dst[lo:hi]
    n, m = np.uint64(mid - lo), np.uint64(hi - mid)
    i = j = area = np.uint64(0)
    while i < n and j < m:
        area += i
        x, y = a[i], b[j]
        out[i + j] = min(x, y)
        stays = np.uint64(x <= y)
        i += stays
        j += _ONE - stays
    count = i * (i + j - _ONE) - area - i * (i - _ONE) // np.uint64(2) + (n - i) * m
    while i < n:
        out[i + j] = a[i]
        i += _ONE
    while j < m:
        out[i + j] = b[j]
        j += _ONE
    return np.int64(count)


@compiled
def sort(a: Ints, scratch: Ints, n: int, counting: bool) -> np.int64:
    """Sort a[:n] ascending; returns how many pairs were in descending order if `counting`.

    Both arrays need room for n rounded up to a multiple of 8.
    """
    padded = (n + _BLOCK - 1) // _BLOCK * _BLOCK
    for i in range(n, padded):
        a[i] = _LARGEST
    count = np.int64(0)
    for lo in range(0, padded, _BLOCK):
        if counting:
            count += _count_block(a, lo)
        _sort_block(a, lo)
    src, dst, moved = a, scratch, False
    width = _BLOCK
    while width < padded:
        for lo in range(0, padded, 2 * width):
            mid, hi = min(lo + width, padded), min(lo + 2 * width, padded)
            if hi - mid == width:
                count += _merge_equal(src, dst, lo, mid, hi)
            else:
                count += _merge(src, dst, lo, mid, hi)
        src, dst, moved = dst, src, not moved
        width *= 2
    if moved:
        for i in range(n):
            a[i] = scratch[i]
    return count


@compiled
def longest(indptr: Ints) -> int:
    """Rows of the longest query, plus the padding that `sort` needs."""
    rows = 0
    for g in range(len(indptr) - 1):
        rows = max(rows, indptr[g + 1] - indptr[g])
    return rows + _BLOCK


@compiled
def _descending(bits: int) -> int:
    """An integer that is smaller where the float64 with these bits is larger; -0.0 is 0.0."""
    if bits == _SMALLEST:
        bits = 0
    return ~(bits ^ ((bits >> 63) & _LARGEST))


@compiled
def rank_rows(labels: Floats, bits: Ints, order: Ints, indptr: Ints) -> tuple[Floats, Bools]:
    """Labels of each query by descending score, and which rows tie with the one before.

    Rows with equal scores keep the order of the input. `bits` are the scores, viewed as integers.

    The sort moves one integer per row: the leading bits of the score, followed by the position of
    the row in its query. Runs of scores that differ only in the bits left out are sorted again.
    """
    ranked = np.empty(len(labels), np.float64)
    tied = np.zeros(len(labels), np.bool_)
    room = longest(indptr)
    keys, packed = np.empty(room, np.int64), np.empty(room, np.int64)
    scratch, run = np.empty(room, np.int64), np.empty(room, np.int64)
    for g in range(len(indptr) - 1):
        lo, n = indptr[g], indptr[g + 1] - indptr[g]
        shift = 0
        while n > 1 << shift:
            shift += 1
        place = (1 << shift) - 1
        for i in range(n):
            keys[i] = _descending(bits[order[lo + i]])
            packed[i] = (keys[i] & ~place) | i
        sort(packed, scratch, n, False)
        close = False
        for p in range(1, n):
            close |= packed[p] >> shift == packed[p - 1] >> shift
        if close:
            _order_runs(packed, keys, run, scratch, n, shift)
        for p in range(n):
            row = np.uint64(packed[p] & place)
            ranked[lo + p] = labels[order[np.uint64(lo) + row]]
            if close and p > 0 and packed[p] >> shift == packed[p - 1] >> shift:
                tied[lo + p] = keys[row] == keys[packed[p - 1] & place]
    return ranked, tied


@compiled
def _order_runs(packed: Ints, keys: Ints, run: Ints, scratch: Ints, n: int, shift: int) -> None:
    """Sort the runs of packed[:n] whose scores agree in all but the last bits."""
    place = (1 << shift) - 1
    first = 0
    for p in range(1, n + 1):
        head = packed[first] >> shift
        if p < n and packed[p] >> shift == head:
            continue
        equal = True
        for j in range(p - first):
            i = packed[first + j] & place
            equal &= keys[i] == keys[packed[first] & place]
            run[j] = ((keys[i] & place) << shift) | i
        if not equal:
            sort(run, scratch, p - first, False)
            for j in range(p - first):
                packed[first + j] = (head << shift) | (run[j] & place)
        first = p


@compiled
def count_pairs(bits: Ints, tied: Bools, indptr: Ints) -> Ints:
    """Pairs of each query: discordant, tied in the labels, tied in the scores, tied in both.

    Knight's algorithm: with rows by score, and by label where scores tie, the discordant pairs
    are the inversions that a merge sort by label meets. `bits` are the ranked labels, viewed as
    integers.
    """
    counts = np.zeros((len(indptr) - 1, 4), np.int64)
    room = longest(indptr)
    keys, run = np.empty(room, np.int64), np.empty(room, np.int64)
    scratch = np.empty(room, np.int64)
    for g in range(len(indptr) - 1):
        lo, n = indptr[g], indptr[g + 1] - indptr[g]
        for i in range(n):
            keys[i] = _descending(bits[lo + i])
        first = 0
        for p in range(1, n + 1):
            if p < n and tied[lo + p]:
                continue
            size = p - first
            if size > 1:
                for j in range(size):
                    run[j] = keys[first + j]
                sort(run, scratch, size, False)
                for j in range(size):
                    keys[first + j] = run[j]
                counts[g, 2] += size * (size - 1) // 2
                counts[g, 3] += _equal_pairs(run, size)
            first = p
        counts[g, 0] = sort(keys, scratch, n, True)
        counts[g, 1] = _equal_pairs(keys, n)
    return counts


@compiled
def _equal_pairs(a: Ints, n: int) -> int:
    """Pairs of equal entries of the sorted a[:n]."""
    pairs = 0
    before = 0
    for i in range(1, n):
        before = before + 1 if a[i] == a[i - 1] else 0
        pairs += before
    return pairs


@compiled
def sort_gains(bits: Ints, indptr: Ints, ideal_bits: Ints) -> None:
    """Fill in the gains of each query in descending order; both arrays are viewed as integers."""
    room = longest(indptr)
    keys, scratch = np.empty(room, np.int64), np.empty(room, np.int64)
    for g in range(len(indptr) - 1):
        lo, n = indptr[g], indptr[g + 1] - indptr[g]
        for i in range(n):
            keys[i] = -bits[lo + i]  # gains are not negative, so their bits are ordered as they are
        sort(keys, scratch, n, False)
        for i in range(n):
            ideal_bits[lo + i] = -keys[i]
