"""TransductiveRankRLS: a fit to labelled rows costs about two fits of RankRLS, and its graph."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np

from benchmarks.harness import Result, best_times, seconds
from rankwise import RankRLS, TransductiveRankRLS
from rankwise.graph import QueryGroups
from rankwise.problem.smooth_space import neighbor_laplacian

ROWS, FEATURES, PER_QUERY = 16_000, 45, 150  # as in OHSUMED
NEIGHBORS = 10


def cases() -> list[Result]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ROWS, FEATURES))
    y, qid = X[:, 0] + rng.standard_normal(ROWS), np.arange(ROWS) // PER_QUERY
    groups = QueryGroups.of(qid)
    M = neighbor_laplacian(X, groups, NEIGHBORS)

    def smooth() -> None:
        with patch("rankwise.problem.smooth_space.neighbor_laplacian", lambda *_: M):
            TransductiveRankRLS(1.0, scale=None, n_neighbors=NEIGHBORS).fit(X, y, qid=qid)

    def whole() -> None:
        TransductiveRankRLS(1.0, scale=None, n_neighbors=NEIGHBORS).fit(X, y, qid=qid)

    given, fit, graph, plain = best_times(
        smooth,
        whole,
        lambda: neighbor_laplacian(X, groups, NEIGHBORS),
        lambda: RankRLS(1.0, scale=None).fit(X, y, qid=qid),
        repeats=9,
    )
    size = f"{ROWS:,} rows, {FEATURES} features"
    return [
        Result(
            f"TransductiveRankRLS, given its graph, {size}",
            seconds(given),
            f"RankRLS: {seconds(plain)}",
            given / plain,
            2.0,
        ),
        Result(
            f"TransductiveRankRLS, {size}",
            seconds(fit),
            f"2 fits of RankRLS and the graph: {seconds(2 * plain + graph)}",
            fit / (2 * plain + graph),
            1.0,
        ),
    ]
