"""What `group_loops` does, as array expressions: slower on many numbers, and nothing to compile."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwise.backends.blas import Array

# Rows are taken in the order of their groups. Groups and levels have at least one row each, except
# for groups that are scaled, where empty ones are left out first.


@np.errstate(over="ignore", invalid="ignore")  # solvers check for overflow
def combine_rows(
    X: Array, out: Array, rows: Any, target: Any, level_ptr: Any, group_ptr: Any, a: Array, b: Array
) -> None:
    """x <- a_l (x - mean_l) + b_g (mean_l - mean_g), for rows in levels, and levels in groups."""
    x, level_sizes = X[rows], np.diff(level_ptr)
    sums = np.add.reduceat(x, level_ptr[:-1], axis=0)
    means = sums / level_sizes[:, None]
    z = np.repeat(a, level_sizes)[:, None] * (x - np.repeat(means, level_sizes, axis=0))
    if len(group_ptr) < len(level_ptr):
        group_sizes, n_levels = np.diff(level_ptr[group_ptr]), np.diff(group_ptr)
        group_means = np.add.reduceat(sums, group_ptr[:-1], axis=0) / group_sizes[:, None]
        gaps = np.repeat(b, n_levels)[:, None] * (means - np.repeat(group_means, n_levels, axis=0))
        z += np.repeat(gaps, level_sizes, axis=0)
    out[target] = z


def combine_columns(
    X: Array, rows: Any, level_ptr: Any, group_ptr: Any, a: Array, b: Array
) -> None:
    """The same along axis 1, in place."""
    combine_rows(X.T, X.T, rows, rows, level_ptr, group_ptr, a, b)


def minmax_groups(X: Any, rows: Any, ptr: Any) -> bool:
    """x <- (x - low) / (high - low); returns whether all ranges are finite."""
    starts, sizes = _groups(ptr)
    x = X[rows[ptr[0] : ptr[-1]]]
    if not x.size:
        return True
    low, high = (part.reduceat(x, starts, axis=0) for part in (np.minimum, np.maximum))
    span = high - low
    divisor = np.where(span == 0, X.dtype.type(1), span)
    z = (x - np.repeat(low, sizes, axis=0)) / np.repeat(divisor, sizes, axis=0)
    X[rows[ptr[0] : ptr[-1]]] = z
    return bool(np.isfinite(span).all())


def standardize_groups(X: Any, rows: Any, ptr: Any) -> None:
    """z <- (z - mean) / deviation, for values z that `minmax_groups` mapped to [0, 1]."""
    starts, sizes = _groups(ptr)
    x = X[rows[ptr[0] : ptr[-1]]].astype(np.float64)
    if not x.size:
        return
    mean = np.add.reduceat(x, starts, axis=0) / sizes[:, None]
    z = x - np.repeat(mean, sizes, axis=0)
    deviation = np.sqrt(np.add.reduceat(z**2, starts, axis=0) / sizes[:, None])
    deviation[deviation == 0] = 1.0
    X[rows[ptr[0] : ptr[-1]]] = z / np.repeat(deviation, sizes, axis=0)


def rank_groups(X: Any, rows: Any, ptr: Any) -> None:
    """x <- its rank among the n values, from -1/2 to 1/2; equal values share their mean rank."""
    starts, sizes = _groups(ptr)
    some = rows[ptr[0] : ptr[-1]]
    x = X[some]
    if not x.size:
        return
    group = np.repeat(np.arange(len(sizes)), sizes)
    order = np.argsort(x, axis=0, kind="stable")
    order = np.take_along_axis(order, np.argsort(group[order], axis=0, kind="stable"), axis=0)
    value, position = np.take_along_axis(x, order, axis=0), np.arange(len(x))[:, None]
    differs = (value[1:] != value[:-1]) | (group[1:] != group[:-1])[:, None]
    edge = np.ones((1, x.shape[1]), dtype=bool)
    begins, ends = np.concatenate((edge, differs)), np.concatenate((differs, edge))
    first = np.maximum.accumulate(np.where(begins, position, 0), axis=0)
    last = np.minimum.accumulate(np.where(ends, position, len(x))[::-1], axis=0)[::-1]
    n, start = np.repeat(sizes, sizes)[:, None], np.repeat(starts, sizes)[:, None]
    ranks = (first + last - 2 * start - (n - 1)) / (2.0 * np.maximum(n - 1, 1))
    z = np.empty(x.shape)
    np.put_along_axis(z, order, ranks, axis=0)
    X[some] = z


def _groups(ptr: Any) -> tuple[Any, Any]:
    """Where each group starts, counted from the first, and its size; empty groups are left out."""
    sizes = np.diff(ptr)
    return (ptr[:-1] - ptr[0])[sizes > 0], sizes[sizes > 0]
