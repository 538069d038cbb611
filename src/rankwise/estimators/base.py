"""The base classes of rankers: calls, scores, least-squares fits and regularization paths."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass, replace
from functools import wraps
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from rankwise.backends.arrays import Array, as_given, backend_of, is_sent, is_sparse, to_host
from rankwise.backends.parallel import blas_threads_for
from rankwise.errors import DataError, KernelSizeError, ParameterError, warn
from rankwise.estimators.ranker_rows import (
    KeptRows,
    check_training,
    prepare_rows,
    query_groups,
    returned,
    scale_training,
    shared_by_choice,
    speaking_for_parts,
    warn_of_scales,
)
from rankwise.graph.query_groups import check_row_weights
from rankwise.kernels import KERNELS, Kernel, NamedKernel, PairFunction, Precomputed
from rankwise.metric_names import metric_label
from rankwise.parameters import (
    AnyOf,
    Choice,
    Monotone,
    Number,
    OptionsMixin,
    Rule,
    Whole,
    check_alphas,
    check_parameters,
    default_parameters,
)
from rankwise.problem import Fit, Loss, PairLoss, Problem, Space
from rankwise.problem.landmarks import LandmarkChoice, check_for_landmarks
from rankwise.problem.problem import side_by_side
from rankwise.problem.spaces import unscaled_solution
from rankwise.scaling import SCALINGS, ColumnStandard
from rankwise.tables import require_pandas

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from rankwise.holdout.alpha_choice import AlphaChoice
    from rankwise.holdout.scores import HeldOutScores


Function = TypeVar("Function", bound=Callable[..., Any])

MANY_ROWS = 50  # with fewer, grades may well belong to one ranking
# By name, and imported when skl2onnx asks: rankers do not depend on what is made of them.
CONVERTER = "rankwise.export.onnx_export"
# What other libraries call the queries of rows, as sizes or as ids.
SIZES = ("group", "group_sizes", "query_sizes")
IDS = ("groups", "group_id", "group_ids", "qids", "query", "query_id", "query_ids", "queries")
METRIC = ("metric", "scoring")


def explain_calls(function: Function) -> Function:
    """A function, method or class that explains what to do if it is called with unknown arguments.

    Queries are often passed by position, as group sizes, or under another name.
    """
    if isinstance(function, type):
        function.__init__ = explain_calls(function.__init__)  # type: ignore[misc]
        return function
    accepted = signature(function)

    @wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        try:
            accepted.bind(*args, **kwargs)
        except TypeError as error:
            called = function.__name__
            if "self" in accepted.parameters:
                of_class = type(args[0]).__name__
                called = of_class if called == "__init__" else f"{of_class}.{called}"
            names = [name for name in accepted.parameters if name != "self"]
            advice = _advice(names, str(error), kwargs)
            unknown = next((name for name in kwargs if name not in names), "")
            if function.__name__ == "__init__" and isinstance(args[0], OptionsMixin):
                advice = args[0].advice_for(unknown) or advice
            raise TypeError(f"{called}: {error}. {advice}") from None
        return function(*args, **kwargs)

    return checked  # type: ignore[return-value]


def _advice(names: list[str], error: str, kwargs: dict[str, Any]) -> str:
    unknown = next((name for name in kwargs if name not in names), "")
    metric = next((name for name in METRIC if name in names), None)
    if unknown in METRIC and metric is not None:
        return f'Use {metric}=, as in {metric}="ndcg@10".'
    if "qid" not in names:
        return f"Its parameters are {', '.join(names)}."
    queries = "Use qid=, one id per row, for the queries of rows."
    if unknown in SIZES:
        return f"{queries} From sizes: qid=rankwise.data.qid_from_groups({unknown})."
    if unknown in IDS or "too many positional" in error:
        return queries
    if unknown == "sample_weight":
        return (
            "Some rankers, such as RankRLS, take weights of rows in fit. To weight queries, use "
            f"query_weight= where fit has it. {queries}"
        )
    return f"Its parameters are {', '.join(names)}."


class Skl2onnxMixin:
    """Lets ``skl2onnx.to_onnx`` convert an estimator, alone or in a pipeline."""

    def onnx_parser(self) -> Any:
        """For skl2onnx: a function that names the outputs."""
        return import_module(CONVERTER).parser(self)

    def onnx_shape_calculator(self) -> Any:
        """For skl2onnx: a function that sets the types and shapes of the outputs."""
        return import_module(CONVERTER).shape_calculator(self)

    def onnx_converter(self) -> Any:
        """For skl2onnx: a function that adds the operators."""
        return import_module(CONVERTER).converter(self)


class RankerMixin(Skl2onnxMixin):
    """Adds `score` to a ranker whose `predict` returns scores (higher is better)."""

    n_queries_: int
    predict: Any

    # scikit-learn's class-level requests: with metadata routing on, qid reaches fit and score
    # through any meta-estimator without a call of set_fit_request.
    __metadata_request__fit = {"qid": True}  # noqa: RUF012
    __metadata_request__score = {"qid": True}  # noqa: RUF012
    __metadata_request__decision_function = {"qid": True}  # noqa: RUF012

    def score(self, X: Any, y: Any, sample_weight: Any = None, qid: Any = None) -> float:
        """The share of correctly ordered pairs (one minus the disagreement error) over queries.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
            Several outputs are averaged.
        sample_weight : array-like of shape (n_rows,), optional
            How much every row counts, at least 0: the weight of a pair is the product of its rows'
            weights, and all queries count the same. None: 1.
        qid : array-like of shape (n_rows,), optional
            Only rows of the same query are compared. None: all rows are compared.

        Returns
        -------
        float
            1 for a perfect order, about 0.5 for a random one. Tied scores count half. Queries
            without two different labels are ignored.

        Warns
        -----
        RankwiseWarning
            If there is no qid although the ranker was fitted on several queries, or although the
            labels of 50 rows or more look like the grades of documents in queries: whole numbers
            from 0 to 30, of more than two values. scikit-learn's tools pass qid on only if
            metadata routing is enabled. For one ranking of graded rows, pass the same qid for all
            rows.
        """
        from rankwise.metrics.ranking_metrics import disagreement_error, weighted_concordance

        warned = qid is None and warn_without_queries(self, y)
        with speaking_for_parts() if warned else nullcontext():  # one warning is enough
            predicted = self._predict_queries(X, qid)
        scores, labels = (_columns(to_host(values)) for values in (predicted, y))
        qid = to_host(qid)
        if scores.shape != labels.shape:
            raise DataError(
                f"y must have {len(scores)} rows and {scores.shape[1]} columns, like the "
                f"predictions: got {len(labels)} rows and {labels.shape[1]} columns."
            )
        columns = list(zip(labels.T, scores.T, strict=True))
        if sample_weight is None:
            return 1.0 - float(np.mean([disagreement_error(y, f, qid) for y, f in columns]))
        weights = check_row_weights(sample_weight, len(labels))
        return float(np.mean([weighted_concordance(y, f, qid, weights) for y, f in columns]))

    def decision_function(self, X: Any, *, qid: Any = None) -> Any:
        """The scores of `predict`, for scikit-learn's scorers of two classes, such as "roc_auc".

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)
        qid : array-like of shape (n_rows,), optional
            As for `predict`; it has no effect on rankers whose `predict` takes no qid.

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_outputs)
        """
        return self._predict_queries(X, qid)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Parameters that did not exist when the state was stored get their defaults."""
        defaults = default_parameters(type(self))
        super().__setstate__(defaults | state)  # type: ignore[misc]

    def _predict_queries(self, X: Any, qid: Any) -> Any:
        """Scores of rows, by a ranker that may not need their queries."""
        return self.predict(X)


