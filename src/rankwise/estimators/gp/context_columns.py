"""The context of comparisons in a Gaussian process: further columns, which are 0 for items.

A comparison (i, j) with the context z compares the row (x_i, z) with the row (x_j, 0). With the
kernel k(x, x') + v z'z', the difference of their scores is f(x_i) - f(x_j) + z'g, where the weights
g have the prior N(0, v I).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct

from rankwise.backends.arrays import Array
from rankwise.estimators.gp.on_columns import OnColumns
from rankwise.graph.comparison_checks import context_factors
from rankwise.graph.comparisons import Comparisons

LARGEST_FACTOR = 1e150  # of context columns: variances have its square


def with_context(
    X: Array, given: Comparisons, kernel: Any
) -> tuple[Array, Comparisons, Any, Array]:
    """Rows, comparisons and kernel with context columns, and the scales of these.

    The rows of X come first; then there is a row for each pair of a row and a context other than 0.
    Each column is divided by its root mean square.
    """
    assert given.context is not None
    factors = context_factors(given.context, 1.0, most=LARGEST_FACTOR)
    scale = np.where(factors > 0, factors, 1.0)
    n_features, n_columns = X.shape[1], len(scale)
    rows, comparisons = rows_in_context(in_context(X, scale, None), given, scale)
    items, columns = np.arange(n_features), n_features + np.arange(n_columns)
    weights = ConstantKernel(1.0) * OnColumns(DotProduct(0.0, "fixed"), columns)
    return rows, comparisons, OnColumns(kernel, items) + weights, scale


def rows_in_context(rows: Array, given: Comparisons, scale: Array) -> tuple[Array, Comparisons]:
    """Rows with context columns, further rows for first items in their context, and comparisons."""
    assert given.context is not None
    seen = np.flatnonzero(given.context.any(axis=1))
    keys = np.column_stack((given.pairs[seen, 0], given.context[seen] * scale))
    made, number = np.unique(keys, axis=0, return_inverse=True)
    new = rows[made[:, 0].astype(np.intp)]
    new[:, -len(scale) :] = made[:, 1:]
    pairs = given.pairs.copy()
    pairs[seen, 0] = len(rows) + number.ravel()
    return np.vstack((rows, new)), replace(given, pairs=pairs, context=None, items=None)


def in_context(X: Array, scale: Array, context: Array | None) -> Array:
    """Rows with the columns of a context, or with zeros."""
    values = np.zeros((len(X), len(scale))) if context is None else context * scale
    return np.hstack((X, values))
