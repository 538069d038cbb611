"""The choice of alpha for blocks of rows that conjugate gradients pass over again and again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from rankwise.backends.arrays import Array, is_sparse
from rankwise.backends.dispatch import NUMPY
from rankwise.errors import DataError
from rankwise.graph.query_groups import QueryGroups
from rankwise.holdout import choice_budget as budget
from rankwise.holdout.alpha_evaluation import AlphaChoice
from rankwise.holdout.alpha_grid import alpha_grid
from rankwise.holdout.held_out_scores import score_predictions
from rankwise.metrics.ranking_scorer import default_metric
from rankwise.problem.blocks import BlockProducts, check_new_queries, query_hash, rows_of
from rankwise.solvers.pair_products import pair_squares
from rankwise.solvers.shifted_cg import is_solved, shifted_cg


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

    The rows of the folds are kept in memory: those of at most SAMPLE_ROWS rows of whole queries.
    """
    order, wanted = sorted(overview.sizes, key=query_hash), budget.SAMPLE_ROWS
    chosen: list[Any] = []
    for name in order:
        if wanted <= 0 and len(chosen) >= budget.FEWEST_FOLDS:
            break
        chosen.append(name)
        wanted -= overview.sizes[name]
    folds = [set(chosen[k :: budget.FEWEST_FOLDS]) for k in range(budget.FEWEST_FOLDS)]
    if len(chosen) < budget.FEWEST_FOLDS:
        raise DataError(
            'alpha="auto" needs at least three queries with different labels to hold out: got '
            f"{len(chosen)}. Pass a number for alpha."
        )
    held, labels, fold_of, codes = _held_rows(products, folds)
    systems = BlockProducts(products.blocks, products.loss, folds)
    observe, _ = NUMPY.products(held)
    tol = max(budget.CHOICE_TOL, tol)
    found = shifted_cg(
        systems,
        systems.right_hand_side(),
        overview.alphas().tolist(),
        tol=tol,
        max_iter=min(budget.CHOICE_STEPS, max_iter),
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