def warn_without_queries(ranker: Any, y: Any) -> bool:
    """Warn of a score without qid, if rows seem to belong to queries; whether it did."""
    name, n_queries = type(ranker).__name__, getattr(ranker, "n_queries_", 1)
    if n_queries > 1:
        seen = f"{name} was fitted on {n_queries} queries, but no qid reached score"
    else:
        from rankwise.metric_names import are_grades

        labels = np.asarray(to_host(y))
        if len(labels) < MANY_ROWS or not are_grades(labels) or len(np.unique(labels)) <= 2:
            return False
        seen = f"{name} was fitted to one ranking, and no qid reached score, but y has grades"
    warn(
        f"{seen}: all rows are compared with each other. Pass qid=, one id per row. Pipelines and "
        "scikit-learn's searches pass it on only after "
        "sklearn.set_config(enable_metadata_routing=True); "
        "rankwise.model_selection.cross_validate and RankingSearchCV always do. Groups of a "
        "splitter, as in groups=, do not reach the ranker."
    )
    return True


def _columns(values: Any) -> Any:
    """Values with a second axis for outputs."""
    array = np.asarray(values)
    return array.reshape(len(array), -1)


def on_features(basis: Any, solution: Any, scaling: Any) -> tuple[Any, Any]:
    """A linear function of standardized features as one of the features, which has no scaling.

    If the loss is on pairs, this moves all scores by a constant. Other solutions stay as they are.
    """
    if basis.linear and isinstance(scaling, ColumnStandard):
        return unscaled_solution(solution, scaling.mean, scaling.deviation), None
    return solution, scaling


