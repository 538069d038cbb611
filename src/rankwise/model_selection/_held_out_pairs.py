"""Leave-pair-out: each pair of rows is predicted by a ranker trained without both of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwise.backends.arrays import Array, Index, to_host
from rankwise.backends.dispatch import backend_of
from rankwise.errors import DataError, ParameterError
from rankwise.holdout.held_out_pairs import pair_differences, pair_errors, pair_losses
from rankwise.holdout.held_out_scores import alpha_table, given_words
from rankwise.holdout.hold_out_problem import HoldOutProblem
from rankwise.holdout.leave_pair_out import PairDifferences
from rankwise.holdout.pair_choice import choose_pairs
from rankwise.holdout.pair_differences import add_wins
from rankwise.model_selection._hold_outs import hold_out_problem, with_one_alpha
from rankwise.model_selection._strata import Units, check_two_rows
from rankwise.tables import Table, TableMixin, plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False, repr=False)
class LeavePairOut(TableMixin):
    """The errors of held-out pairs, for each alpha.

    Attributes
    ----------
    alphas : ndarray of shape (n_alphas,)
    error : ndarray of shape (n_alphas,) or (n_alphas, n_outputs)
        Share of pairs with different labels that are in the wrong order, averaged over queries.
        Tied predictions count half.
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
    def best_index(self) -> int:
        """The index of the smallest error, averaged over outputs; of equals the largest alpha."""
        mean = self.error.reshape(len(self.alphas), -1).mean(axis=1)
        best = np.flatnonzero(mean <= mean.min())
        return int(best[np.argmax(self.alphas[best])])

    @property
    def best_alpha(self) -> float:
        """The alpha with the smallest error."""
        return float(self.alphas[self.best_index])

    def to_table(self) -> Table:
        """A row for each alpha: its AUC, the standard error, and which is best."""
        return alpha_table("AUC", self.alphas, *self._means(), self.best_index, self.shared)

    def _means(self) -> tuple[Array, Array]:
        """AUC and standard error of each alpha, averaged over outputs."""
        auc, spread = (
            values.reshape(len(self.alphas), -1).mean(axis=1)
            for values in (self.auc, self.standard_error)
        )
        return auc, spread

    def _frame_columns(self) -> dict[str, Array]:
        auc, spread = self._means()
        return {"alpha": self.alphas, "auc": auc, "standard_error": spread}

    def __repr__(self) -> str:
        auc, spread = self._means()
        k = self.best_index
        return (
            f"<LeavePairOut: {plural(len(self.alphas), 'alpha')}, best AUC {auc[k]:.4f} ± "
            f"{spread[k]:.4f} at alpha = {self.alphas[k]:.4g}{given_words(self.shared)}>"
        )

    def plot(self, **options: Any) -> Axes:
        """Draw the errors against alpha; options are those of `rankwise.plots.plot_hold_out`."""
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
    return_differences: bool = False,
    random_state: Any = None,
    query_weight: Any = None,
) -> LeavePairOut:
    """Hold out every pair of rows, without refitting.

    Predictions are those of refits, up to rounding, given what was computed from all rows: the
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
        rows, and the rows of one are compared with those of the other. There is a factorization
        for each total number of rows in two groups if ``weighting="pairs"``, and one for all of
        them otherwise; with ``ties="exclude"``, one for each set of numbers of rows that the labels
        have left. Not together with `qid` or `pairs`.
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
    kept: list[list[list[PairDifferences]]] = [
        [[] for _ in problem.alphas] for _ in range(problem.n_tasks)
    ]

    def keep(task: int, a: int, block: PairDifferences) -> None:
        kept[task][a].append(block)

    losses = pair_losses(problem, chosen, keep if return_differences else None)
    error, standard_error = map(
        problem.by_output, pair_errors(*losses, problem.groups, units.groups)
    )
    shared = problem.shared(scaling=True)
    if not return_differences:
        return LeavePairOut(problem.alphas, error, standard_error, shared=shared)
    rows, differences = _collect(kept, problem, chosen.listed)
    magnitude = problem.by_output(_magnitude_error(problem, rows, differences))
    rows = rows if labelled is None else labelled[rows]
    return LeavePairOut(problem.alphas, error, standard_error, rows, differences, magnitude, shared)


def tournament_scores(estimator: Any, X: Any, y: Any, *, qid: Any = None) -> Array:
    """The share of wins of each row over all of its held-out pairs.

    The scores order the rows by leave-pair-out, so that a ROC curve can be drawn from them. Rows
    are compared within their query. There are O(m^2) pairs. As in `leave_pair_out`, the scaling of
    features, landmarks and components are those of all rows; so is an alpha that is chosen.

    Parameters
    ----------
    estimator, X, y, qid
        As for `leave_pair_out`; the alpha is that of the estimator, chosen if it is "auto".

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
    >>> tournament_scores(RankRLS(), [[0.0], [1.0], [2.0], [3.0], [9.0]], [0, 0, 0, 1, 1])
    array([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """
    problem = with_one_alpha(estimator, hold_out_problem(estimator, X, y, qid, None))
    everything = choose_pairs(problem, None, None, keep_ties=True)
    on = backend_of(problem.y)
    wins, compared = np.zeros(problem.y.shape), np.zeros(problem.y.shape)
    for task in range(problem.n_tasks):
        columns = problem.columns(task)
        task_wins, task_compared = on.zeros(*problem.targets(task).shape), on.zeros(len(wins))
        for _, block in pair_differences(problem, task, everything):
            add_wins(*block, task_wins, task_compared)
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
    kept: list[list[list[PairDifferences]]], problem: HoldOutProblem, listed: Index | None
) -> tuple[Index, Array]:
    """Pairs, ascending or as listed, and their differences."""
    m = len(problem.y)

    on = backend_of(problem.y)

    def join(blocks: list[PairDifferences]) -> tuple[Index, Array]:
        first, second = (
            np.concatenate([to_host(block[side]) for block in blocks]) for side in (0, 1)
        )
        difference = on.xp.concatenate([block.difference for block in blocks])
        difference *= on.array(np.where(first > second, -1.0, 1.0)[:, None])
        key = np.minimum(first, second) * m + np.maximum(first, second)
        order = np.argsort(key)
        if listed is None:
            return np.column_stack(np.divmod(key[order], m)), difference[order]
        wanted = listed.min(axis=1) * m + listed.max(axis=1)
        found = order[np.searchsorted(key, wanted, sorter=order)]
        sign = np.where(listed[:, 0] > listed[:, 1], -1.0, 1.0)
        return listed, on.array(sign[:, None]) * difference[found]

    joined = [[join(blocks) for blocks in by_alpha] for by_alpha in kept]
    by_task = [on.xp.stack([difference for _, difference in task]) for task in joined]
    differences = problem.returned(on.xp.concatenate(by_task, axis=2))
    return joined[0][0][0], problem.by_output(differences)
