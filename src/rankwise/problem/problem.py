"""A ranking problem, and the interfaces of its parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from rankwise.backends.arrays import Array, Loader
from rankwise.backends.dispatch import backend_of
from rankwise.errors import KernelSizeError
from rankwise.graph.query_graph import QueryGraph
from rankwise.graph.query_groups import QueryGroups
from rankwise.problem.loss import Loss, Task
from rankwise.solvers.moments import CentredMoments, Moments, row_mean


@dataclass(frozen=True, eq=False)
class Solution:
    """The weights of a ranker in its basis, and its intercept."""

    weights: Array
    intercept: Array | float


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Training rows as features, with the identity as regularizer, or as a kernel matrix.

    The linear kernel is that of centred rows. For the scores of rows as they are, `shift` is added
    to each row of the kernel matrix: what it has in the other direction is the same for all rows,
    and dual weights sum to zero.
    """

    features: Any = None
    kernel: Array | None = None
    shift: Array | None = None


class Basis(Protocol):
    """The part of a fitted ranker that maps weights to scores."""

    def products(self, X: Any, weights: Array) -> Any:
        """Scores of rows without the intercept, one column for each column of weights."""

    def attributes(self, solution: Any) -> dict[str, Any]:
        """The fitted attributes of an estimator with this basis and solution."""


class Space(Protocol):
    """A space of ranking functions, which solves a problem and prepares its rows for hold-outs.

    Class attributes say more about it:

    - ``takes_sparse = True`` if rows may be sparse; otherwise these are refused.
    - ``shared = ("landmarks",)`` names what is computed from all rows and kept in hold-outs;
      results show it.
    """

    def solve(self, problem: Problem, alphas: Sequence[float]) -> Fit:
        """Solve every task for every alpha."""

    def coordinates(self, problem: Problem) -> Coordinates:
        """The rows in the form that exact hold-outs need."""


class System(Protocol):
    """A linear system whose moments are sums over blocks of rows."""

    @property
    def basis(self) -> Basis:
        """The basis of the solutions."""

    @property
    def n_coordinates(self) -> int:
        """The number of coordinates of a row."""

    def moments(self, X: Any, task: Task, loss: Loss) -> Moments | CentredMoments:
        """Moments of a block of rows."""

    def solve(
        self, moments: Sequence[Moments | CentredMoments], alphas: Sequence[float]
    ) -> list[Solution]:
        """Solutions from the moments of each task, one for each alpha."""

    def coordinates(self, X: Any) -> Loader:
        """A function that returns the coordinates of some rows of X, see `Coordinates.features`."""

    def coordinate_moments(self, moments: Any) -> Any:
        """Moments of the coordinates from summed moments, as new arrays of the same kind."""


@dataclass(frozen=True, eq=False)
class Fit:
    """A basis, and a solution in it for each alpha.

    `residual` is None unless conjugate gradients stopped before their tolerance was reached: then
    it is the norm of the gradient, relative to that at 0, for the worst alpha.
    """

    basis: Any
    solutions: list[Any]
    residual: float | None = None


@dataclass(frozen=True, eq=False)
class Problem:
    """Training rows with a loss and a space.

    Attributes
    ----------
    X : array, sparse or tensor of shape (n_rows, n_features)
    tasks : list of Task
        From ``loss.tasks(y, qid)``, or one task of comparisons.
    loss : Loss
    space : Space
    qid : array of shape (n_rows,) or None

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise.problem import FeatureSpace, PairLoss, Problem
    >>> X, y, loss = np.array([[0.0], [1.0], [3.0]]), np.array([0.0, 2.0, 6.0]), PairLoss()
    >>> fit = Problem(X, loss.tasks(y, None), loss, FeatureSpace()).solve([0.0])
    >>> fit.solutions[0].weights.round(6)
    array([2.])
    """

    X: Any
    tasks: list[Task]
    loss: Loss
    space: Space
    qid: Any = None
    _sums: dict[System, list[Any]] = field(default_factory=dict, init=False, repr=False)

    @property
    def n_rows(self) -> int:
        """Number of training rows."""
        return int(self.X.shape[0])

    @cached_property
    def groups(self) -> QueryGroups:
        """The rows by query."""
        graph = self.tasks[0].graph
        if isinstance(graph, QueryGraph) and not self.loss.has_intercept:
            return graph.groups
        return QueryGroups.of(self.qid, self.n_rows)

    @property
    def row_weights(self) -> Array | None:
        """The weights of rows; None if they have none."""
        return self.tasks[0].row_weights

    def solve(self, alphas: Sequence[float]) -> Fit:
        """Solve for every alpha."""
        with self._explained_memory():
            return self.space.solve(self, alphas)

    def moments(self, system: System) -> list[Any]:
        """The moments of all rows for each task, which are not to be overwritten.

        They are summed once: the choice of alpha and the solution share them. Only those of the
        latest system are kept.
        """
        if system not in self._sums:
            self._sums.clear()
            self._sums[system] = [system.moments(self.X, task, self.loss) for task in self.tasks]
        return self._sums[system]

    def coordinates(self) -> Coordinates:
        """The rows in the form that exact hold-outs need."""
        with self._explained_memory():
            return self.space.coordinates(self)

    @contextmanager
    def _explained_memory(self) -> Iterator[None]:
        """Name the space that needs too much memory, in an error that says what to do."""
        try:
            yield
        except KernelSizeError:
            raise
        except MemoryError as error:
            raise KernelSizeError(
                f"{type(self.space).__name__} needs more memory than there is for "
                f"{self.n_rows:,} rows of {self.X.shape[1]:,} features: {error}. Use fewer rows or "
                "features, or RankRLS, which takes many sparse features."
            ) from error


def with_intercepts(
    loss: Loss, weights: Sequence[Array], scores: Callable[[Array], Array], task: Task
) -> list[Solution]:
    """The weights for each alpha, with an intercept if the loss has one.

    ``scores(columns)`` returns the scores of training rows for each column of weights. Their mean
    becomes that of y; means are over rows with their weights.
    """
    if not loss.has_intercept or task.y is None:
        return [Solution(w, 0.0) for w in weights]
    found = scores(side_by_side(weights))
    means = row_mean(backend_of(found).array(found), task.row_weights)
    means = means.reshape(len(weights), *weights[0].shape[1:])
    y_mean = backend_of(means).array(row_mean(task.y, task.row_weights))
    return [Solution(w, plain(y_mean - m)) for w, m in zip(weights, means, strict=True)]


def join_tasks(by_task: Sequence[Sequence[Solution]]) -> list[Solution]:
    """Combine solutions, one list for each task, into one list of solutions for all outputs."""
    return [_join(parts) for parts in zip(*by_task, strict=True)]


def side_by_side(weights: Sequence[Array]) -> Array:
    """The columns of several arrays of weights as one matrix."""
    columns: Array = backend_of(weights[0]).xp.hstack([w.reshape(len(w), -1) for w in weights])
    return columns


def plain(value: Array) -> Array | float:
    """A float for a single output, an array for several."""
    return float(value) if value.ndim == 0 else value


def _join(parts: Sequence[Solution]) -> Solution:
    if len(parts) == 1:
        return parts[0]
    on = backend_of(parts[0].weights)
    weights = on.xp.column_stack([part.weights for part in parts])
    return Solution(weights, on.array([float(part.intercept) for part in parts]))
