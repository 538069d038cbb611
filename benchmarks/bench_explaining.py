"""Constraints cost less than ten fits without them, and exact Shapley values less than samples."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from benchmarks.harness import Result, best_times, seconds
from rankwise import RankRLS, SparseRankRLS
from rankwise.inspection import explain

FEATURES, PER_QUERY, ALPHA = 136, 20, 10.0
ROWS = (2_000, 20_000)
LANDMARKS, EXPLAINED, PAIRS = 300, 46, 5


def problem(n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows whose features share a factor, so that the signs of many weights are uncertain."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, n_features)) + rng.standard_normal((n_rows, 1))
    f = X @ rng.standard_normal(n_features) + 10.0 * rng.standard_normal(n_rows)
    return X, np.digitize(f, [5.0, 15.0, 25.0]), np.arange(n_rows) // PER_QUERY


def constrained(n_rows: int) -> list[Result]:
    """Half of the rules are against the data."""
    X, y, qid = problem(n_rows, FEATURES)
    rules = {j: (-1) ** j for j in range(FEATURES)}
    found = []
    for alpha, limit in ((ALPHA, 10.0), ("auto", 10.0)):
        ours, free = best_times(
            lambda alpha=alpha: RankRLS(alpha, scale="standard", monotone=rules).fit(X, y, qid=qid),
            lambda alpha=alpha: RankRLS(alpha, scale="standard").fit(X, y, qid=qid),
        )
        found.append(
            Result(
                f"alpha={alpha}, {n_rows:,} x {FEATURES}: every feature monotone",
                seconds(ours),
                f"without constraints {seconds(free)}",
                ours / free,
                limit,
            )
        )
    return found


def explained() -> Result:
    X, y, qid = problem(3_000, EXPLAINED)
    ranker = SparseRankRLS(1.0, n_landmarks=LANDMARKS, scale="standard", random_state=0)
    ranker.fit(X, y, qid=qid)
    unknown = SimpleNamespace(predict=ranker.predict)  # nothing else is known
    exact, sampled = best_times(
        lambda: [explain(ranker, X[k], X[-1 - k]) for k in range(PAIRS)],
        lambda: [explain(unknown, X[k], X[-1 - k]) for k in range(PAIRS)],
    )
    return Result(
        f"a pair explained, {EXPLAINED} features, {LANDMARKS} landmarks",
        f"{1e3 * exact / PAIRS:.3g} ms",
        f"Shapley values sampled from 400 orders {1e3 * sampled / PAIRS:.3g} ms",
        exact / sampled,
        0.5,
    )


def cases() -> list[Result]:
    return [result for n_rows in ROWS for result in constrained(n_rows)] + [explained()]
