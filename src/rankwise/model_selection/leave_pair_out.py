"""Leave-pair-out: each pair of rows predicted by a ranker that has seen neither."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, Index, dense_rows
from rankwise.errors import DataError, ParameterError
from rankwise.holdout.conditional import Conditional, dual_conditionals, primal_conditionals
from rankwise.holdout.leave_pair_out import PairDifferences, Rule, query_pairs
from rankwise.holdout.loops import count_losses, count_wins
from rankwise.model_selection._problem import Problem

FLOPS = 2e13  # of level systems that we are ready to spend: some ten minutes


@dataclass(frozen=True)
class LeavePairOut:
    """How well pairs are ordered that were held out.

    Attributes
    ----------
    alphas : ndarray of shape (n_alphas,)
    error : ndarray of shape (n_alphas,) or (n_alphas, n_outputs)
        Share of pairs with different labels in the wrong order, ties in the predictions
        counting half; the mean over queries.
    standard_error : ndarray of the same shape
        Over queries; for one ranking, from the share of each row in the errors (as DeLong's
        for the area under the ROC curve).
    pairs : ndarray of shape (n_pairs, 2) or None
        When asked for.
    differences : ndarray of shape (n_alphas, n_pairs) or (n_alphas, n_pairs, n_outputs) or None
        f(first) - f(second) with both held out; when asked for.
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
        """Where the error, averaged over outputs, is smallest; of equals the largest alpha."""
        mean = self.error.reshape(len(self.alphas), -1).mean(axis=1)
        best = np.flatnonzero(mean <= mean.min())
        return int(best[np.argmax(self.alphas[best])])

    @property
    def best_alpha(self) -> float:
        """The alpha with the smallest error."""
        return float(self.alphas[self.best_index])

    def __str__(self) -> str:
        lines = [f"{'alpha':>12}  {'AUC':>8}  {'s.e.':>8}"]
        auc, se = (v.reshape(len(self.alphas), -1) for v in (self.auc, self.standard_error))
        for k, alpha in enumerate(self.alphas):
            mark = "  best" if k == self.best_index else ""
            lines.append(f"{alpha:>12.4g}  {auc[k].mean():>8.4f}  {se[k].mean():>8.4f}{mark}")
        return "\n".join(lines)


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
    """Hold every pair of rows out, exactly, without refitting.

    The estimate is that of a ranker trained on two rows less, almost without bias, and, unlike
    that of pooled folds, compares only predictions of one and the same ranker. For 0/1 labels
    it is the area under the ROC curve.

    One factorization for each alpha, O(m^3) in the dual and O(m n^2) in the primal, then O(1)
    for each pair (O(n) in the primal). Without ties there is one factorization for each two
    levels of labels. With queries, pairs are held out within their query.

    Parameters
    ----------
    estimator : RankRLS or RLS
        It is cloned, not fitted.
    X : array-like or sparse of shape (n_rows, n_features)
    y : array-like of shape (n_rows,) or (n_rows, n_outputs)
    qid : array-like of shape (n_rows,), optional
    alphas : sequence of float, optional
        None: the alpha of the estimator.
    pairs : int or array-like of shape (n_pairs, 2), optional
        So many random pairs, or these rows. None: all pairs within queries.
    return_differences : bool, default=False
        Keep the pairs and their differences: O(m^2) memory for each alpha.
    random_state : int or Generator, optional
        For random pairs.

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
    >>> result = leave_pair_out(RankRLS(ties="exclude"), X, data.y, alphas=[1e2, 1e4, 1e6])
    >>> result.best_alpha, result.auc.round(3)
    (100.0, array([0.993, 0.993, 0.989]))
    """
    problem = Problem.of(estimator, X, y, qid, alphas)
    chosen = _chosen_pairs(problem, pairs, random_state, keep_ties=return_differences)
    m, k = problem.y.shape
    loss = np.zeros((len(problem.alphas), m, k))
    compared = np.zeros((m, k))
    kept: list[list[PairDifferences]] = []
    for task in range(len(problem.tasks)):
        columns = slice(None) if len(problem.tasks) == 1 else slice(task, task + 1)
        labels = np.ascontiguousarray(problem.targets(task))
        for a, blocks in enumerate(_differences(problem, task, chosen)):
            blocks_kept = []
            counted = np.zeros_like(labels)
            task_loss = np.zeros_like(labels)
            for block in blocks:
                count_losses(*block, labels, task_loss, counted)
                if return_differences:
                    blocks_kept.append(block)
            loss[a, :, columns] = task_loss
            compared[:, columns] = counted
            kept.append(blocks_kept)
    if not compared.any():
        raise DataError(
            "No pair with different labels was held out: check the labels, qid and pairs."
        )
    error, standard_error = _summarize(loss, compared, problem)
    if not return_differences:
        return LeavePairOut(problem.alphas, error, standard_error)
    rows, differences = _collect(kept, problem, chosen.listed)
    return LeavePairOut(problem.alphas, error, standard_error, rows, differences)


