"""The choice of alpha from the moments of folds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rankwise.backends.arrays import Array, to_host
from rankwise.holdout.alpha_evaluation import AlphaChoice
from rankwise.holdout.alpha_grid import alpha_by_rule, alpha_grid, moment_squares
from rankwise.holdout.held_out_folds import strength
from rankwise.holdout.held_out_scores import HeldOutScores
from rankwise.problem import Loss, System
from rankwise.problem.blocks import Folds, FoldSum, total_of
from rankwise.solvers.moments import CentredMoments, Moments
from rankwise.solvers.ridge_path import solve_ridge_path


def summed_alphas(
    system: System, moments: Sequence[Moments | CentredMoments], n_rows: int
) -> Array:
    """The grid for the moments of all rows, one entry for each task."""
    return alpha_grid(moment_squares(system, moments), n_rows)


def choose_from_folds(
    system: System,
    moments: Sequence[Moments | CentredMoments],
    folds: Folds | None,
    loss: Loss,
    n_rows: int,
) -> AlphaChoice:
    """Choose alpha by the squared error of the pairs of each fold, from the other folds.

    For weights w, this error is w'A w - 2 w'b + y'Ly with the moments of the fold. It is given
    relative to y'Ly, the error of equal scores. If there are fewer than two folds with pairs, alpha
    follows a rule.

    Parameters
    ----------
    system : System
    moments : list of Moments or CentredMoments
        The moments of all rows, for each task.
    folds : list of FoldSum, or None
        For one ranking, moments of a regression (see `fold_loss`).
    loss : Loss
        The loss of the ranker.
    n_rows : int
    """
    squares = moment_squares(system, moments)
    used = [k for k, fold in enumerate(folds or []) if fold is not None and _has_pairs(fold)]
    if len(used) < 2 or not np.isfinite(squares).all():
        return AlphaChoice(alpha_by_rule(squares, n_rows), None)
    assert folds is not None
    alphas = alpha_grid(squares, n_rows)
    errors, equal = zip(*(_fold_errors(system, folds, k, loss, alphas) for k in used), strict=True)
    error, total = np.array(errors), np.array(equal)  # (n_folds, n_alphas, n_outputs), (n_folds, .)
    score = error.sum(axis=0) / total.sum(axis=0)
    excess = error - score * total[:, None]
    n = len(used)
    spread = np.sqrt(n / (n - 1) * (excess**2).sum(axis=0)) / total.sum(axis=0)
    curve = HeldOutScores(
        alphas, score.mean(axis=1), spread.mean(axis=1), "squared_error", greater_is_better=False
    )
    return AlphaChoice(curve.best_alpha, curve)


def _has_pairs(fold: FoldSum) -> bool:
    return all(bool((np.asarray(to_host(one)) > 0).all()) for one in fold.squares)


def _fold_errors(
    system: System, folds: Folds, k: int, loss: Loss, alphas: Array
) -> tuple[Array, Array]:
    """Squared errors of fold k for each alpha and output, and those of equal scores."""
    held, rest = folds[k], total_of([*folds[:k], *folds[k + 1 :]])
    assert held is not None
    assert rest is not None
    columns, equal = [], []
    for part, other, c in zip(held.moments, rest.moments, held.squares, strict=True):
        lams = alphas.tolist()
        if hasattr(other, "n_rows") and not loss.has_intercept:  # one ranking as a regression
            lams = [strength(loss, lam, other.n_rows) for lam in lams]
        mine, others = system.coordinate_moments(part), system.coordinate_moments(other)
        b = mine.b.reshape(len(mine.b), -1)
        c = np.asarray(to_host(c)).reshape(-1)
        weights = solve_ridge_path(others.A, others.b, lams, gram=True)
        of_alpha = []
        for w in weights:
            w = w.reshape(len(w), -1)
            of_alpha.append(to_host((w * (mine.A @ w - 2.0 * b)).sum(axis=0)) + c)
        columns.append(np.array(of_alpha))
        equal.append(c)
    return np.concatenate(columns, axis=1), np.concatenate(equal)
