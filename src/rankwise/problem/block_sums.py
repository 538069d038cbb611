"""Sums and products over blocks of whole queries, which are not in memory together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

import numpy as np

from rankwise.backends.arrays import Array, Index, backend_of
from rankwise.errors import DataError, ParameterError
from rankwise.graph.query_groups import QueryGroups, as_ids
from rankwise.problem.problem import Fit, Loss, RowLoss, System
from rankwise.solvers.shifted_cg import PairProducts
from rankwise.tables import plural

N_FOLDS = 5
Block = tuple[Any, Array, Any]  # rows, labels and query ids


def query_hash(name: Any) -> int:
    """A number that depends only on a query id."""
    return crc32(repr(name).encode())


def check_new_queries(known: Iterable[Any] | None, names: Iterable[Any] | None) -> None:
    """Raise an error if queries of a further block are known; None means one ranking."""
    if known is None or names is None:
        raise DataError(
            "Without qid all rows form one ranking, which cannot be split into blocks: pass the "
            "query of every row."
        )
    again = set(known).intersection(names)
    if again:
        raise DataError(
            f"Query {next(iter(again))} was also in an earlier block ({len(again)} such queries): "
            "all rows of a query must be in one block. Sort the rows by qid."
        )


def check_outputs(y: Array, before: tuple[int, ...]) -> None:
    """Raise an error unless the labels of a further block have the shape of the others."""
    if tuple(y.shape[1:]) != before:
        here, there = (
            plural(shape[0], "column") if shape else "one dimension"
            for shape in (y.shape[1:], before)
        )
        raise DataError(f"y has {here} in this block, but {there} in the previous blocks.")


@dataclass(frozen=True, eq=False)
class FoldSum:
    """The sums of one fold of whole queries, from which alpha is chosen without another pass.

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


def total_of(parts: Iterable[Any]) -> Any:
    """The sum of parts, in their order, of which some may be None; None if all are."""
    total = None
    for part in parts:
        total = part if total is None else total if part is None else total + part
    return total


def _fold_sums(system: System, loss: Loss, X: Any, y: Array, qid: Any) -> Folds:
    """The sums of a block of rows; queries are assigned to folds by their ids."""
    sums: Folds = []
    for rows in _fold_rows(qid, len(y)):
        if len(rows) == 0:
            sums.append(None)
            continue
        tasks = loss.tasks(y[rows], None if qid is None else as_ids(qid)[rows])
        part, squares = X[rows], []
        for task in tasks:
            t = task.graph.root_target(task.y)
            squares.append(backend_of(t).array((t**2).sum(axis=0)))
        sums.append(FoldSum([system.moments(part, task, loss) for task in tasks], squares))
    return sums


def _fold_rows(qid: Any, n_rows: int) -> list[Index]:
    if qid is None:
        return [np.arange(k, n_rows, N_FOLDS) for k in range(N_FOLDS)]
    groups = QueryGroups.of(qid, n_rows)
    fold = np.array([query_hash(name) % N_FOLDS for name in groups.names.tolist()], dtype=np.intp)
    return [np.flatnonzero(fold[groups.codes] == k) for k in range(N_FOLDS)]