def predicted_scores(basis: Any, X: Any, weights: Array, intercept: Array | float) -> Any:
    """Scores of validated rows, on the device of the rows and in their dtype."""
    with np.errstate(over="ignore", invalid="ignore"):  # `in_dtype` checks for overflow
        scores = basis.products(X, weights)
        if not isinstance(intercept, float):
            intercept = backend_of(X).array(intercept)
        return returned_scores(X, scores + intercept)


def returned_scores(X: Any, scores: Array) -> Any:
    """Scores on the device of the rows X and in their dtype."""
    return in_dtype(to_host(scores) if is_sent(X) else scores, X.dtype)


def in_dtype(scores: Array, dtype: Any) -> Any:
    """Scores in another dtype; raise an error if they are not finite."""
    on = backend_of(scores)
    with np.errstate(over="ignore", invalid="ignore"):  # checked below
        cast = on.cast(scores, dtype)
    if not on.is_finite(cast):
        if cast.dtype == on.xp.float32:
            raise DataError("The scores overflow float32: pass X as float64.")
        raise DataError(
            "The scores are not finite: scale the rows as the training rows were scaled, for "
            "example in a pipeline with a scaler. If that does not help, the weights of the model "
            "are not finite: fit it again."
        )
    return cast


class _Callable(Rule):
    """A function of two rows, or a kernel of scikit-learn's Gaussian processes."""

    def allows(self, value: Any) -> bool:
        return callable(value)

    def __str__(self) -> str:
        return "a callable"


ALPHA = AnyOf(Number(0), Choice("auto"))

KERNEL_PARAMETERS: dict[str, Rule] = {
    "kernel": AnyOf(Choice(*KERNELS, "precomputed"), _Callable()),
    "gamma": AnyOf(None, Choice("scale"), Number(0, open_low=True)),
    "degree": Number(),
    "coef0": Number(),
    "scale": AnyOf(None, Choice("auto", *SCALINGS)),
}


SOLVER_PARAMETERS: dict[str, Rule] = {
    "solver": Choice("auto", "primal", "dual", "cg"),
    "tol": Number(0, 1, open_low=True, open_high=True),
    "max_iter": Whole(1, 2**31 - 1),
}

MONOTONE_PARAMETERS: dict[str, Rule] = {"monotone": AnyOf(None, Monotone())}

LOSS_PARAMETERS: dict[str, Rule] = {
    "ties": Choice("include", "exclude"),
    "weighting": Choice("pairs", "rows", "queries"),
}


def make_kernel(ranker: Any, n_features: int) -> Kernel:
    """The kernel of a ranker, whose parameters have the same meaning as in KernelRidge.

    For gamma="scale", `gamma_` is the value, once the training rows are known.
    """
    kernel = ranker.kernel
    if callable(kernel):
        # Kernels of rankwise and of scikit-learn take whole arrays, other functions two rows.
        takes_arrays = hasattr(kernel, "diag")
        # A copy, so that later changes to the user's kernel do not reach the fitted ranker.
        return clone(kernel, safe=False) if takes_arrays else PairFunction(kernel)
    if kernel == "precomputed":
        return Precomputed()
    gamma = ranker.gamma
    if gamma is None:
        gamma = 1.0 / n_features
    elif gamma == "scale":
        gamma = getattr(ranker, "gamma_", 1.0)
    return NamedKernel(kernel, gamma=float(gamma), degree=ranker.degree, coef0=ranker.coef0)


