"""Alphas evaluated by queries that are held out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rankwise.backends.arrays import Array, Index, to_host
from rankwise.backends.dispatch import backend_of
from rankwise.holdout import choice_budget as budget
from rankwise.holdout.alpha_evaluation import (
    AlphaChoice,
    ChoiceRows,
    Mask,
    from_coordinates,
    from_parts,
    from_sums,
)
from rankwise.holdout.held_out_folds import predict_queries
from rankwise.holdout.held_out_scores import HeldOutScores, score_predictions
from rankwise.holdout.hold_out_problem import HoldOutProblem
from rankwise.holdout.sampled_hat import (
    HatRows,
    kernel_hat_rows,
    kernel_query_residuals,
)
from rankwise.problem import (
    Problem,
)
from rankwise.problem.blocks import query_hash


def by_queries(problem: Problem, rows: ChoiceRows, usable: Mask) -> AlphaChoice:
    if problem.row_weights is not None and problem.loss.has_intercept:
        folds = query_folds(problem, usable, round(1 / budget.PART))
        return from_parts(problem, rows, folds[: rows.n_parts])
    if rows.system is None:
        if problem.n_rows > budget.KERNEL_ROWS:
            return _from_kernel(problem, rows, _kernel_sample(problem, usable))
    elif _leave_query_out_seconds(problem, rows) > max(budget.SECONDS, rows.fit_seconds):
        folds = query_folds(problem, usable, rows.n_folds)
        return from_sums(problem, rows, rows.system, folds, rows.metric)

    def hold_out(stored: Problem, alphas: Array) -> HeldOutScores:
        held = HoldOutProblem.of(stored, alphas)
        predictions = to_host(predict_queries(held, list(stored.groups)))
        return score_predictions(alphas, rows.labels, predictions, rows.metric, rows.codes)

    return from_coordinates(problem, hold_out)


def _leave_query_out_seconds(problem: Problem, rows: ChoiceRows) -> float:
    n, sizes = rows.n_coordinates, problem.groups.sizes.astype(float)
    if sizes.max() < n:
        flops = 2.0 * sizes**2 * n + sizes**3
    else:
        flops = np.full(len(sizes), 0.7 * n**3)
    systems = len(problem.tasks) * budget.N_ALPHAS * (budget.CALL + flops / budget.SMALL_FLOPS)
    return float(systems.sum())


def _query_order(problem: Problem, usable: Mask) -> list[Index]:
    """The rows of the usable queries, in an order that depends only on the query ids."""
    groups = problem.groups
    names = groups.names.tolist()
    order = sorted(np.flatnonzero(usable).tolist(), key=lambda q: query_hash(names[q]))
    return [groups.order[groups.indptr[q] : groups.indptr[q + 1]] for q in order]


def query_folds(problem: Problem, usable: Mask, n_folds: int) -> list[Index]:
    """Folds of a sample of queries; the others are always training rows."""
    queries = _query_order(problem, usable)
    wanted = max(budget.SAMPLE_ROWS, budget.SAMPLE_SHARE * problem.n_rows)
    before = np.cumsum([0, *(len(rows) for rows in queries[:-1])])
    queries = queries[: max(2, int(np.count_nonzero(before < wanted)))]
    n_folds = min(n_folds, len(queries))
    return [np.sort(np.concatenate(queries[k::n_folds])) for k in range(n_folds)]


def _kernel_sample(problem: Problem, usable: Mask) -> list[Index]:
    """Some of the usable queries, at least two of them."""
    queries = _query_order(problem, usable)
    before = np.cumsum([0, *(len(rows) for rows in queries[:-1])])
    return queries[: max(2, int(np.count_nonzero(before < budget.KERNEL_SHARE * problem.n_rows)))]


def _from_kernel(problem: Problem, rows: ChoiceRows, folds: Sequence[Index]) -> AlphaChoice:
    """Hold out some queries, one at a time, of a kernel matrix."""
    some = np.concatenate(folds)

    def hold_out(stored: Problem, alphas: Array) -> HeldOutScores:
        held = HoldOutProblem.of(stored, alphas)
        on, K = backend_of(held.y), held.coordinates.kernel
        assert K is not None
        if stored.loss.has_intercept:
            hats = kernel_hat_rows(K, held.y - held.y.mean(axis=0), some, held.lams)
            residuals = [_query_errors(part, folds) for part in hats]
        else:
            by_task = []
            for k in range(held.n_tasks):
                y = held.targets(k)
                found = kernel_query_residuals(on.copy(K), held.graph(k), y, folds, held.lams)
                by_task.append(list(found))
            residuals = [on.xp.concatenate(parts, axis=1) for parts in zip(*by_task, strict=True)]
        predictions = np.stack([rows.labels[some] - to_host(part) for part in residuals])
        return score_predictions(
            alphas, rows.labels[some], predictions, rows.metric, rows.codes[some]
        )

    return from_coordinates(problem, hold_out)


def _query_errors(hat: HatRows, folds: Sequence[Index]) -> Array:
    """Residuals of queries in a regression without them."""
    on, errors, end = backend_of(hat.matrix), [], 0
    for fold in folds:
        start, end = end, end + len(fold)
        errors.append(on.solve(hat.matrix[start:end, start:end], hat.residuals[start:end]))
    joined: Array = on.xp.concatenate(errors)
    return joined
