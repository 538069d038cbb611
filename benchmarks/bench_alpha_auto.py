"""Choosing alpha costs a few fits.

In one ranking, hold-outs use a sample of fixed size: where a fit is faster, they are more of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.harness import Result, best_times, seconds
from rankwise import RankRLS, SparseRankRLS

CASES = (
    ("linear, 200,000 x 46 in 2,000 queries", RankRLS(scale=None), 200_000, 46, 2_000, 3.0),
    ("linear, 200,000 x 136 in 2,000 queries", RankRLS(scale=None), 200_000, 136, 2_000, 3.0),
    ("linear, one ranking of 200,000 x 46", RankRLS(scale=None), 200_000, 46, 1, 5.0),
    # The default chooses the scaling as well.
    ("and scale, linear, 200,000 x 46 in 2,000 queries", RankRLS(), 200_000, 46, 2_000, np.inf),
    (
        "300 landmarks, 50,000 x 46 in 500 queries",
        SparseRankRLS(n_landmarks=300, random_state=0, scale=None),
        50_000,
        46,
        500,
        3.5,
    ),
    ("rbf, 2,000 x 50 in 50 queries", RankRLS(kernel="rbf", scale=None), 2_000, 50, 50, 8.0),
    ("rbf, one ranking of 2,000 x 50", RankRLS(kernel="rbf", scale=None), 2_000, 50, 1, 8.0),
)


def cases() -> list[Result]:
    return [choice(*case) for case in CASES]


def choice(name: str, ranker: Any, m: int, n: int, n_queries: int, limit: float) -> Result:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((m, n))
    y = np.clip(np.round(X[:, 0] + X[:, 1] * X[:, 2] + rng.standard_normal(m)), 0, 4)
    qid = np.arange(m) * n_queries // m
    for alpha in ("auto", 1.0):  # compile
        ranker.set_params(alpha=alpha).fit(X[:1000], y[:1000], qid=qid[:1000])
    auto, fixed = best_times(
        lambda: ranker.set_params(alpha="auto").fit(X, y, qid=qid),
        lambda: ranker.set_params(alpha=1.0).fit(X, y, qid=qid),
    )
    peer = f"alpha=1.0: {seconds(fixed)}"
    return Result(f'alpha="auto", {name}', seconds(auto), peer, auto / fixed, limit)
