"""The two losses of least-squares rankers: on pairs of rows, and on single rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, cast

from rankwise.backends.arrays import Array, Loader, to_host
from rankwise.backends.backend import Backend
from rankwise.errors import DataError
from rankwise.graph import PairGraph, PreferenceGraph
from rankwise.graph.label_checks import labels_differ, nothing_to_rank
from rankwise.graph.query_graph import QueryGraph, pair_weight
from rankwise.graph.query_groups import QueryGroups
from rankwise.solvers.moments import CentredMoments, Moments


@dataclass(frozen=True, eq=False)
class Task:
    """One least-squares system to solve: a preference graph and its target scores.

    `y` is None if the graph holds comparisons, which have margins instead.
    """

    graph: PairGraph
    y: Array | None

    @property
    def row_weights(self) -> Array | None:
        """The weights of rows; None if they have none."""
        return self.graph.row_weights

    @property
    def n_axes(self) -> int:
        """Number of axes of the scores or margins: 2 if there are several outputs, otherwise 1."""
        values = self.y if self.graph.margin is None else self.graph.margin
        return 0 if values is None else values.ndim

    @property
    def n_learnable(self) -> int:
        """The number of pairs that count; 0 if no query has two different labels."""
        groups = self.graph.groups
        if groups is not None and not labels_differ(to_host(self.y), groups):
            return 0
        return self.graph.n_pairs


class Loss(Protocol):
    """Which errors a ranker minimizes."""

    @property
    def ties(self) -> str:
        """Whether pairs with equal scores count: "include" or "exclude"."""

    @property
    def weighting(self) -> str:
        """The weight of a pair: 1 ("pairs"), or 1 over the rows or the pairs of its query."""

    has_intercept: ClassVar[bool]

    def columns(self, y: Array) -> list[tuple[Array | None, Array]]:
        """For each system to solve: the labels that define ties (or None), and the targets."""

    def tasks(self, y: Array, qid: Any) -> list[Task]:
        """The systems to solve: one for all outputs together, or one for each output."""

    def check_learnable(self, n_pairs: Sequence[int], n_rows: int, n_queries: int) -> None:
        """Raise an error if a system has no pair or row to learn from."""

    def moments(
        self, load: Loader, n_features: int, task: Task, on: Backend
    ) -> Moments | CentredMoments:
        """Moments of features that ``load(rows)`` computes block by block."""

    def weight(self, n_rows: int, n_pairs: int) -> float:
        """The weight of a pair in a query with this many rows and pairs that count."""


@dataclass(frozen=True)
class PairLoss:
    """Squared errors of differences, over pairs of rows of the same query.

    1/2 sum_ij W_ij ((y_i - y_j) - (f(x_i) - f(x_j)))^2: equation (4) of the RankRLS paper.

    Examples
    --------
    >>> import numpy as np
    >>> (task,) = PairLoss("exclude").tasks(np.array([0.0, 1.0, 1.0]), ["a", "a", "a"])
    >>> task.graph.n_pairs
    2
    """

    ties: str = "include"
    weighting: str = "rows"
    has_intercept: ClassVar[bool] = False

    def columns(self, y: Array) -> list[tuple[Array | None, Array]]:
        """If tied pairs are excluded, each output has its own graph."""
        if self.ties == "include":
            return [(None, y)]
        if y.ndim == 1:
            return [(y, y)]
        return [(y[:, k], y[:, k : k + 1]) for k in range(y.shape[1])]

    def tasks(self, y: Array, qid: Any) -> list[Task]:
        """One task for all outputs or, if tied pairs are excluded, one for each output."""
        return [
            Task(self.graph(labels, qid, len(y)), targets) for labels, targets in self.columns(y)
        ]

    def graph(self, labels: Array | None, qid: Any, n_rows: int) -> PreferenceGraph:
        """The graph of the pairs that count."""
        return PreferenceGraph.from_scores(
            to_host(labels), qid, n_rows=n_rows, ties=self.ties, weighting=self.weighting
        )

    def check_learnable(self, n_pairs: Sequence[int], n_rows: int, n_queries: int) -> None:
        """Every task needs a pair; see `Task.n_learnable`."""
        if not all(n_pairs):
            raise nothing_to_rank(n_queries, n_rows)

    def moments(self, load: Loader, n_features: int, task: Task, on: Backend) -> Moments:
        """A = F'LF and b = F'Ly."""
        return Moments.of_blocks(load, n_features, task.graph, task.y, on)

    def weight(self, n_rows: int, n_pairs: int) -> float:
        """The weight of a pair in a query with this many rows and pairs that count."""
        return float(pair_weight(self.weighting, n_rows, n_pairs))


@dataclass(frozen=True)
class RowLoss:
    """Squared errors of single rows, with an intercept that is not penalized.

    At the optimal intercept, this is the pairwise loss of one ranking of all rows, with pairs
    weighted by 1 over the number of rows. `ties` and `weighting` are set accordingly.

    Examples
    --------
    >>> RowLoss().has_intercept
    True
    """

    ties: ClassVar[str] = "include"
    weighting: ClassVar[str] = "rows"
    has_intercept: ClassVar[bool] = True

    def columns(self, y: Array) -> list[tuple[Array | None, Array]]:
        """All outputs share one system."""
        return [(None, y)]

    def tasks(self, y: Array, qid: Any) -> list[Task]:
        """One task; L = I - 11'/m centres all rows together, regardless of queries."""
        groups = QueryGroups.of(None, len(y))
        if isinstance(qid, QueryGroups):
            groups = groups.with_row_weights(qid.row_weights)
        return [Task(PreferenceGraph.from_groups(groups, weighting="rows"), y)]

    def check_learnable(self, n_pairs: Sequence[int], n_rows: int, n_queries: int) -> None:
        """A regression needs two rows with different labels."""
        if n_rows < 2:
            raise DataError("A regression needs at least two rows: got one.")
        if not all(n_pairs):
            raise nothing_to_rank(1, n_rows)

    def moments(self, load: Loader, n_features: int, task: Task, on: Backend) -> CentredMoments:
        """Moments of centred features, with their means."""
        assert task.y is not None  # comparisons have a PairLoss
        graph = cast(QueryGraph, task.graph)
        return CentredMoments.of_blocks(load, n_features, graph, task.y, on)

    def weight(self, n_rows: int, n_pairs: int) -> float:
        """The weight of a pair in one ranking of this many rows."""
        return float(pair_weight(self.weighting, n_rows, n_pairs))
