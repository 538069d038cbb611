"""Hold-outs of candidates on the same folds."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.base import clone

from rankwise.auto.candidates import Candidate
from rankwise.backends.arrays import Array, Index
from rankwise.boosted.boosted_ranker import BoostedRanker
from rankwise.errors import DataError
from rankwise.estimators.least_squares.base import LeastSquaresRanker
from rankwise.metrics.ranking_scorer import RankingScorer
from rankwise.model_selection.search.exact import exact
from rankwise.model_selection.search.labelled_rows import LabelledRows
from rankwise.model_selection.search.refits import refit
from rankwise.model_selection.search.splits import Splits

QUERY_FOLDS = 10
REFIT_FOLDS = 5  # for rankers without exact hold-outs
ROW_FOLDS = 5  # of one global ranking


@dataclass(frozen=True, eq=False)
class CandidateTrial:
    """Held-out predictions of a candidate, with a row for each of its settings.

    A setting is an alpha of a least-squares ranker or a number of trees. It is empty, and there is
    one row, for other rankers. `shared` names what was computed from all rows.
    """

    candidate: Candidate
    settings: list[dict[str, float]]
    predictions: Array
    seconds: float
    shared: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.predictions)

    def ranker(self, k: int) -> Any:
        """The ranker with the k-th setting, not fitted."""
        return clone(self.candidate.ranker).set_params(**self.settings[k])


@dataclass(frozen=True, eq=False)
class Folds:
    """The folds for exact hold-outs and for refits, and the rows that are compared.

    `groups` are the queries or, for one global ranking, its folds: scores of different folds have
    different offsets.
    """

    exact: Splits
    refits: Splits
    groups: Index
    unit: str


def make_folds(data: LabelledRows) -> Folds:
    """Folds of whole queries, or of the rows of one global ranking.

    Queries without two different labels teach nothing: they are dealt out after the others, so that
    every fold leaves something to learn from.
    """
    if data.groups.n_groups == 1:
        n_rows = len(data)
        if n_rows < 4:
            raise DataError(f"AutoRanker needs at least 4 rows, to hold some out: got {n_rows}.")
        rows = np.arange(n_rows)
        splits = _dealt(rows, rows, min(ROW_FOLDS, n_rows // 2))
        return Folds(splits, splits, rows % len(splits), "folds")
    groups, learnable = data.groups, learnable_queries(data)
    n_learnable = len(learnable)
    if n_learnable < 2:
        raise DataError(
            "AutoRanker needs at least two queries with different labels, to hold one out: got "
            f"{n_learnable} of {groups.n_groups}. Use RankRLS, or add queries."
        )
    others = np.setdiff1d(np.arange(groups.n_groups), learnable)
    place = np.empty(groups.n_groups, dtype=np.intp)
    place[np.concatenate([learnable, others])] = np.arange(groups.n_groups)
    exact, refits = (
        _dealt(place, groups.codes, min(n_learnable, most)) for most in (QUERY_FOLDS, REFIT_FOLDS)
    )
    return Folds(exact, refits, groups.codes, "queries")


def learnable_queries(data: LabelledRows) -> Index:
    """The queries, by number, that have different labels."""
    groups, labels = data.groups, data.y[data.groups.order]
    starts = groups.indptr[:-1]
    return np.flatnonzero(np.maximum.reduceat(labels, starts) > np.minimum.reduceat(labels, starts))


def _dealt(place: Any, codes: Any, n_folds: int) -> Splits:
    """Units (queries or rows) dealt out to folds by their place in a line."""
    fold = (place % n_folds)[codes]
    order = np.argsort(place[codes], kind="stable")
    return Splits([np.flatnonzero(fold == k) for k in range(n_folds)], None, n_folds, order)


def hold_out(candidate: Candidate, data: LabelledRows, folds: Folds, metric: str) -> CandidateTrial:
    """Predictions for all rows by rankers that were trained without their fold."""
    start = perf_counter()
    ranker = candidate.ranker
    settings: list[dict[str, float]] = [{}]
    shared: tuple[str, ...] = ()
    if isinstance(ranker, LeastSquaresRanker) and ranker.exact_search and ranker.alpha != 0:
        splits = folds.exact
        held_out = exact(ranker, None, data, splits, RankingScorer.of(metric))
        assert held_out.alphas is not None  # of a least-squares ranker
        # The largest alpha first: the first of equal scores is the best.
        order = np.argsort(-held_out.alphas)
        found, shared = held_out.scores[order], held_out.shared
        settings = [{"alpha": alpha} for alpha in held_out.alphas[order].tolist()]
    elif isinstance(ranker, BoostedRanker) and ranker.n_estimators == "auto":
        splits = folds.refits
        fold = np.empty(len(data), dtype=np.intp)
        fold[splits.rows] = splits.split_of_row
        trees = clone(ranker).set_params(metric=metric)
        numbers, staged = trees.held_out_predictions(data.X, data.y, fold=fold, qid=data.qid)
        found = staged[:, splits.rows]
        settings = [{"n_estimators": number} for number in numbers.tolist()]
    else:
        splits = folds.refits
        parts = [refit(ranker, None, data, splits, k).scores for k in range(len(splits))]
        found = np.concatenate(parts, axis=1)
    if found.ndim != 2 or not np.isfinite(found).all():
        raise DataError(f"The scores of {candidate.name!r} must be one finite number for each row.")
    predictions = np.empty_like(found)
    predictions[:, splits.rows] = found
    return CandidateTrial(candidate, settings, predictions, perf_counter() - start, shared)
