"""Leave-pair-out: each pair of rows is predicted by a ranker trained without both of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwise.backends.arrays import Array, Index, to_host
from rankwise.backends.dispatch import backend_of
from rankwise.errors import DataError, ParameterError
from rankwise.holdout.conditional import Conditional, dual_conditionals, primal_conditionals
from rankwise.holdout.leave_pair_out import PairDifferences, query_pairs
from rankwise.holdout.pair_differences import add_losses, add_wins
from rankwise.model_selection._held_out_queries import alpha_table
from rankwise.model_selection._hold_out_problem import (
    HoldOutProblem,
    explained_rounding,
    lost_in_rounding,
)
from rankwise.model_selection._pair_choice import PairChoice, choose_pairs
from rankwise.problem import Loss
from rankwise.solvers.primal_dual import dual, primal
from rankwise.tables import Table, TableMixin, plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_SECONDS = 120.0  # for the systems of all levels, by a rough estimate


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

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.model_selection import leave_pair_out
    >>> X, y = [[0.0], [2.0], [1.0], [3.0], [4.0], [5.0]], [0, 0, 0, 1, 1, 1]
    >>> print(leave_pair_out(RankRLS(), X, y))
    alpha     AUC    s.e.
    -----  ------  ------
        1  1.0000  0.0000  best
    """

    alphas: Array
    error: Array
    standard_error: Array
    pairs: Index | None = None
    differences: Array | None = None

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
        return alpha_table("AUC", self.alphas, *self._means(), self.best_index)

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
            f"{spread[k]:.4f} at alpha = {self.alphas[k]:.4g}>"
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
    return_differences: bool = False,
    random_state: Any = None,
) -> LeavePairOut:
    """Hold out every pair of rows, exactly, without refitting.

    The estimate is almost unbiased, since rankers are trained on all rows but two. Unlike pooled
    folds, it only compares predictions of the same ranker. For labels 0 and 1 it estimates the
    area under the ROC curve.

    There is one factorization for each alpha, in O(m^3) time in the dual and O(m n^2) in the
    primal; each pair then takes O(1) time (O(n) in the primal). With queries, pairs are held out
    within their query, which additionally takes the cube of the number of its rows or, in the
    primal, of n, for each query. With ``ties="exclude"`` there is one factorization for each pair
    of label values.

    Parameters
    ----------
    estimator : RankRLS, SparseRankRLS, KPCRank, or one of their pointwise baselines
        It is cloned, not fitted. Landmarks and components are computed from all rows. A KPCRank
        needs a fixed number of components and, with queries, an alpha above 0.
    X : array-like or sparse of shape (n_rows, n_features)
    y : array-like of shape (n_rows,) or (n_rows, n_outputs)
    qid : array-like of shape (n_rows,), optional
    alphas : sequence of float, optional
        None: the alpha of the estimator.
    pairs : int or array-like of shape (n_pairs, 2), optional
        Number of random pairs with different labels, or row numbers of pairs. None: all pairs
        within queries.
    return_differences : bool, default=False
        Whether to return the pairs and their differences: O(m^2) memory for each alpha.
    random_state : int or Generator, optional
        Seed for random pairs.

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
    problem = HoldOutProblem.of(estimator, X, y, qid, alphas)
    chosen = choose_pairs(problem, pairs, random_state, keep_ties=return_differences)
    on = backend_of(problem.y)
    loss = np.zeros((len(problem.alphas), *problem.y.shape))
    compared = np.zeros_like(loss)
    kept: list[list[list[PairDifferences]]] = []
    for task in range(problem.n_tasks):
        labels, columns = problem.targets(task), problem.columns(task)
        blocks: list[list[PairDifferences]] = [[] for _ in problem.alphas]
        task_loss = on.zeros(len(problem.alphas), *labels.shape)
        task_compared = on.zeros(len(problem.alphas), *labels.shape)
        for a, block in _differences(problem, task, chosen):
            add_losses(*block, labels, task_loss[a], task_compared[a])
            if return_differences:
                blocks[a].append(block)
        loss[..., columns], compared[..., columns] = to_host(task_loss), to_host(task_compared)
        kept.append(blocks)
    error, standard_error = _summarize(loss, compared[0], problem)
    if not return_differences:
        return LeavePairOut(problem.alphas, error, standard_error)
    rows, differences = _collect(kept, problem, chosen.listed)
    return LeavePairOut(problem.alphas, error, standard_error, rows, differences)


def tournament_scores(estimator: Any, X: Any, y: Any, *, qid: Any = None) -> Array:
    """The share of wins of each row over all of its held-out pairs.

    The scores order the rows by leave-pair-out, so that a ROC curve can be drawn from them. Rows
    are compared within their query. There are O(m^2) pairs.

    Parameters
    ----------
    estimator, X, y, qid
        As for `leave_pair_out`; the alpha is that of the estimator.

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
    problem = HoldOutProblem.of(estimator, X, y, qid, None)
    everything = choose_pairs(problem, None, None, keep_ties=True)
    on = backend_of(problem.y)
    wins, compared = np.zeros(problem.y.shape), np.zeros(problem.y.shape)
    for task in range(problem.n_tasks):
        columns = problem.columns(task)
        task_wins, task_compared = on.zeros(*problem.targets(task).shape), on.zeros(len(wins))
        for _, block in _differences(problem, task, everything):
            add_wins(*block, task_wins, task_compared)
        wins[:, columns] = to_host(task_wins)
        compared[:, columns] = to_host(task_compared)[:, None]
    share = np.divide(wins, compared, out=np.full(wins.shape, 0.5), where=compared > 0)
    return problem.by_output(problem.returned(on.array(share)))


