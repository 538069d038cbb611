"""Kernel expansions on all training rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rankwise.backends.arrays import Array, Index, to_host
from rankwise.backends.dispatch import as_given, backend_of
from rankwise.kernels import Kernel, Precomputed
from rankwise.kernels.products import finite_kernel_product, kernel_values
from rankwise.kernels.training import training_kernel
from rankwise.problem.memory import check_kernel_fits, kernel_copies
from rankwise.problem.problem import (
    Basis,
    Coordinates,
    Expansion,
    Fit,
    Problem,
    RowMatrix,
    Solution,
    Space,
    join_tasks,
    with_intercepts,
)
from rankwise.solvers.primal_dual import dual


@dataclass(frozen=True, eq=False)
class KernelBasis(Basis):
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

    def expansion(self, weights: Array) -> Expansion:
        """The scores as a sum of kernel values, on the host."""
        return Expansion(self.kernel, to_host(self.X), weights)


@dataclass(frozen=True)
class KernelSpace(Space):
    """Expansions on all rows, with the squared norm a'Ka.

    Examples
    --------
    >>> from rankwise.kernels import NamedKernel
    >>> KernelSpace(NamedKernel("rbf", gamma=0.5)).kernel.name
    'rbf'
    """

    kernel: Kernel
    takes_sparse: ClassVar[bool] = True
    takes_context: ClassVar[bool] = True

    def solve(self, problem: Problem, alphas: Sequence[float]) -> Fit:
        """Equation (8) of the RankRLS paper."""
        X, on = problem.X, backend_of(problem.X)
        basis = self._basis(X)
        check_kernel_fits(problem.n_rows, on, n_matrices=kernel_copies(X, alphas))

        def scores(weights: Array) -> Array:
            return on.array(basis.products(X, weights))

        by_task = []
        for task in problem.tasks:
            weights = dual(training_kernel(self.kernel, X), task.graph, task.y, alphas)
            by_task.append(with_intercepts(problem.loss, weights, scores, task))
        return Fit(basis, join_tasks(by_task))

    def _basis(self, X: Any) -> KernelBasis:
        return KernelBasis(
            self.kernel, None if isinstance(self.kernel, Precomputed) else as_given(X)
        )

    def simplified(self, problem: Problem) -> Problem:
        """The problem itself."""
        return problem

    def row_matrix(self, X: Any, qid: Any) -> RowMatrix:
        """The kernel matrix."""
        check_kernel_fits(X.shape[0], backend_of(X), n_matrices=2)
        K = training_kernel(self.kernel, X)
        return RowMatrix(K, KernelSpace(Precomputed()), self._basis(X), lambda a: a)

    def squared_distances(self, X: Any, first: Index, second: Index) -> Array:
        """k(x, x) + k(z, z) - 2 k(x, z)."""
        return kernel_distances(self.kernel, X, first, second)

    def coordinates(self, problem: Problem) -> Coordinates:
        """The kernel matrix of the rows."""
        on = backend_of(problem.X)
        check_kernel_fits(problem.n_rows, on, n_matrices=1 if on.is_host else 3)
        return Coordinates(kernel=training_kernel(self.kernel, problem.X))


def kernel_distances(kernel: Kernel, X: Any, first: Index, second: Index) -> Array:
    """Squared distances k(x, x) + k(z, z) - 2 k(x, z) of pairs of rows."""
    n, rows = len(first), np.append(first, second)
    i, j = np.arange(n), n + np.arange(n)
    if isinstance(kernel, Precomputed):
        given = as_given(X)
        K = np.asarray(to_host(backend_of(given).rows(given, rows)))
        return np.asarray(K[i, first] + K[j, second] - 2.0 * K[i, second])
    K = np.asarray(to_host(kernel_values(kernel, X[rows])))
    return np.asarray(K[i, i] + K[j, j] - 2.0 * K[i, j])
