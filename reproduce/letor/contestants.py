"""Rankers that get labelled rows and choose everything by them: out of the box, tuned, and trees.

The settings of trees are chosen on a fifth of the queries: the number of trees and the setting with
the best NDCG@10 there are then fitted to all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from sklearn.base import clone

from rankwise import AutoRanker, BoostedRanker, RankingSearchCV, RankRLS, SparseRankRLS
from rankwise.graph import QueryGroups
from rankwise.metrics import ndcg
from reproduce.letor.parts import Part

TREES, EVERY = 300, 10
SCALES = ["query-minmax", "query-standard", "query-ranks", "standard"]


@dataclass(frozen=True)
class Chosen:
    """What a contestant has chosen, in words, and scores of new rows by it."""

    words: str
    scores: Callable[[np.ndarray, np.ndarray], np.ndarray]


Contestant = Callable[[Part], Chosen]


def out_of_the_box(ranker: Any) -> Contestant:
    """A ranker as it is."""

    def contestant(pool: Part) -> Chosen:
        fitted = clone(ranker).fit(pool.X, pool.y, qid=pool.qid)
        words = f"alpha {fitted.alpha_:.3g}" if hasattr(fitted, "alpha_") else ""
        if isinstance(fitted, AutoRanker):
            words = "; ".join(_described(part) for part in fitted.parts_)
        if isinstance(fitted, BoostedRanker):
            words = f"{fitted.n_estimators_} trees"
        return Chosen(words, lambda X, qid: _predict(fitted, X, qid))

    return contestant


def _described(part: Any) -> str:
    """The name of a part of a mean and, where it has one, its alpha."""
    alpha = getattr(part.ranker, "alpha", None)
    return part.name if alpha is None else f"{part.name}, {alpha:.3g}"


def _predict(ranker: Any, X: np.ndarray, qid: np.ndarray) -> np.ndarray:
    return ranker.predict(X) if isinstance(ranker, BoostedRanker) else ranker.predict(X, qid=qid)


def tuned(ranker: Any, grid: dict[str, list[Any]]) -> Contestant:
    """The best of a grid, and of all alphas of the data's grid, by exact hold-outs of ten folds."""

    def contestant(pool: Part) -> Chosen:
        best: Any = None
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
        return Chosen(words, lambda X, qid: search.predict(X, qid=qid))

    return contestant


@dataclass(frozen=True)
class Library:
    """Settings of a library, a function that fits one, and scores by the first trees."""

    settings: list[dict[str, Any]]
    fit: Callable[[dict[str, Any], int, Part, np.ndarray], Any]
    scores: Callable[[Any, np.ndarray, int], np.ndarray]


def settings(**values: tuple[Any, ...]) -> list[dict[str, Any]]:
    """All combinations."""
    return [dict(zip(values, chosen, strict=True)) for chosen in product(*values.values())]


def fit_lightgbm(setting: dict[str, Any], trees: int, rows: Part, sizes: np.ndarray) -> Any:
    from lightgbm import LGBMRanker

    model = LGBMRanker(n_estimators=trees, n_jobs=1, random_state=0, verbose=-1, **setting)
    return model.fit(rows.X, rows.y.astype(int), group=sizes)


def fit_xgboost(setting: dict[str, Any], trees: int, rows: Part, sizes: np.ndarray) -> Any:
    from xgboost import XGBRanker

    model = XGBRanker(n_estimators=trees, n_jobs=1, random_state=0, **setting)
    return model.fit(rows.X, rows.y.astype(int), group=sizes)


def fit_catboost(setting: dict[str, Any], trees: int, rows: Part, sizes: np.ndarray) -> Any:
    from catboost import CatBoostRanker

    model = CatBoostRanker(
        iterations=trees, thread_count=1, random_seed=0, verbose=False,
        allow_writing_files=False, **setting,
    )  # fmt: skip
    return model.fit(rows.X, rows.y, group_id=np.repeat(np.arange(len(sizes)), sizes))


LIBRARIES = {
    "LightGBM": Library(
        settings(
            learning_rate=(0.03, 0.1),
            num_leaves=(4, 8, 16),
            min_child_samples=(20, 100),
            objective=("lambdarank", "rank_xendcg"),
        ),
        fit_lightgbm,
        lambda model, X, n: model.booster_.predict(X, num_iteration=n),
    ),
    "XGBoost": Library(
        settings(
            learning_rate=(0.03, 0.1),
            max_depth=(2, 3, 5),
            min_child_weight=(1, 20),
            objective=("rank:ndcg", "rank:pairwise"),
        ),
        fit_xgboost,
        lambda model, X, n: model.predict(X, iteration_range=(0, n)),
    ),
    "CatBoost": Library(
        settings(
            learning_rate=(0.03, 0.1),
            depth=(3, 5),
            l2_leaf_reg=(1, 5, 25),
            loss_function=("QueryRMSE", "YetiRank"),
        ),
        fit_catboost,
        lambda model, X, n: model.predict(X, ntree_end=n),
    ),
}


def tuned_trees(library: Library, trees: int = TREES) -> Contestant:
    """The best setting and number of trees on a fifth of the queries, fitted to all rows."""

    def contestant(pool: Part) -> Chosen:
        groups = QueryGroups.of(pool.qid, len(pool.y))
        held_out = groups.codes % 5 == 4
        train, valid = (_in_order(_rows(pool, at)) for at in (~held_out, held_out))
        best: tuple[float, dict[str, Any], int] = (-1.0, {}, 0)
        for setting in library.settings:
            model = library.fit(setting, trees, *train)
            for n in range(EVERY, trees + 1, EVERY):
                scores = np.asarray(library.scores(model, valid[0].X, n), dtype=np.float64)
                value = ndcg(valid[0].y, scores, valid[0].qid, k=10)
                best = max(best, (value, setting, n), key=lambda found: found[0])
        _, setting, n = best
        model = library.fit(setting, n, *_in_order(pool))
        return Chosen(
            f"{setting}, {n} trees",
            lambda X, qid: np.asarray(library.scores(model, X, n), dtype=np.float64),
        )

    return contestant


def _rows(part: Part, at: np.ndarray) -> Part:
    return Part(part.X[at], part.y[at], part.qid[at])


def _in_order(part: Part) -> tuple[Part, np.ndarray]:
    """Rows sorted by query, as these libraries need them, and the query sizes."""
    groups = QueryGroups.of(part.qid, len(part.y))
    return _rows(part, groups.order), groups.sizes


CONTESTANTS: dict[str, Contestant] = {
    "RankRLS, default": out_of_the_box(RankRLS()),
    "SparseRankRLS, default": out_of_the_box(SparseRankRLS(random_state=0)),
    "RankRLS, tuned": tuned(RankRLS(), {"scale": SCALES, "weighting": ["rows", "queries"]}),
    "SparseRankRLS, tuned": tuned(
        SparseRankRLS(n_landmarks=300, gamma="scale", random_state=0), {"scale": SCALES}
    ),
    "AutoRanker": out_of_the_box(AutoRanker(random_state=0)),
    "AutoRanker by MAP": out_of_the_box(AutoRanker(metric="map", random_state=0)),
    "AutoRanker without trees": out_of_the_box(AutoRanker(boosted=False, random_state=0)),
    "BoostedRanker": out_of_the_box(BoostedRanker(random_state=0)),
    **{f"{name}, tuned": tuned_trees(library) for name, library in LIBRARIES.items()},
}
