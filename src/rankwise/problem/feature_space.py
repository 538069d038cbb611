"""Linear functions of the features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from rankwise.backends.arrays import Array, Index, Loader, is_sparse, to_host
from rankwise.backends.dispatch import as_given, backend_of
from rankwise.graph.query_groups import QueryGroups
from rankwise.kernels import NamedKernel
from rankwise.kernels.products import feature_product, training_kernel
from rankwise.problem.memory import (
    check_kernel_fits,
    check_moments_fit,
    kernel_copies,
    square_fits,
)
from rankwise.problem.problem import (
    Basis,
    Coordinates,
    Fit,
    Loss,
    Problem,
    RowMatrix,
    Solution,
    Space,
    Task,
    join_tasks,
    plain,
    with_intercepts,
)
from rankwise.solvers.moments import CentredMoments, Moments
from rankwise.solvers.pair_products import PairProducts
from rankwise.solvers.ridge_path import linear_dual, primal, solve_ridge_path
from rankwise.solvers.shifted_cg import shifted_cg, unsolved_residual

FLOPS = 2e10  # of factorizations, in a second
DIRECT_SECONDS = 2.0  # that a direct solution of sparse rows may always take
TYPICAL_STEPS = 200  # of conjugate gradients
ENTRY, VALUE = 6e-9, 1e-8  # seconds of a step for a stored value of X, and for one of a vector


@dataclass(frozen=True)
class FeatureBasis(Basis):
    """f(x) = x'w; `solver` is "primal", "dual" or "cg", which took `n_iter` steps."""

    solver: str
    n_iter: int | None = None
    linear: ClassVar[bool] = True

    def products(self, X: Any, weights: Array) -> Any:
        """X weights, in the precision of X."""
        if not backend_of(X).is_host:
            return feature_product(X, weights)
        return X @ to_host(weights).astype(X.dtype, copy=False)

    def attributes(self, solution: Solution) -> dict[str, Any]:
        """`coef_` has the shape that scikit-learn's linear models use."""
        w = solution.weights
        found = {"coef_": w.T if w.ndim == 2 else w, "solver_": self.solver}
        return found if self.n_iter is None else {**found, "n_iter_": self.n_iter}


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
class FeatureSpace(Space):
    """Linear functions: n weights from an n by n matrix, an m by m matrix, or products with X.

    Attributes
    ----------
    solver : {"auto", "primal", "dual", "cg"}
    tol, max_iter : float, int
        When conjugate gradients stop; see `rankwise.solvers.shifted_cg`.

    Examples
    --------
    >>> import numpy as np
    >>> FeatureSpace().form(np.zeros((100, 5))), FeatureSpace().form(np.zeros((5, 100)))
    ('primal', 'dual')
    """

    solver: str = "auto"
    tol: float = 1e-6
    max_iter: int = 1000
    takes_sparse: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    takes_context: ClassVar[bool] = True

    def form(self, X: Any) -> str:
        """The solver in use: for "auto", the fastest that fits in memory, by a rough estimate.

        Primal takes O(m n^2 + n^3) time, dual O(m^2 n + m^3), for m rows and n features;
        conjugate gradients take O(nnz) time per step. Their solutions are not exact, so they are
        chosen only for sparse rows whose direct solution takes seconds, or if there is no memory
        for it.
        """
        if self.solver != "auto":
            return self.solver
        d = min(X.shape)
        if not square_fits(d, backend_of(X)):
            return "cg"
        given = as_given(X)
        if is_sparse(given) and d**3 / 3 / FLOPS > max(
            DIRECT_SECONDS, TYPICAL_STEPS * (ENTRY * given.nnz + VALUE * sum(X.shape))
        ):
            return "cg"
        return direct_form(X)

    def direct_form(self, X: Any) -> str:
        """The form for what needs a matrix, such as hold-outs: "primal" or "dual"."""
        return self.solver if self.solver in ("primal", "dual") else direct_form(X)

    def solve(self, problem: Problem, alphas: Sequence[float]) -> Fit:
        """Equation (11) of the RankRLS paper, or (8) with the linear kernel."""
        X, on = problem.X, backend_of(problem.X)
        form = self.form(X)
        if form == "cg":
            return self._by_steps(problem, alphas)
        advice = f'Use solver="cg", which needs {_step_memory(X)}.'
        if form == "dual":
            copies = kernel_copies(X, alphas)
            check_kernel_fits(problem.n_rows, on, advice, n_matrices=copies)
        else:
            check_moments_fit(X.shape[1], on, advice)
        basis = FeatureBasis(form)
        find = primal if form == "primal" else linear_dual
        found = [find(X, task.graph, task.y, alphas) for task in problem.tasks]
        return Fit(basis, solutions_of(problem, basis, found))

    def _by_steps(self, problem: Problem, alphas: Sequence[float]) -> Fit:
        """All tasks and alphas by conjugate gradients."""
        tasks = problem.tasks
        products = self.products(problem.X, tasks)
        found = shifted_cg(products, products.b, alphas, tol=self.tol, max_iter=self.max_iter)
        weights = [
            [w[:, part].reshape(len(w), *[-1] * (task.n_axes - 1)) for w in found.solutions]
            for task, part in zip(tasks, products.columns, strict=True)
        ]
        basis = FeatureBasis("cg", found.n_iter)
        residual = unsolved_residual(found, self.tol)
        solutions = solutions_of(problem, basis, weights)
        return Fit(basis, solutions, residual, found.n_iter, self.tol)

    def products(
        self, X: Any, tasks: Sequence[Task], groups: QueryGroups | None = None
    ) -> PairProducts:
        """Products with X'LX of the graphs of all tasks."""
        return PairProducts.of(
            X, [task.graph for task in tasks], [task.y for task in tasks], groups
        )

    def simplified(self, problem: Problem) -> Problem:
        """The problem itself."""
        return problem

    def system(self, X: Any, qid: Any) -> FeatureSystem | None:
        """X'LX and X'Ly, if these rows are solved in the primal."""
        return FeatureSystem(X.shape[1]) if self.form(X) == "primal" else None

    @property
    def is_summable(self) -> bool:
        """Unless the dual form is wanted."""
        return self.solver != "dual"

    def sums(self, n_features: int, landmarks: Any = None) -> FeatureSystem:
        """X'LX and X'Ly."""
        return FeatureSystem(n_features)

    def row_matrix(self, X: Any, qid: Any) -> RowMatrix:
        """The features themselves."""
        return RowMatrix(X, replace(self, solver=self.form(X)), None, lambda w: w)

    def squared_distances(self, X: Any, first: Index, second: Index) -> Array:
        """Sums of squared differences of features."""
        on = backend_of(X)
        gaps = on.rows(X, first) - on.rows(X, second)
        return np.asarray(to_host((gaps**2).sum(axis=1)))

    def coordinates(self, problem: Problem) -> Coordinates:
        """The features themselves, or their linear kernel."""
        X, on = problem.X, backend_of(problem.X)
        advice = (
            'Exact hold-outs need it. Use alpha="auto", which holds out folds of queries by '
            "conjugate gradients, or cross_validate or RankingSearchCV with cv=5, which refit."
        )
        if self.direct_form(X) == "primal":
            check_moments_fit(X.shape[1], on, advice)
            return Coordinates(features=X)
        copies = 1 if on.is_host else 3
        check_kernel_fits(problem.n_rows, on, advice, n_matrices=copies)
        return _linear_coordinates(problem)


