"""Rankers of this library that get labelled rows and choose everything by them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from sklearn.base import clone

from rankwise import AutoRanker, BoostedRanker, RankingSearchCV, RankRLS, SparseRankRLS
from reproduce.contest.boosters import Chosen, Contestant
from reproduce.letor.parts import Part

SCALES = [None, "query-minmax", "query-standard", "query-ranks", "standard"]
OURS = "AutoRanker"


def out_of_the_box(ranker: Any) -> Contestant:
    """A ranker as it is."""

    def contestant(pool: Part) -> Iterator[Chosen]:
        begin = time.process_time()
        fitted = clone(ranker).fit(pool.X, pool.y, qid=pool.qid)
        seconds = time.process_time() - begin
        words = f"alpha {fitted.alpha_:.3g}, {fitted.scale_}" if hasattr(fitted, "alpha_") else ""
        if isinstance(fitted, AutoRanker):
            words = "; ".join(_described(part) for part in fitted.parts_)
        if isinstance(fitted, BoostedRanker):
            words = f"{fitted.n_estimators_} trees"
        yield Chosen(words, lambda X, qid: _predict(fitted, X, qid), seconds)

    return contestant


def _described(part: Any) -> str:
    """The name of a part of a mean and, where it has one, its alpha."""
    alpha = getattr(part.ranker, "alpha", None)
    return part.name if alpha is None else f"{part.name}, {alpha:.3g}"


def _predict(ranker: Any, X: np.ndarray, qid: np.ndarray) -> np.ndarray:
    return ranker.predict(X) if isinstance(ranker, BoostedRanker) else ranker.predict(X, qid=qid)


def tuned(ranker: Any, grid: dict[str, list[Any]]) -> Contestant:
    """The best of a grid, and of all alphas of the data's grid, by exact hold-outs of ten folds."""

    def contestant(pool: Part) -> Iterator[Chosen]:
        begin, best = time.process_time(), None
        for values in product(*grid.values()):
            setting = dict(zip(grid, values, strict=True))
            candidate = clone(ranker).set_params(**setting)
            alphas = candidate.path(pool.X, pool.y, qid=pool.qid).alphas.tolist()
            search = RankingSearchCV(candidate, {"alpha": alphas}, scoring="ndcg@10", cv=10)
            search.fit(pool.X, pool.y, qid=pool.qid)
            if best is None or search.best_score_ > best[0].best_score_:
                best = search, setting
        search, setting = best
        words = f"{setting}, alpha {search.best_params_['alpha']:.3g}"
        seconds = time.process_time() - begin
        yield Chosen(words, lambda X, qid: search.predict(X, qid=qid), seconds)

    return contestant


RANKERS: dict[str, Contestant] = {
    "RankRLS, default": out_of_the_box(RankRLS()),
    "RankRLS, tuned": tuned(RankRLS(), {"scale": SCALES, "weighting": ["rows", "queries"]}),
    "SparseRankRLS, default": out_of_the_box(SparseRankRLS(n_landmarks=200, random_state=0)),
    "SparseRankRLS, tuned": tuned(
        SparseRankRLS(n_landmarks=200, gamma="scale", random_state=0), {"scale": SCALES[1:]}
    ),
    OURS: out_of_the_box(AutoRanker(random_state=0)),
    "AutoRanker without trees": out_of_the_box(AutoRanker(boosted=False, random_state=0)),
    "BoostedRanker": out_of_the_box(BoostedRanker(random_state=0)),
}
