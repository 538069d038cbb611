"""MeanRanker: the mean of several rankers."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from rankwise.backends.arrays import Array, to_host
from rankwise.errors import DataError, ParameterError
from rankwise.estimators._scaling import speaking_for_parts, warn_of_queries
from rankwise.estimators._validation import forget
from rankwise.estimators.ranker_mixin import RankerMixin, explain_calls, in_dtype
from rankwise.graph import QueryGroups
from rankwise.model_selection.search.labelled_rows import LabelledRows
from rankwise.model_selection.search.refits import check_fit_and_predict, fit_with_queries
from rankwise.parameters import Number, check_value
from rankwise.routing import predict_with_queries
from rankwise.scaling import QueryStandard

ROUNDING = 1e-12  # relative to the largest score


class MeanRanker(RankerMixin, MetaEstimatorMixin, BaseEstimator):
    """The mean of the scores of several rankers, which often ranks better than each of them.

    Rankers score on different scales, so the scores of each are first brought to mean 0 and
    standard deviation 1: within each query, or, for one global ranking, by the mean and the
    standard deviation of its scores of the training rows.

    Parameters
    ----------
    rankers : list of estimators
        They are cloned, not fitted. Pipelines and the rankers of other libraries work, too, as in
        `RankingSearchCV`.
    weights : array-like of shape (n_rankers,), optional
        Weight of each ranker, 0 or more, with a positive sum. None: all have the same weight.

    Attributes
    ----------
    rankers_ : list of estimators
        The fitted rankers.
    weights_ : ndarray of shape (n_rankers,)
        Their weights, with sum 1.
    means_, scales_ : ndarray of shape (n_rankers,) or (n_rankers, n_outputs), or None
        Mean and standard deviation of the scores of the training rows by each ranker; only for one
        global ranking.
    n_queries_ : int
        Number of queries seen in `fit`.
    max_query_rows_ : int
        Number of rows of the largest of them.
    n_features_in_, feature_names_in_
        Number and names of the features seen in `fit`.

    Examples
    --------
    >>> from rankwise import MeanRanker, RankRLS, SparseRankRLS
    >>> from rankwise.data import make_ranking
    >>> data = make_ranking(n_queries=30, rows_per_query=10, n_features=5, random_state=0)
    >>> ranker = MeanRanker([RankRLS(), SparseRankRLS(n_landmarks=50, random_state=0)])
    >>> ranker.fit(data.X, data.y, qid=data.qid).predict(data.X, qid=data.qid).shape
    (300,)
    """

    __metadata_request__predict = {"qid": True}  # noqa: RUF012

    def __init__(self, rankers: Any, *, weights: Any = None) -> None:
        self.rankers = rankers
        self.weights = weights

    @explain_calls
    def fit(self, X: Any, y: Any, *, qid: Any = None) -> Self:
        """Fit all rankers to the same rows.

        Parameters
        ----------
        X : array-like, sparse or data frame of shape (n_rows, n_features)
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        qid : array-like of shape (n_rows,), optional
            The query of every row, as integers or text, in any order. None: one global ranking.

        Returns
        -------
        self
        """
        rankers, weights = self._check_parameters()
        forget(self)
        data = LabelledRows.of(X, y, qid)
        validate_data(self, X, skip_check_array=True)
        fitted = [clone(ranker) for ranker in rankers]
        for ranker in fitted:
            fit_with_queries(ranker, data.X, data.y, data.qid)
        self.n_queries_ = data.groups.n_groups
        self.max_query_rows_ = int(data.groups.sizes.max())
        self.weights_ = weights / weights.sum()
        self.means_ = self.scales_ = None
        if self.n_queries_ == 1:
            scores = np.stack([_scores(ranker, data.X, None) for ranker in fitted])
            self.means_, spread = scores.mean(axis=1), scores.std(axis=1)
            self.scales_ = np.where(spread > 0, spread, 1.0)
        self.rankers_ = fitted
        return self

    def predict(self, X: Any, *, qid: Any = None) -> Any:
        """The mean of the standardized scores: higher is better.

        Parameters
        ----------
        X : array-like, sparse or data frame of shape (n_rows, n_features)
        qid : array-like of shape (n_rows,), optional
            The query of every row. None: the rows are one query. Unless the ranker was fitted to
            one global ranking, scores of different queries are not comparable, and a query that is
            split over two calls gets other scores: pass all its rows in one call.

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_outputs)
        """
        return self.predict_as(type(self).__name__, X, qid)

    def predict_as(self, name: str, X: Any, qid: Any) -> Any:
        """The scores of `predict`, with warnings in the name of a ranker that consists of this one.

        Parameters
        ----------
        name : str
        X, qid
            As for `predict`.

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_outputs)
        """
        check_is_fitted(self, "rankers_")
        if self.means_ is None or self.scales_ is None:
            with speaking_for_parts():
                scores = self._scores_of_parts(X, qid)
            groups = QueryGroups.of(to_host(qid), scores.shape[1])
            if hasattr(self, "max_query_rows_"):  # not in files of earlier versions
                subject = f"{name} standardizes scores"
                trained = self.n_queries_, self.max_query_rows_
                warn_of_queries(subject, "predict", groups, trained, named=qid is not None)
            scores = standardized(scores, groups)
        else:
            scores = self._scores_of_parts(X, qid)
            with np.errstate(over="ignore", invalid="ignore"):  # checked below
                scores = (scores - self.means_[:, None]) / self.scales_[:, None]
        return in_dtype(np.tensordot(self.weights_, scores, axes=1), np.float64)

    def _scores_of_parts(self, X: Any, qid: Any) -> Array:
        return np.stack([_scores(ranker, X, qid) for ranker in self.rankers_])

    def _check_parameters(self) -> tuple[list[Any], Array]:
        if isinstance(self.rankers, (str, type)) or not hasattr(self.rankers, "__iter__"):
            raise ParameterError(f"rankers must be a list of rankers: got {self.rankers!r}.")
        rankers = list(self.rankers)
        for ranker in rankers:
            check_fit_and_predict("Each of rankers", ranker)
        if not rankers:
            raise ParameterError("rankers must have at least one ranker: got an empty list.")
        if self.weights is None:
            return rankers, np.ones(len(rankers))
        weights = np.asarray(self.weights)
        if weights.shape != (len(rankers),):
            raise ParameterError(
                f"weights must have one number for each of {len(rankers)} rankers: got shape "
                f"{weights.shape}."
            )
        for weight in weights.tolist():
            check_value("Each of weights", weight, Number(0))
        if not weights.any():
            raise ParameterError("weights must have a positive sum: all are 0.")
        return rankers, weights.astype(np.float64)

    def _predict_queries(self, X: Any, qid: Any) -> Any:
        return self.predict(X, qid=qid)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "rankers_")

    def __sklearn_tags__(self) -> Any:
        """Rows of a kind that all rankers accept."""
        tags = super().__sklearn_tags__()
        inner = [get_tags(ranker) for ranker in self._check_parameters()[0]]
        tags.input_tags.sparse = all(each.input_tags.sparse for each in inner)
        tags.input_tags.allow_nan = all(each.input_tags.allow_nan for each in inner)
        tags.input_tags.pairwise = any(each.input_tags.pairwise for each in inner)
        tags.target_tags.multi_output = all(each.target_tags.multi_output for each in inner)
        tags.target_tags.required = True
        return tags


def standardized(scores: Array, groups: QueryGroups) -> Array:
    """Scores with mean 0 and standard deviation 1 within each query; 0 if they are all equal.

    Parameters
    ----------
    scores : ndarray of shape (n_rankers, n_rows) or (n_rankers, n_rows, n_outputs)
    groups : QueryGroups

    Returns
    -------
    ndarray of the same shape
    """
    by_row = np.moveaxis(np.asarray(scores, dtype=np.float64), 1, 0)
    columns = by_row.reshape(len(by_row), -1)
    scaled = QueryStandard().scale(columns, groups)
    # Differences of the size of rounding errors are none: without this, they would be scaled up.
    starts, sorted_rows = groups.indptr[:-1], columns[groups.order]
    span = np.maximum.reduceat(sorted_rows, starts) - np.minimum.reduceat(sorted_rows, starts)
    equal = span <= ROUNDING * np.abs(columns).max(axis=0)
    scaled[equal[groups.codes]] = 0.0
    return np.ascontiguousarray(np.moveaxis(scaled.reshape(by_row.shape), 0, 1))


def _scores(ranker: Any, X: Any, qid: Any) -> Array:
    scores = np.asarray(to_host(predict_with_queries(ranker, X, qid)), dtype=np.float64)
    if not np.isfinite(scores).all():
        row = int(np.argmin(np.isfinite(scores.reshape(len(scores), -1)).all(axis=1)))
        raise DataError(f"The score of row {row} by {type(ranker).__name__} is not finite.")
    return scores
