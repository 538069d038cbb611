"""Kernels of a pairwise Gaussian process: checked values, chosen columns, linear ones, context.

The context of comparisons is further columns, which are 0 for items. A comparison (i, j) with the
context z compares the row (x_i, z) with the row (x_j, 0). With the kernel k(x, x') + v z'z', the
difference of their scores is f(x_i) - f(x_j) + z'g, where the weights g have the prior N(0, v I).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
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
from rankwise.errors import DataError, ParameterError
from rankwise.estimators._scaling import check_not_tiny
from rankwise.gp.weights import CONSTANT, LinearBasis
from rankwise.graph.comparison_checks import context_factors
from rankwise.graph.comparisons import Comparisons
from rankwise.kernels.own_parts import has_own_parts, same_items, with_own_parts
from rankwise.scaling import ColumnStatistics

_MEDIAN_ROWS = 500  # rows whose median distance is taken
_WIDEST = 1e150  # a distance whose square is finite
_LARGEST_FACTOR = 1e150  # of context columns: variances have its square


class OnColumns(Kernel):
    """k(x[columns], y[columns]): a kernel of ``sklearn.gaussian_process.kernels`` on some columns.

    In a sum, each group of columns has its own hyperparameters: a scale for what identifies an
    item, and another for its style. A `WhiteKernel` on columns gives each combination of their
    values its own part.

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
        """Those of the inner kernel."""
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
        """Whether the inner kernel is."""
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
    with np.errstate(over="ignore", invalid="ignore"):
        K = with_own_parts(kernel, X, Y, np.asarray(kernel(X, Y), dtype=np.float64))
    return _finite(kernel, K)


def kernel_gradient(kernel: Any, X: Array) -> tuple[Array, Array]:
    """k(X, X), which may be overwritten, and its derivatives by theta, checked to be finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        K, dK = kernel(X, eval_gradient=True)
        K, dK = np.array(K, dtype=np.float64), np.asarray(dK, dtype=np.float64)
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


def with_context(
    X: Array, given: Comparisons, kernel: Any
) -> tuple[Array, Comparisons, Any, Array]:
    """Rows, comparisons and kernel with context columns, and the scales of these.

    The rows of X come first; then there is a row for each pair of a row and a context other than 0.
    Each column is divided by its root mean square.
    """
    assert given.context is not None
    factors = context_factors(given.context, 1.0, most=_LARGEST_FACTOR)
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
