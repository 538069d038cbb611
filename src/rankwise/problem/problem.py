"""A ranking problem: its losses, the interfaces of its parts, and its memory."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Protocol, cast

import numpy as np

from rankwise.backends.arrays import NUMPY, Array, Backend, Index, Loader, backend_of, to_host
from rankwise.backends.parallel import blas_threads_for
from rankwise.errors import DataError, KernelSizeError
from rankwise.graph import PreferenceGraph
from rankwise.graph.preference_graph import ComparisonGraph, QueryGraph, pair_weight
from rankwise.graph.query_groups import QueryGroups, labels_differ, nothing_to_rank
from rankwise.solvers.ridge_path import CentredMoments, Moments, row_mean, solve_ridge_path
from rankwise.solvers.shifted_cg import PairProducts

COLUMN_VECTORS = 12  # in a linear fit
KEPT = 2**20  # numbers: largest coordinates of rows that a problem keeps


def fits(n_numbers: float, on: Backend = NUMPY) -> bool:
    """Whether this many numbers of float64 fit in memory; True if the memory is unknown."""
    available = _available_bytes(on)
    return available is None or 8 * n_numbers <= available


def check_fits(what: str, n_numbers: float, advice: str, on: Backend = NUMPY) -> None:
    """Raise an error if this many numbers of float64 do not fit in memory."""
    if not fits(n_numbers, on):
        available = (_available_bytes(on) or 0) / 2**30
        where = "this machine" if on.free_bytes() is None else "the device"
        raise KernelSizeError(
            f"{what} needs {8 * n_numbers / 2**30:.1f} GiB, but {where} has only {available:.1f} "
            f"GiB. {advice}"
        )


def check_kernel_fits(
    n_rows: int,
    on: Backend = NUMPY,
    advice: str = "Use SparseRankRLS, kernel='linear', or fewer rows.",
    n_matrices: float = 1.0,
) -> None:
    """Raise an error if kernel matrices of this many rows do not fit in memory."""
    others = " and its eigenvectors" if n_matrices > 1 else ""
    if not on.is_host:  # factorizations on a device need copies
        n_matrices, others = n_matrices + 2, " and its factors"
    most = int(((_available_bytes(on) or 0) / 8 / n_matrices) ** 0.5)
    what, advice = f"The kernel matrix of {n_rows} rows{others}", f"{advice} {most} rows would fit."
    check_fits(what, n_matrices * n_rows**2, advice, on)


def kernel_copies(X: Any, alphas: Sequence[float]) -> int:
    """Number of kernel matrices in memory; on a device, several alphas need a copy."""
    return 1 if backend_of(X).is_host or len(alphas) == 1 else 2


def check_columns_fit(X: Any) -> None:
    """Raise an error if vectors of a number per column of sparse rows do not fit in memory."""
    if not fits(COLUMN_VECTORS * X.shape[1]):
        n_used = len(np.unique(X.indices[X.data != 0]))
        check_fits(
            f"X has {X.shape[1]:,} columns: the weights and statistics of a linear fit",
            COLUMN_VECTORS * X.shape[1],
            f"{n_used:,} of the columns have values: keep these only, as in "
            "make_pipeline(rankwise.SeenFeatures(), ranker).",
        )


def check_dense_fits(X: Any, advice: str) -> None:
    """Raise an error if a dense copy of sparse rows does not fit in memory."""
    what = f"A dense copy of {X.shape[0]:,} sparse rows of {X.shape[1]:,} features"
    check_fits(what, X.shape[0] * X.shape[1], advice)


def check_features_fit(n_rows: int, n_features: int, on: Backend = NUMPY) -> None:
    """Raise an error if dense coordinates of this many rows do not fit in memory."""
    what = f"A matrix of the coordinates of {n_rows} rows on {n_features} landmarks"
    check_fits(what, n_rows * n_features, "Use fewer landmarks or rows.", on)


def _available_bytes(on: Backend) -> int | None:
    """The free memory of a device, or all memory of this machine; None if unknown."""
    free = on.free_bytes()
    if free is not None or not hasattr(os, "sysconf"):  # not on Windows
        return free
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@dataclass(frozen=True, eq=False)
class Task:
    """One least-squares system to solve: a preference graph and its target scores.

    `y` is None if the graph holds comparisons, which have margins instead.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise.problem import PairLoss
    >>> (task,) = PairLoss().tasks(np.array([0.0, 1.0, 1.0, 5.0]), ["a", "a", "a", "b"])
    >>> task.graph.n_pairs, task.y
    (3, array([0., 1., 1., 5.]))
    """

    graph: PreferenceGraph
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
    """Which errors a ranker minimizes.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise.problem import Loss, PairLoss, RowLoss
    >>> losses: list[Loss] = [PairLoss(), RowLoss()]
    >>> [loss.tasks(np.array([0.0, 1.0]), ["a", "b"])[0].graph.n_pairs for loss in losses]
    [0, 1]
    """

    @property
    def ties(self) -> str:
        """Whether pairs with equal scores count: "include" or "exclude"."""

    @property
    def weighting(self) -> str:
        """The weight of a pair: 1 ("pairs"), or 1 over the rows or the pairs of its query."""

    has_intercept: ClassVar[bool]

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
        return float(pair_weight(self.weighting, n_rows, n_pairs))


@dataclass(frozen=True)
class PairLoss(Loss):
    """Squared errors of differences, over pairs of rows of the same query.

    1/2 sum_ij W_ij ((y_i - y_j) - (f(x_i) - f(x_j)))^2: equation (7) of the RankRLS paper.

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

    def tasks(self, y: Array, qid: Any) -> list[Task]:
        """One task for all outputs or, if tied pairs are excluded, one for each output."""
        columns: list[tuple[Array | None, Array]] = [(None, y)]
        if self.ties == "exclude":
            columns = [(y, y)] if y.ndim == 1 else [(c, c[:, None]) for c in y.T]
        return [Task(self.graph(labels, qid, len(y)), targets) for labels, targets in columns]

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


