"""The choice of alpha by exact hold-outs, within a budget of time.

What is held out depends on the problem:

- single comparisons, or their groups, if the problem has comparisons;
- whole queries, if at least two of them have different labels;
- pairs of rows, if there is one ranking; single rows, if the loss is that of a regression;
- parts of the rows in these two cases, if rows have weights;
- folds of queries, or parts of the rows or of the comparisons, with conjugate gradients.

If this would take more than about one fit, folds of a sample of queries (or rows) are held out
instead. The sample depends on the query ids, not on their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.arrays import Array, Index, to_host
from rankwise.backends.dispatch import as_given, backend_of
from rankwise.errors import DataError
from rankwise.graph import QueryGroups
from rankwise.graph.comparison_graph import ComparisonGraph
from rankwise.holdout.alpha_grid import (
    KERNEL_STEP,
    STEP,
    alpha_by_rule,
    alpha_grid,
    coordinate_squares,
    data_alphas,
    data_squares,
)
from rankwise.holdout.comparison_hold_out import Edges, edges_of, plain_problem, system_of
from rankwise.holdout.held_out_folds import predict_queries, strength
from rankwise.holdout.held_out_pairs import pair_errors, pair_losses
from rankwise.holdout.held_out_scores import HeldOutScores, score_predictions
from rankwise.holdout.hold_out_problem import HoldOutProblem
from rankwise.holdout.pair_choice import PairChoice
from rankwise.holdout.pair_differences import add_losses, listed_differences
from rankwise.holdout.sampled_hat import (
    HatRows,
    feature_hat_rows,
    kernel_hat_rows,
    kernel_query_residuals,
)
from rankwise.kernels import Precomputed
from rankwise.metrics.comparison_metrics import clustered_mean, squared_error_of
from rankwise.metrics.metric_names import default_metric
from rankwise.problem import (
    FeatureSpace,
    KernelSpace,
    LandmarkSpace,
    Loss,
    PairLoss,
    Problem,
    RampSpace,
    RowLoss,
    System,
    Task,
)
from rankwise.problem.block_products import without_rows
from rankwise.problem.context_space import ContextSpace
from rankwise.problem.fold_sums import query_hash
from rankwise.problem.problem import side_by_side
from rankwise.solvers.moments import CentredMoments
from rankwise.solvers.pair_products import PairProducts, compared_rows
from rankwise.solvers.ridge_path import solve_ridge_path
from rankwise.solvers.shifted_cg import is_solved, shifted_cg

Mask: TypeAlias = NDArray[np.bool_]
Hats: TypeAlias = Callable[[Sequence[float]], Iterator[HatRows]]  # for some mu

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
CHOICE_TOL, CHOICE_STEPS = 1e-3, 100  # of conjugate gradients


@dataclass(frozen=True, eq=False)
class AlphaChoice:
    """An alpha, and the held-out scores of the alphas from which it was chosen.

    `curve` is None if nothing could be held out, and alpha follows a rule.
    """

    alpha: float
    curve: HeldOutScores | None


def settled(problem: Problem) -> Problem:
    """A problem whose landmarks are chosen, so that every solution uses the same ones."""
    space = problem.space
    inner = space.space if isinstance(space, ContextSpace) else space
    if not isinstance(inner, LandmarkSpace):
        return problem
    inner = replace(inner, chosen=inner.system(problem.X, problem.qid))
    whole = replace(space, space=inner) if isinstance(space, ContextSpace) else inner
    return replace(problem, space=whole)


def choose_alpha(problem: Problem) -> AlphaChoice:
    """Choose alpha by hold-outs, or by a rule if nothing can be held out.

    The landmarks of the problem must be settled.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # the solver checks for overflow
        try:
            if isinstance(problem.space, RampSpace):
                problem = problem.space.linear_problem(problem)
            if isinstance(problem.tasks[0].graph, ComparisonGraph):
                return _by_comparisons(problem)
            return _by_scores(problem)
        except (DataError, np.linalg.LinAlgError):  # nothing to learn from, or overflow
            return _by_rule(problem)


def _by_scores(problem: Problem) -> AlphaChoice:
    rows = _Rows.of(problem)
    usable = rows.usable_queries()
    if by_steps(problem):
        return _by_fold_steps(problem, rows, usable)
    if usable.sum(axis=1).min() >= 2:
        return _by_queries(problem, rows, np.asarray(usable.any(axis=0)))
    if problem.loss.has_intercept:
        return _by_rows(problem, rows)
    return _by_pairs(problem, rows)


