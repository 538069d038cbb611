"""Linear functions of features and of ramps of single features, and kernel expansions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from rankwise.backends.arrays import (
    NUMPY,
    Array,
    Backend,
    Index,
    Loader,
    as_given,
    backend_of,
    is_sparse,
    to_host,
)
from rankwise.backends.parallel import blas_threads_for
from rankwise.errors import DataError
from rankwise.graph.query_groups import QueryGroups
from rankwise.kernels import (
    Kernel,
    NamedKernel,
    Precomputed,
    feature_product,
    finite_kernel_product,
    kernel_of_columns,
    kernel_values,
    training_kernel,
)
from rankwise.parameters import as_generator
from rankwise.problem.landmarks import LandmarkChoice, Landmarks
from rankwise.problem.problem import (
    Basis,
    Coordinates,
    Fit,
    KernelSum,
    Loss,
    Problem,
    RowMatrix,
    Solution,
    Space,
    System,
    Task,
    check_dense_fits,
    check_features_fit,
    check_fits,
    check_kernel_fits,
    fits,
    join_tasks,
    kernel_copies,
    plain,
    solutions_of,
)
from rankwise.solvers.ridge_path import (
    CentredMoments,
    LandmarkFactor,
    Moments,
    dual,
    linear_dual,
    primal,
)
from rankwise.solvers.shifted_cg import PairProducts, shifted_cg, unsolved_residual
from rankwise.solvers.signed_ridge import solve_signed_path

FLOPS = 2e10  # of factorizations, in a second
DIRECT_SECONDS = 2.0  # that a direct solution of sparse rows may always take
TYPICAL_STEPS = 200  # of conjugate gradients
MOST_SIGNED = 5000  # weights with signs: one factorization takes two seconds
ENTRY, VALUE = 6e-9, 1e-8  # seconds of a step for a stored value of X, and for one of a vector


@dataclass(frozen=True)
class FeatureBasis(Basis):
    """f(x) = x'w; `solver` is "primal", "dual" or "cg", which took `n_iter` steps.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise.problem import FeatureBasis
    >>> FeatureBasis("primal").products(np.array([[1.0, 2.0]]), np.array([10.0, 1.0]))
    array([12.])
    """

    solver: str
    n_iter: int | None = None
    linear: ClassVar[bool] = True

    def products(self, X: Any, weights: Array) -> Any:
        """X weights, in the precision of X."""
        if not backend_of(X).is_host:
            return feature_product(X, weights)
        return X @ to_host(weights).astype(X.dtype, copy=False)

    def effects(self, X: Array, weights: Array) -> Array:
        """Each feature times its weight."""
        return np.asarray(X * to_host(weights))

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
    signs : tuple of int or None
        The sign of each weight, see `Space`. The form is then "primal".

    Examples
    --------
    >>> import numpy as np
    >>> FeatureSpace().form(np.zeros((100, 5))), FeatureSpace().form(np.zeros((5, 100)))
    ('primal', 'dual')
    """

    solver: str = "auto"
    tol: float = 1e-6
    max_iter: int = 1000
    signs: tuple[int, ...] | None = None
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
        if self.signs is not None:
            return self._signed_form(X)
        if self.solver != "auto":
            return self.solver
        d = min(X.shape)
        if not fits(d**2, backend_of(X)):
            return "cg"
        given = as_given(X)
        if is_sparse(given) and d**3 / 3 / FLOPS > max(
            DIRECT_SECONDS, TYPICAL_STEPS * (ENTRY * given.nnz + VALUE * sum(X.shape))
        ):
            return "cg"
        return direct_form(X)

    def _signed_form(self, X: Any) -> str:
        """The primal form, or an error if there are too many features for it."""
        if X.shape[1] > MOST_SIGNED:
            raise DataError(
                f"monotone takes at most {MOST_SIGNED:,} features or ramps, as it needs many "
                f"solutions of a system of this size: got {X.shape[1]:,}. Keep fewer features, as "
                "with rankwise.SeenFeatures() or sklearn.feature_selection.SelectKBest before the "
                "ranker, or leave monotone out."
            )
        return "primal"

    def matrix_rows(self, X: Any) -> int:
        """The features of the primal form, or the rows of the dual form."""
        return int(X.shape[1] if self.form(X) == "primal" else min(X.shape))

    def direct_form(self, X: Any) -> str:
        """The form for what needs a matrix, such as hold-outs: "primal" or "dual"."""
        if self.signs is not None:
            return self._signed_form(X)
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
            check_fits(_moments_of(X), X.shape[1] ** 2, advice, on)
        basis, system = FeatureBasis(form), FeatureSystem(X.shape[1], self.signs)
        summed = problem.last_moments(system) if form == "primal" else None
        if summed is None and self.signs is not None:
            summed = [system.moments(X, task, problem.loss) for task in problem.tasks]
        if summed is not None:
            found = [system.coordinate_weights(one.A, one.b, alphas) for one in summed]
        else:
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
        return self.sums(X.shape[1]) if self.form(X) == "primal" else None

    @property
    def is_summable(self) -> bool:
        """Unless the dual form is wanted."""
        return self.solver != "dual"

    def sums(self, n_features: int, landmarks: Any = None) -> FeatureSystem:
        """X'LX and X'Ly."""
        return FeatureSystem(n_features, self.signs)

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
            check_fits(_moments_of(X), X.shape[1] ** 2, advice, on)
            basis = FeatureBasis("primal") if self.form(X) == "primal" else None
            return Coordinates(features=X, signs=self.signs, basis=basis)
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


