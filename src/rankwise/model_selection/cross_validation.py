"""Held-out scores of one ranker: cross_validate, query_learning_curve, and compare_rankers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.parallel import Parallel, delayed

from rankwise.backends.arrays import Array, Index, to_host
from rankwise.errors import DataError, ParameterError, UndefinedMetricError
from rankwise.estimators.base import explain_calls
from rankwise.holdout.scores import given_note, given_words
from rankwise.metric_names import default_metric, find_name, look_up, metric_label
from rankwise.metrics import QueryValues, RankingComparison, compare_rankings
from rankwise.metrics.evaluation import PairedTest, paired_test
from rankwise.metrics.ranking_scorer import EstimatorScorer, RankingScorer
from rankwise.model_selection.rows import LabelledRows, Splits, check_fit_and_predict, make_splits
from rankwise.model_selection.trials import (
    Batch,
    Predicted,
    RowHoldOuts,
    RowTrials,
    UnitValues,
    joined_outputs,
    make_batches,
    run_trials,
)
from rankwise.parameters import Choice, Whole, as_generator, check_value
from rankwise.routing import predict_with_queries
from rankwise.tables import Column, Table, TableMixin, plural, require_pandas

if TYPE_CHECKING:
    from matplotlib.axes import Axes

AUTO = "auto"
COLUMN_VALUES = 2**20  # labels of all columns held out at a time


@dataclass(frozen=True, eq=False, repr=False)
class CrossValidation(TableMixin):
    """Held-out scores of a ranker, as returned by `cross_validate`.

    Print it, show it in a notebook, or call `to_frame`, `per_query_frame` or `plot`; `compare`
    tests it against another ranker on the same queries. ``result["ndcg@10"]`` is a mean.

    Attributes
    ----------
    means : mapping of str to float
        The mean of each metric over queries. Errors are not negated.
    standard_errors : mapping of str to float
        Their standard errors over queries.
    per_query : mapping of str to QueryValues
        The values behind the means, without queries for which a metric is undefined. For one
        ranking, or if `scoring` is a function, the values of splits, numbered from 0.
    over : mapping of str to str
        What each mean is over: "queries" or "splits".
    greater_is_better : mapping of str to bool
    predictions : ndarray of shape (n_rows,) or (n_rows, n_outputs), or None
        The scores of rows by rankers that were fitted without them, NaN for rows that no split
        holds out. None if a row is held out more than once.
    n_splits : int
    shared : tuple of str
        What was computed from all rows, held-out ones included, as for `HeldOutScores`. Empty if
        hold-outs are refits, or equal refits.

    Examples
    --------
    >>> import numpy as np
    >>> values = {"map": QueryValues(np.array(["a", "b", "c"]), np.array([0.5, 0.75, 1.0]))}
    >>> result = CrossValidation(values, {"map": "queries"}, {"map": True}, None, 3)
    >>> print(result)
    metric    mean    s.e.  values  over
    ------  ------  ------  ------  -------
    MAP     0.7500  0.1443       3  queries
    >>> result["map"]
    0.75
    """

    per_query: Mapping[str, QueryValues]
    over: Mapping[str, str]
    greater_is_better: Mapping[str, bool]
    predictions: Array | None
    n_splits: int
    shared: tuple[str, ...] = ()

    @property
    def means(self) -> Mapping[str, float]:
        return {name: values.mean() for name, values in self.per_query.items()}

    @property
    def standard_errors(self) -> Mapping[str, float]:
        return {name: float(values.standard_error()) for name, values in self.per_query.items()}

    def __getitem__(self, metric: str) -> float:
        return look_up(self.means, metric)

    def to_table(self) -> Table:
        """A row for each metric: mean, standard error, and the values that they are from."""
        columns = Column("metric", ""), Column("mean"), Column("s.e."), Column("values")
        rows = [
            (metric_label(name) + " (lower is better)" * (not self.greater_is_better[name]), *row)
            for name, *row in zip(*self._frame_columns().values(), strict=True)
        ]
        return Table((*columns, Column("over", "")), tuple(rows), note=given_note(self.shared))

    def _frame_columns(self) -> dict[str, Any]:
        return {
            "metric": list(self.per_query),
            "mean": list(self.means.values()),
            "standard_error": list(self.standard_errors.values()),
            "values": [len(values) for values in self.per_query.values()],
            "over": list(self.over.values()),
        }

    def per_query_frame(self) -> Any:
        """A pandas frame with a row per query and a column per metric; NaN where undefined.

        Metrics that are means over splits are left out, unless all are.
        """
        pandas = require_pandas("per_query")
        unit = "queries" if "queries" in self.over.values() else "splits"
        columns = {
            name: pandas.Series(values.values, index=values.qid)
            for name, values in self.per_query.items()
            if self.over[name] == unit
        }
        frame = pandas.DataFrame(columns)
        frame.index.name = "qid" if unit == "queries" else "split"
        return frame

    def compare(self, other: CrossValidation) -> dict[str, PairedTest]:
        """A `rankwise.metrics.paired_test` on each metric that both have; this ranker is a.

        Parameters
        ----------
        other : CrossValidation
            Of the same queries.

        Returns
        -------
        dict of str to PairedTest
        """
        return {
            name: paired_test(
                values, other.per_query[name], name, greater_is_better=self.greater_is_better[name]
            )
            for name, values in self.per_query.items()
            if name in other.per_query
        }

    def plot(self, metric: str | None = None, **options: Any) -> Axes:
        """Draw a metric on every query.

        Parameters
        ----------
        metric : str, optional
            By default the first.
        **options
            Options of `rankwise.plots.plot_query_values`.
        """
        from rankwise.plots import plot_query_values

        metric = next(iter(self.per_query)) if metric is None else metric
        metric = find_name(self.per_query, metric) or metric
        check_value("metric", metric, Choice(*self.per_query))
        found = self.per_query[metric]
        return plot_query_values(found.values, names=found.qid.tolist(), metric=metric, **options)

    def __repr__(self) -> str:
        errors = self.standard_errors
        found = (
            f"{metric_label(name)} {mean:.4f} ± {errors[name]:.4f}"
            for name, mean in self.means.items()
        )
        words = ", ".join(found) + given_words(self.shared)
        return f"<CrossValidation of {self.n_splits} splits: {words}>"


@explain_calls
def cross_validate(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    qid: Any = None,
    scoring: Any = AUTO,
    cv: Any = 5,
    n_jobs: int | None = None,
    random_state: Any = None,
    query_weight: Any = None,
) -> CrossValidation:
    """Held-out scores of a ranker or pipeline, with their standard errors over queries.

    This is the counterpart of scikit-learn's function for rankers: whole queries are held out, and
    qid reaches `fit`, `predict` and the metrics, whether or not metadata routing is enabled.

    A least-squares ranker whose alpha is a number is not refitted for folds of queries: hold-outs
    as in `leave_query_out` cost about as much as one fit. Everything else is refitted for each
    split.

    Parameters
    ----------
    estimator : ranker or pipeline
        Of this or another library; it is cloned, not fitted.
    X : array-like, sparse or data frame of shape (n_rows, n_features)
    y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        Several outputs are averaged.
    qid : array-like of shape (n_rows,), optional
        The query of every row, as integers or text, in any order. None: one global ranking, of
        which rows are held out.
    scoring : str, callable, or list or dict of these, default="auto"
        Names of `rankwise.metrics.METRICS`, such as "ndcg@10", or functions ``(y, scores, qid)``
        that are called for each split and return a number. A dict assigns names. "auto": ndcg@10
        for queries with grades (whole numbers from 0 to 30), otherwise disagreement.
    cv : int, "leave_query_out", splitter or iterable, default=5
        The number of folds of whole queries (of rows without `qid`), every query in turn, a
        scikit-learn splitter, which is called with ``groups=qid``, or a list of (train, test) row
        numbers. It is an error to split a query.
    n_jobs : int, optional
        Number of processes for refits. None: 1; -1: all cores.
    random_state : int or Generator, optional
        If `cv` is a number, assign queries (or rows) to folds in random order. None: in turn.
    query_weight : array-like of shape (n_rows,), optional
        How much the query of every row counts in the fits, as for `RankRLS.fit`. The scores are
        means in which all queries count the same.

    Returns
    -------
    CrossValidation

    Notes
    -----
    Every query counts the same, whatever its split. A query that is held out several times counts
    once, with the mean of its values. One ranking has a value for each split. Rankers of different
    splits share most of their training rows, so that standard errors over splits are rough.

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.data import make_ranking
    >>> from rankwise.model_selection import cross_validate
    >>> data = make_ranking(n_queries=40, n_levels=4, noise=1.0, random_state=0)
    >>> result = cross_validate(
    ...     RankRLS(), data.X, data.y, qid=data.qid, scoring=["ndcg@10", "map"], random_state=0
    ... )
    >>> result.n_splits, len(result.per_query["map"])
    (5, 40)
    """
    check_fit_and_predict("estimator", estimator)
    if isinstance(cv, str) and cv == "leave_pair_out":
        raise ParameterError(
            'cv="leave_pair_out" has no scores of queries: use '
            "rankwise.model_selection.leave_pair_out(estimator, X, y, qid=qid)."
        )
    data = LabelledRows.of(X, y, qid, query_weight)
    scorers = _scorers(scoring, data)
    splits = make_splits(cv, data, random_state)
    predicted = _held_out(estimator, RowHoldOuts(data, splits), n_jobs)
    per_query, over = {}, {}
    for name, scorer in scorers.items():
        trials = RowTrials(data, splits, scorer)
        per_query[name] = _query_values(trials, predicted)
        over[name] = "queries" if trials.has_query_values else "splits"
    greater = {name: not scorer.negated for name, scorer in scorers.items()}
    predictions = _by_row(predicted.values[0], data, splits)
    return CrossValidation(per_query, over, greater, predictions, len(splits), predicted.shared)


def scores_of_columns(
    estimator: Any,
    X: Any,
    Y: Array,
    *,
    qid: Any,
    scoring: Any,
    cv: Any,
    n_jobs: int | None,
) -> tuple[str, bool, Array, tuple[str, ...]]:
    """(name of the metric, whether greater is better, means for each column of Y, what is shared).

    Every column of Y has a label for each row. Exact hold-outs predict all columns in one product;
    other estimators are refitted for each column. Splits in which the metric is not defined for a
    column, since all of its labels are equal, are left out of its mean.
    """
    check_fit_and_predict("estimator", estimator)
    cv = cv if isinstance(cv, str | int) or hasattr(cv, "split") else list(cv)
    given = LabelledRows.of(X, Y[:, 0], qid)
    scorers = _scorers(scoring, given)
    if len(scorers) > 1:
        raise ParameterError(f"One metric is needed: got {', '.join(scorers)}.")
    ((name, scorer),) = scorers.items()
    trials = RowTrials(given, make_splits(cv, given, None), scorer)
    (batch,) = make_batches(estimator, [{}])
    parts = list(Y.T)
    if list(trials.parts(batch)) == [None]:
        step = max(1, COLUMN_VALUES // len(Y))
        parts = [Y[:, start : start + step] for start in range(0, Y.shape[1], step)]
    run: Callable[..., Any] = Parallel(n_jobs=n_jobs)
    found = run(delayed(_column_means)(estimator, X, part, qid, scorer, cv) for part in parts)
    means, shared = zip(*found, strict=True)
    return name, not scorer.negated, np.concatenate(means), shared[0]


def _column_means(
    ranker: Any, X: Any, Y: Array, qid: Any, scorer: RankingScorer, cv: Any
) -> tuple[Array, tuple[str, ...]]:
    """Means of a metric for each column of Y, or for its only one, and what is shared."""
    data = LabelledRows.of(X, Y, qid)
    trials = RowTrials(data, make_splits(cv, data, None), scorer)
    predicted = _held_out(ranker, trials)
    given = trials.scorer, data, trials.splits, predicted.values
    values = trials.by_query(UnitValues.of(*given, skip_equal_labels=True))[0]
    means = joined_outputs(values.T)
    if np.isnan(means).any():
        raise UndefinedMetricError("No split has two different labels: use fewer splits.")
    return (-means if scorer.negated else means), predicted.shared


def _scorers(scoring: Any, data: LabelledRows) -> dict[str, RankingScorer]:
    """The metrics by name."""
    if isinstance(scoring, str) and scoring == AUTO:
        scoring = default_metric(data.y, 1 if data.qid is None else data.groups.n_groups)
    if isinstance(scoring, Mapping):
        named = dict(scoring)
    else:
        listed = [scoring] if isinstance(scoring, str) or callable(scoring) else list(scoring)
        named = {_name_of(each): each for each in listed}
        if len(named) < len(listed):
            raise ParameterError(f"scoring has a name twice: got {scoring!r}. Use a dict.")
    if not named:
        raise ParameterError('scoring is empty: name a metric, as in scoring=["ndcg@10"].')
    return {str(name): RankingScorer.of(each) for name, each in named.items()}


def _name_of(scoring: Any) -> str:
    if isinstance(scoring, EstimatorScorer):
        scoring = scoring.scorer.scoring
    return scoring if isinstance(scoring, str) else getattr(scoring, "__name__", repr(scoring))


def _held_out(ranker: Any, trials: RowHoldOuts, n_jobs: int | None = None) -> Predicted:
    """Scores of the rows of all splits."""

    def join(batch: Batch, found: list[Predicted]) -> Predicted:
        scores = np.concatenate([part.values for part in found], axis=1)
        return Predicted(scores, 0.0, shared=found[0].shared)

    (found,) = run_trials(trials, make_batches(ranker, [{}]), join, n_jobs=n_jobs)
    return found


def _query_values(trials: RowTrials, predicted: Predicted) -> QueryValues:
    """The metric on each query, or on each split, on its own scale."""
    data, splits, scorer = trials.data, trials.splits, trials.scorer
    units = UnitValues.of(scorer, data, splits, predicted.values)
    values = joined_outputs(trials.by_query(units))[0]
    known = ~np.isnan(values)
    names = data.groups.names if trials.has_query_values else np.arange(len(splits))
    return QueryValues(names[known], 0.0 - values[known] if scorer.negated else values[known])


def _by_row(predictions: Array, data: LabelledRows, splits: Splits) -> Array | None:
    rows = splits.rows
    if len(np.unique(rows)) < len(rows):
        return None
    by_row = np.full((len(data), *predictions.shape[1:]), np.nan)
    by_row[rows] = predictions
    return by_row


@dataclass(frozen=True, eq=False, repr=False)
class QueryLearningCurve(TableMixin):
    """Held-out scores for growing numbers of training queries.

    Attributes
    ----------
    n_training_queries : ndarray of shape (n_sizes,)
    score : ndarray of shape (n_sizes,)
        The metric, averaged over all queries, each held out once.
    standard_error : ndarray of shape (n_sizes,)
        Standard error of `score` over queries. Scores of different sizes are on the same queries:
        their differences have smaller errors.
    metric : str
    greater_is_better : bool

    Examples
    --------
    >>> import numpy as np
    >>> curve = QueryLearningCurve(
    ...     np.array([5, 20]), np.array([0.6, 0.7]), np.array([0.02, 0.01]), "map", True
    ... )
    >>> print(curve)
    training queries     MAP    s.e.
    ----------------  ------  ------
                   5  0.6000  0.0200
                  20  0.7000  0.0100
    """

    n_training_queries: Index
    score: Array
    standard_error: Array
    metric: str
    greater_is_better: bool

    def to_table(self) -> Table:
        """A row for each number of training queries."""
        columns = (Column("training queries"), Column(metric_label(self.metric)), Column("s.e."))
        return Table(columns, tuple(zip(*self._frame_columns().values(), strict=True)))

    def _frame_columns(self) -> dict[str, Any]:
        return {
            "n_training_queries": self.n_training_queries,
            self.metric: self.score,
            "standard_error": self.standard_error,
        }

    def __repr__(self) -> str:
        return (
            f"<QueryLearningCurve: {metric_label(self.metric)} {self.score[0]:.4f} with "
            f"{plural(int(self.n_training_queries[0]), 'query')}, {self.score[-1]:.4f} with "
            f"{self.n_training_queries[-1]:,}>"
        )

    def plot(self, **options: Any) -> Axes:
        """Draw the curve; see `rankwise.plots.plot_training_sizes` for the options."""
        from rankwise.plots import plot_training_sizes

        return plot_training_sizes(self, **options)


@explain_calls
def query_learning_curve(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    qid: Any,
    sizes: Any = None,
    metric: str = "disagreement",
    n_splits: int = 5,
    random_state: Any = None,
) -> QueryLearningCurve:
    """Held-out scores of rankers that are fitted to growing numbers of whole queries.

    Use it to see whether more labelled queries would help. Queries are assigned to folds. For each
    fold, rankers are fitted to the first n of the other queries, in random order, and rank the
    queries of the fold. This takes n_splits fits for each size.

    Parameters
    ----------
    estimator : estimator
        Any ranker or pipeline; it is cloned, not fitted.
    X : array-like, sparse or data frame of shape (n_rows, n_features)
    y : array-like of shape (n_rows,)
    qid : array-like of shape (n_rows,)
    sizes : sequence of int, optional
        Numbers of training queries, at most the number outside the largest fold. None: six numbers,
        from a twentieth (at least 2) to all.
    metric : str, default="disagreement"
        A name of `rankwise.metrics.METRICS`, such as "ndcg@10" or "map".
    n_splits : int, default=5
        Number of folds.
    random_state : int or Generator, optional
        Order of the queries.

    Returns
    -------
    QueryLearningCurve

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.data import make_ranking
    >>> from rankwise.model_selection import query_learning_curve
    >>> data = make_ranking(n_queries=30, rows_per_query=5, random_state=0)
    >>> curve = query_learning_curve(
    ...     RankRLS(1.0), data.X, data.y, qid=data.qid, sizes=[2, 24], random_state=0
    ... )
    >>> bool(curve.score[1] < curve.score[0])
    True
    """
    if qid is None:
        raise DataError(
            "query_learning_curve needs qid. For one ranking use sklearn.model_selection."
            "learning_curve."
        )
    scorer = RankingScorer.of(metric)
    data = LabelledRows.of(X, y, qid)
    if data.labels.shape[1] > 1:
        raise DataError(f"query_learning_curve needs one label per row: y is {data.y.shape}.")
    n = data.groups.n_groups
    if n < 4:
        raise DataError(f"query_learning_curve needs at least four queries: got {n}.")
    check_value("n_splits", n_splits, Whole(2, n // 2))
    most = n - -(-n // n_splits)
    counts = _checked_sizes(sizes, most)
    place = np.argsort(as_generator(random_state).permutation(n))
    folds = Splits.in_turn(data.groups.codes, n_splits, place)
    found = []
    for count in counts:
        splits = []
        for fold, test in enumerate(folds.tests):
            others = np.flatnonzero(np.arange(n) % n_splits != fold)  # places of training queries
            some = np.isin(place[data.groups.codes], others[:count])
            splits.append((np.flatnonzero(some), test))
        result = cross_validate(estimator, X, y, qid=qid, scoring={"score": metric}, cv=splits)
        found.append((result.means["score"], result.standard_errors["score"]))
    score, error = np.transpose(found)
    return QueryLearningCurve(counts, score, error, metric, not scorer.negated)


def _checked_sizes(sizes: Any, most: int) -> Index:
    if sizes is None:
        return np.unique(np.geomspace(min(max(2, most / 20), most), most, 6).round().astype(int))
    if np.ndim(sizes) != 1 or not len(sizes):
        raise ParameterError(f"sizes must be a list of numbers of queries: got {sizes!r}.")
    for size in sizes:
        check_value("Each of sizes", size, Whole(1, most))
    return np.unique(sizes)


def compare_rankers(
    rankers: Mapping[str, Any],
    X: Any,
    y: Any,
    *,
    qid: Any = None,
    metrics: Sequence[str] | None = None,
    relevant: float = 1,
    level: float = 0.95,
    n_permutations: int = 10_000,
    random_state: Any = 0,
) -> RankingComparison:
    """Compare fitted rankers on rows that none of them was fitted to, by paired tests over queries.

    Each ranker scores the rows; see `rankwise.metrics.compare_rankings` for the tests.

    Parameters
    ----------
    rankers : mapping of str to estimator
        At least two fitted rankers, pipelines or regressors, by name.
    X : array-like, sparse or data frame of shape (n_rows, n_features)
    y : array-like of shape (n_rows,)
    qid : array-like of shape (n_rows,)
        The query of every row.
    metrics, relevant, level, n_permutations, random_state
        As for `rankwise.metrics.compare_rankings`.

    Returns
    -------
    RankingComparison

    Examples
    --------
    >>> from rankwise import RLS, RankRLS
    >>> from rankwise.data import make_ranking
    >>> from rankwise.model_selection import compare_rankers
    >>> data = make_ranking(n_queries=80, n_features=20, query_effect=1.0, random_state=0)
    >>> train = data.qid < 40
    >>> rankers = {
    ...     "RankRLS": RankRLS().fit(data.X[train], data.y[train], qid=data.qid[train]),
    ...     "RLS": RLS().fit(data.X[train], data.y[train], qid=data.qid[train]),
    ... }
    >>> X, y, qid = data.X[~train], data.y[~train], data.qid[~train]
    >>> comparison = compare_rankers(rankers, X, y, qid=qid, metrics=["disagreement"])
    >>> comparison.pairs[0].adjusted_p_value < 0.05
    True
    """
    if not isinstance(rankers, Mapping):
        raise ParameterError(
            "rankers must be a dictionary of fitted rankers by name, as in "
            f'{{"mine": ranker, "theirs": other}}: got {type(rankers).__name__}.'
        )
    scores = {
        name: to_host(predict_with_queries(ranker, X, qid)) for name, ranker in rankers.items()
    }
    return compare_rankings(
        to_host(y), scores, to_host(qid), metrics=metrics, relevant=relevant, level=level,
        n_permutations=n_permutations, random_state=random_state,
    )  # fmt: skip
