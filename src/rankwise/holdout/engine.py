"""The hold-out engine: what is held out, its predictions, and their quality."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, Index, backend_of, to_host
from rankwise.graph import QueryGroups
from rankwise.holdout.folds import check_folds, predict_queries, predict_rows, rescales, strength
from rankwise.holdout.hold_out_problem import HoldOutProblem, plain_problem
from rankwise.holdout.leave_comparison_out import held_comparisons, without_items
from rankwise.holdout.leave_pair_out import PairDifferences, pair_differences, pair_errors
from rankwise.holdout.pair_differences import add_losses, listed_differences
from rankwise.holdout.plans import (
    Cells,
    ComparisonFolds,
    Items,
    Pairs,
    Plan,
    Queries,
    QueryFolds,
    RowFolds,
    Rows,
)
from rankwise.holdout.rounding import explained_rounding
from rankwise.holdout.samples import (
    folds_by_sums,
    queries_of_kernel,
    refitted_folds,
    refitted_scores,
    sampled_rows,
)
from rankwise.holdout.scores import (
    GREATER_IS_BETTER,
    HeldOutScores,
    ObservedComparisons,
    score_predictions,
)
from rankwise.holdout.table_hold_out import hold_out_cells
from rankwise.metrics.comparison_metrics import clustered_mean, squared_error_of
from rankwise.problem import Task

EXACT = "A formula turns the fit to all rows into the fit without each unit."
SUMS = "The sums of each fold are subtracted from the sums of all rows."
REFITTED = "The ranker is refitted without each fold."

Keep = Callable[[int, int, PairDifferences], None]


@dataclass(frozen=True, eq=False)
class HoldOut:
    """Predictions for held-out rows, for each alpha.

    Attributes
    ----------
    problem : HoldOutProblem
    alphas : ndarray of shape (n_alphas,)
    predictions : ndarray of shape (n_alphas, n, n_outputs)
        Scores of the held-out rows, up to a constant in each unit unless the loss has an intercept.
    held : ndarray of shape (n,)
        The numbers of the held-out rows.
    unit : ndarray of shape (n,)
        The query or fold within which each row is compared, as a number.
    exact : bool
        Whether predictions come from fits to all rows by a formula; otherwise, from refits.
    why : str
        The reason, as a sentence.
    shared : tuple of str
        What was computed from all rows; see `HeldOutScores.shared`.
    """

    problem: HoldOutProblem
    alphas: Array
    predictions: Array
    held: Index
    unit: Index
    exact: bool = True
    why: str = EXACT
    shared: tuple[str, ...] = ()

    def score(self, metric: str) -> HeldOutScores:
        """The mean of a metric over units, with its standard error, for each alpha."""
        labels, predictions = self.problem.labels[self.held], to_host(self.predictions)
        if metric != "squared_error":
            found = score_predictions(self.alphas, labels, predictions, metric, self.unit)
            return replace(found, shared=self.shared)
        residuals = labels - predictions
        if self.why != EXACT:  # the scores of a fold have no intercept
            for k in np.unique(self.unit):
                here = self.unit == k
                residuals[:, here] -= residuals[:, here].mean(axis=1, keepdims=True)
        squared = (residuals**2).mean(axis=2)
        spread = squared.std(axis=1, ddof=1) / np.sqrt(squared.shape[1])
        return HeldOutScores(
            self.alphas, squared.mean(axis=1), spread, metric, False, shared=self.shared
        )


@dataclass(frozen=True, eq=False)
class PairHoldOut:
    """Held-out pairs of rows, block by block: their differences are not stored.

    `exact`, `why` and `shared` are as for `HoldOut`.
    """

    problem: HoldOutProblem
    plan: Pairs
    exact: bool = True
    why: str = EXACT
    shared: tuple[str, ...] = ()

    @property
    def alphas(self) -> Array:
        return self.problem.alphas

    def blocks(self, task: int) -> Iterator[tuple[int, PairDifferences]]:
        """(index of the alpha, f(first) - f(second) of some pairs) of a task."""
        if self.plan.among is None:
            return pair_differences(self.problem, task, self.plan)
        return self._sampled_blocks(self.plan.among)

    def _sampled_blocks(self, some: Index) -> Iterator[tuple[int, PairDifferences]]:
        """All pairs of some rows, of one system for all outputs."""
        problem, on = self.problem, backend_of(self.problem.y)
        m, n = len(problem.y), len(some)
        y, labels = on.contiguous(problem.y[some]), problem.labels[some]
        mus = [strength(problem.loss, lam, m - 2) for lam in problem.lams]
        first, second = np.triu_indices(n, 1)
        differ = (labels[first] != labels[second]).any(axis=1)
        first, second = first[differ], second[differ]
        place, rows = n * first + second, (some[first], some[second])
        for k, (P, a) in enumerate(sampled_rows(problem, some, mus)):
            entries, diagonal = P.reshape(-1)[place], on.contiguous(P.diagonal())
            found = listed_differences(entries, diagonal, y, a, first, second)
            yield k, PairDifferences(*rows, found)

    def losses(self, keep: Keep | None = None) -> tuple[Array, Array]:
        """(loss, compared): errors and numbers of the held-out pairs of each row.

        `loss` has shape (n_alphas, n_rows, n_outputs), `compared` (n_rows, n_outputs). Each block
        of pairs is passed to ``keep(task, index of the alpha, block)``.
        """
        problem, on = self.problem, backend_of(self.problem.y)
        loss = np.zeros((len(problem.alphas), *problem.y.shape))
        compared, sampled = np.zeros(problem.y.shape), self.plan.among is not None
        for task in range(1 if sampled else problem.n_tasks):
            columns = slice(None) if sampled else problem.columns(task)
            labels = on.contiguous(problem.y[:, columns])
            task_loss = on.zeros(len(problem.alphas), *labels.shape)
            task_compared = on.zeros(len(problem.alphas), *labels.shape)
            for a, block in self.blocks(task):
                add_losses(*block, labels, task_loss[a], task_compared[a])
                if keep is not None:
                    keep(task, a, block)
            loss[..., columns] = to_host(task_loss)
            compared[:, columns] = to_host(task_compared[0])
        return loss, compared

    def errors(
        self, units: QueryGroups | None = None, keep: Keep | None = None
    ) -> tuple[Array, Array]:
        """Share of wrong pairs and its standard error, shape (n_alphas, n_outputs)."""
        return pair_errors(*self.losses(keep), self.problem.groups, units)

    def score(self, metric: str = "disagreement") -> HeldOutScores:
        """The share of wrong pairs, averaged over outputs."""
        if metric != "disagreement":
            raise ValueError(f"Pairs are scored by their disagreement, not by {metric}.")
        score, spread = (values.mean(axis=1) for values in self.errors())
        return HeldOutScores(self.alphas, score, spread, metric, False, shared=self.shared)


@dataclass(frozen=True, eq=False)
class ComparisonHoldOut:
    """Predictions for held-out comparisons, for each alpha.

    Attributes
    ----------
    predictions : ndarray of shape (n_alphas, n, n_outputs)
        f(first) - f(second), plus what the context adds.
    held : ndarray of shape (n,)
        The numbers of the comparisons; with ``Items(both=False)``, each of them twice.
    observed : ObservedComparisons
        Margins, weights and groups of these comparisons.
    """

    alphas: Array
    predictions: Array
    held: Index
    observed: ObservedComparisons
    exact: bool = True
    why: str = EXACT
    shared: tuple[str, ...] = ()

    def counted(self) -> ComparisonHoldOut:
        """Without the comparisons of weight 0."""
        kept, observed = self.observed.weight > 0, self.observed
        parts = (observed.margin[kept], observed.weight[kept], observed.codes[kept])
        predictions, held = self.predictions[:, kept], self.held[kept]
        return replace(
            self, predictions=predictions, held=held, observed=ObservedComparisons(*parts)
        )

    @cached_property
    def probabilities(self) -> Array:
        """P(first wins) for each alpha and comparison; see `ObservedComparisons.probability`."""
        return np.stack([self.observed.probability(one) for one in self.predictions[:, :, 0]])

    def scores(self, metric: str) -> tuple[Array, Array]:
        """A metric of each alpha, and its standard error over groups."""
        observed = self.observed
        if metric == "squared_error":
            margin = observed.margin.reshape(len(self.held), -1)
            squared = squared_error_of(margin, self.predictions).mean(axis=2)
            found = [clustered_mean(v, observed.weight, observed.codes) for v in squared]
        else:
            needed = metric in ("log_loss", "brier")
            chances: Any = self.probabilities if needed else [None] * len(self.alphas)
            pairs = zip(self.predictions[:, :, 0], chances, strict=True)
            found = [observed.score(metric, d, p) for d, p in pairs]
        score, error = np.array(found).T
        return score, error

    def score(self, metric: str) -> HeldOutScores:
        """A metric of each alpha, with its standard error over groups."""
        return HeldOutScores(
            self.alphas, *self.scores(metric), metric, GREATER_IS_BETTER[metric], shared=self.shared
        )


def hold_out(problem: Any, plan: Plan) -> Any:
    """Predict what a plan holds out, by fits without it, for all alphas of the problem.

    Returns a `HoldOut` for queries and rows, a `PairHoldOut` for pairs, and a `ComparisonHoldOut`
    for comparisons and items, each of a `HoldOutProblem`; and a `TableHoldOut` for the cells of a
    `CellProblem`.
    """
    if isinstance(plan, Cells):
        return hold_out_cells(problem, plan)
    if isinstance(plan, Pairs):
        return PairHoldOut(problem, plan, shared=problem.shared(scaling=True))
    with explained_rounding():
        if isinstance(plan, (ComparisonFolds, Items)):
            return _comparisons(problem, plan)
        return _rows(problem, plan)


def _rows(problem: HoldOutProblem, plan: Queries | QueryFolds | Rows | RowFolds) -> HoldOut:
    folds, queries = plan.folds(problem.groups), isinstance(plan, (Queries, QueryFolds))
    inner, alphas, why = problem.problem, problem.alphas, EXACT
    held, sampled = np.concatenate(folds), isinstance(plan, (QueryFolds, RowFolds)) and plan.sampled
    everything = len(held) == len(problem.y)
    weighted = inner.row_weights is not None and (problem.loss.has_intercept or not queries)
    if sampled and inner.space.form(inner.X) != "cg":
        predictions, why = folds_by_sums(problem, folds, one_ranking=not queries), SUMS
    elif sampled or weighted or (isinstance(plan, RowFolds) and not everything):
        alphas, predictions = refitted_folds(problem, folds, one_ranking=not queries)
        why = REFITTED
    elif isinstance(plan, Rows) and plan.only is not None:
        errors = [a / P.diagonal()[:, None] for P, a in sampled_rows(problem, held, problem.lams)]
        predictions = problem.y[held] - backend_of(problem.y).xp.stack(errors)
    elif not everything:
        predictions = queries_of_kernel(problem, folds)
    else:
        if queries and inner.space.has_own_hold_outs:
            check_folds(problem, folds)
            predictions = inner.space.hold_out_queries(inner, problem.lams, folds)
        else:
            predictions = (predict_queries if queries else predict_rows)(problem, folds)
        why = EXACT if queries or problem.loss.ties == "include" else REFITTED
    fold_of = np.repeat(np.arange(len(folds)), [len(fold) for fold in folds])
    if everything and why in (EXACT, REFITTED) and not (sampled or weighted):
        order = np.argsort(held)  # these predictions are in the order of the rows
        held, fold_of = held[order], fold_of[order]
    scaling = problem.scaling
    own = scaling is not None and scaling.within_queries and queries
    shared = problem.shared(scaling=not own and not rescales(problem, len(folds)))
    unit = problem.groups.codes[held] if queries else fold_of
    return HoldOut(problem, alphas, predictions, held, unit, why != REFITTED, why, shared)


def _comparisons(problem: HoldOutProblem, plan: ComparisonFolds | Items) -> ComparisonHoldOut:
    inner, alphas, why = problem.problem, problem.alphas, EXACT
    graph = inner.comparisons
    n, lams = len(graph.first), problem.lams
    if isinstance(plan, ComparisonFolds) and plan.refit:
        assert plan.fold is not None
        alphas, held, predictions = _refitted_comparisons(problem, plan.fold)
        why = REFITTED
    else:
        excess = inner.space.without_comparisons(inner)
        comparisons = held_comparisons(plain_problem(inner), excess)
        if isinstance(plan, Items):
            held = np.arange(n) if plan.both else np.tile(np.arange(n), 2)
            predictions = np.empty((len(lams), len(held), comparisons.margin.shape[1]))
            for members, side, found in without_items(comparisons, lams, both=plan.both):
                predictions[:, members + n * side] = found
        elif plan.fold is None:
            held = np.arange(n) if plan.only is None else plan.only
            predictions = comparisons.single(held, lams)
        else:
            held = np.argsort(plan.fold, kind="stable")[np.count_nonzero(plan.fold < 0) :]
            starts = np.flatnonzero(np.diff(plan.fold[held], prepend=-1))
            predictions = comparisons.sets(np.split(held, starts[1:]), lams)
            order = np.argsort(held)
            held, predictions = held[order], predictions[:, order]
    codes = np.arange(n) if graph.group_of_pair is None else graph.group_of_pair
    observed = ObservedComparisons(graph.margin[held], graph.weight[held], codes[held])
    return ComparisonHoldOut(alphas, predictions, held, observed, why == EXACT, why)


def _refitted_comparisons(problem: HoldOutProblem, fold: Index) -> tuple[Array, Index, Array]:
    """The alphas that are solved, the comparisons of all folds, and predictions for them."""
    inner = problem.problem
    graph, rests = inner.comparisons, []
    members = [np.flatnonzero(fold == k) for k in range(int(fold.max()) + 1)]
    for held in members:
        weight = graph.weight.copy()
        weight[held] = 0.0
        rests.append(replace(inner, tasks=[Task(replace(graph, weight=weight), None)]))
    rows = [np.arange(inner.n_rows)] * len(rests)
    alphas, scores = refitted_scores(inner, rests, problem.alphas, rows)
    found = [
        np.stack([graph.incidence[held] @ f for f in of_fold])
        for held, of_fold in zip(members, scores, strict=True)
    ]
    return alphas, np.concatenate(members), np.concatenate(found, axis=1)
