"""Exact hold-outs of queries, rows, or folds of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwise.backends.arrays import Array, Index, to_host
from rankwise.backends.dispatch import backend_of
from rankwise.errors import DataError, ParameterError
from rankwise.estimators.components.chosen_space import ChosenComponentSpace
from rankwise.estimators.components.component_space import ComponentSpace
from rankwise.estimators.components.held_out_errors import predict_held_out_queries
from rankwise.holdout.leave_query_out import dual_folds, primal_folds
from rankwise.holdout.ridge_folds import Strength, feature_ridge_folds, kernel_ridge_folds
from rankwise.kernels import Precomputed
from rankwise.metrics import get_metric
from rankwise.model_selection._hold_out_problem import HoldOutProblem, explained_rounding
from rankwise.parameters import Whole, as_generator, check_value
from rankwise.problem import FeatureSpace, KernelSpace, Problem
from rankwise.tables import Column, Table, TableMixin, plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False, repr=False)
class HeldOutScores(TableMixin):
    """The quality of predictions for held-out rows, for each alpha.

    Attributes
    ----------
    alphas : ndarray of shape (n_alphas,)
    score : ndarray of shape (n_alphas,)
        The metric, averaged over queries (or folds) and outputs.
    standard_error : ndarray of shape (n_alphas,)
        Standard error of `score` over queries (or folds); NaN if there is only one.
    metric : str
    greater_is_better : bool
    """

    alphas: Array
    score: Array
    standard_error: Array
    metric: str
    greater_is_better: bool

    @property
    def best_index(self) -> int:
        """The index of the best score; among equal scores, that of the largest alpha."""
        gain = self.score if self.greater_is_better else -self.score
        best = np.flatnonzero(gain >= gain.max())
        return int(best[np.argmax(self.alphas[best])])

    @property
    def best_alpha(self) -> float:
        """The alpha with the best score."""
        return float(self.alphas[self.best_index])

    def to_table(self) -> Table:
        """A row for each alpha: its score, the standard error, and which is best."""
        return alpha_table(
            self.metric, self.alphas, self.score, self.standard_error, self.best_index
        )

    def _frame_columns(self) -> dict[str, Array]:
        return {
            "alpha": self.alphas,
            self.metric: self.score,
            "standard_error": self.standard_error,
        }

    def __repr__(self) -> str:
        k = self.best_index
        return (
            f"<{type(self).__name__}: {plural(len(self.alphas), 'alpha')}, best "
            f"{self.metric} {self.score[k]:.4f} ± {self.standard_error[k]:.4f} at alpha = "
            f"{self.alphas[k]:.4g}>"
        )

    def plot(self, **options: Any) -> Axes:
        """Draw the scores against alpha; options are those of `rankwise.plots.plot_hold_out`."""
        from rankwise.plots import plot_hold_out

        return plot_hold_out(self, **options)


@dataclass(frozen=True, eq=False, repr=False)
class HeldOut(HeldOutScores):
    """Predictions for held-out rows, and their quality.

    Attributes
    ----------
    alphas, score, standard_error, metric, greater_is_better
        As for `HeldOutScores`.
    predictions : ndarray of shape (n_alphas, n_rows) or (n_alphas, n_rows, n_outputs)
        The prediction for each row by a ranker trained without its fold.

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.model_selection import k_fold
    >>> X, y = [[0.0], [2.0], [1.0], [3.0], [4.0], [5.0]], [0.0, 2.0, 1.0, 3.0, 4.0, 5.0]
    >>> print(k_fold(RankRLS(), X, y, n_splits=3))
    alpha  disagreement    s.e.
    -----  ------------  ------
        1        0.0000  0.0000  best
    """

    predictions: Array


def leave_query_out(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    qid: Any,
    alphas: Any = None,
    metric: str = "disagreement",
    n_splits: int | None = None,
) -> HeldOut:
    """Predict every query by a ranker trained on the others, exactly, without refitting.

    One factorization for each alpha (or one for all of them) serves all queries. The dual takes
    O(m^3) time. The primal takes O(m n^2) time and, for each query and alpha, the cube of the
    number of features or of the rows of the query, whichever is smaller.

    Landmarks of `SparseRankRLS` and components of `KPCRank` are computed from all rows: held-out
    rows do not affect the weights, but they may affect the landmarks or components.

    Parameters
    ----------
    estimator : RankRLS, SparseRankRLS, KPCRank, or one of their pointwise baselines
        It is cloned, not fitted. A KPCRank needs a fixed number of components.
    X : array-like or sparse of shape (n_rows, n_features)
    y : array-like of shape (n_rows,) or (n_rows, n_outputs)
    qid : array-like of shape (n_rows,)
    alphas : sequence of float, optional
        None: the alpha of the estimator.
    metric : str, default="disagreement"
        A name of `rankwise.metrics.METRICS`, such as "ndcg@10" or "map".
    n_splits : int, optional
        Number of folds of whole queries to hold out. None: one query at a time.

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
    problem = HoldOutProblem.of(estimator, X, y, qid, alphas)
    groups = problem.groups
    if groups.n_groups < 2:
        raise DataError("leave_query_out needs at least two queries: got one.")
    folds = _query_folds(problem, n_splits)
    with explained_rounding():
        if isinstance(problem.problem.space, (ComponentSpace, ChosenComponentSpace)):
            _check_folds(problem, folds)
            predictions = _component_folds(problem, folds)
        elif problem.loss.has_intercept:
            predictions = _ridge_folds(problem, folds, _same, add_intercept=True)
        else:
            _check_folds(problem, folds)
            by_task = [_pairwise_folds(problem, k, folds) for k in range(problem.n_tasks)]
            predictions = backend_of(problem.y).xp.concatenate(by_task, axis=2)
    return _scored(problem, predictions, metric, groups.codes)


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
    """Hold out folds of rows of one global ranking, exactly.

    The metric compares only rows of the same fold: rankers of different folds have different
    offsets, which would distort pooled predictions. Small folds contain few pairs; for small
    samples, `leave_pair_out` is the better estimate.

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
    problem = HoldOutProblem.of(estimator, X, y, None, alphas)
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
        predictions = _global_folds(problem, folds)
    return _scored(problem, predictions, metric, fold_of)


def leave_one_out(estimator: Any, X: Any, y: Any, *, alphas: Any = None) -> HeldOut:
    """Predict every row by a regression trained on the others, exactly, without refitting.

    This is for `RLS`, whose predictions are meaningful for single rows. The score is the mean
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
    problem = HoldOutProblem.of(estimator, X, y, None, alphas)
    if not problem.loss.has_intercept:
        raise ParameterError(
            f"leave_one_out needs a regression, such as RLS: got {type(problem.ranker).__name__}. "
            "For rankers use leave_pair_out."
        )
    folds = list(np.arange(len(problem.y))[:, None])
    with explained_rounding():
        predictions = _ridge_folds(problem, folds, _same, add_intercept=True)
    squared = to_host(((problem.y - predictions) ** 2).mean(axis=2))
    return HeldOut(
        problem.alphas,
        squared.mean(axis=1),
        squared.std(axis=1, ddof=1) / np.sqrt(squared.shape[1]),
        "squared_error",
        False,
        problem.by_output(problem.returned(predictions)),
    )