def _moments_of(X: Any) -> str:
    """The matrix of the primal form, in an error."""
    return f"The matrix X'LX of {X.shape[1]} features"


def _step_memory(X: Any) -> str:
    """The memory of conjugate gradients besides X, for one alpha and one output."""
    return f"about {max(1, 8 * 8 * sum(X.shape) // 2**20)} MiB besides X"


@dataclass(frozen=True)
class FeatureSystem(System):
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
    signs: tuple[int, ...] | None = None

    basis: FeatureBasis = field(default=FeatureBasis("primal"), init=False)

    @property
    def n_coordinates(self) -> int:
        """The features are the coordinates."""
        return self.n_features

    def moments(self, X: Any, task: Task, loss: Loss) -> Moments | CentredMoments:
        """Moments of the features; sparse features stay sparse if the loss has no intercept."""
        if loss.has_intercept:
            return loss.moments(self.coordinates(X), self.n_features, task, backend_of(X))
        return Moments.of(X, task.graph, task.y)

    def coordinates(self, X: Any) -> Loader:
        """The features of some rows, dense."""
        on = backend_of(X)
        return lambda rows: on.rows(X, rows)

    def coordinate_weights(self, A: Array, b: Array, alphas: Sequence[float]) -> list[Array]:
        """Equation (11) of the RankRLS paper for each alpha; A is overwritten."""
        if self.signs is not None:
            return solve_signed_path(A, b, alphas, self.signs)
        return super().coordinate_weights(A, b, alphas)

    def solve(
        self, moments: Sequence[Moments | CentredMoments], alphas: Sequence[float]
    ) -> list[Solution]:
        """As for all systems, but in the memory of the moments, which are overwritten."""
        by_task = []
        for of_task in moments:
            found = self.coordinate_weights(of_task.A, of_task.b, alphas)
            by_task.append([Solution(w, of_task.intercept(w)) for w in found])
        return join_tasks(by_task)


SAMPLE = 10_000  # rows for the quantiles