@dataclass(frozen=True)
class RowLoss(Loss):
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


@dataclass(frozen=True, eq=False)
class Solution:
    """The weights of a ranker in its basis, and its intercept.

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> solution = RankRLS(1.0).fit([[0.0], [2.0]], [0, 1]).solution_
    >>> type(solution).__name__, solution.weights, solution.intercept
    ('Solution', array([0.33333333]), 0.0)
    """

    weights: Array
    intercept: Array | float


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Training rows as features, with the identity as regularizer, or as a kernel matrix.

    The linear kernel takes centred rows. For the scores of rows as they are, `shift` is added
    to each row of the kernel matrix: what it has in the other direction is the same for all rows,
    and dual weights sum to zero. `signs` are as in `Space`. `weights` maps weights of the features
    to weights in `basis`, as in `RowMatrix`; without a basis, only the space itself can solve.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise.problem import FeatureSpace, PairLoss, Problem
    >>> X, y, loss = np.array([[0.0], [1.0], [3.0]]), np.array([0.0, 2.0, 6.0]), PairLoss()
    >>> problem = Problem(X, loss.tasks(y, None), loss, FeatureSpace())
    >>> problem.coordinates().features.ravel()
    array([0., 1., 3.])
    """

    features: Any = None
    kernel: Array | None = None
    shift: Array | None = None
    signs: tuple[int, ...] | None = None
    basis: Basis | None = None
    weights: Callable[[Array], Array] = lambda w: w


@dataclass(frozen=True, eq=False)
class RowMatrix:
    """Rows as a matrix, and the space in which the same functions have the same norm on it.

    Attributes
    ----------
    matrix : array, sparse or tensor
        Features or a kernel matrix.
    space : Space
    basis : Basis or None
        The basis of the functions on the rows themselves; None: the basis of a fit to the matrix.
    weights : callable
        Maps weights of a fit to the matrix to weights in this basis.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise.problem import FeatureSpace
    >>> FeatureSpace().row_matrix(np.eye(2), None).space.solver
    'primal'
    """

    matrix: Any
    space: Space
    basis: Basis | None
    weights: Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class KernelSum:
    """f(x) = sum_i a_i k(x, p_i) - offset; `points` is None if the kernel is precomputed.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import RankRLS
    >>> ranker = RankRLS(1.0, kernel="rbf", scale=None).fit([[0.0], [1.0]], [0.0, 1.0])
    >>> ranker.basis_.expansion(ranker.solution_.weights).points.ravel()
    array([0., 1.])
    """

    kernel: Any
    points: Any
    weights: Array
    offset: Array | float = 0.0


class Basis(ABC):
    """The part of a fitted ranker that maps weights to scores.

    Class attributes declare what is true of all its functions.

    Examples
    --------
    >>> from rankwise.problem import Basis, FeatureBasis, KernelBasis
    >>> [(issubclass(each, Basis), each.linear) for each in (FeatureBasis, KernelBasis)]
    [(True, True), (True, False)]
    """

    #: Whether scores are products of the features, as they are, and the weights.
    linear: ClassVar[bool] = False
    #: Whether scores do not depend on the units of the features.
    scale_free: ClassVar[bool] = False
    #: Whether `feature`, `low` and `high` describe ramps of single features, on which it is linear.
    on_ramps: ClassVar[bool] = False

    @abstractmethod
    def products(self, X: Any, weights: Array) -> Any:
        """Scores of rows without the intercept, one column for each column of weights."""

    @abstractmethod
    def attributes(self, solution: Any) -> dict[str, Any]:
        """The fitted attributes of an estimator with this basis and solution."""

    def expansion(self, weights: Array) -> KernelSum | None:
        """The scores as a sum of kernel values, on the host; None if they are not."""
        return None

    def effects(self, X: Array, weights: Array) -> Array | None:
        """The part of each feature in each score, on the host; None if scores are no such sums."""
        return None


class Space(ABC):
    """A space of ranking functions, which solves a problem and prepares its rows for hold-outs.

    `solve` and `coordinates` are sufficient for fits, searches and exact hold-outs. Everything else
    declares a capability that the default does not have; what needs it refuses the space by name.

    Examples
    --------
    Linear functions of the squares of the features:

    >>> from dataclasses import replace
    >>> import numpy as np
    >>> from rankwise.problem import FeatureSpace, PairLoss, Problem, Space
    >>> class Squares(Space):
    ...     def solve(self, problem, alphas):
    ...         return FeatureSpace().solve(replace(problem, X=problem.X**2), alphas)
    ...
    ...     def coordinates(self, problem):
    ...         return FeatureSpace().coordinates(replace(problem, X=problem.X**2))
    >>> X, y, loss = np.array([[0.0], [1.0], [3.0]]), np.array([0.0, 2.0, 18.0]), PairLoss()
    >>> Problem(X, loss.tasks(y, None), loss, Squares()).solve([0.0]).solutions[0].weights.round(6)
    array([2.])

    A ranker that predicts needs a basis as well, which squares new rows. Put it into the fit.
    """

    #: Whether rows may be sparse; otherwise these are refused.
    takes_sparse: ClassVar[bool] = False
    #: Whether functions are linear in the features, as they are.
    linear: ClassVar[bool] = False
    #: Whether comparisons may have a context; needs `row_matrix` and `squared_distances`.
    takes_context: ClassVar[bool] = False
    #: Whether functions are expansions on landmarks, which its `choice` chooses among rows.
    has_landmarks: ClassVar[bool] = False
    #: What is computed from all rows and kept in hold-outs, as ("landmarks",); results show it.
    shared: ClassVar[tuple[str, ...]] = ()
    #: What is computed from all comparisons and kept if comparisons are held out.
    shared_by_comparisons: ClassVar[tuple[str, ...]] = ()
    #: Whether held-out rows stay, without labels: what all rows share is then theirs, too.
    keeps_rows: ClassVar[bool] = False
    #: Whether `hold_out_queries` replaces the general formulas, and alpha may be 0.
    has_own_hold_outs: ClassVar[bool] = False
    #: When conjugate gradients stop, for a space whose `form` may be "cg".
    tol: float = 1e-6
    max_iter: int = 1000
    #: The sign of each weight, or of the weights of each feature: 1, -1, or 0 for any. None: any
    #: for all. With signs, formulas of hold-outs hold only where the same weights are 0.
    signs: tuple[int, ...] | None = None

    @abstractmethod
    def solve(self, problem: Problem, alphas: Sequence[float]) -> Fit:
        """Solve every task for every alpha."""

    @abstractmethod
    def coordinates(self, problem: Problem) -> Coordinates:
        """The rows in the form that exact hold-outs need."""

    def form(self, X: Any) -> str:
        """What solves rows: an n by n matrix ("primal"), an m by m one ("dual"), or "cg"."""
        return "dual"

    def direct_form(self, X: Any) -> str:
        """The form for what needs a matrix, such as hold-outs: "primal" or "dual"."""
        return "dual"

    def matrix_rows(self, X: Any) -> int:
        """The number of rows of the largest square matrix in a solution."""
        return int(X.shape[0])

    def settled(self, problem: Problem) -> Space:
        """The same space with landmarks, if it has any, chosen: all solutions share them."""
        return self

    def for_rows(self, rows: Index, n_rows: int) -> Space:
        """The same space for some of the user's rows; landmarks keep their numbers."""
        return self

    def simplified(self, problem: Problem) -> Problem | None:
        """An equal problem on features, landmarks or a kernel; None: `coordinates` are needed."""
        return None

    def system(self, X: Any, qid: Any) -> System | None:
        """The system that solves these rows from sums over them; None if there is none."""
        return None

    @property
    def is_summable(self) -> bool:
        """Whether rows may come in blocks or be on several machines; needs `sums`."""
        return False

    def sums(self, n_features: int, landmarks: Any = None) -> System:
        """The system for rows that come in blocks, on these landmarks if it has any."""
        raise NotImplementedError(f"{type(self).__name__} has no sums over blocks of rows.")

    def products(
        self, X: Any, tasks: Sequence[Task], groups: QueryGroups | None = None
    ) -> PairProducts | None:
        """Products with X'LX for conjugate gradients, or None; see `PairProducts.of`."""
        return None

    def row_matrix(self, X: Any, qid: Any) -> RowMatrix | None:
        """Rows as features or a kernel matrix, in which functions keep their norm; or None."""
        return None

    def squared_distances(self, X: Any, first: Index, second: Index) -> Array:
        """Squared distances of pairs of rows, in the norm of the space."""
        raise NotImplementedError(f"{type(self).__name__} has no distances of rows.")

    def without_comparisons(self, problem: Problem) -> Callable[[Index], Array] | None:
        """How much more alpha penalizes each context column if comparisons are held out."""
        return None

    def hold_out_queries(
        self, problem: Problem, alphas: Sequence[float], folds: Sequence[Index]
    ) -> Array:
        """Predictions for folds of queries, shape (n_alphas, n_rows, n_outputs)."""
        raise NotImplementedError(f"{type(self).__name__} does not define hold-outs.")

    @property
    def labelled(self) -> Index | None:
        """The numbers of the problem's rows, if the user passed unlabelled rows as well."""
        return None

    def for_all_rows(self, values: Array) -> Array:
        """Values for the rows of the problem, which are the second axis, for all rows."""
        return values


