"""Queries, rows or folds of them, predicted by rankers that have not seen them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from rankwise.backends.arrays import Array, Index, to_host
from rankwise.backends.dispatch import at_home, backend_of
from rankwise.errors import DataError, ParameterError
from rankwise.estimators._checks import check_whole
from rankwise.estimators.components.component_ranker import ComponentRanker
from rankwise.estimators.components.number import hold_out_queries
from rankwise.holdout.leave_query_out import dual_folds, primal_folds
from rankwise.holdout.ridge_folds import Strength, feature_ridge_folds, kernel_ridge_folds
from rankwise.metrics import get_metric
from rankwise.model_selection._problem import Problem, explained_rounding


@dataclass(frozen=True)
class HeldOutScores:
    """How good predictions for held-out rows are, for each alpha.

    Attributes
    ----------
    alphas : ndarray of shape (n_alphas,)
    score : ndarray of shape (n_alphas,)
        The metric, averaged over queries (or folds) and outputs.
    standard_error : ndarray of shape (n_alphas,)
        Of `score`, over queries (or folds); NaN where there is only one.
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
        """Where the score is best; of equals the largest alpha."""
        gain = self.score if self.greater_is_better else -self.score
        best = np.flatnonzero(gain >= gain.max())
        return int(best[np.argmax(self.alphas[best])])

    @property
    def best_alpha(self) -> float:
        """The alpha with the best score."""
        return float(self.alphas[self.best_index])

    def __str__(self) -> str:
        lines = [f"{'alpha':>12}  {self.metric:>12}  {'s.e.':>8}"]
        for k, alpha in enumerate(self.alphas):
            mark = "  best" if k == self.best_index else ""
            lines.append(
                f"{alpha:>12.4g}  {self.score[k]:>12.4f}  {self.standard_error[k]:>8.4f}{mark}"
            )
        return "\n".join(lines)


