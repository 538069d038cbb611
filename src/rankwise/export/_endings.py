"""The last stage of a model: from columns to scores, of shape (rows, outputs)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.gaussian_process import kernels as gp

from rankwise.backends.arrays import Array, Index
from rankwise.errors import ExportError
from rankwise.export._graph import ML, Graph, Value
from rankwise.export._stages import (
    Linear,
    WithinQuery,
    between,
    draw_rows,
    emit_all,
    linear_of,
    standardized,
    uniform,
)
from rankwise.gp.process import OnColumns
from rankwise.kernels import NamedKernel, PairFunction, Precomputed, has_own_parts

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
    """k(x, points) as scikit-learn computes it: without the separate parts of equal rows."""
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


EQUAL = 1e-12  # of the largest score: `MeanRanker` takes smaller differences for none


@dataclass(frozen=True, eq=False)
class LinearScores:
    """x'weights + constant; `span` is the range of the training rows, where it is known."""

    weights: Array
    constant: Array
    span: Array | None = None

    @property
    def linear(self) -> Linear:
        return Linear(self.weights, self.constant)

    @property
    def in_float32(self) -> bool:
        return False  # a product costs little in float64, and large features lose no digits

    def emit(self, graph: Graph, x: Value) -> Value:
        return _shifted(graph, graph.add("MatMul", x, self.weights), self.constant)

    def draw(self, n_rows: int, rng: np.random.Generator) -> Array:
        if self.span is None:
            return np.full((n_rows, len(self.weights)), np.nan)
        return uniform(self.span, n_rows, rng)


@dataclass(frozen=True, eq=False)
class KernelScores:
    """k(x, points) weights + constant."""

    kernel: Any
    points: Array
    weights: Array
    constant: Array

    @property
    def linear(self) -> Linear:
        name = getattr(self.kernel, "name", None) or type(self.kernel).__name__
        if name == "linear":
            return Linear(self.points.T @ self.weights, self.constant)
        raise ExportError(f"its kernel is {name}, so that scores are not sums of single features")

    @property
    def in_float32(self) -> bool:
        return isinstance(self.kernel, NamedKernel) and self.kernel.name in IN_FLOAT32

    def emit(self, graph: Graph, x: Value) -> Value:
        K = kernel_values(graph, self.kernel, x, self.points)
        return _shifted(graph, graph.add("MatMul", K, self.weights), self.constant)

    def draw(self, n_rows: int, rng: np.random.Generator) -> Array:
        return between(self.points, n_rows, rng)


@dataclass(frozen=True, eq=False)
class TreeScores:
    """The sum of trees. A node sends rows with x[feature] <= threshold to its first child.

    Children are numbers of nodes, or -1 - k for leaf k. Every tree has a node.
    """

    feature: Index  # of each node of all trees
    threshold: Array
    missing_first: Index  # 1: rows whose value is missing go to the first child
    first: Index
    second: Index
    roots: Index
    leaves: Array
    n_columns: int

    @property
    def linear(self) -> Linear:
        raise ExportError("its scores are sums of trees")

    @property
    def in_float32(self) -> bool:
        return False  # thresholds would move

    def emit(self, graph: Graph, x: Value) -> Value:
        attributes: dict[str, Any] = {}
        for name, child in (("true", self.first), ("false", self.second)):
            attributes[f"nodes_{name}leafs"] = (child < 0).astype(int).tolist()
            attributes[f"nodes_{name}nodeids"] = np.where(child < 0, -1 - child, child).tolist()
        return graph.add(
            "TreeEnsemble",
            x,
            domain=ML,
            aggregate_function=1,  # the sum
            post_transform=0,  # none
            n_targets=1,
            tree_roots=self.roots.tolist(),
            nodes_featureids=self.feature.tolist(),
            nodes_splits=graph.tensor(self.threshold),
            nodes_modes=graph.tensor(np.zeros(len(self.feature), dtype=np.uint8)),  # <=
            nodes_missing_value_tracks_true=self.missing_first.tolist(),
            leaf_targetids=[0] * len(self.leaves),
            leaf_weights=graph.tensor(self.leaves),
            **attributes,
        )

    def draw(self, n_rows: int, rng: np.random.Generator) -> Array:
        """Rows in the middle halves between thresholds; NaN in features that no tree uses."""
        rows = np.full((n_rows, self.n_columns), np.nan)
        for column in np.unique(self.feature):
            values = np.unique(self.threshold[self.feature == column])
            reach = np.ptp(values) or max(1.0, abs(float(values[0])))
            ends = np.concatenate(([values[0] - reach], values, [values[-1] + reach]))
            cell = rng.integers(len(ends) - 1, size=n_rows)
            rows[:, column] = ends[cell] + rng.uniform(0.25, 0.75, n_rows) * np.diff(ends)[cell]
        return rows


@dataclass(frozen=True, eq=False)
class Process:
    """A Gaussian process: mean k(x, points) a, and what its variance needs."""

    kernel: Any
    points: Array
    mean: Array  # a, of shape (points, 1)
    to_weights: Array  # from kernel values to coordinates of the weights, of shape (points, r)
    spread: Array  # of the weights in the posterior, a factor of shape (r, r)

    def emit_mean_and_variance(self, graph: Graph, x: Value) -> tuple[Value, Value]:
        prior = kernel_diagonal(graph, self.kernel, x)
        if not len(self.spread):  # nothing was compared
            return graph.zeros(x, 1), prior
        K = kernel_values(graph, self.kernel, x, self.points)
        mean = graph.add("MatMul", K, self.mean)
        c = graph.add("MatMul", K, self.to_weights)
        return mean, _conditioned(graph, prior, c, self.spread)


