"""ONNX operators: values that become a graph by arithmetic, and the values of kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.gaussian_process import kernels as gp

from rankwise.backends.arrays import Array, Index
from rankwise.errors import ExportError, MissingExtraError
from rankwise.gp.process import OnColumns
from rankwise.kernels import NamedKernel, PairFunction, Precomputed, has_own_parts

ML = "ai.onnx.ml"  # operators for trees and texts
KINDS = {"float32": 1, "float64": 11}  # numbers of ONNX
IN_FLOAT32 = ("rbf", "laplacian")
"""Named kernels of differences of rows, which keep their digits in float32."""


@dataclass
class Graph:
    """Operators in the order of evaluation, and constants in the precision of the arithmetic."""

    dtype: Any
    nodes: list[Any] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)

    def input(self, name: str) -> Value:
        """An input of the graph."""
        return Value(self, name)

    def add(self, op: str, *inputs: Any, domain: str = "", **attributes: Any) -> Value:
        """Append an operator with one output; numbers and arrays become constants."""
        names = tuple(x.name if isinstance(x, Value) else self.constant(x) for x in inputs)
        output = f"v{len(self.nodes)}"
        make = require_onnx().helper.make_node
        self.nodes.append(make(op, names, [output], output, domain=domain, **attributes))
        return Value(self, output)

    def constant(self, value: Any) -> str:
        """A constant: floats in the precision of the arithmetic, whole numbers as int64."""
        array = np.asarray(value)
        array = array.astype(np.int64 if array.dtype.kind in "iu" else self.dtype)
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ExportError(
                f"A number of the model overflows {np.dtype(self.dtype)}: use float64."
            )
        name = f"c{len(self.constants)}"
        self.constants[name] = array
        return name

    def tensor(self, values: Any) -> Any:
        """An attribute that is a tensor: floats in the precision of the arithmetic."""
        array = np.asarray(values)
        return require_onnx().numpy_helper.from_array(
            array.astype(self.dtype) if array.dtype.kind == "f" else array
        )

    @property
    def kind(self) -> int:
        """The number of its arithmetic in ONNX."""
        return KINDS[np.dtype(self.dtype).name]

    @property
    def has_ml(self) -> bool:
        """Whether there are operators for trees or texts."""
        return any(node.domain == ML for node in self.nodes)


@dataclass(frozen=True, eq=False)
class Value:
    """A value in a graph. Arithmetic appends operators."""

    graph: Graph
    name: str

    def apply(self, op: str, *others: Any, **attributes: Any) -> Value:
        """Append an operator whose first input is this value."""
        return self.graph.add(op, self, *others, **attributes)

    def __add__(self, other: Any) -> Value:
        return self.apply("Add", other)

    def __sub__(self, other: Any) -> Value:
        return self.apply("Sub", other)

    def __mul__(self, other: Any) -> Value:
        return self.apply("Mul", other)

    def __truediv__(self, other: Any) -> Value:
        return self.apply("Div", other)

    def __matmul__(self, other: Any) -> Value:
        return self.apply("MatMul", other)

    def __pow__(self, other: float) -> Value:
        return self.apply("Pow", float(other))

    def cast(self, kind: int) -> Value:
        """The same numbers in another type of ONNX."""
        return self.apply("Cast", to=kind)

    def columns(self, numbers: Index) -> Value:
        """Some of the columns."""
        return self.apply("Gather", numbers, axis=1)

    def reduced(self, op: str, axis: int) -> Value:
        """Sums, means or extremes over an axis, which is kept."""
        return self.apply(op, np.array([axis]), keepdims=1)

    def shifted(self, constant: Array) -> Value:
        """With a constant added to each column."""
        return self + constant if constant.any() else self

    def squares(self) -> Value:
        """The sum of squares of each row, of shape (rows, 1)."""
        return (self * self).reduced("ReduceSum", 1)

    def zeros(self, n_columns: int) -> Value:
        """Zeros in as many rows as this value has."""
        return self.columns(np.array([0])) * 0.0 @ np.zeros((1, n_columns))

    def affine(self, centre: Array, factor: Any = 1.0) -> Value:
        """(x - centre) factor, with a difference that is exact for values close to the centre.

        The centre is rounded to the precision of the arithmetic, and what that leaves out is
        subtracted from the result, which is small.
        """
        with np.errstate(over="ignore"):  # `constant` checks
            rounded = np.asarray(centre).astype(self.graph.dtype).astype(np.float64)
        x = self - rounded if rounded.any() else self
        x = x * factor if np.any(factor != 1.0) else x
        rest = (centre - rounded) * factor
        return x - rest if rest.any() else x

    def distances(self, points: Array | None, *, squared: bool) -> Value:
        """Sums over features of |x - p| or (x - p)^2, from differences, one feature at a time.

        Without points, the distance of each row to itself, 0.
        """
        if points is None:
            return self.zeros(1)
        onnx = require_onnx()
        n_points, kind = len(points), self.graph.kind
        make, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
        last = make("Mul", ["gap", "gap"], ["part"]) if squared else make("Abs", ["gap"], ["part"])
        body = onnx.helper.make_graph(
            [
                make("Unsqueeze", ["x", "one"], ["column"]),
                make("Sub", ["column", "p"], ["gap"]),
                last,
                make("Add", ["total", "part"], ["next"]),
            ],
            "distances",
            [
                info("total", kind, [None, n_points]),
                info("x", kind, [None]),
                info("p", kind, [n_points]),
            ],
            [info("next", kind, [None, n_points])],
            [onnx.numpy_helper.from_array(np.array([1]), "one")],
        )
        start, columns = self.zeros(n_points), self.apply("Transpose", perm=[1, 0])
        return start.apply("Scan", columns, points.T, body=body, num_scan_inputs=2)


def require_onnx(package: str = "onnx") -> Any:
    """The package onnx, or another one of the extra."""
    try:
        return import_module(package)
    except ImportError as error:
        raise MissingExtraError(package, "onnx") from error


# Kernels ------------------------------------------------------------------------------------------


def kernel_values(kernel: Any, x: Value, points: Array | None) -> Value:
    """k(x, points), of shape (rows, points); without points, k(x, x), of shape (rows, 1)."""
    if isinstance(kernel, NamedKernel):
        return _NAMED[kernel.name](kernel, x, points)
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
    K = _plain(kernel, x, points)
    if points is None or not has_own_parts(kernel):
        return K
    same = x.distances(points, squared=False).apply("Equal", 0.0)
    return same.apply("Where", _plain(kernel, x, None), K)


def _plain(kernel: Any, x: Value, points: Array | None) -> Value:
    """k(x, points) as scikit-learn computes it: without the separate parts of equal rows."""
    if type(kernel) in _VALUES:
        return _VALUES[type(kernel)](kernel, x, points)
    known = ", ".join(cls.__name__ for cls in _VALUES)
    raise ExportError(
        f"There are no ONNX operators for the kernel {kernel}. There are for the named kernels "
        f"and for {known}, their sums and products."
    )


def _rbf(kernel: NamedKernel, x: Value, points: Array) -> Value:
    """exp of 2 gamma x'y - gamma |x|^2 - gamma |y|^2 for centred rows, by one product."""
    x, points = _centred(x, points)
    norms = x.squares()
    left = x.apply("Concat", norms, norms * 0.0 + 1.0, axis=1)
    g, squares = kernel.gamma, np.square(points).sum(axis=1)
    right = np.vstack((2 * g * points.T, np.full(len(points), -g), -g * squares))
    return (left @ right).apply("Min", 0.0).apply("Exp")


