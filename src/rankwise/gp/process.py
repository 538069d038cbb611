"""Kernels of Gaussian processes, processes conditioned on comparisons, and averages of these.

A comparison (i, j) with the context z has the difference f(x_i) - f(x_j) + z'g, where the weights g
have the prior N(0, v I). Scores f(x) are without context.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import ndtr
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Hyperparameter,
    Kernel,
    Product,
    Sum,
)

from rankwise.backends.arrays import Array
from rankwise.backends.parallel import matmul
from rankwise.errors import DataError, ParameterError
from rankwise.estimators.ranker_rows import check_not_tiny
from rankwise.gp.inference import (
    CONSTANT,
    Approximation,
    LinearBasis,
    WeightBasis,
    pivoted_cholesky,
)
from rankwise.kernels import has_own_parts, same_items, with_own_parts
from rankwise.scaling import ColumnStatistics

_MEDIAN_ROWS = 500  # rows whose median distance is taken
_WIDEST = 1e150  # a distance whose square is finite


class OnColumns(Kernel):
    """k(x[columns], y[columns]): a kernel of ``sklearn.gaussian_process.kernels`` on some columns.

    In a sum, each group of columns has its own hyperparameters: a scale for what identifies an
    item, and another for its style. A `WhiteKernel` on columns adds a separate part for each
    combination of their values.

    Parameters
    ----------
    kernel : kernel of ``sklearn.gaussian_process.kernels``
    columns : array-like of int
        Numbers of columns of X.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import DotProduct, WhiteKernel
    >>> from rankwise import OnColumns, PairwiseGP
    >>> item, length = np.arange(6) % 3, np.array([1.0, 2.0, 0.5, 1.5, 0.2, 0.8])
    >>> kernel = OnColumns(WhiteKernel(1.0), [0]) + 1.0 * OnColumns(DotProduct(0.0, "fixed"), [1])
    >>> gp = PairwiseGP(kernel).fit_pairs(np.column_stack((item, length)), [[0, 1], [3, 4], [2, 5]])
    >>> len(gp.kernel_.theta)
    2
    """

    def __init__(self, kernel: Any, columns: Any) -> None:
        self.kernel = kernel
        self.columns = columns

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Its parameters; the inner kernel's are named ``kernel__...``."""
        params = {"kernel": self.kernel, "columns": self.columns}
        if deep:
            inner = self.kernel.get_params().items()
            params.update((f"kernel__{name}", value) for name, value in inner)
        return params

    @property
    def hyperparameters(self) -> list[Hyperparameter]:
        """Hyperparameters of the inner kernel."""
        return [
            Hyperparameter(f"kernel__{h.name}", h.value_type, h.bounds, h.n_elements)
            for h in self.kernel.hyperparameters
        ]

    @property
    def theta(self) -> Array:
        """Logarithms of the free hyperparameters."""
        return np.asarray(self.kernel.theta)

    @theta.setter
    def theta(self, theta: Array) -> None:
        self.kernel.theta = theta

    @property
    def bounds(self) -> Array:
        """Bounds of theta."""
        return np.asarray(self.kernel.bounds)

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        """k(X, Y), and its derivatives by theta on request."""
        X = self.of(X)
        if eval_gradient:
            return kernel_gradient(self.kernel, X)
        return kernel_values(self.kernel, X, None if Y is None else self.of(Y))

    def diag(self, X: Any) -> Array:
        """k(x, x) for every row."""
        return np.asarray(self.kernel.diag(self.of(X)))

    def is_stationary(self) -> bool:
        """Whether the inner kernel is stationary."""
        return bool(self.kernel.is_stationary())

    def of(self, X: Any) -> Array:
        """The columns of X that the kernel sees."""
        X = np.atleast_2d(X)
        return np.ascontiguousarray(X[:, self.numbers(X.shape[1])])

    def numbers(self, n_features: int) -> Any:
        """The columns as an array of numbers, checked."""
        numbers = np.asarray(self.columns)
        whole = numbers.ndim == 1 and len(numbers) > 0 and numbers.dtype.kind in "iu"
        if not whole or numbers.min() < 0 or numbers.max() >= n_features:
            raise ParameterError(
                f"columns of OnColumns must hold numbers of columns of X, from 0 to "
                f"{n_features - 1}: got {self.columns!r}."
            )
        return numbers

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OnColumns):
            return False
        same = np.array_equal(np.asarray(self.columns), np.asarray(other.columns))
        return bool(self.kernel == other.kernel and same)

    def __repr__(self) -> str:
        return f"OnColumns({self.kernel}, {np.asarray(self.columns).tolist()})"


