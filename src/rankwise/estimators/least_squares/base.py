"""The common ground of least-squares rankers: fit, path and prediction."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from rankwise.backends.arrays import Array, Loader, is_tensor, to_host
from rankwise.backends.backend import Backend
from rankwise.backends.dispatch import backend_of
from rankwise.errors import DataError
from rankwise.estimators._checks import check_alpha, check_alphas
from rankwise.estimators._device import check_targets, check_tensor, place_rows, returned, travels
from rankwise.estimators.ranker_mixin import RankerMixin
from rankwise.graph import PreferenceGraph, QueryGroups
from rankwise.graph.comparison_graph import ComparisonGraph
from rankwise.kernels import Kernel, kernel_product
from rankwise.solvers.moments import CentredMoments, Moments

DTYPES = (np.float64, np.float32)


@dataclass(frozen=True)
class Task:
    """A preference graph and the scores to regress on it (None where it has margins)."""

    graph: PreferenceGraph
    y: Array | None

    @property
    def n_axes(self) -> int:
        """1 where a row has one score (a comparison, one margin), 2 where it has several."""
        values = self.graph.margin if isinstance(self.graph, ComparisonGraph) else self.y
        return 0 if values is None else values.ndim


@dataclass(frozen=True)
class Space:
    """Rows as features or as a kernel matrix: one of the two."""

    features: Any = None
    kernel: Array | None = None


@dataclass(frozen=True)
class Solution:
    """Weights of features, of training rows or of landmarks, and what is added to scores."""

    weights: Array
    intercept: Array | float


class LeastSquaresRanker(RankerMixin, BaseEstimator):
    """Minimizes (y - f)'L(y - f) + alpha |f|^2 for the graphs that a subclass gives."""

    alpha: float
    kernel: Any
    gamma: float | None
    degree: float
    coef0: float
    #: Model files of before have no device.
    device: Any = None

    #: Whether the loss compares pairs, or regresses each row with an intercept.
    _pointwise = False

    # What a loss says (losses.py).

    @abstractmethod
    def _tasks(self, y: Array, qid: Any) -> list[Task]:
        """One task for all outputs together, or one for each."""

    @property
    @abstractmethod
    def _loss_parameters(self) -> tuple[Any, ...]:
        """Those that must not change between blocks of rows."""

    @abstractmethod
    def _check_enough(self, n_pairs: list[int], n_rows: int) -> None:
        """Refuse tasks that have too few pairs to learn from."""

    @abstractmethod
    def _moments(
        self, load: Loader, n_features: int, task: Task, on: Backend
    ) -> Moments | CentredMoments:
        """Moments of a task, of features that are made block by block on a backend."""

    @abstractmethod
    def _with_intercepts(
        self, weights: list[Array], mean_scores: Callable[[Array], Array], y_mean: Array
    ) -> list[Solution]:
        """The weights for each alpha, with the intercepts that belong to them: none, for pairs.

        ``mean_scores(columns)`` is the mean over training rows of what each column predicts.
        """

    # What the space of the rows says (direct.py, landmarks.py, components.py).

    @abstractmethod
    def _solve(self, X: Any, tasks: list[Task], alphas: list[float], qid: Any) -> list[Solution]:
        """Solve each task for each alpha, and put the tasks side by side."""

    @abstractmethod
    def _space(self, X: Any, qid: Any) -> Space:
        """Where rows of validated X live: their features, or their kernel matrix."""

    @abstractmethod
    def _products(self, X: Any, weights: Array) -> Any:
        """Scores of rows, without intercept."""

    @abstractmethod
    def _keep(self, solution: Solution) -> None:
        """Make the solution the fitted one."""

    @property
    @abstractmethod
    def _weights(self) -> Array:
        """Those of the fitted solution."""

    def fit(self, X: Any, y: Any, *, qid: Any = None) -> Self:
        """Fit to scored rows.

        Parameters
        ----------
        X : array-like, sparse or tensor of shape (n_rows, n_features)
            With ``kernel="precomputed"``, the kernel matrix of the rows. Of a tensor the work stays
            on its device, and fitted arrays are tensors there.
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
            Scores, higher is better. Several outputs cost little more than one.
        qid : array-like of shape (n_rows,), optional
            The query of every row, of any dtype and in any order. None: one global ranking.

        Returns
        -------
        self
        """
        alpha, qid = check_alpha(self.alpha), to_host(qid)
        X, y = self._validate(X, y)
        (solution,) = self._solve(X, self._checked_tasks(y, qid), [alpha], qid)
        self._keep(returned(solution, X))
        return self

    def fit_path(self, X: Any, y: Any, alphas: Any, *, qid: Any = None) -> RegularizationPath:
        """Fit for many values of alpha at little more than the price of one.

        They share the moments, or the kernel matrix. Up to five of them have a Cholesky
        factorization each; more than five share one reduction, which costs about as much as
        five (on a GPU, more than 40 share an eigendecomposition); for up to 200 features (or
        landmarks, or rows in the dual) one eigendecomposition serves all.

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
        values, qid = check_alphas(alphas), to_host(qid)
        template = clone(self)
        X, y = template._validate(X, y)
        tasks = template._checked_tasks(y, qid)
        solutions = template._solve(X, tasks, values.tolist(), qid)
        return RegularizationPath(values, template, [returned(s, X) for s in solutions])

    def predict(self, X: Any) -> Any:
        """Scores of rows: higher is better.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)
            With ``kernel="precomputed"``, kernel values against all training rows.

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_outputs)
            In float32 where X is; a tensor on the device of X where X is one.
        """
        check_is_fitted(self)
        intercept = getattr(self, "intercept_", 0.0)
        return self._scores(self._validate_new(X), self._weights, intercept)

    def _validate(
        self, X: Any, y: Any, *, reset: bool = True, min_rows: int = 2
    ) -> tuple[Any, Array]:
        """X and y, checked; a reset forgets the model before."""
        if reset:
            self._forget()
        if is_tensor(X):
            X = check_tensor(self, X, reset=reset, min_rows=min_rows)
            return X, check_targets(y, backend_of(X), X.shape[0])
        y = to_host(y)
        options = {"accept_sparse": "csr", "dtype": DTYPES, "ensure_min_samples": min_rows}
        X, y = validate_data(self, X, y, reset=reset, multi_output=True, y_numeric=True, **options)
        X = place_rows(X, self.device)
        return X, backend_of(X).array(y)

    def _validate_rows(self, X: Any) -> Any:
        """Rows without scores, checked; forgets the model before."""
        self._forget()
        if is_tensor(X):
            return check_tensor(self, X, reset=True, min_rows=2)
        X = validate_data(self, X, accept_sparse="csr", dtype=DTYPES, ensure_min_samples=2)
        return place_rows(X, self.device)

    def _forget(self) -> None:
        """A fit that fails leaves no model of other rows."""
        for stale in ("coef_", "dual_coef_", "intercept_", "_sums"):
            self.__dict__.pop(stale, None)

    def _validate_new(self, X: Any) -> Any:
        if is_tensor(X):
            return check_tensor(self, X, reset=False, min_rows=1)
        X = validate_data(self, X, accept_sparse="csr", dtype=DTYPES, reset=False)
        return place_rows(X, self.device)

    def _checked_tasks(self, y: Array, qid: Any) -> list[Task]:
        """Tasks that have something to learn from; counts queries."""
        self.n_queries_ = QueryGroups.of(qid, len(y)).n_groups
        tasks = self._tasks(y, qid)
        self._check_enough([task.graph.n_pairs for task in tasks], len(y))
        return tasks

    def _scores(self, X: Any, weights: Array, intercept: Array | float) -> Any:
        with np.errstate(over="ignore", invalid="ignore"):  # said below, with a way out
            scores = self._products(X, weights)
            if not isinstance(intercept, float):
                intercept = backend_of(X).array(intercept)
            return self._finished_scores(X, scores + intercept)

    def _finished_scores(self, X: Any, scores: Array) -> Any:
        """Scores where X lies, in its dtype."""
        return narrowed(to_host(scores) if travels(X) else scores, X.dtype)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_") or hasattr(self, "dual_coef_")

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
        outputs = tuple(weights[0].shape[1:])
        intercepts = [np.broadcast_to(to_host(s.intercept), outputs) for s in self._solutions]
        scores = self._template._scores(X, side_by_side(weights), np.ravel(intercepts))
        by_alpha = scores.reshape(len(scores), len(self), *outputs)
        return backend_of(scores).xp.moveaxis(by_alpha, 1, 0)

    def estimator(self, i: int) -> LeastSquaresRanker:
        """The ranker fitted with ``alphas[i]``."""
        fitted = copy(self._template)
        fitted.alpha = float(self.alphas[i])
        fitted._keep(self._solutions[i])
        return fitted


def narrowed(values: Array, dtype: Any) -> Array:
    """Values in the dtype of the rows they are for, or an error where float32 cannot hold them."""
    on = backend_of(values)
    with np.errstate(over="ignore", invalid="ignore"):  # said below, with a way out
        narrow = on.cast(values, dtype)
    if narrow.dtype == on.xp.float32 and not on.is_finite(narrow):
        raise DataError("The scores are beyond float32: give X as float64.")
    return narrow


def side_by_side(weights: Sequence[Array]) -> Array:
    """The columns of all of them, as one matrix."""
    return backend_of(weights[0]).xp.hstack([w.reshape(len(w), -1) for w in weights])


def finite_kernel_product(kernel: Kernel, X: Any, Y: Any, weights: Array) -> Array:
    """k(X, Y) weights, or an error where that overflows."""
    with np.errstate(over="ignore", invalid="ignore"):  # said below, with a way out
        scores = kernel_product(kernel, X, Y, weights)
    if not backend_of(scores).is_finite(scores):
        raise DataError(
            "The kernel overflows between these rows and the training rows: scale the "
            "features alike, for example in a pipeline with a scaler."
        )
    return scores


def join_tasks(by_task: Sequence[Sequence[Solution]]) -> list[Solution]:
    """Solutions of tasks, one list for each task, as one list with several outputs each."""
    return [_join(parts) for parts in zip(*by_task, strict=True)]


def _join(parts: Sequence[Solution]) -> Solution:
    if len(parts) == 1:
        return parts[0]
    on = backend_of(parts[0].weights)
    weights = on.xp.column_stack([part.weights for part in parts])
    return Solution(weights, on.array([float(part.intercept) for part in parts]))