def _linear_coordinates(problem: Problem) -> Coordinates:
    """The linear kernel of rows minus their mean, which avoids cancellation far from zero.

    In sparse rows, only columns far from zero are centred. If comparisons have a context, its rows
    are not compared with others, and constants matter.
    """
    X, graph, linear = problem.X, problem.tasks[0].graph, NamedKernel("linear")
    if graph.context is not None:
        return Coordinates(kernel=training_kernel(linear, X))
    if is_sparse(X):
        offset = graph.offset_columns(X)
        if not len(offset):
            return Coordinates(kernel=training_kernel(linear, X))
        rest = X[:, np.setdiff1d(np.arange(X.shape[1]), offset)]
        far = X[:, offset].toarray().astype(np.float64)
        mean = far.mean(axis=0)
        far -= mean
        K = training_kernel(linear, rest) + training_kernel(linear, far)
        return Coordinates(kernel=K, shift=far @ mean)
    on = backend_of(X)
    rows = on.rows(X, slice(None))
    mean = rows.mean(axis=0)
    centred = on.contiguous(rows - mean)
    return Coordinates(kernel=training_kernel(linear, centred), shift=centred @ mean)


def direct_form(X: Any) -> str:
    """The form with the smaller matrix: n by n ("primal") or m by m ("dual")."""
    return "primal" if X.shape[1] <= X.shape[0] else "dual"


def solutions_of(
    problem: Problem, basis: FeatureBasis, weights: Sequence[Sequence[Array]]
) -> list[Solution]:
    """Solutions for each alpha from the weights of each task and alpha."""
    X, on = problem.X, backend_of(problem.X)

    def scores(columns: Array) -> Array:
        return on.array(basis.products(X, columns))

    by_task = [
        with_intercepts(problem.loss, of_task, scores, task)
        for of_task, task in zip(weights, problem.tasks, strict=True)
    ]
    return join_tasks(by_task)


def _step_memory(X: Any) -> str:
    """The memory of conjugate gradients besides X, for one alpha and one output."""
    return f"about {max(1, 8 * 8 * sum(X.shape) // 2**20)} MiB besides X"


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
