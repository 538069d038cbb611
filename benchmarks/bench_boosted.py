"""BoostedRanker: its loss costs no more than LightGBM's own, and choosing trees about five fits."""

from __future__ import annotations

import numpy as np
from lightgbm import LGBMRanker

from benchmarks.harness import Result, best_times, seconds
from rankwise import BoostedOptions, BoostedRanker

QUERIES, PER_QUERY, FEATURES, TREES = 300, 100, 46, 60


def problem() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((QUERIES * PER_QUERY, FEATURES))
    f = X[:, 0] * X[:, 1] + X[:, 2] + rng.standard_normal(len(X))
    return X, np.digitize(f, [1.0, 2.0, 3.0]), np.repeat(np.arange(QUERIES), PER_QUERY)


def cases() -> list[Result]:
    X, y, qid = problem()
    peer = LGBMRanker(n_estimators=TREES, num_leaves=15, n_jobs=1, verbose=-1)
    ranker = BoostedRanker(TREES, max_leaf_nodes=15)
    # All trees are tried: the number that is chosen does not change the time.
    choice = BoostedRanker(max_leaf_nodes=15, options=BoostedOptions(max_estimators=TREES))
    own, theirs, chosen = best_times(
        lambda: ranker.fit(X, y, qid=qid),
        lambda: peer.fit(X, y, group=np.full(QUERIES, PER_QUERY)),
        lambda: choice.fit(X, y, qid=qid),
    )
    rows = f"{len(y):,} rows of {FEATURES} features, {TREES} trees, one thread"
    return [
        Result(
            f"{rows}, as LGBMRanker",
            f"BoostedRanker {seconds(own)}",
            f"lambdarank {seconds(theirs)}",
            own / theirs,
            1.1,
        ),
        Result(
            f"{rows}: the number of trees by five folds",
            f'n_estimators="auto" {seconds(chosen)}',
            f"{TREES} trees {seconds(own)}",
            chosen / own,
            6.5,
        ),
    ]
