"""How much a ranker needs each feature, by permutations within queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_consistent_length

from rankwise.backends.arrays import Array, Index, is_sparse, is_tensor, to_host
from rankwise.errors import DataError, warn
from rankwise.estimators.ranker_mixin import explain_calls
from rankwise.graph import QueryGroups
from rankwise.metric_names import metric_label
from rankwise.metrics import QueryValues, get_metric
from rankwise.model_selection.search.labelled_rows import as_rows
from rankwise.parameters import Whole, as_generator, check_value
from rankwise.routing import predict_with_queries
from rankwise.tables import Column, Table, TableMixin

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MANY = 10_000  # features, which take long


@dataclass(frozen=True, eq=False, repr=False)
class PermutationImportance(TableMixin):
    """How much worse a ranker is without the information of each feature.

    Attributes
    ----------
    names : list of str
        The features.
    importance : ndarray of shape (n_features,)
        How much worse the metric is, on average over queries and repeats, if the values of the
        feature are permuted within every query. About 0 for a feature that the ranker does not use.
    standard_error : ndarray of shape (n_features,)
        Standard error of `importance` over queries; NaN if there is only one.
    metric : str
    score : float
        The metric with all features.
    greater_is_better : bool

    Examples
    --------
    >>> import numpy as np
    >>> result = PermutationImportance(
    ...     ["a", "b"], np.array([0.1, 0.3]), np.array([0.02, 0.05]), "map", 0.8, True
    ... )
    >>> print(result)
    feature  importance    s.e.
    -------  ----------  ------
    b            0.3000  0.0500
    a            0.1000  0.0200
    <BLANKLINE>
    How much worse MAP is without the feature; it is 0.8000 with all.
    """

    names: list[str]
    importance: Array
    standard_error: Array
    metric: str
    score: float
    greater_is_better: bool

    def to_table(self) -> Table:
        """A row for each feature, the most important first."""
        order = np.argsort(-self.importance, kind="stable")
        rows = tuple(
            (self.names[k], float(self.importance[k]), float(self.standard_error[k])) for k in order
        )
        note = (
            f"How much worse {metric_label(self.metric)} is without the feature; it is "
            f"{self.score:.4f} with all."
        )
        return Table((Column("feature", ""), Column("importance"), Column("s.e.")), rows, note=note)

    def _frame_columns(self) -> dict[str, Any]:
        return {
            "feature": self.names,
            "importance": self.importance,
            "standard_error": self.standard_error,
        }

    def __repr__(self) -> str:
        k = int(np.argmax(self.importance))
        return (
            f"<PermutationImportance: {len(self.names)} features, most important "
            f"{self.names[k]} ({self.importance[k]:.4f})>"
        )

    def plot(self, **options: Any) -> Axes:
        """Draw the importance; options are those of `rankwise.plots.plot_importance`."""
        from rankwise.plots import plot_importance

        return plot_importance(self, **options)


@explain_calls
def permutation_importance(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    qid: Any = None,
    metric: str = "disagreement",
    n_repeats: int = 5,
    random_state: Any = None,
) -> PermutationImportance:
    """How much worse a fitted ranker is if the values of a feature are permuted within queries.

    Permuting a feature over all rows, as scikit-learn's function does, also moves values between
    queries: a feature that is the same for all rows of a query, and so cannot change any order,
    may then look important. Within queries its importance is exactly 0.

    Rows that the ranker was not fitted to show what it needs; training rows also show what it
    overfits. Features that say the same may all look unimportant, since one stands in for another.

    Takes n_features times n_repeats predictions of all rows. Features of sparse rows without any
    value cost nothing: their importance is 0.

    Parameters
    ----------
    estimator : ranker or pipeline
        Fitted.
    X : array-like, sparse or data frame of shape (n_rows, n_features)
        Preferably rows that the ranker was not fitted to.
    y : array-like of shape (n_rows,)
    qid : array-like of shape (n_rows,), optional
        The query of every row. None: one ranking of all rows.
    metric : str, default="disagreement"
        A name of `rankwise.metrics.METRICS`, such as "ndcg@10" or "map".
    n_repeats : int, default=5
        Number of permutations of each feature.
    random_state : int or Generator, optional

    Returns
    -------
    PermutationImportance

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.data import make_ranking
    >>> from rankwise.model_selection import permutation_importance
    >>> data = make_ranking(n_queries=40, n_features=4, informative=1, random_state=0)
    >>> ranker = RankRLS().fit(data.X, data.y, qid=data.qid)
    >>> result = permutation_importance(ranker, data.X, data.y, qid=data.qid, random_state=0)
    >>> int(result.importance.argmax()) == int(abs(data.coef).argmax())
    True
    """
    check_value("n_repeats", n_repeats, Whole(1))
    function, greater_is_better = get_metric(metric)
    if is_tensor(X):
        raise DataError("permutation_importance needs arrays or data frames: got a tensor.")
    X, labels, qid = as_rows(X), np.asarray(to_host(y)), to_host(qid)
    if labels.ndim != 1:
        raise DataError(
            f"permutation_importance needs one label per row: got y of shape {labels.shape}."
        )
    check_consistent_length(X, labels)
    groups = QueryGroups.of(qid, len(labels))
    rng = as_generator(random_state)

    def values(rows: Any) -> QueryValues:
        scores = to_host(predict_with_queries(estimator, rows, qid))
        found: QueryValues = function(labels, scores, groups.codes, per_query=True)
        return found

    whole = values(X)
    sign = 1.0 if greater_is_better else -1.0
    unchanged = QueryValues(whole.qid, np.zeros(len(whole)))
    importance, error = np.zeros(X.shape[1]), np.full(X.shape[1], unchanged.standard_error())
    columns = np.unique(X.nonzero()[1]) if is_sparse(X) else np.arange(X.shape[1])
    if len(columns) > MANY:
        warn(
            f"permutation_importance predicts {X.shape[0]:,} rows {n_repeats} times for each of "
            f"{len(columns):,} features, which may take hours. Pass the rows of some queries. The "
            "weights coef_ of a linear ranker show at once which features it uses."
        )
    for j in columns.tolist():
        lost = np.zeros(len(whole))
        for _ in range(n_repeats):
            lost += whole.values - values(_permuted(X, j, _within(groups, rng))).values
        lost_by_query = QueryValues(whole.qid, sign * lost / n_repeats)
        importance[j], error[j] = lost_by_query.mean(), lost_by_query.standard_error()
    names = getattr(X, "columns", None)
    names = [f"x{j}" for j in range(X.shape[1])] if names is None else [str(name) for name in names]
    return PermutationImportance(
        names, importance, error, metric, float(whole.mean()), greater_is_better
    )


def _within(groups: QueryGroups, rng: np.random.Generator) -> Index:
    """A permutation of the rows that keeps every row in its query."""
    shuffled = np.lexsort((rng.random(len(groups.codes)), groups.codes))
    order = np.empty(len(shuffled), dtype=np.intp)
    order[np.argsort(groups.codes, kind="stable")] = shuffled
    return order


def _permuted(X: Any, j: int, order: Index) -> Any:
    """A copy of X with another order of the values in column j."""
    if is_sparse(X):
        columns = sp.csc_array(X)
        moved = columns[:, [j]].tocsr()[order]
        return sp.hstack((columns[:, :j], moved, columns[:, j + 1 :]), format="csr")
    if isinstance(X, np.ndarray):
        copy = X.copy()
        copy[:, j] = X[order, j]
        return copy
    import narwhals as nw  # a dependency of scikit-learn

    frame = nw.from_native(X, eager_only=True)
    column = frame[:, j]
    return frame.with_columns(column[order].alias(column.name)).to_native()
