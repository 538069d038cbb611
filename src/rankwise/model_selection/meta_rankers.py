"""Rankers made of other rankers: MeanRanker, the choice of its parts, and GroupedRanker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from rankwise.backends.arrays import Array, Index, to_host
from rankwise.data.query_rows import qid_from_groups
from rankwise.errors import DataError, ParameterError
from rankwise.estimators.base import RankerMixin, explain_calls, in_dtype
from rankwise.estimators.ranker_rows import (
    forget,
    scales_within_queries,
    speaking_for_parts,
    warn_of_queries,
)
from rankwise.graph import QueryGroups
from rankwise.holdout.scores import standard_errors
from rankwise.metric_names import Metric, Undefined, get_metric, metric_label
from rankwise.model_selection.rows import (
    LabelledRows,
    as_rows,
    check_fit_and_predict,
    fit_with_queries,
)
from rankwise.model_selection.trials import RowTrials, unit_codes
from rankwise.parameters import Whole, check_alphas, check_value
from rankwise.routing import predict_with_queries
from rankwise.scaling import QueryStandard
from rankwise.tables import TableMixin

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROUNDING = 1e-12  # relative to the largest score


@dataclass(eq=False, repr=False)
class MeanRanker(RankerMixin, MetaEstimatorMixin, BaseEstimator):
    """The mean of the scores of several rankers, which often ranks better than each of them.

    Rankers score on different scales, so the scores of each are first brought to mean 0 and
    standard deviation 1: within each query, or, for one global ranking, by the mean and the
    standard deviation of its scores of the training rows.

    Parameters
    ----------
    rankers : list of estimators
        They are cloned, not fitted. Pipelines and the rankers of other libraries also work, as in
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

    rankers: Any
    _: KW_ONLY
    weights: Any = None

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
        return self.fit_parts(_fitted_clone, X, y, qid)

    def fit_parts(
        self, fitted_part: Callable[[int, Any, LabelledRows], Any], X: Any, y: Any, qid: Any
    ) -> Self:
        """Fit as `fit` does, with a function that fits the rankers.

        Parameters
        ----------
        fitted_part : callable
            Called with the number of a ranker, the ranker, and the rows; returns a fitted ranker.
        X, y, qid
            As for `fit`.

        Returns
        -------
        self
        """
        rankers, weights = self._check_parameters()
        forget(self)
        data = LabelledRows.of(X, y, qid)
        validate_data(self, X, skip_check_array=True)
        fitted = [fitted_part(k, ranker, data) for k, ranker in enumerate(rankers)]
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
            The query of every row. None: the rows are one query, with a warning if the ranker was
            fitted on several; pass the same id for all rows to say that they are one query. Unless
            the ranker was fitted to one global ranking, scores of different queries are not
            comparable, and splitting a query over two calls changes its scores: pass all its rows
            in one call.

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_outputs)
        """
        return self.predict_as(type(self).__name__, X, qid)

    def predict_as(self, name: str, X: Any, qid: Any) -> Any:
        """The scores of `predict`, with warnings in the name of a ranker that contains this one.

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
                warn_of_queries(self, "predict", groups, named=qid is not None, subject=subject)
            scores = standardized(scores, groups)
        else:
            scores = self._scores_of_parts(X, qid)
            with np.errstate(over="ignore", invalid="ignore"):  # checked below
                scores = (scores - self.means_[:, None]) / self.scales_[:, None]
        return in_dtype(np.tensordot(self.weights_, scores, axes=1), np.float64)

    def _scores_of_parts(self, X: Any, qid: Any) -> Array:
        return np.stack([_scores(ranker, X, qid) for ranker in self.rankers_])

    def _check_parameters(self) -> tuple[list[Any], Array]:
        is_list = hasattr(self.rankers, "__iter__") and not isinstance(self.rankers, (str, type))
        rankers = list(self.rankers) if is_list else []
        if not rankers:
            raise ParameterError(f"rankers must be a list of rankers: got {self.rankers!r}.")
        for ranker in rankers:
            check_fit_and_predict("Each of rankers", ranker)
        n = len(rankers)
        weights = np.asarray(np.ones(n) if self.weights is None else self.weights)
        if weights.shape != (n,) or not (weights >= 0).all() or not 0 < weights.sum() < np.inf:
            raise ParameterError(
                f"weights must be {n} numbers of at least 0, one for each ranker, with a positive "
                f"sum: got {self.weights!r}."
            )
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


