"""Kernels as ONNX operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.gaussian_process import kernels as gp

from rankwise.backends.arrays import Array
from rankwise.errors import ExportError
from rankwise.export._graph import Graph, Value
from rankwise.gp.process_kernels import OnColumns
from rankwise.kernels.functions import NamedKernel, PairFunction, Precomputed
from rankwise.kernels.own_parts import has_own_parts

IN_FLOAT32 = ("rbf", "laplacian")
"""Named kernels of differences of rows, which keep their digits in float32."""


def kernel_values(graph: Graph, kernel: Any, x: Value, points: Array) -> Value:
    """k(x, points), of shape (rows, points)."""
    if isinstance(kernel, NamedKernel):
        return _NAMED[kernel.name](graph, kernel, x, points)
    if isinstance(kernel, Precomputed):
        raise ExportError(
            'A ranker with kernel="precomputed" takes kernel values in place of features, and its '
            "kernel is not known. Export one that was fitted with a named kernel."
        )
    if isinstance(kernel, PairFunction):
        raise ExportError(
            "The kernel is a Python function of two rows, which has no operators. Use a named "
            'kernel, such as "rbf", or one of sklearn.gaussian_process.kernels.'
        )
    K = _plain(graph, kernel, x, points)
    if not has_own_parts(kernel):
        return K
    apart = graph.distances(x, points, squared=False)
    same = graph.add("Equal", apart, 0.0)
    return graph.add("Where", same, kernel_diagonal(graph, kernel, x), K)


def _plain(graph: Graph, kernel: Any, x: Value, points: Array) -> Value:
    """k(x, points) as scikit-learn computes it: without the own parts of equal rows."""
    return _found(_VALUES, kernel)(graph, kernel, x, points)


def kernel_diagonal(graph: Graph, kernel: Any, x: Value) -> Value:
    """k(x, x), of shape (rows, 1)."""
    return _found(_DIAGONALS, kernel)(graph, kernel, x)


def _found(table: dict[type, Callable[..., Value]], kernel: Any) -> Callable[..., Value]:
    if type(kernel) in table:
        return table[type(kernel)]
    known = ", ".join(cls.__name__ for cls in table)
    raise ExportError(
        f"There are no ONNX operators for the kernel {kernel}. There are for the named kernels "
        f"and for {known}, their sums and products."
    )


# Named kernels ------------------------------------------------------------------------------------


def _linear(graph: Graph, kernel: NamedKernel, x: Value, points: Array) -> Value:
    return graph.add("MatMul", x, points.T)


def _rbf(graph: Graph, kernel: NamedKernel, x: Value, points: Array) -> Value:
    """exp of 2 gamma x'y - gamma |x|^2 - gamma |y|^2 for centred rows, by one product."""
    centre = points.mean(axis=0).astype(graph.dtype).astype(np.float64)
    points = points - centre
    x = graph.affine(x, centre, np.ones(len(centre)))
    norms = graph.sum(graph.add("Mul", x, x), 1)
    ones = graph.add("Add", graph.add("Mul", norms, 0.0), 1.0)
    left = graph.add("Concat", x, norms, ones, axis=1)
    g, squares = kernel.gamma, np.square(points).sum(axis=1)
    right = np.vstack((2 * g * points.T, np.full(len(points), -g), -g * squares))
    exponent = graph.add("MatMul", left, right)
    return graph.add("Exp", graph.add("Min", exponent, 0.0))


def _laplacian(graph: Graph, kernel: NamedKernel, x: Value, points: Array) -> Value:
    centre = points.mean(axis=0).astype(graph.dtype).astype(np.float64)
    x = graph.affine(x, centre, np.ones(len(centre)))
    distances = graph.distances(x, points - centre, squared=False)
    return graph.add("Exp", graph.add("Mul", distances, -kernel.gamma))