@dataclass(frozen=True, eq=False)
class RampBasis(Basis):
    """f(x) = sum_c w_c r_c(x), where ramp c rises from 0 to 1 as one feature goes from low to high.

    Attributes
    ----------
    feature : ndarray of shape (n_ramps,)
        The feature of each ramp, in ascending order.
    low, high : ndarray of shape (n_ramps,)
        Where each ramp begins and ends. The ramps of a feature follow one another, so its function
        is piecewise linear, and constant outside of the first and the last knot.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise.problem import RampBasis
    >>> X = np.array([[0.0], [1.0], [3.0]])
    >>> RampBasis.of(X, n_ramps=2).features(X)
    array([[0., 0.],
           [1., 0.],
           [1., 1.]])
    """

    feature: Index
    low: Array
    high: Array
    scale_free: ClassVar[bool] = True
    on_ramps: ClassVar[bool] = True

    @classmethod
    def of(cls, X: Any, n_ramps: int) -> RampBasis:
        """Ramps between quantiles of each feature; equal quantiles count once.

        Quantiles are computed from at most 10,000 evenly spaced rows.
        """
        if is_sparse(X):
            check_dense_fits(X, "Functions of single features need dense rows: use RankRLS.")
        rows = np.unique(np.linspace(0, X.shape[0] - 1, SAMPLE).round().astype(np.intp))
        sample = X[rows].toarray() if is_sparse(X) else np.asarray(to_host(X[rows]))
        shares = np.linspace(0, 1, n_ramps + 1)
        quantiles = np.quantile(sample.astype(np.float64), shares, axis=0, method="nearest")
        knots = [_knots(column) for column in quantiles.T]
        return cls(
            np.repeat(np.arange(len(knots)), [len(knot) - 1 for knot in knots]),
            np.concatenate([knot[:-1] for knot in knots]),
            np.concatenate([knot[1:] for knot in knots]),
        )

    def features(self, X: Any) -> Any:
        """The value of each ramp for each row, dense, in the precision of X."""
        rows = X.toarray() if is_sparse(X) else X
        on = backend_of(rows)
        low, width = (on.cast(on.array(v), rows.dtype) for v in (self.low, self.high - self.low))
        return ((rows[:, self.feature] - low) / width).clip(0.0, 1.0)

    def products(self, X: Any, weights: Array) -> Any:
        """Scores without the intercept, one column for each column of weights."""
        return FeatureBasis("primal").products(self.features(X), weights)

    def effects(self, X: Array, weights: Array) -> Array:
        """The function of each feature."""
        found, feature = np.zeros(X.shape), to_host(self.feature)
        np.add.at(found.T, feature, (to_host(self.features(X)) * to_host(weights)).T)
        return found

    def attributes(self, solution: Solution) -> dict[str, Any]:
        """The weights of the ramps."""
        w = solution.weights
        return {"coef_": w.T if w.ndim == 2 else w}


@dataclass(frozen=True)
class RampSpace(Space):
    """Sums of piecewise linear functions, with `n_ramps` ramps for each feature.

    The regularizer is the sum of the squared rises of the functions between knots. `signs` has the
    sign of the rises of each feature.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise.problem import PairLoss, Problem, RampSpace
    >>> X, y, loss = np.array([[0.0], [1.0], [3.0]]), np.array([0.0, 2.0, 2.0]), PairLoss()
    >>> fit = Problem(X, loss.tasks(y, None), loss, RampSpace(2)).solve([1e-9])
    >>> fit.solutions[0].weights.round(3)  # up by 2 from 0 to 1, and level from 1 to 3
    array([2., 0.])
    """

    n_ramps: int
    signs: tuple[int, ...] | None = None
    shared: ClassVar[tuple[str, ...]] = ("knots",)
    takes_sparse: ClassVar[bool] = True

    def solve(self, problem: Problem, alphas: Sequence[float]) -> Fit:
        """As for linear functions, on ramps in place of the features."""
        basis, on_ramps = self._on_ramps(problem)
        return replace(on_ramps.solve(alphas), basis=basis)

    def coordinates(self, problem: Problem) -> Coordinates:
        """The ramps, or their products."""
        basis, on_ramps = self._on_ramps(problem)
        return replace(on_ramps.coordinates(), basis=basis)

    def simplified(self, problem: Problem) -> Problem | None:
        """With signs, the problem on ramps; otherwise, `coordinates` are sufficient."""
        return None if self.signs is None else self._on_ramps(problem)[1]

    def _on_ramps(self, problem: Problem) -> tuple[RampBasis, Problem]:
        """The same problem with ramps in place of the features, which has the same solution."""
        basis = RampBasis.of(problem.X, self.n_ramps)
        X, signs = basis.features(problem.X), self.signs
        of_ramps = None if signs is None else tuple(signs[j] for j in basis.feature.tolist())
        solver = direct_form(X) if signs is None else "primal"
        return basis, replace(problem, X=X, space=FeatureSpace(solver, signs=of_ramps))