def _fitted_clone(k: int, ranker: Any, data: LabelledRows) -> Any:
    fitted = clone(ranker)
    fit_with_queries(fitted, data.X, data.y, data.qid)
    return fitted


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


ALPHAS = np.geomspace(1e-3, 1e5, 17)


@dataclass(eq=False, repr=False)
class GroupedRanker(MetaEstimatorMixin, BaseEstimator):
    """A ranker that is called like LightGBM's rankers: ``fit(X, y, group=counts)``.

    Tools that were written for LightGBM and XGBoost, such as PyTerrier's
    ``pt.ltr.apply_learned_model(GroupedRanker(RankRLS(scale="standard")), form="ltr")``, pass the
    number of rows of each query to `fit`, and rows of many queries without their ids to `predict`.
    The ranker must therefore not scale features or scores within queries.

    Parameters
    ----------
    ranker : estimator
        A ranker of rankwise, or a pipeline with one.
    metric : str, default="ndcg@10"
        With `eval_set`: the metric by which alpha is chosen.
    alphas : array-like, optional
        With `eval_set`: the values to choose from. None: 17 values from 1e-3 to 1e5.

    Attributes
    ----------
    ranker_ : estimator
        The fitted ranker.
    qid_ : ndarray of shape (n_rows,)
        The queries that the group sizes stand for: 0, 1, and so on.
    evals_ : ndarray of shape (n_alphas,) or None
        The metric on the evaluation rows at each alpha, if there were such rows.

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.model_selection import GroupedRanker
    >>> X, y = [[0.0], [1.0], [2.0], [1.0], [5.0]], [0, 1, 2, 0, 1]
    >>> ranker = GroupedRanker(RankRLS(1.0, scale="standard")).fit(X, y, group=[3, 2])
    >>> ranker.qid_
    array([0, 0, 0, 1, 1])
    >>> ranker.predict([[0.0], [3.0]]).argsort()
    array([0, 1])
    """

    ranker: Any
    _: KW_ONLY
    metric: str = "ndcg@10"
    alphas: Any = None

    def fit(
        self,
        X: Any,
        y: Any,
        group: Any = None,
        *,
        eval_set: Any = None,
        eval_group: Any = None,
    ) -> Self:
        """Fit the ranker; with evaluation rows, at the alpha that ranks these best.

        Parameters
        ----------
        X : array-like, sparse or data frame of shape (n_rows, n_features)
            The rows of each query follow each other.
        y : array-like of shape (n_rows,)
        group : array-like of shape (n_queries,)
            The number of rows of each query.
        eval_set : list with one pair (X, y), optional
        eval_group : list with one array of group sizes, optional

        Returns
        -------
        self
        """
        qid = _queries(group, as_rows(X).shape[0], "group", "X")
        ranker = clone(self.ranker)
        self.evals_: Any = None
        if eval_set is None and eval_group is None:
            fit_with_queries(ranker, X, y, qid)
        else:
            ranker = self._chosen(ranker, X, y, qid, eval_set, eval_group)
        if is_within_queries(ranker):
            raise ParameterError(
                "The ranker scales features or scores within queries, but predict gets rows "
                'without queries here: use a ranker with scale="standard" or scale=None.'
            )
        self.ranker_, self.qid_ = ranker, qid
        return self

    def _chosen(self, ranker: Any, X: Any, y: Any, qid: Any, eval_set: Any, eval_group: Any) -> Any:
        """The ranker with the alpha that is best on the evaluation rows."""
        if not hasattr(ranker, "path"):
            raise ParameterError(
                f"{type(ranker).__name__} has no alpha to choose on an eval_set: leave it out."
            )
        if any(each is None or len(each) != 1 for each in (eval_set, eval_group)):
            raise ParameterError("Give eval_set and eval_group together, with one entry each.")
        (new, labels), sizes = eval_set[0], eval_group[0]
        queries = _queries(sizes, as_rows(new).shape[0], "eval_group", "eval_set")
        metric, greater_is_better = get_metric(self.metric)
        alphas = check_alphas(ALPHAS if self.alphas is None else self.alphas)
        path = ranker.path(X, y, alphas, qid=qid)
        scores = path.predict(new, qid=queries)
        values = np.array([metric(labels, each, queries) for each in scores])
        self.evals_ = values
        best = values.argmax() if greater_is_better else values.argmin()
        return path.estimator(int(best))

    def predict(self, X: Any) -> Any:
        """Scores of rows, of any queries: higher is better within a query.

        Parameters
        ----------
        X : array-like, sparse or data frame of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        check_is_fitted(self)
        return self.ranker_.predict(X)


def _queries(sizes: Any, n_rows: int, name: str, rows: str) -> Any:
    if sizes is None:
        raise DataError(f"{name} is missing: the number of rows of each query, as in [10, 8, 12].")
    qid = qid_from_groups(sizes)
    if len(qid) != n_rows:
        raise DataError(f"{name} adds up to {len(qid)}, but {rows} has {n_rows} rows.")
    return qid


MARGIN = 0.05  # of the best score, or of its distance from 1: less is not worth leaving out
FOLDS = 10  # of queries, for the estimate
_TOGETHER = 2**16  # rows for which a metric is computed at once
FEWEST = 5  # queries or folds for an interval
FEWEST_EQUAL = 6  # queries for a clear difference if it is the same on all: 2 / 2^6 is below 5%
EQUAL = 1e-9  # relative standard error of differences that are the same up to rounding


@dataclass(frozen=True)
class ScoreEstimate:
    """The score that a chosen mean can be expected to have on new queries.

    Attributes
    ----------
    metric : str
    greater_is_better : bool
    score : float
        Mean over queries, each of which was scored by the mean of rankers that was chosen without
        it, with the predictions of rankers that were trained without it.
    standard_error : float
        Of `score`, over queries; NaN if there is only one.
    optimistic : float
        The score of the mean that was chosen by all queries, on the same queries.
    n_queries : int
        Queries with a score.
    unit : str
        "queries", or "folds" of the rows of one global ranking instead.

    Examples
    --------
    >>> estimate = ScoreEstimate("ndcg@10", True, 0.512, 0.01, 0.52, 100)
    >>> print(estimate)
    NDCG@10 0.5120, 95% interval 0.4922 to 0.5318 (100 queries)
    """

    metric: str
    greater_is_better: bool
    score: float
    standard_error: float
    optimistic: float
    n_queries: int
    unit: str = "queries"

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """A confidence interval of the score, by Student's t distribution.

        Parameters
        ----------
        level : float, default=0.95

        Returns
        -------
        tuple of two floats
            NaN if there are fewer than 5 queries (or folds), or if all have the same score, which
            does not show the spread of scores.
        """
        if self.n_queries < FEWEST or not self.standard_error > 0:
            return float("nan"), float("nan")
        width = float(stdtrit(self.n_queries - 1, 0.5 + level / 2)) * self.standard_error
        return self.score - width, self.score + width

    def __str__(self) -> str:
        low, high = self.interval()
        found = f"{metric_label(self.metric)} {self.score:.4f}"
        units = f"{self.n_queries:,} {self.unit}"
        if self.n_queries < FEWEST:
            return f"{found} ({units}, too few for an interval)"
        if np.isnan(low):
            return f"{found} ({units}, all with the same score: no interval)"
        return f"{found}, 95% interval {low:.4f} to {high:.4f} ({units})"

    def __repr__(self) -> str:
        return f"<ScoreEstimate: {self}>"


@dataclass(frozen=True)
class PairedDifference:
    """The mean difference of two candidates over queries, and its standard error.

    Attributes
    ----------
    difference : float
        Positive if the first is better.
    standard_error : float
        NaN if there is only one query.
    n_queries : int

    Examples
    --------
    >>> import numpy as np
    >>> gap = PairedDifference.of(np.array([0.1, 0.0, 0.2, 0.1]))
    >>> round(gap.difference, 3), round(gap.standard_error, 3), gap.is_clear
    (0.1, 0.041, False)
    >>> gap.words("This ranker", "that one", "ndcg@10")
    'This ranker is 0.1000 better than that one in NDCG@10, with a standard error of 0.0408: the \
data cannot tell them apart.'
    """

    difference: float
    standard_error: float
    n_queries: int

    @classmethod
    def of(cls, gap: Array) -> PairedDifference:
        """From the difference on each query."""
        return cls(float(gap.mean()), float(standard_errors(gap)), len(gap))

    @property
    def is_clear(self) -> bool:
        """Whether Student's t test at the level of 5% finds a difference; False for one query.

        The same difference on all queries does not show the spread of differences. It is clear from
        6 queries on, as by a sign test.
        """
        if self.n_queries < 2:
            return False
        if self.standard_error <= EQUAL * abs(self.difference):
            return self.difference != 0 and self.n_queries >= FEWEST_EQUAL
        return abs(self.difference) > clear_errors(self.n_queries) * self.standard_error

    def __repr__(self) -> str:
        gap = f"{self.difference:.4f}, with a standard error of {self.standard_error:.4f}"
        return f"<PairedDifference: {gap}, over {self.n_queries:,} queries>"

    def words(self, first: str, second: str, metric: str) -> str:
        """One sentence: how far the first is ahead of the second, and whether that is clear."""
        metric = metric_label(metric)
        if self.n_queries < 2:
            return f"With a single value of {metric}, {first} and {second} cannot be compared."
        verdict = "a clear difference" if self.is_clear else "the data cannot tell them apart"
        better = "better" if self.difference >= 0 else "worse"
        return (
            f"{first} is {abs(self.difference):.4f} {better} than {second} in {metric}, with a "
            f"standard error of {self.standard_error:.4f}: {verdict}."
        )


def behind_best(values: Array, best: int) -> tuple[Array, Array]:
    """How far candidates are behind the best, query by query: means and their standard errors.

    Both are NaN without queries.
    """
    if not values.shape[1]:
        return np.full(len(values), np.nan), np.full(len(values), np.nan)
    gaps = values[best] - values
    return gaps.mean(axis=1), standard_errors(gaps)


@dataclass(frozen=True, eq=False)
class CandidateScores(TableMixin):
    """Candidates, each with several settings, and how far they are behind the best.

    Attributes
    ----------
    metric : str
    greater_is_better : bool
    names : list of str
        The candidate of each trial.
    alphas : ndarray of shape (n_trials,)
        Its alpha; NaN for rankers without one.
    scores : ndarray of shape (n_trials,)
        Held-out score, a mean over queries.
    behind, standard_errors : ndarray of shape (n_trials,)
        How far behind the best trial it is, a mean over the same queries, and the standard error of
        this difference.
    n_queries : int
        Queries with a score; for one global ranking, folds of its rows.
    """

    metric: str
    greater_is_better: bool
    names: list[str]
    alphas: Array
    scores: Array
    behind: Array
    standard_errors: Array
    n_queries: int

    def __len__(self) -> int:
        return len(self.names)

    def label(self, k: int) -> str:
        """The name of a trial in plots and sentences."""
        return self.names[k]

    @property
    def best_trials(self) -> dict[str, int]:
        """The trial with the best setting of each candidate, best first."""
        best: dict[str, int] = {}
        gain = self.scores if self.greater_is_better else -self.scores
        for k in np.argsort(-gain, kind="stable").tolist():
            best.setdefault(self.names[k], k)
        return best

    @property
    def runner_up(self) -> tuple[str, str, PairedDifference] | None:
        """The best candidate, the next, and their difference; None if only one was tried."""
        if len(self.best_trials) < 2:
            return None
        best, second = list(self.best_trials.values())[:2]
        gap = float(self.behind[second]), float(self.standard_errors[second])
        return self.label(best), self.label(second), PairedDifference(*gap, self.n_queries)

    def plot(self, *, top: int = 10, ax: Axes | None = None) -> Axes:
        """Draw how far each candidate, at its best setting, is behind the best of all.

        Differences are paired and have 95% intervals, as in
        `rankwise.plots.plot_differences_from_best`.

        Parameters
        ----------
        top : int, default=10
            How many candidates to show.
        ax : matplotlib Axes, optional
        """
        from rankwise.plots.bars import draw_differences

        check_value("top", top, Whole(1))
        best = self.best_trials
        shown = list(best.values())[:top]
        labels = [f"{self.label(k)}: {self.scores[k]:.3f}" for k in shown]
        behind, errors = self.behind[shown], self.standard_errors[shown]
        return draw_differences(labels, behind, errors, self.metric, self.n_queries, len(best), ax)

    def _frame_columns(self) -> dict[str, Any]:
        return {
            "ranker": self.names,
            "alpha": self.alphas,
            "score": self.scores,
            "behind": self.behind,
            "standard_error": self.standard_errors,
        }


def clear_errors(n_queries: int) -> float:
    """The number of standard errors from which a mean difference is clear, by Student's t test."""
    return float(stdtrit(n_queries - 1, 0.975))


