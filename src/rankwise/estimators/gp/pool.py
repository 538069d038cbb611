"""The training rows as a pool to ask about: moments that single comparisons update."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwise.backends.arrays import Array
from rankwise.estimators.gp.conditioned_process import ConditionedProcess
from rankwise.estimators.gp.evidence import Evidence
from rankwise.estimators.gp.kernel_values import kernel_values
from rankwise.solvers.gp.pool_posterior import PoolPosterior

_TOLERANCE = 1e-3  # largest error of the moments, relative to their spread


def pool_of(process: ConditionedProcess, X: Array, evidence: Evidence) -> PoolPosterior:
    """The scores of all training rows under a process: O(n^3) time, O(n^2) memory."""
    observed, slopes = evidence.observed, _slopes(evidence)
    noise, a = process.hyper.noise, process.approximation
    pairs = observed.rows[np.column_stack((observed.first, observed.second))]
    return PoolPosterior(
        process.mean(X) / noise,
        np.ascontiguousarray(process.covariance(X) / noise**2),
        slopes**2 * _prior_variances(process.hyper.kernel, X, pairs) / noise**2,
        a.tau,
        a.nu,
        a.weights.log_det,
    )


def told(pool: PoolPosterior, X: Array, evidence: Evidence) -> PoolPosterior | None:
    """The pool after comparisons that extend the present ones; None if a fit is cheaper.

    The moments of all compared pairs are within a thousandth of their spread: a choice of pairs
    needs no more.
    """
    hyper, observed = evidence.hyper, evidence.observed
    first, second = observed.rows[observed.first], observed.rows[observed.second]
    n, slopes = len(pool.tau), _slopes(evidence)
    new = _prior_variances(hyper.kernel, X, np.column_stack((first[n:], second[n:])))
    return pool.extended(slopes[n:] ** 2 * new / hyper.noise**2).matched(
        first,
        second,
        slopes,
        np.ascontiguousarray(observed.values),
        hyper.threshold,
        hyper.flips,
        max(evidence.inference.tol, _TOLERANCE),
    )


def _slopes(evidence: Evidence) -> Array:
    """The slope of each pair."""
    slopes = evidence.slopes(evidence.hyper)
    return np.ones(len(evidence.observed)) if slopes is None else slopes


def _prior_variances(kernel: Any, X: Array, pairs: Any) -> Array:
    """Prior variances of differences."""
    rows, where = np.unique(pairs, return_inverse=True)
    i, j = where.reshape(-1, 2).T
    K = kernel_values(kernel, X[rows])
    return np.asarray(np.maximum(K[i, i] + K[j, j] - 2.0 * K[i, j], 0.0))