def _knots(quantiles: Array) -> Array:
    """Distinct quantiles. A constant feature gets a ramp on which all training rows are at 0."""
    knots: Array = np.unique(quantiles)
    if len(knots) == 1:
        low = float(knots[0])
        return np.array([low, low + max(1.0, abs(low))])
    if not np.isfinite(float(knots[-1]) - float(knots[0])):
        raise DataError(f"A feature ranges from {knots[0]:g} to {knots[-1]:g}: scale the features.")
    return knots


@dataclass(frozen=True, eq=False)
class KernelBasis(Basis):
    """f(x) = sum_i a_i k(x, x_i) over the training rows x_i; `X` is None if k is precomputed.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise.kernels import NamedKernel
    >>> from rankwise.problem import KernelBasis
    >>> basis = KernelBasis(NamedKernel("rbf", gamma=1.0), np.array([[0.0], [1.0]]))
    >>> basis.products(np.array([[0.5]]), np.array([1.0, -1.0]))
    array([0.])
    """

    kernel: Kernel
    X: Any

    def products(self, X: Any, weights: Array) -> Array:
        """k(X, training rows) weights."""
        return finite_kernel_product(self.kernel, X, self.X, weights)

    def attributes(self, solution: Solution) -> dict[str, Any]:
        """`X_fit_` is omitted for a precomputed kernel."""
        found = {"dual_coef_": solution.weights, "kernel_": self.kernel, "solver_": "dual"}
        return found if self.X is None else {**found, "X_fit_": self.X}

    def expansion(self, weights: Array) -> KernelSum:
        """The scores as a sum of kernel values, on the host."""
        return KernelSum(self.kernel, to_host(self.X), weights)


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
        found = [
            dual(training_kernel(self.kernel, X), task.graph, task.y, alphas)
            for task in problem.tasks
        ]
        return Fit(basis, solutions_of(problem, basis, found))

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


COORDINATE_ROWS = 4096  # rows whose coordinates are computed at a time
DEVICE_MATRICES = 7  # of landmarks by landmarks, at most, in a fit on a device
LEAST_SPREAD = 1e-10  # of squares of landmarks, which have a relative error of 1e-16


@dataclass(frozen=True, eq=False)
class LandmarkBasis(Basis):
    """f(x) = sum_r a_r k(x, r) over landmarks r.

    `points` is None for a precomputed kernel, `rows` is None if landmarks are not training rows,
    and `rank` is the numerical rank of the kernel matrix of the landmarks.

    Examples
    --------
    >>> from rankwise import SparseRankRLS
    >>> X, y = [[0.0], [1.0], [2.0]], [0, 1, 2]
    >>> basis = SparseRankRLS(1.0, landmarks=[0, 2], scale=None).fit(X, y).basis_
    >>> type(basis).__name__, basis.points.ravel(), basis.rank
    ('LandmarkBasis', array([0., 2.]), 2)
    """

    kernel: Kernel
    points: Any
    rows: Index | None
    rank: int

    @property
    def columns(self) -> Any:
        """The second argument of the kernel: points, or column indices if it is precomputed."""
        return self.rows if isinstance(self.kernel, Precomputed) else self.points

    def products(self, X: Any, weights: Array) -> Array:
        """k(X, landmarks) weights."""
        return finite_kernel_product(self.kernel, X, self.columns, weights)

    def attributes(self, solution: Solution) -> dict[str, Any]:
        """`landmarks_` and `landmark_indices_` are omitted if they are None."""
        found = {"dual_coef_": solution.weights, "kernel_": self.kernel, "rank_": self.rank}
        if self.points is not None:
            found["landmarks_"] = self.points
        if self.rows is not None:
            found["landmark_indices_"] = self.rows
        return found

    def expansion(self, weights: Array) -> KernelSum:
        """The scores as a sum of kernel values, on the host."""
        return KernelSum(self.kernel, to_host(self.points), weights)