def default_kernel(X: Array) -> Any:
    """A constant times RBF, whose width starts at the median distance of rows."""
    from scipy.spatial.distance import pdist

    rows = X[:: max(1, len(X) // _MEDIAN_ROWS)]
    check_not_tiny(ColumnStatistics.of(rows))
    with np.errstate(over="ignore"):
        distances = pdist(rows) if len(rows) > 1 else np.ones(1)
    distances = distances[distances > 0]
    width = float(np.median(distances)) if len(distances) else 1.0
    if not width < _WIDEST:
        raise DataError(
            "Rows of X are too far apart for their distances to be computed. Scale the features, "
            "for example with sklearn.preprocessing.StandardScaler."
        )
    return ConstantKernel(1.0, (1e-2, 1e4)) * RBF(width, (1e-2 * width, 1e2 * width))


def has_one_scale(kernel: Any) -> bool:
    """Whether a part of a kernel has the same scale for all features."""
    parts = (kernel, *kernel.get_params().values())
    if any(isinstance(part, OnColumns) for part in parts):
        return False
    return any(
        isinstance(part, DotProduct) or np.size(getattr(part, "length_scale", ())) == 1
        for part in parts
    )


def kernel_values(kernel: Any, X: Array, Y: Array | None = None) -> Array:
    """k(X, Y), checked to be finite."""
    if not len(X) and Y is None:  # some kernels of scikit-learn have a value without rows
        return np.zeros((0, 0))
    with np.errstate(over="ignore", invalid="ignore"):
        K = with_own_parts(kernel, X, Y, np.asarray(kernel(X, Y), dtype=np.float64))
    return _finite(kernel, K)


def kernel_gradient(kernel: Any, X: Array) -> tuple[Array, Array]:
    """k(X, X) and its derivatives by theta, checked to be finite."""
    if not len(X):
        return np.zeros((0, 0)), np.zeros((0, 0, len(kernel.theta)))
    with np.errstate(over="ignore", invalid="ignore"):
        K, dK = kernel(X, eval_gradient=True)
        K, dK = np.asarray(K, dtype=np.float64), np.asarray(dK, dtype=np.float64)
        if has_own_parts(kernel):
            same = same_items(X)
            if same is not None:
                K = np.where(same, np.diagonal(K)[:, None].copy(), K)
                own = np.einsum("iip->ip", dK)
                dK = np.where(same[:, :, None], own[:, None], dK)
    return _finite(kernel, K), _finite(kernel, dK)


def _finite(kernel: Any, values: Array) -> Array:
    if not np.isfinite(values.sum()):
        raise DataError(
            f"The kernel {kernel} has values that are not finite. Scale the features, for example "
            "with sklearn.preprocessing.StandardScaler, or narrow the bounds of its parameters."
        )
    return values


def linear_coordinates(kernel: Any, n_features: int) -> LinearBasis | None:
    """Coordinates phi with k(x, y) = phi(x)'phi(y), or None if the kernel is not linear.

    Linear are DotProduct, ConstantKernel, their sums, products with constants, and all of these on
    some columns.
    """
    if type(kernel) is DotProduct:
        basis = LinearBasis(
            np.arange(-1, n_features), np.append(kernel.sigma_0, np.ones(n_features))
        )
        return basis if kernel.sigma_0 > 0 else LinearBasis(basis.columns[1:], basis.scales[1:])
    if type(kernel) is ConstantKernel:
        return LinearBasis(np.array([CONSTANT]), np.sqrt([kernel.constant_value]))
    if isinstance(kernel, OnColumns):
        numbers = kernel.numbers(n_features)
        inner = linear_coordinates(kernel.kernel, len(numbers))
        if inner is None:
            return None
        columns = np.where(inner.columns == CONSTANT, CONSTANT, numbers[inner.columns])
        return LinearBasis(columns, inner.scales)
    if type(kernel) not in (Sum, Product):
        return None
    one, two = (linear_coordinates(part, n_features) for part in (kernel.k1, kernel.k2))
    if one is None or two is None:
        return None
    if type(kernel) is Sum:
        return LinearBasis(
            np.concatenate((one.columns, two.columns)), np.concatenate((one.scales, two.scales))
        )
    for constant, other in ((one, two), (two, one)):
        if constant.columns.tolist() == [CONSTANT]:
            return LinearBasis(other.columns, constant.scales * other.scales)
    return None


def scale_slopes(kernel: Any, n_features: int) -> Array:
    """Derivatives of the log scales of a linear kernel by theta, of shape (r, n_theta).

    A log scale is a linear function of theta, so a difference is exact.
    """
    log_scales = [
        np.log(cast(LinearBasis, linear_coordinates(moved, n_features)).scales)
        for moved in (kernel, *(kernel.clone_with_theta(t) for t in kernel.theta + _unit(kernel)))
    ]
    return np.asarray(np.array(log_scales[1:]).reshape(-1, len(log_scales[0])) - log_scales[0]).T


def _unit(kernel: Any) -> Array:
    return np.eye(len(kernel.theta))


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
    context: float = 0.0  # variance v of the weights of the context; 0 if there is none

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

    @property
    def n_context(self) -> int:
        """Weights of the context, which come before the weights of the basis."""
        return len(self.approximation.weights.mean) - len(self.basis)

    def context_weights(self) -> tuple[Array, Array]:
        """Mean and variance of g."""
        weights, own, v = self.approximation.weights, slice(self.n_context), self.hyper.context
        spread = weights.whiten(np.eye(len(weights.mean))[:, own])
        return np.sqrt(v) * weights.mean[own], v * np.square(spread).sum(axis=0)

    def mean(self, X: Array, reference: Array | None = None) -> Array:
        """E f at rows of X, minus its mean over reference rows if there are any: O(r m)."""
        if reference is not None:
            return self.mean(X) - self.mean(reference).mean()
        basis, u = self.basis, self.approximation.weights.mean[self.n_context :]
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
        """Var f at rows of X, or of f minus its mean over reference rows: O(r^2 m)."""
        out = np.array(self.hyper.kernel.diag(X), dtype=np.float64)
        features, level = (None, 0.0) if reference is None else self._level(reference)
        for part in self._blocks(len(X)):
            c = self._features(X[part])
            if features is not None:
                out[part] += level - 2.0 * self._shared(reference, X[part])
                c -= features[:, None]
            out[part] = self._conditioned(out[part], c)
        return out

    def covariance(self, X: Array, reference: Array | None = None) -> Array:
        """Cov f of rows of X, or of f minus its mean over reference rows: O(r^2 m + r m^2)."""
        K = kernel_values(self.hyper.kernel, X)
        c = self._features(X)
        if reference is not None:
            features, level = self._level(reference)
            shared = self._shared(reference, X)
            K = K - shared - shared[:, None] + level
            c -= features[:, None]
        if c.size:
            whitened = self.approximation.weights.whiten(c)
            K = K - matmul(c.T, c) + matmul(whitened.T, whitened)
        return (K + K.T) / 2

    def difference(self, X1: Array, X2: Array, context: Array | None = None) -> tuple[Array, Array]:
        """Mean and variance of f(x1) - f(x2) + z'g, row by row; z = 0 by default: O(r^2 m)."""
        mean, variance = np.empty(len(X1)), np.empty(len(X1))
        step = max(len(X1), 1) if self.basis.is_linear else _PAIR_BLOCK
        for start in range(0, len(X1), step):
            part = slice(start, start + step)
            a, b = X1[part], X2[part]
            c = self._features(a) - self._features(b)
            if self.basis.is_linear:
                prior = np.zeros(len(a))
            else:
                kernel = self.hyper.kernel
                crossed = np.diagonal(kernel_values(kernel, a, b))
                prior = np.maximum(kernel.diag(a) + kernel.diag(b) - 2.0 * crossed, 0.0)
            if context is not None:
                c[: self.n_context] = np.sqrt(self.hyper.context) * context[part].T
                prior = prior + np.square(c[: self.n_context]).sum(axis=0)
            mean[part] = self.approximation.weights.mean @ c
            variance[part] = self._conditioned(prior, c)
        return mean, variance

    def preference(self, X1: Array, X2: Array, context: Array | None = None) -> Array:
        """P(f(x1) > f(x2)), equation (11), row by row; 1/2 for equal rows."""
        return _probability(*self.difference(X1, X2, context), 0.0, 0.0)

    def outcomes(
        self, X1: Array, X2: Array, slope: Any = 1.0, context: Array | None = None
    ) -> Array:
        """P(win), P(tie) and P(loss) in a comparison, row by row, by raters with a slope."""
        return self.hyper.outcomes(*self.difference(X1, X2, context), slope)

    def _level(self, reference: Array) -> tuple[Array, float]:
        """Features and prior variance of the mean of f over some rows: O(r^2 m + m^2)."""
        features, variance = np.zeros(self.n_context + len(self.basis)), 0.0
        for part in self._blocks(len(reference)):
            features += self._features(reference[part]).sum(axis=1) / len(reference)
            variance += self._shared(reference, reference[part]).sum() / len(reference)
        return features, variance

    def _shared(self, reference: Any, X: Array) -> Array:
        """Prior covariances of f at rows of X with the mean of f over reference rows."""
        return np.asarray(kernel_values(self.hyper.kernel, reference, X).mean(axis=0))

    def _features(self, X: Array) -> Array:
        """c with f(X) = c'u + a part independent of the comparisons, of shape (c + r, m)."""
        if not len(self.basis):
            found = np.zeros((0, len(X)))
        elif self.basis.is_linear:
            found = self.basis.features(X)
        else:
            found = self.basis.project(kernel_values(self.hyper.kernel, self.points, X))
        return np.vstack((np.zeros((self.n_context, len(X))), found)) if self.n_context else found

    def _conditioned(self, prior: Array, c: Array) -> Array:
        """Posterior variances from prior variances and features."""
        rest = np.maximum(prior - np.einsum("ij,ij->j", c, c), 0.0)
        whitened = self.approximation.weights.whiten(c)
        return np.asarray(rest + np.einsum("ij,ij->j", whitened, whitened))

    def _blocks(self, n_rows: int) -> list[slice]:
        step = max(1, _BLOCK_BYTES // (8 * max(len(self.points), len(self.basis), 1)))
        return [slice(k, min(k + step, n_rows)) for k in range(0, n_rows, step)]


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
        """Scores of rows of X, minus their mean over reference rows if there are any."""
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

    def context_weights(self) -> tuple[Array, Array]:
        """Mean and standard deviation of g."""
        return self.pooled([c.context_weights() for c in self.processes])

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
