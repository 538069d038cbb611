"""AutoRanker: candidates, their choice and the final fits, in less than a hundred kernel fits."""

from __future__ import annotations

from itertools import product

import numpy as np
from lightgbm import LGBMRanker

from benchmarks.harness import Result, best_times, seconds
from rankwise import AutoRanker, SparseRankRLS

QUERIES, PER_QUERY, FEATURES, TREES = 500, 20, 40, 300
SETTINGS = [
    {"learning_rate": rate, "num_leaves": leaves, "min_child_samples": least, "objective": loss}
    for rate, leaves, least, loss in product(
        (0.03, 0.1), (4, 8, 16), (20, 100), ("lambdarank", "rank_xendcg")
    )
]


def problem() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((QUERIES * PER_QUERY, FEATURES))
    f = X[:, 0] * X[:, 1] + X[:, 2] + rng.standard_normal(len(X))
    return X, np.digitize(f, [1.0, 2.0, 3.0]), np.repeat(np.arange(QUERIES), PER_QUERY)


def cases() -> list[Result]:
    X, y, qid = problem()
    kernel = SparseRankRLS(1.0, n_landmarks=200, scale="query-minmax", random_state=0)

    def tune() -> None:
        for setting in SETTINGS:
            model = LGBMRanker(n_estimators=TREES, n_jobs=1, verbose=-1, **setting)
            model.fit(X, y, group=np.full(QUERIES, PER_QUERY))

    auto, fit, tuning = best_times(
        lambda: AutoRanker(boosted=False, random_state=0).fit(X, y, qid=qid),
        lambda: kernel.fit(X, y, qid=qid),
        tune,
    )
    rows = f"{len(y):,} rows of {FEATURES} features"
    return [
        Result(
            f"{rows}: fourteen rankers, their alphas and a mean, without trees",
            f"AutoRanker {seconds(auto)}",
            f"SparseRankRLS with 200 landmarks {seconds(fit)}",
            auto / fit,
            100,
        ),
        Result(
            f"{rows}, as the fits of {len(SETTINGS)} settings of LightGBM with {TREES} trees",
            f"AutoRanker {seconds(auto)}",
            f"LGBMRanker {seconds(tuning)}",
            auto / tuning,
            float("inf"),
        ),
    ]
