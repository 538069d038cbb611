"""The choice of alpha: a plan that fits a budget of time, a hold-out, and the best alpha.

What is held out depends on the problem:

- single comparisons, or their groups, if the problem has comparisons;
- whole queries, if at least two of them have different labels;
- pairs of rows, if there is one ranking; single rows, for a regression;
- parts of the rows in these two cases, if rows have weights or weights of features have signs;
- folds of queries, or parts of the rows or of the comparisons, with conjugate gradients.

If this would take longer than one fit and 0.3 seconds, folds of a sample of queries (or rows) are
held out instead. The sample depends on the query ids, not on their order.

The rows of a stream or a cluster come in blocks: alpha is chosen from moments of folds of whole
queries, or by conjugate gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from rankwise.backends.arrays import NUMPY, Array, Index, as_given, backend_of, is_sparse, to_host
from rankwise.errors import DataError
from rankwise.graph.query_groups import QueryGroups
from rankwise.holdout.engine import CHOICE_STEPS, CHOICE_TOL, hold_out, strength
from rankwise.holdout.hold_out_problem import (
    ComparisonFolds,
    HoldOutProblem,
    Pairs,
    Plan,
    Queries,
    Rows,
    alphas_compared,
    on_coordinates,
    plain_problem,
    target_columns,
)
from rankwise.holdout.scores import HeldOutScores, logistic_slope, score_predictions
from rankwise.metric_names import default_metric
from rankwise.problem import Coordinates, Loss, Problem, System, Task
from rankwise.problem.block_sums import (
    BlockProducts,
    Folds,
    FoldSum,
    check_new_queries,
    query_hash,
    rows_of,
    total_of,
)
from rankwise.problem.problem import KEPT
from rankwise.solvers.ridge_path import CentredMoments, Moments
from rankwise.solvers.shifted_cg import is_solved, pair_squares, shifted_cg

SECONDS = 0.3  # a choice may always take this long
FLOPS, SMALL_FLOPS, CALL = 2e10, 4e9, 4e-5  # speed of large and of small systems; time of a call
KERNEL_ROWS = 600  # of a kernel matrix: if there are more, a sample of rows is held out
STORED = 2 * 10**7  # numbers: largest coordinates that are stored
PAIR_ROWS = 600  # rows among which pairs are held out
COMPARISONS = 20_000  # that are held out
SAMPLE_ROWS, SAMPLE_SHARE = 10_000, 0.1  # rows in the folds of a sample: the larger of the two
FEWEST_FOLDS, MOST_FOLDS = 3, 10
PART = 0.2  # share of the rows that are held out together
KERNEL_SHARE = 0.3  # of the rows of a kernel matrix in a sample
N_ALPHAS = 12  # of a typical grid
FEWEST_ROWS = 4

Mask: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class AlphaChoice:
    """An alpha, and the held-out scores of the alphas from which it was chosen.

    `curve` is None if nothing could be held out, and alpha follows a rule. `by_query` has the
    metric of every held-out query at the chosen alpha, if whole queries were held out.
    """

    alpha: float
    curve: HeldOutScores | None
    by_query: Array | None = None


class AlphaPlan(NamedTuple):
    """What is held out, how it is scored, and whether the coordinates of all rows are stored."""

    plan: Plan
    metric: str
    stored: bool


def choose_alpha(problem: Problem, *, by_query: bool = False) -> AlphaChoice:
    """Choose alpha by hold-outs, or by a rule if nothing can be held out.

    With `by_query`, the choice includes the metric of every held-out query.

    The landmarks of the problem must be chosen; see `Problem.settled`.
    """
    overflow = np.errstate(over="ignore", invalid="ignore")  # the solver checks for it
    with alphas_compared(), overflow, problem.blas_threads():
        try:
            problem = plain_problem(problem)
            chosen = alpha_plan(problem)
            if chosen is not None:
                held = _held_out(problem, chosen)
                curve: HeldOutScores = held.score(chosen.metric)
                values = None
                if by_query and isinstance(chosen.plan, Queries) and chosen.plan.whole_queries:
                    values = held.values(chosen.metric, curve.best_index)
                return AlphaChoice(curve.best_alpha, curve, values)
        except (DataError, np.linalg.LinAlgError):  # nothing to learn from, or overflow
            pass
        return AlphaChoice(alpha_by_rule(data_squares(problem), problem.n_rows), None)


def _held_out(problem: Problem, chosen: AlphaPlan) -> Any:
    """What a plan holds out, for a grid of alphas.

    A kernel that is not positive semidefinite has no minimum at small alphas, so these are left
    out.
    """
    is_kernel = False
    if chosen.stored:
        rows = problem.coordinates()
        is_kernel = rows.kernel is not None
        squares = coordinate_squares(problem.tasks, rows)
        alphas = alpha_grid(squares, problem.n_rows, KERNEL_STEP if is_kernel else STEP)
        problem = on_coordinates(problem, rows)
    else:
        system = problem.space.system(problem.X, problem.qid)
        if system is not None:  # from the sums, which the folds need as well
            alphas = summed_alphas(system, problem.moments(system), problem.n_rows)
        else:
            alphas = data_alphas(problem)
    while True:
        try:
            return hold_out(HoldOutProblem.of(problem, alphas), chosen.plan)
        except (DataError, np.linalg.LinAlgError):
            if not is_kernel or len(alphas) < 3:
                raise
            alphas = alphas[len(alphas) // 2 :]


def alpha_plan(problem: Problem) -> AlphaPlan | None:
    """The plan by which alpha is chosen; None if nothing can be held out."""
    if problem.has_comparisons:
        return _comparison_plan(problem)
    return RowBudget(problem).plan()


def _comparison_plan(problem: Problem) -> AlphaPlan | None:
    """By the squared error of margins: the share of wrong winners is the same for many alphas."""
    graph = problem.comparisons
    margin = graph.margin.reshape(len(graph.margin), -1)
    decided = (graph.weight > 0) & (margin != 0).all(axis=1)
    if np.count_nonzero(decided) < FEWEST_ROWS:
        return None
    return AlphaPlan(comparisons_within_budget(problem, N_ALPHAS), "squared_error", False)


def comparisons_within_budget(problem: Problem, n_alphas: int) -> ComparisonFolds:
    """At most COMPARISONS of the comparisons with a weight, or of their groups.

    If holding out every group would take much longer than a fit, folds of groups are held out. With
    a large kernel matrix or conjugate gradients, a fifth of the comparisons or groups is held out
    at once.
    """
    graph, system = problem.comparisons, problem.space.system(problem.X, problem.qid)
    codes, counted = graph.group_of_pair, graph.weight > 0
    numbers, step = np.flatnonzero(counted), round(1 / PART)
    fold = np.full(len(counted), -1)
    by_steps = problem.space.form(problem.X) == "cg"
    if by_steps or (system is None and problem.n_rows > KERNEL_ROWS):
        if codes is None:
            fold[_evenly(numbers, COMPARISONS)[::step]] = 0
        else:
            fold[np.isin(codes, np.unique(codes[counted])[::step])] = 0
        return ComparisonFolds(fold, refit=True)
    if codes is None:
        return ComparisonFolds(only=_evenly(numbers, COMPARISONS))
    groups = _evenly(np.unique(codes[numbers]), COMPARISONS)
    d = min(len(counted), problem.n_rows if system is None else system.n_coordinates)
    sizes = np.bincount(codes)[groups].astype(float)
    flops = n_alphas * 2.0 * sizes**2 * np.minimum(sizes, d) + 8.0 * np.where(sizes > d, d**3, 0.0)
    fit = 2.0 * (len(codes) + d) * d**2 / FLOPS
    of_group = np.full(int(codes.max()) + 1, -1)
    of_group[groups] = groups
    if len(groups) * CALL + flops.sum() / SMALL_FLOPS > max(SECONDS, fit):
        of_group[groups] = np.arange(len(groups)) % min(MOST_FOLDS, len(groups))
    return ComparisonFolds(of_group[codes])


def preference_slope(problem: Problem, lam: float, *, kernels: bool) -> float | None:
    """a of P(first wins) = 1 / (1 + exp(-a (f(first) - f(second)))): Platt's logistic function.

    None if it costs too much, or if exact hold-outs are not possible.

    Every difference comes from the fit without the comparison or, with groups, without its
    group or fold of groups, on at most COMPARISONS of them. With features and landmarks, it costs
    about as much as a fit. A kernel matrix needs an eigendecomposition: only with `kernels`, and up
    to KERNEL_ROWS rows.
    """
    graph = problem.comparisons
    if graph.margin.ndim > 1 or np.count_nonzero(graph.weight > 0) < 2:
        return None
    problem = plain_problem(problem)
    no_sums = problem.space.form(problem.X) == "dual"
    if no_sums and not (kernels and problem.n_rows <= KERNEL_ROWS):
        return None
    try:
        plan = comparisons_within_budget(problem, 1)
        held = hold_out(HoldOutProblem.of(problem, np.array([lam])), plan).counted()
    except (DataError, np.linalg.LinAlgError):  # too small a lam, or an indefinite kernel
        return None
    return logistic_slope(held.predictions[0, :, 0], held.observed.margin, held.observed.weight)


@dataclass(frozen=True, eq=False)
class RowBudget:
    """A problem of scored rows, and what can be held out of it in the time of a fit."""

    problem: Problem

    def plan(self) -> AlphaPlan | None:
        """The plan that fits the budget."""
        usable = self._usable_queries()
        if usable.sum(axis=1).min() >= 2:
            return self._query_plan(np.asarray(usable.any(axis=0)))
        if self.problem.n_rows < FEWEST_ROWS:
            return None
        if self.problem.loss.has_intercept:
            return self._row_plan()
        return self._pair_plan()

    def _query_plan(self, usable: Mask) -> AlphaPlan:
        metric = default_metric(self.labels, self.problem.groups.n_groups)
        is_kernel = self.system is None
        if self.by_steps:
            folds = self._query_folds(usable, FEWEST_FOLDS)
            return AlphaPlan(Queries(folds, sampled=True), metric, False)
        if self.problem.row_weights is not None and self.problem.loss.has_intercept:
            folds = self._query_folds(usable, round(1 / PART))[: self.n_parts]
            return AlphaPlan(Queries(folds), metric, is_kernel)
        if self.system is None:
            if self.problem.n_rows <= KERNEL_ROWS:
                return AlphaPlan(Queries(), metric, True)
            order, sizes = self._query_order(usable), self.problem.groups.sizes
            wanted = KERNEL_SHARE * self.problem.n_rows
            return AlphaPlan(Queries(only=_leading(order, sizes[order], wanted)), metric, True)
        if self._leave_query_out_seconds() > max(SECONDS, self.fit_seconds):
            folds = self._query_folds(usable, self.n_folds)
            return AlphaPlan(Queries(folds, sampled=True), metric, False)
        return AlphaPlan(Queries(), metric, True)

    def _row_plan(self) -> AlphaPlan | None:
        """Single rows of a regression."""
        if self.by_steps:
            if self._is_constant:
                return None
            folds = row_parts(self.labels)[:FEWEST_FOLDS]
            return AlphaPlan(Rows(folds, sampled=True), "squared_error", False)
        if self.problem.row_weights is not None:
            return self._part_plan("squared_error")
        return self._in_one_ranking("squared_error")

    def _pair_plan(self) -> AlphaPlan | None:
        """Pairs of one ranking."""
        m, weighted = self.problem.n_rows, self.problem.row_weights is not None
        weighted = weighted or self.problem.space.signs is not None
        if self._is_constant:
            return None
        if self.problem.groups.n_groups > 1:  # only one query can be evaluated
            if self.by_steps or m > PAIR_ROWS or weighted:
                return None
            return AlphaPlan(Pairs(None, keep_ties=False), "disagreement", True)
        if self.by_steps:
            folds = row_parts(self.labels)[:FEWEST_FOLDS]
            return AlphaPlan(Rows(folds, sampled=True), "disagreement", False)
        if weighted:
            return self._part_plan("disagreement")
        n_levels = max(len(np.unique(column)) for column in self.labels.T)
        distinct = min(len(np.unique(column)) for column in self.labels.T) == m
        if self.problem.loss.ties == "include" or distinct:
            return self._in_one_ranking("disagreement")
        if self.system is None or m * self.n_coordinates <= STORED:
            systems = len(self.problem.tasks) * N_ALPHAS * n_levels * (n_levels - 1) / 2
            d = m if self.system is None else min(m, self.n_coordinates + n_levels)
            seconds = systems * (CALL * 25 + 3.0 * m * d**2 / FLOPS)
            if seconds <= max(SECONDS, self.fit_seconds):
                return AlphaPlan(Pairs(None, keep_ties=False), "disagreement", True)
        return self._part_plan("disagreement")

    def _part_plan(self, metric: str) -> AlphaPlan:
        """Parts of the rows, with a fit to the others for each."""
        parts = row_parts(self.labels)[: self.n_parts]
        return AlphaPlan(Rows(parts), metric, self.system is None)

    def _in_one_ranking(self, metric: str) -> AlphaPlan:
        """Pairs or rows of one ranking of all rows, all of whose pairs count."""
        m, n = self.problem.n_rows, self.n_coordinates
        if self.system is not None and m * n > STORED:
            sample = spread_rows(self.labels, int(max(SAMPLE_ROWS, SAMPLE_SHARE * m)))
            folds = [sample[k :: self.n_folds] for k in range(self.n_folds)]
            return AlphaPlan(Rows(folds, sampled=True), metric, False)
        number = PAIR_ROWS
        if self.system is None and m > KERNEL_ROWS:
            number = min(PAIR_ROWS, int(KERNEL_SHARE * m))
        some = spread_rows(self.labels, number)
        plan = Rows(only=some) if metric == "squared_error" else Pairs(None, False, among=some)
        return AlphaPlan(plan, metric, self.system is None)

    @cached_property
    def labels(self) -> Array:
        """With a column for each output, as a NumPy array."""
        return np.asarray(to_host(target_columns(self.problem)))

    @cached_property
    def system(self) -> System | None:
        """The sums from which the problem is solved; None if it needs a kernel matrix."""
        return self.problem.space.system(self.problem.X, self.problem.qid)

    @property
    def by_steps(self) -> bool:
        """Whether the problem is solved by conjugate gradients."""
        return self.problem.space.form(self.problem.X) == "cg"

    @property
    def _is_constant(self) -> bool:
        return bool((self.labels.min(axis=0) == self.labels.max(axis=0)).any())

    @property
    def n_coordinates(self) -> int:
        return self.problem.n_rows if self.system is None else self.system.n_coordinates

    @property
    def fit_seconds(self) -> float:
        """Roughly how long a fit takes."""
        n = self.n_coordinates
        return len(self.problem.tasks) * (self.problem.n_rows + n) * n**2 / FLOPS

    @property
    def n_parts(self) -> int:
        """The number of parts of the rows that can be held out, one after the other."""
        systems = len(self.problem.tasks) * self.n_coordinates**3 / SMALL_FLOPS
        return int(np.clip(SECONDS / (2.0 * self.fit_seconds + systems), 1, round(1 / PART)))

    @property
    def n_folds(self) -> int:
        """As many folds as can be solved in the time of a fit."""
        seconds = len(self.problem.tasks) * 4.0 * self.n_coordinates**3 / FLOPS + 1e-3
        affordable = max(SECONDS, self.fit_seconds) / seconds
        return int(np.clip(affordable, FEWEST_FOLDS, MOST_FOLDS))

    def _leave_query_out_seconds(self) -> float:
        n, sizes = self.n_coordinates, self.problem.groups.sizes.astype(float)
        if sizes.max() < n:
            flops = 2.0 * sizes**2 * n + sizes**3
        else:
            flops = np.full(len(sizes), 0.7 * n**3)
        systems = len(self.problem.tasks) * N_ALPHAS * (CALL + flops / SMALL_FLOPS)
        return float(systems.sum())

    def _usable_queries(self) -> Mask:
        """Whether each query has different labels, shape (n_outputs, n_queries)."""
        groups = self.problem.groups
        ordered, starts = self.labels[groups.order], groups.indptr[:-1]
        lowest, highest = (end.reduceat(ordered, starts) for end in (np.minimum, np.maximum))
        return np.asarray(lowest < highest).T

    def _query_order(self, usable: Mask) -> Index:
        """The numbers of the usable queries, in an order that depends only on the query ids."""
        names, numbers = self.problem.groups.names.tolist(), np.flatnonzero(usable).tolist()
        return np.array(sorted(numbers, key=lambda q: query_hash(names[q])), dtype=np.intp)

    def _query_folds(self, usable: Mask, n_folds: int) -> list[Index]:
        """Folds of a sample of queries; the others are always training rows."""
        groups, order = self.problem.groups, self._query_order(usable)
        wanted = max(SAMPLE_ROWS, SAMPLE_SHARE * self.problem.n_rows)
        order = _leading(order, groups.sizes[order], wanted)
        rows = [groups.order[groups.indptr[q] : groups.indptr[q + 1]] for q in order]
        n_folds = min(n_folds, len(rows))
        return [np.sort(np.concatenate(rows[k::n_folds])) for k in range(n_folds)]


def _leading(order: Index, sizes: Index, wanted: float) -> Index:
    """Queries with this many rows in all, and at least two of them."""
    before = np.cumsum(sizes) - sizes
    return order[: max(2, int(np.count_nonzero(before < wanted)))]


def spread_rows(labels: Array, number: int) -> Index:
    """At most this many rows, evenly spaced in the order of the (first) labels."""
    return np.sort(_evenly(np.argsort(labels[:, 0], kind="stable"), number))


def row_parts(labels: Array) -> list[Index]:
    """Parts of at least two rows each, evenly spaced in the order of the (first) labels."""
    order = np.argsort(labels[:, 0], kind="stable")
    n_parts = min(round(1 / PART), len(order) // 2)
    return [np.sort(order[k::n_parts]) for k in range(n_parts)]


def _evenly(numbers: Index, most: int) -> Index:
    """At most this many of the numbers, evenly spaced."""
    kept = np.linspace(0, len(numbers) - 1, min(most, len(numbers))).round().astype(np.intp)
    return numbers[kept]


HIGHEST, LOWEST = 1e2, 1e-6  # relative to the mean square of a coordinate
STEP, KERNEL_STEP = 10.0**0.75, 10.0  # with a kernel matrix, each alpha costs a factorization
UNEVEN = 0.1  # share of the mean below which the median decides where the grid starts
LEAST = 1e-12  # relative to the sum of squares: smaller alphas are lost in rounding errors
RULE = 0.1  # relative to the mean square, where nothing can be held out
BLOCK_ROWS = 4096


def alpha_grid(squares: Array, n_rows: int, step: float = STEP) -> Array:
    """Ascending alphas from the diagonal of A = F'LF, or of the kernel matrix R K R'.

    The grid has a constant ratio and ends at 100 times the mean of the diagonal. It starts at 1e-6
    times the mean or at the first value below (10^-6.25 for the usual step). If the median is below
    a tenth of the mean, because some features have much larger values than others, the median
    takes the place of the mean there. Multiplying the features by c multiplies the grid by c^2.
    """
    mean = mean_square(squares, n_rows)
    if mean == 0.0:
        return np.array([1.0])
    if not np.isfinite(HIGHEST * mean):
        raise DataError(
            "Products of feature or kernel values overflow. Scale the features or the weights, for "
            "example with sklearn.preprocessing.StandardScaler."
        )
    typical = float(np.median(squares[squares > 0]))
    typical = typical if typical < UNEVEN * mean else mean
    low = max(LOWEST * typical, LEAST * float(squares.sum()))
    if low < np.finfo(np.float64).tiny:
        raise DataError(
            "Products of feature or kernel values underflow: multiply the features by a constant."
        )
    number = 1 + int(np.ceil(np.log(HIGHEST * mean / low) / np.log(step) - 1e-9))
    return HIGHEST * mean * step ** -np.arange(number, dtype=np.float64)[::-1]


def alpha_by_rule(squares: Array, n_rows: int) -> float:
    """0.1 times the mean of the diagonal; 1 if the features are constant or overflow."""
    alpha = RULE * mean_square(squares, n_rows)
    return alpha if 0.0 < alpha < np.inf else 1.0


def mean_square(squares: Array, n_rows: int) -> float:
    """The sum of the diagonal, divided by the number of coordinates or of rows, if fewer."""
    return float(squares.sum()) / min(len(squares), n_rows)


def data_alphas(problem: Problem) -> Array:
    """The grid for a problem, with larger steps for a kernel matrix."""
    dual = problem.space.form(problem.X) == "dual"
    return alpha_grid(data_squares(problem), problem.n_rows, KERNEL_STEP if dual else STEP)


def data_squares(problem: Problem) -> Array:
    """The diagonal of A or of R K R', averaged over tasks, in the coordinates of a problem."""
    system = problem.space.system(problem.X, problem.qid)
    few = system is not None and problem.n_rows * system.n_coordinates <= KEPT
    if system is not None and (problem.has_comparisons or not few):
        # Without the coordinates of all rows.
        return moment_squares(system, problem.moments(system))
    if problem.space.form(problem.X) == "cg":
        if is_sparse(as_given(problem.X)):
            found = [pair_squares(problem.X, task.graph) for task in problem.tasks]
            return np.asarray(np.mean(found, axis=0))
        return coordinate_squares(problem.tasks, Coordinates(features=problem.X))
    moments = problem.coordinate_moments()
    if moments is not None:
        return mean_diagonal(moments)
    return coordinate_squares(problem.tasks, problem.coordinates(), overwrite=True)


