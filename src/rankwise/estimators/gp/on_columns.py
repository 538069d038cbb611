"""A kernel on some of the columns of X."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Hyperparameter, Kernel

from rankwise.backends.arrays import Array
from rankwise.errors import ParameterError
from rankwise.estimators.gp.kernel_values import kernel_gradient, kernel_values


class OnColumns(Kernel):
    """k(x[columns], y[columns]): a kernel of ``sklearn.gaussian_process.kernels`` on some columns.

    In a sum, each group of columns has hyperparameters of its own: the scale of what identifies an
    item, and that of its style. A `WhiteKernel` on columns gives each combination of their values a
    part of its own.

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
        """Its parameters, with those of the inner kernel as ``kernel__...``."""
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