def shared_training(n_folds: int) -> float:
    """The factor by which folds that share training rows widen errors, by Nadeau and Bengio.

    The variance of a mean of k folds is S^2 (1/k + 1/(k - 1)), where 1/(k - 1) is the size of a
    fold relative to its training rows. If folds were independent, it would be S^2/k.
    """
    return float(np.sqrt(1 + n_folds / (n_folds - 1)))


@dataclass(frozen=True, eq=False)
class HeldOutPool:
    """Held-out scores of several candidates for the same rows.

    Attributes
    ----------
    labels : ndarray of shape (n_rows,)
    groups : QueryGroups
        The queries of the rows, or the folds of the rows of one global ranking.
    scores : ndarray of shape (n_candidates, n_rows)
        Held-out scores, standardized within queries, in float32.
    batches : ndarray of shape (n_candidates,)
        Candidates that differ only in alpha have the same number here.
    metric : str
        A name of `rankwise.metrics.METRICS`.
    unit : str
        What the groups are: "queries" or "folds".
    per_batch : int
        How many candidates that differ only in alpha a mean may have.
    undefined : {"skip"} or float, optional
        What becomes of queries where the metric is undefined; None: what the metric declares.
    """

    labels: Array
    groups: QueryGroups
    scores: NDArray[np.float32]
    batches: Index
    metric: str
    unit: str = "queries"
    per_batch: int = 2
    undefined: Undefined | None = None

    @classmethod
    def of(
        cls,
        labels: Array,
        queries: Any,
        predictions: Array,
        batches: Index,
        metric: str,
        unit: str = "queries",
    ) -> HeldOutPool:
        """A pool of predictions that are not yet standardized."""
        groups = QueryGroups.of(queries, len(labels))
        scores = standardized(predictions, groups).astype(np.float32)
        return cls(labels, groups, scores, batches, metric, unit)

    @classmethod
    def of_splits(cls, trials: RowTrials, predictions: Array, batches: Index) -> HeldOutPool:
        """A pool of predictions for the rows of all splits."""
        data, splits = trials.data, trials.splits
        labels, metric = data.labels[splits.rows, 0], str(trials.scorer.scoring)
        # Scores of different folds of one ranking have different offsets.
        unit = "folds" if data.groups.n_groups == 1 else "queries"
        return cls.of(labels, unit_codes(data, splits), predictions, batches, metric, unit)

    @cached_property
    def measure(self) -> Metric:
        """The metric, with what becomes of queries where it is undefined."""
        found = get_metric(self.metric)
        if self.undefined is None:
            return found
        function = partial(found.function, undefined=self.undefined)
        return replace(found, function=function, undefined=self.undefined)

    @property
    def n_undefined(self) -> int:
        """The number of queries where the metric is undefined."""
        rows = self.labels, np.zeros(len(self.labels)), self.groups.codes
        defined = get_metric(self.metric).function(*rows, undefined="skip", per_query=True)
        return self.groups.n_groups - len(defined)

    @cached_property
    def values(self) -> Array:
        """The metric of each candidate on each query where it is defined.

        Shape (n_candidates, n_queries); greater is better, so errors are negated.
        """
        return self.values_of(self.scores)

    def values_of(self, scores: Any, rows: Any = slice(None)) -> Array:
        """The metric of scores of some rows on each query where it is defined; greater is better.

        `scores` has shape (n, n_rows) and is of these rows, which are all rows of their queries.
        The metric takes many short ones at once.
        """
        function, greater_is_better = self.measure
        labels, codes = self.labels[rows], self.groups.codes[rows]
        parts, step = [], max(1, _TOGETHER // len(labels))
        for first in range(0, len(scores), step):
            some = scores[first : first + step]
            # The queries of the second scores are other queries than those of the first.
            queries = codes + self.groups.n_groups * np.arange(len(some))[:, None]
            found = function(
                np.tile(labels, len(some)), some.ravel(), queries.ravel(), per_query=True
            )
            parts.append(found.values.reshape(len(some), -1))
        values = np.concatenate(parts)
        return np.asarray(values if greater_is_better else 0.0 - values)

    def mean_values(self, choices: Sequence[Index]) -> Array:
        """The metric of the mean of each choice of candidates on each query."""
        return self.values_of(np.stack([self.scores[chosen].mean(axis=0) for chosen in choices]))

    def choose(self, n_best: int, queries: Any = slice(None)) -> Index:
        """The candidates whose mean is to be used, best first.

        These are the best candidates by their mean over queries, at most `n_best` of them, and at
        most `per_batch` that differ only in alpha. A candidate is left out if a paired t test over
        the same queries finds it worse than the best, and the difference matters: more than 5% of
        the best score, or of its distance from 1, if that is less. With few queries, which cannot
        tell candidates apart, the mean has many parts.
        """
        values = self.values[:, queries]
        means, n = values.mean(axis=1), values.shape[1]
        order = np.argsort(-means, kind="stable")
        best = order[0]
        top = means[best] + (0.0 if self.measure.greater_is_better else 1.0)
        worse = means[best] - means > MARGIN * max(0.0, min(top, 1.0 - top))
        if n > 1:
            worse &= means[best] - means > clear_errors(n) * standard_errors(values[best] - values)
        else:
            worse[:] = False
        chosen: list[int] = []
        used = np.zeros(self.batches.max() + 1, dtype=np.intp)
        for candidate in order[~worse[order]]:
            if used[self.batches[candidate]] < self.per_batch:
                chosen.append(int(candidate))
                used[self.batches[candidate]] += 1
            if len(chosen) == n_best:
                break
        return np.array(chosen)

    def outer_values(self, n_best: int) -> Array:
        """The metric on each query of the mean that is chosen by the other queries."""
        n = self.values.shape[1]
        choices = [choice[:n_best] for choice in self._outer_choices]
        return np.asarray(self.mean_values(choices)[np.arange(n) % FOLDS, np.arange(n)])

    @cached_property
    def _outer_choices(self) -> list[Index]:
        """All candidates that a mean may have, best first, by the queries outside each fold."""
        n_candidates, n = self.values.shape
        if n == 1:
            return [self.choose(n_candidates)]
        fold = np.arange(n) % FOLDS
        return [self.choose(n_candidates, fold != k) for k in range(min(n, FOLDS))]

    def estimate(self, chosen: Index, outer: Array) -> ScoreEstimate:
        """What to expect of a choice on new queries, from `outer_values`."""
        greater_is_better = self.measure.greater_is_better
        sign = 1.0 if greater_is_better else -1.0
        spread = PairedDifference.of(outer)
        return ScoreEstimate(
            self.metric,
            greater_is_better,
            sign * spread.difference + 0.0,
            spread.standard_error,
            sign * float(self.mean_values([chosen]).mean()) + 0.0,
            len(outer),
            self.unit,
        )


def is_within_queries(model: Any) -> bool:
    """Whether the difference of two scores depends on the other rows of the query."""
    model = inner_model(model)
    mean = getattr(model, "mean_ranker_", model)
    if isinstance(mean, MeanRanker):
        return mean.means_ is None or any(map(is_within_queries, mean.rankers_))
    kinds = "steps", "transformer_list", "transformers_"  # of pipelines, unions, and columns
    steps = [step for kind in kinds for _, step, *_ in getattr(model, kind, ())]
    return scales_within_queries(model) or any(map(is_within_queries, steps))


def inner_model(model: Any) -> Any:
    """The fitted model in a search, or in a `GroupedRanker`."""
    for name in ("best_estimator_", "ranker_"):
        model = getattr(model, name, model)
    return model
