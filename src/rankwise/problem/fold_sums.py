"""Moments of folds of whole queries, from which alpha is chosen without another pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.backends.dispatch import backend_of
from rankwise.graph.id_arrays import as_ids
from rankwise.graph.query_groups import QueryGroups
from rankwise.problem.loss import Loss, RowLoss
from rankwise.problem.problem import System

N_FOLDS = 5


@dataclass(frozen=True, eq=False)
class FoldSum:
    """The sums of one fold.

    Attributes
    ----------
    moments : list of Moments or CentredMoments
        One entry for each task.
    squares : list of ndarray of shape () or (n_outputs,)
        y'Ly for each task: the squared error of equal scores.
    """

    moments: list[Any]
    squares: list[Any]

    def __add__(self, other: FoldSum) -> FoldSum:
        pairs = list(zip(self.moments, other.moments, strict=True))
        squares = zip(self.squares, other.squares, strict=True)
        return FoldSum(
            [a + b for a, b in pairs],
            [c + d + a.label_scatter(b) for (a, b), (c, d) in zip(pairs, squares, strict=True)],
        )


Folds = list[FoldSum | None]  # None for a fold without rows


def query_hash(name: Any) -> int:
    """A number that depends only on a query id."""
    return crc32(repr(name).encode())


def fold_loss(loss: Loss, *, one_ranking: bool) -> Loss | None:
    """The loss whose moments add up over folds; None if no loss has such moments.

    One ranking whose pairs all count is a regression with a free intercept.
    """
    if not one_ranking or loss.has_intercept:
        return loss
    return RowLoss() if loss.ties == "include" else None


def fold_sums(system: System, loss: Loss, X: Any, y: Array, qid: Any) -> Folds:
    """The sums of a block of rows; queries are assigned to folds by their ids."""
    sums: Folds = []
    for rows in _fold_rows(qid, len(y)):
        if len(rows) == 0:
            sums.append(None)
            continue
        tasks = loss.tasks(y[rows], None if qid is None else as_ids(qid)[rows])
        part = X[rows]
        squares = []
        for task in tasks:
            t = task.graph.root_target(task.y)
            squares.append(backend_of(t).array((t**2).sum(axis=0)))
        sums.append(FoldSum([system.moments(part, task, loss) for task in tasks], squares))
    return sums


def add_folds(first: Folds, second: Folds) -> Folds:
    """The sums of two blocks."""
    return [
        a if b is None else b if a is None else a + b for a, b in zip(first, second, strict=True)
    ]


def total_of(folds: Sequence[FoldSum | None]) -> FoldSum | None:
    """The sum of all folds; None if they have no rows."""
    total = None
    for fold in folds:
        total = fold if total is None else total if fold is None else total + fold
    return total


def _fold_rows(qid: Any, n_rows: int) -> list[Index]:
    if qid is None:
        return [np.arange(k, n_rows, N_FOLDS) for k in range(N_FOLDS)]
    groups = QueryGroups.of(qid, n_rows)
    fold = np.array([query_hash(name) % N_FOLDS for name in groups.names.tolist()], dtype=np.intp)
    return [np.flatnonzero(fold[groups.codes] == k) for k in range(N_FOLDS)]
