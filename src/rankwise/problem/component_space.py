"""Functions of the leading principal components of a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from rankwise.backends.arrays import Array, Index, as_given, backend_of, to_host
from rankwise.errors import ParameterError
from rankwise.kernels import Kernel, Precomputed, finite_kernel_product, training_kernel
from rankwise.parameters import as_generator
from rankwise.problem import (
    Basis,
    Coordinates,
    Fit,
    LandmarkSystem,
    Problem,
    Solution,
    Space,
    Task,
)
from rankwise.problem.landmarks import LandmarkChoice
from rankwise.problem.problem import KernelSum, check_kernel_fits, plain
from rankwise.problem.spaces import check_spread
from rankwise.solvers.kpca import (
    Count,
    KernelComponents,
    kernel_components,
    landmark_components,
    matrices_needed,
    number_with_share,
)
from rankwise.solvers.nested_least_squares import (
    SpectralDirections,
    component_folds,
    component_triangle,
    rounding_noise,
)

STORED_BYTES = 2**30  # largest kernel values with landmarks that are stored to avoid recomputation


@dataclass(frozen=True, eq=False)
class ComponentSolution(Solution):
    """Weights of components, for the number in use and for every smaller number.

    Attributes
    ----------
    weights : ndarray of shape (p,) or (p, n_outputs)
        Zero for components beyond `n_components`.
    path : ndarray of shape (p, p) or (p, p, n_outputs)
        Column j has the weights for j + 1 components.
    idle : ndarray
        Indices of components with weight 0, as they do not add to the differences of pairs.
    n_components : int
    errors : ComponentErrors or None
        The held-out errors from which this number was chosen.
    """

    path: Array
    idle: Index
    n_components: int
    errors: Any = None

    def with_number(self, p: int, errors: Any) -> ComponentSolution:
        """The solution that uses the first p components, in the same basis."""
        return replace(self, weights=self.path[:, p - 1], n_components=p, errors=errors)

    def leading(self, p: int) -> ComponentSolution:
        """The solution in the basis of the first p components."""
        path = self.path[:p, :p]
        return replace(
            self, weights=path[:, p - 1], path=path, idle=self.idle[self.idle < p], n_components=p
        )


@dataclass(frozen=True, eq=False)
class ComponentBasis(Basis):
    """Coordinates F(x) = k(x, points) A - means on principal components.

    `points` are the training rows or the landmarks (None for a precomputed kernel), and `rows` are
    the row numbers of landmarks, if they are training rows.
    """

    kernel: Kernel
    points: Any
    rows: Index | None
    on_landmarks: bool
    A: Array
    means: Array
    eigenvalues: Array
    total: float

    @property
    def columns(self) -> Any:
        """The second argument of the kernel."""
        return self.rows if isinstance(self.kernel, Precomputed) else self.points

    def leading(self, p: int) -> ComponentBasis:
        """The first p components."""
        return replace(
            self, A=self.A[:, :p], means=self.means[:p], eigenvalues=self.eigenvalues[:p]
        )

    def coordinates(self, X: Any) -> Array:
        """Coordinates of rows, shape (n_rows, p)."""
        on = backend_of(X)
        A, means = on.contiguous(on.array(self.A)), on.array(self.means)
        return finite_kernel_product(self.kernel, X, self.columns, A) - means

    def products(self, X: Any, weights: Array) -> Array:
        """``coordinates(X) @ weights``, as one kernel product."""
        on = backend_of(X)
        weights = on.array(weights)
        a, offset = on.array(self.A) @ weights, on.array(self.means) @ weights
        return finite_kernel_product(self.kernel, X, self.columns, a) - offset

    def expansion(self, weights: Array) -> KernelSum:
        """The scores as a sum of kernel values, on the host."""
        A, means = to_host(self.A), to_host(self.means)
        return KernelSum(self.kernel, to_host(self.points), A @ weights, means @ weights)

    def attributes(self, solution: ComponentSolution) -> dict[str, Any]:
        """The fitted attributes of `KPCRank`."""
        w = solution.weights
        found = {
            "kernel_": self.kernel,
            "n_components_": solution.n_components,
            "dual_components_": self.A,
            "component_means_": self.means,
            "eigenvalues_": self.eigenvalues,
            "explained_variance_ratio_": self.eigenvalues / self.total,
            "path_coef_": solution.path,
            "coef_": w.T if w.ndim == 2 else w,
            "idle_components_": solution.idle,
        }
        if self.points is not None:
            found["landmarks_" if self.on_landmarks else "X_fit_"] = self.points
        if self.rows is not None:
            found["landmark_indices_"] = self.rows
        if solution.errors is not None:
            found["component_errors_"] = solution.errors
        return found


@dataclass(frozen=True, eq=False)
class Projection:
    """Components learned from rows, and the coordinates of these rows (None if not stored)."""

    basis: ComponentBasis
    features: Array | None

    def of(self, X: Any) -> Array:
        """Coordinates of the training rows X."""
        return self.basis.coordinates(X) if self.features is None else self.features

    def leading(self, count: Count) -> Projection:
        """The first components, at most as many as there are."""
        p = len(self.basis.eigenvalues)
        if count.number is None or count.number >= p:
            return self
        features = None if self.features is None else self.features[:, : count.number]
        return Projection(self.basis.leading(count.number), features)


@dataclass(frozen=True, eq=False)
class ComponentSpace(Space):
    """Functions of kernel components, whose number is given by `count`.

    Attributes
    ----------
    kernel : Kernel
    count : Count
    selection : str
        "leading" or "spectral"; see `KPCRank`.
    choice : LandmarkChoice or None
        None: components of all rows.
    random_state
        For landmarks.
    learned : Projection or None
        Components of the rows of the problem, if they have been computed before.
    """

    kernel: Kernel
    count: Count
    selection: str = "leading"
    choice: LandmarkChoice | None = None
    random_state: Any = None
    learned: Projection | None = None
    shared: ClassVar[tuple[str, ...]] = ("components",)
    takes_sparse: ClassVar[bool] = True
    has_own_hold_outs: ClassVar[bool] = True

    def with_components(self, problem: Problem, count: Count) -> ComponentSpace:
        """The same space with the components of the rows of a problem."""
        count = Count() if self.selection == "spectral" else count
        return replace(self, learned=self.learn(problem.X, problem.qid, count))

    def learn(self, X: Any, qid: Any, count: Count) -> Projection:
        """Learn components from rows."""
        if self.learned is not None:
            return self.learned.leading(count)
        if self.choice is not None:
            return self._learn_on_landmarks(self.choice, X, qid, count)
        m = X.shape[0]
        wanted = m if count.number is None else min(count.number, m)
        advice = "Use landmarks, as in n_landmarks=1000, or fewer rows."
        check_kernel_fits(m, backend_of(X), advice, matrices_needed(m, wanted))
        check_spread(self.kernel, as_given(X), "rows")
        components, features = kernel_components(training_kernel(self.kernel, X), count)
        points = None if isinstance(self.kernel, Precomputed) else as_given(X)
        return Projection(_basis(self.kernel, points, None, False, components), features)

    def _learn_on_landmarks(
        self, choice: LandmarkChoice, X: Any, qid: Any, count: Count
    ) -> Projection:
        on, rng = backend_of(X), as_generator(self.random_state)
        landmarks = choice.among(X, qid, self.kernel, rng)
        system = LandmarkSystem.of(self.kernel, landmarks, on=on)
        store = 8 * X.shape[0] * system.factor.rank <= STORED_BYTES
        components, features = landmark_components(
            system.kernel_values(X, reuse=not store), X.shape[0], system.factor, count, store
        )
        basis = _basis(self.kernel, system.basis.points, landmarks.rows, True, components)
        return Projection(basis, features)

    def solve(self, problem: Problem, alphas: Sequence[float]) -> Fit:
        """Equation (6) of the KPCRank paper for every number of components and every alpha."""
        tasks, spectral = problem.tasks, self.selection == "spectral"
        if spectral and len(tasks) > 1:
            raise ParameterError(
                'selection="spectral" depends on the preference graph, and with ties="exclude" '
                f"each of {len(tasks)} outputs has its own. Fit one output at a time, or use "
                'ties="include".'
            )
        projection = self.learn(problem.X, problem.qid, Count() if spectral else self.count)
        basis, features, by_task = projection.basis, projection.of(problem.X), []
        on = backend_of(features)
        for task in tasks:
            triangle = component_triangle(
                features.__getitem__, len(basis.eigenvalues), task.graph, task.y, on
            )
            noise = rounding_noise(basis.eigenvalues, task.graph)
            if spectral:
                found = triangle.spectral(alphas, noise)
                p = _limit(self.count, found)
                basis = _rotated(basis, found, p)
                by_task.append([(_cumulative(w[:p]), np.arange(p)) for w in found.weights])
            else:
                by_task.append([triangle.path(alpha, noise) for alpha in alphas])
        intercept = problem.loss.has_intercept
        solutions = [_join(paths, tasks, intercept) for paths in zip(*by_task, strict=True)]
        return Fit(basis, solutions)

    def fixed_components(self, X: Any, qid: Any, count: Count) -> tuple[Array, Array]:
        """Coordinates of all rows for exact hold-outs, and eigenvalues."""
        if self.selection != "leading":
            raise ParameterError(
                'Exact hold-outs keep the components fixed, but selection="spectral" chooses them '
                "by the training pairs. Use a number of folds, which refits."
            )
        projection = self.learn(X, qid, count)
        return projection.of(X), projection.basis.eigenvalues

    def coordinates(self, problem: Problem) -> Coordinates:
        """Coordinates on the components of all rows."""
        features, _ = self.fixed_components(problem.X, problem.qid, self.count)
        return Coordinates(features=features)

    def hold_out_queries(
        self, problem: Problem, alphas: Sequence[float], folds: Sequence[Index]
    ) -> Array:
        """Folds held out of the weights, exactly, on the components of all rows."""
        return self.path_without_queries(problem, alphas, self.count, folds)[:, :, -1]

    def path_without_queries(
        self, problem: Problem, alphas: Sequence[float], limit: Count, folds: Sequence[Index]
    ) -> Array:
        """Predictions for folds of queries, shape (n_alphas, n_rows, p, n_outputs).

        Folds are held out of the weights, exactly; the components are computed from all rows.
        """
        F, eigenvalues = self.fixed_components(problem.X, problem.qid, limit)
        on, by_task = backend_of(F), []
        for task in problem.tasks:
            y = on.array(task.y).reshape(len(F), -1)
            noise = rounding_noise(eigenvalues, task.graph)
            if problem.loss.has_intercept:
                with_ones = on.xp.column_stack((on.zeros(len(F)) + 1.0, F))
                noise = np.concatenate(([0.0], noise))
                found = component_folds(with_ones, with_ones, y, folds, alphas, noise, free=1)
            else:
                Z, t = task.graph.root(F), task.graph.root_target(y)
                found = component_folds(F, Z, t, folds, alphas, noise)
            by_task.append(found)
        return on.array(on.xp.concatenate(by_task, axis=3))

    def for_part(self, part: Index, n_rows: int) -> ComponentSpace:
        """The same space for a part of the rows, given by ascending row numbers."""
        choice = None if self.choice is None else self.choice.for_part(part, n_rows)
        return replace(self, choice=choice, learned=None)


def _basis(
    kernel: Kernel, points: Any, rows: Index | None, on_landmarks: bool, found: KernelComponents
) -> ComponentBasis:
    return ComponentBasis(
        kernel, points, rows, on_landmarks, found.A, found.offset, found.eigenvalues, found.total
    )


def _rotated(basis: ComponentBasis, found: SpectralDirections, p: int) -> ComponentBasis:
    """The basis with the first p spectral directions in place of the components."""
    on = backend_of(basis.A)
    V = on.contiguous(found.directions[:, :p])
    return replace(
        basis,
        A=on.matmul(basis.A, V),
        means=basis.means @ V,
        eigenvalues=found.eigenvalues[:p],
        total=found.total,
    )


def _join(
    paths: Sequence[tuple[Array, Index]], tasks: Sequence[Task], intercept: bool
) -> ComponentSolution:
    """Combine the paths of all tasks.

    Components have mean 0, so the intercept is the mean of y.
    """
    path = backend_of(paths[0][0]).xp.concatenate([weights for weights, _ in paths], axis=2)
    if path.shape[2] == 1 and tasks[0].n_axes == 1:
        path = path[..., 0]
    kept = np.unique(np.concatenate([kept for _, kept in paths]))
    p, y = len(path), tasks[0].y
    mean = plain(y.mean(axis=0)) if intercept and y is not None else 0.0
    return ComponentSolution(path[:, p - 1], mean, path, np.setdiff1d(np.arange(p), kept), p)


def _cumulative(weights: Array) -> Array:
    """The path of weights that do not depend on the number of components."""
    used = backend_of(weights).array(np.triu(np.ones((len(weights),) * 2)))
    return used[:, :, None] * weights[:, None]


def _limit(count: Count, found: SpectralDirections) -> int:
    """The number of spectral directions to use."""
    rank = len(found.eigenvalues)
    if count.share is not None:
        return number_with_share(found.eigenvalues, count.share, found.total)
    if count.number is None:
        return rank
    if count.number > rank and count.strict:
        raise ParameterError(
            f"n_components={count.number} exceeds the numerical rank {rank} of the matrix that "
            f'selection="spectral" decomposes. Use {rank} or fewer, or n_components="auto" for '
            "all of them."
        )
    return min(count.number, rank)
