"""Cross-validation of a ranker: held-out scores with their standard errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.parallel import Parallel, delayed

from rankwise.backends.arrays import Array
from rankwise.errors import DataError, ParameterError, UndefinedMetricError
from rankwise.estimators.ranker_mixin import explain_calls
from rankwise.holdout.held_out_scores import given_note, given_words
from rankwise.metric_names import find_name, look_up, metric_label
from rankwise.metrics import QueryValues, get_metric
from rankwise.metrics.comparison import PairedTest, paired_test
from rankwise.metrics.ranking_scorer import (
    EstimatorScorer,
    RankingScorer,
    default_metric,
    in_columns,
)
from rankwise.model_selection.search.exact import exact, has_shortcut
from rankwise.model_selection.search.grid_candidates import make_batches
from rankwise.model_selection.search.labelled_rows import LabelledRows
from rankwise.model_selection.search.refits import check_fit_and_predict, refit
from rankwise.model_selection.search.splits import Splits, make_splits
from rankwise.parameters import Choice, check_value
from rankwise.tables import Column, Table, TableMixin, require_pandas

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
            Those of `rankwise.plots.plot_query_values`.
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
        that are called for each split and return a number. A dict has names of your own. "auto":
        ndcg@10 for queries with grades (whole numbers from 0 to 30), otherwise disagreement.
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
    Every query counts the same, whatever its split; one that is held out several times counts once,
    with the mean of its values. Values of one ranking are those of splits. Rankers of different
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
    predictions, shared = _held_out(estimator, data, splits, next(iter(scorers.values())), n_jobs)
    labels = data.labels[splits.rows]
    in_order = in_columns(predictions, labels.shape)
    if not np.isfinite(in_order).all():
        row = splits.rows[np.argmin(np.isfinite(in_order).all(axis=1))]
        raise DataError(f"The held-out score of row {row} is not finite: scale the features.")
    per_query, over = {}, {}
    for name, scorer in scorers.items():
        by_query = data.qid is not None and isinstance(scorer.scoring, str)
        values = _query_values if by_query else _split_values
        per_query[name] = values(scorer, data, splits, labels, in_order)
        over[name] = "queries" if by_query else "splits"
    greater = {name: not scorer.negated for name, scorer in scorers.items()}
    return CrossValidation(
        per_query, over, greater, _by_row(predictions, data, splits), len(splits), shared
    )


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

    Every column of Y has a label of each row. Those of exact hold-outs are the columns of one
    product; other estimators are refitted for each of them. Splits in which the metric is not
    defined for a column, since all of its labels are equal, are left out of its mean.
    """
    check_fit_and_predict("estimator", estimator)
    cv = cv if isinstance(cv, str | int) or hasattr(cv, "split") else list(cv)
    given = LabelledRows.of(X, Y[:, 0], qid)
    scorers = _scorers(scoring, given)
    if len(scorers) > 1:
        raise ParameterError(f"One metric is needed: got {', '.join(scorers)}.")
    ((name, scorer),) = scorers.items()
    (batch,) = make_batches(estimator, [{}])
    if has_shortcut(batch.estimator, batch.alphas, make_splits(cv, given, None), given):
        step = max(1, COLUMN_VALUES // len(Y))
        parts = [Y[:, start : start + step] for start in range(0, Y.shape[1], step)]
    else:
        parts = list(Y.T)
    run: Callable[..., Any] = Parallel(n_jobs=n_jobs)
    found = run(delayed(_column_means)(estimator, X, part, qid, scorer, cv) for part in parts)
    means, shared = zip(*found, strict=True)
    return name, not scorer.negated, np.concatenate(means), shared[0]


def _column_means(
    ranker: Any, X: Any, Y: Array, qid: Any, scorer: RankingScorer, cv: Any
) -> tuple[Array, tuple[str, ...]]:
    """Means of a metric for each column of Y, or for its only one, and what is shared."""
    data = LabelledRows.of(X, Y, qid)
    splits = make_splits(cv, data, None)
    labels = data.labels[splits.rows]
    predictions, shared = _held_out(ranker, data, splits, scorer, None)
    f = in_columns(predictions, labels.shape)
    by_query = data.qid is not None and isinstance(scorer.scoring, str)
    values = _query_values if by_query else _defined_values
    found = [
        values(scorer, data, splits, labels[:, k : k + 1], f[:, k : k + 1])
        for k in range(labels.shape[1])
    ]
    return np.array([one.values.mean() for one in found]), shared


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


def _held_out(
    ranker: Any, data: LabelledRows, splits: Splits, scorer: RankingScorer, n_jobs: int | None
) -> tuple[Array, tuple[str, ...]]:
    """Scores of ``splits.rows``, and what was computed from all rows."""
    (batch,) = make_batches(ranker, [{}])
    given = batch.estimator, batch.alphas, data, splits
    if has_shortcut(batch.estimator, batch.alphas, splits, data):
        predicted = exact(*given, scorer)
        return predicted.scores[0], predicted.shared
    run: Callable[..., Any] = Parallel(n_jobs=n_jobs)
    found = run(delayed(refit)(*given, k) for k in range(len(splits)))
    return np.concatenate([part.scores[0] for part in found]), ()


def _query_values(
    scorer: RankingScorer, data: LabelledRows, splits: Splits, labels: Array, predictions: Array
) -> QueryValues:
    """The mean over outputs and splits of the values of each query."""
    n = data.groups.n_groups
    codes = splits.split_of_row * n + data.groups.codes[splits.rows]
    function = get_metric(str(scorer.scoring)).function
    sums, counts = np.zeros((2, n))
    for column in range(labels.shape[1]):
        found = function(labels[:, column], predictions[:, column], codes, per_query=True)
        sums += np.bincount(found.qid % n, found.values, minlength=n)
        counts += np.bincount(found.qid % n, minlength=n)
    known = counts > 0
    return QueryValues(data.groups.names[known], sums[known] / counts[known])


def _split_values(
    scorer: RankingScorer, data: LabelledRows, splits: Splits, labels: Array, predictions: Array
) -> QueryValues:
    """The values of splits, on the scale of the metric."""
    sign, stops = -1.0 if scorer.negated else 1.0, np.cumsum([len(test) for test in splits.tests])
    values = [
        sign * scorer(labels[stop - len(test) : stop], predictions[stop - len(test) : stop], qid)
        for test, stop in zip(splits.tests, stops, strict=True)
        for qid in [data.queries(test)]
    ]
    return QueryValues(np.arange(len(values)), np.array(values))


def _defined_values(
    scorer: RankingScorer, data: LabelledRows, splits: Splits, labels: Array, predictions: Array
) -> QueryValues:
    """As `_split_values`, without splits in which all labels are equal."""
    rows = np.split(np.arange(len(labels)), np.cumsum([len(test) for test in splits.tests])[:-1])
    known = [k for k, part in enumerate(rows) if len(np.unique(labels[part])) > 1]
    if not known:
        raise UndefinedMetricError("No split has two different labels: use fewer splits.")
    sign = -1.0 if scorer.negated else 1.0
    values = [
        sign * scorer(labels[rows[k]], predictions[rows[k]], data.queries(splits.tests[k]))
        for k in known
    ]
    return QueryValues(np.array(known), np.array(values))


def _by_row(predictions: Array, data: LabelledRows, splits: Splits) -> Array | None:
    rows = splits.rows
    if len(np.unique(rows)) < len(rows):
        return None
    by_row = np.full((len(data), *predictions.shape[1:]), np.nan)
    by_row[rows] = predictions
    return by_row