def coordinate_squares(
    tasks: Sequence[Task], rows: Coordinates, *, overwrite: bool = False
) -> Array:
    """`data_squares` from coordinates; a kernel matrix may be overwritten."""
    keep = len(tasks) > 1 or not overwrite
    return np.asarray(np.mean([_squares(task, rows, keep=keep) for task in tasks], axis=0))


def moment_squares(system: System, moments: Sequence[Moments | CentredMoments]) -> Array:
    """`data_squares` from the moments of each task."""
    return mean_diagonal([system.coordinate_moments(one) for one in moments])


def mean_diagonal(moments: Sequence[Moments | CentredMoments]) -> Array:
    """The diagonal of A, averaged over tasks."""
    return np.asarray(np.mean([to_host(one.A.diagonal()) for one in moments], axis=0))


def _squares(task: Task, rows: Coordinates, *, keep: bool) -> Array:
    if rows.kernel is not None:
        K = backend_of(rows.kernel).copy(rows.kernel) if keep else rows.kernel
        M = task.graph.root_kernel(K)
        return np.asarray(to_host(M.diagonal())).copy()
    F, on = rows.features, backend_of(rows.features)
    total = on.zeros(F.shape[1])
    for Z, _ in task.graph.root_blocks(lambda part: on.rows(F, part), task.y, BLOCK_ROWS):
        total = total + (Z**2).sum(axis=0)
    return np.asarray(to_host(total))


