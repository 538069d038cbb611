"""The candidates of an AutoRanker, and hold-outs of them on the same folds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.base import clone

from rankwise.backends.arrays import Array, Index, is_sparse
from rankwise.boosted.boosted_ranker import BoostedRanker
from rankwise.errors import DataError, ParameterError
from rankwise.estimators.least_squares.additive_rankrls import AdditiveRankRLS
from rankwise.estimators.least_squares.base import LeastSquaresRanker
from rankwise.estimators.least_squares.rankrls import RankRLS
from rankwise.estimators.least_squares.sparse_rankrls import SparseRankRLS
from rankwise.graph import QueryGroups
from rankwise.metrics.ranking_scorer import RankingScorer
from rankwise.model_selection.search.exact import exact
from rankwise.model_selection.search.labelled_rows import LabelledRows
from rankwise.model_selection.search.refits import refit
from rankwise.model_selection.search.splits import Splits
from rankwise.scaling import (
    QUERY_SCALINGS,
    ColumnStandard,
    ColumnStatistics,
    QueryMinMax,
    QueryRank,
)

KINDS = ("linear", "additive", "kernel")
LANDMARKS = 200
SAMPLE = 5000  # rows for the widths of kernels
# The width of a kernel: gamma times the sum over features of the variances (rbf), or of the
# standard deviations (laplacian), of the scaled rows.
WIDTHS = {"rbf": 0.15, "laplacian": 0.25}
OVERALL = ColumnStandard.name  # the scaling that does not know of queries
MANY_FEATURES = 1000  # for functions of single features


@dataclass(frozen=True)
class Candidate:
    """A ranker to try, under a name."""

    name: str
    ranker: Any

    def n_bytes(self, n_rows: int, n_features: int) -> int:
        """About the memory of its hold-out: rows in float64, and a copy of them."""
        ranker, columns = self.ranker, n_features
        if isinstance(ranker, AdditiveRankRLS):
            columns = n_features * ranker.n_ramps
        elif isinstance(ranker, SparseRankRLS):
            columns = min(n_rows, ranker.n_landmarks or 1000)
        elif isinstance(ranker, RankRLS) and (ranker.kernel != "linear" or n_features > n_rows):
            columns = n_rows
        return 2 * 8 * n_rows * columns


def default_candidates(
    kinds: Sequence[str], X: Any, groups: QueryGroups, rng: np.random.Generator
) -> Iterator[Candidate]:
    """Linear, additive and kernel rankers, each on several scalings; cheap ones first.

    Sparse rows, which most scalings would fill, are tried on two scalings, and without additive
    rankers.
    """
    sparse, n_features = is_sparse(X), X.shape[1]
    scalings = [*QUERY_SCALINGS, OVERALL] if groups.n_groups > 1 else [OVERALL]
    if sparse:
        scalings = [scale for scale in scalings if scale in (QueryMinMax.name, OVERALL)]
    if "linear" in kinds:
        for scale in scalings:
            yield Candidate(f"linear, {scale}", RankRLS(scale=scale))
    if "additive" in kinds and not sparse and n_features <= MANY_FEATURES:
        for scale in scalings:
            if scale == OVERALL:  # functions of one feature do not depend on its scale
                yield Candidate("additive", AdditiveRankRLS())
            else:
                yield Candidate(f"additive, {scale}", AdditiveRankRLS(scale=scale))
    if "kernel" in kinds:
        seed = int(rng.integers(2**31))
        for kernel, width in WIDTHS.items():
            for scale in scalings:
                if kernel == "laplacian" and scale not in (QueryRank.name, OVERALL):
                    continue
                deviations = scaled_deviations(X, groups, scale)
                total = np.square(deviations).sum() if kernel == "rbf" else deviations.sum()
                ranker = SparseRankRLS(
                    n_landmarks=min(LANDMARKS, X.shape[0]),
                    kernel=kernel,
                    gamma=float(width / (total or 1.0)),
                    scale=scale,
                    random_state=seed,
                )
                yield Candidate(f"{kernel}, {scale}", ranker)


def scaled_deviations(X: Any, groups: QueryGroups, scale: str) -> Any:
    """The standard deviation of each feature after scaling, from some whole queries."""
    if scale not in QUERY_SCALINGS:
        return np.ones(X.shape[1])
    n_queries = int(np.searchsorted(groups.indptr, SAMPLE))  # the first ones with so many rows
    rows = groups.order[: groups.indptr[min(n_queries, groups.n_groups)]]
    scaled = QUERY_SCALINGS[scale].scale(X[rows], groups.take(rows))
    return ColumnStatistics.of(scaled).deviation


def named(rankers: Sequence[Any]) -> Iterator[Candidate]:
    """The user's own rankers, under names that tell them apart."""
    seen: dict[str, int] = {}
    for ranker in rankers:
        if isinstance(ranker, type) or not (hasattr(ranker, "fit") and hasattr(ranker, "predict")):
            raise ParameterError(
                f"Each of candidates must be an object with fit and predict: got {ranker!r}."
            )
        name = " ".join(repr(ranker).split())
        seen[name] = seen.get(name, 0) + 1
        yield Candidate(name if seen[name] == 1 else f"{name} ({seen[name]})", ranker)


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
