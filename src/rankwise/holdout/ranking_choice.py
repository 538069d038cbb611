"""Alphas evaluated by pairs or rows of one ranking that are held out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np

from rankwise.backends.arrays import Array, Index, to_host
from rankwise.backends.dispatch import backend_of
from rankwise.graph import QueryGroups
from rankwise.holdout import choice_budget as budget
from rankwise.holdout.alpha_evaluation import (
    AlphaChoice,
    ChoiceRows,
    best,
    by_rule,
    coordinate_moments,
    from_coordinates,
    from_parts,
    from_sums,
    ranking_alphas,
    squared_errors,
)
from rankwise.holdout.held_out_folds import strength
from rankwise.holdout.held_out_pairs import pair_errors, pair_losses
from rankwise.holdout.hold_out_problem import HoldOutProblem
from rankwise.holdout.pair_differences import add_losses, listed_differences
from rankwise.holdout.plans import Pairs
from rankwise.holdout.sampled_hat import (
    HatRows,
    feature_hat_rows,
    kernel_hat_rows,
)
from rankwise.holdout.scores import HeldOutScores
from rankwise.problem import (
    Problem,
    RowLoss,
)

Hats: TypeAlias = Callable[[Sequence[float]], Iterator[HatRows]]  # for some mu


def by_pairs(problem: Problem, rows: ChoiceRows) -> AlphaChoice:
    """Pairs of one ranking."""
    y, m = rows.labels, problem.n_rows
    if m < budget.FEWEST_ROWS or (y.min(axis=0) == y.max(axis=0)).any():
        return by_rule(problem)
    if problem.groups.n_groups > 1:  # only one query can be evaluated
        if m > budget.PAIR_ROWS or problem.row_weights is not None:
            return by_rule(problem)
        return _by_listed_pairs(problem)
    if problem.row_weights is not None:
        return from_parts(problem, rows, row_parts(y)[: rows.n_parts])
    if problem.loss.ties == "include" or all(len(np.unique(column)) == m for column in y.T):
        return _in_one_ranking(problem, rows, "disagreement")
    if rows.system is None or m * rows.n_coordinates <= budget.STORED:
        n_levels = max(len(np.unique(column)) for column in y.T)
        systems = len(problem.tasks) * budget.N_ALPHAS * n_levels * (n_levels - 1) / 2
        d = m if rows.system is None else min(m, rows.n_coordinates + n_levels)
        if systems * (budget.CALL * 25 + 3.0 * m * d**2 / budget.FLOPS) <= max(
            budget.SECONDS, rows.fit_seconds
        ):
            return _by_listed_pairs(problem)
    return from_parts(problem, rows, row_parts(y)[: rows.n_parts])


def by_rows(problem: Problem, rows: ChoiceRows) -> AlphaChoice:
    """Single rows of a regression."""
    if problem.n_rows < budget.FEWEST_ROWS:
        return by_rule(problem)
    if problem.row_weights is not None:
        parts = row_parts(rows.labels)[: rows.n_parts]
        return from_parts(problem, rows, parts, "squared_error")
    return _in_one_ranking(problem, rows, "squared_error")


def _in_one_ranking(problem: Problem, rows: ChoiceRows, metric: str) -> AlphaChoice:
    """Pairs or rows of one ranking of all rows, all of whose pairs count."""
    m, n = problem.n_rows, rows.n_coordinates
    if rows.system is not None and m * n > budget.STORED:
        sample = spread_rows(rows.labels, int(max(budget.SAMPLE_ROWS, budget.SAMPLE_SHARE * m)))
        n_folds = rows.n_folds
        folds = [sample[k::n_folds] for k in range(n_folds)]
        return from_sums(problem, rows, rows.system, folds, metric, one_ranking=True)
    number = budget.PAIR_ROWS
    if rows.system is None and m > budget.KERNEL_ROWS:
        number = min(budget.PAIR_ROWS, int(budget.KERNEL_SHARE * m))
    some = spread_rows(rows.labels, number)
    hold_out = _leave_one_out if metric == "squared_error" else _leave_pair_out
    y = rows.y.reshape(m, -1)
    from_mean = y - y.mean(axis=0)
    if rows.system is not None:
        (total,) = coordinate_moments(
            problem.X, rows.system, RowLoss().tasks(rows.y, None), RowLoss()
        )
        F, alphas = rows.system.coordinates(problem.X)(some), ranking_alphas(problem, total)
        hats = partial(feature_hat_rows, total, F, from_mean[some])
        return best(hold_out(problem, y[some], alphas, hats))

    def from_kernel(stored: Problem, alphas: Array) -> HeldOutScores:
        K = stored.coordinates().kernel
        assert K is not None
        return hold_out(problem, y[some], alphas, partial(kernel_hat_rows, K, from_mean, some))

    return from_coordinates(problem, from_kernel)


def _leave_pair_out(problem: Problem, y: Array, alphas: Array, hats: Hats) -> HeldOutScores:
    """All pairs of the rows of a hat matrix, each pair held out of all rows."""
    m, on = problem.n_rows, backend_of(y)
    strengths = [strength(problem.loss, lam, m - 2) for lam in alphas.tolist()]
    first, second = np.triu_indices(len(y), 1)
    labels = np.asarray(to_host(y))
    differ = (labels[first] != labels[second]).any(axis=1)
    first, second = first[differ], second[differ]
    position = len(y) * first + second
    loss, compared = on.zeros(len(alphas), *y.shape), on.zeros(len(alphas), *y.shape)
    for k, hat in enumerate(hats(strengths)):
        entries = hat.matrix.reshape(-1)[position]
        diagonal = on.contiguous(hat.matrix.diagonal())
        # A constant that all labels share has no effect on differences.
        differences = listed_differences(
            entries, hat.is_hat, m, diagonal, y - hat.residuals, hat.residuals, first, second
        )
        add_losses(first, second, differences, y, loss[k], compared[k])
    groups = QueryGroups.of(None, len(y))
    return _pair_scores(alphas, pair_errors(to_host(loss), to_host(compared[0]), groups))


def _by_listed_pairs(problem: Problem) -> AlphaChoice:
    """All pairs of each query, as in leave-pair-out."""

    def hold_out(stored: Problem, alphas: Array) -> HeldOutScores:
        held = HoldOutProblem.of(stored, alphas)
        losses = pair_losses(held, Pairs(None, keep_ties=False))
        return _pair_scores(alphas, pair_errors(*losses, stored.groups))

    return from_coordinates(problem, hold_out)


def _pair_scores(alphas: Array, errors: tuple[Array, Array]) -> HeldOutScores:
    score, spread = (values.mean(axis=1) for values in errors)
    return HeldOutScores(alphas, score, spread, "disagreement", False)


def _leave_one_out(problem: Problem, _: Array, alphas: Array, hats: Hats) -> HeldOutScores:
    """The rows of a hat matrix, each held out of all rows."""
    errors = [to_host(hat.held_out(problem.n_rows)) for hat in hats(alphas.tolist())]
    return squared_errors(alphas, (np.stack(errors) ** 2).mean(axis=2))


def spread_rows(labels: Array, number: int) -> Index:
    """At most this many rows, evenly spaced in the order of the (first) labels."""
    m = len(labels)
    if number >= m:
        return np.arange(m)
    order = np.argsort(labels[:, 0], kind="stable")
    return np.sort(order[np.linspace(0, m - 1, number).round().astype(np.intp)])


def row_parts(labels: Array) -> list[Index]:
    """Parts of at least two rows each, evenly spaced in the order of the (first) labels."""
    order = np.argsort(labels[:, 0], kind="stable")
    n_parts = min(round(1 / budget.PART), len(order) // 2)
    return [np.sort(order[k::n_parts]) for k in range(n_parts)]