class _Rows(NamedTuple):
    """Labels of a problem as NumPy arrays, and its system, if it is solved from sums."""

    y: Array
    labels: Array  # with a column for each output
    codes: Index
    problem: Problem
    system: System | None

    @classmethod
    def of(cls, problem: Problem) -> _Rows:
        y = HoldOutProblem.of(problem, np.empty(0)).y
        given = y if problem.tasks[0].n_axes == 2 else y[:, 0]
        return cls(given, np.asarray(to_host(y)), problem.groups.codes, problem, system_of(problem))

    def usable_queries(self) -> Mask:
        """Whether each query has different labels, shape (n_outputs, n_queries)."""
        groups = self.problem.groups
        ordered, starts = self.labels[groups.order], groups.indptr[:-1]
        lowest, highest = (end.reduceat(ordered, starts) for end in (np.minimum, np.maximum))
        return np.asarray(lowest < highest).T

    @property
    def metric(self) -> str:
        """The metric for queries."""
        return default_metric(self.labels, self.problem.groups.n_groups)

    @property
    def n_coordinates(self) -> int:
        return len(self.labels) if self.system is None else self.system.n_coordinates

    @property
    def fit_seconds(self) -> float:
        """Roughly how long a fit takes."""
        n = self.n_coordinates
        return len(self.problem.tasks) * (len(self.labels) + n) * n**2 / FLOPS

    @property
    def n_parts(self) -> int:
        """The number of parts of the rows that can be held out, one after the other."""
        systems = len(self.problem.tasks) * self.n_coordinates**3 / SMALL_FLOPS
        return int(np.clip(SECONDS / (2.0 * self.fit_seconds + systems), 1, round(1 / PART)))


# Queries.


def _by_queries(problem: Problem, rows: _Rows, usable: Mask) -> AlphaChoice:
    if problem.row_weights is not None and problem.loss.has_intercept:
        folds = _query_folds(problem, usable, round(1 / PART))
        return _from_parts(problem, rows, folds[: rows.n_parts])
    if rows.system is None:
        if problem.n_rows > KERNEL_ROWS:
            return _from_kernel(problem, rows, _kernel_sample(problem, usable))
    elif _leave_query_out_seconds(problem, rows) > max(SECONDS, rows.fit_seconds):
        folds = _query_folds(problem, usable, _number_of_folds(rows))
        return _from_sums(problem, rows, rows.system, folds, rows.metric)

    def hold_out(stored: Problem, alphas: Array) -> HeldOutScores:
        held = HoldOutProblem.of(stored, alphas)
        predictions = to_host(predict_queries(held, list(stored.groups)))
        return score_predictions(alphas, rows.labels, predictions, rows.metric, rows.codes)

    return _stored(problem, hold_out)


def _leave_query_out_seconds(problem: Problem, rows: _Rows) -> float:
    n, sizes = rows.n_coordinates, problem.groups.sizes.astype(float)
    if sizes.max() < n:
        flops = 2.0 * sizes**2 * n + sizes**3
    else:
        flops = np.full(len(sizes), 0.7 * n**3)
    systems = len(problem.tasks) * N_ALPHAS * (CALL + flops / SMALL_FLOPS)
    return float(systems.sum())


def _number_of_folds(rows: _Rows) -> int:
    """As many as can be solved in the time of a fit."""
    seconds = len(rows.problem.tasks) * 4.0 * rows.n_coordinates**3 / FLOPS + 1e-3
    affordable = max(SECONDS, rows.fit_seconds) / seconds
    return int(np.clip(affordable, FEWEST_FOLDS, MOST_FOLDS))


def _query_order(problem: Problem, usable: Mask) -> list[Index]:
    """The rows of the usable queries, in an order that depends only on the query ids."""
    groups = problem.groups
    names = groups.names.tolist()
    order = sorted(np.flatnonzero(usable).tolist(), key=lambda q: query_hash(names[q]))
    return [groups.order[groups.indptr[q] : groups.indptr[q + 1]] for q in order]


def _query_folds(problem: Problem, usable: Mask, n_folds: int) -> list[Index]:
    """Folds of a sample of queries; the others are always training rows."""
    queries = _query_order(problem, usable)
    wanted = max(SAMPLE_ROWS, SAMPLE_SHARE * problem.n_rows)
    before = np.cumsum([0, *(len(rows) for rows in queries[:-1])])
    queries = queries[: max(2, int(np.count_nonzero(before < wanted)))]
    n_folds = min(n_folds, len(queries))
    return [np.sort(np.concatenate(queries[k::n_folds])) for k in range(n_folds)]


