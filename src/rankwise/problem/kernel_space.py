"""Kernel expansions on all training rows, and on landmarks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
    to_host,
)
from rankwise.backends.parallel import blas_threads_for
from rankwise.errors import DataError
from rankwise.kernels import (
    Kernel,
    NamedKernel,
    Precomputed,
    finite_kernel_product,
    kernel_of_columns,
    kernel_values,
    training_kernel,
)
from rankwise.parameters import as_generator
from rankwise.problem.feature_space import FeatureSpace
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
    Task,
    check_features_fit,
    check_fits,
    check_kernel_fits,
    join_tasks,
    kernel_copies,
    with_intercepts,
)
from rankwise.solvers.ridge_path import (
    CentredMoments,
    LandmarkFactor,
    Moments,
    dual,
    solve_ridge_path,
)


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
class LandmarkSystem:
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

    def solve(
        self, moments: Sequence[Moments | CentredMoments], alphas: Sequence[float]
    ) -> list[Solution]:
        """Equation (8) of the sparse RankRLS paper for each task and alpha."""
        by_task = []
        for of_task in moments:
            solutions = []
            for z in self.factor.solve(of_task.A, of_task.b, alphas):
                a = self.factor.coefficients(z)
                # Weights of the summed features: coordinates or kernel values.
                w = z if self.factor.needs_whitening else a[self.factor.kept]
                solutions.append(Solution(a, of_task.intercept(w)))
            by_task.append(solutions)
        return join_tasks(by_task)

    def coordinate_weights(self, A: Array, b: Array, alphas: Sequence[float]) -> list[Array]:
        """The weights of the coordinates for each alpha; A is overwritten."""
        return solve_ridge_path(A, b, alphas, gram=True)

    def coordinate_moments(self, moments: Any) -> Any:
        """Moments of coordinates from moments of kernel values."""
        if self.factor.needs_whitening:  # these are already moments of coordinates
            return replace(moments, A=backend_of(moments.A).copy(moments.A))
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
    >>> space.shared, space.has_landmarks
    (('landmarks',), True)
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
        return Coordinates(features=self.row_matrix(problem.X, problem.qid).matrix)

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
