"""How alphas are evaluated by hold-outs, and the best of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.arrays import Array, Index, to_host
from rankwise.backends.dispatch import as_given, backend_of
from rankwise.errors import DataError
from rankwise.graph import QueryGroups
from rankwise.holdout import choice_budget as budget
from rankwise.holdout.alpha_grid import (
    KERNEL_STEP,
    STEP,
    alpha_by_rule,
    alpha_grid,
    coordinate_squares,
    data_alphas,
    data_squares,
)
from rankwise.holdout.comparison_hold_out import system_of
from rankwise.holdout.held_out_folds import strength
from rankwise.holdout.held_out_scores import HeldOutScores, score_predictions
from rankwise.holdout.hold_out_problem import HoldOutProblem, on_coordinates
from rankwise.metrics.ranking_scorer import default_metric
from rankwise.problem import (
    Loss,
    PairLoss,
    Problem,
    RowLoss,
    System,
    Task,
)
from rankwise.problem.blocks import without_rows
from rankwise.problem.problem import side_by_side
from rankwise.solvers.moments import CentredMoments
from rankwise.solvers.ridge_path import solve_ridge_path
from rankwise.solvers.shifted_cg import is_solved, shifted_cg

Mask: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class AlphaChoice:
    """An alpha, and the held-out scores of the alphas from which it was chosen.

    `curve` is None if nothing could be held out, and alpha follows a rule.
    """

    alpha: float
    curve: HeldOutScores | None


class ChoiceRows(NamedTuple):
    """Labels of a problem as NumPy arrays, and its system, if it is solved from sums."""

    y: Array
    labels: Array  # with a column for each output
    codes: Index
    problem: Problem
    system: System | None

    @classmethod
    def of(cls, problem: Problem) -> ChoiceRows:
        y = HoldOutProblem.of(problem, np.empty(0)).y
        given = y if problem.tasks[0].n_axes == 2 else y[:, 0]
        return cls(given, np.asarray(to_host(y)), problem.groups.codes, problem, system_of(problem))

    def usable_queries(self) -> Mask:
        """Whether each query has different labels, shape (n_outputs, n_queries)."""
        groups = self.problem.groups
        ordered, starts = self.labels[groups.order], groups.indptr[:-1]
        lowest, highest = (end.reduceat(ordered, starts) for end in (np.minimum, np.maximum))
        return np.asarray(lowest < highest).T

    @property
    def metric(self) -> str:
        """The metric for queries."""
        return default_metric(self.labels, self.problem.groups.n_groups)

    @property
    def n_coordinates(self) -> int:
        return len(self.labels) if self.system is None else self.system.n_coordinates

    @property
    def fit_seconds(self) -> float:
        """Roughly how long a fit takes."""
        n = self.n_coordinates
        return len(self.problem.tasks) * (len(self.labels) + n) * n**2 / budget.FLOPS

    @property
    def n_parts(self) -> int:
        """The number of parts of the rows that can be held out, one after the other."""
        systems = len(self.problem.tasks) * self.n_coordinates**3 / budget.SMALL_FLOPS
        return int(
            np.clip(budget.SECONDS / (2.0 * self.fit_seconds + systems), 1, round(1 / budget.PART))
        )

    @property
    def n_folds(self) -> int:
        """As many folds as can be solved in the time of a fit."""
        seconds = len(self.problem.tasks) * 4.0 * self.n_coordinates**3 / budget.FLOPS + 1e-3
        affordable = max(budget.SECONDS, self.fit_seconds) / seconds
        return int(np.clip(affordable, budget.FEWEST_FOLDS, budget.MOST_FOLDS))


def from_coordinates(
    problem: Problem, hold_out: Callable[[Problem, Array], HeldOutScores]
) -> AlphaChoice:
    """Evaluate alphas on stored coordinates.

    A kernel that is not positive semidefinite has no minimum at small alphas, so these are left
    out.
    """
    rows = problem.coordinates()
    stored = on_coordinates(problem, rows)
    squares = coordinate_squares(problem.tasks, rows)
    alphas = alpha_grid(squares, problem.n_rows, STEP if rows.kernel is None else KERNEL_STEP)
    while True:
        try:
            return best(hold_out(stored, alphas))
        except (DataError, np.linalg.LinAlgError):
            if rows.kernel is None or len(alphas) < 3:
                raise
            alphas = alphas[len(alphas) // 2 :]


def from_sums(
    problem: Problem,
    rows: ChoiceRows,
    system: System,
    folds: Sequence[Index],
    metric: str,
    *,
    one_ranking: bool = False,
) -> AlphaChoice:
    """Hold out folds by subtracting their moments from those of all rows.

    Pairs of one ranking that all count define a regression on the remaining rows.
    """
    X, m, loss = problem.X, problem.n_rows, problem.loss
    regression = RowLoss() if one_ranking else loss
    if one_ranking:
        total = coordinate_moments(X, system, regression.tasks(rows.y, None), regression)
        alphas = ranking_alphas(problem, total[0])
    else:
        total = [system.coordinate_moments(one) for one in problem.moments(system)]
        alphas = alpha_grid(np.mean([to_host(one.A.diagonal()) for one in total], axis=0), m)
    held, load = np.concatenate(folds), system.coordinates(X)
    qid = problem.groups.codes
    predictions = np.empty((len(alphas), len(held), rows.labels.shape[1]))
    end = 0
    for fold in folds:
        lams = alphas.tolist()
        if one_ranking:
            lams = [strength(loss, lam, m - len(fold)) for lam in lams]
        start, end = end, end + len(fold)
        F, on = load(fold), backend_of(X)
        parts = regression.tasks(rows.y[fold], None if one_ranking else problem.groups.take(fold))
        by_task = []
        for whole, part in zip(total, parts, strict=True):
            rest = whole - regression.moments(F.__getitem__, F.shape[1], part, on)
            weights = solve_ridge_path(rest.A, rest.b, lams, gram=True)
            by_task.append(on.xp.stack([(F @ w).reshape(len(fold), -1) for w in weights]))
        predictions[:, start:end] = to_host(on.xp.concatenate(by_task, axis=2))
    fold_of = np.repeat(np.arange(len(folds)), [len(fold) for fold in folds])
    groups = fold_of if one_ranking else qid[held]
    return best(_scored(alphas, rows.labels[held], predictions, metric, groups))


def coordinate_moments(X: Any, system: System, tasks: Sequence[Task], loss: Loss) -> list[Any]:
    """The moments of the coordinates for each task."""
    return [system.coordinate_moments(system.moments(X, task, loss)) for task in tasks]


def ranking_alphas(problem: Problem, regression: CentredMoments) -> Array:
    """The grid for one ranking of all rows, all of whose pairs count, from a regression."""
    m = problem.n_rows
    squares = np.asarray(to_host(regression.A.diagonal()))
    return alpha_grid(squares * (problem.loss.weight(m, m * (m - 1) // 2) * m), m)


def from_parts(
    problem: Problem, rows: ChoiceRows, parts: Sequence[Index], metric: str | None = None
) -> AlphaChoice:
    """Hold out parts of the rows, and fit to the others for all alphas."""
    one_ranking = metric is not None or problem.groups.n_groups == 1
    loss = PairLoss() if problem.loss.has_intercept else problem.loss
    groups = QueryGroups.of(None, problem.n_rows) if problem.loss.has_intercept else problem.groups
    rests = []
    for held in parts:
        tasks = loss.tasks(rows.y, without_rows(groups, held).with_row_weights(problem.row_weights))
        loss.check_learnable([task.graph.n_pairs for task in tasks], problem.n_rows, 1)
        rests.append(replace(problem, tasks=tasks, loss=loss))
    alphas, predictions = part_scores(problem, rests, data_alphas(problem), parts)
    held = np.concatenate(parts)
    part_of = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    metric = metric or ("disagreement" if one_ranking else rows.metric)
    scores = np.concatenate(predictions, axis=1)
    queries = part_of if one_ranking else rows.codes[held]
    return best(_scored(alphas, rows.labels[held], scores, metric, queries))


def part_scores(
    problem: Problem, rests: Sequence[Problem], alphas: Array, parts: Sequence[Index]
) -> tuple[Array, list[Array]]:
    """Scores of each part of the rows by the fit to the rest of the problem without it.

    Returns the alphas that are solved, and an array of shape (n_alphas, n_rows, n_outputs) for each
    part.
    """
    if by_steps(problem):
        return _step_scores(problem, rests, alphas, parts)
    found = []
    for rest, rows in zip(rests, parts, strict=True):
        fit = rest.solve(alphas.tolist())
        columns = side_by_side([solution.weights for solution in fit.solutions])
        X = rest.X[rows]
        scores = np.asarray(to_host(fit.basis.products(X, backend_of(X).array(columns))))
        found.append(np.moveaxis(scores.reshape(len(rows), len(alphas), -1), 1, 0))
    return alphas, found


def by_steps(problem: Problem) -> bool:
    """Whether a problem is solved by conjugate gradients."""
    return problem.space.form(problem.X) == "cg"


def _step_scores(
    problem: Problem, rests: Sequence[Problem], alphas: Array, parts: Sequence[Index]
) -> tuple[Array, list[Array]]:
    """`part_scores` of all parts from the same products; weights are not stored.

    A small tolerance is not needed to compare alphas. Those that need many steps are left out,
    unless there is only one.
    """
    space, on = problem.space, backend_of(problem.X)
    tasks = [task for rest in rests for task in rest.tasks]
    products = space.products(problem.X, tasks, problem.tasks[0].graph.compared)
    assert products is not None  # its form is "cg"
    held = np.concatenate(parts)
    observe, _ = on.products(as_given(problem.X)[held])
    tol, max_iter = max(budget.CHOICE_TOL, space.tol), space.max_iter
    if len(alphas) > 1:
        max_iter = min(budget.CHOICE_STEPS, max_iter)
    found = shifted_cg(
        products, products.b, alphas.tolist(), tol=tol, max_iter=max_iter, observe=observe
    )
    solved = np.flatnonzero(is_solved(found, tol)) if len(alphas) > 1 else np.arange(1)
    if not len(solved):
        raise DataError("No alpha is solved in so few steps.")
    scores = np.stack([to_host(found.solutions[k]) for k in solved])
    n_outputs, end, by_part = scores.shape[2] // len(parts), 0, []
    for k, part in enumerate(parts):
        start, end = end, end + len(part)
        by_part.append(scores[:, start:end, k * n_outputs : (k + 1) * n_outputs])
    return alphas[solved], by_part


def _scored(
    alphas: Array, labels: Array, predictions: Array, metric: str, groups: Index
) -> HeldOutScores:
    if metric != "squared_error":
        return score_predictions(alphas, labels, predictions, metric, groups)
    residuals = labels - predictions
    for k in np.unique(groups):  # the intercept of each fold
        residuals[:, groups == k] -= residuals[:, groups == k].mean(axis=1, keepdims=True)
    return squared_errors(alphas, (residuals**2).mean(axis=2))


def squared_errors(alphas: Array, squared: Array) -> HeldOutScores:
    """From squared errors of shape (n_alphas, n_rows)."""
    spread = squared.std(axis=1, ddof=1) / np.sqrt(squared.shape[1])
    return HeldOutScores(alphas, squared.mean(axis=1), spread, "squared_error", False)


def best(curve: HeldOutScores) -> AlphaChoice:
    return AlphaChoice(curve.best_alpha, curve)


def by_rule(problem: Problem) -> AlphaChoice:
    return AlphaChoice(alpha_by_rule(data_squares(problem), problem.n_rows), None)
