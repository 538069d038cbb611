"""Rankers that live on the principal components of a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from rankwise.backends.arrays import Array, Index, Rows
from rankwise.backends.dispatch import at_home, backend_of
from rankwise.errors import ParameterError
from rankwise.estimators._checks import check_choice, check_kernel_fits, check_random_state
from rankwise.estimators._device import returned
from rankwise.estimators._kernels import make_kernel, training_kernel
from rankwise.estimators._landmark_choice import LandmarkChoice
from rankwise.estimators.components.number import (
    RULES,
    ComponentErrors,
    NumberOfComponents,
    check_cv,
    check_max_components,
    errors_by_queries,
    errors_by_row_pairs,
)
from rankwise.estimators.components.number_by_folds import errors_by_folds
from rankwise.estimators.least_squares.base import (
    LeastSquaresRanker,
    Solution,
    Space,
    Task,
    finite_kernel_product,
)
from rankwise.kernels import Precomputed
from rankwise.kernels.products import kernel_values
from rankwise.solvers.kpca import (
    Components,
    Count,
    kernel_components,
    landmark_components,
    number_with_share,
)
from rankwise.solvers.lanczos import matrices_needed
from rankwise.solvers.landmark_basis import LandmarkBasis
from rankwise.solvers.nested_least_squares import Spectrum, component_triangle, rounding_noise

SELECTIONS = ("leading", "spectral")
FITTED = (
    "n_components_",
    "dual_components_",
    "component_means_",
    "eigenvalues_",
    "explained_variance_ratio_",
    "path_coef_",
    "idle_components_",
    "component_errors_",
    "X_fit_",
    "landmarks_",
    "landmark_indices_",
    "kernel_",
)
STORED_BYTES = 2**30  # of kernel values against landmarks that are kept, to spare making them twice


@dataclass(frozen=True)
class ComponentSolution(Solution):
    """Weights of components, those for every number of them, and what chose this number.

    `weights` has zeros for components beyond the first `n_components`, `path` the shape
    (p, p[, n_outputs]); `idle` are the components that no pair sees.
    """

    path: Array
    idle: Index
    n_components: int
    errors: ComponentErrors | None


@dataclass(frozen=True)
class SolvedPath:
    """Weights for every number of components, the intercept, and components that are idle."""

    weights: Array
    intercept: Array | float
    idle: Index


@dataclass(frozen=True)
class Projected:
    """Components, and the coordinates of training rows on them: stored, or made when needed."""

    components: Components
    features: Array | None


class ComponentRanker(ClassNamePrefixFeaturesOutMixin, TransformerMixin, LeastSquaresRanker):
    """f(x) = sum over components l of w_l F_l(x), with centred kernel principal components F."""

    n_components: Any
    cv: Any
    rule: str
    max_components: int | None
    n_landmarks: int | None
    landmarks: Any
    random_state: Any

    #: KPCRank has a parameter of this name; for one loss on all rows there is no difference.
    selection = "leading"

    def predict_path(self, X: Any) -> Any:
        """Scores with one component, with two, and so on up to `n_components_`: one product.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)
            As for `predict`.

        Returns
        -------
        ndarray of shape (n_rows, n_components_) or (n_rows, n_components_, n_outputs)
            Column j has the scores with j + 1 components; the last column is what `predict` gives.
        """
        check_is_fitted(self)
        X = self._validate_new(X)
        F = self._coordinates(X)
        scores = path_scores(F, backend_of(F).array(self.path_coef_))
        intercept = getattr(self, "intercept_", 0.0)
        if not isinstance(intercept, float):
            intercept = backend_of(F).array(intercept)
        return self._finished_scores(X, scores + intercept)

    def transform(self, X: Any) -> Any:
        """Coordinates of rows on the components, which are centred over the training rows.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)
            As for `predict`.

        Returns
        -------
        ndarray of shape (n_rows, n_components_)
            ``transform(X) @ coef_.T``, and the intercept where there is one, are the scores.
        """
        check_is_fitted(self)
        X = self._validate_new(X)
        return self._finished_scores(X, self._coordinates(X))

    def fit_transform(self, X: Any, y: Any, *, qid: Any = None) -> Any:
        """`fit`, then `transform` of the same rows.

        Parameters
        ----------
        X, y, qid
            As for `fit`.

        Returns
        -------
        ndarray of shape (n_rows, n_components_)
        """
        return self.fit(X, y, qid=qid).transform(X)

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def _solve(self, X: Any, tasks: list[Task], alphas: list[float], qid: Any) -> list[Solution]:
        number = NumberOfComponents.of(self.n_components)
        self._check_parameters(tasks)
        chosen: list[ComponentErrors] = []
        count = number.count
        if number.chosen_by_cv:
            chosen = self._choose(X, tasks, alphas, qid)
            count = Count(max(errors.chosen(self.rule) for errors in chosen), strict=False)
        try:
            projected, solved = self._fit_components(X, tasks, alphas, qid, count)
        except Exception:
            self._forget()  # the kernel and the rows of a model that does not come about
            raise
        self._settle(returned(projected.components, X))
        solutions = []
        for k, found in enumerate(solved):
            path, errors = found.weights, chosen[k] if chosen else None
            p = path.shape[1]
            if errors is not None:
                p = min(p, errors.chosen(self.rule))
            solutions.append(
                ComponentSolution(path[:, p - 1], found.intercept, path, found.idle, p, errors)
            )
        return list(solutions)

    def _fit_components(
        self, X: Any, tasks: list[Task], alphas: list[float], qid: Any, count: Count
    ) -> tuple[Projected, list[SolvedPath]]:
        """Components, and for each alpha the weights for every number of them."""
        every = Count() if self.selection == "spectral" else count
        projected = self._project(X, qid, every)
        components = projected.components
        features, by_task = self._features(X, projected), []
        on = backend_of(features)
        for task in tasks:
            triangle = component_triangle(
                features.__getitem__, len(components), task.graph, task.y, on
            )
            noise = rounding_noise(components.eigenvalues, task.graph)
            if self.selection == "spectral":
                spectrum = triangle.spectral(alphas, noise)
                p = _limit(count, spectrum)
                V = on.contiguous(spectrum.directions[:, :p])
                rotated = components.rotated(V, spectrum.eigenvalues[:p], spectrum.total)
                projected = Projected(rotated, None)
                paths = [(_cumulative(weights[:p]), np.arange(p)) for weights in spectrum.weights]
            else:
                paths = [triangle.path(alpha, noise) for alpha in alphas]
            by_task.append(paths)
        return projected, [self._finished(paths, tasks) for paths in zip(*by_task, strict=True)]

    def _finished(self, paths: Sequence[tuple[Array, Index]], tasks: list[Task]) -> SolvedPath:
        """Paths of all tasks side by side; the intercept is the mean of y, as components have 0."""
        weights = backend_of(paths[0][0]).xp.concatenate([path for path, _ in paths], axis=2)
        if weights.shape[2] == 1 and tasks[0].n_axes == 1:
            weights = weights[..., 0]
        kept = np.unique(np.concatenate([kept for _, kept in paths]))
        idle = np.setdiff1d(np.arange(len(weights)), kept)
        y = tasks[0].y
        if not self._pointwise or y is None:
            return SolvedPath(weights, 0.0, idle)
        mean = y.mean(axis=0)
        return SolvedPath(weights, float(mean) if mean.ndim == 0 else mean, idle)

    def _project(self, X: Any, qid: Any, count: Count) -> Projected:
        """Learn components from rows, and keep what their coordinates need."""
        kernel = make_kernel(self.kernel, self.gamma, self.degree, self.coef0, X.shape[1])
        for stale in ("X_fit_", "landmarks_", "landmark_indices_"):
            self.__dict__.pop(stale, None)
        self.kernel_ = kernel
        if self.landmarks is None and self.n_landmarks is None:
            m = X.shape[0]
            wanted = m if count.number is None else min(count.number, m)
            way_out = "Use landmarks, as in n_landmarks=1000, or fewer rows."
            check_kernel_fits(m, backend_of(X), way_out, matrices_needed(m, wanted))
            if not isinstance(kernel, Precomputed):
                self.X_fit_ = at_home(X)
            return Projected(*kernel_components(training_kernel(kernel, X), count))
        method = "random" if self.landmarks is None else self.landmarks
        choice = LandmarkChoice.of(method, self.n_landmarks)
        on = backend_of(X)
        landmarks = choice.among(X, qid, kernel, check_random_state(self.random_state))
        if not isinstance(kernel, Precomputed):
            self.landmarks_ = landmarks.points
        if landmarks.rows is not None:
            self.landmark_indices_ = landmarks.rows
        basis = LandmarkBasis.of(landmarks.kernel(kernel, on))
        points = self._points
        if not on.is_host and not isinstance(kernel, Precomputed):
            points = on.array(points)
        points = points[basis.kept]

        stored: list[Array] = []  # blocks, in the order of rows
        store = 8 * X.shape[0] * basis.rank <= STORED_BYTES

        def load(rows: Rows) -> Array:
            K = on.contiguous(on.array(kernel_values(kernel, X[rows], points)))
            if store:
                stored.append(K)
            return K

        components = landmark_components(load, X.shape[0], basis, count)
        if not store:
            return Projected(components, None)
        kept = on.contiguous(components.A[basis.kept])
        features = on.xp.concatenate([on.matmul(K, kept) for K in stored])
        features -= components.offset
        return Projected(components, features)

    def _features(self, X: Any, projected: Projected) -> Array:
        """Coordinates of training rows on components: kernel values are made block by block."""
        if projected.features is not None:
            return projected.features
        components = projected.components
        product = finite_kernel_product(self.kernel_, X, self._points, components.A)
        return product - components.offset

    def _space(self, X: Any, qid: Any) -> Space:
        """Coordinates on components that all rows have a part in."""
        return Space(features=self._features(X, self._project(X, qid, self._fixed_count())))

    def _fixed_count(self) -> Count:
        """How many components, where they are not to be chosen."""
        number = NumberOfComponents.of(self.n_components)
        if number.chosen_by_cv or self.selection == "spectral":
            raise ParameterError(
                "Exact hold-outs keep the components: they need a fixed n_components and "
                f'selection="leading", and got n_components={self.n_components!r} and '
                f"selection={self.selection!r}. RankingSearchCV with a number of folds refits."
            )
        return number.count

    def _choose(
        self, X: Any, tasks: list[Task], alphas: list[float], qid: Any
    ) -> list[ComponentErrors]:
        """Held-out errors for every number of components, for each alpha."""
        limit = Count(check_max_components(self.max_components), strict=False)
        if not isinstance(self.cv, str):
            return errors_by_folds(self, X, tasks, alphas, qid, limit)
        if self.cv == "leave_query_out":
            return errors_by_queries(self, X, tasks, alphas, qid, limit)
        return errors_by_row_pairs(self, X, tasks, alphas, qid, limit)

    def _check_parameters(self, tasks: list[Task]) -> None:
        """Those that say which components, also where "cv" has no part in it."""
        check_max_components(self.max_components)
        check_choice("rule", self.rule, RULES)
        check_cv(self.cv)
        check_choice("selection", self.selection, SELECTIONS)
        if self.selection == "spectral" and len(tasks) > 1:
            raise ParameterError(
                'selection="spectral" has directions of its own for every preference graph, and '
                f'with ties="exclude" each of {len(tasks)} outputs has one. Fit one output at a '
                'time, or use ties="include".'
            )

    def _settle(self, components: Components) -> None:
        """Make these the fitted components."""
        self.dual_components_ = components.A
        self.component_means_ = components.offset
        self.eigenvalues_ = components.eigenvalues
        self.explained_variance_ratio_ = components.eigenvalues / components.total

    def _forget(self) -> None:
        super()._forget()
        for stale in FITTED:
            self.__dict__.pop(stale, None)

    def _keep(self, solution: Solution) -> None:
        assert isinstance(solution, ComponentSolution)
        p = solution.n_components
        self.n_components_ = p
        self.dual_components_ = self.dual_components_[:, :p]
        self.component_means_ = self.component_means_[:p]
        self.eigenvalues_ = self.eigenvalues_[:p]
        self.explained_variance_ratio_ = self.explained_variance_ratio_[:p]
        self.path_coef_ = solution.path[:p, :p]
        coef = solution.path[:p, p - 1]
        self.coef_ = coef.T if coef.ndim == 2 else coef
        self.idle_components_ = solution.idle[solution.idle < p]
        self.__dict__.pop("component_errors_", None)
        if solution.errors is not None:
            self.component_errors_ = solution.errors

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _weights(self) -> Array:
        return self.coef_.T if self.coef_.ndim == 2 else self.coef_

    @property
    def _points(self) -> Any:
        """What the kernel takes for the rows that components are made of."""
        if not isinstance(self.kernel_, Precomputed):
            return self.X_fit_ if hasattr(self, "X_fit_") else self.landmarks_
        return getattr(self, "landmark_indices_", None)

    def _coordinates(self, X: Any) -> Array:
        on = backend_of(X)
        A, offset = on.contiguous(on.array(self.dual_components_)), on.array(self.component_means_)
        return finite_kernel_product(self.kernel_, X, self._points, A) - offset

    def _products(self, X: Any, weights: Array) -> Any:
        on = backend_of(X)
        weights = on.array(weights)
        a = on.array(self.dual_components_) @ weights
        offset = on.array(self.component_means_) @ weights
        return finite_kernel_product(self.kernel_, X, self._points, a) - offset


def path_scores(F: Array, path: Array) -> Array:
    """F path: scores of rows for every number of components."""
    return backend_of(F).xp.tensordot(F, path, 1)


def _cumulative(weights: Array) -> Array:
    """The path of weights that do not depend on how many there are."""
    used = backend_of(weights).array(np.triu(np.ones((len(weights),) * 2)))
    return used[:, :, None] * weights[:, None]


def _limit(count: Count, spectrum: Spectrum) -> int:
    """How many of its eigenvalues are asked for."""
    rank = len(spectrum.eigenvalues)
    if count.share is not None:
        return number_with_share(spectrum.eigenvalues, count.share, spectrum.total)
    if count.number is None:
        return rank
    if count.number > rank and count.strict:
        raise ParameterError(
            f"n_components={count.number} is more than pairs can tell: the matrix that "
            f'selection="spectral" decomposes has the numerical rank {rank}. Use {rank} or fewer, '
            'or n_components="auto" for as many as there are.'
        )
    return min(count.number, rank)
