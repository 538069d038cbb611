"""The hold-out engine: this leaves, this is predicted for it, and this is how good it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, Index, to_host
from rankwise.graph import QueryGroups
from rankwise.holdout.comparison_hold_out import edges_of, without_items
from rankwise.holdout.held_out_edges import Edges
from rankwise.holdout.held_out_folds import check_folds, predict_queries, predict_rows, rescales
from rankwise.holdout.held_out_pairs import pair_differences, pair_errors, pair_losses
from rankwise.holdout.hold_out_problem import HoldOutProblem, explained_rounding, plain_problem
from rankwise.holdout.leave_pair_out import PairDifferences
from rankwise.holdout.plans import (
    Comparisons,
    Items,
    Pairs,
    Plan,
    Queries,
    QueryFolds,
    RowFolds,
    Rows,
)
from rankwise.holdout.scores import (
    GREATER_IS_BETTER,
    HeldOutScores,
    ObservedComparisons,
    score_predictions,
)

EXACT = "One factorization for each alpha serves every fold."
REFITTED = "Tied pairs do not count: the ranker is refitted without each fold."


@dataclass(frozen=True, eq=False)
class HoldOut:
    """What was predicted for rows that left, for each alpha.

    Attributes
    ----------
    problem : HoldOutProblem
    alphas : ndarray of shape (n_alphas,)
    predictions : ndarray of shape (n_alphas, n, n_outputs)
        Scores of the rows that left, up to a constant in each unit unless the loss has an
        intercept.
    held : ndarray of shape (n,)
        The numbers of the rows that left.
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
        if metric == "squared_error":
            squared = ((labels - predictions) ** 2).mean(axis=2)
            spread = squared.std(axis=1, ddof=1) / np.sqrt(squared.shape[1])
            return HeldOutScores(
                self.alphas, squared.mean(axis=1), spread, metric, False, shared=self.shared
            )
        found = score_predictions(self.alphas, labels, predictions, metric, self.unit)
        return HeldOutScores(**{**vars(found), "shared": self.shared})


@dataclass(frozen=True, eq=False)
class PairHoldOut:
    """Pairs of rows that left, block by block: their differences are not stored.

    `exact`, `why` and `shared` are those of `HoldOut`.
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
        return pair_differences(self.problem, task, self.plan)

    def losses(
        self, keep: Callable[[int, int, PairDifferences], None] | None = None
    ) -> tuple[Array, Array]:
        """(loss, compared): errors and numbers of the held-out pairs of each row."""
        return pair_losses(self.problem, self.plan, keep)

    def errors(
        self,
        units: QueryGroups | None = None,
        keep: Callable[[int, int, PairDifferences], None] | None = None,
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
    """What was predicted for comparisons that left, for each alpha.

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
    shared: tuple[str, ...] = field(default=())

    @cached_property
    def probabilities(self) -> Array:
        """P(first wins) for each alpha and comparison; see `ObservedComparisons.probability`."""
        return np.stack([self.observed.probability(one) for one in self.predictions[:, :, 0]])

    def scores(self, metric: str) -> tuple[Array, Array]:
        """A metric of each alpha, and its standard error over groups."""
        chances: Any = [None] * len(self.alphas)
        if metric in ("log_loss", "brier"):
            chances = self.probabilities
        found = [
            self.observed.score(metric, d, p)
            for d, p in zip(self.predictions[:, :, 0], chances, strict=True)
        ]
        score, error = np.array(found).T
        return score, error

    def score(self, metric: str) -> HeldOutScores:
        """A metric of each alpha, with its standard error over groups."""
        return HeldOutScores(
            self.alphas, *self.scores(metric), metric, GREATER_IS_BETTER[metric], shared=self.shared
        )


def hold_out(problem: HoldOutProblem, plan: Plan) -> Any:
    """Predict what a plan holds out, by fits without it, for all alphas of the problem.

    Returns a `HoldOut` for queries and rows, a `PairHoldOut` for pairs, and a `ComparisonHoldOut`
    for comparisons and items.
    """
    if isinstance(plan, Pairs):
        return PairHoldOut(problem, plan, shared=problem.shared(scaling=True))
    with explained_rounding():
        if isinstance(plan, (Comparisons, Items)):
            return _comparisons(problem, plan)
        return _rows(problem, plan)


def _rows(problem: HoldOutProblem, plan: Queries | QueryFolds | Rows | RowFolds) -> HoldOut:
    folds = plan.folds(problem.groups)
    whole_queries = isinstance(plan, (Queries, QueryFolds))
    space = problem.problem.space
    if whole_queries and space.has_own_hold_outs:
        check_folds(problem, folds)
        predictions = space.hold_out_queries(problem.problem, problem.lams, folds)
    else:
        predictions = (predict_queries if whole_queries else predict_rows)(problem, folds)
    exact = whole_queries or problem.loss.ties == "include"
    fold_of = np.empty(len(problem.y), dtype=np.intp)
    for k, fold in enumerate(folds):
        fold_of[fold] = k
    scaling = problem.scaling
    own = scaling is not None and scaling.within_queries and whole_queries
    return HoldOut(
        problem,
        problem.alphas,
        predictions,
        np.arange(len(problem.y)),
        problem.groups.codes if whole_queries else fold_of,
        exact,
        EXACT if exact else REFITTED,
        problem.shared(scaling=not own and not rescales(problem, len(folds))),
    )


def _comparisons(problem: HoldOutProblem, plan: Comparisons | Items) -> ComparisonHoldOut:
    excess = problem.problem.space.without_comparisons(problem.problem)
    edges: Edges = edges_of(plain_problem(problem.problem), len(problem.alphas))
    edges = replace(edges, excess=excess)
    graph, lams = edges.graph, problem.lams
    n = len(graph.first)
    if isinstance(plan, Items):
        held = np.arange(n) if plan.both else np.tile(np.arange(n), 2)
        predictions = np.empty((len(lams), len(held), edges.margin.shape[1]))
        for members, side, found in without_items(edges, lams, both=plan.both):
            predictions[:, members + n * side] = found
    elif plan.fold is None:
        held = np.arange(n)
        predictions = edges.single(held, lams)
    else:
        held = np.argsort(plan.fold, kind="stable")[np.count_nonzero(plan.fold < 0) :]
        starts = np.flatnonzero(np.diff(plan.fold[held], prepend=-1))
        predictions = edges.sets(np.split(held, starts[1:]), lams)
        order = np.argsort(held)
        held, predictions = held[order], predictions[:, order]
    codes = np.arange(n) if graph.group_of_pair is None else graph.group_of_pair
    observed = ObservedComparisons(graph.margin[held], graph.weight[held], codes[held])
    return ComparisonHoldOut(problem.alphas, predictions, held, observed)