def _kernel_sample(problem: Problem, usable: Mask) -> list[Index]:
    """Some of the usable queries, at least two of them."""
    queries = _query_order(problem, usable)
    before = np.cumsum([0, *(len(rows) for rows in queries[:-1])])
    return queries[: max(2, int(np.count_nonzero(before < KERNEL_SHARE * problem.n_rows)))]


def _from_kernel(problem: Problem, rows: _Rows, folds: Sequence[Index]) -> AlphaChoice:
    """Hold out some queries, one at a time, of a kernel matrix."""
    some = np.concatenate(folds)

    def hold_out(stored: Problem, alphas: Array) -> HeldOutScores:
        held = HoldOutProblem.of(stored, alphas)
        on, K = backend_of(held.y), held.coordinates.kernel
        assert K is not None
        if stored.loss.has_intercept:
            hats = kernel_hat_rows(K, held.y - held.y.mean(axis=0), some, held.lams)
            residuals = [_query_errors(part, folds) for part in hats]
        else:
            by_task = []
            for k in range(held.n_tasks):
                y = held.targets(k)
                found = kernel_query_residuals(on.copy(K), held.graph(k), y, folds, held.lams)
                by_task.append(list(found))
            residuals = [on.xp.concatenate(parts, axis=1) for parts in zip(*by_task, strict=True)]
        predictions = np.stack([rows.labels[some] - to_host(part) for part in residuals])
        return score_predictions(
            alphas, rows.labels[some], predictions, rows.metric, rows.codes[some]
        )

    return _stored(problem, hold_out)


def _query_errors(hat: HatRows, folds: Sequence[Index]) -> Array:
    """Residuals of queries in a regression without them."""
    on, errors, end = backend_of(hat.matrix), [], 0
    for fold in folds:
        start, end = end, end + len(fold)
        errors.append(on.solve(hat.matrix[start:end, start:end], hat.residuals[start:end]))
    joined: Array = on.xp.concatenate(errors)
    return joined


# One ranking.


def _by_pairs(problem: Problem, rows: _Rows) -> AlphaChoice:
    """Pairs of one ranking."""
    y, m = rows.labels, problem.n_rows
    if m < FEWEST_ROWS or (y.min(axis=0) == y.max(axis=0)).any():
        return _by_rule(problem)
    if problem.groups.n_groups > 1:  # only one query can be evaluated
        if m > PAIR_ROWS or problem.row_weights is not None:
            return _by_rule(problem)
        return _by_listed_pairs(problem, rows)
    if problem.row_weights is not None:
        return _from_parts(problem, rows, _row_parts(y)[: rows.n_parts])
    if problem.loss.ties == "include" or all(len(np.unique(column)) == m for column in y.T):
        return _in_one_ranking(problem, rows, "disagreement")
    if rows.system is None or m * rows.n_coordinates <= STORED:
        n_levels = max(len(np.unique(column)) for column in y.T)
        systems = len(problem.tasks) * N_ALPHAS * n_levels * (n_levels - 1) / 2
        d = m if rows.system is None else min(m, rows.n_coordinates + n_levels)
        if systems * (CALL * 25 + 3.0 * m * d**2 / FLOPS) <= max(SECONDS, rows.fit_seconds):
            return _by_listed_pairs(problem, rows)
    return _from_parts(problem, rows, _row_parts(y)[: rows.n_parts])


def _by_rows(problem: Problem, rows: _Rows) -> AlphaChoice:
    """Single rows of a regression."""
    if problem.n_rows < FEWEST_ROWS:
        return _by_rule(problem)
    if problem.row_weights is not None:
        parts = _row_parts(rows.labels)[: rows.n_parts]
        return _from_parts(problem, rows, parts, "squared_error")
    return _in_one_ranking(problem, rows, "squared_error")