class System(ABC):
    """A linear system whose moments are sums over blocks of rows.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise.problem import FeatureSpace, PairLoss, System
    >>> system: System = FeatureSpace().sums(n_features=1)
    >>> X, loss = np.array([[0.0], [1.0], [3.0]]), PairLoss()
    >>> moments = system.moments(X, loss.tasks(2.0 * X[:, 0], None)[0], loss)
    >>> system.solve([moments], alphas=[0.0])[0].weights.round(6)
    array([2.])
    """

    #: The basis of the solutions.
    basis: Basis

    @property
    @abstractmethod
    def n_coordinates(self) -> int:
        """The number of coordinates of a row."""

    @abstractmethod
    def moments(self, X: Any, task: Task, loss: Loss) -> Moments | CentredMoments:
        """Moments of a block of rows."""

    @abstractmethod
    def coordinates(self, X: Any) -> Loader:
        """A function that returns the coordinates of some rows of X, see `Coordinates.features`."""

    def coordinate_moments(self, moments: Any) -> Any:
        """Moments of the coordinates from summed moments, as new arrays of the same kind."""
        return replace(moments, A=backend_of(moments.A).copy(moments.A))

    def coordinate_weights(self, A: Array, b: Array, alphas: Sequence[float]) -> list[Array]:
        """The weights of the coordinates for each alpha, from their moments; A is overwritten."""
        return solve_ridge_path(A, b, alphas, gram=True)

    def weights(self, z: Array) -> Array:
        """Weights in the basis, given weights of the coordinates."""
        return z

    def solve(
        self, moments: Sequence[Moments | CentredMoments], alphas: Sequence[float]
    ) -> list[Solution]:
        """Solutions from the moments of each task, one for each alpha."""
        by_task = []
        for of_task in map(self.coordinate_moments, moments):
            found = self.coordinate_weights(of_task.A, of_task.b, alphas)
            by_task.append([Solution(self.weights(z), of_task.intercept(z)) for z in found])
        return join_tasks(by_task)


