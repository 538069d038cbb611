"""Kernel expansions on all training rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rankwise.backends.arrays import Array
from rankwise.backends.dispatch import as_given, backend_of
from rankwise.kernels import Kernel, Precomputed
from rankwise.kernels.products import finite_kernel_product
from rankwise.kernels.training import training_kernel
from rankwise.problem.memory import check_kernel_fits, kernel_copies
from rankwise.problem.problem import (
    Coordinates,
    Fit,
    Problem,
    Solution,
    join_tasks,
    with_intercepts,
)
from rankwise.solvers.primal_dual import dual


@dataclass(frozen=True, eq=False)
class KernelBasis:
    """f(x) = sum_i a_i k(x, x_i) over the training rows x_i; `X` is None if k is precomputed."""

    kernel: Kernel
    X: Any

    def products(self, X: Any, weights: Array) -> Array:
        """k(X, training rows) weights."""
        return finite_kernel_product(self.kernel, X, self.X, weights)

    def attributes(self, solution: Solution) -> dict[str, Any]:
        """`X_fit_` is omitted for a precomputed kernel."""
        found = {"dual_coef_": solution.weights, "kernel_": self.kernel, "solver_": "dual"}
        return found if self.X is None else {**found, "X_fit_": self.X}


@dataclass(frozen=True)
class KernelSpace:
    """Expansions on all rows, with the squared norm a'Ka.

    Examples
    --------
    >>> from rankwise.kernels import NamedKernel
    >>> KernelSpace(NamedKernel("rbf", gamma=0.5)).kernel.name
    'rbf'
    """

    kernel: Kernel
    takes_sparse: ClassVar[bool] = True

    def solve(self, problem: Problem, alphas: Sequence[float]) -> Fit:
        """Equation (8) of the RankRLS paper."""
        X, on = problem.X, backend_of(problem.X)
        precomputed = isinstance(self.kernel, Precomputed)
        basis = KernelBasis(self.kernel, None if precomputed else as_given(X))
        check_kernel_fits(problem.n_rows, on, n_matrices=kernel_copies(X, alphas))

        def scores(weights: Array) -> Array:
            return on.array(basis.products(X, weights))

        by_task = []
        for task in problem.tasks:
            weights = dual(training_kernel(self.kernel, X), task.graph, task.y, alphas)
            by_task.append(with_intercepts(problem.loss, weights, scores, task))
        return Fit(basis, join_tasks(by_task))

    def coordinates(self, problem: Problem) -> Coordinates:
        """The kernel matrix of the rows."""
        on = backend_of(problem.X)
        check_kernel_fits(problem.n_rows, on, n_matrices=1 if on.is_host else 3)
        return Coordinates(kernel=training_kernel(self.kernel, problem.X))