def summed_alphas(
    system: System, moments: Sequence[Moments | CentredMoments], n_rows: int
) -> Array:
    """The grid for the moments of all rows, one entry for each task."""
    return alpha_grid(moment_squares(system, moments), n_rows)


def choose_from_folds(
    system: System,
    moments: Sequence[Moments | CentredMoments],
    folds: Folds | None,
    loss: Loss,
    n_rows: int,
) -> AlphaChoice:
    """Choose alpha by the squared error of the pairs of each fold, from the other folds.

    For weights w, this error is w'A w - 2 w'b + y'Ly with the moments of the fold. It is given
    relative to y'Ly, the error of equal scores. If there are fewer than two folds with pairs, alpha
    follows a rule.

    Parameters
    ----------
    system : System
    moments : list of Moments or CentredMoments
        The moments of all rows, for each task.
    folds : list of FoldSum, or None
        For one ranking, moments of a regression (see `fold_loss`).
    loss : Loss
        The loss of the ranker.
    n_rows : int
    """
    squares = moment_squares(system, moments)
    used = [k for k, fold in enumerate(folds or []) if fold is not None and _has_pairs(fold)]
    if len(used) < 2 or not np.isfinite(squares).all():
        return AlphaChoice(alpha_by_rule(squares, n_rows), None)
    assert folds is not None
    alphas = alpha_grid(squares, n_rows)
    errors, equal = zip(*(_fold_errors(system, folds, k, loss, alphas) for k in used), strict=True)
    error, total = np.array(errors), np.array(equal)  # (n_folds, n_alphas, n_outputs), (n_folds, .)
    score = error.sum(axis=0) / total.sum(axis=0)
    excess = error - score * total[:, None]
    n = len(used)
    spread = np.sqrt(n / (n - 1) * (excess**2).sum(axis=0)) / total.sum(axis=0)
    curve = HeldOutScores(
        alphas, score.mean(axis=1), spread.mean(axis=1), "squared_error", greater_is_better=False
    )
    return AlphaChoice(curve.best_alpha, curve)