@dataclass(frozen=True, eq=False)
class LinearProcess:
    """A Gaussian process that is linear in its coordinates: x'a + constant."""

    kernel: Any
    points: Array  # rows of training
    mean: Array  # of shape (columns, 1)
    constant: float
    to_weights: Array  # of shape (columns, r)
    offset: Array  # of shape (r,)
    spread: Array

    def emit_mean_and_variance(self, graph: Graph, x: Value) -> tuple[Value, Value]:
        prior = kernel_diagonal(graph, self.kernel, x)
        if not len(self.spread):
            return graph.zeros(x, 1), prior
        mean = graph.add("Add", graph.add("MatMul", x, self.mean), self.constant)
        c = graph.add("Add", graph.add("MatMul", x, self.to_weights), self.offset)
        return mean, _conditioned(graph, prior, c, self.spread)


@dataclass(frozen=True, eq=False)
class ProcessScores:
    """The mean and the standard deviation of a mixture of Gaussian processes."""

    processes: Sequence[Process | LinearProcess]
    weights: Array
    n_context: int = 0  # columns of context after the features, which are 0 for items

    @property
    def linear(self) -> Linear:
        if not all(isinstance(process, LinearProcess) for process in self.processes):
            kernel = self.processes[0].kernel
            raise ExportError(f"its kernel is {kernel}, so that scores are not sums of features")
        means = [process.mean for process in self.processes]
        constants = [getattr(process, "constant", 0.0) for process in self.processes]
        mean = np.tensordot(self.weights, means, axes=1)
        kept = mean[: len(mean) - self.n_context]
        return Linear(kept, np.array([self.weights @ constants]))

    @property
    def in_float32(self) -> bool:
        return False  # variances are small differences of large numbers

    def emit(self, graph: Graph, x: Value) -> Value:
        return self.emit_with_std(graph, x)[0]

    def emit_with_std(self, graph: Graph, x: Value) -> tuple[Value, Value]:
        """The scores, and their standard deviations."""
        if self.n_context:
            x = graph.add("Concat", x, graph.zeros(x, self.n_context), axis=1)
        parts = [process.emit_mean_and_variance(graph, x) for process in self.processes]
        if len(parts) == 1:
            mean, variance = parts[0]
            return mean, graph.add("Sqrt", variance)
        means, variances = (graph.add("Concat", *part, axis=1) for part in zip(*parts, strict=True))
        mean = graph.add("MatMul", means, self.weights[:, None])
        gap = graph.add("Sub", means, mean)
        total = graph.add("Add", variances, graph.add("Mul", gap, gap))
        return mean, graph.add("Sqrt", graph.add("MatMul", total, self.weights[:, None]))

    def draw(self, n_rows: int, rng: np.random.Generator) -> Array:
        points = self.processes[0].points
        rows = between(points, n_rows, rng)
        known = rng.random(n_rows) < 0.2  # items that were compared
        rows[known] = points[rng.integers(len(points), size=int(known.sum()))]
        return rows[:, : points.shape[1] - self.n_context]


@dataclass(frozen=True, eq=False)
class MeanScores:
    """The weighted mean of scores, each standardized by numbers or within the query."""

    parts: Sequence[Sequence[Any]]
    weights: Array
    means: Array | None  # of shape (parts, outputs)
    scales: Array | None

    @property
    def linear(self) -> Linear:
        if self.means is None or self.scales is None:
            raise ExportError("the scores of its parts are standardized within each query")
        weights: Any = 0.0
        constant: Any = 0.0
        for k, part in enumerate(self.parts):
            linear, share = linear_of(part), self.weights[k] / self.scales[k]
            weights = weights + linear.weights * share
            constant = constant + (linear.constant - self.means[k]) * share
        return Linear(weights, constant)

    @property
    def in_float32(self) -> bool:
        return False

    def emit(self, graph: Graph, x: Value) -> Value:
        total = None
        for k, part in enumerate(self.parts):
            score = emit_all(graph, part, x)
            if self.means is not None and self.scales is not None:
                score = graph.affine(score, self.means[k], 1.0 / self.scales[k])
            else:
                score = standardized(graph, score, EQUAL)
            score = graph.add("Mul", score, float(self.weights[k]))
            total = score if total is None else graph.add("Add", total, score)
        assert total is not None
        return total

    def draw(self, n_rows: int, rng: np.random.Generator) -> Array:
        found = None
        for part in self.parts:
            rows = draw_rows(part, n_rows, rng)
            found = rows if found is None else np.where(np.isnan(found), rows, found)
        assert found is not None
        return found


def is_within_queries(stages: Sequence[Any]) -> bool:
    """Whether the score of a row depends on the other rows of its query."""
    for stage in stages:
        parts = getattr(stage, "parts", ())
        if isinstance(stage, WithinQuery) or any(is_within_queries(part) for part in parts):
            return True
        if isinstance(stage, MeanScores) and stage.means is None:
            return True
    return False


def _shifted(graph: Graph, scores: Value, constant: Array) -> Value:
    return graph.add("Add", scores, constant) if constant.any() else scores


def _conditioned(graph: Graph, prior: Value, c: Value, spread: Array) -> Value:
    """prior - |c|^2 + |c spread|^2, where the first difference is at least 0."""
    explained = graph.sum(graph.add("Mul", c, c), 1)
    rest = graph.add("Max", graph.add("Sub", prior, explained), 0.0)
    whitened = graph.add("MatMul", c, spread)
    return graph.add("Add", rest, graph.sum(graph.add("Mul", whitened, whitened), 1))
