"""How many components: the parameter `n_components`, and choosing it by held-out pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from sklearn.base import clone

from rankwise.backends.arrays import Array, Index
from rankwise.errors import DataError, ParameterError
from rankwise.estimators.least_squares import Task
from rankwise.graph import Groups, PreferenceGraph
from rankwise.graph.edges import EdgeGraph
from rankwise.graph.grouped import pair_weight
from rankwise.holdout.component_folds import component_folds, component_pair_losses
from rankwise.solvers.component_path import rounding_noise
from rankwise.solvers.kpca import Count

RULES = ("one_se", "best")

if TYPE_CHECKING:
    from rankwise.estimators.components import ComponentRanker


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
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if value is not None and not (whole and value >= 1):
        raise ParameterError(
            f"max_components must be a whole number above 0, or None: got {value!r}."
        )
    return None if value is None else int(value)


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


def errors_by_folds(
    ranker: ComponentRanker,
    X: Any,
    tasks: list[Task],
    alphas: list[float],
    qid: Any,
    limit: Count,
) -> list[ComponentErrors]:
    """Refits without one fold after the other, each with components of its own."""
    if tasks[0].y is None:
        return _errors_by_comparisons(ranker, X, tasks[0], alphas, limit)
    y, groups = labels(tasks), Groups.of(qid, X.shape[0])
    by_query = groups.n_groups > 1
    n_folds = _check_folds(
        ranker.cv, groups.n_groups if by_query else len(y) // 2, "queries" if by_query else "rows"
    )
    fold = (groups.codes if by_query else np.arange(len(y))) % n_folds
    held_out: list[list[Array]] = [[] for _ in alphas]
    tests = [np.flatnonzero(fold == k) for k in range(n_folds)]
    ids = None if qid is None else np.asarray(qid).ravel()
    for test in tests:
        train = np.setdiff1d(np.arange(len(y)), test)
        worker = clone(ranker)
        targets = y[train] if tasks[0].n_axes == 2 else y[train, 0]
        inner = worker._checked_tasks(targets, None if ids is None else ids[train])
        for found, scores in zip(
            held_out, _refit(worker, X, train, test, inner, alphas, qid, limit), strict=True
        ):
            found.append(scores)
    queries = groups.codes if by_query else fold
    rows = np.concatenate(tests)
    method = f"{n_folds} folds, refitted"
    return [_by_query(y[rows], _stacked(found), queries[rows], method) for found in held_out]


def errors_by_queries(
    ranker: ComponentRanker,
    X: Any,
    tasks: list[Task],
    alphas: list[float],
    qid: Any,
    limit: Count,
) -> list[ComponentErrors]:
    """Every query held out of the weights, exactly; the components are those of all rows."""
    groups = Groups.of(qid, X.shape[0])
    if tasks[0].y is None or groups.n_groups < 2:
        raise DataError(
            'cv="leave_query_out" needs scores and the queries of rows, at least two: use '
            'cv="leave_pair_out" for one global ranking, or a number of folds.'
        )
    predictions = hold_out_queries(ranker, X, tasks, alphas, qid, limit, list(groups))
    y = labels(tasks)
    return [_by_query(y, f, groups.codes, "leave-query-out") for f in predictions]


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
        y = np.asarray(task.y, dtype=np.float64).reshape(len(F), -1)
        noise = rounding_noise(eigenvalues, task.graph)
        if ranker._pointwise:
            with_ones = np.column_stack((np.ones(len(F)), F))
            noise = np.concatenate(([0.0], noise))
            found = component_folds(with_ones, with_ones, y, folds, alphas, noise, free=1)
        else:
            Z, t = task.graph.root(F), task.graph.root(y)
            found = component_folds(F, Z, t, folds, alphas, noise)
        by_task.append(found)
    return np.concatenate(by_task, axis=3)


def errors_by_row_pairs(
    ranker: ComponentRanker,
    X: Any,
    tasks: list[Task],
    alphas: list[float],
    qid: Any,
    limit: Count,
) -> list[ComponentErrors]:
    """Every pair of rows of one ranking held out of the weights, exactly."""
    groups, m = Groups.of(qid, X.shape[0]), X.shape[0]
    ties = "include" if ranker._pointwise else ranker.ties
    if tasks[0].y is None or groups.n_groups > 1 or ties != "include":
        raise DataError(
            'cv="leave_pair_out" is for scores in one global ranking, and ties="include": use '
            'cv="leave_query_out", or a number of folds.'
        )
    if m < 6:
        raise DataError(f"Holding out pairs of {m} rows leaves too few: 6 are needed.")
    at_most = m - 4 if limit.number is None else min(limit.number, m - 4)
    F, eigenvalues = _fixed_components(ranker, X, qid, Count(at_most, strict=False))
    y, results = labels(tasks), []
    for alpha in alphas:
        left = m - 2
        weight = 1.0
        if not ranker._pointwise:
            n_pairs = left * (left - 1) // 2
            weight = left * float(pair_weight(ranker.weighting, left, n_pairs))
        found = component_pair_losses(F, eigenvalues, y, alpha / weight)
        results.append(_by_pairs(list(found)))
    return results


def labels(tasks: list[Task]) -> Array:
    """Scores of all tasks, a column for each output."""
    return np.column_stack([np.asarray(task.y) for task in tasks])


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
    features = projected.features
    if features is None:
        features = ranker._load(X, projected.components)(slice(None))
    return np.ascontiguousarray(features), projected.components.eigenvalues


def _errors_by_comparisons(
    ranker: ComponentRanker, X: Any, task: Task, alphas: list[float], limit: Count
) -> list[ComponentErrors]:
    """Folds of comparisons; rows that only these know are left out of the components as well."""
    graph = cast(EdgeGraph, task.graph)
    n = len(graph.first)
    n_folds = _check_folds(ranker.cv, n, "comparisons")
    margin = graph.margin.reshape(n, -1)
    fold = np.arange(n) % n_folds
    errors: list[list[Array]] = [[] for _ in alphas]
    for k in range(n_folds):
        test, train = np.flatnonzero(fold == k), np.flatnonzero(fold != k)
        known = np.union1d(graph.first[train], graph.second[train])
        hidden = np.setdiff1d(np.union1d(graph.first[test], graph.second[test]), known)
        rows = np.setdiff1d(np.arange(graph.n_rows), hidden)
        place = np.searchsorted(rows, np.column_stack((graph.first, graph.second))[train])
        inner = PreferenceGraph.from_pairs(
            len(rows), place, graph.margin[train], graph.weight[train]
        )
        needed, where = np.unique(
            np.concatenate((graph.first[test], graph.second[test])), return_inverse=True
        )
        first, second = np.split(where, 2)
        found = _refit(clone(ranker), X, rows, needed, [Task(inner, None)], alphas, None, limit)
        weight = graph.weight[test]
        for a, scores in enumerate(found):
            gaps = (scores[first] - scores[second]) * np.sign(margin[test])[:, None]
            told = weight[:, None] * (margin[test] != 0)
            wrong = np.where(gaps == 0, 0.5, gaps < 0) * told[:, None]
            with np.errstate(invalid="ignore"):  # a fold of margins 0 alone says nothing
                errors[a].append((wrong.sum(axis=0) / told.sum(axis=0)).mean(axis=1))
    method = f"{n_folds} folds of comparisons, refitted"
    return [_over_folds(found, method) for found in errors]


def _refit(
    worker: ComponentRanker,
    X: Any,
    train: Index,
    test: Index,
    tasks: list[Task],
    alphas: list[float],
    qid: Any,
    limit: Count,
) -> list[Array]:
    """Scores of test rows for each alpha, shape (n_test, p, n_outputs)."""
    inside, outside = X[train], X[test]
    if worker.kernel == "precomputed":
        inside, outside = inside[:, train], outside[:, train]
    queries = None if qid is None else np.asarray(qid).ravel()[train]
    projected, solved = worker._fit_components(inside, tasks, alphas, queries, limit)
    worker._settle(projected.components)
    F = worker._coordinates(outside)
    scores = [np.tensordot(F, path.weights, axes=1) for path in solved]
    return [f.reshape(len(test), f.shape[1], -1) for f in scores]


def _check_folds(cv: Any, most: int, what: str) -> int:
    if not isinstance(cv, (int, np.integer)) or isinstance(cv, bool) or cv < 2:
        raise ParameterError(
            'cv must be a number of folds, 2 or more, "leave_query_out" or "leave_pair_out": got '
            f"{cv!r}."
        )
    if most < 2:
        raise DataError(
            f'n_components="cv" needs more {what} to hold out: give n_components as a number, or '
            "as a share of the variance."
        )
    return min(int(cv), most)


def _stacked(folds: list[Array]) -> Array:
    """Scores of all folds, for as many components as all of them have."""
    p = min(scores.shape[1] for scores in folds)
    return np.concatenate([scores[:, :p] for scores in folds])


def _by_query(y: Array, predictions: Array, queries: Index, method: str) -> ComponentErrors:
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
        spread[k] = np.mean([_standard_error(values) for values in by_output])
    return ComponentErrors(np.arange(1, p + 1), error, spread, method)


def _by_pairs(found: list[tuple[Array, Array]]) -> ComponentErrors:
    """As leave-pair-out of one ranking: each pair is counted at both of its rows."""
    error, spread = np.empty(len(found)), np.empty(len(found))
    for k, (loss, compared) in enumerate(found):
        total = compared.sum(axis=0)
        if not total.all():
            raise DataError("No pair of rows has different labels: there is nothing to hold out.")
        share = loss.sum(axis=0) / total
        excess = loss - share * compared
        error[k] = share.mean()
        spread[k] = (2.0 * np.sqrt((excess**2).sum(axis=0)) / total).mean()
    return ComponentErrors(np.arange(1, len(found) + 1), error, spread, "leave-pair-out")


def _over_folds(folds: list[Array], method: str) -> ComponentErrors:
    p = min(len(errors) for errors in folds)
    values = np.array([errors[:p] for errors in folds])
    values = values[np.isfinite(values).all(axis=1)]
    if len(values) == 0:
        raise DataError("All margins are 0: there is nothing to hold out.")
    spread = np.array([_standard_error(column) for column in values.T])
    return ComponentErrors(np.arange(1, p + 1), values.mean(axis=0), spread, method)


def _standard_error(values: Array) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")