def _has_pairs(fold: FoldSum) -> bool:
    return all(bool((np.asarray(to_host(one)) > 0).all()) for one in fold.squares)


def _fold_errors(
    system: System, folds: Folds, k: int, loss: Loss, alphas: Array
) -> tuple[Array, Array]:
    """Squared errors of fold k for each alpha and output, and errors of equal scores."""
    held, rest = folds[k], total_of([*folds[:k], *folds[k + 1 :]])
    assert held is not None
    assert rest is not None
    columns, equal = [], []
    for part, other, c in zip(held.moments, rest.moments, held.squares, strict=True):
        lams = alphas.tolist()
        if hasattr(other, "n_rows") and not loss.has_intercept:  # one ranking as a regression
            lams = [strength(loss, lam, other.n_rows) for lam in lams]
        mine, others = system.coordinate_moments(part), system.coordinate_moments(other)
        b = mine.b.reshape(len(mine.b), -1)
        c = np.asarray(to_host(c)).reshape(-1)
        weights = system.coordinate_weights(others.A, others.b, lams)
        of_alpha = []
        for w in weights:
            w = w.reshape(len(w), -1)
            of_alpha.append(to_host((w * (mine.A @ w - 2.0 * b)).sum(axis=0)) + c)
        columns.append(np.array(of_alpha))
        equal.append(c)
    return np.concatenate(columns, axis=1), np.concatenate(equal)


