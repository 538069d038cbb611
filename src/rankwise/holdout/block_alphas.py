"""The choice of alpha for rows in blocks: from moments of folds, or by conjugate gradients.

Both see the rows of a stream or a cluster block by block, and hold out folds of whole queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from rankwise.backends.arrays import NUMPY, Array, is_sparse, to_host
from rankwise.errors import DataError
from rankwise.graph.query_groups import QueryGroups
from rankwise.holdout.alpha_choice import FEWEST_FOLDS, SAMPLE_ROWS, AlphaChoice
from rankwise.holdout.alpha_grid import alpha_by_rule, alpha_grid, moment_squares
from rankwise.holdout.folds import strength
from rankwise.holdout.samples import CHOICE_STEPS, CHOICE_TOL
from rankwise.holdout.scores import HeldOutScores, score_predictions
from rankwise.metrics.ranking_scorer import default_metric
from rankwise.problem import Loss, System
from rankwise.problem.block_sums import (
    BlockProducts,
    Folds,
    FoldSum,
    check_new_queries,
    query_hash,
    rows_of,
    total_of,
)
from rankwise.solvers.ridge_path import CentredMoments, Moments, solve_ridge_path
from rankwise.solvers.shifted_cg import is_solved, pair_squares, shifted_cg


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
    """Squared errors of fold k for each alpha and output, and errors of equal scores."""
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


@dataclass(eq=False)
class BlockOverview:
    """What a first pass over the blocks finds.

    `sizes` has the number of rows of each query with different labels, by its name.
    """

    n_rows: int = 0
    n_pairs: list[int] = field(default_factory=list)
    names: set[Any] = field(default_factory=set)
    sizes: dict[Any, int] = field(default_factory=dict)
    squares: Any = 0.0

    @classmethod
    def of(cls, products: BlockProducts, *, with_squares: bool) -> BlockOverview:
        """Sums over all blocks; an error if a query is in two of them."""
        found = cls()
        for k, (X, y, qid) in enumerate(products.blocks):
            groups = QueryGroups.of(qid, len(y))
            names = groups.names.tolist() if qid is not None else []
            if k:
                check_new_queries(found.names or None, names or None)
            found.names.update(names)
            tasks = products.loss.tasks(y, groups)
            learnable = [task.n_learnable for task in tasks]
            before = found.n_pairs or [0] * len(tasks)
            found.n_pairs = [a + b for a, b in zip(before, learnable, strict=True)]
            found.n_rows += len(y)
            if with_squares:
                found.squares = found.squares + np.mean(
                    [pair_squares(sp.csr_array(X), task.graph) for task in tasks], axis=0
                )
                labels = y.reshape(len(y), -1)
                for name, rows in zip(names, groups, strict=True):
                    if (labels[rows] != labels[rows[0]]).any():
                        found.sizes[name] = len(rows)
        return found

    def alphas(self) -> Array:
        """The grid for these rows."""
        return alpha_grid(self.squares, self.n_rows)


def choose_in_blocks(
    products: BlockProducts, overview: BlockOverview, tol: float, max_iter: int
) -> AlphaChoice:
    """The alpha with the best scores of folds of queries, by steps that all of them share.

    The rows of the folds are kept in memory: at most SAMPLE_ROWS rows of whole queries.
    """
    order, wanted = sorted(overview.sizes, key=query_hash), SAMPLE_ROWS
    chosen: list[Any] = []
    for name in order:
        if wanted <= 0 and len(chosen) >= FEWEST_FOLDS:
            break
        chosen.append(name)
        wanted -= overview.sizes[name]
    folds = [set(chosen[k::FEWEST_FOLDS]) for k in range(FEWEST_FOLDS)]
    if len(chosen) < FEWEST_FOLDS:
        raise DataError(
            'alpha="auto" needs at least three queries with different labels to hold out: got '
            f"{len(chosen)}. Pass a number for alpha."
        )
    held, labels, fold_of, codes = _held_rows(products, folds)
    systems = BlockProducts(products.blocks, products.loss, folds)
    observe, _ = NUMPY.products(held)
    tol = max(CHOICE_TOL, tol)
    found = shifted_cg(
        systems,
        systems.right_hand_side(),
        overview.alphas().tolist(),
        tol=tol,
        max_iter=min(CHOICE_STEPS, max_iter),
        observe=observe,
    )
    solved = np.flatnonzero(is_solved(found, tol))
    if not len(solved):
        raise DataError(
            f"No alpha could be solved in {found.n_iter} steps. Scale the features, or pass a "
            "number for alpha."
        )
    n_outputs = labels.shape[1]
    columns = fold_of[:, None] * n_outputs + np.arange(n_outputs)
    predictions = np.stack(
        [found.solutions[k][np.arange(len(labels))[:, None], columns] for k in solved]
    )
    metric = default_metric(labels, len(chosen))
    curve = score_predictions(overview.alphas()[solved], labels, predictions, metric, codes)
    return AlphaChoice(curve.best_alpha, curve)


def _held_rows(products: BlockProducts, folds: list[set[Any]]) -> tuple[Any, Array, Any, Any]:
    """Rows of the folds with labels, the fold of each row, and its query as a number."""
    parts, labels, fold_of, codes = [], [], [], []
    n_queries = 0
    for X, y, qid in products.blocks:
        groups = QueryGroups.of(qid, len(y))
        for k, fold in enumerate(folds):
            rows = rows_of(groups, fold)
            if len(rows):
                parts.append(X[rows])
                labels.append(y[rows].reshape(len(rows), -1))
                fold_of.append(np.full(len(rows), k))
                codes.append(n_queries + groups.codes[rows])
        n_queries += groups.n_groups
    held = sp.vstack(parts, format="csr") if is_sparse(parts[0]) else np.vstack(parts)
    return held, np.concatenate(labels), np.concatenate(fold_of), np.concatenate(codes)
