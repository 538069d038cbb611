"""A ranker and its data, checked, as the hold-outs need them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
from sklearn.base import clone

from rankwise.backends.arrays import Array, to_host
from rankwise.backends.dispatch import at_home, backend_of
from rankwise.errors import DataError, ParameterError
from rankwise.estimators._checks import check_alphas
from rankwise.estimators._device import travels
from rankwise.estimators.components.component_ranker import ComponentRanker
from rankwise.estimators.least_squares.base import LeastSquaresRanker, Space, Task
from rankwise.graph import QueryGroups
from rankwise.graph.query_graph import QueryGraph
from rankwise.holdout.leave_pair_out import Rule

LARGEST = 1e70  # fourth powers of it are still finite


@dataclass(frozen=True)
class Problem:
    """A least-squares ranker and the rows it is trained on.

    `tasks` is one task for all outputs, or one for each; `y` has a column for each output.
    """

    ranker: LeastSquaresRanker
    X: Any
    y: Array
    qid: Any
    tasks: list[Task]
    n_outputs: int | None
    groups: QueryGroups
    alphas: Array

    @classmethod
    def of(cls, estimator: Any, X: Any, y: Any, qid: Any, alphas: Any) -> Problem:
        if not isinstance(estimator, LeastSquaresRanker):
            raise ParameterError(
                f"Exact hold-outs need a least-squares ranker, such as RankRLS: got "
                f"{type(estimator).__name__}. RankingSearchCV refits any estimator."
            )
        ranker = clone(estimator)
        values = check_alphas([ranker.alpha] if alphas is None else alphas)
        if values.min() == 0 and not isinstance(ranker, ComponentRanker):
            raise ParameterError(
                "Exact hold-outs need an alpha above 0: use a small one. (Only KPCRank and KPCR "
                "can do without.)"
            )
        X, y = ranker._validate(X, y)
        if max(abs(at_home(X)).max(), abs(y).max()) > LARGEST:
            raise DataError(
                f"Values beyond {LARGEST:g} overflow when they are multiplied. Scale the features "
                "and labels."
            )
        qid = to_host(qid)
        groups = QueryGroups.of(qid, len(y))
        tasks = ranker._checked_tasks(y, qid)
        n_outputs = y.shape[1] if y.ndim == 2 else None
        return cls(ranker, X, y.reshape(len(y), -1), qid, tasks, n_outputs, groups, values)

    @cached_property
    def space(self) -> Space:
        """Where the rows live: their features, or their kernel matrix."""
        space = self.ranker._space(self.X, self.qid)
        if not travels(space.features):
            return space
        return Space(features=backend_of(space.features).rows(space.features, slice(None)))

    def returned(self, values: Array) -> Array:
        """Values here, where the rows were given here."""
        return np.asarray(to_host(values)) if travels(self.X) else values

    @property
    def pointwise(self) -> bool:
        """Whether the ranker regresses each row, rather than compares pairs."""
        return self.ranker._pointwise

    @property
    def rule(self) -> Rule:
        """Which pairs train the ranker; regression is one ranking whose pairs weigh 1/rows."""
        if self.pointwise:
            return Rule("include", "rows")
        return Rule(self.ranker.ties, self.ranker.weighting)

    def graph(self, task: int) -> QueryGraph:
        """The graph of a task: of queries, since hold-outs have scores."""
        return cast(QueryGraph, self.tasks[task].graph)

    def columns(self, task: int) -> slice:
        """The outputs that a task has."""
        return slice(None) if len(self.tasks) == 1 else slice(task, task + 1)

    def targets(self, task: int) -> Array:
        """The columns of y that a task has."""
        return backend_of(self.y).contiguous(self.y[:, self.columns(task)])

    @cached_property
    def labels(self) -> Array:
        """y as NumPy's array: what says which pairs are tied, and what metrics compare with."""
        return np.asarray(to_host(self.y))

    def by_output(self, values: Array) -> Array:
        """Values with a last axis for outputs, without it where y is a vector."""
        return values[..., 0] if self.n_outputs is None else values


@contextmanager
def explained_rounding() -> Iterator[None]:
    """Turn a system that rounding has made singular into an error with a way out."""
    try:
        yield
    except np.linalg.LinAlgError:
        raise lost_in_rounding() from None


def lost_in_rounding() -> DataError:
    return DataError(
        "An alpha is lost in the rounding of the data: nothing can be held out with it. Leave so "
        "small an alpha out, or scale the features."
    )
