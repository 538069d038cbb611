"""Gradient boosted trees, tuned on the validation part as fairly as the rest.

For each fold, every setting of a small grid grows its trees on the training part; the setting and
the number of trees with the best MAP on the validation part are taken.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from rankwise.errors import MissingExtraError
from rankwise.graph import Groups
from rankwise.metrics import average_precision
from reproduce.letor.parts import FOLDS, Part, load, minmax
from reproduce.letor.protocol import figures, mean_figures

TREES, EVERY, THREADS = 300, 10, 2
RATES = (0.03, 0.1)


def in_order(part: Part) -> tuple[Part, np.ndarray]:
    """Rows with the queries lying together, which these libraries need, and the query sizes."""
    groups = Groups.of(part.qid, len(part.y))
    rows = groups.order
    return Part(part.X[rows], part.y[rows], part.qid[rows]), groups.sizes


def lightgbm(train: Part, valid: Part) -> Iterator[tuple[dict, Any]]:
    """Settings, and a function from rows and a number of trees to scores."""
    try:
        from lightgbm import LGBMRanker
    except ImportError:
        raise MissingExtraError("lightgbm", "reproduce") from None
    rows, sizes = in_order(train)
    for rate, leaves, least in product(RATES, (7, 15), (20, 100)):
        settings = {"learning_rate": rate, "num_leaves": leaves, "min_child_samples": least}
        model = LGBMRanker(
            n_estimators=TREES, n_jobs=THREADS, random_state=0, verbose=-1, **settings
        )
        model.fit(rows.X, rows.y.astype(int), group=sizes)
        yield settings, lambda X, n, model=model: model.booster_.predict(X, num_iteration=n)


def xgboost(train: Part, valid: Part) -> Iterator[tuple[dict, Any]]:
    """The same for XGBoost."""
    try:
        from xgboost import XGBRanker
    except ImportError:
        raise MissingExtraError("xgboost", "reproduce") from None
    rows, sizes = in_order(train)
    for rate, depth, objective in product(RATES, (3, 5), ("rank:ndcg", "rank:pairwise")):
        settings = {"learning_rate": rate, "max_depth": depth, "objective": objective}
        model = XGBRanker(n_estimators=TREES, n_jobs=THREADS, random_state=0, **settings)
        model.fit(rows.X, rows.y.astype(int), group=sizes)
        yield settings, lambda X, n, model=model: model.predict(X, iteration_range=(0, n))


LIBRARIES = {"LightGBM": lightgbm, "XGBoost": xgboost}


def run(name: str) -> dict[str, dict]:
    """Mean test figures, and the seconds of five choices and of the five chosen fits alone."""
    found: dict[str, list[dict]] = {library: [] for library in LIBRARIES}
    for fold in FOLDS:
        train, valid, test = load(name, fold, minmax)
        for library, settings_of in LIBRARIES.items():
            start = begin = time.perf_counter()
            best: dict[str, Any] = {"MAP": -1.0}
            for settings, predict in settings_of(train, valid):
                fit_seconds = time.perf_counter() - begin
                for n in range(EVERY, TREES + 1, EVERY):
                    value = average_precision(valid.y, predict(valid.X, n), valid.qid)
                    if value > best["MAP"]:
                        scores = predict(test.X, n)
                        best = {
                            "MAP": value,
                            "settings": settings | {"trees": n},
                            "scores": scores,
                            "fit": fit_seconds * n / TREES,
                        }
                begin = time.perf_counter()
            spent = time.perf_counter() - start
            seconds = {"seconds": len(FOLDS) * spent, "fit seconds": len(FOLDS) * best["fit"]}
            found[library].append(figures(test, best["scores"].astype(float)) | seconds)
            print(f"{name} fold {fold}: {library} {best['settings']}", file=sys.stderr, flush=True)
    return {library: mean_figures(folds) for library, folds in found.items()}
