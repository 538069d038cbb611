"""AutoRanker: candidates, their choice and the final fits, in less than a hundred kernel fits.

On 600 rows, and beside tuning LightGBM on MQ2008, processor times count. The peer on 600 rows is a
fit that chooses alpha and scaling of one ranker. MQ2008 is skipped where it is not installed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from lightgbm import LGBMRanker
from threadpoolctl import threadpool_limits

from benchmarks.harness import Result, best_times, seconds
from rankwise import AutoRanker, RankRLS, SparseRankRLS
from rankwise.errors import DataError
from reproduce.contest.boosters import fit_lightgbm
from reproduce.letor.parts import Part, load

QUERIES, PER_QUERY, FEATURES, TREES = 500, 20, 40, 300
SMALL_QUERIES, PER_SMALL_QUERY = 60, 10
FOLDS = 5
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


def cpu_seconds(call: Callable[[], Any], repeats: int = 1) -> float:
    """The least processor time of a call, with one thread of BLAS."""
    best = float("inf")
    with threadpool_limits(1):
        for _ in range(repeats):
            start = time.process_time()
            call()
            best = min(best, time.process_time() - start)
    return best


def few_rows() -> list[Result]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((SMALL_QUERIES * PER_SMALL_QUERY, 8))
    y = np.clip(np.round(X[:, 0] + rng.standard_normal(len(X))), 0, 4)
    qid = np.repeat(np.arange(SMALL_QUERIES), PER_SMALL_QUERY)
    auto, single = AutoRanker(boosted=False), RankRLS()
    spent = cpu_seconds(lambda: auto.fit(X, y, qid=qid), repeats=5)
    one = cpu_seconds(lambda: single.fit(X, y, qid=qid), repeats=5)
    words = f"{seconds(spent)} of CPU", f"RankRLS(): {seconds(one)}"
    return [Result(f"{len(X)} x 8 without trees", *words, spent / one, 8.0)]


def beside_tuning() -> list[Result]:
    """AutoRanker, and the fits that choosing among the settings by five folds takes."""
    try:
        train, valid, _ = load("mq2008", 1, lambda part: part.X)
    except DataError as error:
        print(f"MQ2008 is skipped: {error}", file=sys.stderr)
        return []
    pool = train.and_also(valid)
    rows = np.argsort(pool.qid, kind="stable")
    queries, code = np.unique(pool.qid[rows], return_inverse=True)
    rows = rows[code % FOLDS != 0]
    train = Part(pool.X[rows], pool.y[rows], pool.qid[rows])

    def one_fold() -> None:
        for setting in SETTINGS:
            fit_lightgbm(setting, TREES, train)

    auto = cpu_seconds(
        lambda: AutoRanker(random_state=0).fit(pool.X, pool.y, qid=pool.qid), repeats=2
    )
    tuning = FOLDS * cpu_seconds(one_fold)
    return [
        Result(
            f"MQ2008, {len(pool.y):,} rows of {len(queries)} queries",
            f"AutoRanker {seconds(auto)} of CPU",
            f"fits of {len(SETTINGS)} settings of LightGBM with {TREES} trees on each of {FOLDS} "
            f"folds: {seconds(tuning)} ({FOLDS} times the first fold)",
            auto / tuning,
            0.25,
        )
    ]


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
        *few_rows(),
        *beside_tuning(),
    ]
