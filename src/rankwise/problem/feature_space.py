"""Linear functions of the features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from rankwise.backends.arrays import Array, Loader, to_host
from rankwise.backends.dispatch import backend_of
from rankwise.kernels import NamedKernel
from rankwise.kernels.products import feature_product
from rankwise.kernels.training import training_kernel
from rankwise.problem.loss import Loss, Task
from rankwise.problem.memory import check_kernel_fits, kernel_copies
from rankwise.problem.problem import (
    Coordinates,
    Fit,
    Problem,
    Solution,
    join_tasks,
    plain,
    with_intercepts,
)
from rankwise.solvers.moments import CentredMoments, Moments
from rankwise.solvers.primal_dual import linear_dual, primal
from rankwise.solvers.ridge_path import solve_ridge_path


@dataclass(frozen=True)
class FeatureBasis:
    """f(x) = x'w; `solver` is "primal" or "dual"."""

    solver: str

    def products(self, X: Any, weights: Array) -> Any:
        """X weights, in the precision of X."""
        if not backend_of(X).is_host:
            return feature_product(X, weights)
        return X @ to_host(weights).astype(X.dtype, copy=False)

    def attributes(self, solution: Solution) -> dict[str, Any]:
        """`coef_` has the shape that scikit-learn's linear models use."""
        w = solution.weights
        return {"coef_": w.T if w.ndim == 2 else w, "solver_": self.solver}


def unscaled_solution(solution: Solution, mean: Array, deviation: Array) -> Solution:
    """The solution on features x, given one on features (x - mean) / deviation.

    The scores are the same if the loss has an intercept, and up to a constant otherwise.
    """
    on = backend_of(solution.weights)
    scales = on.array(deviation).reshape(-1, *[1] * (solution.weights.ndim - 1))
    weights = solution.weights / scales
    intercept = solution.intercept
    if not (isinstance(intercept, float) and intercept == 0.0):
        intercept = plain(on.array(intercept) - on.array(mean) @ weights)
    return replace(solution, weights=weights, intercept=intercept)


@dataclass(frozen=True)
class FeatureSpace:
    """Linear functions, found in the primal (n weights) or in the dual (m weights).

    Examples
    --------
    >>> import numpy as np
    >>> FeatureSpace().form(np.zeros((100, 5))), FeatureSpace().form(np.zeros((5, 100)))
    ('primal', 'dual')
    """

    solver: str = "auto"

    def form(self, X: Any) -> str:
        """Primal takes O(m n^2 + n^3) time, dual O(m^2 n + m^3), for m rows and n features."""
        if self.solver != "auto":
            return self.solver
        return "primal" if X.shape[1] <= X.shape[0] else "dual"

    def solve(self, problem: Problem, alphas: Sequence[float]) -> Fit:
        """Equation (11) of the RankRLS paper, or (8) with the linear kernel."""
        X, on = problem.X, backend_of(problem.X)
        basis = FeatureBasis(self.form(X))
        if basis.solver == "dual":
            check_kernel_fits(problem.n_rows, on, n_matrices=kernel_copies(X, alphas))
        find = primal if basis.solver == "primal" else linear_dual

        def scores(weights: Array) -> Array:
            return on.array(basis.products(X, weights))

        by_task = [
            with_intercepts(problem.loss, find(X, task.graph, task.y, alphas), scores, task)
            for task in problem.tasks
        ]
        return Fit(basis, join_tasks(by_task))

    def coordinates(self, problem: Problem) -> Coordinates:
        """The features themselves, or their linear kernel."""
        X, on = problem.X, backend_of(problem.X)
        if self.form(X) == "primal":
            return Coordinates(features=X)
        check_kernel_fits(problem.n_rows, on, n_matrices=1 if on.is_host else 3)
        return Coordinates(kernel=training_kernel(NamedKernel("linear"), X))


@dataclass(frozen=True)
class FeatureSystem:
    """Sums over rows in the primal: A = X'LX, b = X'Ly.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise.problem import PairLoss
    >>> loss, system, X = PairLoss(), FeatureSystem(1), np.array([[0.0], [1.0], [3.0], [4.0]])
    >>> halves = [(X[:2], np.array([0.0, 2.0])), (X[2:], np.array([6.0, 8.0]))]
    >>> a, b = (system.moments(Z, loss.tasks(y, None)[0], loss) for Z, y in halves)
    >>> system.solve([a + b], [0.0])[0].weights.round(6)
    array([2.])
    """

    n_features: int

    @property
    def basis(self) -> FeatureBasis:
        """The basis of the primal form."""
        return FeatureBasis("primal")

    @property
    def n_coordinates(self) -> int:
        """The features are the coordinates."""
        return self.n_features

    def moments(self, X: Any, task: Task, loss: Loss) -> Moments | CentredMoments:
        """Moments of the features; sparse features stay sparse if the loss has no intercept."""
        if loss.has_intercept:
            return loss.moments(self.coordinates(X), self.n_features, task, backend_of(X))
        return Moments.of(X, task.graph, task.y)

    def solve(
        self, moments: Sequence[Moments | CentredMoments], alphas: Sequence[float]
    ) -> list[Solution]:
        """Equation (11) of the RankRLS paper for each task and alpha."""
        by_task = []
        for of_task in moments:
            weights = solve_ridge_path(of_task.A, of_task.b, alphas, gram=True)
            by_task.append([Solution(w, of_task.intercept(w)) for w in weights])
        return join_tasks(by_task)

    def coordinates(self, X: Any) -> Loader:
        """The features of some rows, dense."""
        on = backend_of(X)
        return lambda rows: on.rows(X, rows)

    def coordinate_moments(self, moments: Any) -> Any:
        """The moments themselves, which are copied."""
        return replace(moments, A=backend_of(moments.A).copy(moments.A))
