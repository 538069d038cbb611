"""Compiled loops down a ranking: one value per query, or one per query and cut-off.

Every function takes the labels (or gains) of all queries, query by query and best score first.
``tied`` marks a row whose score equals that of the row before it in its query. Query g ends at
``indptr[g + 1]``; rows from ``stops[g]`` on were not retrieved and have no rank. With ``average``,
a value is the expectation over a random order of tied rows; otherwise rows keep their order. A
query where a metric is undefined gets NaN. All are linear in the number of rows.
"""

from __future__ import annotations

import numpy as np

from rankwise.backends.jit import compiled
from rankwise.metrics._merge_sort import Bools, Floats, Ints


@compiled
def _block_end(tied: Bools, p: int, hi: int, average: bool) -> int:
    """The end of the rows that tie with row p; without `average`, the row after p."""
    end = p + 1
    while average and end < hi and tied[end]:
        end += 1
    return end


@compiled
def _count_relevant(labels: Floats, p: int, end: int, relevant: float) -> int:
    count = 0
    for q in range(p, end):
        count += labels[q] >= relevant
    return count


@compiled
def average_precision_curves(
    labels: Floats,
    tied: Bools,
    indptr: Ints,
    stops: Ints,
    relevant: float,
    average: bool,
    ks: Ints,
) -> Floats:
    """Average precision of each query at each of the ascending cut-offs `ks`."""
    values = np.empty((len(indptr) - 1, len(ks)), np.float64)
    for g in range(len(indptr) - 1):
        lo, stop = indptr[g], min(stops[g], indptr[g] + ks[-1])
        found = np.int64(0)
        total = 0.0
        j = 0
        p = lo
        while p < stop:
            end = _block_end(tied, p, stops[g], average)
            n, start = end - p, p - lo
            if n == 1:
                hit = np.int64(labels[p] >= relevant)
                found += hit
                total += hit * found / (start + 1)
                if start + 1 == ks[j]:
                    values[g, j] = total
                    j += 1
            else:
                r = _count_relevant(labels, p, end, relevant)
                share, step = r / n, (r - 1) / (n - 1)
                for i in range(min(n, stop - p)):
                    total += share * (found + 1 + i * step) / (start + i + 1)
                    if start + i + 1 == ks[j]:
                        values[g, j] = total
                        j += 1
                found += r
            p = end
        values[g, j:] = total
        found += _count_relevant(labels, p, indptr[g + 1], relevant)
        for j in range(len(ks)):
            values[g, j] = values[g, j] / found if found > 0 else np.nan
    return values


@compiled
def reciprocal_rank_curves(
    labels: Floats,
    tied: Bools,
    indptr: Ints,
    stops: Ints,
    relevant: float,
    average: bool,
    ks: Ints,
) -> Floats:
    """1 / rank of the first relevant row if it is among the first k, for each k of `ks`."""
    values = np.zeros((len(indptr) - 1, len(ks)))
    for g in range(len(indptr) - 1):
        lo, hi, stop = indptr[g], indptr[g + 1], stops[g]
        p, r, end = lo, 0, lo
        while p < stop:
            end = _block_end(tied, p, stop, average)
            r = _count_relevant(labels, p, end, relevant)
            if r > 0:
                break
            p = end
        if r == 0:
            if _count_relevant(labels, stop, hi, relevant) == 0:
                values[g] = np.nan
            continue
        n, start = end - p, p - lo
        none_yet = 1.0
        for i in range(n - r + 1):
            now = r / (n - i)
            for j in range(len(ks)):
                if start + i < ks[j]:
                    values[g, j] += none_yet * now / (start + i + 1)
            none_yet *= 1.0 - now
    return values


@compiled
def success_curves(
    labels: Floats,
    tied: Bools,
    indptr: Ints,
    stops: Ints,
    relevant: float,
    average: bool,
    ks: Ints,
) -> Floats:
    """The probability that a relevant row is among the first k, for each k of `ks`."""
    values = np.zeros((len(indptr) - 1, len(ks)))
    for g in range(len(indptr) - 1):
        lo, hi, stop = indptr[g], indptr[g + 1], stops[g]
        p, r, end = lo, 0, lo
        while p < stop:
            end = _block_end(tied, p, stop, average)
            r = _count_relevant(labels, p, end, relevant)
            if r > 0:
                break
            p = end
        if r == 0:
            if _count_relevant(labels, stop, hi, relevant) == 0:
                values[g] = np.nan
            continue
        n = end - p
        for j in range(len(ks)):
            none = 1.0
            for i in range(min(n, ks[j] - (p - lo))):
                none *= (n - r - i) / (n - i)
                if none <= 0.0:
                    break
            values[g, j] = 1.0 - none
    return values


