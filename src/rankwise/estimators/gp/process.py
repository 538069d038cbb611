"""A Gaussian process with its hyper-parameters, conditioned on comparisons."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import ndtr

from rankwise.backends.arrays import Array, Index
from rankwise.backends.blas import matmul
from rankwise.errors import DataError
from rankwise.solvers.gp.approximation import Approximation, Outcomes
from rankwise.solvers.gp.differences import Differences
from rankwise.solvers.gp.ep import expectation_propagation
from rankwise.solvers.gp.gaussian import gaussian
from rankwise.solvers.gp.laplace import laplace
from rankwise.solvers.gp.span import Span, extended

_BLOCK_BYTES = 64 * 2**20  # of kernel values held at a time
_PAIR_BLOCK = 64  # rows whose kernel values with each other are computed for its diagonal


@dataclass(frozen=True)
class Inference:
    """How the posterior is computed."""

    likelihood: str
    method: str
    sequential: bool
    tol: float
    max_sweeps: int


@dataclass(frozen=True, eq=False)
class Observations:
    """Comparisons between rows: counts of outcomes (probit), or margins (gaussian)."""

    first: Index
    second: Index
    counts: Array | None = None
    margin: Array | None = None
    weight: Array | None = None

    def __len__(self) -> int:
        return len(self.first)

    def renumbered(self, position: Index) -> Observations:
        """The same of rows that have other numbers."""
        return replace(self, first=position[self.first], second=position[self.second])

    def position(self, i: int, j: int) -> int | None:
        """Where the pair (i, j), i < j, is counted already."""
        same = np.flatnonzero((self.first == i) & (self.second == j))
        return int(same[0]) if len(same) and self.counts is not None else None

    def __add__(self, other: Observations) -> Observations:
        """One observation more: counted where its pair is counted already, else appended."""
        k = self.position(int(other.first[0]), int(other.second[0]))
        if k is not None and self.counts is not None:
            counts = self.counts.copy()
            counts[k] += np.asarray(other.counts)[0]
            return replace(self, counts=counts)

        def joined(name: str) -> Any:
            mine, more = getattr(self, name), getattr(other, name)
            return None if mine is None else np.concatenate((mine, more))

        names = ("first", "second", "counts", "margin", "weight")
        return Observations(**{name: joined(name) for name in names})


@dataclass(frozen=True)
class Hyperparameters:
    """A kernel with its theta, and the parameters of the likelihood."""

    kernel: Any
    noise: float
    threshold: float
    flips: float


def kernel_values(kernel: Any, X: Array, Y: Array | None = None) -> Array:
    """k(X, Y), finite."""
    with np.errstate(over="ignore", invalid="ignore"):  # said below, with a way out
        K = np.asarray(kernel(X, Y), dtype=np.float64)
    _check_finite(kernel, K)
    return K


def kernel_gradient(kernel: Any, X: Array) -> tuple[Array, Array]:
    """k(X, X) and its derivatives by theta, finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        K, dK = kernel(X, eval_gradient=True)
    _check_finite(kernel, K)
    _check_finite(kernel, dK)
    return np.array(K, dtype=np.float64), np.asarray(dK, dtype=np.float64)


def _check_finite(kernel: Any, values: Array) -> None:
    if not np.isfinite(values.sum()):
        raise DataError(
            f"The kernel {kernel} has values that are not finite. Scale the features, for example "
            "with sklearn.preprocessing.StandardScaler, or narrow the bounds of its parameters."
        )


