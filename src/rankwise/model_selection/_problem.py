"""A ranker and its data, checked, as the hold-outs need them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from sklearn.base import clone

from rankwise.backends.arrays import Array
from rankwise.errors import DataError, ParameterError
from rankwise.estimators._checks import check_alphas
from rankwise.estimators.least_squares import LeastSquaresRanker, Space, Task
from rankwise.graph import Groups
from rankwise.graph.grouped import GroupedGraph


@dataclass(frozen=True)
class Problem:
    """A least-squares ranker, the space its rows live in, and what it is trained on.

    `tasks` is one task for all outputs, or one for each; `y` has a column for each output.
    """

    ranker: LeastSquaresRanker
    space: Space
    tasks: list[Task]
    y: Array
    n_outputs: int | None
    groups: Groups
    alphas: Array

    @classmethod
    def of(cls, estimator: Any, X: Any, y: Any, qid: Any, alphas: Any) -> Problem:
        if not isinstance(estimator, LeastSquaresRanker):
            raise ParameterError(
                f"Exact hold-outs need a least-squares ranker (RankRLS, RLS): got "
                f"{type(estimator).__name__}. RankingSearchCV refits any estimator."
            )
        ranker = clone(estimator)
        values = check_alphas([ranker.alpha] if alphas is None else alphas)
        if values.min() == 0:
            raise ParameterError(
                "alpha = 0 interpolates, which leaves nothing to hold out exactly: use a small "
                "alpha above 0."
            )
        X, y = ranker._validate(X, y)
        groups = Groups.of(qid, len(y))
        tasks = ranker._tasks(y, qid)
        n_outputs = y.shape[1] if y.ndim == 2 else None
        return cls(
            ranker, ranker._space(X), tasks, y.reshape(len(y), -1), n_outputs, groups, values
        )

    def graph(self, task: int) -> GroupedGraph:
        """The graph of a task: of queries, since hold-outs have scores."""
        return cast(GroupedGraph, self.tasks[task].graph)

    def targets(self, task: int) -> Array:
        """The columns of y that a task has."""
        return self.y if len(self.tasks) == 1 else self.y[:, [task]]

    def by_output(self, values: Array) -> Array:
        """Values with a last axis for outputs, without it where y is a vector."""
        return values[..., 0] if self.n_outputs is None else values


def require_rest(n_pairs_left: int, name: Any) -> None:
    """Something must be left to learn from."""
    if n_pairs_left == 0:
        raise DataError(
            f"Without query {name} there is no pair left to learn from: more queries with "
            "different labels are needed, or another kind of hold-out."
        )
