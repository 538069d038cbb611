"""Exact hold-outs without refitting: of queries, rows, pairs of rows, comparisons and items."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.base import clone

from rankwise.backends.arrays import Array, Index, backend_of, to_host
from rankwise.errors import DataError, ParameterError
from rankwise.estimators.base import LeastSquaresRanker, explain_calls
from rankwise.estimators.kpcrank import ComponentErrors, ComponentMixin
from rankwise.estimators.ranker_rows import kept_of_all_rows
from rankwise.graph import QueryGroups
from rankwise.holdout.alpha_choice import choose_alpha, data_alphas
from rankwise.holdout.engine import ComparisonHoldOut, HoldOut, hold_out
from rankwise.holdout.hold_out_problem import (
    ComparisonFolds,
    HoldOutProblem,
    Items,
    Pairs,
    Queries,
    Rows,
    choose_pairs,
    pairs_of_groups,
    pairs_within,
)
from rankwise.holdout.leave_pair_out import PairDifferences
from rankwise.holdout.pair_differences import add_wins
from rankwise.holdout.scores import (
    GREATER_IS_BETTER,
    HeldOutScores,
    ObservedComparisons,
)
from rankwise.metrics import get_metric
from rankwise.model_selection.rows import LabelledRows, Splits, class_labels
from rankwise.parameters import Choice, Whole, as_generator, check_alphas, check_value
from rankwise.tables import Column, Table, TableMixin

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def hold_out_problem(
    estimator: Any,
    X: Any,
    y: Any,
    qid: Any,
    alphas: Any,
    query_weight: Any = None,
    sample_weight: Any = None,
    *,
    unlabelled: bool = False,
) -> HoldOutProblem:
    """Validate an estimator, which is cloned, and its training data.

    `unlabelled`: whether rows without labels are allowed, if the estimator supports them.
    """
    ranker, given = least_squares(estimator, alphas)
    weights = {"query_weight": query_weight, "sample_weight": sample_weight}
    problem = ranker.make_problem(X, y, qid=qid, **weights).settled()
    if problem.space.labelled is not None and not unlabelled:
        raise DataError("This hold-out needs a label for every row: y has NaN.")
    values = data_alphas(problem) if given is None else given
    if values.min() == 0 and not problem.space.has_own_hold_outs:
        raise ParameterError(
            "Exact hold-outs need alphas above 0, except for components: use a small alpha "
            "instead of 0."
        )
    if problem.space.keeps_rows:
        return HoldOutProblem.of(problem, values)
    kept = kept_of_all_rows(ranker, problem.space)
    return replace(HoldOutProblem.of(problem, values, ranker.scaling_, kept), ranker=ranker)


def least_squares(estimator: Any, alphas: Any) -> tuple[Any, Array | None]:
    """A clone of a least-squares ranker, and alphas, by default its own; None for "auto"."""
    if not isinstance(estimator, LeastSquaresRanker):
        raise ParameterError(
            "Exact hold-outs need a least-squares ranker, such as RankRLS: got "
            f"{type(estimator).__name__}. RankingSearchCV and cross_validate refit any estimator."
        )
    alphas = estimator.alpha if alphas is None else alphas
    is_auto = isinstance(alphas, str) and alphas == "auto"
    return clone(estimator), None if is_auto else check_alphas(alphas)


@dataclass(frozen=True, eq=False, repr=False)
class HeldOut(HeldOutScores):
    """Predictions for held-out rows, and their quality.

    Attributes
    ----------
    alphas, score, standard_error, metric, greater_is_better, shared
        As for `HeldOutScores`.
    predictions : ndarray of shape (n_alphas, n_rows) or (n_alphas, n_rows, n_outputs)
        The prediction for each row by a ranker trained without its fold; NaN for rows without a
        label (see `TransductiveRankRLS`), which are not held out.

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.model_selection import k_fold
    >>> X, y = [[0.0], [2.0], [1.0], [3.0], [4.0], [5.0]], [0.0, 2.0, 1.0, 3.0, 4.0, 5.0]
    >>> print(k_fold(RankRLS(alpha=1.0), X, y, n_splits=3))
    alpha  disagreement    s.e.
    -----  ------------  ------
        1        0.0000  0.0000  best
    """

    predictions: Array


@explain_calls
def leave_query_out(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    qid: Any,
    alphas: Any = None,
    metric: str = "disagreement",
    n_splits: int | None = None,
    query_weight: Any = None,
    sample_weight: Any = None,
) -> HeldOut:
    """Predict every query by a ranker trained on the others, without refitting.

    Predictions agree with refits, up to rounding, unless `shared` of the result names
    something computed from all rows. One factorization for each alpha (or one for all of them)
    serves all queries. The dual takes O(m^3) time. The primal takes O(m n^2) time and, for each
    query and alpha, the cube of the number of features or of the rows of the query, whichever is
    smaller.

    Landmarks of `SparseRankRLS`, components of `KPCRank` and knots of `AdditiveRankRLS` are
    computed from all rows: held-out rows do not affect the weights, but they may affect these. The
    same holds for ``gamma="scale"``, and for the choice of ``scale="auto"``. The graph of
    `TransductiveRankRLS` has all rows: held-out rows are rows without labels.

    With ``scale="standard"`` and a linear kernel, features are standardized again without each
    query, from sums: one system of the size of the features for each query and alpha. If that
    would take longer than about half a minute, or with another kernel, hold-outs keep the scaling
    of all rows.

    Parameters
    ----------
    estimator : RankRLS, SparseRankRLS, KPCRank, or one of their pointwise baselines
        It is cloned, not fitted. A KPCRank needs a fixed number of components.
    X : array-like or sparse of shape (n_rows, n_features)
    y : array-like of shape (n_rows,) or (n_rows, n_outputs)
    qid : array-like of shape (n_rows,)
    alphas : sequence of float, optional
        None: the alpha of the estimator or, if it is "auto", a grid that follows the scale of the
        data.
    metric : str, default="disagreement"
        A name of `rankwise.metrics.METRICS`, such as "ndcg@10" or "map".
    n_splits : int, optional
        Number of folds of whole queries to hold out. None: one query at a time.
    query_weight : array-like of shape (n_rows,), optional
        As for `fit`. It weights the pairs of training queries; the score is not weighted.
    sample_weight : array-like of shape (n_rows,), optional
        As for `fit` of RankRLS and SparseRankRLS, but above 0. The score is not weighted.

    Returns
    -------
    HeldOut

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import RankRLS
    >>> from rankwise.data import make_ranking
    >>> from rankwise.model_selection import leave_query_out
    >>> data = make_ranking(n_queries=40, rows_per_query=10, n_features=5, random_state=0)
    >>> result = leave_query_out(
    ...     RankRLS(), data.X, data.y, qid=data.qid, alphas=np.geomspace(1, 1e4, 5)
    ... )
    >>> result.predictions.shape
    (5, 400)
    """
    if qid is None:
        raise DataError("leave_query_out needs qid. For one global ranking use k_fold.")
    get_metric(metric)  # raise an error for an unknown metric before any work
    problem = hold_out_problem(
        estimator, X, y, qid, alphas, query_weight, sample_weight, unlabelled=True
    )
    groups = problem.groups
    if sample_weight is not None:
        _check_weights(problem, estimator, len(sample_weight))
    if groups.n_groups < 2:
        raise DataError("leave_query_out needs at least two queries: got one.")
    if n_splits is not None:
        check_value("n_splits", n_splits, Whole(2, groups.n_groups))
    return _scored(hold_out(problem, Queries(n_splits)), metric)


def k_fold(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    n_splits: int = 5,
    alphas: Any = None,
    metric: str = "disagreement",
    random_state: Any = None,
) -> HeldOut:
    """Hold out folds of rows of one global ranking, without refitting.

    Predictions agree with refits, up to rounding, given what `shared` of the result names. Rows
    that are scaled within queries are one query here, with their held-out rows. The metric compares
    only rows of the same fold: rankers of different folds have different offsets, which would
    distort pooled predictions. Small folds contain few pairs; for small samples, `leave_pair_out`
    is the better estimate.

    There is one factorization for each alpha if tied pairs count; otherwise, rankers are refitted.

    Parameters
    ----------
    estimator : RankRLS or RLS
    X, y
        As for `leave_query_out`.
    n_splits : int, default=5
    alphas, metric
        As for `leave_query_out`.
    random_state : int or Generator, optional
        Seed to shuffle the rows. None: fold k has rows k, k + n_splits, and so on.

    Returns
    -------
    HeldOut

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.data import load_dataset
    >>> from rankwise.model_selection import k_fold
    >>> data = load_dataset("diabetes")
    >>> k_fold(RankRLS(), data.X, data.y, alphas=[0.01, 1.0]).score.round(3)
    array([0.255, 0.264])
    """
    get_metric(metric)  # raise an error for an unknown metric before any work
    problem = hold_out_problem(estimator, X, y, None, alphas, unlabelled=True)
    m = len(problem.y)
    if m < 4:
        raise DataError(f"k_fold needs at least 4 rows: got {m}.")
    check_value("n_splits", n_splits, Whole(2, m // 2))
    place = None if random_state is None else np.argsort(as_generator(random_state).permutation(m))
    folds = Splits.in_turn(np.arange(m), n_splits, place).tests
    return _scored(hold_out(problem, Rows(folds)), metric)


def leave_one_out(estimator: Any, X: Any, y: Any, *, alphas: Any = None) -> HeldOut:
    """Predict every row by a regression trained on the others, without refitting.

    Predictions agree with refits, up to rounding, given what `shared` of the result names. This
    is for `RLS`, whose predictions are meaningful for single rows. The score is the mean
    squared error. Rankers only predict differences: use `leave_pair_out` for them.

    Parameters
    ----------
    estimator : RLS
    X, y, alphas
        As for `leave_query_out`.

    Returns
    -------
    HeldOut

    Examples
    --------
    >>> from rankwise import RLS
    >>> from rankwise.model_selection import leave_one_out
    >>> leave_one_out(RLS(alpha=1e-6), [[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0]).predictions.round(3)
    array([[0., 1., 2.]])
    """
    problem = hold_out_problem(estimator, X, y, None, alphas)
    if not problem.loss.has_intercept:
        raise ParameterError(
            f"leave_one_out needs a regression, such as RLS: got {type(estimator).__name__}. "
            "For rankers use leave_pair_out."
        )
    return _scored(hold_out(problem, Rows()), "squared_error")


def hold_out_rows(
    estimator: Any, data: LabelledRows, folds: Sequence[Index], alphas: Any
) -> HoldOut:
    """Hold out folds of whole queries or, without queries, of rows of one ranking."""
    problem = hold_out_problem(
        estimator, data.X, data.y, data.qid, alphas, data.query_weight, unlabelled=True
    )
    if data.labelled is not None:
        folds = [np.searchsorted(data.labelled, fold) for fold in folds]
    return hold_out(problem, (Rows if data.qid is None else Queries)(folds))


def _check_weights(problem: HoldOutProblem, estimator: Any, n_rows: int) -> None:
    """Raise an error for weights of rows that hold-outs do not support."""
    if problem.loss.has_intercept:
        raise ParameterError(
            f"leave_query_out of {type(estimator).__name__} takes no sample_weight: use "
            "sklearn.model_selection.cross_val_score, which refits."
        )
    if problem.problem.n_rows < n_rows:
        raise DataError(
            "leave_query_out needs weights of rows above 0: leave out the rows of weight 0."
        )


def _scored(held: HoldOut, metric: str) -> HeldOut:
    """The scores of predictions, with the predictions."""
    return HeldOut(**vars(held.score(metric)), predictions=all_predictions(held))


def all_predictions(held: HoldOut) -> Array:
    """Predictions for all rows of the user, in the form of y; NaN for rows without labels."""
    problem = held.problem
    outputs = problem.by_output(problem.returned(held.predictions))
    return problem.problem.space.for_all_rows(outputs)


class Units(NamedTuple):
    """Strata, such as hospitals, and groups, such as patients; None if there are none."""

    strata: QueryGroups | None
    groups: QueryGroups | None

    @classmethod
    def of(cls, strata: Any, groups: Any, qid: Any, n_rows: int) -> Units:
        """From an entry for each row; both are for one ranking, without queries."""
        found: list[QueryGroups | None] = []
        for name, ids in (("strata", strata), ("groups", groups)):
            if ids is not None and qid is not None:
                raise ParameterError(
                    f"Give {name} or qid, not both: with qid, pairs are held out within queries."
                )
            found.append(None if ids is None else QueryGroups.of(ids, n_rows, name))
        return cls(*found)

    @property
    def given(self) -> bool:
        return self.strata is not None or self.groups is not None

    def take(self, rows: Index) -> Units:
        """The strata and groups of some rows."""
        return Units(*(None if part is None else part.take(rows) for part in self))

    def pairs(self, problem: HoldOutProblem, *, keep_ties: bool) -> Pairs:
        """All pairs of the same stratum and of different groups."""
        if self.groups is not None:
            strata = QueryGroups.of(self.strata, len(problem.y))
            return pairs_of_groups(problem, self.groups, strata, keep_ties=keep_ties)
        listed = None if self.strata is None else pairs_within(self.strata)
        return Pairs(listed, keep_ties)


def check_two_rows(labels: Array) -> None:
    """Labels must be single numbers, and each of two labels must have two rows.

    With the only row of one of two labels held out, the other rows define no order."""
    if labels.ndim > 1:
        raise DataError(f"One label per row is needed: got {labels.shape[1]} columns of y.")
    names, counts = np.unique(labels, return_counts=True)
    if len(names) == 2 and counts.min() < 2:
        raise DataError(
            f"The label {names[np.argmin(counts)]:g} has a single row: without it, nothing is left "
            "to learn this label from. Add rows of this label."
        )


@dataclass(frozen=True, eq=False, repr=False)
class LeavePairOut(TableMixin):
    """The errors of held-out pairs, for each alpha.

    Attributes
    ----------
    alphas : ndarray of shape (n_alphas,)
    error : ndarray of shape (n_alphas,) or (n_alphas, n_outputs)
        Share of pairs with different labels that are in the wrong order, averaged over queries.
        Tied predictions count half, and so do predictions that differ only by rounding errors.
    standard_error : ndarray of the same shape
        Standard error over queries; for one ranking, from the share of each row in the errors (as
        DeLong's for the area under the ROC curve).
    pairs : ndarray of shape (n_pairs, 2) or None
        Only with ``return_differences=True``.
    differences : ndarray of shape (n_alphas, n_pairs) or (n_alphas, n_pairs, n_outputs) or None
        f(first) - f(second) with both held out; only with ``return_differences=True``.
    magnitude_error : ndarray of shape (n_alphas,) or (n_alphas, n_outputs) or None
        Mean square of (y(first) - y(second)) - (f(first) - f(second)) over held-out pairs, averaged
        over queries: whether the sizes of differences are right, not only their signs. Only with
        ``return_differences=True``.
    shared : tuple of str
        What was computed from all rows, held-out ones included, as for `HeldOutScores`; "scaling"
        if rows are scaled.

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.model_selection import leave_pair_out
    >>> X, y = [[0.0], [2.0], [1.0], [3.0], [4.0], [5.0]], [0, 0, 0, 1, 1, 1]
    >>> print(leave_pair_out(RankRLS(alpha=1.0), X, y))
    alpha     AUC    s.e.
    -----  ------  ------
        1  1.0000  0.0000  best
    """

    alphas: Array
    error: Array
    standard_error: Array
    pairs: Index | None = None
    differences: Array | None = None
    magnitude_error: Array | None = None
    shared: tuple[str, ...] = ()

    @property
    def auc(self) -> Array:
        """One minus `error`: for labels 0 and 1, the area under the ROC curve."""
        return np.asarray(1.0 - self.error)

    @property
    def means(self) -> HeldOutScores:
        """AUC and standard error of each alpha, averaged over outputs."""
        auc, spread = (
            values.reshape(len(self.alphas), -1).mean(axis=1)
            for values in (self.auc, self.standard_error)
        )
        return HeldOutScores(self.alphas, auc, spread, "auc", True, shared=self.shared)

    @property
    def best_index(self) -> int:
        """The index of the smallest error, averaged over outputs; of equals the largest alpha."""
        return self.means.best_index

    @property
    def best_alpha(self) -> float:
        """The alpha with the smallest error."""
        return self.means.best_alpha

    def to_table(self) -> Table:
        """A row for each alpha: its AUC, the standard error, and which is best."""
        return self.means.to_table()

    def _frame_columns(self) -> dict[str, Array]:
        means = self.means
        return {"alpha": means.alphas, "auc": means.score, "standard_error": means.standard_error}

    def __repr__(self) -> str:
        return repr(self.means).replace("HeldOutScores", type(self).__name__)

    def plot(self, **options: Any) -> Axes:
        """Draw the errors against alpha; see `rankwise.plots.plot_hold_out` for the options."""
        from rankwise.plots import plot_hold_out

        return plot_hold_out(self, **options)


def leave_pair_out(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    qid: Any = None,
    alphas: Any = None,
    pairs: Any = None,
    strata: Any = None,
    groups: Any = None,
    positive: Any = None,
    return_differences: bool = False,
    random_state: Any = None,
    query_weight: Any = None,
) -> LeavePairOut:
    """Hold out every pair of rows, without refitting.

    Predictions agree with refits, up to rounding, given what was computed from all rows: the
    scaling of features, landmarks, components or knots. `LeavePairOut.shared` names it.
    The estimate is almost unbiased, since rankers are trained on all rows but two. Unlike pooled
    folds, it only compares predictions of the same ranker. For labels 0 and 1 it estimates the
    area under the ROC curve.

    There is one factorization for each alpha, in O(m^3) time in the dual and O(m n^2) in the
    primal; each pair then takes O(1) time (O(n) in the primal). With queries, pairs are held out
    within their query, which additionally takes the cube of the number of its rows or, in the
    primal, of n, for each query. With ``ties="exclude"`` and k > 2 different labels there are,
    in addition, k (k - 1) / 2 systems of the size of two levels.

    Parameters
    ----------
    estimator : RankRLS, SparseRankRLS, KPCRank, or one of their pointwise baselines
        It is cloned, not fitted. Landmarks and components are computed from all rows. A KPCRank
        needs a fixed number of components and, with queries, an alpha above 0.
    X : array-like or sparse of shape (n_rows, n_features)
    y : array-like of shape (n_rows,) or (n_rows, n_outputs)
    qid : array-like of shape (n_rows,), optional
    alphas : sequence of float, optional
        None: the alpha of the estimator or, if it is "auto", a grid that follows the scale of the
        data.
    pairs : int or array-like of shape (n_pairs, 2), optional
        Number of random pairs with different labels, or row numbers of pairs. None: all pairs
        within queries.
    strata : array-like of shape (n_rows,), optional
        Such as hospitals or batches: the ranker learns from all pairs, but only pairs within a
        stratum are held out. Not together with `qid` or `pairs`.
    groups : array-like of shape (n_rows,), optional
        Such as patients with several samples: pairs of groups are held out, with all of their
        rows, and rows are compared across the two groups. There is a factorization
        for each total number of rows in two groups if ``weighting="pairs"``, and one for all of
        them otherwise; with ``ties="exclude"``, one for each combination of remaining rows per
        label. Not together with `qid` or `pairs`.
    positive : label, optional
        Of classes, the one to rank first, against all others. Needed if y has words.
    return_differences : bool, default=False
        Whether to return the pairs and their differences: O(m^2) memory for each alpha.
    random_state : int or Generator, optional
        Seed for random pairs.
    query_weight : array-like of shape (n_rows,), optional
        As for `fit`. It weights the pairs of training queries; the score is not weighted.

    Returns
    -------
    LeavePairOut

    References
    ----------
    Pahikkala, Airola, Boberg, Salakoski: Exact and efficient leave-pair-out cross-validation
    for ranking RLS. AKRR 2008. Theorem 2.

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.data import load_dataset
    >>> from rankwise.model_selection import leave_pair_out
    >>> data = load_dataset("breast_cancer")
    >>> X = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
    >>> result = leave_pair_out(RankRLS(ties="exclude"), X, data.y, alphas=[0.1, 10.0, 1e3])
    >>> result.best_alpha, result.auc.round(3)
    (10.0, array([0.993, 0.994, 0.99 ]))
    """
    y = class_labels(y, positive)
    problem = hold_out_problem(estimator, X, y, qid, alphas, query_weight, unlabelled=True)
    labelled = problem.problem.space.labelled
    given = strata is not None or groups is not None or np.ndim(pairs) > 0
    if labelled is not None and given:
        raise DataError(
            "With rows without labels, pairs are all pairs of a query or a number of random ones: "
            "leave out pairs, strata and groups, or the rows where y is NaN."
        )
    units = Units.of(strata, groups, qid, len(problem.y))
    if units.given:
        if pairs is not None:
            raise ParameterError("Give pairs, or strata and groups, not both.")
        chosen = units.pairs(problem, keep_ties=return_differences)
    else:
        chosen = choose_pairs(problem, pairs, random_state, keep_ties=return_differences)
    if problem.groups.n_groups == 1:
        for labels in problem.labels.T:
            check_two_rows(labels)
    held = hold_out(problem, chosen)
    kept: dict[tuple[int, int], list[PairDifferences]] = defaultdict(list)

    def keep(task: int, a: int, block: PairDifferences) -> None:
        kept[task, a].append(block)

    errors = held.errors(units.groups, keep if return_differences else None)
    error, standard_error = map(problem.by_output, errors)
    if not return_differences:
        return LeavePairOut(problem.alphas, error, standard_error, shared=held.shared)
    rows, differences = _collect(kept, problem, chosen.listed)
    magnitude = problem.by_output(_magnitude_error(problem, rows, differences))
    rows = rows if labelled is None else labelled[rows]
    return LeavePairOut(
        problem.alphas, error, standard_error, rows, differences, magnitude, held.shared
    )


def tournament_scores(
    estimator: Any, X: Any, y: Any, *, qid: Any = None, positive: Any = None
) -> Array:
    """The share of wins of each row over all of its held-out pairs.

    The scores order the rows by leave-pair-out, so that a ROC curve can be drawn from them. Rows
    are compared within their query. There are O(m^2) pairs. As in `leave_pair_out`, the scaling of
    features, landmarks and components come from all rows; so does an alpha that is chosen.

    Parameters
    ----------
    estimator, X, y, qid, positive
        As for `leave_pair_out`. Alpha is the estimator's, and is chosen if it is "auto".

    Returns
    -------
    ndarray of shape (n_rows,) or (n_rows, n_outputs)
        Between 0 and 1; 1/2 for the only row of a query.

    References
    ----------
    Montoya Perez, Airola, Boström, Jambor, Pahikkala: Tournament leave-pair-out
    cross-validation for receiver operating characteristic analysis. Statistical Methods in
    Medical Research 28, 2019.

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.model_selection import tournament_scores
    >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0], [9.0]], [0, 0, 0, 1, 1, 1]
    >>> tournament_scores(RankRLS(), X, y)
    array([0. , 0.2, 0.4, 0.6, 0.8, 1. ])
    """
    problem = hold_out_problem(estimator, X, class_labels(y, positive), qid, None)
    if estimator.alpha == "auto":
        chosen = choose_alpha(problem.problem).alpha
        problem = replace(problem, alphas=np.array([chosen]))
    held, on = hold_out(problem, Pairs(None, keep_ties=True)), backend_of(problem.y)
    wins, compared = np.zeros(problem.y.shape), np.zeros(problem.y.shape)
    for task in range(problem.n_tasks):
        columns = problem.columns(task)
        task_wins, task_compared = on.zeros(*problem.targets(task).shape), on.zeros(len(wins))
        for _, block in held.blocks(task):
            pairs = block.first, block.second, block.difference
            add_wins(*pairs, task_wins, task_compared)
        wins[:, columns] = to_host(task_wins)
        compared[:, columns] = to_host(task_compared)[:, None]
    share = np.divide(wins, compared, out=np.full(wins.shape, 0.5), where=compared > 0)
    return problem.by_output(problem.returned(on.array(share)))


def _magnitude_error(problem: HoldOutProblem, pairs: Index, differences: Array) -> Array:
    """Mean squares of y_i - y_j - (f_i - f_j), shape (n_alphas, n_outputs)."""
    on, query = backend_of(differences), problem.groups.codes[pairs[:, 0]]
    counts = np.bincount(query)
    weight = 1.0 / (counts[query] * np.count_nonzero(counts))
    gap = problem.labels[pairs[:, 0]] - problem.labels[pairs[:, 1]]
    by_output = differences.reshape(len(problem.alphas), *gap.shape)
    squares = on.array(weight)[:, None] * (on.array(gap) - by_output) ** 2
    return np.asarray(to_host(squares.sum(axis=1)))


def _collect(
    kept: dict[tuple[int, int], list[PairDifferences]], problem: HoldOutProblem, listed: Any
) -> tuple[Index, Array]:
    """Pairs, ascending or as listed, and their differences."""
    m, on = len(problem.y), backend_of(problem.y)

    def join(blocks: list[PairDifferences]) -> tuple[Index, Array]:
        first, second = (
            np.concatenate([to_host(block[side]) for block in blocks]) for side in (0, 1)
        )
        difference = on.xp.concatenate([block.difference for block in blocks])
        difference *= on.array(np.where(first > second, -1.0, 1.0)[:, None])
        key = np.minimum(first, second) * m + np.maximum(first, second)
        order = np.argsort(key)
        pairs = np.column_stack(np.divmod(key[order], m)) if listed is None else listed
        wanted = pairs.min(axis=1) * m + pairs.max(axis=1)
        found = order[np.searchsorted(key, wanted, sorter=order)]
        sign = np.where(pairs[:, 0] > pairs[:, 1], -1.0, 1.0)
        return pairs, on.array(sign[:, None]) * difference[found]

    joined = {place: join(blocks) for place, blocks in sorted(kept.items())}
    by_task = [
        on.xp.stack([found for (t, _), (_, found) in joined.items() if t == task])
        for task in range(problem.n_tasks)
    ]
    differences = problem.returned(on.xp.concatenate(by_task, axis=2))
    return joined[0, 0][0], problem.by_output(differences)


def component_errors(
    estimator: Any, X: Any, y: Any, *, qid: Any = None, alphas: Any = None
) -> ComponentErrors | list[ComponentErrors]:
    """Held-out errors for 1, 2, 3, ... components, which ``n_components="cv"`` chooses by.

    The parameter `cv` of the estimator defines what is held out:

    - an integer: folds of queries (of rows, without qid). Each fold is held out of a refit,
      including its components. O(m^2 p) time for each fold.
    - "leave_query_out": every query, exactly and without refits, with the components of all rows.
      The components use the features of held-out rows, but no labels. The errors are therefore
      slightly optimistic if queries are few or very different. O(m^2 p) time for the components,
      O(m p^2 log q) for q queries, and O(p^3) for each query.
    - "leave_pair_out": every pair of rows of one ranking, also exactly and with the components of
      all rows. O(m^2) time for each number of components.

    The smallest of these errors is too small as an estimate for new rows, because it is chosen:
    report `nested_error` of the result.

    Parameters
    ----------
    estimator : KPCRank or KPCR
        Its parameter `n_components` is ignored.
    X, y, qid
        As for `fit` of the estimator.
    alphas : sequence of float, optional
        Ridge penalties to use in place of the parameter `alpha`. All share the components.

    Returns
    -------
    ComponentErrors or list of ComponentErrors
        With `alphas`, a list with the errors for each of them.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import ComponentOptions, KPCRank
    >>> from rankwise.model_selection import component_errors
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.standard_normal((200, 2)), np.arange(200) // 10
    >>> y = X[:, 0] + rng.standard_normal(200)
    >>> options = ComponentOptions(cv="leave_query_out", max_components=8)
    >>> found = component_errors(KPCRank(options=options), X, y, qid=qid)
    >>> found.n_components
    array([1, 2, 3, 4, 5, 6, 7, 8])
    >>> found.one_se_n_components <= found.best_n_components
    True
    >>> len(component_errors(KPCRank(options=options), X, y, qid=qid, alphas=[0.0, 1.0]))
    2
    """
    if not isinstance(estimator, ComponentMixin):
        raise ParameterError(
            f"component_errors needs a KPCRank or KPCR: got {type(estimator).__name__}."
        )
    if alphas is None and estimator.alpha == "auto":
        raise ParameterError(
            'component_errors needs numbers: alpha is "auto". Give alphas, as in '
            "alphas=[0.0, 0.1, 1.0], or set alpha to a number."
        )
    ranker = clone(estimator).set_params(n_components="cv")
    problem = ranker.make_problem(X, y, qid=qid)
    given = [float(ranker.alpha)] if alphas is None else check_alphas(alphas).tolist()
    errors: list[ComponentErrors] = problem.space.errors(problem, given)
    return errors[0] if alphas is None else errors


METRIC = Choice(*GREATER_IS_BETTER)


@dataclass(frozen=True, eq=False, repr=False)
class LeaveComparisonOut(HeldOutScores):
    """Predictions for held-out comparisons, and their quality.

    Attributes
    ----------
    alphas, score, standard_error, metric, greater_is_better, shared
        As for `HeldOutScores`; nothing is shared. The standard error is computed over groups, if
        there are any.
    differences : ndarray of shape (n_alphas, n_predictions)
        f(first) - f(second), plus what the context adds, by a ranker trained without the
        comparison.
    compared : ndarray of shape (n_predictions,)
        The number of the comparison that each prediction is for.
    observed : ObservedComparisons
        Margins, weights and groups of these comparisons.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import RankRLS
    >>> from rankwise.model_selection import leave_comparison_out
    >>> rng = np.random.default_rng(0)
    >>> X, pairs = rng.standard_normal((30, 3)), rng.permutation(30).reshape(15, 2)
    >>> gap = X[pairs[:, 0], 0] - X[pairs[:, 1], 0]
    >>> result = leave_comparison_out(RankRLS(), X, pairs, margin=np.sign(gap), alphas=[1.0, 10.0])
    >>> result.accuracy.round(2)
    array([1., 1.])
    """

    held: ComparisonHoldOut

    @property
    def differences(self) -> Array:
        """f(first) - f(second), plus what the context adds, for each alpha and prediction."""
        return self.held.predictions[:, :, 0]

    @property
    def compared(self) -> Index:
        """The number of the comparison that each prediction is for."""
        return self.held.held

    @property
    def observed(self) -> ObservedComparisons:
        """Margins, weights and groups of the predicted comparisons."""
        return self.held.observed

    @property
    def accuracy(self) -> Array:
        """The share of winners that were predicted, for each alpha; a tie counts half."""
        return self.scores("accuracy")[0]

    @property
    def log_loss(self) -> Array:
        """The mean of minus the logarithm of the probability of the outcome."""
        return self.scores("log_loss")[0]

    @property
    def brier(self) -> Array:
        """The mean squared error of the probability that the first item wins."""
        return self.scores("brier")[0]

    @property
    def squared_error(self) -> Array:
        """The mean squared error of the margin."""
        return self.scores("squared_error")[0]

    @property
    def calibration_error(self) -> Array:
        """The mean distance of predicted from observed frequencies, in ten bins."""
        return np.array([self.observed.calibration_error(p) for p in self.probabilities])

    @property
    def probabilities(self) -> Array:
        """P(first wins) for each alpha and prediction.

        It is a logistic function of the held-out difference, with a slope that was fitted to
        the other groups (or comparisons), in five folds.
        """
        return self.held.probabilities

    def scores(self, metric: str) -> tuple[Array, Array]:
        """A metric for each alpha, and its standard errors.

        Parameters
        ----------
        metric : {"accuracy", "log_loss", "brier", "squared_error"}
        """
        check_value("metric", metric, METRIC)
        return self.held.scores(metric)

    def baselines(self) -> dict[str, dict[str, float]]:
        """Every metric of a random guess, and of "the first one wins"."""
        return {
            name: {metric: self.observed.score(metric, *given)[0] for metric in GREATER_IS_BETTER}
            for name, given in self.observed.baselines().items()
        }

    def to_table(self) -> Table:
        """A row for each alpha, and one for each baseline."""
        rows: list[tuple[Any, ...]] = []
        rest = self.log_loss, self.brier, self.squared_error, self.calibration_error
        for k, values in enumerate(zip(*self.scores("accuracy"), *rest, strict=True)):
            best = "best" if k == self.best_index else ""
            rows.append((f"{self.alphas[k]:.4g}", *values, best))
        for name, found in self.baselines().items():
            means = found["accuracy"], None, found["log_loss"], found["brier"]
            rows.append((name, *means, None, None, ""))
        columns = tuple(
            Column(name)
            for name in ("alpha", "accuracy", "s.e.", "log-loss", "Brier", "squared error",
                         "calibration", "")
        )  # fmt: skip
        return Table(columns, tuple(rows))

    def _frame_columns(self) -> dict[str, Array]:
        columns = {"alpha": self.alphas}
        for metric in GREATER_IS_BETTER:
            columns[metric], columns[f"{metric}_error"] = self.scores(metric)
        return {**columns, "calibration_error": self.calibration_error}


def leave_comparison_out(
    estimator: Any,
    X: Any,
    pairs: Any,
    *,
    margin: Any = None,
    weight: Any = None,
    groups: Any = None,
    context: Any = None,
    alphas: Any = None,
    metric: str = "squared_error",
    n_splits: int | None = None,
) -> LeaveComparisonOut:
    """Predict every comparison by a ranker trained without it, without refitting.

    Predictions agree with refits to the same rows X and the other comparisons, up to rounding: a
    column of the context is scaled without the held-out comparisons. With groups, a comparison is
    predicted without its whole group: a prompt, a rater, a session. All single comparisons take
    little more time than the fits. A group of g comparisons takes O(g^2 d + g^3) time for each
    alpha and d coordinates (features, landmarks or, with a kernel matrix, rows), or O(d^3) if that
    is less.

    Parameters
    ----------
    estimator : RankRLS or SparseRankRLS
        It is cloned, not fitted. Landmarks are chosen among all rows.
    X, pairs, margin, weight, groups, context
        As for `RankRLS.fit_pairs`. `pairs` may be `rankwise.data.Comparisons`.
    alphas : sequence of float, optional
        None: the alpha of the estimator or, if it is "auto", a grid that follows the scale of the
        data.
    metric : {"accuracy", "log_loss", "brier", "squared_error"}, default="squared_error"
        What `best_alpha` is chosen by. The result contains all of them. ``alpha="auto"`` also uses
        the squared error. The accuracy is often the same for many alphas.
    n_splits : int, optional
        Number of folds of groups (or of single comparisons) to hold out. None: one at a time.

    Returns
    -------
    LeaveComparisonOut

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import RankRLS
    >>> from rankwise.model_selection import leave_comparison_out
    >>> rng = np.random.default_rng(0)
    >>> X, pairs = rng.standard_normal((50, 3)), rng.integers(0, 25, (200, 2)) + [0, 25]
    >>> f = X @ [1.0, -1.0, 0.0]
    >>> won = f[pairs[:, 0]] - f[pairs[:, 1]] + rng.standard_normal(200) > 0
    >>> print(leave_comparison_out(RankRLS(), X, pairs, margin=won, alphas=[1.0, 100.0]))
    alpha       accuracy    s.e.  log-loss   Brier  squared error  calibration
    ----------  --------  ------  --------  ------  -------------  -----------
    1             0.8100  0.0278    0.3793  0.1251         0.5276       0.0385  best
    100           0.7950  0.0286    0.3824  0.1265         0.5459       0.0609
    random        0.5000       –    0.6931  0.2500              –            –
    first wins    0.5900       –    0.6769  0.2419              –            –
    """
    check_value("metric", metric, METRIC)
    given = {"margin": margin, "weight": weight, "groups": groups, "context": context}
    problem = comparison_problem(estimator, X, pairs, given, alphas)
    graph: Any = problem.graph(0)
    fold = graph.group_of_pair
    if fold is not None and fold.max() == 0:
        raise DataError("Holding out groups needs at least two groups: got one.")
    if n_splits is not None:
        codes = np.arange(len(graph.first)) if fold is None else fold
        check_value("n_splits", n_splits, Whole(2, int(codes.max()) + 1))
        fold = codes % n_splits
    return _scored_comparisons(hold_out(problem, ComparisonFolds(fold)), metric)


def leave_item_out(
    estimator: Any,
    X: Any,
    pairs: Any,
    *,
    new: str = "both",
    margin: Any = None,
    weight: Any = None,
    groups: Any = None,
    context: Any = None,
    alphas: Any = None,
    metric: str = "squared_error",
) -> LeaveComparisonOut:
    """Predict comparisons of items that have not been compared yet, without refitting.

    Predictions agree with refits to the same rows X without the comparisons of these items, up to
    rounding. The features of new items are known: their rows contribute to the scaling of features
    and to landmarks.

    Parameters
    ----------
    estimator : RankRLS or SparseRankRLS
    X, pairs, margin, weight, context, alphas, metric
        As for `leave_comparison_out`.
    new : {"both", "one"}, default="both"
        "both": a comparison is predicted without all comparisons of either item, as a comparison
        of two new items. "one": without the comparisons of its first item, and again without the
        comparisons of its second: a new item against a known one. There are then two predictions
        for each comparison, first the predictions without the first items.
    groups : array-like of shape (n_pairs,), optional
        Groups of comparisons for standard errors. None: every comparison is a group.

    Returns
    -------
    LeaveComparisonOut

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import RankRLS
    >>> from rankwise.model_selection import leave_item_out
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> pairs = [[1, 0], [2, 1], [3, 2], [3, 0]]
    >>> leave_item_out(RankRLS(alpha=1.0), X, pairs).differences.round(2)
    array([[0.5, 0.3, 0.5, 1.5]])
    """
    check_value("new", new, Choice("both", "one"))
    check_value("metric", metric, METRIC)
    given = {"margin": margin, "weight": weight, "groups": groups, "context": context}
    problem = comparison_problem(estimator, X, pairs, given, alphas)
    return _scored_comparisons(hold_out(problem, Items(both=new == "both")), metric)


def comparison_problem(
    ranker: Any, X: Any, pairs: Any, given: dict[str, Any], alphas: Any
) -> HoldOutProblem:
    """The comparisons of a ranker, which is cloned, and the alphas to hold them out for."""
    ranker, values = least_squares(ranker, alphas)
    check_takes_pairs(ranker)
    if values is not None and values.min() == 0:
        raise ParameterError("Exact hold-outs need alphas above 0: use a small alpha instead of 0.")
    problem = ranker.make_pairs_problem(X, pairs, **given)
    if problem.space.has_own_hold_outs:
        raise ParameterError(
            f"Components of {type(ranker).__name__} are not linear in the comparisons: use "
            "RankingSearchCV.fit_pairs, which refits, or a ranker without components."
        )
    graph = problem.comparisons
    if graph.margin.ndim > 1:
        raise DataError(
            f"Hold-outs of comparisons need one margin per pair: got shape {graph.margin.shape}."
        )
    if len(graph.first) < 2:
        raise DataError("Holding out a comparison needs at least two: got one.")
    held = HoldOutProblem.of(problem, np.ones(1) if values is None else values)  # no overflow
    return held if values is not None else replace(held, alphas=data_alphas(problem))


def check_takes_pairs(ranker: Any) -> None:
    """Raise an error for a ranker that cannot be fitted to comparisons."""
    if not hasattr(ranker, "fit_pairs"):
        raise ParameterError(
            f"{type(ranker).__name__} cannot be fitted to comparisons: use a ranker with "
            "fit_pairs, such as RankRLS."
        )


def _scored_comparisons(held: ComparisonHoldOut, metric: str) -> LeaveComparisonOut:
    return LeaveComparisonOut(**vars(held.score(metric)), held=held)