@compiled
def cascade_curves(
    stopping: Floats, tied: Bools, indptr: Ints, stops: Ints, average: bool, ks: Ints
) -> Floats:
    """Expected reciprocal rank at each of the ascending cut-offs `ks`.

    ``stopping`` is the probability that a reader stops at a row. In a random order of n tied rows,
    the mean probability to pass the first i of them is e_i / binomial(n, i), with the elementary
    symmetric polynomials e_i of the probabilities to pass a row; `passing` holds these means.
    """
    values = np.zeros((len(indptr) - 1, len(ks)))
    for g in range(len(indptr) - 1):
        lo, stop = indptr[g], min(stops[g], indptr[g] + ks[-1])
        if stopping[lo : indptr[g + 1]].max() <= 0.0:
            values[g] = np.nan
            continue
        reached, total = 1.0, 0.0
        j = 0
        p = lo
        while p < stop:
            end = _block_end(tied, p, stops[g], average)
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
        values[g, j:] = total
    return values


@compiled
def precision_curves(
    labels: Floats,
    tied: Bools,
    indptr: Ints,
    stops: Ints,
    relevant: float,
    average: bool,
    ks: Ints,
) -> Floats:
    """Precision of each query at each of the ascending cut-offs `ks`."""
    values = np.empty((len(indptr) - 1, len(ks)), np.float64)
    for g in range(len(indptr) - 1):
        lo, stop = indptr[g], stops[g]
        found = 0
        j = 0
        p = lo
        while p < stop and (j < len(ks) or found == 0):
            end = _block_end(tied, p, stop, average)
            r = _count_relevant(labels, p, end, relevant)
            while j < len(ks) and ks[j] <= end - lo:
                inside = r * (ks[j] - (p - lo)) / (end - p)
                values[g, j] = (found + inside) / ks[j]
                j += 1
            found += r
            p = end
        while j < len(ks):
            values[g, j] = found / ks[j]
            j += 1
        if found == 0 and _count_relevant(labels, stop, indptr[g + 1], relevant) == 0:
            values[g, :] = np.nan
    return values


@compiled
def grade_gains(labels: Floats, indptr: Ints, table: Floats, gains: Floats, ideal: Floats) -> bool:
    """Fill in the gain of each row, and the gains of each query in descending order.

    Returns False, and leaves both arrays unfinished, if a label is not a whole number. Labels
    must lie in the range of `table`, which holds the gains of the labels 0, 1, 2, ...
    """
    counts = np.zeros(len(table), np.int64)
    for g in range(len(indptr) - 1):
        lo, hi = indptr[g], indptr[g + 1]
        for p in range(lo, hi):
            grade = int(labels[p])
            if grade != labels[p]:
                return False
            counts[grade] += 1
            gains[p] = table[grade]
        p = lo
        for grade in range(len(table) - 1, -1, -1):
            for _ in range(counts[grade]):
                ideal[p] = table[grade]
                p += 1
            counts[grade] = 0
    return True


@compiled
def ndcg_curves(
    gains: Floats,
    ideal: Floats,
    tied: Bools,
    indptr: Ints,
    stops: Ints,
    discounts: Floats,
    average: bool,
    ks: Ints,
) -> Floats:
    """NDCG of each query at each of the ascending cut-offs `ks`."""
    values = np.empty((len(indptr) - 1, len(ks)), np.float64)
    best = np.empty(len(ks), np.float64)
    for g in range(len(indptr) - 1):
        lo, hi = indptr[g], indptr[g + 1]
        if ideal[lo] <= 0.0:
            values[g, :] = np.nan
            continue
        stop = lo + min(hi - lo, ks[-1])
        total, j = 0.0, 0
        for p in range(lo, stop):
            total += ideal[p] * discounts[p - lo]
            if p - lo + 1 == ks[j]:
                best[j] = total
                j += 1
        best[j:] = total
        total, j = 0.0, 0
        stop = min(stop, stops[g])
        p = lo
        while p < stop:
            end = _block_end(tied, p, stops[g], average)
            gain = gains[p]
            if end - p > 1:
                gain = gains[p:end].mean()
            for q in range(p, min(end, stop)):
                total += gain * discounts[q - lo]
                if q - lo + 1 == ks[j]:
                    values[g, j] = total
                    j += 1
            p = end
        values[g, j:] = total
        for j in range(len(ks)):
            values[g, j] = min(1.0, values[g, j] / best[j])
    return values
