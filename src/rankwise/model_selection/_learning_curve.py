"""How the score grows with the number of training queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from rankwise.backends.arrays import Array, Index, to_host
from rankwise.errors import DataError, ParameterError
from rankwise.estimators.ranker_mixin import explain_calls
from rankwise.metric_names import metric_label
from rankwise.metrics import QueryValues, get_metric
from rankwise.model_selection.search.labelled_rows import LabelledRows, take
from rankwise.model_selection.search.refits import fit_with_queries
from rankwise.parameters import Whole, as_generator, check_value
from rankwise.routing import predict_with_queries
from rankwise.tables import Column, Table, TableMixin, plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
        their differences are more certain than this.
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
        values = (self.n_training_queries, self.score, self.standard_error)
        return Table(columns, tuple(zip(*(part.tolist() for part in values), strict=True)))

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
        """Draw the curve; options are those of `rankwise.plots.plot_training_sizes`."""
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

    Would more labelled queries help? Queries are assigned to folds. For each fold, rankers are
    fitted to the first n of the other queries, in random order, and ranks the queries of the fold.
    Takes n_splits fits for each size.

    Parameters
    ----------
    estimator : estimator
        Any ranker or pipeline; it is cloned, not fitted.
    X : array-like, sparse or data frame of shape (n_rows, n_features)
    y : array-like of shape (n_rows,)
    qid : array-like of shape (n_rows,)
    sizes : sequence of int, optional
        Numbers of training queries, at most those outside of the largest fold. None: six numbers,
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
    function, greater_is_better = get_metric(metric)
    data = LabelledRows.of(X, y, qid)
    if data.labels.shape[1] > 1:
        raise DataError(f"query_learning_curve needs one label per row: y is {data.y.shape}.")
    n = data.groups.n_groups
    if n < 4:
        raise DataError(f"query_learning_curve needs at least four queries: got {n}.")
    check_value("n_splits", n_splits, Whole(2, n // 2))
    most = n - -(-n // n_splits)
    counts = _checked_sizes(sizes, most)
    order = as_generator(random_state).permutation(n)
    place = np.empty(n, dtype=np.intp)
    place[order] = np.arange(n)
    place_of_row = place[data.groups.codes]
    scores = np.empty((len(counts), len(data)))
    for fold in range(n_splits):
        test = np.flatnonzero(place_of_row % n_splits == fold)
        others = np.flatnonzero(np.arange(n) % n_splits != fold)  # places of training queries
        for k, count in enumerate(counts):
            train = np.flatnonzero(np.isin(place_of_row, others[:count]))
            ranker = clone(estimator)
            fit_with_queries(ranker, take(data.X, train), data.y[train], data.queries(train))
            found = predict_with_queries(ranker, take(data.X, test), data.queries(test))
            scores[k, test] = np.asarray(to_host(found)).ravel()
    labels, codes = data.labels[:, 0], data.groups.codes
    by_query: list[QueryValues] = [function(labels, row, codes, per_query=True) for row in scores]
    score = np.array([values.mean() for values in by_query])
    error = np.array([values.standard_error() for values in by_query])
    return QueryLearningCurve(counts, score, error, metric, greater_is_better)


def _checked_sizes(sizes: Any, most: int) -> Index:
    if sizes is None:
        return np.unique(np.geomspace(min(max(2, most / 20), most), most, 6).round().astype(int))
    counts = np.asarray(sizes)
    whole = counts.ndim == 1 and len(counts) and np.issubdtype(counts.dtype, np.integer)
    if not whole or counts.min() < 1 or counts.max() > most:
        raise ParameterError(
            f"sizes must be integers from 1 to {most}, the queries outside of the largest fold: "
            f"got {sizes!r}."
        )
    return np.unique(counts)
