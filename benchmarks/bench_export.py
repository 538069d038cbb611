"""Exported models: as exact as promised, and no slower than the ranker itself.

On ARM, onnxruntime multiplies matrices of float64, which distances need, in one thread. That alone
takes as long as `predict`, so there the claim is 1.5 times its time.
"""

from __future__ import annotations

from platform import machine
from typing import Any

import numpy as np

from benchmarks.harness import Result, best_times, seconds
from rankwise import RankRLS, SparseRankRLS
from rankwise.export import to_onnx

ROWS, FEATURES, LANDMARKS = 100_000, 136, 500
FAR = 1e4  # where the features are, with a standard deviation of 1


def far_rows(n_rows: int, n_features: int, seed: int) -> np.ndarray:
    """Rows that float32 holds exactly."""
    rows = np.random.default_rng(seed).standard_normal((n_rows, n_features)) + FAR
    return rows.astype(np.float32).astype(np.float64)


def session(export: Any) -> Any:
    from onnxruntime import InferenceSession

    return InferenceSession(export.content)


def error(ranker: Any, rows: np.ndarray, precision: str) -> float:
    """The largest difference of scores, relative to the largest score."""
    (found,) = session(to_onnx(ranker, precision=precision, rows=rows)).run(
        None, {"X": rows.astype(precision)}
    )
    expected = ranker.predict(rows)
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def exactness() -> list[Result]:
    X, rows = far_rows(2000, 20, 0), far_rows(10_000, 20, 1)
    y = np.sin(X[:, 0] - FAR) + X[:, 1] - FAR
    rankers = {
        "500 landmarks": SparseRankRLS(1.0, n_landmarks=500, scale=None, random_state=0),
        "rbf on 2,000 rows": RankRLS(1.0, kernel="rbf", scale=None),
        "linear": RankRLS(1.0, scale=None),
    }
    results = []
    for name, ranker in rankers.items():
        ranker.fit(X, y)
        for precision, limit in (("float32", 1e-6), ("float64", 1e-12)):
            found = error(ranker, rows, precision)
            results.append(
                Result(
                    f"ONNX in {precision}, {name}, features at 1e4 ± 1",
                    f"{found:.1e}",
                    f"{limit:g} relative to the largest score",
                    found / limit,
                    1.0,
                )
            )
    return results


def speed() -> Result:
    X, rows = far_rows(5000, FEATURES, 0), far_rows(ROWS, FEATURES, 1)
    ranker = SparseRankRLS(1.0, n_landmarks=LANDMARKS, scale=None, random_state=0)
    ranker.fit(X, X[:, 0])
    made = session(to_onnx(ranker, precision="float32", rows=X[:1000]))
    single = rows.astype(np.float32)
    theirs, ours = best_times(
        lambda: made.run(None, {"X": single}), lambda: ranker.predict(single), repeats=5
    )
    return Result(
        f"onnxruntime, {ROWS:,} rows of {FEATURES} features, {LANDMARKS} landmarks",
        seconds(theirs),
        f"predict {seconds(ours)}",
        theirs / ours,
        1.5 if machine() in ("aarch64", "arm64") else 1.0,
    )


def cases() -> list[Result]:
    return [*exactness(), speed()]
