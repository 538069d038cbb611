"""A Gaussian process with given hyperparameters, conditioned on comparisons."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import ndtr

from rankwise.backends.arrays import Array
from rankwise.backends.blas import matmul
from rankwise.estimators.gp.kernel_values import kernel_values
from rankwise.solvers.gp.approximation import Approximation
from rankwise.solvers.gp.weight_space import LinearBasis, WeightBasis

_BLOCK_BYTES = 64 * 2**20  # kernel values in memory at a time
_PAIR_BLOCK = 64  # pairs at a time: a kernel matrix is computed for its diagonal


@dataclass(frozen=True)
class Hyperparameters:
    """A kernel, and the parameters of the likelihood."""

    kernel: Any
    noise: float
    threshold: float
    flips: float
    slopes: Array | None = None  # of the raters, of shape (n_raters,)

    def outcomes(self, mean: Array, variance: Array, slope: Any = 1.0) -> Array:
        """P(win), P(tie) and P(loss) in comparisons with differences of N(mean, variance)."""
        noise, share = self.noise / slope, 1.0 - 2.0 * self.flips
        win, loss = (
            _probability(side * mean, variance, noise, self.threshold * noise) for side in (1, -1)
        )
        behind = -np.abs(mean)  # a tie is as likely as for the other row, and this loses no digits
        bounds = (-self.threshold * noise, self.threshold * noise)
        above, below = (_probability(behind, variance, noise, t) for t in bounds)
        tie = np.maximum(above - below, 0.0)
        return np.stack((self.flips + share * win, share * tie, self.flips + share * loss))


@dataclass(frozen=True, eq=False)
class ConditionedProcess:
    """The process at one setting of its hyperparameters, conditioned on the comparisons.

    `points`, of shape (n_points, n_features), are those of the basis: compared rows or landmarks,
    or none for a linear basis.
    """

    hyper: Hyperparameters
    points: Array
    basis: WeightBasis | LinearBasis
    approximation: Approximation

    def mean(self, X: Array, reference: Array | None = None) -> Array:
        """E f at rows of X, less its mean over reference rows if there are any: O(r m)."""
        if reference is not None:
            return self.mean(X) - self.mean(reference).mean()
        basis, u = self.basis, self.approximation.weights.mean
        if not len(basis):
            return np.zeros(len(X))
        if isinstance(basis, LinearBasis):
            return np.asarray(u @ basis.features(X))
        w = solve_triangular(basis.root, u, trans="T", lower=True, check_finite=False)
        out = np.empty(len(X))
        for part in self._blocks(len(X)):
            K = kernel_values(self.hyper.kernel, self.points, X[part])
            out[part] = w @ basis.functionals(K)
        return out

    def variance(self, X: Array, reference: Array | None = None) -> Array:
        """Var f at rows of X, or of f less its mean over reference rows: O(r^2 m)."""
        out = np.array(self.hyper.kernel.diag(X), dtype=np.float64)
        level = None if reference is None else self._level(reference)
        for part in self._blocks(len(X)):
            c = self._features(X[part])
            if level is not None:
                out[part] += level.variance - 2.0 * level.covariances(X[part])
                c -= level.features[:, None]
            out[part] = self._conditioned(out[part], c)
        return out

    def covariance(self, X: Array, reference: Array | None = None) -> Array:
        """Cov f of rows of X, or of f less its mean over reference rows: O(r^2 m + r m^2)."""
        K = kernel_values(self.hyper.kernel, X)
        c = self._features(X)
        if reference is not None:
            level = self._level(reference)
            shared = level.covariances(X)
            K = K - shared - shared[:, None] + level.variance
            c -= level.features[:, None]
        if c.size:
            whitened = self.approximation.weights.whiten(c)
            K = K - matmul(c.T, c) + matmul(whitened.T, whitened)
        return (K + K.T) / 2

    def difference(self, X1: Array, X2: Array) -> tuple[Array, Array]:
        """Mean and variance of f(x1) - f(x2), row by row: O(r^2 m)."""
        mean, variance = np.empty(len(X1)), np.empty(len(X1))
        kernel = self.hyper.kernel
        if isinstance(self.basis, LinearBasis):
            c = self.basis.features(X1) - self.basis.features(X2)
            return self.approximation.weights.mean @ c, self._conditioned(np.zeros(len(X1)), c)
        for start in range(0, len(X1), _PAIR_BLOCK):
            part = slice(start, start + _PAIR_BLOCK)
            a, b = X1[part], X2[part]
            crossed = np.diagonal(kernel_values(kernel, a, b))
            prior = np.maximum(kernel.diag(a) + kernel.diag(b) - 2.0 * crossed, 0.0)
            c = self._features(a) - self._features(b)
            mean[part] = self.approximation.weights.mean @ c
            variance[part] = self._conditioned(prior, c)
        return mean, variance

    def preference(self, X1: Array, X2: Array) -> Array:
        """P(f(x1) > f(x2)), equation (11), row by row; 1/2 for equal rows."""
        return _probability(*self.difference(X1, X2), 0.0, 0.0)

    def outcomes(self, X1: Array, X2: Array, slope: Any = 1.0) -> Array:
        """P(win), P(tie) and P(loss) in a comparison, row by row, by raters with a slope."""
        return self.hyper.outcomes(*self.difference(X1, X2), slope)

    def _level(self, reference: Array) -> _Level:
        """The mean of f over some rows: O(r^2 m + m^2)."""
        features, variance = np.zeros(len(self.basis)), 0.0
        for part in self._blocks(len(reference)):
            features += self._features(reference[part]).sum(axis=1) / len(reference)
        level = _Level(self.hyper.kernel, reference, features, variance)
        for part in self._blocks(len(reference)):
            variance += level.covariances(reference[part]).sum() / len(reference)
        return replace(level, variance=variance)

    def _features(self, X: Array) -> Array:
        """c with f(X) = c'u + a part independent of the comparisons, of shape (r, m)."""
        if not len(self.basis):
            return np.zeros((0, len(X)))
        if isinstance(self.basis, LinearBasis):
            return self.basis.features(X)
        return self.basis.project(kernel_values(self.hyper.kernel, self.points, X))

    def _conditioned(self, prior: Array, c: Array) -> Array:
        """Posterior variances from prior variances and features."""
        rest = np.maximum(prior - np.einsum("ij,ij->j", c, c), 0.0)
        whitened = self.approximation.weights.whiten(c)
        return np.asarray(rest + np.einsum("ij,ij->j", whitened, whitened))

    def _blocks(self, n_rows: int) -> list[slice]:
        step = max(1, _BLOCK_BYTES // (8 * max(len(self.points), len(self.basis), 1)))
        return [slice(k, min(k + step, n_rows)) for k in range(0, n_rows, step)]


@dataclass(frozen=True, eq=False)
class _Level:
    """The mean of f over some rows, before any comparison."""

    kernel: Any
    rows: Array
    features: Array  # c with mean f = c'u + a part independent of the comparisons
    variance: float

    def covariances(self, X: Array) -> Array:
        """Its prior covariances with f at rows of X."""
        return np.asarray(kernel_values(self.kernel, self.rows, X).mean(axis=0))


def _probability(mean: Array, variance: Array, noise: Any, t: Any) -> Array:
    """P(d + e > t); 1/2 if neither is random and d = t."""
    spread = np.sqrt(variance + noise**2)
    gap = mean - t
    certain = np.where(gap > 0, np.inf, np.where(gap < 0, -np.inf, 0.0))
    return np.asarray(ndtr(np.divide(gap, spread, out=certain, where=spread > 0)))