def _differences(
    problem: HoldOutProblem, task: int, pairs: PairChoice
) -> Iterator[tuple[int, PairDifferences]]:
    """(index of the alpha, differences of held-out pairs), block by block."""
    _check_rest(problem, task, pairs)
    with explained_rounding():
        if problem.alphas.min() == 0:
            _check_without_alpha(problem)
        if problem.loss.has_intercept or problem.groups.n_groups == 1:
            blocks = _one_ranking(problem, task, pairs)
        else:
            blocks = chain(
                _queries_with_pairs(problem, task, pairs),
                _queries_without_pairs(problem, task, pairs),
            )
        for a, block in blocks:
            if not backend_of(block.difference).is_finite(block.difference):
                raise lost_in_rounding()
            yield a, block


def _check_without_alpha(problem: HoldOutProblem) -> None:
    """With alpha = 0, the remaining rows must determine the weights of all components."""
    if not problem.loss.has_intercept and problem.groups.n_groups > 1:
        raise ParameterError(
            "With queries, pairs cannot be held out exactly at alpha = 0: use a small alpha above "
            "0, or leave_query_out."
        )
    if problem.loss.ties == "exclude":
        raise ParameterError(
            'With ties="exclude", pairs cannot be held out exactly at alpha = 0: use a small alpha '
            'above 0, or ties="include".'
        )
    n_components, most = problem.coordinates.features.shape[1], len(problem.y) - 3
    if n_components > most:
        raise ParameterError(
            f"At alpha = 0, the {most + 1} rows that remain without a pair determine the weights "
            f"of at most {most} components: got {n_components}. Use fewer components, or an alpha "
            "above 0."
        )


def _queries_with_pairs(
    problem: HoldOutProblem, task: int, pairs: PairChoice
) -> Iterator[tuple[int, PairDifferences]]:
    """Pairs of queries with pairs that count, each query conditional on the others."""
    graph, y, loss = problem.graph(task), problem.targets(task), problem.loss
    space, lams = problem.coordinates, problem.lams
    if space.kernel is not None:
        queries = dual_conditionals(backend_of(y).copy(space.kernel), graph, y, lams)
    else:
        queries = primal_conditionals(space.features, graph, y, lams)
    for a, query in queries:
        listed = pairs.of_query(query.rows, problem.groups.codes, loss)
        if listed is None or len(listed):
            labels = to_host(y[query.rows, 0])
            _check_cost(query, labels, loss, listed)
            for block in query_pairs(query, labels, loss, lams[a], listed):
                yield a, block


def _queries_without_pairs(
    problem: HoldOutProblem, task: int, pairs: PairChoice
) -> Iterator[tuple[int, PairDifferences]]:
    """Pairs of queries without pairs that count: holding them out does not change the fit."""
    graph, y, loss = problem.graph(task), problem.targets(task), problem.loss
    without_pairs = graph.pairs_of_query[graph.query_of_row] == 0
    chosen = []
    for rows in problem.groups:
        if without_pairs[rows[0]] and len(rows) > 1:
            listed = pairs.of_query(rows, problem.groups.codes, loss)
            if listed is not None and len(listed):
                chosen.append(rows[listed])
    if not chosen:
        return
    first, second = np.concatenate(chosen).T
    space, lams = problem.coordinates, problem.lams
    if space.kernel is not None:
        K = backend_of(y).copy(space.kernel)
        scores = [space.kernel @ a for a in dual(K, graph, y, lams)]
    else:
        scores = [space.features @ w for w in primal(space.features, graph, y, lams)]
    for a, f in enumerate(scores):
        yield a, PairDifferences(first, second, f[first] - f[second])