def _in_one_ranking(problem: Problem, rows: _Rows, metric: str) -> AlphaChoice:
    """Pairs or rows of one ranking of all rows, all of whose pairs count."""
    m, n = problem.n_rows, rows.n_coordinates
    if rows.system is not None and m * n > STORED:
        sample = _spread_rows(rows.labels, int(max(SAMPLE_ROWS, SAMPLE_SHARE * m)))
        n_folds = _number_of_folds(rows)
        folds = [sample[k::n_folds] for k in range(n_folds)]
        return _from_sums(problem, rows, rows.system, folds, metric, one_ranking=True)
    number = PAIR_ROWS
    if rows.system is None and m > KERNEL_ROWS:
        number = min(PAIR_ROWS, int(KERNEL_SHARE * m))
    some = _spread_rows(rows.labels, number)
    hold_out = _leave_one_out if metric == "squared_error" else _leave_pair_out
    y = rows.y.reshape(m, -1)
    from_mean = y - y.mean(axis=0)
    if rows.system is not None:
        (total,) = _sums(problem.X, rows.system, RowLoss().tasks(rows.y, None), RowLoss())
        F, alphas = rows.system.coordinates(problem.X)(some), _ranking_alphas(problem, total)
        hats = partial(feature_hat_rows, total, F, from_mean[some])
        return _best(hold_out(problem, y[some], alphas, hats))

    def from_kernel(stored: Problem, alphas: Array) -> HeldOutScores:
        K = stored.coordinates().kernel
        assert K is not None
        return hold_out(problem, y[some], alphas, partial(kernel_hat_rows, K, from_mean, some))

    return _stored(problem, from_kernel)


def _leave_pair_out(problem: Problem, y: Array, alphas: Array, hats: Hats) -> HeldOutScores:
    """All pairs of the rows of a hat matrix, each pair held out of all rows."""
    m, on = problem.n_rows, backend_of(y)
    strengths = [strength(problem.loss, lam, m - 2) for lam in alphas.tolist()]
    first, second = np.triu_indices(len(y), 1)
    labels = np.asarray(to_host(y))
    differ = (labels[first] != labels[second]).any(axis=1)
    first, second = first[differ], second[differ]
    position = len(y) * first + second
    loss, compared = on.zeros(len(alphas), *y.shape), on.zeros(len(alphas), *y.shape)
    for k, hat in enumerate(hats(strengths)):
        entries = hat.matrix.reshape(-1)[position]
        diagonal = on.contiguous(hat.matrix.diagonal())
        # A constant that all labels share has no effect on differences.
        differences = listed_differences(
            entries, hat.is_hat, m, diagonal, y, y - hat.residuals, first, second
        )
        add_losses(first, second, differences, y, loss[k], compared[k])
    groups = QueryGroups.of(None, len(y))
    return _pair_scores(alphas, pair_errors(to_host(loss), to_host(compared[0]), groups))


def _by_listed_pairs(problem: Problem, rows: _Rows) -> AlphaChoice:
    """All pairs of each query, as in leave-pair-out."""

    def hold_out(stored: Problem, alphas: Array) -> HeldOutScores:
        held = HoldOutProblem.of(stored, alphas)
        losses = pair_losses(held, PairChoice(None, keep_ties=False))
        return _pair_scores(alphas, pair_errors(*losses, stored.groups))

    return _stored(problem, hold_out)


def _pair_scores(alphas: Array, errors: tuple[Array, Array]) -> HeldOutScores:
    score, spread = (values.mean(axis=1) for values in errors)
    return HeldOutScores(alphas, score, spread, "disagreement", False)


def _leave_one_out(problem: Problem, _: Array, alphas: Array, hats: Hats) -> HeldOutScores:
    """The rows of a hat matrix, each held out of all rows."""
    errors = [to_host(hat.held_out(problem.n_rows)) for hat in hats(alphas.tolist())]
    return _squared_error(alphas, (np.stack(errors) ** 2).mean(axis=2))


def _squared_error(alphas: Array, squared: Array) -> HeldOutScores:
    """From squared errors of shape (n_alphas, n_rows)."""
    spread = squared.std(axis=1, ddof=1) / np.sqrt(squared.shape[1])
    return HeldOutScores(alphas, squared.mean(axis=1), spread, "squared_error", False)


def _spread_rows(labels: Array, number: int) -> Index:
    """At most this many rows, evenly spaced in the order of the (first) labels."""
    m = len(labels)
    if number >= m:
        return np.arange(m)
    order = np.argsort(labels[:, 0], kind="stable")
    return np.sort(order[np.linspace(0, m - 1, number).round().astype(np.intp)])


