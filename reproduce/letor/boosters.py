"""Gradient boosted trees, tuned on the validation part like the other rankers.

For each fold, trees are fitted to the training part with every setting of a small grid; the setting
and the number of trees with the best MAP on the validation part are chosen.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from rankwise.errors import MissingExtraError
from rankwise.graph import QueryGroups
from rankwise.metrics import average_precision
from reproduce.letor.parts import FOLDS, Part, load, minmax
from reproduce.letor.protocol import figures, mean_figures

TREES, EVERY = 300, 10
RATES = (0.03, 0.1)
COMMON = {"n_estimators": TREES, "n_jobs": 1, "random_state": 0}


@dataclass(frozen=True)
class Setting:
    """An unfitted ranker and its settings."""

    shown: dict
    model: Any


def in_order(part: Part) -> tuple[Part, np.ndarray]:
    """Rows sorted by query, as these libraries need them, and the query sizes."""
    groups = QueryGroups.of(part.qid, len(part.y))
    rows = groups.order
    return Part(part.X[rows], part.y[rows], part.qid[rows]), groups.sizes


def lightgbm() -> list[Setting]:
    """LightGBM's ranker."""
    try:
        from lightgbm import LGBMRanker
    except ImportError:
        raise MissingExtraError("lightgbm", "reproduce") from None
    grid = [
        {"learning_rate": rate, "num_leaves": leaves, "min_child_samples": least}
        for rate, leaves, least in product(RATES, (7, 15), (20, 100))
    ]
    return [Setting(shown, LGBMRanker(**COMMON, verbose=-1, **shown)) for shown in grid]


def xgboost() -> list[Setting]:
    """XGBoost's ranker."""
    try:
        from xgboost import XGBRanker
    except ImportError:
        raise MissingExtraError("xgboost", "reproduce") from None
    grid = [
        {"learning_rate": rate, "max_depth": depth, "objective": objective}
        for rate, depth, objective in product(RATES, (3, 5), ("rank:ndcg", "rank:pairwise"))
    ]
    return [Setting(shown, XGBRanker(**COMMON, **shown)) for shown in grid]


@dataclass(frozen=True)
class Library:
    """Settings to try, and scores of rows by the first n trees of a fitted model."""

    settings: Callable[[], list[Setting]]
    scores: Callable[[Any, np.ndarray, int], np.ndarray]


LIBRARIES = {
    "LightGBM": Library(lightgbm, lambda m, X, n: m.booster_.predict(X, num_iteration=n)),
    "XGBoost": Library(xgboost, lambda m, X, n: m.predict(X, iteration_range=(0, n))),
}


def run(name: str) -> dict[str, dict]:
    """Mean test figures, and the seconds of five searches and of the five chosen fits."""
    found: dict[str, list[dict]] = {library: [] for library in LIBRARIES}
    for fold in FOLDS:
        train, valid, test = load(name, fold, minmax)
        rows, sizes = in_order(train)
        for title, library in LIBRARIES.items():
            every = library.settings()
            start = time.perf_counter()
            best: dict[str, Any] = {"MAP": -1.0}
            for setting in every:
                begin = time.perf_counter()
                model = setting.model.fit(rows.X, rows.y.astype(int), group=sizes)
                fit_seconds = time.perf_counter() - begin
                for n in range(EVERY, TREES + 1, EVERY):
                    value = average_precision(valid.y, library.scores(model, valid.X, n), valid.qid)
                    if value > best["MAP"]:
                        best = {
                            "MAP": value,
                            "settings": setting.shown | {"trees": n},
                            "scores": library.scores(model, test.X, n),
                            "fit": fit_seconds * n / TREES,
                        }
            spent = time.perf_counter() - start
            seconds = {"seconds": len(FOLDS) * spent, "fit seconds": len(FOLDS) * best["fit"]}
            found[title].append(figures(test, best["scores"].astype(float)) | seconds)
            print(f"{name} fold {fold}: {title} {best['settings']}", file=sys.stderr, flush=True)
    return {title: mean_figures(folds) for title, folds in found.items()}
