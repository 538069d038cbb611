"""Functions of items plus a linear function of the context of comparisons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from rankwise.backends.arrays import Array, Index, is_sparse, is_tensor, to_host
from rankwise.backends.dispatch import as_given, backend_of
from rankwise.graph.comparison_checks import context_factors
from rankwise.graph.comparison_graph import ComparisonGraph
from rankwise.graph.comparisons import Comparisons
from rankwise.kernels import Kernel, Precomputed
from rankwise.kernels.products import kernel_values
from rankwise.kernels.training import training_kernel
from rankwise.problem.feature_space import FeatureSpace
from rankwise.problem.kernel_space import KernelBasis, KernelSpace
from rankwise.problem.landmark_space import LandmarkSpace
from rankwise.problem.memory import check_kernel_fits
from rankwise.problem.problem import Coordinates, Fit, Problem, Solution

CANCELLED = 1e-3  # share of a sum of squares, of which a difference keeps too few digits
SAMPLE = 256  # comparisons whose distances set the scale of the context


@dataclass(frozen=True, eq=False)
class ContextSolution(Solution):
    """The weights of a ranker, and those of the context of comparisons."""

    context: Array


@dataclass(frozen=True, eq=False)
class ContextSpace:
    """A space of functions f of items, and weights g of the context z of a comparison.

    The predicted margin of a comparison is f(x_i) - f(x_j) + z'g, and alpha penalizes
    |f|^2 + |g / scale|^2. The column k of the context is a further item whose only feature is a
    column of its own, so that everything that solves the problem of the items solves this one.

    Attributes
    ----------
    space : FeatureSpace, KernelSpace or LandmarkSpace
        That of the items.
    scale : ndarray of shape (n_columns,)
        By which the context columns of the graph were multiplied.
    """

    space: FeatureSpace | KernelSpace | LandmarkSpace
    scale: Array
    shared: ClassVar[tuple[str, ...]] = ("scale of the context",)

    def without(self, problem: Problem) -> Callable[[Index], Array]:
        """A function of comparisons to hold out: (scale / scale without them)^2, less 1.

        It is by how much alpha penalizes each column of the context more than with all of them.
        """
        graph = problem.tasks[0].graph
        assert isinstance(graph, ComparisonGraph)
        assert graph.context is not None
        n, blocks = len(graph.first), range(0, len(graph.first), SAMPLE)
        distances = np.concatenate(
            [
                _squared_distances(self.space, problem.X, graph.first[part], graph.second[part])
                for part in (slice(start, start + SAMPLE) for start in blocks)
            ]
        )
        squares = graph.context**2
        total = squares.sum(axis=0)

        def excess(held: Index) -> Array:
            n_left = n - len(held)
            if not n_left:
                return np.zeros_like(total)
            left = total - squares[held].sum(axis=0)
            if (left < CANCELLED * total).any():
                left = np.delete(squares, held, axis=0).sum(axis=0)
            some = _sample(n_left)  # of those that are left; next, their numbers among all
            some = some + np.searchsorted(np.sort(held) - np.arange(len(held)), some, side="right")
            wanted = _mean_distance(distances[some])
            known = (left > 0.0) & (total > 0.0)  # a column of zeros has no weight
            return np.where(known, left / (n_left * wanted) - 1.0, 0.0)

        return excess

    def plain(self, problem: Problem) -> Problem:
        """The same problem, with the context columns as further rows of features or a kernel."""
        n, X, space = len(self.scale), problem.X, self.space
        if isinstance(space, FeatureSpace):
            return replace(problem, X=with_units(X, n), space=replace(space, solver=space.form(X)))
        if isinstance(space, KernelSpace):
            check_kernel_fits(problem.n_rows + n, backend_of(X), n_matrices=2)
            K = with_units(training_kernel(space.kernel, X), n)
            return replace(problem, X=K, space=KernelSpace(Precomputed()))
        features = space.coordinates(problem).features
        return replace(problem, X=with_units(features, n), space=FeatureSpace("primal"))

    def solve(self, problem: Problem, alphas: Sequence[float]) -> Fit:
        """Solve the plain problem, and take its solutions apart."""
        fit = self.plain(problem).solve(alphas)
        solutions = fit.solutions
        n, X, space = len(self.scale), problem.X, self.space
        parts = [(s.weights[:-n], to_host(s.weights[-n:])) for s in solutions]
        basis: Any
        if isinstance(space, FeatureSpace):
            basis = fit.basis
        elif isinstance(space, KernelSpace):
            precomputed = isinstance(space.kernel, Precomputed)
            basis = KernelBasis(space.kernel, None if precomputed else as_given(X))
        else:
            system = space.system(X, problem.qid)
            basis = system.basis
            parts = [(system.factor.coefficients(z), g) for z, g in parts]
        scale = self.scale.reshape(-1, *[1] * (parts[0][1].ndim - 1))
        found = [ContextSolution(w, 0.0, scale * g) for w, g in parts]
        return Fit(basis, found, fit.residual)

    def coordinates(self, problem: Problem) -> Coordinates:
        """Those of the plain problem."""
        return self.plain(problem).coordinates()


def context_scale(space: Any, X: Any, given: Comparisons) -> Array:
    """Factors that give each context column the mean square of the distance of compared items.

    A column then has the weight of all features together, whatever its unit and theirs, so that
    alpha shrinks it little. It depends on which items are compared, not on the outcomes.
    """
    assert given.context is not None
    first, second = given.pairs[_sample(len(given))].T
    distance = _mean_distance(_squared_distances(space, X, first, second))
    return context_factors(given.context, np.sqrt(distance))


@lru_cache(maxsize=64)
def _sample(n: int) -> Index:
    """Some of n comparisons, evenly spaced."""
    return np.linspace(0, n - 1, min(SAMPLE, n)).round().astype(np.intp)


def _mean_distance(squared: Array) -> float:
    distance = float(np.mean(squared))
    return distance if 0.0 < distance < np.inf else 1.0


def _squared_distances(space: Any, X: Any, first: Any, second: Any) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):  # the solver checks for overflow
        if isinstance(space, FeatureSpace):
            on = backend_of(X)
            gaps = on.rows(X, first) - on.rows(X, second)
            return np.asarray(to_host((gaps**2).sum(axis=1)))
        kernel: Kernel = space.kernel
        if isinstance(kernel, Precomputed):
            given = as_given(X)
            K = np.asarray(to_host(backend_of(given).rows(given, np.append(first, second))))
            n = len(first)
            own, crossed = K[np.arange(n), first], K[np.arange(n), second]
            return np.asarray(own + K[n + np.arange(n), second] - 2.0 * crossed)
        rows = np.append(first, second)
        K = np.asarray(to_host(kernel_values(kernel, X[rows])))
        n = len(first)
        diagonal = K.diagonal()
        return np.asarray(diagonal[:n] + diagonal[n:] - 2.0 * K[np.arange(n), n + np.arange(n)])


def with_units(X: Any, n: int) -> Any:
    """X with n further rows and columns, which are those of the identity."""
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