@dataclass(eq=False)
class BlockOverview:
    """What a first pass over the blocks finds.

    `sizes` has the number of rows of each query with different labels, by its name.
    """

    n_rows: int = 0
    n_pairs: list[int] = field(default_factory=list)
    names: set[Any] = field(default_factory=set)
    sizes: dict[Any, int] = field(default_factory=dict)
    squares: Any = 0.0

    @classmethod
    def of(cls, products: BlockProducts, *, with_squares: bool) -> BlockOverview:
        """Sums over all blocks; an error if a query is in two of them."""
        found = cls()
        for k, (X, y, qid) in enumerate(products.blocks):
            groups = QueryGroups.of(qid, len(y))
            names = groups.names.tolist() if qid is not None else []
            if k:
                check_new_queries(found.names or None, names or None)
            found.names.update(names)
            tasks = products.loss.tasks(y, groups)
            learnable = [task.n_learnable for task in tasks]
            before = found.n_pairs or [0] * len(tasks)
            found.n_pairs = [a + b for a, b in zip(before, learnable, strict=True)]
            found.n_rows += len(y)
            if with_squares:
                found.squares = found.squares + np.mean(
                    [pair_squares(sp.csr_array(X), task.graph) for task in tasks], axis=0
                )
                labels = y.reshape(len(y), -1)
                for name, rows in zip(names, groups, strict=True):
                    if (labels[rows] != labels[rows[0]]).any():
                        found.sizes[name] = len(rows)
        return found

    def alphas(self) -> Array:
        """The grid for these rows."""
        return alpha_grid(self.squares, self.n_rows)