def _same(lam: float, n_left: int) -> float:
    return lam


def _query_folds(problem: HoldOutProblem, n_splits: int | None) -> list[Index]:
    groups = problem.groups
    if n_splits is None:
        return list(groups)
    check_value("n_splits", n_splits, Whole(2, groups.n_groups))
    return [np.flatnonzero(groups.codes % n_splits == k) for k in range(n_splits)]


def _check_folds(problem: HoldOutProblem, folds: Sequence[Index]) -> None:
    """Each fold must leave a pair to learn from."""
    groups = problem.groups
    for task in problem.problem.tasks:
        has_pairs = task.graph.degrees > 0
        total = np.count_nonzero(has_pairs)
        for fold in folds:
            if np.count_nonzero(has_pairs[fold]) == total:
                name = groups.names[groups.codes[fold[np.argmax(has_pairs[fold])]]]
                raise DataError(
                    f"Without query {name} there is no pair to learn from. Add queries with "
                    "different labels, or use another kind of hold-out."
                )


def _pairwise_folds(problem: HoldOutProblem, task: int, folds: Sequence[Index]) -> Array:
    graph, rows, y = problem.graph(task), problem.coordinates, problem.targets(task)
    if rows.kernel is not None:
        return dual_folds(backend_of(y).copy(rows.kernel), graph, y, folds, problem.lams)
    return primal_folds(rows.features, graph, y, folds, problem.lams)