def _affine_products(graph: Graph, kernel: NamedKernel, x: Value, points: Array) -> Value:
    return graph.add("Add", graph.add("MatMul", x, kernel.gamma * points.T), kernel.coef0)


def _polynomial(graph: Graph, kernel: NamedKernel, x: Value, points: Array) -> Value:
    return graph.add("Pow", _affine_products(graph, kernel, x, points), float(kernel.degree))


def _sigmoid(graph: Graph, kernel: NamedKernel, x: Value, points: Array) -> Value:
    return graph.add("Tanh", _affine_products(graph, kernel, x, points))


def _cosine(graph: Graph, kernel: NamedKernel, x: Value, points: Array) -> Value:
    norms = np.linalg.norm(points, axis=1, keepdims=True)
    directions = points / np.where(norms > 0, norms, 1.0)
    length = graph.add("Sqrt", graph.sum(graph.add("Mul", x, x), 1))
    is_zero = graph.add("Equal", length, 0.0)
    length = graph.add("Where", is_zero, 1.0, length)
    return graph.add("MatMul", graph.add("Div", x, length), directions.T)


_NAMED: dict[str, Callable[[Graph, NamedKernel, Value, Array], Value]] = {
    "linear": _linear,
    "rbf": _rbf,
    "laplacian": _laplacian,
    "polynomial": _polynomial,
    "poly": _polynomial,
    "sigmoid": _sigmoid,
    "cosine": _cosine,
}


# Kernels of scikit-learn's Gaussian processes -----------------------------------------------------


def _squared_distances(graph: Graph, x: Value, points: Array, length: Any) -> Value:
    """|x - p|^2 in units of a length scale, or of one for each feature."""
    factor = np.broadcast_to(1.0 / np.asarray(length, dtype=np.float64), points.shape[1:])
    scaled = graph.add("Mul", x, factor)
    return graph.distances(scaled, points * factor, squared=True)


def _constant(graph: Graph, kernel: Any, x: Value, points: Array) -> Value:
    return graph.add("Add", graph.zeros(x, len(points)), float(kernel.constant_value))


def _white(graph: Graph, kernel: Any, x: Value, points: Array) -> Value:
    return graph.zeros(x, len(points))  # `kernel_values` replaces it for equal rows


def _gaussian(graph: Graph, kernel: Any, x: Value, points: Array) -> Value:
    squares = _squared_distances(graph, x, points, kernel.length_scale)
    return graph.add("Exp", graph.add("Mul", squares, -0.5))


def _matern(graph: Graph, kernel: Any, x: Value, points: Array) -> Value:
    if kernel.nu == np.inf:
        return _gaussian(graph, kernel, x, points)
    squares = _squared_distances(graph, x, points, kernel.length_scale)
    factors = {0.5: 1.0, 1.5: np.sqrt(3.0), 2.5: np.sqrt(5.0)}
    if kernel.nu not in factors:
        raise ExportError(
            f"Matern with nu={kernel.nu:g} needs a Bessel function, for which ONNX has no "
            "operator. Use nu=0.5, 1.5, 2.5 or inf."
        )
    t = graph.add("Mul", graph.add("Sqrt", squares), factors[kernel.nu])
    decay = graph.add("Exp", graph.add("Neg", t))
    if kernel.nu == 0.5:
        return decay
    polynomial = graph.add("Add", t, 1.0)
    if kernel.nu == 2.5:
        third = graph.add("Div", graph.add("Mul", t, t), 3.0)
        polynomial = graph.add("Add", polynomial, third)
    return graph.add("Mul", polynomial, decay)


def _rational(graph: Graph, kernel: Any, x: Value, points: Array) -> Value:
    squares = _squared_distances(graph, x, points, kernel.length_scale)
    base = graph.add("Add", graph.add("Div", squares, 2.0 * float(kernel.alpha)), 1.0)
    return graph.add("Pow", base, -float(kernel.alpha))


