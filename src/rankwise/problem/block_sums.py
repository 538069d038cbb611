"""Moments summed over blocks of whole queries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rankwise.backends.arrays import Array
from rankwise.errors import DataError, ParameterError
from rankwise.graph.query_groups import QueryGroups
from rankwise.problem.fold_sums import add_folds, fold_loss, fold_sums
from rankwise.problem.landmark_space import LandmarkSystem
from rankwise.problem.loss import Loss
from rankwise.problem.problem import Fit


@dataclass(frozen=True, eq=False)
class BlockSums:
    """Sums over the blocks so far, which are sufficient to fit to all of their rows.

    Attributes
    ----------
    system : LandmarkSystem
    loss : Loss
    moments : list of Moments or CentredMoments
        One entry for each task.
    n_pairs : list of int
        Number of pairs to learn from, for each task; of rows, for a regression.
    n_rows : int
    outputs : tuple of int
        The shape of a row's labels.
    queries : frozenset or None
        The query ids so far; None if all rows are one ranking.
    folds : list of FoldSum, or None
        The sums of each fold, from which alpha is chosen; None if they are not needed.
    """

    system: LandmarkSystem
    loss: Loss
    moments: list[Any]
    n_pairs: list[int]
    n_rows: int
    outputs: tuple[int, ...]
    queries: frozenset[Any] | None
    folds: list[Any] | None = None

    @classmethod
    def of(
        cls,
        system: LandmarkSystem,
        loss: Loss,
        X: Any,
        y: Array,
        qid: Any,
        *,
        with_folds: bool = False,
    ) -> BlockSums:
        """The sums of a single block; with those of folds, if alpha will be chosen."""
        queries: frozenset[Any] | None = None
        if qid is not None or loss.has_intercept:
            queries = frozenset(QueryGroups.of(qid, len(y)).names.tolist())
        tasks = loss.tasks(y, qid)
        moments = [system.moments(X, task, loss) for task in tasks]
        # The labels of a regression may be constant within each block.
        n_pairs = [len(y) if loss.has_intercept else task.n_learnable for task in tasks]
        folds = None
        additive = fold_loss(loss, one_ranking=queries is None)
        if with_folds and additive is not None:
            folds = fold_sums(system, additive, X, y, qid)
        return cls(system, loss, moments, n_pairs, len(y), tuple(y.shape[1:]), queries, folds)

    @property
    def n_queries(self) -> int:
        """Number of queries so far."""
        return 1 if self.queries is None else len(self.queries)

    def with_block(self, loss: Loss, X: Any, y: Array, qid: Any) -> BlockSums:
        """The sums with those of another block."""
        if loss != self.loss:
            raise ParameterError(
                "ties or weighting changed since the first block, but the sums of earlier blocks "
                "cannot be updated. Start again with a clone."
            )
        if tuple(y.shape[1:]) != self.outputs:
            here, before = (
                f"{shape[0]} columns" if shape else "one dimension"
                for shape in (y.shape[1:], self.outputs)
            )
            raise DataError(f"y has {here} in this block, but {before} in the previous blocks.")
        block = BlockSums.of(self.system, loss, X, y, qid, with_folds=self.folds is not None)
        queries = self._joined_queries(block)
        folds = None
        if self.folds is not None and block.folds is not None:
            folds = add_folds(self.folds, block.folds)
        return replace(
            self,
            moments=[a + b for a, b in zip(self.moments, block.moments, strict=True)],
            n_pairs=[a + b for a, b in zip(self.n_pairs, block.n_pairs, strict=True)],
            n_rows=self.n_rows + block.n_rows,
            queries=queries,
            folds=folds,
        )

    def check_learnable(self) -> None:
        """Raise an error if there is no pair to learn from in any block."""
        self.loss.check_learnable(self.n_pairs, self.n_rows, self.n_queries)

    def solve(self, alphas: list[float]) -> Fit:
        """Fit to the rows of all blocks."""
        return Fit(self.system.basis, self.system.solve(self.moments, alphas))

    def _joined_queries(self, block: BlockSums) -> frozenset[Any] | None:
        if self.queries is None or block.queries is None:
            raise DataError(
                "Without qid all rows form one ranking, which cannot be split into blocks: pass "
                "the query of every row."
            )
        again = self.queries & block.queries
        if again and not self.loss.has_intercept:
            raise DataError(
                f"Query {next(iter(again))} was also in an earlier block ({len(again)} such "
                "queries): all rows of a query must be in one block. Sort the rows by qid."
            )
        return self.queries | block.queries