@dataclass(frozen=True)
class HeldOut(HeldOutScores):
    """Predictions for rows that were held out, and how good they are.

    Attributes
    ----------
    alphas, score, standard_error, metric, greater_is_better
        As for `HeldOutScores`.
    predictions : ndarray of shape (n_alphas, n_rows) or (n_alphas, n_rows, n_outputs)
        Each row by the ranker that was trained without its fold.
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
    n_folds: int | None = None,
) -> HeldOut:
    """Predict every query by a ranker trained on the others, exactly, without refitting.

    One factorization for each alpha (or one for all of them) serves all queries. In the dual,
    O(m^3) time; in the primal, O(m n^2) and, for each query and alpha, the cube of n_features
    or of the rows of the query, whichever is smaller.

    Landmarks of `SparseRankRLS` and components of `KPCRank` are those of all rows: what is held
    out is their part in the weights.

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
    n_folds : int, optional
        Hold out so many folds of whole queries. None: one query at a time.

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
    get_metric(metric)  # an unknown one is told before the work
    problem = Problem.of(estimator, X, y, qid, alphas)
    groups = problem.groups
    if groups.n_groups < 2:
        raise DataError("leave_query_out needs at least two queries: got one.")
    folds = _query_folds(problem, n_folds)
    with explained_rounding():
        if isinstance(problem.ranker, ComponentRanker):
            _check_folds(problem, folds)
            predictions = _component_folds(problem, folds)
        elif problem.pointwise:
            predictions = _ridge_folds(problem, folds, _same, add_intercept=True)
        else:
            _check_folds(problem, folds)
            by_task = [_pairwise_folds(problem, k, folds) for k in range(len(problem.tasks))]
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
    """Folds of rows held out of one global ranking, exactly.

    The metric compares rows of the same fold only: rankers of different folds have different
    offsets, and pooling their predictions would compare these. Small folds hold few pairs; for
    small samples `leave_pair_out` is the better estimate.

    One factorization for each alpha where ties count, refits where they do not.

    Parameters
    ----------
    estimator : RankRLS or RLS
    X, y
        As for `leave_query_out`.
    n_splits : int, default=5
    alphas, metric
        As for `leave_query_out`.
    random_state : int or Generator, optional
        Shuffles the rows. None: folds of every n_splits-th row.

    Returns
    -------
    HeldOut

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.data import load_dataset
    >>> from rankwise.model_selection import k_fold
    >>> data = load_dataset("diabetes")
    >>> k_fold(RankRLS(), data.X, data.y, alphas=[1.0, 100.0]).score.round(3)
    array([0.254, 0.257])
    """
    get_metric(metric)  # an unknown one is told before the work
    problem = Problem.of(estimator, X, y, None, alphas)
    m = len(problem.y)
    check_whole("n_splits", n_splits, 2, m // 2)
    rows = np.arange(m)
    if random_state is not None:
        rows = np.random.default_rng(random_state).permutation(m)
    fold_of = np.empty(m, dtype=np.intp)
    fold_of[rows] = np.arange(m) % n_splits
    folds = [np.flatnonzero(fold_of == k) for k in range(n_splits)]
    with explained_rounding():
        predictions = _global_folds(problem, folds)
    return _scored(problem, predictions, metric, fold_of)


def leave_one_out(estimator: Any, X: Any, y: Any, *, alphas: Any = None) -> HeldOut:
    """Each row predicted by a regression trained on the others, exactly.

    For `RLS`, whose predictions mean something one by one; the score is the mean squared
    error. (A ranker has no such thing: see `leave_pair_out`.)

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
    problem = Problem.of(estimator, X, y, None, alphas)
    if not problem.pointwise:
        raise ParameterError(
            f"leave_one_out needs RLS: a row alone has no rank. For "
            f"{type(problem.ranker).__name__} use leave_pair_out."
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


def _query_folds(problem: Problem, n_folds: int | None) -> list[Index]:
    groups = problem.groups
    if n_folds is None:
        return list(groups)
    check_whole("n_folds", n_folds, 2, groups.n_groups)
    return [np.flatnonzero(groups.codes % n_folds == k) for k in range(n_folds)]


def _check_folds(problem: Problem, folds: Sequence[Index]) -> None:
    """Each fold must leave a pair to learn from."""
    groups = problem.groups
    for task in problem.tasks:
        has_pairs = task.graph.degrees > 0
        total = np.count_nonzero(has_pairs)
        for fold in folds:
            if np.count_nonzero(has_pairs[fold]) == total:
                name = groups.names[groups.codes[fold[np.argmax(has_pairs[fold])]]]
                raise DataError(
                    f"Without query {name} there is no pair left to learn from: more queries "
                    "with different labels are needed, or another kind of hold-out."
                )


def _pairwise_folds(problem: Problem, task: int, folds: Sequence[Index]) -> Array:
    graph, space, lams = problem.graph(task), problem.space, problem.alphas.tolist()
    y = problem.targets(task)
    if space.kernel is not None:
        return dual_folds(backend_of(y).copy(space.kernel), graph, y, folds, lams)
    return primal_folds(space.features, graph, y, folds, lams)


def _component_folds(problem: Problem, folds: Sequence[Index]) -> Array:
    """On the components of all rows; of all numbers of them, the largest is what was asked for."""
    ranker = cast(ComponentRanker, problem.ranker)
    found = hold_out_queries(
        ranker,
        problem.X,
        problem.tasks,
        problem.alphas.tolist(),
        problem.qid,
        ranker._fixed_count(),
        folds,
    )
    return found[:, :, -1]


def _ridge_folds(
    problem: Problem, folds: Sequence[Index], strength: Strength, *, add_intercept: bool
) -> Array:
    space, lams = problem.space, problem.alphas.tolist()
    if space.kernel is not None:
        return kernel_ridge_folds(
            space.kernel, problem.y, folds, lams, strength, add_intercept=add_intercept
        )
    return feature_ridge_folds(
        space.features, problem.y, folds, lams, strength, add_intercept=add_intercept
    )


def _global_folds(problem: Problem, folds: Sequence[Index]) -> Array:
    """Folds of rows of one ranking."""
    if problem.pointwise:
        return _ridge_folds(problem, folds, _same, add_intercept=True)
    if problem.rule.ties == "exclude":
        return _refits(problem, folds)

    def strength(lam: float, n_left: int) -> float:
        return lam / (problem.rule.weight(n_left, n_left * (n_left - 1) // 2) * n_left)

    return _ridge_folds(problem, folds, strength, add_intercept=False)


def _refits(problem: Problem, folds: Sequence[Index]) -> Array:
    X, y, on = at_home(problem.X), problem.by_output(problem.y), backend_of(problem.y)
    out = on.empty(len(problem.alphas), *problem.y.shape)
    for fold in folds:
        rest = np.setdiff1d(np.arange(len(y)), fold)
        train, test = X[rest], X[fold]
        if problem.ranker.kernel == "precomputed":
            train, test = train[:, rest], test[:, rest]
        path = problem.ranker.fit_path(train, y[rest], problem.alphas)
        out[:, fold] = on.array(path.predict(test)).reshape(len(out), len(fold), -1)
    return out


def _scored(problem: Problem, predictions: Array, metric: str, qid: Index) -> HeldOut:
    """Predictions with a metric, query by query."""
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


def mean_and_error(by_output: Sequence[Array]) -> tuple[float, float]:
    """Of values per query, an array for each output: their mean, and its standard error."""
    score = float(np.mean([values.mean() for values in by_output]))
    n = min(len(values) for values in by_output)
    spread = np.mean([values.std(ddof=1) for values in by_output]) if n > 1 else np.nan
    return score, float(spread / np.sqrt(n))