def _periodic(graph: Graph, kernel: Any, x: Value, points: Array) -> Value:
    squares = graph.distances(x, points, squared=True)
    angle = graph.add("Mul", graph.add("Sqrt", squares), np.pi / float(kernel.periodicity))
    wave = graph.add("Div", graph.add("Sin", angle), float(kernel.length_scale))
    return graph.add("Exp", graph.add("Mul", graph.add("Mul", wave, wave), -2.0))


def _dot_product(graph: Graph, kernel: Any, x: Value, points: Array) -> Value:
    return graph.add("Add", graph.add("MatMul", x, points.T), float(kernel.sigma_0) ** 2)


def _sum(graph: Graph, kernel: Any, x: Value, points: Array) -> Value:
    parts = (_plain(graph, part, x, points) for part in (kernel.k1, kernel.k2))
    return graph.add("Add", *parts)


def _product(graph: Graph, kernel: Any, x: Value, points: Array) -> Value:
    parts = (_plain(graph, part, x, points) for part in (kernel.k1, kernel.k2))
    return graph.add("Mul", *parts)


def _power(graph: Graph, kernel: Any, x: Value, points: Array) -> Value:
    K = _plain(graph, kernel.kernel, x, points)
    return graph.add("Pow", K, float(kernel.exponent))


def _on_columns(graph: Graph, kernel: OnColumns, x: Value, points: Array) -> Value:
    numbers = kernel.numbers(points.shape[1])
    chosen = graph.add("Gather", x, numbers, axis=1)
    return kernel_values(graph, kernel.kernel, chosen, points[:, numbers])


_VALUES: dict[type, Callable[..., Value]] = {
    gp.RBF: _gaussian,
    gp.Matern: _matern,
    gp.RationalQuadratic: _rational,
    gp.ExpSineSquared: _periodic,
    gp.DotProduct: _dot_product,
    gp.ConstantKernel: _constant,
    gp.WhiteKernel: _white,
    gp.Sum: _sum,
    gp.Product: _product,
    gp.Exponentiation: _power,
    OnColumns: _on_columns,
}


def _level(value: Callable[[Any], float]) -> Callable[..., Value]:
    def diagonal(graph: Graph, kernel: Any, x: Value) -> Value:
        return graph.add("Add", graph.zeros(x, 1), float(value(kernel)))

    return diagonal


def _squared_norms(graph: Graph, kernel: Any, x: Value) -> Value:
    return graph.add("Add", graph.sum(graph.add("Mul", x, x), 1), float(kernel.sigma_0) ** 2)


def _combined(op: str) -> Callable[..., Value]:
    def diagonal(graph: Graph, kernel: Any, x: Value) -> Value:
        parts = (kernel_diagonal(graph, part, x) for part in (kernel.k1, kernel.k2))
        return graph.add(op, *parts)

    return diagonal


def _power_diagonal(graph: Graph, kernel: Any, x: Value) -> Value:
    return graph.add("Pow", kernel_diagonal(graph, kernel.kernel, x), float(kernel.exponent))


def _on_columns_diagonal(graph: Graph, kernel: OnColumns, x: Value) -> Value:
    numbers = np.asarray(kernel.columns)
    return kernel_diagonal(graph, kernel.kernel, graph.add("Gather", x, numbers, axis=1))


_ONE = _level(lambda kernel: 1.0)
_DIAGONALS: dict[type, Callable[..., Value]] = {
    gp.RBF: _ONE,
    gp.Matern: _ONE,
    gp.RationalQuadratic: _ONE,
    gp.ExpSineSquared: _ONE,
    gp.DotProduct: _squared_norms,
    gp.ConstantKernel: _level(lambda kernel: kernel.constant_value),
    gp.WhiteKernel: _level(lambda kernel: kernel.noise_level),
    gp.Sum: _combined("Add"),
    gp.Product: _combined("Mul"),
    gp.Exponentiation: _power_diagonal,
    OnColumns: _on_columns_diagonal,
}