def _row_parts(labels: Array) -> list[Index]:
    """Parts of all rows, each evenly spaced in the order of the (first) labels."""
    order, n_parts = np.argsort(labels[:, 0], kind="stable"), round(1 / PART)
    return [np.sort(order[k::n_parts]) for k in range(n_parts)]


# Comparisons.


def _by_comparisons(problem: Problem) -> AlphaChoice:
    """By the squared error of margins: the share of wrong winners is the same for many alphas."""
    graph = problem.tasks[0].graph
    assert isinstance(graph, ComparisonGraph)
    margin = graph.margin.reshape(len(graph.margin), -1)
    counted = graph.weight > 0
    if np.count_nonzero(counted & (margin != 0).all(axis=1)) < FEWEST_ROWS:
        return _by_rule(problem)
    problem = plain_problem(problem)
    alphas = data_alphas(problem)
    exact = system_of(problem) is not None or problem.n_rows <= KERNEL_ROWS
    if exact and not by_steps(problem):
        some, differences = held_out_sample(
            edges_of(problem, len(alphas)), alphas.tolist(), counted
        )
    else:
        some, alphas, differences = held_out_part(problem, graph, alphas, counted)
    squared = squared_error_of(margin[some], differences).mean(axis=2)
    codes = graph.group_of_pair
    codes = np.arange(len(some)) if codes is None else codes[some]
    found = [clustered_mean(values, graph.weight[some], codes) for values in squared]
    score, spread = np.array(found).T
    return _best(HeldOutScores(alphas, score, spread, "squared_error", False))


def held_out_sample(edges: Edges, lams: Sequence[float], counted: Mask) -> tuple[Index, Array]:
    """Some of the counted comparisons, and predictions for them without each, or its group.

    There are at most COMPARISONS of them, or of their groups. If holding out every group would take
    much longer than a fit, folds of groups are held out.
    """
    codes, numbers = edges.graph.group_of_pair, np.flatnonzero(counted)
    if codes is None:
        some = _evenly(numbers, COMPARISONS)
        return some, edges.single(some, lams)
    groups = _evenly(np.unique(codes[numbers]), COMPARISONS)
    d, sizes = edges.n_coordinates, np.bincount(codes)[groups].astype(float)
    flops = len(lams) * 2.0 * sizes**2 * np.minimum(sizes, d) + 8.0 * np.where(sizes > d, d**3, 0.0)
    fit = 2.0 * (len(codes) + d) * d**2 / FLOPS
    fold = groups
    if len(groups) * CALL + flops.sum() / SMALL_FLOPS > max(SECONDS, fit):
        fold = np.arange(len(groups)) % min(MOST_FOLDS, len(groups))
    fold_of_group = np.full(int(codes.max()) + 1, -1)
    fold_of_group[groups] = fold
    fold_of_pair = fold_of_group[codes]
    order = np.argsort(fold_of_pair, kind="stable")[np.count_nonzero(fold_of_pair < 0) :]
    starts = np.flatnonzero(np.diff(fold_of_pair[order], prepend=-1))
    predictions = edges.sets(np.split(order, starts[1:]), lams)
    asked = counted[order]
    return order[asked], predictions[:, asked]


def held_out_part(
    problem: Problem, graph: Any, alphas: Array, counted: Mask
) -> tuple[Index, Array, Array]:
    """A fifth of the comparisons, or of their groups, and predictions without any of them.

    The alphas are also returned: by conjugate gradients, only those that are solved.
    """
    codes, step = graph.group_of_pair, round(1 / PART)
    if codes is None:
        some = _evenly(np.flatnonzero(counted), COMPARISONS)[::step]
        held = some
    else:
        held = np.flatnonzero(np.isin(codes, np.unique(codes[counted])[::step]))
        some = held[counted[held]]
    weight = graph.weight.copy()
    weight[held] = 0.0
    rest = replace(problem, tasks=[Task(replace(graph, weight=weight), None)])
    everywhere = np.arange(problem.n_rows)
    solved, (scores,) = _scores(problem, [rest], alphas, [everywhere])
    B = graph.incidence[some]
    return some, solved, np.stack([B @ f for f in scores])


def _evenly(numbers: Index, most: int) -> Index:
    """At most so many of the numbers, evenly spaced."""
    kept = np.linspace(0, len(numbers) - 1, min(most, len(numbers))).round().astype(np.intp)
    return numbers[kept]


# How alphas are evaluated.