def _laplacian(kernel: NamedKernel, x: Value, points: Array) -> Value:
    x, points = _centred(x, points)
    return (x.distances(points, squared=False) * -kernel.gamma).apply("Exp")


def _centred(x: Value, points: Array) -> tuple[Value, Array]:
    """Rows and points less the mean of the points, which is rounded as the rows are."""
    centre = points.mean(axis=0).astype(x.graph.dtype).astype(np.float64)
    return x.affine(centre), points - centre


def _polynomial(kernel: NamedKernel, x: Value, points: Array) -> Value:
    return (x @ (kernel.gamma * points.T) + kernel.coef0) ** kernel.degree


def _sigmoid(kernel: NamedKernel, x: Value, points: Array) -> Value:
    return (x @ (kernel.gamma * points.T) + kernel.coef0).apply("Tanh")


def _cosine(kernel: NamedKernel, x: Value, points: Array) -> Value:
    norms = np.linalg.norm(points, axis=1, keepdims=True)
    directions = points / np.where(norms > 0, norms, 1.0)
    length = x.squares().apply("Sqrt")
    return x / length.apply("Equal", 0.0).apply("Where", 1.0, length) @ directions.T


_NAMED: dict[str, Callable[..., Value]] = {
    "linear": lambda kernel, x, points: x @ points.T,
    "rbf": _rbf,
    "laplacian": _laplacian,
    "polynomial": _polynomial,
    "poly": _polynomial,
    "sigmoid": _sigmoid,
    "cosine": _cosine,
}