def tournament_scores(estimator: Any, X: Any, y: Any, *, qid: Any = None) -> Array:
    """Each row's share of wins over all pairs in which it was held out.

    The scores order the rows as leave-pair-out does, so that a ROC curve can be drawn from
    them; rows are compared within their query. O(m^2) pairs.

    Parameters
    ----------
    estimator, X, y, qid
        As for `leave_pair_out`; the alpha is that of the estimator.

    Returns
    -------
    ndarray of shape (n_rows,) or (n_rows, n_outputs)
        From 0 to 1; 1/2 for a row without a rival.

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
    problem = Problem.of(estimator, X, y, qid, None)
    everything = _chosen_pairs(problem, None, None, keep_ties=True)
    wins, compared = np.zeros(problem.y.shape), np.zeros(problem.y.shape)
    for task in range(len(problem.tasks)):
        columns = slice(None) if len(problem.tasks) == 1 else slice(task, task + 1)
        task_wins = np.zeros(problem.targets(task).shape)
        task_compared = np.zeros(len(problem.y))
        for blocks in _differences(problem, task, everything):
            for block in blocks:
                count_wins(*block, task_wins, task_compared)
        wins[:, columns], compared[:, columns] = task_wins, task_compared[:, None]
    share = np.divide(wins, compared, out=np.full(wins.shape, 0.5), where=compared > 0)
    return problem.by_output(share)


@dataclass(frozen=True)
class _Pairs:
    """Which pairs to hold out: listed ones, or all of each query.

    `keep_ties` says whether all includes pairs of equal labels.
    """

    listed: Index | None
    keep_ties: bool

    def of_query(self, rows: Index, codes: Index, rule: Rule) -> Index | None:
        """Positions of pairs in ascending `rows`; None for all that the rule has."""
        if self.listed is not None:
            inside = codes[self.listed[:, 0]] == codes[rows[0]]
            return np.asarray(np.searchsorted(rows, self.listed[inside]), dtype=np.intp)
        if self.keep_ties and rule.ties == "exclude":
            return np.column_stack(np.triu_indices(len(rows), 1))
        return None


def _differences(problem: Problem, task: int, pairs: _Pairs) -> Iterator[Iterator[PairDifferences]]:
    """For each alpha, the differences of held-out pairs, block by block."""
    y = np.ascontiguousarray(problem.targets(task))
    ranker = problem.ranker
    pointwise = ranker._pointwise
    rule = Rule("include", "rows") if pointwise else Rule(ranker.ties, ranker.weighting)
    groups = problem.groups
    if pointwise or groups.n_groups == 1:
        yield from _one_ranking(problem, y, rule, pairs)
        return
    graph = problem.graph(task)
    _check_rest(problem, graph, rule)
    space = problem.space
    if space.kernel is not None:
        by_alpha = dual_conditionals(space.kernel.copy(), graph, y, problem.alphas.tolist())
    else:
        by_alpha = primal_conditionals(space.features, graph, y, problem.alphas.tolist())
    for alpha, queries in zip(problem.alphas, by_alpha, strict=True):

        def blocks(alpha: float = alpha, queries: Any = queries) -> Iterator[PairDifferences]:
            for query in queries:
                listed = pairs.of_query(query.rows, groups.codes, rule)
                if listed is not None and len(listed) == 0:
                    continue
                labels = y[query.rows, 0]
                _check_cost(labels, rule, listed)
                yield from query_pairs(query, labels, rule, alpha, listed)

        yield blocks()


def _one_ranking(
    problem: Problem, y: Array, rule: Rule, pairs: _Pairs
) -> Iterator[Iterator[PairDifferences]]:
    """All rows train one ranking; pairs are those within queries."""
    rows = np.arange(len(y))
    space, groups = problem.space, problem.groups
    if len(y) < 4:
        raise DataError(f"Holding out a pair of {len(y)} rows leaves too few: 4 are needed.")
    features = None if space.features is None else dense_rows(space.features, slice(None))
    query = Conditional(rows, np.zeros_like(y), y, kernel=space.kernel, features=features)
    if groups.n_groups == 1:
        listed = pairs.of_query(rows, groups.codes, rule)
        _check_cost(y[:, 0], rule, listed)
    elif pairs.listed is not None:
        listed = pairs.listed
    else:
        within = [r[np.column_stack(np.triu_indices(len(r), 1))] for r in groups if len(r) > 1]
        listed = np.concatenate(within)
    for alpha in problem.alphas:
        yield query_pairs(query, y[:, 0], rule, float(alpha), listed)


def _chosen_pairs(problem: Problem, pairs: Any, random_state: Any, *, keep_ties: bool) -> _Pairs:
    if pairs is None:
        return _Pairs(None, keep_ties)
    if isinstance(pairs, (int, np.integer)) and not isinstance(pairs, bool):
        return _Pairs(_random_pairs(problem, int(pairs), random_state), keep_ties)
    listed = np.asarray(pairs)
    m = len(problem.y)
    if listed.ndim != 2 or listed.shape[1] != 2 or listed.dtype.kind not in "iu":
        raise DataError(f"pairs must be a number, or row numbers of shape (n, 2): got {pairs!r}.")
    bad = (listed < 0) | (listed >= m)
    if bad.any():
        k = int(np.argmax(bad.any(axis=1)))
        raise DataError(f"pairs[{k}] = {listed[k].tolist()} points outside X, with {m} rows.")
    codes = problem.groups.codes
    apart = (codes[listed[:, 0]] != codes[listed[:, 1]]) | (listed[:, 0] == listed[:, 1])
    if apart.any():
        k = int(np.argmax(apart))
        raise DataError(
            f"pairs[{k}] = {listed[k].tolist()} is not a pair of two rows of one query."
        )
    for task in problem.tasks:
        idle = task.graph.degrees[listed[:, 0]] == 0
        if idle.any() and not problem.ranker._pointwise:
            k = int(np.argmax(idle))
            raise DataError(
                f"pairs[{k}] = {listed[k].tolist()} lies in a query without a pair that counts: "
                "holding it out changes nothing."
            )
    return _Pairs(listed.astype(np.intp), keep_ties)


def _random_pairs(problem: Problem, n: int, random_state: Any) -> Index:
    """So many pairs of different labels (in any output), drawn without order or repetition."""
    if n < 1:
        raise ParameterError(f"pairs must be at least 1: got {n}.")
    rng = np.random.default_rng(random_state)
    groups, y = problem.groups, problem.y
    chances = groups.sizes * (groups.sizes - 1.0)
    if chances.sum() == 0:
        raise DataError("No query has two rows: there is no pair to hold out.")
    found: dict[tuple[int, int], None] = {}
    for _ in range(100):
        query = rng.choice(groups.n_groups, size=2 * n, p=chances / chances.sum())
        size = groups.sizes[query]
        i = rng.integers(0, size)
        j = (i + rng.integers(1, size)) % size
        first, second = (groups.order[groups.indptr[query] + part] for part in (i, j))
        differ = (y[first] != y[second]).any(axis=1)
        low, high = np.minimum(first, second)[differ], np.maximum(first, second)[differ]
        found.update(dict.fromkeys(zip(low.tolist(), high.tolist(), strict=True)))
        if len(found) >= n:
            break
    if not found:
        raise DataError("No two rows of a query have different labels: nothing to hold out.")
    return np.array(list(found)[:n], dtype=np.intp)


def _check_rest(problem: Problem, graph: Any, rule: Rule) -> None:
    """After a pair is held out, some pair must be left, in its query or in another."""
    counts = graph.pairs_of_query
    if np.count_nonzero(counts) > 1:
        return
    q = int(np.argmax(counts))
    left = graph.query_sizes[q] - 2
    if left * (left - 1) // 2 == 0:
        raise DataError(
            f"Holding out a pair of query {problem.groups.names[q]} leaves no pair to learn "
            "from: more rows or queries with different labels are needed."
        )


def _check_cost(labels: Array, rule: Rule, pairs: Index | None) -> None:
    """Without ties there is one system for each two levels: too many levels take too long."""
    if rule.ties == "include":
        return
    n_levels, n = len(np.unique(labels)), len(labels)
    if n_levels == n:
        return
    systems = n_levels * (n_levels - 1) // 2
    if pairs is not None:
        level = np.unique(labels, return_inverse=True)[1]
        systems = len(np.unique(np.sort(level[pairs], axis=1), axis=0))
    if systems * 3.0 * n**3 > FLOPS:
        raise DataError(
            f"Without ties, {n_levels} different labels in {n} rows need {systems} "
            'factorizations. Use ties="include", or fewer pairs.'
        )


def _summarize(loss: Array, compared: Array, problem: Problem) -> tuple[Array, Array]:
    """Error and standard error, for each alpha and output."""
    groups = problem.groups
    n_alphas, _, k = loss.shape
    if groups.n_groups == 1:
        total = compared.sum(axis=0)
        error = loss.sum(axis=1) / total
        excess = loss - error[:, None] * compared
        # Each pair is counted at both of its rows: total is twice the number of pairs.
        spread = 2.0 * np.sqrt((excess**2).sum(axis=1)) / total
        return problem.by_output(error), problem.by_output(spread)
    starts = groups.indptr[:-1]
    by_query = np.add.reduceat(loss[:, groups.order], starts, axis=1)
    pairs = np.add.reduceat(compared[groups.order], starts, axis=0)
    error, spread = np.empty((n_alphas, k)), np.empty((n_alphas, k))
    for o in range(k):
        defined = pairs[:, o] > 0
        values = by_query[:, defined, o] / pairs[defined, o]
        error[:, o] = values.mean(axis=1)
        n = values.shape[1]
        spread[:, o] = values.std(axis=1, ddof=1) / np.sqrt(n) if n > 1 else np.nan
    return problem.by_output(error), problem.by_output(spread)


def _collect(
    kept: list[list[PairDifferences]], problem: Problem, listed: Index | None
) -> tuple[Index, Array]:
    """Pairs, ascending or as they were listed, and their differences."""
    n_alphas, m = len(problem.alphas), len(problem.y)

    def join(blocks: list[PairDifferences]) -> tuple[Index, Array]:
        first, second = (np.concatenate([block[side] for block in blocks]) for side in (0, 1))
        difference = np.concatenate([block.difference for block in blocks])
        difference *= np.where(first > second, -1.0, 1.0)[:, None]
        key = np.minimum(first, second) * m + np.maximum(first, second)
        order = np.argsort(key)
        if listed is None:
            return np.column_stack(np.divmod(key[order], m)), difference[order]
        wanted = listed.min(axis=1) * m + listed.max(axis=1)
        found = order[np.searchsorted(key, wanted, sorter=order)]
        sign = np.where(listed[:, 0] > listed[:, 1], -1.0, 1.0)
        return listed, sign[:, None] * difference[found]

    joined = [join(blocks) for blocks in kept]
    tasks = [joined[start : start + n_alphas] for start in range(0, len(joined), n_alphas)]
    by_task = [np.stack([difference for _, difference in task]) for task in tasks]
    return joined[0][0], problem.by_output(np.concatenate(by_task, axis=2))