def _stored(problem: Problem, hold_out: Callable[[Problem, Array], HeldOutScores]) -> AlphaChoice:
    """Evaluate alphas on stored coordinates.

    A kernel that is not positive semidefinite has no minimum at small alphas, so these are left
    out.
    """
    rows = problem.coordinates()
    if rows.kernel is not None:
        stored = replace(problem, X=rows.kernel, space=KernelSpace(Precomputed()))
    else:
        stored = replace(problem, X=rows.features, space=FeatureSpace("primal"))
    squares = coordinate_squares(problem.tasks, rows)
    alphas = alpha_grid(squares, problem.n_rows, STEP if rows.kernel is None else KERNEL_STEP)
    while True:
        try:
            return _best(hold_out(stored, alphas))
        except (DataError, np.linalg.LinAlgError):
            if rows.kernel is None or len(alphas) < 3:
                raise
            alphas = alphas[len(alphas) // 2 :]


def _from_sums(
    problem: Problem,
    rows: _Rows,
    system: System,
    folds: Sequence[Index],
    metric: str,
    *,
    one_ranking: bool = False,
) -> AlphaChoice:
    """Hold out folds by subtracting their moments from those of all rows.

    Pairs of one ranking that all count define a regression on the remaining rows.
    """
    X, m, loss = problem.X, problem.n_rows, problem.loss
    regression = RowLoss() if one_ranking else loss
    tasks = regression.tasks(rows.y, None) if one_ranking else problem.tasks
    total = _sums(X, system, tasks, regression)
    if one_ranking:
        alphas = _ranking_alphas(problem, total[0])
    else:
        alphas = alpha_grid(np.mean([to_host(one.A.diagonal()) for one in total], axis=0), m)
    held, load = np.concatenate(folds), system.coordinates(X)
    qid = problem.groups.codes
    predictions = np.empty((len(alphas), len(held), rows.labels.shape[1]))
    end = 0
    for fold in folds:
        lams = alphas.tolist()
        if one_ranking:
            lams = [strength(loss, lam, m - len(fold)) for lam in lams]
        start, end = end, end + len(fold)
        F, on = load(fold), backend_of(X)
        parts = regression.tasks(rows.y[fold], None if one_ranking else problem.groups.take(fold))
        by_task = []
        for whole, part in zip(total, parts, strict=True):
            rest = whole - regression.moments(F.__getitem__, F.shape[1], part, on)
            weights = solve_ridge_path(rest.A, rest.b, lams, gram=True)
            by_task.append(on.xp.stack([(F @ w).reshape(len(fold), -1) for w in weights]))
        predictions[:, start:end] = to_host(on.xp.concatenate(by_task, axis=2))
    fold_of = np.repeat(np.arange(len(folds)), [len(fold) for fold in folds])
    groups = fold_of if one_ranking else qid[held]
    return _best(_scored(alphas, rows.labels[held], predictions, metric, groups))


def _sums(X: Any, system: System, tasks: Sequence[Task], loss: Loss) -> list[Any]:
    """The moments of the coordinates for each task."""
    return [system.coordinate_moments(system.moments(X, task, loss)) for task in tasks]


def _ranking_alphas(problem: Problem, regression: CentredMoments) -> Array:
    """The grid for one ranking of all rows, all of whose pairs count, from a regression."""
    m = problem.n_rows
    squares = np.asarray(to_host(regression.A.diagonal()))
    return alpha_grid(squares * (problem.loss.weight(m, m * (m - 1) // 2) * m), m)


def _from_parts(
    problem: Problem, rows: _Rows, parts: Sequence[Index], metric: str | None = None
) -> AlphaChoice:
    """Hold out parts of the rows, and fit to the others for all alphas."""
    one_ranking = metric is not None or problem.groups.n_groups == 1
    loss = PairLoss() if problem.loss.has_intercept else problem.loss
    groups = QueryGroups.of(None, problem.n_rows) if problem.loss.has_intercept else problem.groups
    rests = []
    for held in parts:
        tasks = loss.tasks(rows.y, without_rows(groups, held).with_row_weights(problem.row_weights))
        loss.check_learnable([task.graph.n_pairs for task in tasks], problem.n_rows, 1)
        rests.append(replace(problem, tasks=tasks, loss=loss))
    alphas, predictions = _scores(problem, rests, data_alphas(problem), parts)
    held = np.concatenate(parts)
    part_of = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    metric = metric or ("disagreement" if one_ranking else rows.metric)
    scores = np.concatenate(predictions, axis=1)
    queries = part_of if one_ranking else rows.codes[held]
    return _best(_scored(alphas, rows.labels[held], scores, metric, queries))


def _scores(
    problem: Problem, rests: Sequence[Problem], alphas: Array, parts: Sequence[Index]
) -> tuple[Array, list[Array]]:
    """Scores of each part of the rows by the fit to the rest of the problem without it.

    Returns the alphas that are solved, and an array of shape (n_alphas, n_rows, n_outputs) for each
    part.
    """
    if by_steps(problem):
        return _step_scores(problem, rests, alphas, parts)
    found = []
    for rest, rows in zip(rests, parts, strict=True):
        fit = rest.solve(alphas.tolist())
        columns = side_by_side([solution.weights for solution in fit.solutions])
        X = rest.X[rows]
        scores = np.asarray(to_host(fit.basis.products(X, backend_of(X).array(columns))))
        found.append(np.moveaxis(scores.reshape(len(rows), len(alphas), -1), 1, 0))
    return alphas, found


# Conjugate gradients.


def by_steps(problem: Problem) -> bool:
    """Whether a problem is solved by conjugate gradients."""
    return isinstance(problem.space, FeatureSpace) and problem.space.form(problem.X) == "cg"


def _by_fold_steps(problem: Problem, rows: _Rows, usable: Mask) -> AlphaChoice:
    """Folds of queries, or parts of one ranking, all of which are fitted side by side."""
    y, loss = rows.labels, problem.loss
    if usable.sum(axis=1).min() >= 2:
        folds = _query_folds(problem, np.asarray(usable.any(axis=0)), FEWEST_FOLDS)
        return _from_parts(problem, rows, folds)
    constant = (y.min(axis=0) == y.max(axis=0)).any()
    one_query = loss.has_intercept or problem.groups.n_groups == 1
    if len(y) < FEWEST_ROWS or constant or not one_query:
        return _by_rule(problem)
    metric = "squared_error" if loss.has_intercept else None
    return _from_parts(problem, rows, _row_parts(y)[:FEWEST_FOLDS], metric)


def _step_scores(
    problem: Problem, rests: Sequence[Problem], alphas: Array, parts: Sequence[Index]
) -> tuple[Array, list[Array]]:
    """`_scores` of all parts from the same products; weights are not stored.

    A small tolerance is not needed to compare alphas. Those that need many steps are left out,
    unless there is only one.
    """
    space, on = problem.space, backend_of(problem.X)
    assert isinstance(space, FeatureSpace)
    tasks = [task for rest in rests for task in rest.tasks]
    products = PairProducts.of(
        problem.X,
        [task.graph for task in tasks],
        [task.y for task in tasks],
        compared_rows(problem.tasks[0].graph),
    )
    held = np.concatenate(parts)
    observe, _ = on.products(as_given(problem.X)[held])
    tol, max_iter = max(CHOICE_TOL, space.tol), space.max_iter
    if len(alphas) > 1:
        max_iter = min(CHOICE_STEPS, max_iter)
    found = shifted_cg(
        products, products.b, alphas.tolist(), tol=tol, max_iter=max_iter, observe=observe
    )
    solved = np.flatnonzero(is_solved(found, tol)) if len(alphas) > 1 else np.arange(1)
    if not len(solved):
        raise DataError("No alpha is solved in so few steps.")
    scores = np.stack([to_host(found.solutions[k]) for k in solved])
    n_outputs, end, by_part = scores.shape[2] // len(parts), 0, []
    for k, part in enumerate(parts):
        start, end = end, end + len(part)
        by_part.append(scores[:, start:end, k * n_outputs : (k + 1) * n_outputs])
    return alphas[solved], by_part


def _scored(
    alphas: Array, labels: Array, predictions: Array, metric: str, groups: Index
) -> HeldOutScores:
    if metric != "squared_error":
        return score_predictions(alphas, labels, predictions, metric, groups)
    residuals = labels - predictions
    for k in np.unique(groups):  # the intercept of each fold
        residuals[:, groups == k] -= residuals[:, groups == k].mean(axis=1, keepdims=True)
    return _squared_error(alphas, (residuals**2).mean(axis=2))


def _best(curve: HeldOutScores) -> AlphaChoice:
    return AlphaChoice(curve.best_alpha, curve)


def _by_rule(problem: Problem) -> AlphaChoice:
    return AlphaChoice(alpha_by_rule(data_squares(problem), problem.n_rows), None)
