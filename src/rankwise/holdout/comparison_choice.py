"""Alphas evaluated by comparisons that are held out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.holdout import choice_budget as budget
from rankwise.holdout.alpha_evaluation import (
    AlphaChoice,
    Mask,
    best,
    by_rule,
    by_steps,
    part_scores,
)
from rankwise.holdout.alpha_grid import (
    data_alphas,
)
from rankwise.holdout.comparison_hold_out import edges_of, system_of
from rankwise.holdout.held_out_edges import Edges
from rankwise.holdout.held_out_scores import HeldOutScores
from rankwise.metrics.comparison_metrics import clustered_mean, squared_error_of
from rankwise.problem import (
    Problem,
    Task,
)


def by_comparisons(problem: Problem) -> AlphaChoice:
    """By the squared error of margins: the share of wrong winners is the same for many alphas.

    The problem must be plain; see `plain_problem`.
    """
    graph = problem.comparisons
    margin = graph.margin.reshape(len(graph.margin), -1)
    counted = graph.weight > 0
    if np.count_nonzero(counted & (margin != 0).all(axis=1)) < budget.FEWEST_ROWS:
        return by_rule(problem)
    alphas = data_alphas(problem)
    exact = system_of(problem) is not None or problem.n_rows <= budget.KERNEL_ROWS
    if exact and not by_steps(problem):
        some, differences = held_out_sample(
            edges_of(problem, len(alphas)), alphas.tolist(), counted
        )
    else:
        some, alphas, differences = held_out_part(problem, graph, alphas, counted)
    squared = squared_error_of(margin[some], differences).mean(axis=2)
    codes = graph.group_of_pair
    codes = np.arange(len(some)) if codes is None else codes[some]
    found = [clustered_mean(values, graph.weight[some], codes) for values in squared]
    score, spread = np.array(found).T
    return best(HeldOutScores(alphas, score, spread, "squared_error", False))


def held_out_sample(edges: Edges, lams: Sequence[float], counted: Mask) -> tuple[Index, Array]:
    """Some of the counted comparisons, and predictions for them without each, or its group.

    There are at most COMPARISONS of them, or of their groups. If holding out every group would
    take much longer than a fit, folds of groups are held out.
    """
    codes, numbers = edges.graph.group_of_pair, np.flatnonzero(counted)
    if codes is None:
        some = _evenly(numbers, budget.COMPARISONS)
        return some, edges.single(some, lams)
    groups = _evenly(np.unique(codes[numbers]), budget.COMPARISONS)
    d, sizes = edges.n_coordinates, np.bincount(codes)[groups].astype(float)
    flops = len(lams) * 2.0 * sizes**2 * np.minimum(sizes, d) + 8.0 * np.where(sizes > d, d**3, 0.0)
    fit = 2.0 * (len(codes) + d) * d**2 / budget.FLOPS
    fold = groups
    if len(groups) * budget.CALL + flops.sum() / budget.SMALL_FLOPS > max(budget.SECONDS, fit):
        fold = np.arange(len(groups)) % min(budget.MOST_FOLDS, len(groups))
    fold_of_group = np.full(int(codes.max()) + 1, -1)
    fold_of_group[groups] = fold
    fold_of_pair = fold_of_group[codes]
    order = np.argsort(fold_of_pair, kind="stable")[np.count_nonzero(fold_of_pair < 0) :]
    starts = np.flatnonzero(np.diff(fold_of_pair[order], prepend=-1))
    predictions = edges.sets(np.split(order, starts[1:]), lams)
    asked = counted[order]
    return order[asked], predictions[:, asked]


def held_out_part(
    problem: Problem, graph: Any, alphas: Array, counted: Mask
) -> tuple[Index, Array, Array]:
    """A fifth of the comparisons, or of their groups, and predictions without any of them.

    The alphas are also returned: by conjugate gradients, only those that are solved.
    """
    codes, step = graph.group_of_pair, round(1 / budget.PART)
    if codes is None:
        some = _evenly(np.flatnonzero(counted), budget.COMPARISONS)[::step]
        held = some
    else:
        held = np.flatnonzero(np.isin(codes, np.unique(codes[counted])[::step]))
        some = held[counted[held]]
    weight = graph.weight.copy()
    weight[held] = 0.0
    rest = replace(problem, tasks=[Task(replace(graph, weight=weight), None)])
    everywhere = np.arange(problem.n_rows)
    solved, (scores,) = part_scores(problem, [rest], alphas, [everywhere])
    B = graph.incidence[some]
    return some, solved, np.stack([B @ f for f in scores])


def _evenly(numbers: Index, most: int) -> Index:
    """At most so many of the numbers, evenly spaced."""
    kept = np.linspace(0, len(numbers) - 1, min(most, len(numbers))).round().astype(np.intp)
    return numbers[kept]
