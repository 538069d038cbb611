"""The loss of RankRLS as a function of scores, by loops over pairs, and its derivatives."""

import numpy as np

from tests.oracles.laplacian import pair_weights


def pair_loss(f, y, qid, ties, weighting):
    """1/2 sum_ij W_ij ((y_i - y_j) - (f_i - f_j))^2."""
    W = pair_weights(y, qid, ties, weighting)
    n = len(y)
    return sum(
        W[i, j] * ((y[i] - y[j]) - (f[i] - f[j])) ** 2 / 2 for i in range(n) for j in range(n)
    )


def central_differences(function, f):
    """The gradient of a quadratic function: exact but for rounding."""
    steps = np.eye(len(f))
    return np.array([(function(f + step) - function(f - step)) / 2 for step in steps])


def second_differences(function, f):
    """The diagonal of the Hessian of a quadratic function."""
    steps = np.eye(len(f))
    return np.array([function(f + step) - 2 * function(f) + function(f - step) for step in steps])
