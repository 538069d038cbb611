"""Scale the columns of groups of rows, in place.

Group g holds the positions ptr[g]:ptr[g + 1] of `rows`. A group is read again while it is still in
cache, so each function costs about one pass over X, which array expressions with temporaries of the
size of X do not achieve. A column that is constant in a group becomes 0 there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwise.backends.arrays import Index
from rankwise.backends.jit import compiled


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
        low[:] = X[rows[start]]
        span[:] = X[rows[start]]
        for k in range(start + 1, stop):
            x = X[rows[k]]
            for j in range(d):
                low[j] = min(low[j], x[j])
                span[j] = max(span[j], x[j])
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
def rank_groups(X: Any, rows: Index, ptr: Index) -> None:
    """x <- its rank among the n values, from -1/2 to 1/2 in steps of 1 / (n - 1).

    Equal values share the mean of their ranks.
    """
    for g in range(len(ptr) - 1):
        start, n = ptr[g], ptr[g + 1] - ptr[g]
        column = np.empty(n)
        for j in range(X.shape[1]):
            for k in range(n):
                column[k] = X[rows[start + k], j]
            order = np.argsort(column)
            first = 0
            while first < n:
                last = first
                while last + 1 < n and column[order[last + 1]] == column[order[first]]:
                    last += 1
                rank = (first + last - (n - 1)) / (2.0 * max(n - 1, 1))
                for k in range(first, last + 1):
                    X[rows[start + order[k]], j] = rank
                first = last + 1
