"""A row of Table II: fit a model, rank test documents for test queries, and measure.

2,000 test documents are queries; all other test documents are ranked for each, and those of its
class are relevant. MAP is the mean of average precision over the queries; the error is the share of
all their triplets (query, document of its class, document of another class) in wrong order, ties
included: the expected value of the paper's error, which is over random triplets.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from rankwise import Shrinkage, SparseBilinearRanker
from rankwise.metrics import average_precision

from .data import Split

N_QUERIES, BLOCK = 2000, 500  # test documents as queries, and how many at a time


def evaluate(scores: Callable[[np.ndarray], np.ndarray], y: np.ndarray) -> dict[str, float]:
    """MAP and error over the queries, computed in blocks."""
    drawn = np.random.default_rng(0).permutation(len(y))[:N_QUERIES]
    precision, wrong = [], []
    for begin in range(0, len(drawn), BLOCK):
        queries = drawn[begin : begin + BLOCK]
        others = np.ones((len(queries), len(y)), dtype=bool)
        others[np.arange(len(queries)), queries] = False
        relevant = (y[queries, None] == y[None, :])[others].astype(float)
        values = scores(queries)[others]
        qid = np.repeat(queries, len(y) - 1)
        precision.append(average_precision(relevant, values, qid, per_query=True).values)
        wrong.append(_wrong(relevant, values, len(queries)))
    return {
        "MAP": float(np.concatenate(precision).mean()),
        "error": float(np.concatenate(wrong).mean()),
    }


def _wrong(relevant: np.ndarray, values: np.ndarray, n: int) -> np.ndarray:
    """Of each query, the share of pairs (relevant, other) with score+ <= score-."""
    shares = np.empty(n)
    for k, (is_relevant, scores) in enumerate(
        zip(relevant.reshape(n, -1) > 0, values.reshape(n, -1), strict=True)
    ):
        good, bad = np.sort(scores[is_relevant]), np.sort(scores[~is_relevant])
        shares[k] = 1 - np.searchsorted(bad, good, side="left").mean() / len(bad)
    return shares


def run_model(split: Split, parameters: dict[str, Any], words: tuple[str, ...] = ()) -> dict:
    """Figures of a ranker, its learning curve, and the features related to some words.

    The curve is that of test documents, unless an error decides when to stop.
    """
    begin = time.process_time()
    shown = None if parameters.get("early_stopping") else (split.X_test, split.y_test)
    shrinkage = Shrinkage(**parameters["shrinkage"]) if "shrinkage" in parameters else None
    ranker = SparseBilinearRanker(**{**parameters, "shrinkage": shrinkage}).fit_classes(
        split.X, split.y, names=split.names, held_out=shown
    )
    curve = getattr(ranker, "refit_curve_", ranker.learning_curve_)
    figures = {
        "seconds": time.process_time() - begin,
        "steps": ranker.n_iter_,
        "alpha": ranker.alpha_,
        "density": ranker.density_,
        "MB": ranker.memory_bytes_ / 1e6,
        "query features": int(np.count_nonzero(np.diff(ranker.coef_.indptr))),
        "document features": len(np.unique(ranker.coef_.indices)),
        "curve": {k: v.tolist() for k, v in curve.items()},
        "related": {
            word: [name for name, _ in ranker.related_features(word)]
            for word in words
            if word in set(split.names)
        },
    }
    return figures | evaluate(
        lambda rows: ranker.score_all(split.X_test[rows], split.X_test), split.y_test
    )


def run_baseline(split: Split, baseline: Callable[[Split], np.ndarray]) -> dict:
    """Figures of a baseline that scores all pairs of test documents."""
    scores = baseline(split)
    return evaluate(lambda rows: scores[rows], split.y_test)
