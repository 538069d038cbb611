"""Rows combined with the weighted means of nested groups."""

from __future__ import annotations

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.backends.dispatch import backend_of
from rankwise.graph.pair_graph import row_scale


def combine_weighted(
    X: Array, weights: Array, level: Index, group_of_level: Index, a: Array, b: Array
) -> Array:
    """a_l (x_i - mean_l) + b_g (mean_l - mean_g), with means in which row i has a weight.

    `level` has the level l of each row, and `group_of_level` the group g of each level; every group
    has rows. Like `rankwise.backends.group_means` with weights, in a few passes over X.
    """
    on, n_levels, n_groups = backend_of(X), len(a), len(b)
    group = group_of_level[level]
    first = np.empty(n_groups, dtype=np.intp)
    first[group[::-1]] = np.arange(len(X))[::-1]
    # Relative to a row of the group: features that are constant in it become exactly 0.
    X = X - X[first][group]
    of_level = np.bincount(level, weights, minlength=n_levels)
    of_group = np.bincount(group_of_level, of_level, minlength=n_groups)
    sums = on.group_sums(level, n_levels, row_scale(weights, X))
    means = row_scale(1.0 / of_level, sums)
    group_means = row_scale(1.0 / of_group, on.group_sums(group_of_level, n_groups, sums))
    X -= means[level]
    combined: Array = row_scale(a[level], X)
    if n_levels > n_groups:  # otherwise the means of levels are those of groups
        combined += row_scale(b[group_of_level], means - group_means[group_of_level])[level]
    return combined
