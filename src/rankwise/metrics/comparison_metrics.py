"""How well comparisons are predicted: accuracy, probabilities, margins."""

from __future__ import annotations

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.metric_names import Metric, register

LEAST = 1e-15  # smallest probability in a logarithm
BINS = 10  # of the calibration error


def accuracy_of(margin: Array, difference: Array) -> Array:
    """1 if the predicted winner won, 0 if it lost, 1/2 for a tie or a difference of 0."""
    return np.asarray(0.5 + 0.5 * np.sign(margin) * np.sign(difference))


def log_loss_of(margin: Array, probability: Array) -> Array:
    """Minus the logarithm of the probability of the outcome; a tie is half a win for each."""
    won, p = outcomes(margin), np.clip(probability, LEAST, 1.0 - LEAST)
    return np.asarray(-won * np.log(p) - (1.0 - won) * np.log1p(-p))


def brier_of(margin: Array, probability: Array) -> Array:
    """The squared error of the probability that the first item wins."""
    return np.asarray((outcomes(margin) - probability) ** 2)


def squared_error_of(margin: Array, difference: Array) -> Array:
    """The squared error of the margin."""
    return np.asarray((margin - difference) ** 2)


def outcomes(margin: Array) -> Array:
    """1 if the first item won, 0 if it lost, 1/2 for a tie."""
    return np.asarray(0.5 + 0.5 * np.sign(margin))


def calibration_error(margin: Array, probability: Array, weight: Array) -> float:
    """The mean distance between predicted and observed frequencies, over bins of equal weight.

    The probability is the predicted winner's, so that it does not matter which item of a
    comparison is listed first.
    """
    first = probability >= 0.5
    p = np.where(first, probability, 1.0 - probability)
    won = np.where(first, outcomes(margin), 1.0 - outcomes(margin))
    order = np.argsort(p, kind="stable")
    total = np.cumsum(weight[order])
    if not len(total) or total[-1] <= 0:
        return np.nan
    bins = np.minimum((BINS * (total - weight[order] / 2) / total[-1]).astype(np.intp), BINS - 1)
    gaps = np.bincount(bins, weight[order] * (p - won)[order], BINS)
    return float(np.abs(gaps).sum() / total[-1])


def clustered_mean(values: Array, weight: Array, codes: Index) -> tuple[float, float]:
    """A weighted mean, and its standard error, where values within a group may be dependent.

    `codes` has the number of each value's group, from 0.

    With the groups g and u_g = sum of w (v - mean) over the values of g, it is
    sqrt(G / (G - 1) sum u_g^2) / sum w; NaN for a single group.
    """
    total = float(weight.sum())
    if not total > 0:
        return np.nan, np.nan
    mean = float((weight * values).sum()) / total  # a product by BLAS would start threads
    sums: Array = values - mean
    sums *= weight
    n = int(np.count_nonzero(weight))
    if not np.array_equal(codes, np.arange(len(codes))):  # some are not alone in their group
        sums = np.bincount(codes, sums).astype(np.float64)
        n = int(np.count_nonzero(np.bincount(codes, weight)))  # groups that count
    error = float(np.sqrt(n / (n - 1) * (sums * sums).sum())) / total if n > 1 else np.nan
    return mean, error


for _metric in (
    Metric(accuracy_of, True, "accuracy", of="difference"),
    Metric(log_loss_of, False, "log_loss", "log-loss", of="probability"),
    Metric(brier_of, False, "brier", of="probability"),
    Metric(squared_error_of, False, "squared_error", "squared error", of="difference"),
):
    register(_metric)
