"""How many components: the parameter `n_components`, and choosing it by held-out pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwise.backends.arrays import Array, Index, to_host
from rankwise.backends.dispatch import backend_of
from rankwise.errors import DataError, ParameterError
from rankwise.estimators._checks import check_whole
from rankwise.estimators.least_squares.base import Task
from rankwise.graph import QueryGroups
from rankwise.graph.query_graph import pair_weight
from rankwise.holdout.component_folds import component_folds, component_pair_losses
from rankwise.solvers.kpca import Count
from rankwise.solvers.nested_least_squares import rounding_noise

RULES = ("one_se", "best")
EXACT = ("leave_query_out", "leave_pair_out")
MOST_COMPONENTS = 10**6

if TYPE_CHECKING:
    from rankwise.estimators.components.component_ranker import ComponentRanker


@dataclass(frozen=True)
class NumberOfComponents:
    """The parameter `n_components`, checked."""

    count: Count
    chosen_by_cv: bool = False

    @classmethod
    def of(cls, n_components: Any) -> NumberOfComponents:
        if isinstance(n_components, str) and n_components in ("auto", "cv"):
            return cls(Count(), n_components == "cv")
        if isinstance(n_components, (int, np.integer)):
            if n_components >= 1 and not isinstance(n_components, bool):
                return cls(Count(int(n_components)))
        elif isinstance(n_components, Real) and 0 < float(n_components) <= 1:
            return cls(Count(share=float(n_components)))
        raise ParameterError(
            "n_components must be a whole number above 0, a share of the variance above 0 and up "
            f'to 1.0, "auto" or "cv": got {n_components!r}.'
        )


def check_max_components(value: Any) -> int | None:
    """A whole number above 0, or None."""
    if value is None:
        return None
    check_whole("max_components", value, 1, MOST_COMPONENTS)
    return int(value)


def check_cv(value: Any) -> None:
    """A number of folds, or one of the exact ways to hold out."""
    if isinstance(value, str):
        known = value in EXACT
    else:
        whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
        known = whole and value >= 2
    if not known:
        raise ParameterError(
            'cv must be a number of folds, 2 or more, "leave_query_out" or "leave_pair_out": got '
            f"{value!r}."
        )


@dataclass(frozen=True)
class ComponentErrors:
    """How well held-out pairs are ordered with 1, 2, 3, ... components.

    Attributes
    ----------
    n_components : ndarray of shape (n,)
        1, 2, ..., n.
    error : ndarray of shape (n,)
        Disagreement error, averaged over queries (or folds, or pairs) and outputs.
    standard_error : ndarray of shape (n,)
        Over queries or folds; for pairs of one ranking, from each row's share in the errors.
    method : str
        How they were held out.
    """

    n_components: Index
    error: Array
    standard_error: Array
    method: str

    @property
    def best_n_components(self) -> int:
        """Where the error is smallest; of equals the fewest components."""
        return int(self.n_components[np.argmin(self.error)])

    @property
    def one_se_n_components(self) -> int:
        """The fewest components with an error within one standard error of the smallest.

        The rule of Breiman, Friedman, Olshen and Stone: Classification and regression trees, 1984.
        """
        best = int(np.argmin(self.error))
        spread = self.standard_error[best]
        bar = self.error[best] + (spread if np.isfinite(spread) else 0.0)
        return int(self.n_components[np.argmax(self.error <= bar)])

    def chosen(self, rule: str) -> int:
        """The number that a rule chooses."""
        return self.one_se_n_components if rule == "one_se" else self.best_n_components

    def __str__(self) -> str:
        lines = [f"{'components':>12}  {'error':>8}  {'s.e.':>8}"]
        for p, error, spread in zip(
            self.n_components, self.error, self.standard_error, strict=True
        ):
            mark = "  best" if p == self.best_n_components else ""
            if p == self.one_se_n_components:
                mark = "  fewest within one s.e." + (", best" if mark else "")
            lines.append(f"{p:>12}  {error:>8.4f}  {spread:>8.4f}{mark}")
        return "\n".join(lines)


def errors_by_queries(
    ranker: ComponentRanker,
    X: Any,
    tasks: list[Task],
    alphas: list[float],
    qid: Any,
    limit: Count,
) -> list[ComponentErrors]:
    """Every query held out of the weights, exactly; the components are those of all rows."""
    groups = QueryGroups.of(qid, X.shape[0])
    _check_scores(tasks, "leave_query_out")
    if groups.n_groups < 2:
        raise DataError(
            'cv="leave_query_out" needs the queries of rows, at least two: use '
            'cv="leave_pair_out" for one global ranking, or a number of folds.'
        )
    y = labels(tasks)
    check_outputs(y, groups.codes)
    predictions = hold_out_queries(ranker, X, tasks, alphas, qid, limit, list(groups))
    found = to_host(predictions)
    return [by_query_errors(y, f, groups.codes, "leave-query-out") for f in found]


def hold_out_queries(
    ranker: ComponentRanker,
    X: Any,
    tasks: list[Task],
    alphas: Sequence[float],
    qid: Any,
    limit: Count,
    folds: Sequence[Index],
) -> Array:
    """Predictions for folds of queries, shape (n_alphas, n_rows, p, n_outputs)."""
    F, eigenvalues = _fixed_components(ranker, X, qid, limit)
    by_task = []
    for task in tasks:
        on = backend_of(F)
        y = on.array(task.y).reshape(len(F), -1)
        noise = rounding_noise(eigenvalues, task.graph)
        if ranker._pointwise:
            with_ones = on.xp.column_stack((on.zeros(len(F)) + 1.0, F))
            noise = np.concatenate(([0.0], noise))
            found = component_folds(with_ones, with_ones, y, folds, alphas, noise, free=1)
        else:
            Z, t = task.graph.root(F), task.graph.root(y)
            found = component_folds(F, Z, t, folds, alphas, noise)
        by_task.append(found)
    return on.array(on.xp.concatenate(by_task, axis=3))


def errors_by_row_pairs(
    ranker: ComponentRanker,
    X: Any,
    tasks: list[Task],
    alphas: list[float],
    qid: Any,
    limit: Count,
) -> list[ComponentErrors]:
    """Every pair of rows of one ranking held out of the weights, exactly."""
    groups, m = QueryGroups.of(qid, X.shape[0]), X.shape[0]
    ties = "include" if ranker._pointwise else ranker.ties
    _check_scores(tasks, "leave_pair_out")
    if groups.n_groups > 1 or ties != "include":
        other = 'cv="leave_query_out", or ' if groups.n_groups > 1 else ""
        counted = "" if ranker._pointwise else ', and ties="include"'
        raise DataError(
            f'cv="leave_pair_out" is for one global ranking{counted}: use {other}a number of folds.'
        )
    if m < 6:
        raise DataError(f"Holding out pairs of {m} rows leaves too few: 6 are needed.")
    y, results = labels(tasks), []
    check_outputs(y, groups.codes)
    at_most = m - 4 if limit.number is None else min(limit.number, m - 4)
    F, eigenvalues = _fixed_components(ranker, X, qid, Count(at_most, strict=False))
    targets = backend_of(F).array(y)
    for alpha in alphas:
        left = m - 2
        weight = 1.0
        if not ranker._pointwise:
            n_pairs = left * (left - 1) // 2
            weight = left * float(pair_weight(ranker.weighting, left, n_pairs))
        found = component_pair_losses(F, eigenvalues, targets, alpha / weight)
        results.append(_by_pairs([(to_host(a), to_host(b)) for a, b in found]))
    return results


def _check_scores(tasks: list[Task], cv: str) -> None:
    if tasks[0].y is None:
        raise DataError(
            f'cv="{cv}" is for scores, and fit_pairs has comparisons: use a number of folds.'
        )


def check_outputs(y: Array, queries: Index) -> None:
    """Every output has rows of one query (or fold) whose order can be wrong."""
    groups = QueryGroups.of(queries, len(y))
    for k, column in enumerate(y.T):
        if len(queries_with_pairs(column[:, None], groups)) == 0:
            which = f"of output {k} " if y.shape[1] > 1 else ""
            raise DataError(
                f'n_components="cv" compares held-out rows, and no labels {which}that could be '
                "compared differ. Give n_components as a number, or as a share of the variance."
            )


def labels(tasks: list[Task]) -> Array:
    """Scores of all tasks, a column for each output."""
    return np.column_stack([np.asarray(to_host(task.y)) for task in tasks])


def _fixed_components(
    ranker: ComponentRanker, X: Any, qid: Any, limit: Count
) -> tuple[Array, Array]:
    """Coordinates of all rows, and eigenvalues."""
    if ranker.selection != "leading":
        raise ParameterError(
            'Exact hold-outs keep the components, and selection="spectral" has others for every '
            "set of pairs: use a number of folds, which refit."
        )
    projected = ranker._project(X, qid, limit)
    return ranker._features(X, projected), projected.components.eigenvalues


def queries_with_pairs(y: Array, groups: QueryGroups) -> Index:
    """Those in which some output has different labels, and an order can be wrong."""
    differs = [bool((y[rows] != y[rows[0]]).any()) for rows in groups]
    return np.flatnonzero(differs)


def by_query_errors(y: Array, predictions: Array, queries: Index, method: str) -> ComponentErrors:
    """Disagreement for every number of components; predictions have shape (rows, p, outputs)."""
    from rankwise.metrics import disagreement_error  # compiles loops: only where it is used

    p = predictions.shape[1]
    error, spread = np.empty(p), np.empty(p)
    for k in range(p):
        by_output = [
            disagreement_error(y[:, o], predictions[:, k, o], queries, per_query=True).values
            for o in range(y.shape[1])
        ]
        error[k] = np.mean([values.mean() for values in by_output])
        spread[k] = np.mean([standard_error(values) for values in by_output])
    return ComponentErrors(np.arange(1, p + 1), error, spread, method)


def _by_pairs(found: list[tuple[Array, Array]]) -> ComponentErrors:
    """As leave-pair-out of one ranking: each pair is counted at both of its rows."""
    error, spread = np.empty(len(found)), np.empty(len(found))
    for k, (loss, compared) in enumerate(found):
        total = compared.sum(axis=0)
        share = loss.sum(axis=0) / total
        excess = loss - share * compared
        error[k] = share.mean()
        spread[k] = (2.0 * np.sqrt((excess**2).sum(axis=0)) / total).mean()
    return ComponentErrors(np.arange(1, len(found) + 1), error, spread, "leave-pair-out")


def standard_error(values: Array) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")
