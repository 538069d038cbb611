"""The choice of alpha by exact hold-outs, within a budget of time.

What is held out depends on the problem:

- single comparisons, or their groups, if the problem has comparisons;
- whole queries, if at least two of them have different labels;
- pairs of rows, if there is one ranking; single rows, if the loss is that of a regression;
- parts of the rows in these two cases, if rows have weights;
- folds of queries, or parts of the rows or of the comparisons, with conjugate gradients.

If this would take more than about one fit, folds of a sample of queries (or rows) are held out
instead. The sample depends on the query ids, not on their order.
"""

from __future__ import annotations

import numpy as np

from rankwise.errors import DataError
from rankwise.holdout import choice_budget as budget
from rankwise.holdout.alpha_evaluation import (
    AlphaChoice,
    ChoiceRows,
    Mask,
    by_rule,
    by_steps,
    from_parts,
)
from rankwise.holdout.comparison_choice import by_comparisons
from rankwise.holdout.hold_out_problem import plain_problem
from rankwise.holdout.query_choice import by_queries, query_folds
from rankwise.holdout.ranking_choice import by_pairs, by_rows, row_parts
from rankwise.problem import Problem


def choose_alpha(problem: Problem) -> AlphaChoice:
    """Choose alpha by hold-outs, or by a rule if nothing can be held out.

    The landmarks of the problem must be settled.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # the solver checks for overflow
        try:
            problem = plain_problem(problem)
            if problem.has_comparisons:
                return by_comparisons(problem)
            return _by_scores(problem)
        except (DataError, np.linalg.LinAlgError):  # nothing to learn from, or overflow
            return by_rule(problem)


def _by_scores(problem: Problem) -> AlphaChoice:
    rows = ChoiceRows.of(problem)
    usable = rows.usable_queries()
    if by_steps(problem):
        return _by_fold_steps(problem, rows, usable)
    if usable.sum(axis=1).min() >= 2:
        return by_queries(problem, rows, np.asarray(usable.any(axis=0)))
    if problem.loss.has_intercept:
        return by_rows(problem, rows)
    return by_pairs(problem, rows)


def _by_fold_steps(problem: Problem, rows: ChoiceRows, usable: Mask) -> AlphaChoice:
    """Folds of queries, or parts of one ranking, all of which are fitted side by side."""
    y, loss = rows.labels, problem.loss
    if usable.sum(axis=1).min() >= 2:
        folds = query_folds(problem, np.asarray(usable.any(axis=0)), budget.FEWEST_FOLDS)
        return from_parts(problem, rows, folds)
    constant = (y.min(axis=0) == y.max(axis=0)).any()
    one_query = loss.has_intercept or problem.groups.n_groups == 1
    if len(y) < budget.FEWEST_ROWS or constant or not one_query:
        return by_rule(problem)
    metric = "squared_error" if loss.has_intercept else None
    return from_parts(problem, rows, row_parts(y)[: budget.FEWEST_FOLDS], metric)
