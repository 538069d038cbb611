"""Exact hold-outs of queries, rows, or folds of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, Index, to_host
from rankwise.errors import DataError, ParameterError
from rankwise.estimators.ranker_mixin import explain_calls
from rankwise.holdout.held_out_folds import check_folds, predict_queries, predict_rows, rescales
from rankwise.holdout.held_out_scores import HeldOutScores, score_predictions
from rankwise.holdout.hold_out_problem import HoldOutProblem, explained_rounding
from rankwise.metrics import get_metric
from rankwise.model_selection._hold_outs import hold_out_problem
from rankwise.parameters import Whole, as_generator, check_value


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

    Predictions are those of refits, up to rounding, unless `shared` of the result names something
    that was computed from all rows. One factorization for each alpha (or one for all of them)
    serves all queries. The dual takes O(m^3) time. The primal takes O(m n^2) time and, for each
    query and alpha, the cube of the number of features or of the rows of the query, whichever is
    smaller.

    Landmarks of `SparseRankRLS`, components of `KPCRank` and knots of `AdditiveRankRLS` are
    computed from all rows: held-out rows do not affect the weights, but they may affect these. So
    may they with ``gamma="scale"``, and with the choice of ``scale="auto"``, which stays the same.
    The graph of `TransductiveRankRLS` has all rows: held-out rows are rows without labels.

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
    folds = _query_folds(problem, n_splits)
    with explained_rounding():
        if problem.problem.space.has_own_hold_outs:
            check_folds(problem, folds)
            predictions = problem.problem.space.hold_out_queries(
                problem.problem, problem.lams, folds
            )
        else:
            predictions = predict_queries(problem, folds)
    shared = _shared(problem, len(folds), whole_queries=True)
    return _scored(problem, predictions, metric, groups.codes, shared)


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

    Predictions are those of refits, up to rounding, given what `shared` of the result names. Rows
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
    rows = np.arange(m)
    if random_state is not None:
        rows = as_generator(random_state).permutation(m)
    fold_of = np.empty(m, dtype=np.intp)
    fold_of[rows] = np.arange(m) % n_splits
    folds = [np.flatnonzero(fold_of == k) for k in range(n_splits)]
    with explained_rounding():
        predictions = predict_rows(problem, folds)
    shared = _shared(problem, len(folds), whole_queries=False)
    return _scored(problem, predictions, metric, fold_of, shared)


def leave_one_out(estimator: Any, X: Any, y: Any, *, alphas: Any = None) -> HeldOut:
    """Predict every row by a regression trained on the others, without refitting.

    Predictions are those of refits, up to rounding, given what `shared` of the result names. This
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
    folds = list(np.arange(len(problem.y))[:, None])
    with explained_rounding():
        predictions = predict_rows(problem, folds)
    squared = to_host(((problem.y - predictions) ** 2).mean(axis=2))
    return HeldOut(
        problem.alphas,
        squared.mean(axis=1),
        squared.std(axis=1, ddof=1) / np.sqrt(squared.shape[1]),
        "squared_error",
        False,
        problem.by_output(problem.returned(predictions)),
        shared=_shared(problem, len(folds), whole_queries=False),
    )


def _query_folds(problem: HoldOutProblem, n_splits: int | None) -> list[Index]:
    groups = problem.groups
    if n_splits is None:
        return list(groups)
    check_value("n_splits", n_splits, Whole(2, groups.n_groups))
    return [np.flatnonzero(groups.codes % n_splits == k) for k in range(n_splits)]


def _check_weights(problem: HoldOutProblem, estimator: Any, n_rows: int) -> None:
    """Raise an error for weights of rows that hold-outs cannot have."""
    if problem.loss.has_intercept:
        raise ParameterError(
            f"leave_query_out of {type(estimator).__name__} takes no sample_weight: use "
            "sklearn.model_selection.cross_val_score, which refits."
        )
    if problem.problem.n_rows < n_rows:
        raise DataError(
            "leave_query_out needs weights of rows above 0: leave out the rows of weight 0."
        )


def _shared(problem: HoldOutProblem, n_folds: int, *, whole_queries: bool) -> tuple[str, ...]:
    """What was computed from all rows; a query is scaled by itself, as a new one will be."""
    scaling = problem.scaling
    own = scaling is not None and scaling.within_queries and whole_queries
    return problem.shared(scaling=not own and not rescales(problem, n_folds))


def _scored(
    problem: HoldOutProblem,
    predictions: Array,
    metric: str,
    qid: Index,
    shared: tuple[str, ...],
) -> HeldOut:
    """Evaluate predictions by a metric, query by query."""
    found = score_predictions(problem.alphas, problem.labels, to_host(predictions), metric, qid)
    outputs = problem.by_output(problem.returned(predictions))
    outputs = problem.problem.space.for_all_rows(outputs)
    return HeldOut(**{**vars(found), "shared": shared}, predictions=outputs)
