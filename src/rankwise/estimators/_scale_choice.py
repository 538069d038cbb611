"""The choice of a scaling by held-out scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from rankwise.backends.arrays import Array, Index
from rankwise.backends.dispatch import as_given
from rankwise.errors import DataError
from rankwise.graph import QueryGroups
from rankwise.problem.fold_sums import query_hash
from rankwise.scaling import ColumnStandard, QueryRank

WITHIN_QUERIES = "query-minmax"
CLEARLY = 1.0  # standard errors of a score by which ranks must be better: they are a larger change
SAMPLE_ROWS = 1000  # of whole queries, on which both are tried
SAMPLE_LANDMARKS = 100


def better_scale(ranker: Any, X: Any, y: Array, groups: QueryGroups) -> str:
    """The scaling, within queries or over all rows, with the better held-out score.

    Ranks within queries are chosen if they are clearly better than both. All are tried on a sample
    of whole queries, each with its own best alpha. The sample depends on the query ids, not on
    their order.
    """
    rows, some = _sample(groups), as_given(X)
    some = some if len(rows) == groups.n_rows else some[rows]

    def tried(name: str) -> tuple[float, float]:
        return _held_out_gain(ranker, name, some, y[rows], groups, rows)

    gains = {name: tried(name)[0] for name in (WITHIN_QUERIES, ColumnStandard.name)}
    best = max(gains, key=lambda name: gains[name])
    by_ranks, error = tried(QueryRank.name)
    return QueryRank.name if by_ranks - CLEARLY * error > gains[best] else best


def _held_out_gain(
    ranker: Any, name: str, X: Any, y: Array, groups: QueryGroups, rows: Index
) -> tuple[float, float]:
    """The best held-out score, such that larger is better, and its standard error."""
    from rankwise.holdout.alpha_choice import choose_alpha  # compiles loops

    trial = clone(ranker).set_params(scale=name)
    if hasattr(trial, "n_landmarks"):
        most = min(SAMPLE_LANDMARKS, X.shape[0])
        number = trial.n_landmarks if isinstance(trial.n_landmarks, int) else most
        trial.set_params(landmarks="random", n_landmarks=min(number, most), random_state=0)
    codes = groups.codes[rows]
    weight = None if groups.weights is None else groups.weights[codes]
    of_rows = None if groups.row_weights is None else groups.row_weights[rows]
    try:
        problem = trial.make_problem(X, y, qid=codes, query_weight=weight, sample_weight=of_rows)
        curve = choose_alpha(problem.settled()).curve
    except DataError:  # nothing to learn from in the sample
        curve = None
    if curve is None:
        return -np.inf, 0.0
    k, sign = curve.best_index, 1.0 if curve.greater_is_better else -1.0
    return sign * float(curve.score[k]), float(curve.standard_error[k])


def _sample(groups: QueryGroups) -> Index:
    """The rows of some queries, at least two."""
    if groups.n_rows <= SAMPLE_ROWS:
        return np.arange(groups.n_rows)
    by_hash = np.argsort([query_hash(name) for name in groups.names], kind="stable")
    fits = np.cumsum(groups.sizes[by_hash]) <= SAMPLE_ROWS
    chosen = by_hash[: max(2, int(np.count_nonzero(fits)))]
    return np.flatnonzero(np.isin(groups.codes, chosen))
