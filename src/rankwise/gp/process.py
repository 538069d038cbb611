"""Gaussian processes conditioned on comparisons, and weighted averages of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import ndtr

from rankwise.backends.arrays import Array
from rankwise.backends.blas import matmul
from rankwise.gp.inference import Approximation
from rankwise.gp.process_kernels import kernel_values
from rankwise.gp.weights import LinearBasis, WeightBasis, pivoted_cholesky

_BLOCK_BYTES = 64 * 2**20  # kernel values in memory at a time
_TIED = 1e-10  # of the largest score: smaller differences of draws are rounding errors
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

    `points`, of shape (n_points, n_features), are what the basis refers to: compared rows or
    landmarks, or none for a linear basis.
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
        if basis.is_linear:
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
        if self.basis.is_linear:
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
        if self.basis.is_linear:
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


@dataclass(frozen=True, eq=False)
class ProcessMixture:
    """Conditioned processes with their posterior weights, which sum to 1; often a single one.

    `prior` is proportional to their prior weights.
    """

    processes: list[ConditionedProcess]
    weights: Array
    prior: Array

    @classmethod
    def of(cls, processes: list[ConditionedProcess], prior: Array) -> ProcessMixture:
        """With weights proportional to prior times evidence."""
        values = np.array([c.approximation.log_evidence for c in processes])
        weights = prior * np.exp(values - values.max())
        return cls(processes, weights / weights.sum(), prior)

    @property
    def best(self) -> ConditionedProcess:
        """The process of greatest weight."""
        return self.processes[int(np.argmax(self.weights))]

    def average(self, ask: Callable[[ConditionedProcess], Array]) -> Array:
        """The weighted mean of a function of the processes."""
        return np.tensordot(self.weights, [ask(process) for process in self.processes], axes=1)

    def mean(self, X: Array, reference: Array | None = None) -> Array:
        """Scores of rows of X, less their mean over reference rows if there are any."""
        return self.average(lambda c: c.mean(X, reference))

    def mean_and_std(self, X: Array, reference: Array | None = None) -> tuple[Array, Array]:
        """The same scores, and their standard deviations."""
        return self.pooled(
            [(c.mean(X, reference), c.variance(X, reference)) for c in self.processes]
        )

    def mean_and_covariance(self, X: Array, reference: Array | None = None) -> tuple[Array, Array]:
        """The same scores, and their covariance."""
        means = [c.mean(X, reference) for c in self.processes]
        mean, total = np.asarray(self.weights @ means), np.zeros((len(X), len(X)))
        for weight, process, at in zip(self.weights, self.processes, means, strict=True):
            gap = at - mean
            total += weight * (process.covariance(X, reference) + gap[:, None] * gap)
        return mean, total

    def difference(self, X1: Array, X2: Array) -> tuple[Array, Array]:
        """Mean and standard deviation of f(x1) - f(x2), row by row."""
        return self.pooled([c.difference(X1, X2) for c in self.processes])

    def pooled(self, moments: list[tuple[Array, Array]]) -> tuple[Array, Array]:
        """Mean and standard deviation from a mean and a variance under each process."""
        means, variances = (np.array(part) for part in zip(*moments, strict=True))
        mean = self.weights @ means
        return mean, np.sqrt(self.weights @ (variances + np.square(means - mean)))

    def sample(self, X: Array, n: int, rng: np.random.Generator) -> Array:
        """Draws of shape (n, rows of X), each from one of the processes."""
        which = rng.choice(len(self.processes), n, p=self.weights)
        draws = np.empty((n, len(X)))
        for k in np.unique(which):
            process, chosen = self.processes[k], which == k
            C, order = pivoted_cholesky(process.covariance(X))
            normal = rng.standard_normal((int(chosen.sum()), C.shape[1]))
            draws[np.ix_(chosen, order)] = process.mean(X)[order] + normal @ C.T
        return draws


def rank_counts(draws: Array, rng: np.random.Generator) -> Any:
    """How often each column of `draws` has each rank, 0 being the highest."""
    m = draws.shape[1]
    # Ties are broken at random, and so are differences that are rounding errors.
    unit = _TIED * float(np.abs(draws).max(initial=0.0)) or 1.0
    order = np.lexsort((rng.random(draws.shape), -np.round(draws / unit)))
    counts = np.bincount((order * m + np.arange(m)).ravel(), minlength=m * m)
    return counts.reshape(m, m)
