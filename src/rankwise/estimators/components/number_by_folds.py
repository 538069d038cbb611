"""Choosing the number of components by folds: refits with components of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from sklearn.base import clone

from rankwise.backends.arrays import Array, Index, to_host
from rankwise.backends.dispatch import backend_of
from rankwise.errors import DataError
from rankwise.estimators._checks import check_has_pairs
from rankwise.estimators._landmark_choice import LandmarkChoice
from rankwise.estimators.components.number import (
    ComponentErrors,
    by_query_errors,
    check_outputs,
    labels,
    queries_with_pairs,
    standard_error,
)
from rankwise.estimators.least_squares.base import Task
from rankwise.graph import PreferenceGraph, QueryGroups
from rankwise.graph.comparison_graph import ComparisonGraph
from rankwise.solvers.kpca import Count

if TYPE_CHECKING:
    from rankwise.estimators.components.component_ranker import ComponentRanker


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
    y, groups = labels(tasks), QueryGroups.of(qid, X.shape[0])
    by_query = groups.n_groups > 1
    if by_query:
        told = queries_with_pairs(y, groups)
        n_folds = _n_folds(ranker.cv, len(told), "queries whose rows have different labels")
        fold_of = np.full(groups.n_groups, -1)  # the others always train
        fold_of[told] = np.arange(len(told)) % n_folds
        fold = fold_of[groups.codes]
    else:
        n_folds = _n_folds(ranker.cv, len(y) // 2, "rows")
        fold = dealt(len(y), n_folds)
    queries = groups.codes if by_query else fold
    check_outputs(y, queries)
    held_out: list[list[Array]] = [[] for _ in alphas]
    tests = [np.flatnonzero(fold == k) for k in range(n_folds)]
    ids = None if qid is None else np.asarray(qid).ravel()
    for test in tests:
        train = np.setdiff1d(np.arange(len(y)), test)
        worker = clone(ranker)
        several = len(tasks) > 1 or tasks[0].n_axes == 2
        targets = backend_of(X).array(y[train] if several else y[train, 0])
        with _said_of_a_fold(n_folds):
            inner = worker._checked_tasks(targets, None if ids is None else ids[train])
            by_alpha = _refit(worker, X, train, test, inner, alphas, qid, limit)
        for found, scores in zip(held_out, by_alpha, strict=True):
            found.append(scores)
    rows, method = np.concatenate(tests), f"{n_folds} folds, refitted"
    return [by_query_errors(y[rows], _stacked(found), queries[rows], method) for found in held_out]


def dealt(n: int, n_folds: int) -> Index:
    """The fold of each of n things, in an order that no period of theirs can follow."""
    fold = np.empty(n, dtype=np.intp)
    fold[np.random.default_rng(0).permutation(n)] = np.arange(n) % n_folds
    return fold


def _errors_by_comparisons(
    ranker: ComponentRanker, X: Any, task: Task, alphas: list[float], limit: Count
) -> list[ComponentErrors]:
    """Folds of comparisons; rows that only these know are left out of the components as well."""
    graph = cast(ComparisonGraph, task.graph)
    n = len(graph.first)
    n_folds = _n_folds(ranker.cv, n, "comparisons")
    margin = graph.margin.reshape(n, -1)
    fold = dealt(n, n_folds)
    errors: list[list[Array]] = [[] for _ in alphas]
    for k in range(n_folds):
        test, train = np.flatnonzero(fold == k), np.flatnonzero(fold != k)
        known = np.union1d(graph.first[train], graph.second[train])
        hidden = np.setdiff1d(np.union1d(graph.first[test], graph.second[test]), known)
        rows = np.setdiff1d(np.arange(graph.n_rows), hidden)
        place = np.searchsorted(rows, np.column_stack((graph.first, graph.second))[train])
        needed, where = np.unique(
            np.concatenate((graph.first[test], graph.second[test])), return_inverse=True
        )
        first, second = np.split(where, 2)
        with _said_of_a_fold(n_folds):
            inner = PreferenceGraph.from_pairs(
                len(rows), place, graph.margin[train], graph.weight[train]
            )
            check_has_pairs(inner.n_pairs, inner.n_rows)
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
    _keep_landmarks_of(worker, train, X.shape[0])
    inside, outside = _part(X, train), _part(X, test)
    if worker.kernel == "precomputed":
        inside, outside = inside[:, train], outside[:, train]
    queries = None if qid is None else np.asarray(qid).ravel()[train]
    projected, solved = worker._fit_components(inside, tasks, alphas, queries, limit)
    worker._settle(projected.components)
    F = worker._coordinates(outside)
    with np.errstate(over="ignore", invalid="ignore"):  # said below, with a way out
        scores = [to_host(backend_of(F).xp.tensordot(F, path.weights, 1)) for path in solved]
    if not all(np.isfinite(f).all() for f in scores):
        raise DataError("Scores of held-out rows overflow. Scale the labels.")
    return [f.reshape(len(test), f.shape[1], -1) for f in scores]


def _part(X: Any, rows: Index) -> Any:
    """Some rows, where X is or travels to."""
    return X[rows] if backend_of(X).is_host else backend_of(X).rows(X, rows)


def _keep_landmarks_of(worker: ComponentRanker, train: Index, n_rows: int) -> None:
    """Row numbers are those of all rows: keep the ones that train, as rows of the training part."""
    if worker.landmarks is None and worker.n_landmarks is None:
        return
    method = "random" if worker.landmarks is None else worker.landmarks
    choice = LandmarkChoice.of(method, worker.n_landmarks).for_part(train, n_rows)
    if choice.rows is not None:
        worker.set_params(landmarks=choice.rows, n_landmarks=None)
    elif choice.points is None:
        worker.set_params(n_landmarks=choice.number)


@contextmanager
def _said_of_a_fold(n_folds: int) -> Iterator[None]:
    """What a refit cannot do, it says of rows that the user has never seen."""
    try:
        yield
    except DataError as error:
        raise DataError(
            f'n_components="cv", without one of {n_folds} folds: {error} If that is not so of all '
            "rows together, give n_components as a number, or fewer folds."
        ) from error


def _n_folds(cv: int, most: int, what: str) -> int:
    """As many folds as asked for, or as there are things to deal."""
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


def _over_folds(folds: list[Array], method: str) -> ComponentErrors:
    p = min(len(errors) for errors in folds)
    values = np.array([errors[:p] for errors in folds])
    values = values[np.isfinite(values).all(axis=1)]
    if len(values) == 0:
        raise DataError("All margins are 0: there is nothing to hold out.")
    spread = np.array([standard_error(column) for column in values.T])
    return ComponentErrors(np.arange(1, p + 1), values.mean(axis=0), spread, method)
