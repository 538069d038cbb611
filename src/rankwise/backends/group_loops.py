"""Combine rows with the means of nested groups, in place and in one pass.

Rows belong to levels, and levels to groups. With l the level and g the group of row i,

    x_i  <-  a_l (x_i - mean_l) + b_g (mean_l - mean_g)

is a power of the Laplacian of a query graph, with the right a and b.
Array expressions need several passes over X and temporaries of its size; these loops need
neither, which is why they are compiled.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.backends.jit import BlasRoutine, compiled

dsyrk: Any = BlasRoutine("dsyrk", 10)
dgemm: Any = BlasRoutine("dgemm", 13)


@compiled
def combine_rows(
    X: Array,
    out: Array,
    rows: Index,
    target: Index,
    level_ptr: Index,
    group_ptr: Index,
    a: Array,
    b: Array,
    low: int,
    high: int,
) -> None:
    """Combine along axis 0: row ``rows[k]`` of X becomes row ``target[k]`` of `out`.

    Only columns low:high are combined. Level l holds the positions level_ptr[l]:level_ptr[l + 1] of
    `rows`, group g the levels group_ptr[g]:group_ptr[g + 1]. With ``target is rows``, `out` may be
    X itself.
    """
    d = high - low
    group_mean = np.empty(d)
    for g in range(len(group_ptr) - 1):
        first, last = group_ptr[g], group_ptr[g + 1]
        n_levels = last - first
        means = np.zeros((n_levels, d))
        group_mean[:] = 0.0
        for level in range(n_levels):
            start, stop = level_ptr[first + level], level_ptr[first + level + 1]
            mean = means[level]
            for k in range(start, stop):
                x = X[rows[k], low:high]
                for j in range(d):
                    mean[j] += x[j]
            for j in range(d):
                group_mean[j] += mean[j]
                mean[j] /= stop - start
        for j in range(d):
            group_mean[j] /= level_ptr[last] - level_ptr[first]
        for level in range(n_levels):
            start, stop = level_ptr[first + level], level_ptr[first + level + 1]
            within = a[first + level]
            mean = means[level]
            if n_levels == 1:
                for k in range(start, stop):
                    x, z = X[rows[k], low:high], out[target[k], low:high]
                    for j in range(d):
                        z[j] = within * (x[j] - mean[j])
            else:
                for k in range(start, stop):
                    x, z = X[rows[k], low:high], out[target[k], low:high]
                    for j in range(d):
                        z[j] = within * (x[j] - mean[j]) + b[g] * (mean[j] - group_mean[j])


@compiled
def add_moments(
    A: Array,
    b: Array,
    X: Array,
    t: Array,
    rows: Index,
    level_ptr: Index,
    group_ptr: Index,
    within: Array,
    between: Array,
    most: int,
) -> None:
    """A <- A + Z'Z on the lower triangle, b <- b + Z's: Z and s are X and t from `combine_rows`.

    Groups of together at most `most` rows, or one longer group, are combined and multiplied while
    they are in cache.
    """
    (d, k), n_groups = (X.shape[1], t.shape[1]), len(group_ptr) - 1
    longest = 0
    for g in range(n_groups):
        longest = max(longest, level_ptr[group_ptr[g + 1]] - level_ptr[group_ptr[g]])
    Z, s = np.empty((max(most, longest), d)), np.empty((max(most, longest), k))
    target = np.empty(len(rows), np.intp)
    letters = np.array([78, 84, 85], np.uint8)  # N, T, U
    plain, transposed, upper = letters[:1].ctypes, letters[1:].ctypes, letters[2:].ctypes
    sizes, unit = np.array([d, k, 0], np.int32), np.ones(1)
    of_d, of_k, of_n, one = sizes[:1].ctypes, sizes[1:].ctypes, sizes[2:].ctypes, unit.ctypes
    of_A, of_b, of_Z, of_s = A.ctypes, b.ctypes, Z.ctypes, s.ctypes
    edges = np.array([0, d, k])  # for literals, `combine_rows` would be compiled once more
    first = 0
    while first < n_groups:
        start, last = level_ptr[group_ptr[first]], first + 1
        while last < n_groups and level_ptr[group_ptr[last + 1]] - start <= most:
            last += 1
        sizes[2] = n = level_ptr[group_ptr[last]] - start
        for i in range(n):
            target[start + i] = i
        groups, of_groups = group_ptr[first : last + 1], between[first:last]
        combine_rows(X, Z, rows, target, level_ptr, groups, within, of_groups, edges[0], edges[1])
        combine_rows(t, s, rows, target, level_ptr, groups, within, of_groups, edges[0], edges[2])
        # BLAS sees A', b', Z' and s'.
        dsyrk(upper, plain, of_d, of_n, one, of_Z, of_d, one, of_A, of_d)
        dgemm(plain, transposed, of_k, of_d, of_n, one, of_s, of_k, of_Z, of_d, one, of_b, of_k)
        first = last


@compiled
def combine_columns(
    X: Array, rows: Index, level_ptr: Index, group_ptr: Index, a: Array, b: Array
) -> None:
    """Combine along axis 1, in place: entry rows[k] of every row of X is the k-th position."""
    n_levels = len(level_ptr) - 1
    means = np.empty(n_levels)
    for i in range(X.shape[0]):
        x = X[i]
        for g in range(len(group_ptr) - 1):
            first, last = group_ptr[g], group_ptr[g + 1]
            group_mean = 0.0
            for level in range(first, last):
                total = 0.0
                for k in range(level_ptr[level], level_ptr[level + 1]):
                    total += x[rows[k]]
                group_mean += total
                means[level] = total / (level_ptr[level + 1] - level_ptr[level])
            group_mean /= level_ptr[last] - level_ptr[first]
            for level in range(first, last):
                shift = b[g] * (means[level] - group_mean)
                for k in range(level_ptr[level], level_ptr[level + 1]):
                    x[rows[k]] = a[level] * (x[rows[k]] - means[level]) + shift


@compiled
def minmax_groups(X: Any, rows: Index, ptr: Index) -> bool:
    """x <- (x - low) / (high - low); returns whether all ranges are finite."""
    d = X.shape[1]
    low, span = np.empty(d, X.dtype), np.empty(d, X.dtype)
    finite = True
    for g in range(len(ptr) - 1):
        start, stop = ptr[g], ptr[g + 1]
        if start == stop:
            continue
        for k in range(start, stop):
            x = X[rows[k]]
            for j in range(d):
                low[j] = x[j] if k == start else min(low[j], x[j])
                span[j] = x[j] if k == start else max(span[j], x[j])
        for j in range(d):
            span[j] -= low[j]
            finite &= np.isfinite(span[j])
            if span[j] == 0:
                span[j] = 1
        for k in range(start, stop):
            x = X[rows[k]]
            for j in range(d):
                x[j] = (x[j] - low[j]) / span[j]
    return finite


@compiled
def standardize_groups(X: Any, rows: Index, ptr: Index) -> None:
    """z <- (z - mean) / deviation, for values z that `minmax_groups` mapped to [0, 1].

    Sums of squares of such values neither overflow nor underflow, and a constant column is 0.
    """
    d = X.shape[1]
    mean, deviation = np.empty(d), np.empty(d)
    for g in range(len(ptr) - 1):
        start, stop = ptr[g], ptr[g + 1]
        mean[:] = 0.0
        deviation[:] = 0.0
        for k in range(start, stop):
            x = X[rows[k]]
            for j in range(d):
                mean[j] += x[j]
        for j in range(d):
            mean[j] /= stop - start
        for k in range(start, stop):
            x = X[rows[k]]
            for j in range(d):
                deviation[j] += (x[j] - mean[j]) ** 2
        for j in range(d):
            deviation[j] = np.sqrt(deviation[j] / (stop - start))
            if deviation[j] == 0.0:
                deviation[j] = 1.0
        for k in range(start, stop):
            x = X[rows[k]]
            for j in range(d):
                x[j] = (x[j] - mean[j]) / deviation[j]


@compiled
def rank_short_groups(X: Any, rows: Index, ptr: Index, longest: int) -> None:
    """x <- its rank among the n values, from -1/2 to 1/2 in steps of 1 / (n - 1).

    Equal values share the mean of their ranks. Groups with more than `longest` rows are left out.
    """
    column, order = np.empty(longest), np.empty(longest, np.intp)
    for g in range(len(ptr) - 1):
        start, n = ptr[g], ptr[g + 1] - ptr[g]
        if n > longest:
            continue
        for j in range(X.shape[1]):
            for k in range(n):
                column[k] = X[rows[start + k], j]
                i = k
                while i > 0 and column[order[i - 1]] > column[k]:
                    order[i] = order[i - 1]
                    i -= 1
                order[i] = k
            first = 0
            while first < n:
                last = first
                while last + 1 < n and column[order[last + 1]] == column[order[first]]:
                    last += 1
                rank = (first + last - (n - 1)) / (2.0 * max(n - 1, 1))
                for k in range(first, last + 1):
                    X[rows[start + order[k]], j] = rank
                first = last + 1
