"""Hold-outs of a search by the exact shortcuts: one call for all alphas."""

from __future__ import annotations

from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import get_tags

from rankwise.backends.arrays import Array, to_host
from rankwise.errors import ParameterError
from rankwise.estimators.least_squares.base import LeastSquaresRanker
from rankwise.model_selection._held_out_pairs import leave_pair_out
from rankwise.model_selection._held_out_queries import k_fold, leave_query_out
from rankwise.model_selection.search.labelled_rows import LabelledRows, take
from rankwise.model_selection.search.refits import Predicted
from rankwise.model_selection.search.scoring import RankingScorer
from rankwise.model_selection.search.splits import Splits

PAIR_METRICS = ("disagreement", "concordance", "auc")


class PairScores(NamedTuple):
    """Scores of pairs for each alpha, their standard errors, and the seconds they took."""

    score: Array
    standard_error: Array
    fit_time: float


def has_shortcut(estimator: Any, alphas: list[float] | None, splits: Splits) -> bool:
    """Whether refits are not needed: for alphas above 0 and splits that the user does not list."""
    known = alphas is not None and isinstance(estimator, LeastSquaresRanker)
    known = known and estimator.exact_search
    return known and splits.trains is None and min(alphas or [0]) > 0


def exact(
    estimator: Any, alphas: list[float], data: LabelledRows, splits: Splits, scorer: RankingScorer
) -> Predicted:
    """Predict the rows of ``splits.rows``, shape (n_alphas, n_rows, ...)."""
    start = perf_counter()
    X, y, qid = data.X, data.y, data.qid
    if splits.order is not None:  # dealt to folds in this order, rows come in this order
        pairwise = get_tags(estimator).input_tags.pairwise
        X = take(X, splits.order, splits.order if pairwise else None)
        y, qid = y[splits.order], data.queries(splits.order)
    # The metric is computed once more, by split; where it is a function, one that any labels
    # have stands in for it.
    metric = scorer.scoring if isinstance(scorer.scoring, str) else "map"
    if qid is None:
        assert splits.n_folds is not None  # make_splits has seen to it
        found = k_fold(estimator, X, y, n_splits=splits.n_folds, alphas=alphas, metric=metric)
    else:
        found = leave_query_out(
            estimator, X, y, qid=qid, alphas=alphas, metric=metric, n_splits=splits.n_folds
        )
    scores = to_host(found.predictions)
    if splits.order is not None:
        scores = scores[:, np.argsort(splits.order)]
    return Predicted(scores[:, splits.rows], perf_counter() - start, 0.0)


def check_pair_search(estimator: Any, scorer: RankingScorer) -> None:
    """Pairs are held out by the shortcut only, and only their order can be scored."""
    if not isinstance(estimator, LeastSquaresRanker):
        raise ParameterError(
            'cv="leave_pair_out" would refit for every pair; only least-squares rankers (RankRLS, '
            f"RLS) need not: got {type(estimator).__name__}. Use a number of folds, as in cv=5."
        )
    if scorer.scoring not in PAIR_METRICS:
        raise ParameterError(
            f'cv="leave_pair_out" scores pairs: scoring must be one of {", ".join(PAIR_METRICS)}, '
            f"got {scorer.scoring!r}."
        )


def exact_pairs(
    estimator: Any, alphas: list[float], data: LabelledRows, scorer: RankingScorer
) -> PairScores:
    """Scores with every pair held out; several outputs are averaged."""
    start = perf_counter()
    found = leave_pair_out(estimator, data.X, data.y, qid=data.qid, alphas=alphas)
    error, standard_error = (
        values.reshape(len(alphas), -1).mean(axis=1)
        for values in (found.error, found.standard_error)
    )
    score = 0.0 - error if scorer.negated else 1.0 - error
    return PairScores(score, standard_error, perf_counter() - start)