def _squared(kernel: Any, x: Value, points: Array | None) -> Value:
    """|x - p|^2 in units of a length scale, or of one for each feature."""
    if points is None:
        return x.distances(None, squared=True)
    factor = np.broadcast_to(1.0 / np.asarray(kernel.length_scale, float), points.shape[1:])
    return (x * factor).distances(points * factor, squared=True)


def _gaussian(kernel: Any, x: Value, points: Array | None) -> Value:
    return (_squared(kernel, x, points) * -0.5).apply("Exp")


def _matern(kernel: Any, x: Value, points: Array | None) -> Value:
    if kernel.nu == np.inf:
        return _gaussian(kernel, x, points)
    factors = {0.5: 1.0, 1.5: np.sqrt(3.0), 2.5: np.sqrt(5.0)}
    if kernel.nu not in factors:
        raise ExportError(
            f"Matern with nu={kernel.nu:g} needs a Bessel function, for which ONNX has no "
            "operator. Use nu=0.5, 1.5, 2.5 or inf."
        )
    t = _squared(kernel, x, points).apply("Sqrt") * factors[kernel.nu]
    decay = t.apply("Neg").apply("Exp")
    if kernel.nu == 0.5:
        return decay
    return (t + 1.0 if kernel.nu == 1.5 else t + 1.0 + t * t / 3.0) * decay


def _rational(kernel: Any, x: Value, points: Array | None) -> Value:
    alpha = float(kernel.alpha)
    return (_squared(kernel, x, points) / (2.0 * alpha) + 1.0) ** -alpha


def _periodic(kernel: Any, x: Value, points: Array | None) -> Value:
    distance = x.distances(points, squared=True).apply("Sqrt")
    wave = (distance * (np.pi / kernel.periodicity)).apply("Sin") / kernel.length_scale
    return (wave * wave * -2.0).apply("Exp")


def _dot_product(kernel: Any, x: Value, points: Array | None) -> Value:
    products = x.squares() if points is None else x @ points.T
    return products + float(kernel.sigma_0) ** 2


def _constant(kernel: Any, x: Value, points: Array | None) -> Value:
    return x.zeros(1 if points is None else len(points)) + float(kernel.constant_value)


def _white(kernel: Any, x: Value, points: Array | None) -> Value:
    if points is None:
        return x.zeros(1) + float(kernel.noise_level)
    return x.zeros(len(points))  # `kernel_values` replaces it for equal rows


def _sum(kernel: Any, x: Value, points: Array | None) -> Value:
    return _plain(kernel.k1, x, points) + _plain(kernel.k2, x, points)


def _product(kernel: Any, x: Value, points: Array | None) -> Value:
    return _plain(kernel.k1, x, points) * _plain(kernel.k2, x, points)


def _power(kernel: Any, x: Value, points: Array | None) -> Value:
    return _plain(kernel.kernel, x, points) ** kernel.exponent


def _on_columns(kernel: OnColumns, x: Value, points: Array | None) -> Value:
    numbers = np.asarray(kernel.columns)
    chosen = None if points is None else points[:, numbers]
    return kernel_values(kernel.kernel, x.columns(numbers), chosen)


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