@dataclass(frozen=True, eq=False)
class LandmarkSystem(System):
    """Sums over rows of A = K_RM L K_MR and b = K_RM L y, for landmarks R.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise.kernels import NamedKernel
    >>> from rankwise.problem import LandmarkSystem, Landmarks, PairLoss
    >>> X, y, loss = np.array([[0.0], [1.0], [2.0]]), np.array([0.0, 1.0, 2.0]), PairLoss()
    >>> kernel = NamedKernel("linear")
    >>> system = LandmarkSystem.of(kernel, Landmarks(X[1:2], np.array([1])))
    >>> moments = system.moments(X, loss.tasks(y, None)[0], loss)
    >>> system.solve([moments], [0.0])[0].weights.round(6)
    array([1.])
    """

    basis: LandmarkBasis
    factor: LandmarkFactor
    precision: str = "float64"

    @classmethod
    def of(
        cls, kernel: Kernel, landmarks: Landmarks, precision: str = "float64", on: Backend = NUMPY
    ) -> LandmarkSystem:
        """Factor the kernel matrix of the landmarks: O(r^3) time."""
        n = landmarks.points.shape[0]
        if not on.is_host:
            # The kernel matrix, its factor, the moments, their factors, and blocks of rows.
            n_numbers = DEVICE_MATRICES * n**2 + 256 * n
            check_fits(f"A fit on {n} landmarks", n_numbers, "Use fewer landmarks.", on)
        check_spread(kernel, landmarks.points, "landmarks")
        with blas_threads_for(n):
            factor = LandmarkFactor.of(landmarks.kernel_matrix(kernel, on))
        points = None if isinstance(kernel, Precomputed) else landmarks.points
        return cls(LandmarkBasis(kernel, points, landmarks.rows, factor.rank), factor, precision)

    @property
    def n_coordinates(self) -> int:
        """The rank of the kernel on the landmarks."""
        return self.factor.rank

    def kernel_values(self, X: Any, *, reuse: bool = False) -> Loader:
        """Kernel values of some rows of X with the kept landmarks; see `kernel_of_columns`."""
        on, kernel, columns = backend_of(X), self.basis.kernel, self.basis.columns
        if not on.is_host and not isinstance(kernel, Precomputed):
            columns = on.array(columns)
        columns = columns[self.factor.kept]
        values = kernel_of_columns(kernel, columns, reuse=reuse)
        return lambda rows: on.contiguous(on.array(values(X[rows])))

    def coordinates(self, X: Any) -> Loader:
        """Coordinates in which the regularizer is the identity."""
        values = self.kernel_values(X, reuse=True)
        return lambda rows: self.factor.whiten(values(rows))

    def moments(self, X: Any, task: Task, loss: Loss) -> Moments | CentredMoments:
        """Moments of kernel values, or of coordinates if kernel values would lose digits."""
        whitened = self.factor.needs_whitening
        load = self.coordinates(X) if whitened else self.kernel_values(X, reuse=True)
        on = backend_of(X)
        if self.precision != "float64":
            on = on.with_precision(self.precision)
        with np.errstate(over="ignore", invalid="ignore"):  # the solver checks for overflow
            return loss.moments(load, self.factor.rank, task, on)

    def weights(self, z: Array) -> Array:
        """a = C^-T z, the coefficients: equation (8) of the sparse RankRLS paper, section 4.1.

        With A = K_RM L K_MR and b = K_RM L y, a = (A + alpha K_RR)^-1 b, so that
        z = (C^-1 A C^-T + alpha I)^-1 C^-1 b solves the moments of the coordinates.
        """
        return self.factor.coefficients(z)

    def coordinate_moments(self, moments: Any) -> Any:
        """Moments of coordinates from moments of kernel values."""
        if self.factor.needs_whitening:  # these are already moments of coordinates
            return super().coordinate_moments(moments)
        A, b = self.factor.whiten_system(moments.A, moments.b)
        if not isinstance(moments, CentredMoments):
            return Moments(A, b)
        return replace(moments, A=A, b=b, F_mean=self.factor.whiten(moments.F_mean[None])[0])


def check_spread(kernel: Kernel, points: Any, what: str) -> None:
    """Products of rows far from zero have no digits left for the differences between them."""
    if not (isinstance(kernel, NamedKernel) and kernel.name == "linear"):
        return
    first = points[np.zeros(points.shape[0], dtype=np.intp)]
    with np.errstate(over="ignore", invalid="ignore"):  # the kernel matrix is checked
        size = float(kernel.diag(points).max())
        spread = float(kernel.diag(points - first).max())
    if size < np.inf and 0.0 < spread < LEAST_SPREAD * size:
        raise DataError(
            f"The {what} are about {np.sqrt(size / spread):.0e} times as far from zero as from "
            "each other, and the linear kernel loses the differences. Subtract the means of the "
            'features, as scale="standard" does, or use RankRLS.'
        )


