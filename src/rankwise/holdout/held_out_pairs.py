"""Differences between the rows of held-out pairs, each by a fit without both rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

import numpy as np

from rankwise.backends.arrays import Array, to_host
from rankwise.backends.dispatch import backend_of
from rankwise.errors import DataError, ParameterError
from rankwise.graph import QueryGroups
from rankwise.holdout.conditional import Conditional, dual_conditionals, primal_conditionals
from rankwise.holdout.group_pairs import group_pairs
from rankwise.holdout.hold_out_problem import (
    HoldOutProblem,
    explained_rounding,
)
from rankwise.holdout.leave_pair_out import PairDifferences, query_pairs
from rankwise.holdout.pair_choice import PairChoice
from rankwise.holdout.pair_differences import add_losses
from rankwise.holdout.rounding import lost_in_rounding
from rankwise.solvers.ridge_path import dual, primal


def pair_losses(
    problem: HoldOutProblem,
    pairs: PairChoice,
    keep: Callable[[int, int, PairDifferences], None] | None = None,
) -> tuple[Array, Array]:
    """(loss, compared): errors and numbers of the held-out pairs of each row.

    `loss` has shape (n_alphas, n_rows, n_outputs), `compared` (n_rows, n_outputs). Each block of
    pairs is passed to ``keep(task, index of the alpha, block)``.
    """
    loss = np.zeros((len(problem.alphas), *problem.y.shape))
    compared, on = np.zeros(problem.y.shape), backend_of(problem.y)
    for task in range(problem.n_tasks):
        labels, columns = problem.targets(task), problem.columns(task)
        task_loss = on.zeros(len(problem.alphas), *labels.shape)
        task_compared = on.zeros(len(problem.alphas), *labels.shape)
        for a, block in pair_differences(problem, task, pairs):
            add_losses(*block, labels, task_loss[a], task_compared[a])
            if keep is not None:
                keep(task, a, block)
        loss[..., columns], compared[:, columns] = to_host(task_loss), to_host(task_compared[0])
    return loss, compared


def pair_differences(
    problem: HoldOutProblem, task: int, pairs: PairChoice
) -> Iterator[tuple[int, PairDifferences]]:
    """(index of the alpha, differences of held-out pairs), block by block."""
    check_pairs(problem, task, pairs)
    with explained_rounding():
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


def check_pairs(problem: HoldOutProblem, task: int, pairs: PairChoice) -> None:
    """What remains without a pair must determine a ranking."""
    if pairs.groups is None:
        _check_rest(problem, task, pairs)
    if problem.alphas.min() == 0:
        _check_without_alpha(problem)


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
    groups, loss = problem.groups, problem.loss
    query = one_ranking(problem, task)
    labels = to_host(query.target[:, 0])
    if pairs.groups is not None:
        assert pairs.listed is not None
        chosen = pairs.listed
        if query.target.shape[1] == 1 and not pairs.keep_ties:  # the others are of other outputs
            chosen = chosen[labels[chosen[:, 0]] != labels[chosen[:, 1]]]
        if len(chosen):
            yield from group_pairs(query, labels, loss, problem.lams, chosen, pairs.groups)
        return
    if groups.n_groups == 1:
        listed = pairs.of_query(query.rows, groups.codes, loss)
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


def one_ranking(problem: HoldOutProblem, task: int) -> Conditional:
    """All rows as one query, which depends on no other."""
    y, space = problem.targets(task), problem.coordinates
    on = backend_of(y)
    features = None if space.features is None else on.rows(space.features, slice(None))
    rows = np.arange(len(y))
    return Conditional(rows, on.zeros(*y.shape), y, kernel=space.kernel, features=features)


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


def pair_errors(
    loss: Array, compared: Array, groups: QueryGroups, units: QueryGroups | None = None
) -> tuple[Array, Array]:
    """Error and standard error from `pair_losses`, shape (n_alphas, n_outputs).

    Rows of the same unit, such as a patient, count as one in the standard error of one ranking.
    """
    without_pairs = np.flatnonzero(compared.sum(axis=0) == 0)
    if len(without_pairs):
        of_output = "" if compared.shape[1] == 1 else f" in output {without_pairs[0]}"
        raise DataError(
            f"No pair with different labels was held out{of_output}. Check the labels, qid and "
            "pairs."
        )
    if groups.n_groups == 1:
        total = compared.sum(axis=0)
        error = loss.sum(axis=1) / total
        excess = loss - error[:, None] * compared
        if units is not None:
            excess = np.add.reduceat(excess[:, units.order], units.indptr[:-1], axis=1)
        # Each pair counts for both of its rows, so total is twice the number of pairs.
        return error, 2.0 * np.sqrt((excess**2).sum(axis=1)) / total
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
    return error, spread
