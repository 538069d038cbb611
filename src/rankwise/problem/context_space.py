"""Functions of items plus a linear function of the context of comparisons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from rankwise.backends.arrays import Array, Index, as_given, is_sparse, is_tensor, to_host
from rankwise.graph.comparisons import Comparisons, context_factors
from rankwise.problem.problem import Coordinates, Fit, Problem, RowMatrix, Solution, Space

CANCELLED = 1e-3  # share of a sum of squares, of which a difference keeps too few digits
SAMPLE = 256  # pairs whose distances set the scale of the context
SPACED = (np.arange(SAMPLE) + np.sqrt(0.2)) / SAMPLE  # irrational: no bound of equal weights
EVEN, NOTHING, NO_WEIGHT = np.ones(SAMPLE), np.empty(0, np.intp), np.empty(0)


@dataclass(frozen=True, eq=False)
class ContextSolution(Solution):
    """The weights of a ranker, and the weights of the context of comparisons."""

    context: Array


@dataclass(frozen=True, eq=False)
class ContextSpace(Space):
    """A space of functions f of items, and weights g of the context z of a comparison.

    The predicted margin of a comparison is f(x_i) - f(x_j) + z'g, and alpha penalizes
    |f|^2 + |g / scale|^2. The column k of the context is a further item whose only feature is a
    separate column, so that everything that solves the problem of the items solves this one.

    Attributes
    ----------
    space : Space
        The space of the items, which takes a context.
    scale : ndarray of shape (n_columns,)
        The factors by which the context columns of the graph were multiplied.
    """

    space: Space
    scale: Array
    shared: ClassVar[tuple[str, ...]] = ("scale of the context",)
    shared_by_comparisons: ClassVar[tuple[str, ...]] = shared

    def settled(self, problem: Problem) -> ContextSpace:
        """The same with the landmarks of the items, if there are any, chosen."""
        return replace(self, space=self.space.settled(problem))

    def without_comparisons(self, problem: Problem) -> Callable[[Index], Array]:
        """A function of comparisons to hold out: (scale / scale without them)^2, less 1.

        By this share, alpha penalizes each column of the context more than with all comparisons.
        """
        graph = problem.comparisons
        assert graph.context is not None
        pairs = _ComparedPairs.of(graph.first, graph.second, graph.weight)
        weight, squares = graph.weight, graph.weight[:, None] * graph.context**2
        with np.errstate(over="ignore", invalid="ignore"):  # the solver checks for overflow
            found = [
                self.space.squared_distances(problem.X, pairs.first[part], pairs.second[part])
                for part in pairs.parts()
            ]
        distances = np.concatenate(found)
        total, sum_of_weights = squares.sum(axis=0), weight.sum()

        def excess(held: Index) -> Array:
            some, share = pairs.sample(held, weight[held])
            if not len(some):
                return np.zeros_like(total)
            left, rest = total - squares[held].sum(axis=0), sum_of_weights - weight[held].sum()
            if (left < CANCELLED * total).any() or rest < CANCELLED * sum_of_weights:
                left = np.delete(squares, held, axis=0).sum(axis=0)
                rest = np.delete(weight, held).sum()
            wanted = _mean_distance(distances[some], share)
            known = (left > 0.0) & (total > 0.0)  # a column of zeros has no weight
            return np.where(known, left / (rest * wanted) - 1.0, 0.0)

        return excess

    def simplified(self, problem: Problem) -> Problem:
        """The same problem, with the context columns as further rows of features or a kernel."""
        return self._with_columns(problem, self._items(problem))

    def solve(self, problem: Problem, alphas: Sequence[float]) -> Fit:
        """Solve the simplified problem, and take its solutions apart."""
        items, n = self._items(problem), len(self.scale)
        fit = self._with_columns(problem, items).solve(alphas)
        found = []
        for solution in fit.solutions:
            g = to_host(solution.weights[-n:])
            scale = self.scale.reshape(-1, *[1] * (g.ndim - 1))
            found.append(ContextSolution(items.weights(solution.weights[:-n]), 0.0, scale * g))
        basis = fit.basis if items.basis is None else items.basis
        return replace(fit, basis=basis, solutions=found)

    def coordinates(self, problem: Problem) -> Coordinates:
        """Coordinates of the simplified problem."""
        return self.simplified(problem).coordinates()

    def _items(self, problem: Problem) -> RowMatrix:
        found = self.space.row_matrix(problem.X, problem.qid)
        assert found is not None  # as the space takes a context
        return found

    def _with_columns(self, problem: Problem, items: RowMatrix) -> Problem:
        return replace(problem, X=with_units(items.matrix, len(self.scale)), space=items.space)


def context_scale(space: Space, X: Any, given: Comparisons) -> Array:
    """Factors that give each context column the mean square of the distance of compared items.

    A column then has the weight of all features together, whatever the units, so that alpha shrinks
    it little. It depends on which items are compared, not on the outcomes. A comparison of weight 2
    counts as two, and one of weight 0 not at all.
    """
    assert given.context is not None
    pairs = _ComparedPairs.of(given.pairs[:, 0], given.pairs[:, 1], given.weight)
    some, share = pairs.sample()
    with np.errstate(over="ignore", invalid="ignore"):  # the solver checks for overflow
        squared = space.squared_distances(X, pairs.first[some], pairs.second[some])
    size = np.sqrt(_mean_distance(squared, share))
    return context_factors(given.context, size, weight=given.weight)


@dataclass(frozen=True, eq=False)
class _ComparedPairs:
    """The pairs of items that are compared, once each, in an order that only the items determine.

    Attributes
    ----------
    first, second : ndarray of shape (n_pairs,)
    count : ndarray of shape (n_pairs,)
        Comparisons of the pair, of a weight above 0.
    weight : ndarray of shape (n_pairs,)
        The sum of their weights.
    sums : ndarray of shape (n_pairs,)
        Cumulated weights.
    pair : ndarray of shape (n_comparisons,)
        The pair of each comparison; -1 for a weight of 0.
    """

    first: Index
    second: Index
    count: Index
    weight: Array
    sums: Array
    pair: Index

    @classmethod
    def of(cls, first: Index, second: Index, weight: Array) -> _ComparedPairs:
        counted = weight > 0
        size = int(max(first.max(initial=0), second.max(initial=0))) + 1
        code = np.minimum(first, second) * size + np.maximum(first, second)
        codes, inverse, count = np.unique(code[counted], return_inverse=True, return_counts=True)
        pair = np.full(len(weight), -1)
        pair[counted] = inverse
        sums = np.bincount(inverse, weight[counted], len(codes)).astype(float)
        return cls(codes // size, codes % size, count, sums, np.cumsum(sums), pair)

    def parts(self) -> list[slice]:
        """All pairs, in parts of the size of a sample."""
        return [slice(start, start + SAMPLE) for start in range(0, len(self.first), SAMPLE)]

    def sample(self, held: Index = NOTHING, weight: Array = NO_WEIGHT) -> tuple[Index, Array]:
        """Pairs without the held comparisons, and weights of the pairs.

        All pairs, or SAMPLE of them, evenly spaced in the sum of weights.
        """
        pair, gone = self.pair[held], weight
        count = np.ones(len(held), np.intp)
        if len(held) != 1 or pair[0] < 0:
            counted = pair >= 0
            pair, inverse, count = np.unique(pair[counted], return_inverse=True, return_counts=True)
            gone = np.bincount(inverse, weight[counted], len(pair)).astype(float)
        whole = self.count[pair] == count
        n_left = len(self.first) - int(whole.sum())
        if n_left <= SAMPLE:
            left = self.weight.copy()
            left[pair] = np.where(whole, 0.0, left[pair] - gone)
            some = np.delete(np.arange(len(left)), pair[whole])
            return some, left[some]
        removed = np.concatenate(([0.0], gone.cumsum()))
        ends = self.sums[pair] - removed[1:]  # of what is left of these pairs
        points = SPACED * (self.sums[-1] - removed[-1])
        points += removed[ends.searchsorted(points, side="right")]
        return self.sums.searchsorted(points, side="right"), EVEN


def _mean_distance(squared: Array, weight: Array) -> float:
    distance = float(squared @ (weight / weight.sum()))
    return distance if 0.0 < distance < np.inf else 1.0


def with_units(X: Any, n: int) -> Any:
    """X with n further rows and columns, which form an identity matrix."""
    given = as_given(X)
    if is_sparse(given):
        out: Any = sp.block_diag((given, sp.eye_array(n)), format="csr").astype(given.dtype)
    elif is_tensor(given):
        out = given.new_zeros((given.shape[0] + n, given.shape[1] + n))
        out[: given.shape[0], : given.shape[1]] = given
        out[-n:, -n:] = given.new_ones(n).diag()
    else:
        out = np.zeros((given.shape[0] + n, given.shape[1] + n), dtype=given.dtype)
        out[: given.shape[0], : given.shape[1]] = given
        out[-n:, -n:] = np.eye(n)
    return out if given is X else type(X)(out, X.backend)
