"""Exports, checked on rows of hostile magnitudes, against a slow count of the pairs they lose."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from rankwise import AdditiveRankRLS, BoostedRanker, RankRLS, RankSVM, SparseRankRLS
from rankwise.errors import DataError, ExportError, RankwiseError
from rankwise.export import (
    elasticsearch_scores,
    json_scores,
    solr_scores,
    to_elasticsearch,
    to_json,
    to_onnx,
    to_solr,
    to_vespa,
    vespa_scores,
)

PLACES = [0.0, 1.0, -2000.0, 1e5, 2.0**24, 1e9, 1.7e9, -1e12, 1e15]
WIDTHS = [1e-30, 1e-6, 0.1, 1.0, 100.0, 1e6, 1e39]
SIZES = [1.0, 1.0, 1.0, 1e-60, 1e-42, 1e38, 1e60]  # of the labels of linear rankers
RANKERS = {
    "linear": RankRLS(1.0, scale=None),
    "standard": RankRLS(1.0, scale="standard"),
    "within queries": RankRLS(1.0, scale="query-minmax"),
    "rbf": RankRLS(1.0, kernel="rbf", scale="standard"),
    "landmarks": SparseRankRLS(1.0, n_landmarks=8, scale="standard", random_state=0),
    "additive": AdditiveRankRLS(1.0),
    "svm": RankSVM(),
    "trees": BoostedRanker(n_estimators=4, min_samples_leaf=2, random_state=0),
}
FLOAT32 = ("elasticsearch", "solr")
LINEAR = ("linear", "standard", "svm")
ENGINES: dict[str, tuple[Any, Any]] = {
    "elasticsearch": (to_elasticsearch, elasticsearch_scores),
    "solr": (to_solr, solr_scores),
    "vespa": (to_vespa, vespa_scores),
    "json": (to_json, json_scores),
}


@cache
def fitted(name: str, place: float, width: float, size: float, whole: bool) -> tuple[Any, Any]:
    """A ranker and its training rows; None if it cannot be fitted."""
    rng = np.random.default_rng(0)
    X = place + width * np.column_stack((rng.normal(size=60), rng.integers(0, 9, 60)))
    X = np.column_stack((np.round(X) if whole else X, rng.normal(size=60)))
    y, qid = rng.integers(0, 5, 60) * size, np.arange(60) // 6
    try:
        return clone(RANKERS[name]).fit(X, y, qid=qid), X
    except (RankwiseError, ValueError):  # products of features under- or overflow
        return None, X


def check(data: bytes, rng: np.random.Generator, folder: Path) -> None:
    """An export is refused, or loses as few pairs as its check says. `data` is not used."""
    name = str(rng.choice(list(RANKERS)))
    place, width = float(rng.choice(PLACES)), float(rng.choice(WIDTHS))
    size = float(rng.choice(SIZES)) if name in LINEAR else 1.0
    model, X = fitted(name, place, width, size, bool(rng.random() < 0.5))
    if model is None:
        return
    rows = X[rng.integers(len(X), size=int(rng.integers(2, 60)))]
    if rng.random() < 0.5:
        rows = rows + width * rng.normal(size=rows.shape)
    if rng.random() < 0.2 and width < 1e30:
        rows = rows.astype(np.float32)
    queries = rng.integers(0, int(rng.integers(1, 6)), len(rows)) if rng.random() < 0.8 else None
    target = str(rng.choice(["onnx", *ENGINES])) if name in LINEAR else "onnx"
    precision = str(rng.choice(["auto", "float32", "float64"]))
    given = {"rows": rows, "qid": queries}
    try:
        if target == "onnx":
            export = to_onnx(model, precision=precision, **given)
        else:
            export = ENGINES[target][0](model, features=["a", "b", "c"], **given)
    except (DataError, ExportError) as error:
        has_float32 = precision == "float32" if target == "onnx" else target in FLOAT32
        _check_refusal(str(error), has_float32)
        return
    codes = np.zeros(len(rows), dtype=int) if queries is None else queries
    theirs = _deployed(target, export, rows, codes)
    exact = rows.astype(np.float64)
    ours = np.asarray(model.predict(exact, qid=queries))
    _compare(export.check, ours, theirs, codes)


def _check_refusal(words: str, has_float32: bool) -> None:
    """Only float32 is too coarse; and rows may have no order."""
    if "no order to check" not in words:
        assert "lose their order" in words or "overflow" in words, words
        assert has_float32, f"float64 is refused: {words}"


def _deployed(target: str, export: Any, rows: Any, codes: Any) -> Any:
    """The scores that a user gets."""
    if target != "onnx":
        features = {"a": rows[:, 0], "b": rows[:, 1], "c": rows[:, 2]}
        if target == "vespa":
            features = {f"attribute({name})": values for name, values in features.items()}
        return ENGINES[target][1](export.content, features)
    from onnxruntime import InferenceSession

    session = InferenceSession(export.content)
    kind = np.float32 if session.get_inputs()[0].type == "tensor(float)" else np.float64
    scores = np.empty(len(rows))
    for query in set(codes.tolist()):
        (scores[codes == query],) = session.run(["score"], {"X": rows[codes == query].astype(kind)})
    return scores


def _compare(found: Any, ours: Any, theirs: Any, codes: Any) -> None:
    """Count pairs by plain loops, and compare with the figures of the check."""
    ranges = {}
    for query in set(codes.tolist()):
        scores = ours[codes == query].tolist()
        ranges[query] = max(scores) - min(scores)
    rounding = 64 * 2.0**-52 * max(abs(score) for score in ours.tolist())
    varying = sorted(r for r in ranges.values() if r > rounding)
    middle = varying[(len(varying) - 1) // 2], varying[len(varying) // 2]
    typical = sum(middle) / 2
    n_pairs = n_lost = n_turned = n_near = 0
    worst = 0.0
    for i in range(len(ours)):
        for j in range(i):
            if codes[i] != codes[j]:
                continue
            spread = max(ranges[int(codes[i])], typical)
            gap, other = float(ours[i] - ours[j]), float(theirs[i] - theirs[j])
            if abs(gap - other) > rounding:
                worst = max(worst, abs(gap - other) / spread)
            if abs(gap) <= rounding:
                continue
            n_pairs += 1
            if (gap > 0) == (other > 0) and other != 0:
                continue
            n_lost += 1
            n_turned += other != 0
            n_near += abs(gap) <= 1e-6 * spread
    figures = (found.n_pairs, found.n_lost, found.n_turned, found.n_near_ties)
    counted = (n_pairs, n_lost, n_turned, n_near)
    assert figures == counted, f"{figures} in place of {counted}"
    assert found.relative_difference <= worst * (1 + 1e-6) + 1e-12, "the largest error is smaller"
    assert worst <= found.tolerance, f"off by {worst} times the range, and passed"
    assert n_lost - n_near <= 1e-3 * n_pairs, f"{n_lost} of {n_pairs} pairs are lost, and passed"
