"""Predictions for folds of a problem, each by a fit to the other rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.backends.dispatch import backend_of
from rankwise.errors import DataError
from rankwise.holdout.hold_out_problem import HoldOutProblem
from rankwise.holdout.leave_query_out import dual_folds, primal_folds
from rankwise.holdout.ridge_folds import Strength, feature_ridge_folds, kernel_ridge_folds
from rankwise.kernels import Precomputed
from rankwise.problem import FeatureSpace, KernelSpace, Loss, Problem


def predict_queries(problem: HoldOutProblem, folds: Sequence[Index]) -> Array:
    """Predictions for folds of whole queries, shape (n_alphas, n_rows, n_outputs)."""
    if problem.loss.has_intercept:
        return _ridge_folds(problem, folds, _same, add_intercept=True)
    check_folds(problem, folds)
    by_task = [_pairwise_folds(problem, k, folds) for k in range(problem.n_tasks)]
    predictions: Array = backend_of(problem.y).xp.concatenate(by_task, axis=2)
    return predictions


def predict_rows(problem: HoldOutProblem, folds: Sequence[Index]) -> Array:
    """Predictions for folds of rows of one ranking, shape (n_alphas, n_rows, n_outputs)."""
    if problem.loss.has_intercept:
        return _ridge_folds(problem, folds, _same, add_intercept=True)
    if problem.loss.ties == "exclude":
        return _refits(problem, folds)
    return _ridge_folds(
        problem, folds, lambda lam, n: strength(problem.loss, lam, n), add_intercept=False
    )


def strength(loss: Loss, lam: float, n_rows: int) -> float:
    """The mu of a ridge regression that equals one ranking of these rows at lam."""
    return lam / (loss.weight(n_rows, n_rows * (n_rows - 1) // 2) * n_rows)


def check_folds(problem: HoldOutProblem, folds: Sequence[Index]) -> None:
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
        K = backend_of(y).copy(rows.kernel)
        return dual_folds(K, graph, y, folds, problem.lams, rows.shift)
    return primal_folds(rows.features, graph, y, folds, problem.lams)


def _same(lam: float, n_left: int) -> float:
    return lam


def _ridge_folds(
    problem: HoldOutProblem, folds: Sequence[Index], strength: Strength, *, add_intercept: bool
) -> Array:
    rows, y, lams = problem.coordinates, problem.y, problem.lams
    if rows.kernel is not None:
        return kernel_ridge_folds(
            rows.kernel, y, folds, lams, strength, add_intercept=add_intercept, shift=rows.shift
        )
    return feature_ridge_folds(rows.features, y, folds, lams, strength, add_intercept=add_intercept)


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
            test = test if rows.shift is None else test + rows.shift[rest]
        tasks = loss.tasks(y[rest], None)
        loss.check_learnable([task.graph.n_pairs for task in tasks], len(rest), 1)
        fit = Problem(train, tasks, loss, space).solve(problem.lams)
        for a, solution in enumerate(fit.solutions):
            scores = on.array(fit.basis.products(test, solution.weights))
            out[a, fold] = scores.reshape(len(fold), -1)
    return out