@dataclass(frozen=True, eq=False)
class LandmarkSpace(Space):
    """Expansions on landmarks R, with the squared norm a'K_RR a.

    `chosen` is the system on landmarks that were chosen before; None: they are chosen among the
    rows of the problem.

    Examples
    --------
    >>> from rankwise import SparseRankRLS
    >>> space = SparseRankRLS(landmarks=[0, 2]).make_space(n_features=1)
    >>> type(space).__name__, space.shared, space.has_landmarks
    ('LandmarkSpace', ('landmarks',), True)
    """

    kernel: Kernel
    choice: LandmarkChoice
    random_state: Any = None
    precision: str = "float64"
    chosen: LandmarkSystem | None = None
    shared: ClassVar[tuple[str, ...]] = ("landmarks",)
    takes_sparse: ClassVar[bool] = True
    takes_context: ClassVar[bool] = True
    has_landmarks: ClassVar[bool] = True

    def form(self, X: Any) -> str:
        """Sums over rows."""
        return "primal"

    def direct_form(self, X: Any) -> str:
        """Sums over rows."""
        return "primal"

    def matrix_rows(self, X: Any) -> int:
        """The landmarks."""
        if self.chosen is not None:
            return self.chosen.n_coordinates
        return min(int(X.shape[0]), self.choice.number or int(X.shape[0]))

    def settled(self, problem: Problem) -> LandmarkSpace:
        """The same space with landmarks chosen among the rows of a problem."""
        return replace(self, chosen=self.system(problem.X, problem.qid))

    def for_rows(self, rows: Index, n_rows: int) -> LandmarkSpace:
        """The same space for some of the user's rows; landmarks keep their numbers."""
        return replace(self, choice=self.choice.for_rows(rows, n_rows))

    def simplified(self, problem: Problem) -> Problem:
        """The problem itself."""
        return problem

    @property
    def is_summable(self) -> bool:
        """Unless the kernel is precomputed, which has no rows in blocks."""
        return not isinstance(self.kernel, Precomputed)

    def sums(self, n_features: int, landmarks: Any = None) -> LandmarkSystem:
        """Sums of kernel values."""
        return LandmarkSystem.of(self.kernel, landmarks)

    def system(self, X: Any, qid: Any) -> LandmarkSystem:
        """Choose landmarks among the rows."""
        if self.chosen is not None:
            return self.chosen
        landmarks = self.choice.among(X, qid, self.kernel, as_generator(self.random_state))
        return LandmarkSystem.of(self.kernel, landmarks, self.precision, backend_of(X))

    def solve(self, problem: Problem, alphas: Sequence[float]) -> Fit:
        """Sum the moments of all rows, block by block, and solve."""
        system = self.system(problem.X, problem.qid)
        return Fit(system.basis, system.solve(problem.moments(system), alphas))

    def coordinates(self, problem: Problem) -> Coordinates:
        """Coordinates on landmarks, which are chosen among all rows."""
        rows = self.row_matrix(problem.X, problem.qid)
        return Coordinates(features=rows.matrix, basis=rows.basis, weights=rows.weights)

    def row_matrix(self, X: Any, qid: Any) -> RowMatrix:
        """Coordinates on landmarks."""
        on, system = backend_of(X), self.system(X, qid)
        check_features_fit(X.shape[0], system.factor.rank, on)
        features, load = on.empty(X.shape[0], system.factor.rank), system.coordinates(X)
        for start in range(0, len(features), COORDINATE_ROWS):
            rows = slice(start, min(start + COORDINATE_ROWS, len(features)))
            features[rows] = load(rows)
        space = FeatureSpace("primal")
        return RowMatrix(features, space, system.basis, system.factor.coefficients)

    def squared_distances(self, X: Any, first: Index, second: Index) -> Array:
        """k(x, x) + k(z, z) - 2 k(x, z)."""
        return kernel_distances(self.kernel, X, first, second)
