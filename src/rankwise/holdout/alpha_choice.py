"""The choice of alpha: a plan that fits a budget of time, a hold-out, and the best alpha.

What is held out depends on the problem:

- single comparisons, or their groups, if the problem has comparisons;
- whole queries, if at least two of them have different labels;
- pairs of rows, if there is one ranking; single rows, for a regression;
- parts of the rows in these two cases, if rows have weights;
- folds of queries, or parts of the rows or of the comparisons, with conjugate gradients.

If this would take longer than one fit and 0.3 seconds, folds of a sample of queries (or rows) are
held out instead. The sample depends on the query ids, not on their order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.arrays import Array, Index
from rankwise.errors import DataError
from rankwise.holdout.alpha_grid import (
    KERNEL_STEP,
    STEP,
    alpha_by_rule,
    alpha_grid,
    coordinate_squares,
    data_alphas,
    data_squares,
)
from rankwise.holdout.engine import hold_out
from rankwise.holdout.hold_out_problem import HoldOutProblem, on_coordinates, plain_problem
from rankwise.holdout.plans import ComparisonFolds, Pairs, Plan, Queries, QueryFolds, RowFolds, Rows
from rankwise.holdout.rounding import alphas_compared
from rankwise.holdout.scores import HeldOutScores, logistic_slope
from rankwise.metrics.ranking_scorer import default_metric
from rankwise.problem import Problem, System
from rankwise.problem.block_sums import query_hash

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

    `curve` is None if nothing could be held out, and alpha follows a rule.
    """

    alpha: float
    curve: HeldOutScores | None


class AlphaPlan(NamedTuple):
    """What is held out, how it is scored, and whether the coordinates of all rows are stored."""

    plan: Plan
    metric: str
    stored: bool


def choose_alpha(problem: Problem) -> AlphaChoice:
    """Choose alpha by hold-outs, or by a rule if nothing can be held out.

    The landmarks of the problem must be chosen; see `Problem.settled`.
    """
    overflow = np.errstate(over="ignore", invalid="ignore")  # the solver checks for it
    with alphas_compared(), overflow:
        try:
            problem = plain_problem(problem)
            chosen = alpha_plan(problem)
            if chosen is not None:
                curve = _alpha_curve(problem, chosen)
                return AlphaChoice(curve.best_alpha, curve)
        except (DataError, np.linalg.LinAlgError):  # nothing to learn from, or overflow
            pass
        return AlphaChoice(alpha_by_rule(data_squares(problem), problem.n_rows), None)


def _alpha_curve(problem: Problem, chosen: AlphaPlan) -> HeldOutScores:
    """The scores of a grid of alphas.

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
        alphas = data_alphas(problem)
    while True:
        try:
            held = hold_out(HoldOutProblem.of(problem, alphas), chosen.plan)
            curve: HeldOutScores = held.score(chosen.metric)
            return curve
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
            return AlphaPlan(QueryFolds(folds, sampled=True), metric, False)
        if self.problem.row_weights is not None and self.problem.loss.has_intercept:
            folds = self._query_folds(usable, round(1 / PART))[: self.n_parts]
            return AlphaPlan(QueryFolds(folds), metric, is_kernel)
        if self.system is None:
            if self.problem.n_rows <= KERNEL_ROWS:
                return AlphaPlan(Queries(), metric, True)
            order, sizes = self._query_order(usable), self.problem.groups.sizes
            wanted = KERNEL_SHARE * self.problem.n_rows
            return AlphaPlan(Queries(_leading(order, sizes[order], wanted)), metric, True)
        if self._leave_query_out_seconds() > max(SECONDS, self.fit_seconds):
            folds = self._query_folds(usable, self.n_folds)
            return AlphaPlan(QueryFolds(folds, sampled=True), metric, False)
        return AlphaPlan(Queries(), metric, True)

    def _row_plan(self) -> AlphaPlan | None:
        """Single rows of a regression."""
        if self.by_steps:
            if self._is_constant:
                return None
            folds = row_parts(self.labels)[:FEWEST_FOLDS]
            return AlphaPlan(RowFolds(folds, sampled=True), "squared_error", False)
        if self.problem.row_weights is not None:
            return self._part_plan("squared_error")
        return self._in_one_ranking("squared_error")

    def _pair_plan(self) -> AlphaPlan | None:
        """Pairs of one ranking."""
        m, weighted = self.problem.n_rows, self.problem.row_weights is not None
        if self._is_constant:
            return None
        if self.problem.groups.n_groups > 1:  # only one query can be evaluated
            if self.by_steps or m > PAIR_ROWS or weighted:
                return None
            return AlphaPlan(Pairs(None, keep_ties=False), "disagreement", True)
        if self.by_steps:
            folds = row_parts(self.labels)[:FEWEST_FOLDS]
            return AlphaPlan(RowFolds(folds, sampled=True), "disagreement", False)
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
        return AlphaPlan(RowFolds(parts), metric, self.system is None)

    def _in_one_ranking(self, metric: str) -> AlphaPlan:
        """Pairs or rows of one ranking of all rows, all of whose pairs count."""
        m, n = self.problem.n_rows, self.n_coordinates
        if self.system is not None and m * n > STORED:
            sample = spread_rows(self.labels, int(max(SAMPLE_ROWS, SAMPLE_SHARE * m)))
            folds = [sample[k :: self.n_folds] for k in range(self.n_folds)]
            return AlphaPlan(RowFolds(folds, sampled=True), metric, False)
        number = PAIR_ROWS
        if self.system is None and m > KERNEL_ROWS:
            number = min(PAIR_ROWS, int(KERNEL_SHARE * m))
        some = spread_rows(self.labels, number)
        plan = Rows(some) if metric == "squared_error" else Pairs(None, False, among=some)
        return AlphaPlan(plan, metric, self.system is None)

    @cached_property
    def labels(self) -> Array:
        """With a column for each output, as a NumPy array."""
        return HoldOutProblem.of(self.problem, np.empty(0)).labels

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