def _one_ranking(
    problem: HoldOutProblem, task: int, pairs: PairChoice
) -> Iterator[tuple[int, PairDifferences]]:
    """Pairs within queries, held out of one ranking of all rows."""
    y, groups, loss = problem.targets(task), problem.groups, problem.loss
    space = problem.coordinates
    rows = np.arange(len(y))
    on, labels = backend_of(y), to_host(y[:, 0])
    features = None if space.features is None else on.rows(space.features, slice(None))
    query = Conditional(rows, on.zeros(*y.shape), y, kernel=space.kernel, features=features)
    if groups.n_groups == 1:
        listed = pairs.of_query(rows, groups.codes, loss)
        _check_cost(query, labels, loss, listed)
    elif pairs.listed is not None:
        listed = pairs.listed
    else:
        within = [r[np.column_stack(np.triu_indices(len(r), 1))] for r in groups if len(r) > 1]
        if not within:
            raise DataError("No query has two rows: there is no pair to hold out.")
        listed = np.concatenate(within)
    for a, alpha in enumerate(problem.alphas):
        for block in query_pairs(query, labels, loss, float(alpha), listed):
            yield a, block


def _check_rest(problem: HoldOutProblem, task: int, pairs: PairChoice) -> None:
    """After a pair is held out, at least one pair must remain in its query or in another."""
    graph, loss, m = problem.graph(task), problem.loss, len(problem.y)
    if problem.loss.has_intercept:
        if m < 4:
            raise DataError(f"Holding out pairs needs at least 4 rows: got {m}.")
        return
    if np.count_nonzero(graph.pairs_of_query) > 1:
        return
    q = int(np.argmax(graph.pairs_of_query))
    sizes = graph.level_sizes[graph.query_ptr[q] : graph.query_ptr[q + 1]]
    if loss.ties == "include":
        nothing = sizes.sum() - 2 < 2
    else:
        # In the worst case the two rows come from the smallest levels, or from the same level if
        # such pairs are held out.
        same = pairs.keep_ties
        if pairs.listed is not None:
            labels = to_host(problem.targets(task)[:, 0])
            same = bool((labels[pairs.listed[:, 0]] == labels[pairs.listed[:, 1]]).any())
        first, second = np.sort(sizes)[:2] if len(sizes) > 1 else (0, 0)
        rest = len(sizes) - 2
        nothing = rest == 0 and min(first, second) < 2
        nothing |= rest == 1 and max(first, second) < 2
        nothing |= same and len(sizes) == 2 and min(first, second) < 3
    if nothing:
        name = problem.groups.names[q]
        where = f" of query {name}" if problem.groups.n_groups > 1 else ""
        raise DataError(
            f"Holding out a pair{where} leaves no pair to learn from. Add rows of every label, or "
            "more queries."
        )


def _check_cost(query: Conditional, labels: Array, loss: Loss, pairs: Index | None) -> None:
    """Without tied pairs there is one system for each pair of levels, which may take too long."""
    if loss.ties == "include":
        return
    n_levels, n = len(np.unique(labels)), len(labels)
    if n_levels == n:
        return
    systems = n_levels * (n_levels - 1) // 2
    if pairs is not None:
        level = np.unique(labels, return_inverse=True)[1]
        systems = len(np.unique(np.sort(level[pairs], axis=1), axis=0))
    d = n if query.features is None else min(n, query.features.shape[1] + n_levels)
    rate = backend_of(query.target).flops
    estimate = systems * (1e-3 + 3.0 * n * d**2 / rate)  # overhead and factorization
    if estimate > MAX_SECONDS:
        raise DataError(
            f'With ties="exclude", {n_levels} different labels in {n} rows need {systems} systems, '
            f'which takes about {estimate:.0f} seconds for each alpha. Use ties="include", which '
            "needs one system, or fewer pairs, as in pairs=1000."
        )


def _summarize(loss: Array, compared: Array, problem: HoldOutProblem) -> tuple[Array, Array]:
    """Error and standard error, for each alpha and output."""
    groups = problem.groups
    without_pairs = np.flatnonzero(compared.sum(axis=0) == 0)
    if len(without_pairs):
        of_output = "" if problem.n_outputs is None else f" in output {without_pairs[0]}"
        raise DataError(
            f"No pair with different labels was held out{of_output}. Check the labels, qid and "
            "pairs."
        )
    if groups.n_groups == 1:
        total = compared.sum(axis=0)
        error = loss.sum(axis=1) / total
        excess = loss - error[:, None] * compared
        # Each pair counts for both of its rows, so total is twice the number of pairs.
        spread = 2.0 * np.sqrt((excess**2).sum(axis=1)) / total
        return problem.by_output(error), problem.by_output(spread)
    starts = groups.indptr[:-1]
    by_query = np.add.reduceat(loss[:, groups.order], starts, axis=1)
    n_pairs = np.add.reduceat(compared[groups.order], starts, axis=0)
    error, spread = np.empty((2, len(loss), loss.shape[2]))
    for o in range(loss.shape[2]):
        defined = n_pairs[:, o] > 0
        values = by_query[:, defined, o] / n_pairs[defined, o]
        n = values.shape[1]
        error[:, o] = values.mean(axis=1)
        spread[:, o] = values.std(axis=1, ddof=1) / np.sqrt(n) if n > 1 else np.nan
    return problem.by_output(error), problem.by_output(spread)


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
