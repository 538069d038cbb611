"""The common ground of least-squares rankers: fit, path and prediction."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from rankwise.backends.arrays import Array
from rankwise.errors import DataError, ParameterError
from rankwise.estimators._checks import (
    check_alpha,
    check_alphas,
    check_choice,
    check_kernel_fits,
)
from rankwise.estimators._kernels import make_kernel, training_kernel
from rankwise.estimators.base import RankerMixin
from rankwise.graph import PreferenceGraph
from rankwise.kernels import kernel_product
from rankwise.solvers.rankrls import dual, linear_dual, primal

SOLVERS = ("auto", "primal", "dual")
DTYPES = (np.float64, np.float32)


@dataclass(frozen=True)
class Task:
    """A preference graph and the scores to regress on it (None where it has margins)."""

    graph: PreferenceGraph
    y: Array | None


@dataclass(frozen=True)
class Space:
    """Rows as features or as a kernel matrix: one of the two."""

    features: Any = None
    kernel: Array | None = None


@dataclass(frozen=True)
class Solution:
    """Weights of features (linear kernel) or of training rows, and what is added to scores."""

    weights: Array
    intercept: Array | float


class LeastSquaresRanker(RankerMixin, BaseEstimator):
    """Minimizes (y - f)'L(y - f) + alpha |f|^2 for the graphs that a subclass gives."""

    alpha: float
    kernel: Any
    gamma: float | None
    degree: float
    coef0: float
    solver: str

    #: Whether the loss compares pairs, or regresses each row with an intercept.
    _pointwise = False

    @abstractmethod
    def _tasks(self, y: Array, qid: Any) -> list[Task]:
        """One task for all outputs together, or one for each."""

    def _solutions(self, X: Any, y: Array | None, weights: list[Array]) -> list[Solution]:
        """The weights for each alpha, with the intercepts that belong to them: none, for pairs."""
        return [Solution(w, 0.0) for w in weights]

    def fit(self, X: Any, y: Any, *, qid: Any = None) -> Self:
        """Fit to scored rows.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)
            With ``kernel="precomputed"``, the kernel matrix of the rows.
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
            Scores, higher is better. Several outputs cost little more than one.
        qid : array-like of shape (n_rows,), optional
            The query of every row, of any dtype and in any order. None: one global ranking.

        Returns
        -------
        self
        """
        alpha = check_alpha(self.alpha)
        X, y = self._validate(X, y)
        (solution,) = self._solve(X, self._tasks(y, qid), [alpha])
        self._keep(solution)
        return self

    def fit_path(self, X: Any, y: Any, alphas: Any, *, qid: Any = None) -> RegularizationPath:
        """Fit for many values of alpha at little more than the price of one.

        They share the moments, or the kernel matrix. Up to five of them have a Cholesky
        factorization each; more than five share one reduction, which costs about as much as
        five; for up to 200 features (or rows, in the dual) one eigendecomposition serves all.

        Parameters
        ----------
        X, y, qid
            As for `fit`.
        alphas : sequence of float
            Values to use in the place of the parameter `alpha`.

        Returns
        -------
        RegularizationPath
            Scores and rankers for each of them; this ranker itself is left as it is.
        """
        values = check_alphas(alphas)
        template = clone(self)
        X, y = template._validate(X, y)
        solutions = template._solve(X, template._tasks(y, qid), values.tolist())
        return RegularizationPath(values, template, solutions)

    def predict(self, X: Any) -> Any:
        """Scores of rows: higher is better.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)
            With ``kernel="precomputed"``, kernel values against the training rows.

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_outputs)
            In float32 where X is.
        """
        check_is_fitted(self)
        weights = self.coef_.T if self.kernel == "linear" else self.dual_coef_
        intercept = getattr(self, "intercept_", 0.0)
        return self._scores(self._validate_new(X), weights, intercept)

    def _validate(self, X: Any, y: Any) -> tuple[Any, Array]:
        X, y = validate_data(
            self,
            X,
            y,
            accept_sparse="csr",
            dtype=DTYPES,
            multi_output=True,
            y_numeric=True,
            ensure_min_samples=2,
        )
        return X, np.asarray(y, dtype=np.float64)

    def _validate_new(self, X: Any) -> Any:
        return validate_data(self, X, accept_sparse="csr", dtype=DTYPES, reset=False)

    def _solve(self, X: Any, tasks: list[Task], alphas: list[float]) -> list[Solution]:
        """Choose a form, solve each task for each alpha, and put the tasks side by side."""
        self.solver_ = self._choose_solver(X)
        linear = self.kernel == "linear"
        kernel = make_kernel(self.kernel, self.gamma, self.degree, self.coef0, X.shape[1])
        for stale in ("coef_", "dual_coef_", "kernel_", "X_fit_"):
            self.__dict__.pop(stale, None)
        if not linear:
            self.kernel_ = kernel
            if self.kernel != "precomputed":
                self.X_fit_ = X
        by_task = []
        for task in tasks:
            if self.solver_ == "primal":
                weights = primal(X, task.graph, task.y, alphas)
            elif linear:
                check_kernel_fits(X.shape[0])
                weights = linear_dual(X, task.graph, task.y, alphas)
            else:
                check_kernel_fits(X.shape[0])
                weights = dual(training_kernel(kernel, X), task.graph, task.y, alphas)
            by_task.append(self._solutions(X, task.y, weights))
        return [_join_tasks(parts) for parts in zip(*by_task, strict=True)]

    def _space(self, X: Any) -> Space:
        """Where rows of validated X live: their features, or their kernel matrix."""
        if self._choose_solver(X) == "primal":
            return Space(features=X)
        check_kernel_fits(X.shape[0])
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
            self.coef_ = solution.weights.T
        else:
            self.dual_coef_ = solution.weights

    def _products(self, X: Any, weights: Array) -> Any:
        """X weights, or k(X, training rows) weights."""
        if self.kernel == "linear":
            return X @ weights.astype(X.dtype, copy=False)
        with np.errstate(over="ignore", invalid="ignore"):  # said below, with a way out
            scores = kernel_product(self.kernel_, X, getattr(self, "X_fit_", None), weights)
        if not np.isfinite(scores).all():
            raise DataError(
                "The kernel overflows between these rows and the training rows: scale the "
                "features alike, for example in a pipeline with a scaler."
            )
        return scores

    def _scores(self, X: Any, weights: Array, intercept: Array | float) -> Any:
        return np.asarray(self._products(X, weights) + intercept, dtype=X.dtype)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        return tags