@dataclass(frozen=True, eq=False)
class BlockSums:
    """Sums over the blocks so far, which are sufficient to fit to all of their rows.

    Attributes
    ----------
    system : System
        None on the workers of a cluster, which send sums only.
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

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise.problem import BlockSums, FeatureSystem, PairLoss
    >>> X, y = np.array([[0.0], [1.0], [3.0]]), np.array([0.0, 2.0, 6.0])
    >>> loss, system = PairLoss(), FeatureSystem(1)
    >>> a, b = (BlockSums.of(system, loss, X, y, [name] * 3) for name in "ab")
    >>> (a + b).n_queries, (a + b).solve([0.0]).solutions[0].weights.round(6)
    (2, array([2.]))
    """

    system: Any
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
        system: System,
        loss: Loss,
        X: Any,
        y: Array,
        qid: Any,
        *,
        with_folds: bool = False,
        one_ranking: bool | None = None,
    ) -> BlockSums:
        """The sums of a single block, with the sums of folds if alpha will be chosen.

        `one_ranking`: whether all blocks together are one ranking; None: if there is no qid.
        """
        queries: frozenset[Any] | None = None
        if qid is not None or loss.has_intercept:
            queries = frozenset(QueryGroups.of(qid, len(y)).names.tolist())
        tasks = loss.tasks(y, qid)
        moments = [system.moments(X, task, loss) for task in tasks]
        # The labels of a regression may be constant within each block.
        n_pairs = [len(y) if loss.has_intercept else task.n_learnable for task in tasks]
        folds, one = None, queries is None if one_ranking is None else one_ranking
        if with_folds and (not one or loss.has_intercept):
            folds = _fold_sums(system, loss, X, y, None if one else qid)
        elif with_folds and loss.ties == "include":
            # One ranking whose pairs all count is a regression with a free intercept.
            folds = _fold_sums(system, RowLoss(), X, y, None)
        return cls(system, loss, moments, n_pairs, len(y), tuple(y.shape[1:]), queries, folds)

    def __add__(self, other: BlockSums) -> BlockSums:
        folds = None
        if self.folds is not None and other.folds is not None:
            folds = [total_of(pair) for pair in zip(self.folds, other.folds, strict=True)]
        queries = None
        if self.queries is not None and other.queries is not None:
            queries = self.queries | other.queries
        return replace(
            self,
            moments=[a + b for a, b in zip(self.moments, other.moments, strict=True)],
            n_pairs=[a + b for a, b in zip(self.n_pairs, other.n_pairs, strict=True)],
            n_rows=self.n_rows + other.n_rows,
            queries=queries,
            folds=folds,
        )

    @property
    def n_queries(self) -> int:
        """Number of queries so far."""
        return 1 if self.queries is None else len(self.queries)

    def with_block(self, loss: Loss, X: Any, y: Array, qid: Any) -> BlockSums:
        """The sums with another block added."""
        if loss != self.loss:
            raise ParameterError(
                "ties or weighting changed since the first block, but the sums of earlier blocks "
                "cannot be updated. Start again with a clone."
            )
        check_outputs(y, self.outputs)
        block = BlockSums.of(self.system, loss, X, y, qid, with_folds=self.folds is not None)
        if not loss.has_intercept:
            check_new_queries(self.queries, block.queries)
        return self + block

    def check_learnable(self) -> None:
        """Raise an error if there is no pair to learn from in any block."""
        self.loss.check_learnable(self.n_pairs, self.n_rows, self.n_queries)

    def solve(self, alphas: list[float]) -> Fit:
        """Fit to the rows of all blocks."""
        return Fit(self.system.basis, self.system.solve(self.moments, alphas))


@dataclass(frozen=True, eq=False)
class BlockProducts:
    """Products with X'LX of all queries and, for each fold, of all queries outside the fold.

    A product is a pass over the blocks. Each has whole queries, so that X'LX is a sum over blocks.

    Attributes
    ----------
    blocks : iterable of (X, y, qid)
        It can be iterated repeatedly.
    loss : Loss
        A loss on pairs.
    folds : list of sets of query ids
        With folds, there is a system without each of them.
    """

    blocks: Iterable[Block]
    loss: Loss
    folds: Sequence[set[Any]] = ()

    def __call__(self, P: Array) -> Array:
        """X'LX P, for the columns of all systems."""
        found: Array = total_of(self._of_block(*block)(P) for block in self.blocks)
        return found

    def right_hand_side(self) -> Array:
        """X'Ly of all systems, side by side."""
        found: Array = total_of(self._of_block(*block).b for block in self.blocks)
        return found

    def _of_block(self, X: Any, y: Array, qid: Any) -> PairProducts:
        groups = QueryGroups.of(qid, len(y))
        tasks = self.loss.tasks(y, groups)
        shared = tasks[0].graph.compared
        if self.folds:
            left = [without_rows(groups, rows_of(groups, fold)) for fold in self.folds]
            tasks = [task for some in left for task in self.loss.tasks(y, some)]
        graphs, targets = [task.graph for task in tasks], [task.y for task in tasks]
        return PairProducts.of(X, graphs, targets, shared)


def rows_of(groups: QueryGroups, names: set[Any]) -> Index:
    """The rows of the queries with these names."""
    chosen = np.array([name in names for name in groups.names.tolist()], dtype=bool)
    return np.flatnonzero(chosen[groups.codes])


def without_rows(groups: QueryGroups, held: Index) -> QueryGroups:
    """Groups in which each of these rows is alone: it has no pairs, as if it were not there."""
    if not len(held):
        return groups
    codes = groups.codes.copy()
    codes[held] = codes.max() + 1 + np.arange(len(held))
    return QueryGroups.of(codes)
