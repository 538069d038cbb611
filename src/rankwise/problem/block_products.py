"""Products with X'LX from blocks of rows that are not in memory together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.errors import DataError
from rankwise.graph.query_groups import QueryGroups
from rankwise.problem.loss import Loss, Task
from rankwise.solvers.pair_products import PairProducts

Block = tuple[Any, Array, Any]  # rows, labels and query ids


@dataclass(frozen=True, eq=False)
class BlockProducts:
    """The systems of all queries and, for each fold, of all queries but those of the fold.

    A product is a pass over the blocks. Each has whole queries, so that X'LX is a sum over blocks.

    Attributes
    ----------
    blocks : iterable of (X, y, qid)
        It can be iterated repeatedly.
    loss : Loss
        One on pairs.
    folds : list of sets of query ids
        With folds, the systems are those without each of them.
    """

    blocks: Iterable[Block]
    loss: Loss
    folds: Sequence[set[Any]] = ()

    def __call__(self, P: Array) -> Array:
        """X'LX P, for the columns of all systems."""
        total = None
        for block in self.blocks:
            part = self._of_block(*block)(P)
            total = part if total is None else total + part
        assert total is not None  # `right_hand_side` has seen a block
        return total

    def right_hand_side(self) -> Array:
        """X'Ly of all systems, side by side."""
        total = None
        for block in self.blocks:
            b = self._of_block(*block).b
            total = b if total is None else total + b
        if total is None:
            raise DataError("There are no blocks of rows to learn from.")
        return total

    def _of_block(self, X: Any, y: Array, qid: Any) -> PairProducts:
        groups = QueryGroups.of(qid, len(y))
        tasks = self.loss.tasks(y, groups)
        shared = tasks[0].graph.compared
        if self.folds:
            tasks = [task for fold in self.folds for task in self._without(y, groups, fold, tasks)]
        graphs, targets = [task.graph for task in tasks], [task.y for task in tasks]
        return PairProducts.of(X, graphs, targets, shared)

    def _without(
        self, y: Array, groups: QueryGroups, fold: set[Any], tasks: list[Task]
    ) -> list[Task]:
        held = rows_of(groups, fold)
        return self.loss.tasks(y, without_rows(groups, held)) if len(held) else tasks


def rows_of(groups: QueryGroups, names: set[Any]) -> Index:
    """The rows of the queries with these names."""
    chosen = np.array([name in names for name in groups.names.tolist()], dtype=bool)
    return np.flatnonzero(chosen[groups.codes])


def without_rows(groups: QueryGroups, held: Index) -> QueryGroups:
    """Groups in which each of these rows is alone: it has no pairs, as if it were not there."""
    codes = groups.codes.copy()
    codes[held] = codes.max() + 1 + np.arange(len(held))
    return QueryGroups.of(codes)
