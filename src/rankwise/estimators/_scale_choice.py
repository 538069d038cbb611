"""The choice between scaling within queries and over all rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from rankwise.backends.arrays import Array, Index
from rankwise.backends.dispatch import as_given
from rankwise.errors import DataError
from rankwise.graph import QueryGroups
from rankwise.problem.fold_sums import query_hash
from rankwise.scaling import ColumnStandard

WITHIN_QUERIES = "query-minmax"
SAMPLE_ROWS = 1000  # of whole queries, on which both are tried
SAMPLE_LANDMARKS = 100


def better_scale(ranker: Any, X: Any, y: Array, groups: QueryGroups) -> str:
    """The scaling, within queries or over all rows, with the better held-out score.

    Both are tried on a sample of whole queries, each with its own best alpha. The sample depends
    on the query ids, not on their order.
    """
    rows = _sample(groups)
    some = X if len(rows) == groups.n_rows else as_given(X)[rows]
    gains = {
        name: _held_out_gain(ranker, name, some, y[rows], groups, rows)
        for name in (WITHIN_QUERIES, ColumnStandard.name)
    }
    return max(gains, key=lambda name: gains[name])


def _held_out_gain(
    ranker: Any, name: str, X: Any, y: Array, groups: QueryGroups, rows: Index
) -> float:
    from rankwise.holdout.alpha_choice import choose_alpha, settled  # compiles loops

    trial = clone(ranker).set_params(scale=name)
    if hasattr(trial, "n_landmarks"):
        most = min(SAMPLE_LANDMARKS, X.shape[0])
        number = trial.n_landmarks if isinstance(trial.n_landmarks, int) else most
        trial.set_params(landmarks="random", n_landmarks=min(number, most), random_state=0)
    codes = groups.codes[rows]
    weight = None if groups.weights is None else groups.weights[codes]
    try:
        problem = trial.make_problem(X, y, qid=codes, query_weight=weight)
        curve = choose_alpha(settled(problem)).curve
    except DataError:  # nothing to learn from in the sample
        curve = None
    if curve is None:
        return -np.inf
    best = float(curve.score[curve.best_index])
    return best if curve.greater_is_better else -best


def _sample(groups: QueryGroups) -> Index:
    """The rows of some queries, at least two."""
    if groups.n_rows <= SAMPLE_ROWS:
        return np.arange(groups.n_rows)
    by_hash = np.argsort([query_hash(name) for name in groups.names], kind="stable")
    fits = np.cumsum(groups.sizes[by_hash]) <= SAMPLE_ROWS
    chosen = by_hash[: max(2, int(np.count_nonzero(fits)))]
    return np.flatnonzero(np.isin(groups.codes, chosen))
