"""The base class of all rankers, their scores, and errors about how they are called."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from inspect import signature
from typing import Any, TypeVar

import numpy as np
from sklearn.base import clone

from rankwise.backends.arrays import Array, to_host
from rankwise.backends.dispatch import backend_of, is_sent
from rankwise.errors import DataError, warn
from rankwise.graph.label_checks import check_row_weights
from rankwise.kernels import KERNELS, Kernel, NamedKernel, PairFunction, Precomputed
from rankwise.parameters import (
    AnyOf,
    Choice,
    Number,
    OptionsMixin,
    Rule,
    Whole,
    default_parameters,
)
from rankwise.scaling import SCALINGS

Function = TypeVar("Function", bound=Callable[..., Any])

MANY_ROWS = 50  # with fewer, grades may well belong to one ranking
# By name, and imported when skl2onnx asks: rankers do not depend on what is made of them.
CONVERTER = "rankwise.export.skl2onnx_converter"
# What other libraries call the queries of rows, as sizes or as ids.
SIZES = ("group", "group_sizes", "query_sizes")
IDS = ("groups", "group_id", "group_ids", "qids", "query", "query_id", "query_ids", "queries")
METRIC = ("metric", "scoring")


def explain_calls(function: Function) -> Function:
    """A function or method that explains what to do if it is called with unknown arguments.

    Queries are often passed by position, as group sizes, or under another name.
    """
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

        if qid is None:
            warn_without_queries(self, y)
        scores, labels = (
            _columns(to_host(values)) for values in (self._predict_queries(X, qid), y)
        )
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

    def decision_function(self, X: Any) -> Any:
        """The scores of `predict`, for scikit-learn's scorers of two classes, such as "roc_auc".

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_outputs)
        """
        return self.predict(X)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Parameters that did not exist when the state was stored get their defaults."""
        defaults = default_parameters(type(self))
        super().__setstate__(defaults | state)  # type: ignore[misc]

    def _predict_queries(self, X: Any, qid: Any) -> Any:
        """Scores of rows, by a ranker that may not need their queries."""
        return self.predict(X)


def warn_without_queries(ranker: Any, y: Any) -> None:
    """Warn of a score without qid, if rows seem to belong to queries."""
    name, n_queries = type(ranker).__name__, getattr(ranker, "n_queries_", 1)
    if n_queries > 1:
        seen = f"{name} was fitted on {n_queries} queries, but no qid reached score"
    else:
        from rankwise.metrics.ranking_scorer import are_grades

        labels = np.asarray(to_host(y))
        if len(labels) < MANY_ROWS or not are_grades(labels) or len(np.unique(labels)) <= 2:
            return
        seen = f"{name} was fitted to one ranking, and no qid reached score, but y has grades"
    warn(
        f"{seen}: all rows are compared with each other. Pass qid=, one id per row. Pipelines and "
        "scikit-learn's searches pass it on only after "
        "sklearn.set_config(enable_metadata_routing=True); "
        "rankwise.model_selection.cross_validate and RankingSearchCV always do. Groups of a "
        "splitter, as in groups=, do not reach the ranker."
    )


def _columns(values: Any) -> Any:
    """Values with a second axis for outputs."""
    array = np.asarray(values)
    return array.reshape(len(array), -1)


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


class _Callable:
    """A function of two rows, or a kernel of scikit-learn's Gaussian processes."""

    def allows(self, value: Any) -> bool:
        return callable(value)

    def hint(self, value: Any) -> str:
        return ""

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
        # scikit-learn's Gaussian process kernels take whole arrays, other functions two rows.
        takes_arrays = hasattr(kernel, "diag") and hasattr(kernel, "is_stationary")
        # A copy, so that later changes to the user's kernel do not reach the fitted ranker.
        return clone(kernel) if takes_arrays else PairFunction(kernel)
    if kernel == "precomputed":
        return Precomputed()
    gamma = ranker.gamma
    if gamma is None:
        gamma = 1.0 / n_features
    elif gamma == "scale":
        gamma = getattr(ranker, "gamma_", 1.0)
    return NamedKernel(kernel, gamma=float(gamma), degree=ranker.degree, coef0=ranker.coef0)
