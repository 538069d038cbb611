"""Scores of a table from the dense system of its given cells, all by all."""

import numpy as np

from tests.oracles.laplacian import grouped_laplacian


def table_scores(K, G, Y, given, alpha, compare, ties="include"):
    """K A G, where the coefficients of the given cells solve (L (K o G) + alpha I) a = L y."""
    rows, columns = np.nonzero(given)
    y = Y[given]
    group = {"columns": rows, "rows": columns, "all": np.zeros(len(y))}[compare]
    L = grouped_laplacian(y, group, ties, "rows")
    kernel = K[np.ix_(rows, rows)] * G[np.ix_(columns, columns)]
    a = np.linalg.solve(L @ kernel + alpha * np.eye(len(y)), L @ y)
    A = np.zeros(Y.shape)
    A[rows, columns] = a
    return K @ A @ G