def choose_in_blocks(
    products: BlockProducts, overview: BlockOverview, tol: float, max_iter: int
) -> AlphaChoice:
    """The alpha with the best scores of folds of queries, by steps that all of them share.

    The rows of the folds are kept in memory: at most SAMPLE_ROWS rows of whole queries.
    """
    order, wanted = sorted(overview.sizes, key=query_hash), SAMPLE_ROWS
    chosen: list[Any] = []
    for name in order:
        if wanted <= 0 and len(chosen) >= FEWEST_FOLDS:
            break
        chosen.append(name)
        wanted -= overview.sizes[name]
    folds = [set(chosen[k::FEWEST_FOLDS]) for k in range(FEWEST_FOLDS)]
    if len(chosen) < FEWEST_FOLDS:
        raise DataError(
            'alpha="auto" needs at least three queries with different labels to hold out: got '
            f"{len(chosen)}. Pass a number for alpha."
        )
    held, labels, fold_of, codes = _held_rows(products, folds)
    systems = BlockProducts(products.blocks, products.loss, folds)
    observe, _ = NUMPY.products(held)
    tol = max(CHOICE_TOL, tol)
    found = shifted_cg(
        systems,
        systems.right_hand_side(),
        overview.alphas().tolist(),
        tol=tol,
        max_iter=min(CHOICE_STEPS, max_iter),
        observe=observe,
    )
    solved = np.flatnonzero(is_solved(found, tol))
    if not len(solved):
        raise DataError(
            f"No alpha could be solved in {found.n_iter} steps. Scale the features, or pass a "
            "number for alpha."
        )
    n_outputs = labels.shape[1]
    columns = fold_of[:, None] * n_outputs + np.arange(n_outputs)
    predictions = np.stack(
        [found.solutions[k][np.arange(len(labels))[:, None], columns] for k in solved]
    )
    metric = default_metric(labels, len(chosen))
    curve = score_predictions(overview.alphas()[solved], labels, predictions, metric, codes)
    return AlphaChoice(curve.best_alpha, curve)


def _held_rows(products: BlockProducts, folds: list[set[Any]]) -> tuple[Any, Array, Any, Any]:
    """Rows of the folds with labels, the fold of each row, and its query as a number."""
    parts, labels, fold_of, codes = [], [], [], []
    n_queries = 0
    for X, y, qid in products.blocks:
        groups = QueryGroups.of(qid, len(y))
        for k, fold in enumerate(folds):
            rows = rows_of(groups, fold)
            if len(rows):
                parts.append(X[rows])
                labels.append(y[rows].reshape(len(rows), -1))
                fold_of.append(np.full(len(rows), k))
                codes.append(n_queries + groups.codes[rows])
        n_queries += groups.n_groups
    held = sp.vstack(parts, format="csr") if is_sparse(parts[0]) else np.vstack(parts)
    return held, np.concatenate(labels), np.concatenate(fold_of), np.concatenate(codes)