@dataclass(frozen=True)
class RegularizationPath:
    """A ranker at many values of alpha; made by ``fit_path``.

    Attributes
    ----------
    alphas : ndarray of shape (n_alphas,)
    """

    alphas: Array
    _template: LeastSquaresRanker
    _solutions: Sequence[Solution]

    def __len__(self) -> int:
        return len(self.alphas)

    def __repr__(self) -> str:
        return f"RegularizationPath({self._template!r}, {len(self)} alphas)"

    def predict(self, X: Any) -> Any:
        """Scores for every alpha, shape (n_alphas, n_rows) or (n_alphas, n_rows, n_outputs).

        One product for all of them: kernel values are computed once.
        """
        X = self._template._validate_new(X)
        weights = [s.weights for s in self._solutions]
        intercepts = [np.broadcast_to(s.intercept, s.weights.shape[1:]) for s in self._solutions]
        scores = self._template._scores(X, side_by_side(weights), np.ravel(intercepts))
        return np.moveaxis(scores.reshape(len(scores), len(self), *weights[0].shape[1:]), 1, 0)

    def estimator(self, i: int) -> LeastSquaresRanker:
        """The ranker fitted with ``alphas[i]``."""
        fitted = copy(self._template)
        fitted.alpha = float(self.alphas[i])
        fitted._keep(self._solutions[i])
        return fitted


def side_by_side(weights: Sequence[Array]) -> Array:
    """The columns of all of them, as one matrix."""
    return np.hstack([w.reshape(len(w), -1) for w in weights])


def _join_tasks(parts: Sequence[Solution]) -> Solution:
    """Solutions of tasks with one output each as one solution with several outputs."""
    if len(parts) == 1:
        return parts[0]
    weights = np.column_stack([part.weights for part in parts])
    return Solution(weights, np.array([part.intercept for part in parts]))
