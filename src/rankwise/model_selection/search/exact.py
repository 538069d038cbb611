"""Exact hold-outs of a search: one call for all alphas."""

from __future__ import annotations

from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import get_tags

from rankwise.backends.arrays import Array, is_sparse, to_host
from rankwise.errors import ParameterError
from rankwise.estimators.least_squares.base import LeastSquaresRanker
from rankwise.estimators.least_squares.rankrls import RLS, RankRLS
from rankwise.metrics.ranking_scorer import RankingScorer
from rankwise.model_selection._held_out_pairs import leave_pair_out
from rankwise.model_selection._held_out_queries import k_fold, leave_query_out
from rankwise.model_selection.search.labelled_rows import LabelledRows, take
from rankwise.model_selection.search.refits import Predicted
from rankwise.model_selection.search.splits import Splits

FEW_SPLITS = 20  # of wide rows, refitted; with more, exact hold-outs are tried
PAIR_METRICS = ("disagreement", "concordance", "auc")


class PairScores(NamedTuple):
    """Scores of held-out pairs for each alpha, their standard errors, and the time in seconds.

    And what was computed from all rows.
    """

    score: Array
    standard_error: Array
    fit_time: float
    shared: tuple[str, ...]


def has_shortcut(
    estimator: Any, alphas: list[float] | None, splits: Splits, data: LabelledRows
) -> bool:
    """Whether exact hold-outs replace refits: if alphas are above 0 and splits are not listed."""
    possible = alphas is not None and isinstance(estimator, LeastSquaresRanker)
    possible = possible and estimator.exact_search
    possible = possible and not (len(splits) <= FEW_SPLITS and is_too_wide(estimator, data.X))
    return possible and splits.trains is None and min(alphas or [0]) > 0


def is_too_wide(estimator: Any, X: Any) -> bool:
    """Whether sparse rows are fitted by conjugate gradients, which have no exact hold-outs."""
    if not (isinstance(estimator, RankRLS | RLS) and is_sparse(X)):
        return False
    space = estimator.make_space(X.shape[1])
    return space.form(X) == "cg"


def exact(
    estimator: Any,
    alphas: list[float] | None,
    data: LabelledRows,
    splits: Splits,
    scorer: RankingScorer,
) -> Predicted:
    """Predictions for ``splits.rows``, shape (n_alphas, n_rows, ...).

    Without alphas, those of the estimator: its own, or, if it is "auto", a grid that follows the
    scale of the data.
    """
    start = perf_counter()
    X, y, qid, weights = data.X, data.y, data.qid, data.query_weight
    if splits.order is not None:  # rows are assigned to folds in this order
        pairwise = get_tags(estimator).input_tags.pairwise
        X = take(X, splits.order, splits.order if pairwise else None)
        y, qid = y[splits.order], data.queries(splits.order)
        weights = data.weights(splits.order)
    # The scores by split are computed later. If `scoring` is a function, a metric that is defined
    # for any labels takes its place here.
    metric = scorer.scoring if isinstance(scorer.scoring, str) else "map"
    if qid is None:
        assert splits.n_folds is not None  # checked by make_splits
        found = k_fold(estimator, X, y, n_splits=splits.n_folds, alphas=alphas, metric=metric)
    else:
        found = leave_query_out(
            estimator, X, y, qid=qid, alphas=alphas, metric=metric, n_splits=splits.n_folds,
            query_weight=weights,
        )  # fmt: skip
    scores = to_host(found.predictions)
    if splits.order is not None:
        scores = scores[:, np.argsort(splits.order)]
    return Predicted(
        scores[:, splits.rows], perf_counter() - start, 0.0, found.alphas, found.shared
    )


def check_pair_search(estimator: Any, scorer: RankingScorer) -> None:
    """Pairs are held out exactly, without refits, and only their order can be scored."""
    if not isinstance(estimator, LeastSquaresRanker):
        raise ParameterError(
            'cv="leave_pair_out" needs a least-squares ranker, such as RankRLS or RLS: got '
            f"{type(estimator).__name__}, which would be refitted for every pair. Use a number of "
            "folds, as in cv=5."
        )
    if estimator.alpha == "auto":
        raise ParameterError(
            'cv="leave_pair_out" needs values of alpha, as in {"alpha": [0.1, 1.0, 10.0]}: '
            'alpha="auto" would be chosen again for every pair. Use a number of folds, as in cv=5.'
        )
    if scorer.scoring not in PAIR_METRICS:
        raise ParameterError(
            f'cv="leave_pair_out" scores pairs: scoring must be one of {", ".join(PAIR_METRICS)}, '
            f"got {scorer.scoring!r}."
        )


def exact_pairs(
    estimator: Any, alphas: list[float], data: LabelledRows, scorer: RankingScorer
) -> PairScores:
    """Leave-pair-out scores, averaged over outputs."""
    start = perf_counter()
    found = leave_pair_out(estimator, data.X, data.y, qid=data.qid, alphas=alphas)
    error, standard_error = (
        values.reshape(len(alphas), -1).mean(axis=1)
        for values in (found.error, found.standard_error)
    )
    score = 0.0 - error if scorer.negated else 1.0 - error
    return PairScores(score, standard_error, perf_counter() - start, found.shared)