def landmark_choice(ranker: Any, kernel: Kernel, default: str | None = None) -> LandmarkChoice:
    """The landmarks of a ranker, whose kernel must allow them; `default` replaces None."""
    check_for_landmarks(kernel)
    landmarks = default if ranker.landmarks is None else ranker.landmarks
    names = getattr(ranker, "feature_names_in_", None)
    return LandmarkChoice.of(landmarks, ranker.n_landmarks, names)


class LeastSquaresRanker(RankerMixin, BaseEstimator, ABC):
    """A ranker that minimizes a squared loss plus alpha |f|^2.

    A subclass stores its parameters, lists their rules in `parameters`, and makes a loss and a
    space from them. This is sufficient for exact hold-outs, searches, model files and the command
    line.
    """

    alpha: Any
    ties: str
    weighting: str
    #: Defaults for rankers without these parameters.
    kernel: Any = None
    gamma: Any = None
    scale: Any = None
    device: Any = None

    #: A rule for each parameter; see `rankwise.parameters`.
    parameters: ClassVar[Mapping[str, Rule]]
    #: Whether rows may have weights; see `RowWeightsMixin`.
    takes_row_weights: ClassVar[bool] = False
    #: Whether a search may use exact hold-outs instead of refits.
    exact_search: ClassVar[bool] = True

    @property
    def takes_monotone(self) -> bool:
        """Whether features may be monotone with these parameters."""
        return False

    # Routing, as in `RankerMixin`: rankers that scale within queries need qid to predict.
    __metadata_request__fit = {"query_weight": True}  # noqa: RUF012
    __metadata_request__predict = {"qid": True}  # noqa: RUF012

    def make_loss(self) -> Loss:
        """The loss that the parameters describe: by default, of the pairs that count."""
        return PairLoss(self.ties, self.weighting)

    @abstractmethod
    def make_space(self, n_features: int) -> Space:
        """The space that the parameters describe, for rows with this many features."""

    def space_of(self, X: Any) -> Space:
        """The space for these rows, or an error that explains why it cannot take them.

        Parameters
        ----------
        X : array, sparse or tensor of shape (n_rows, n_features)
            Validated and scaled rows.

        Returns
        -------
        rankwise.problem.Space
        """
        name = type(self).__name__
        try:
            space = self.make_space(X.shape[1])
        except MemoryError as error:
            raise KernelSizeError(
                f"{name} needs more memory than there is for {X.shape[1]:,} features: {error}. "
                "Keep fewer features, or use RankRLS, which takes many sparse ones."
            ) from error
        if is_sparse(as_given(X)) and not space.takes_sparse:
            raise DataError(
                f"{name} takes dense rows only, and got sparse ones: pass X.toarray() if it fits "
                f"in memory, or use RankRLS. ({type(space).__name__} does not declare "
                "takes_sparse = True.)"
            )
        return space

    def make_problem(
        self,
        X: Any,
        y: Any,
        *,
        qid: Any = None,
        query_weight: Any = None,
        sample_weight: Any = None,
    ) -> Problem:
        """Validate parameters and data, and make a problem from them.

        This is the first half of `fit`, and the first step of exact hold-outs. Like `fit`, it
        resets the ranker.

        Parameters
        ----------
        X, y, qid, query_weight
            As for `fit`.
        sample_weight : array-like of shape (n_rows,), optional
            As for `fit` of rankers that take weights of rows, such as `RankRLS`.

        Returns
        -------
        rankwise.problem.Problem
        """
        weights = {"query_weight": query_weight, "sample_weight": sample_weight}
        return self.prepare(X, y, qid, try_scalings=False, **weights)[0]

    def prepare(
        self,
        X: Any,
        y: Any,
        qid: Any,
        *,
        query_weight: Any = None,
        sample_weight: Any = None,
        try_scalings: bool = True,
    ) -> tuple[Problem, AlphaChoice | None]:
        """The problem of `make_problem`, and its choice of alpha if scalings were tried.

        With `try_scalings`, ``scale="auto"`` may choose a scaling of linear features by held-out
        queries. In hold-outs it does not: their scores would depend on the choice.
        """
        check_parameters(self, self.parameters)
        self.check_takes(sample_weight)
        qid = to_host(qid)
        X, y = check_training(self, X, y)
        loss = self.make_loss()
        if query_weight is not None and loss.has_intercept:
            raise ParameterError(
                f"{type(self).__name__} fits single rows and takes no query_weight: it weights the "
                "pairs of queries, as in RankRLS."
            )
        groups = query_groups(qid, X.shape[0], query_weight)
        kept = None
        if sample_weight is not None:
            kept = KeptRows.of(self, sample_weight, groups)
            groups, (X, y, qid) = kept.groups, kept.of_training(self, X, y, qid)
        tasks = loss.tasks(y, groups)
        self.n_queries_ = groups.n_groups
        n_pairs = [task.n_learnable for task in tasks]
        loss.check_learnable(n_pairs, X.shape[0], self.n_queries_)
        with blas_threads_for(X.shape[0]):
            X, choice = scale_training(
                self,
                X,
                groups,
                has_queries=qid is not None,
                y=y,
                of_linear=try_scalings and not loss.has_intercept,
            )
        space = self.space_of(X)
        if kept is not None:
            space = space.for_rows(kept.rows, kept.n_rows)
        return Problem(X, tasks, loss, space, qid), choice

    def check_takes(self, sample_weight: Any) -> None:
        """Refuse weights of rows if the ranker does not support them."""
        if sample_weight is not None and not self.takes_row_weights:
            raise ParameterError(
                f"{type(self).__name__} takes no sample_weight: use a ranker whose fit has it, "
                "such as RankRLS."
            )

    @explain_calls
    def fit(self, X: Any, y: Any, *, qid: Any = None, query_weight: Any = None) -> Self:
        """Fit to scored rows. A fit that fails leaves the ranker unfitted.

        Parameters
        ----------
        X : array-like, sparse or tensor of shape (n_rows, n_features)
            With ``kernel="precomputed"``, the kernel matrix of the rows. Tensors are processed on
            their device, and the fitted arrays are tensors there.
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
            Scores, higher is better. Several outputs take little more time than one.
        qid : array-like of shape (n_rows,), optional
            The query of every row, as integers or text, in any order. None: one global ranking. A
            loss on single rows (RLS, SparseRLS, KPCR) does not depend on it.
        query_weight : array-like of shape (n_rows,), optional
            How much the query of every row counts: it multiplies the weights of the query's pairs.
            Above 0, and the same for all rows of a query; not for losses on single rows. None: 1.

        Returns
        -------
        self
        """
        return self.fit_problem(*self.prepare(X, y, qid, query_weight=query_weight))

    def fit_problem(self, problem: Problem, choice: AlphaChoice | None = None) -> Self:
        """Choose alpha if it is "auto", solve a problem, and store the solution.

        This is the second half of `fit`.

        Parameters
        ----------
        problem : rankwise.problem.Problem
        choice : AlphaChoice, optional
            The choice of alpha that `prepare` returned.

        Returns
        -------
        self
        """
        if self.alpha == "auto":
            from rankwise.holdout.alpha_choice import choose_alpha  # compiles loops

            problem = problem.settled()
            choice = choice or choose_alpha(problem)
        alpha = float(self.alpha) if choice is None else choice.alpha
        fit = problem.solve([alpha])
        self.set_fitted(*only_solution(fit, problem.X))
        warn_of_steps(self, fit)
        warn_of_scales(self, problem.X)
        shared = problem.space.shared_by_comparisons  # all rows stay as they are
        if not problem.has_comparisons:
            shared = shared_by_choice(self, problem.space)
        return self.set_alpha(alpha, choice, shared)

    def set_alpha(
        self, alpha: float, choice: AlphaChoice | None = None, shared: tuple[str, ...] = ()
    ) -> Self:
        """Store the alpha of the fitted model and, if it was chosen, its curve.

        Parameters
        ----------
        alpha : float
        choice : rankwise.holdout.alpha_choice.AlphaChoice, optional
        shared : tuple of str
            What was computed from all rows, held-out ones included; see `HeldOutScores`.

        Returns
        -------
        self
        """
        self.alpha_ = alpha
        for name in ("preference_slope_", "n_comparisons_"):  # of an earlier fit to comparisons
            self.__dict__.pop(name, None)
        if choice is not None:
            curve = choice.curve
            self.alpha_curve_ = None if curve is None else replace(curve, shared=shared)
            if choice.curve is not None and choice.curve.rises_at_end:
                warn_of_end(choice.curve)
        return self

    def path(
        self,
        X: Any,
        y: Any,
        alphas: Any = None,
        *,
        qid: Any = None,
        query_weight: Any = None,
        sample_weight: Any = None,
    ) -> RegularizationPath:
        """Rankers for many values of alpha, at little more than the cost of one.

        They share the moments or the kernel matrix. Up to five alphas need a Cholesky
        factorization each. More than five share one reduction, which costs about as much as five
        factorizations (on a GPU, more than 40 share an eigendecomposition). For up to 200 features
        (or landmarks, or rows in the dual), all alphas share one eigendecomposition.

        Parameters
        ----------
        X, y, qid, query_weight, sample_weight
            As for `fit`. Rankers whose `fit` takes no `sample_weight` refuse it.
        alphas : sequence of float, optional
            Values to use in place of the parameter `alpha`. None: a grid that follows the scale of
            the data, the one that ``alpha="auto"`` uses.

        Returns
        -------
        RegularizationPath
            Scores and rankers for each alpha. This ranker itself is not fitted.
        """
        if alphas is not None:
            check_alphas(alphas)
        template = clone(self)
        problem = template.make_problem(
            X, y, qid=qid, query_weight=query_weight, sample_weight=sample_weight
        )
        return template.path_of_problem(problem, alphas)

    def path_of_problem(self, problem: Problem, alphas: Any = None) -> RegularizationPath:
        """Solve a problem that this ranker has made for many values of alpha.

        This is the second half of `path`.

        Parameters
        ----------
        problem : rankwise.problem.Problem
        alphas : sequence of float, optional

        Returns
        -------
        RegularizationPath
        """
        given = None if alphas is None else check_alphas(alphas)
        if given is None:
            from rankwise.holdout.alpha_choice import data_alphas  # compiles loops

            problem = problem.settled()
        values = data_alphas(problem) if given is None else given
        fit = problem.solve(values.tolist())
        warn_of_steps(self, fit)
        return RegularizationPath.of(values, self, fit, problem.X)

    def predict(self, X: Any, *, qid: Any = None) -> Any:
        """Scores of rows: higher is better.

        Parameters
        ----------
        X : array-like, sparse or tensor of shape (n_rows, n_features)
            With ``kernel="precomputed"``, kernel values with all training rows.
        qid : array-like of shape (n_rows,), optional
            The query of every row, if the ranker scales within queries (see `scale_`). None: the
            rows belong to one query, with a warning if the ranker was fitted on several; pass the
            same id for all rows to say that they are one query. It has no effect on other rankers.
            Pass all rows of a query in one call: if a query is split over two calls, its scores
            differ, without an error.

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_outputs)
            In the dtype of X (float32 or float64). If X is a tensor, a tensor on its device.
        """
        check_is_fitted(self)
        X, solution = prepare_rows(self, X, qid, "predict"), self.solution_
        with blas_threads_for(X.shape[0]):
            return predicted_scores(self.basis_, X, solution.weights, solution.intercept)

    def _predict_queries(self, X: Any, qid: Any) -> Any:
        return self.predict(X, qid=qid)

    def set_fitted(self, basis: Any, solution: Any) -> Self:
        """Store a basis and a solution in it as the fitted model.

        A linear function of standardized features is stored as one of the features themselves.

        Parameters
        ----------
        basis : rankwise.problem.Basis
        solution : rankwise.problem.Solution

        Returns
        -------
        self
        """
        solution, scaling = on_features(basis, solution, getattr(self, "scaling_", None))
        self.basis_, self.solution_, self.scaling_ = basis, solution, scaling
        for name, value in basis.attributes(solution).items():
            setattr(self, name, value)
        if getattr(solution, "context", None) is not None:
            self.context_coef_ = solution.context
        if self.make_loss().has_intercept:
            self.intercept_ = solution.intercept
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what `set_fitted` derives, so that pickles and model files hold it once."""
        state: dict[str, Any] = super().__getstate__()
        if "solution_" not in state:
            return state
        derived = {"intercept_", "context_coef_", *self.basis_.attributes(self.solution_)}
        return {name: value for name, value in state.items() if name not in derived}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "solution_" in state:
            if "alpha_" not in state:  # from a version without it
                self.alpha_ = float(self.alpha)
            self.__dict__.setdefault("scale_", None)  # as before there were scalings
            self.set_fitted(self.basis_, self.solution_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "solution_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        return tags


class RowWeightsMixin(LeastSquaresRanker):
    """Adds weights of rows to a ranker."""

    takes_row_weights: ClassVar[bool] = True

    # Routing, as in `RankerMixin`.
    __metadata_request__fit = {"sample_weight": True}  # noqa: RUF012
    __metadata_request__score = {"sample_weight": True}  # noqa: RUF012

    @explain_calls
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        qid: Any = None,
        query_weight: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Fit to scored rows. A fit that fails leaves the ranker unfitted.

        Parameters
        ----------
        X : array-like, sparse or tensor of shape (n_rows, n_features)
            With ``kernel="precomputed"``, the kernel matrix of the rows. Tensors are processed on
            their device, and the fitted arrays are tensors there.
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
            Scores, higher is better. Several outputs take little more time than one.
        qid : array-like of shape (n_rows,), optional
            The query of every row, as integers or text, in any order. None: one global ranking. A
            loss on single rows (RLS, SparseRLS) does not depend on it.
        query_weight : array-like of shape (n_rows,), optional
            How much the query of every row counts: it multiplies the weights of the query's pairs.
            Above 0, and the same for all rows of a query; not for losses on single rows. None: 1.
        sample_weight : array-like of shape (n_rows,), optional
            How much every row counts, at least 0. The weight of a pair is the product of the
            weights of its rows; in a loss on single rows, the squared error of a row is multiplied
            by its weight. Rows of weight 0 are left out. None: 1. See Notes.

        Returns
        -------
        self

        Notes
        -----
        A row of weight 3 is the same as three copies of it, at a fixed alpha. With
        ``weighting="rows"``, pairs are divided by the sum of the weights of the query's rows
        instead of their number; with ``weighting="queries"``, by the sum of the weights of its
        pairs. With "queries" and ``ties="include"``, copies of a row would also count as pairs.
        ``scale="standard"`` and ``gamma="scale"`` use weighted means and variances; scalings within
        queries and the choice of landmarks do not depend on weights.

        ``alpha="auto"`` holds out whole queries, as without weights. In one ranking and in
        regressions, it holds out up to five parts of the rows (or of the queries), one after the
        other. Held-out rows are scored without weights.
        """
        weights = {"query_weight": query_weight, "sample_weight": sample_weight}
        return self.fit_problem(*self.prepare(X, y, qid, **weights))