def _component_folds(problem: HoldOutProblem, folds: Sequence[Index]) -> Array:
    """Folds held out of the weights, on the components of all rows."""
    space = problem.problem.space
    if not isinstance(space, ComponentSpace):
        problem.problem.coordinates()  # raises an error, as the number is not fixed
    assert isinstance(space, ComponentSpace)
    found = predict_held_out_queries(space, problem.problem, problem.lams, space.count, folds)
    return found[:, :, -1]


def _ridge_folds(
    problem: HoldOutProblem, folds: Sequence[Index], strength: Strength, *, add_intercept: bool
) -> Array:
    rows, options = problem.coordinates, {"add_intercept": add_intercept}
    if rows.kernel is not None:
        return kernel_ridge_folds(rows.kernel, problem.y, folds, problem.lams, strength, **options)
    return feature_ridge_folds(rows.features, problem.y, folds, problem.lams, strength, **options)


def _global_folds(problem: HoldOutProblem, folds: Sequence[Index]) -> Array:
    """Folds of rows of one ranking."""
    if problem.loss.has_intercept:
        return _ridge_folds(problem, folds, _same, add_intercept=True)
    if problem.loss.ties == "exclude":
        return _refits(problem, folds)

    def strength(lam: float, n_left: int) -> float:
        return lam / (problem.loss.weight(n_left, n_left * (n_left - 1) // 2) * n_left)

    return _ridge_folds(problem, folds, strength, add_intercept=False)


def _refits(problem: HoldOutProblem, folds: Sequence[Index]) -> Array:
    """Refit without each fold, in the coordinates of all rows."""
    rows, loss, on = problem.coordinates, problem.loss, backend_of(problem.y)
    y = problem.by_output(problem.y)
    out = on.empty(len(problem.alphas), *problem.y.shape)
    space = FeatureSpace() if rows.kernel is None else KernelSpace(Precomputed())
    for fold in folds:
        rest = np.setdiff1d(np.arange(len(y)), fold)
        if rows.kernel is None:
            train, test = rows.features[rest], rows.features[fold]
        else:
            train, test = rows.kernel[rest][:, rest], rows.kernel[fold][:, rest]
        tasks = loss.tasks(y[rest], None)
        loss.check_learnable([task.graph.n_pairs for task in tasks], len(rest), 1)
        fit = Problem(train, tasks, loss, space).solve(problem.lams)
        for a, solution in enumerate(fit.solutions):
            scores = on.array(fit.basis.products(test, solution.weights))
            out[a, fold] = scores.reshape(len(fold), -1)
    return out


def _scored(problem: HoldOutProblem, predictions: Array, metric: str, qid: Index) -> HeldOut:
    """Evaluate predictions by a metric, query by query."""
    function, greater_is_better = get_metric(metric)
    by_alpha = [
        [
            function(problem.labels[:, o], f[:, o], qid, per_query=True).values
            for o in range(problem.y.shape[1])
        ]
        for f in to_host(predictions)
    ]
    score, error = np.transpose([mean_and_error(values) for values in by_alpha])
    outputs = problem.by_output(problem.returned(predictions))
    return HeldOut(problem.alphas, score, error, metric, greater_is_better, outputs)


def alpha_table(
    name: str, alphas: Array, score: Array, standard_error: Array, best_index: int
) -> Table:
    """A table of the scores for each alpha, with the best one marked."""
    rows = [
        (alpha, value, spread, "best" if k == best_index else "")
        for k, (alpha, value, spread) in enumerate(zip(alphas, score, standard_error, strict=True))
    ]
    columns = (Column("alpha", ".4g"), Column(name), Column("s.e."), Column("", ""))
    return Table(columns, tuple(rows), best=frozenset({(best_index, 1)}))


def mean_and_error(by_output: Sequence[Array]) -> tuple[float, float]:
    """The mean of values per query, one array for each output, and its standard error."""
    score = float(np.mean([values.mean() for values in by_output]))
    n = min(len(values) for values in by_output)
    spread = np.mean([values.std(ddof=1) for values in by_output]) if n > 1 else np.nan
    return score, float(spread / np.sqrt(n))
