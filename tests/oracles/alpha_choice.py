"""The grid of alphas, and held-out squared errors of pairs, from dense matrices."""

import numpy as np

from tests.oracles.laplacian import grouped_laplacian


def mean_square(X, y, qid, ties, weighting):
    """The trace of X'LX, divided by the number of features or of rows, if fewer."""
    L = grouped_laplacian(y, qid, ties, weighting)
    return np.trace(X.T @ L @ X) / min(X.shape)


def pair_errors(y, f, qid, ties, weighting):
    """Weighted squared errors of the differences of all pairs, and those of equal scores."""
    L = grouped_laplacian(y, qid, ties, weighting)
    return (y - f) @ L @ (y - f), y @ L @ y