def condition(
    span: Span,
    observed: Observations,
    hyper: Hyperparameters,
    inference: Inference,
    start: tuple[Array, Array] | None = None,
) -> tuple[Differences, Approximation]:
    """The posterior, and the differences in the units that it was computed in."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # said below, with a way out
            differences, found = _condition(span, observed, hyper, inference, start)
        finite = np.isfinite(found.log_evidence)
    except FloatingPointError:
        finite = False
    if not finite:
        raise out_of_range(hyper)
    return differences, found


def out_of_range(hyper: Hyperparameters) -> DataError:
    """What to do where a posterior, or a slope of its evidence, is not finite."""
    return DataError(
        "The posterior is not finite: kernel values, margins or weights are too large beside the "
        f"noise ({hyper.noise:g}). Scale the features, margins or weights, or raise noise. The "
        f"kernel is {hyper.kernel}."
    )


def _condition(
    span: Span,
    observed: Observations,
    hyper: Hyperparameters,
    inference: Inference,
    start: tuple[Array, Array] | None,
) -> tuple[Differences, Approximation]:
    if inference.likelihood == "gaussian":
        differences = span.differences
        margin, weight = np.asarray(observed.margin), np.asarray(observed.weight)
        return differences, gaussian(differences, margin, weight, hyper.noise)
    differences = span.scaled(1.0 / hyper.noise)
    outcomes = Outcomes(np.asarray(observed.counts), hyper.threshold, hyper.flips)
    options: dict[str, Any] = {
        "start": start,
        "tol": inference.tol,
        "max_sweeps": inference.max_sweeps,
    }
    if inference.method == "laplace":
        return differences, laplace(differences, outcomes, **options)
    return differences, expectation_propagation(
        differences, outcomes, sequential=inference.sequential, **options
    )


@dataclass(frozen=True, eq=False)
class Component:
    """The process at one setting of its hyper-parameters, after the comparisons.

    Attributes
    ----------
    hyper : Hyperparameters
    points : ndarray of shape (n_points, n_features)
        What the basis of the span counts.
    span : Span
    approximation : Approximation
    exact : bool
        Whether the basis grows with new comparisons (no landmarks).
    """

    hyper: Hyperparameters
    points: Array
    span: Span
    approximation: Approximation
    exact: bool

    def mean(self, X: Array) -> Array:
        """E f at rows of X: O(r m)."""
        basis, u = self.span.basis, self.approximation.weights.mean
        if not len(basis):
            return np.zeros(len(X))
        w = solve_triangular(basis.root, u, trans="T", lower=True, check_finite=False)
        out = np.empty(len(X))
        for part in self._blocks(len(X)):
            K = kernel_values(self.hyper.kernel, self.points, X[part])
            out[part] = w @ basis.functionals(K)
        return out

    def variance(self, X: Array) -> Array:
        """Var f at rows of X: O(r^2 m)."""
        out = np.array(self.hyper.kernel.diag(X), dtype=np.float64)
        for part in self._blocks(len(X)):
            c = self._features(X[part])
            out[part] = self._conditioned(out[part], c)
        return out

    def covariance(self, X: Array) -> Array:
        """Cov f of rows of X: O(r^2 m + r m^2)."""
        K = kernel_values(self.hyper.kernel, X)
        c = self._features(X)
        if c.size:
            whitened = self.approximation.weights.whiten(c)
            K = K - matmul(c.T, c) + matmul(whitened.T, whitened)
        return (K + K.T) / 2

    def difference(self, X1: Array, X2: Array) -> tuple[Array, Array]:
        """Mean and variance of f(x1) - f(x2), row by row: O(r^2 m)."""
        mean, variance = np.empty(len(X1)), np.empty(len(X1))
        kernel = self.hyper.kernel
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
        """P(f(x1) > f(x2)): equation (11), row by row. Equal rows have 1/2."""
        return _probability(*self.difference(X1, X2), 0.0, 0.0)

    def outcomes(self, X1: Array, X2: Array) -> tuple[Array, Array]:
        """P(win) and P(tie) in a comparison, row by row."""
        mean, variance = self.difference(X1, X2)
        hyper = self.hyper
        t, share = hyper.threshold * hyper.noise, 1.0 - 2.0 * hyper.flips
        win = _probability(mean, variance, hyper.noise, t)
        no_loss = win if t == 0 else _probability(mean, variance, hyper.noise, -t)
        return hyper.flips + share * win, share * np.maximum(no_loss - win, 0.0)

    def told(
        self,
        points: Array,
        pair: tuple[int, int],
        observed: Observations,
        inference: Inference,
    ) -> Component:
        """The component after one comparison more, starting from the sites that it has.

        Parameters
        ----------
        points : ndarray of shape (n_points, n_features)
            Those of this component, and after them what the comparison brings along; for
            landmarks, the two rows of the comparison.
        pair : (int, int)
            Which points were compared.
        observed : Observations
            All comparisons, a new pair being the last of them.
        """
        a, span = self.approximation, self.span
        tau, nu = a.tau, a.nu
        if len(observed) > len(tau):  # otherwise an old pair has new outcomes, no more
            span = self._extended(points, pair)
            tau, nu = np.append(tau, 0.0), np.append(nu, 0.0)
        _, approximation = condition(span, observed, self.hyper, inference, (tau, nu))
        points = points if self.exact else self.points
        return replace(self, span=span, points=points, approximation=approximation)

    def _extended(self, points: Array, pair: tuple[int, int]) -> Span:
        kernel, basis = self.hyper.kernel, self.span.basis
        if not self.exact:
            cross = basis.functionals(kernel_values(kernel, self.points, points[list(pair)]))
            return extended(self.span, cross[:, 0] - cross[:, 1], 0.0, (-1, -1))
        i, j = pair
        K = kernel_values(kernel, points)  # of points, not rows: a white kernel tells equals apart
        cross = basis.functionals(K[:, [i, j]])
        variance = K[i, i] + K[j, j] - 2.0 * K[i, j]
        return extended(self.span, cross[:, 0] - cross[:, 1], variance, (i, j))

    def _features(self, X: Array) -> Array:
        """c with f(X) = c'u + what the comparisons say nothing about, of shape (r, m)."""
        basis = self.span.basis
        if not len(basis):
            return np.zeros((0, len(X)))
        return basis.project(kernel_values(self.hyper.kernel, self.points, X))

    def _conditioned(self, prior: Array, c: Array) -> Array:
        """Variances after the comparisons from those before, and features."""
        rest = np.maximum(prior - np.einsum("ij,ij->j", c, c), 0.0)
        whitened = self.approximation.weights.whiten(c)
        return np.asarray(rest + np.einsum("ij,ij->j", whitened, whitened))

    def _blocks(self, n_rows: int) -> list[slice]:
        step = max(1, _BLOCK_BYTES // (8 * max(len(self.points), 1)))
        return [slice(k, min(k + step, n_rows)) for k in range(0, n_rows, step)]


def _probability(mean: Array, variance: Array, noise: float, t: float) -> Array:
    """P(d + e > t); 1/2 where nothing is random and nothing is ahead."""
    spread = np.sqrt(variance + noise**2)
    gap = mean - t
    certain = np.where(gap > 0, np.inf, np.where(gap < 0, -np.inf, 0.0))
    return np.asarray(ndtr(np.divide(gap, spread, out=certain, where=spread > 0)))
