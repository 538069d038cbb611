"""Functions of items plus a linear function of the context of comparisons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from rankwise.backends.arrays import Array, Index, as_given, is_sparse, is_tensor, to_host
from rankwise.graph.comparisons import Comparisons, context_factors
from rankwise.problem.problem import Coordinates, Fit, Problem, RowMatrix, Solution, Space

CANCELLED = 1e-3  # share of a sum of squares, of which a difference keeps too few digits
SAMPLE = 256  # comparisons whose distances set the scale of the context


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
        counted = np.flatnonzero(graph.weight)
        n, first, second = len(counted), graph.first[counted], graph.second[counted]
        place = np.full(len(graph.weight), -1)
        place[counted] = np.arange(n)
        parts = [slice(start, start + SAMPLE) for start in range(0, n, SAMPLE)]
        with np.errstate(over="ignore", invalid="ignore"):  # the solver checks for overflow
            found = [
                self.space.squared_distances(problem.X, first[part], second[part]) for part in parts
            ]
        distances, squares = np.concatenate(found), graph.context[counted] ** 2
        total = squares.sum(axis=0)

        def excess(held: Index) -> Array:
            if n < len(place):
                held = place[held]
                held = held[held >= 0]
            n_left = n - len(held)
            if not n_left:
                return np.zeros_like(total)
            left = total - squares[held].sum(axis=0)
            if (left < CANCELLED * total).any():
                left = np.delete(squares, held, axis=0).sum(axis=0)
            some = _sample(n_left)  # of the comparisons left; next, their numbers among all
            some = some + np.searchsorted(np.sort(held) - np.arange(len(held)), some, side="right")
            wanted = _mean_distance(distances[some])
            known = (left > 0.0) & (total > 0.0)  # a column of zeros has no weight
            return np.where(known, left / (n_left * wanted) - 1.0, 0.0)

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
    it little. It depends on which items are compared, not on the outcomes. Comparisons of weight 0
    do not count.
    """
    given = given.take(given.weight > 0)
    assert given.context is not None
    first, second = given.pairs[_sample(len(given))].T
    with np.errstate(over="ignore", invalid="ignore"):  # the solver checks for overflow
        distance = _mean_distance(space.squared_distances(X, first, second))
    return context_factors(given.context, np.sqrt(distance))


@lru_cache(maxsize=64)
def _sample(n: int) -> Index:
    """Some of n comparisons, evenly spaced."""
    return np.linspace(0, n - 1, min(SAMPLE, n)).round().astype(np.intp)


def _mean_distance(squared: Array) -> float:
    distance = float(np.mean(squared))
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