@dataclass(frozen=True, repr=False, eq=False)
class RegularizationPath:
    """A ranker for many values of alpha, as returned by ``path``.

    Attributes
    ----------
    alphas : ndarray of shape (n_alphas,)
    template : estimator
        The ranker, with all attributes that do not depend on alpha.
    fit : rankwise.problem.Fit
        The basis, and a solution for each alpha.
    """

    alphas: Array
    template: LeastSquaresRanker
    fit: Fit

    @classmethod
    def of(
        cls, alphas: Array, template: LeastSquaresRanker, fit: Fit, X: Any
    ) -> RegularizationPath:
        """A path with arrays on the device of the training rows X."""
        solutions = [returned(solution, X) for solution in fit.solutions]
        return cls(alphas, template, Fit(returned(fit.basis, X), solutions))

    def __len__(self) -> int:
        return len(self.alphas)

    def __repr__(self) -> str:
        return f"RegularizationPath({self.template!r}, {len(self)} alphas)"

    def coefficients(self) -> Array:
        """The coefficients of a linear ranker with one output, shape (n_alphas, n_features)."""
        found = [to_host(getattr(self.estimator(i), "coef_", None)) for i in range(len(self))]
        if found[0] is None or found[0].ndim != 1:
            raise DataError(
                "A path of coefficients needs one coefficient per feature: use the linear kernel, "
                "and y with one column."
            )
        return np.array(found, dtype=np.float64)

    def to_frame(self) -> Any:
        """The `coefficients` as a pandas frame: a row for each alpha, a column for each feature."""
        pandas, coefs = require_pandas("coefficients()"), self.coefficients()
        names = getattr(self.template, "feature_names_in_", None)
        n = coefs.shape[1]  # of functions of the features, there may be more coefficients
        columns = names if names is not None and len(names) == n else [f"x{j}" for j in range(n)]
        index = pandas.Index(self.alphas, name="alpha")
        return pandas.DataFrame(coefs, index=index, columns=columns)

    def plot(self, **options: Any) -> Axes:
        """Draw the coefficients; see `rankwise.plots.plot_coefficient_path` for the options."""
        from rankwise.plots import plot_coefficient_path

        return plot_coefficient_path(self, **options)

    def predict(self, X: Any, *, qid: Any = None) -> Any:
        """Scores for every alpha, shape (n_alphas, n_rows) or (n_alphas, n_rows, n_outputs).

        All alphas share one product, so kernel values are computed once. `qid` is needed for
        rankers that scale within queries.
        """
        basis, ranker = self.fit.basis, copy(self.template)
        unscaled = [on_features(basis, each, ranker.scaling_) for each in self.fit.solutions]
        solutions, ranker.scaling_ = [solution for solution, _ in unscaled], unscaled[0][1]
        X = prepare_rows(ranker, X, qid, "predict")
        weights = [solution.weights for solution in solutions]
        outputs = tuple(weights[0].shape[1:])
        intercepts = [np.broadcast_to(to_host(s.intercept), outputs) for s in solutions]
        scores = predicted_scores(basis, X, side_by_side(weights), np.ravel(intercepts))
        by_alpha = scores.reshape(len(scores), len(self), *outputs)
        return backend_of(scores).xp.moveaxis(by_alpha, 1, 0)

    def estimator(self, i: int) -> LeastSquaresRanker:
        """The ranker fitted with ``alphas[i]``."""
        fitted = copy(self.template)
        fitted.alpha = fitted.alpha_ = float(self.alphas[i])
        return fitted.set_fitted(self.fit.basis, self.fit.solutions[i])


