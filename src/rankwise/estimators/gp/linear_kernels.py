"""Kernels that are linear in the columns of X: k(x, y) = phi(x)'phi(y) with few coordinates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct, Product, Sum

from rankwise.backends.arrays import Array, Index
from rankwise.estimators.gp.on_columns import OnColumns
from rankwise.solvers.gp.weight_space import CONSTANT


@dataclass(frozen=True, eq=False)
class LinearCoordinates:
    """phi_j(x) = scales_j x[columns_j], where a constant stands for the column -1."""

    columns: Index
    scales: Array
    slopes: Array  # derivatives of the logarithms of the scales by theta, of shape (r, n_theta)

    def __len__(self) -> int:
        return len(self.columns)

    def times(self, other: LinearCoordinates) -> LinearCoordinates | None:
        """The coordinates of a product, if one factor is a single constant."""
        if len(self) != 1 or self.columns[0] != CONSTANT:
            return None
        slopes = np.hstack((np.repeat(self.slopes, len(other), axis=0), other.slopes))
        return LinearCoordinates(other.columns, self.scales * other.scales, slopes)

    def swapped(self, n_theta: int) -> LinearCoordinates:
        """The same with the first `n_theta` hyperparameters behind the others."""
        return LinearCoordinates(self.columns, self.scales, np.roll(self.slopes, -n_theta, axis=1))


def linear_coordinates(kernel: Any, n_features: int) -> LinearCoordinates | None:
    """Those of a kernel, or None if it is not linear.

    Linear are DotProduct, ConstantKernel, their sums, products with constants, and all of these on
    some columns.
    """
    if type(kernel) is DotProduct:
        columns, scales = np.arange(-1, n_features), np.ones(n_features + 1)
        scales[0] = kernel.sigma_0
        slopes = np.zeros((n_features + 1, len(kernel.theta)))
        slopes[0] = 1.0
        first = 0 if kernel.sigma_0 > 0 else 1
        return LinearCoordinates(columns[first:], scales[first:], slopes[first:])
    if type(kernel) is ConstantKernel:
        scale, slope = np.sqrt([kernel.constant_value]), np.full((1, len(kernel.theta)), 0.5)
        return LinearCoordinates(np.array([CONSTANT]), scale, slope)
    if isinstance(kernel, OnColumns):
        numbers = kernel.numbers(n_features)
        inner = linear_coordinates(kernel.kernel, len(numbers))
        if inner is None:
            return None
        columns = np.where(inner.columns == CONSTANT, CONSTANT, numbers[inner.columns])
        return LinearCoordinates(columns, inner.scales, inner.slopes)
    if type(kernel) not in (Sum, Product):
        return None
    one, two = (linear_coordinates(part, n_features) for part in (kernel.k1, kernel.k2))
    if one is None or two is None:
        return None
    if type(kernel) is Sum:
        slopes = np.zeros((len(one) + len(two), len(kernel.theta)))
        slopes[: len(one), : one.slopes.shape[1]] = one.slopes
        slopes[len(one) :, one.slopes.shape[1] :] = two.slopes
        columns = np.concatenate((one.columns, two.columns))
        return LinearCoordinates(columns, np.concatenate((one.scales, two.scales)), slopes)
    product = one.times(two)
    if product is None:
        product = two.times(one)
        product = None if product is None else product.swapped(two.slopes.shape[1])
    return product