@dataclass(frozen=True, eq=False)
class Fit:
    """A basis, and a solution in it for each alpha.

    `residual` is None unless conjugate gradients stopped before their tolerance was reached: then
    it is the norm of the gradient, relative to its norm at 0, for the worst alpha. `n_iter` and
    `tol` are the number of steps, and this tolerance. A space that maps rows and lets another space
    solve returns ``replace(fit, basis=...)``, so that a warning about these steps is not lost.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise.problem import FeatureSpace, PairLoss, Problem
    >>> X, y, loss = np.array([[0.0], [1.0], [3.0]]), np.array([0.0, 2.0, 6.0]), PairLoss()
    >>> fit = Problem(X, loss.tasks(y, None), loss, FeatureSpace()).solve([0.0, 10.0])
    >>> fit.basis.products(X, fit.solutions[0].weights).round(6)
    array([0., 2., 6.])
    """

    basis: Any
    solutions: list[Any]
    residual: float | None = None
    n_iter: int = 0
    tol: float = 0.0


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
    _features: list[Coordinates] = field(default_factory=list, init=False, repr=False)
    _moments: list[Any] = field(default_factory=list, init=False, repr=False)

    @property
    def n_rows(self) -> int:
        """Number of training rows."""
        return int(self.X.shape[0])

    @cached_property
    def groups(self) -> QueryGroups:
        """The rows by query."""
        groups = self.tasks[0].graph.groups
        if groups is not None and not self.loss.has_intercept:
            return groups
        return QueryGroups.of(self.qid, self.n_rows)

    @property
    def has_comparisons(self) -> bool:
        """Whether the problem has comparisons in place of scores."""
        return self.tasks[0].y is None

    @property
    def comparisons(self) -> ComparisonGraph:
        """The graph of a problem with comparisons."""
        assert self.has_comparisons
        return cast(ComparisonGraph, self.tasks[0].graph)

    def settled(self) -> Problem:
        """The problem with landmarks, if it has any, chosen: all solutions share them."""
        with self.blas_threads():
            space = self.space.settled(self)
        return self if space is self.space else replace(self, space=space)

    def blas_threads(self) -> AbstractContextManager[None]:
        """As many threads of BLAS as the matrices of this problem need."""
        return blas_threads_for(self.space.matrix_rows(self.X))

    @property
    def row_weights(self) -> Array | None:
        """The weights of rows, as they were passed; None if they have none.

        With equal weights of queries, a graph divides them, which does not change its pairs.
        """
        groups = self.tasks[0].graph.groups
        return None if groups is None else groups.row_weights

    def solve(self, alphas: Sequence[float]) -> Fit:
        """Solve for every alpha."""
        with self._explained_memory(), self.blas_threads():
            if self._moments and self._features[0].basis is not None:
                return self._solve_features(self._features[0], alphas)
            return self.space.solve(self, alphas)

    def _solve_features(self, rows: Coordinates, alphas: Sequence[float]) -> Fit:
        """Solve from the moments of the coordinates, which hold-outs have summed."""
        by_task = []
        for of_task in self._moments:
            A = backend_of(of_task.A).copy(of_task.A)
            found = solve_ridge_path(A, of_task.b, alphas, gram=True)
            by_task.append([Solution(rows.weights(w), of_task.intercept(w)) for w in found])
        return Fit(rows.basis, join_tasks(by_task))

    def moments(self, system: System) -> list[Any]:
        """The moments of all rows for each task, which are not to be overwritten.

        They are summed once: the choice of alpha and the solution share them. Only the latest
        moments are kept.
        """
        if system not in self._sums:
            self._sums.clear()
            self._sums[system] = [system.moments(self.X, task, self.loss) for task in self.tasks]
        return self._sums[system]

    def last_moments(self, system: System) -> list[Any] | None:
        """The moments that were summed before, if any, to be overwritten: they are not kept."""
        return self._sums.pop(system, None)

    def coordinates(self) -> Coordinates:
        """The rows in the form that exact hold-outs need; few features are computed once."""
        if self._features:
            return self._features[0]
        with self._explained_memory(), self.blas_threads():
            found = self.space.coordinates(self)
        if found.kernel is None and found.features.shape[0] * found.features.shape[1] <= KEPT:
            self._features.append(found)
        return found

    def coordinate_moments(self) -> list[Any] | None:
        """The moments of the coordinates for each task, which are not to be overwritten.

        None if the coordinates are not a few features. They are summed once: the grid of alphas,
        hold-outs and the solution share them.
        """
        rows = self.coordinates()
        if not self._features or rows.signs is not None:
            return None
        if not self._moments:
            on, n = backend_of(rows.features), rows.features.shape[1]
            load = partial(on.rows, rows.features)
            self._moments.extend(self.loss.moments(load, n, task, on) for task in self.tasks)
        return self._moments

    @contextmanager
    def _explained_memory(self) -> Iterator[None]:
        """Name the space that needs too much memory, and what to do, in an error."""
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


def solutions_of(
    problem: Problem, basis: Basis, weights: Sequence[Sequence[Array]]
) -> list[Solution]:
    """Solutions for each alpha from the weights of each task and alpha.

    If the loss has an intercept, the mean of the scores of training rows becomes the mean of y;
    means are over rows with their weights.
    """
    by_task, on = [], backend_of(problem.X)
    for task, found in zip(problem.tasks, weights, strict=True):
        intercepts: list[Array | float] = [0.0] * len(found)
        if problem.loss.has_intercept and task.y is not None:
            scores = on.array(basis.products(problem.X, side_by_side(found)))
            means = row_mean(scores, task.row_weights).reshape(len(found), *found[0].shape[1:])
            y_mean = on.array(row_mean(task.y, task.row_weights))
            intercepts = [plain(y_mean - mean) for mean in means]
        by_task.append([Solution(w, b) for w, b in zip(found, intercepts, strict=True)])
    return join_tasks(by_task)


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