def warn_of_end(curve: HeldOutScores) -> None:
    """Warn that scores still improve at the first or last alpha."""
    end = "smallest" if curve.best_index == 0 else "largest"
    warn(
        f"alpha={curve.best_alpha:.2g} is the {end} of the {len(curve.alphas)} values that were "
        f"tried, and the held-out {metric_label(curve.metric)} still improves there. Scale the "
        "features, or try other values: RankingSearchCV(ranker, {'alpha': [...]}).",
    )


def warn_of_steps(ranker: Any, fit: Fit) -> None:
    """Warn if conjugate gradients stopped before their tolerance was reached."""
    if fit.residual is not None:
        what = "at the smallest alpha, " if len(fit.solutions) > 1 else ""
        warn(
            f"{type(ranker).__name__} stopped after {fit.n_iter} steps of conjugate "
            f"gradients. The gradient, relative to the start, is {what}{fit.residual:.1e}, above "
            f"tol={fit.tol:g}. Use a larger alpha, scale the features, or increase max_iter or "
            'tol. If there are few rows or features, use solver="primal" or "dual".',
            ConvergenceWarning,
        )


def only_solution(fit: Fit, X: Any) -> tuple[Any, Any]:
    """The basis and the only solution of a fit, on the device of the training rows X."""
    (solution,) = fit.solutions
    return returned(fit.basis, X), returned(solution, X)
