"""A problem from which rows will be held out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from rankwise.backends.arrays import Array, as_given, backend_of, is_sent, to_host
from rankwise.errors import DataError
from rankwise.graph import QueryGroups
from rankwise.graph.preference_graph import QueryGraph
from rankwise.holdout.rounding import explained_rounding as explained_rounding
from rankwise.kernels import Precomputed
from rankwise.problem import (
    Coordinates,
    FeatureSpace,
    KernelSpace,
    Loss,
    Problem,
)
from rankwise.scaling import Scaling

LARGEST = 1e70  # its fourth power does not overflow
LEAST = 1e-300  # smallest quotient of labels and alphas


@dataclass(frozen=True, eq=False)
class HoldOutProblem:
    """A ranking problem, and the alphas for which rows are held out.

    `y` has a column for each output; `n_outputs` is None if the labels are a vector. `scaling` is
    what was done to the rows of the problem, and `kept` names what else was computed from all rows
    and stays the same in every hold-out (see `HeldOutScores.shared`).
    """

    problem: Problem
    alphas: Array
    y: Array
    n_outputs: int | None
    scaling: Scaling | None = None
    kept: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        problem: Problem,
        alphas: Array,
        scaling: Scaling | None = None,
        kept: tuple[str, ...] = (),
    ) -> HoldOutProblem:
        """A problem of scored rows or of comparisons, whose values must not overflow in products.

        The labels `y` of comparisons are their margins.
        """
        targets = [task.y for task in problem.tasks if task.y is not None]
        targets = [problem.comparisons.margin] if problem.has_comparisons else targets
        columns = backend_of(targets[0]).xp.column_stack(targets)
        n_outputs = None if targets[0].ndim == 1 else columns.shape[1]
        largest, most = largest_size(columns), float(alphas.max(initial=0.0))
        if max(largest_size(as_given(problem.X)), largest) > LARGEST:
            raise DataError(
                f"Products of values above {LARGEST:g} overflow. Scale the features and labels."
            )
        if 0.0 < largest < LEAST * most:
            raise DataError(
                f"Labels of at most {largest:.0e} divided by an alpha of {most:.0e} "
                "underflow. Scale the labels, or use a smaller alpha."
            )
        return cls(problem, alphas, columns, n_outputs, scaling, kept)

    def shared(self, *, scaling: bool) -> tuple[str, ...]:
        """What was computed from all rows; `scaling`: whether that includes the scaling."""
        return self.kept if not scaling or self.scaling is None else with_scaling(self.kept)

    @property
    def lams(self) -> list[float]:
        """The alphas as a list of floats, for the array functions."""
        return [float(alpha) for alpha in self.alphas]

    @property
    def loss(self) -> Loss:
        """Which errors the ranker minimizes."""
        return self.problem.loss

    @property
    def groups(self) -> QueryGroups:
        """The rows by query."""
        return self.problem.groups

    @property
    def n_tasks(self) -> int:
        """One system for all outputs, or one for each."""
        return len(self.problem.tasks)

    @cached_property
    def coordinates(self) -> Coordinates:
        """The rows as features or as a kernel matrix, on their backend."""
        found = self.problem.coordinates()
        if not is_sent(found.features):
            return found
        return Coordinates(features=backend_of(found.features).rows(found.features, slice(None)))

    def graph(self, task: int) -> QueryGraph:
        """The graph of a task."""
        return cast(QueryGraph, self.problem.tasks[task].graph)

    def columns(self, task: int) -> slice:
        """The outputs of a task."""
        return slice(None) if self.n_tasks == 1 else slice(task, task + 1)

    def targets(self, task: int) -> Array:
        """The columns of y of a task."""
        return backend_of(self.y).contiguous(self.y[:, self.columns(task)])

    @cached_property
    def labels(self) -> Array:
        """y as a NumPy array, for ties and metrics."""
        return np.asarray(to_host(self.y))

    def returned(self, values: Array) -> Array:
        """Values as NumPy arrays if the rows of the user are, and on their device otherwise."""
        return np.asarray(to_host(values)) if is_sent(self.problem.X) else values

    def by_output(self, values: Array) -> Array:
        """Values without their last axis, the axis of outputs, if y is a vector."""
        return values[..., 0] if self.n_outputs is None else values


def with_scaling(kept: tuple[str, ...]) -> tuple[str, ...]:
    """What was computed from all rows, and the scaling, which includes its choice."""
    return ("scaling", *(word for word in kept if word != "choice of scaling"))


def largest_size(values: Any) -> float:
    """The largest absolute value, without an array of absolute values."""
    return max(float(values.max()), -float(values.min()))


def plain_problem(problem: Problem) -> Problem:
    """The same problem on features, on landmarks or with a kernel.

    Hold-outs have fast ways for these three spaces. All others have coordinates of their rows.
    """
    found = problem.space.simplified(problem)
    return on_coordinates(problem, problem.coordinates()) if found is None else found


def on_coordinates(problem: Problem, rows: Coordinates) -> Problem:
    """The same problem on the coordinates of its rows."""
    if rows.kernel is not None:
        return replace(problem, X=rows.kernel, space=KernelSpace(Precomputed()))
    return replace(problem, X=rows.features, space=FeatureSpace("primal"))
