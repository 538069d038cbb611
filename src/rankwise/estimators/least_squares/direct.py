"""Rankers that live on their features, or on the kernel matrix of all their rows."""

from __future__ import annotations

from typing import Any

from rankwise.backends.arrays import Array, to_host
from rankwise.backends.dispatch import at_home, backend_of
from rankwise.errors import ParameterError
from rankwise.estimators._checks import check_choice, check_kernel_fits
from rankwise.estimators._kernels import make_kernel, training_kernel
from rankwise.estimators.least_squares.base import (
    LeastSquaresRanker,
    Solution,
    Space,
    Task,
    finite_kernel_product,
    join_tasks,
)
from rankwise.kernels.products import feature_product
from rankwise.solvers.primal_dual import dual, linear_dual, primal
from rankwise.solvers.ridge_path import solve_shifted

SOLVERS = ("auto", "primal", "dual")


class DirectRanker(LeastSquaresRanker):
    """In the primal, weights of features; in the dual, weights of training rows."""

    solver: str

    def _solve(self, X: Any, tasks: list[Task], alphas: list[float], qid: Any) -> list[Solution]:
        """Choose a form, and solve in it."""
        self.solver_ = self._choose_solver(X)
        linear = self.kernel == "linear"
        kernel = make_kernel(self.kernel, self.gamma, self.degree, self.coef0, X.shape[1])
        for stale in ("coef_", "dual_coef_", "kernel_", "X_fit_"):
            self.__dict__.pop(stale, None)
        if not linear:
            self.kernel_ = kernel
            if self.kernel != "precomputed":
                self.X_fit_ = at_home(X)
        on = backend_of(X)
        n_matrices = (
            1 if on.is_host or len(alphas) == 1 else 2
        )  # with a copy for each alpha but one

        def mean_scores(weights: Array) -> Array:
            return on.array(self._products(X, weights).mean(axis=0, dtype=on.xp.float64))

        by_task = []
        for task in tasks:
            if self.solver_ == "primal":
                weights = primal(X, task.graph, task.y, alphas)
            elif linear:
                check_kernel_fits(X.shape[0], on, n_matrices=n_matrices)
                weights = linear_dual(X, task.graph, task.y, alphas)
            else:
                check_kernel_fits(X.shape[0], on, n_matrices=n_matrices)
                weights = dual(training_kernel(kernel, X), task.graph, task.y, alphas)
            y_mean = on.array(0.0 if task.y is None else task.y.mean(axis=0))
            by_task.append(self._with_intercepts(weights, mean_scores, y_mean))
        return join_tasks(by_task)

    def _finish(self, moments: list[Any], alphas: list[float]) -> list[Solution]:
        """Equation (11) for each task and alpha, from moments that were summed elsewhere."""
        self.solver_ = "primal"
        by_task = []
        for of_task in moments:
            weights = solve_shifted(of_task.A, of_task.b, alphas, gram=True)
            by_task.append([Solution(w, of_task.intercept(w)) for w in weights])
        return join_tasks(by_task)

    def _space(self, X: Any, qid: Any) -> Space:
        if self._choose_solver(X) == "primal":
            return Space(features=X)
        on = backend_of(X)
        check_kernel_fits(X.shape[0], on, n_matrices=1 if on.is_host else 3)
        kernel = make_kernel(self.kernel, self.gamma, self.degree, self.coef0, X.shape[1])
        return Space(kernel=training_kernel(kernel, X))

    def _choose_solver(self, X: Any) -> str:
        """The primal costs O(m n^2 + n^3), the dual O(m^2 n + m^3) for m rows, n features."""
        check_choice("solver", self.solver, SOLVERS)
        linear = self.kernel == "linear"
        if self.solver == "primal" and not linear:
            raise ParameterError(
                f'solver="primal" needs kernel="linear": got kernel={self.kernel!r}. '
                'Use solver="auto" or "dual".'
            )
        if self.solver != "auto":
            return self.solver
        return "primal" if linear and X.shape[1] <= X.shape[0] else "dual"

    def _keep(self, solution: Solution) -> None:
        if self.kernel == "linear":
            weights = solution.weights
            self.coef_ = weights.T if weights.ndim == 2 else weights
        else:
            self.dual_coef_ = solution.weights

    @property
    def _weights(self) -> Array:
        if self.kernel != "linear":
            return self.dual_coef_
        return self.coef_.T if self.coef_.ndim == 2 else self.coef_

    def _products(self, X: Any, weights: Array) -> Any:
        """X weights, or k(X, training rows) weights."""
        if self.kernel == "linear":
            if not backend_of(X).is_host:
                return feature_product(X, weights)
            return X @ to_host(weights).astype(X.dtype, copy=False)
        return finite_kernel_product(self.kernel_, X, getattr(self, "X_fit_", None), weights)
