"""The protocol of section 3.1 of the RankRLS paper.

Features are scaled to [0, 1] within each query. In each of the five folds of the data, three parts
are for training, one is for choosing alpha (and, for RankRLS, whether tied pairs count) by MAP, and
one is for testing. Values are means over the queries of a fold, then over the folds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import clone

from rankwise import RLS, RankRLS, RankSVM
from rankwise.metrics import average_precision, ndcg, precision_at_k
from reproduce.letor.parts import FOLDS, POSITIONS, Part, load, minmax

ALPHAS = 2.0 ** np.arange(-10, 25)
NDCG10 = "NDCG@10, log2(rank + 1)"  # the usual discount, not that of LETOR 1.0
RANKERS: dict[str, list[Any]] = {
    "RankRLS": [
        RankRLS(alpha=1.0, ties=ties, weighting="pairs") for ties in ("include", "exclude")
    ],
    "RLS": [RLS(alpha=1.0)],
    "RankSVM": [RankSVM(weighting="pairs")],
}


def fitted(candidate: Any, train: Part) -> Iterator[Any]:
    """The candidate at each alpha."""
    if hasattr(candidate, "path"):
        path = candidate.path(train.X, train.y, ALPHAS, qid=train.qid)
        yield from (path.estimator(i) for i in range(len(ALPHAS)))
    else:
        for alpha in ALPHAS:
            ranker = clone(candidate).set_params(alpha=alpha)
            yield ranker.fit(train.X, train.y, qid=train.qid)


def choose(candidates: list[Any], train: Part, valid: Part) -> Any:
    """The ranker with the best MAP on the validation part, the first of equals."""
    best, best_map = None, -1.0
    for candidate in candidates:
        for ranker in fitted(candidate, train):
            found = average_precision(valid.y, ranker.predict(valid.X), valid.qid)
            if found > best_map:
                best, best_map = ranker, found
    return best


def figures(test: Part, scores: np.ndarray) -> dict:
    """The figures in the tables, from test scores."""
    truth = (test.y, scores, test.qid)
    return {
        "MAP": average_precision(*truth),
        "MAP2": average_precision(*truth, relevant=2),
        "NDCG": ndcg(*truth, k=POSITIONS, discount="letor"),
        "NDCG10": ndcg(*truth, k=10),
        "P": precision_at_k(*truth, k=POSITIONS),
    }


def mean_figures(folds: list[dict]) -> dict:
    """Means over folds, rounded so that rounding errors of different machines do not matter."""
    return {
        key: np.round(np.mean([fold[key] for fold in folds], axis=0), 6).tolist()
        for key in folds[0]
    }


def run(name: str) -> dict[str, dict]:
    """Mean test figures of every ranker, and the seconds for its five searches."""
    found: dict[str, list[dict]] = {ranker: [] for ranker in RANKERS}
    for fold in FOLDS:
        train, valid, test = load(name, fold, minmax)
        for ranker, candidates in RANKERS.items():
            start = time.perf_counter()
            chosen = choose(candidates, train, valid)
            spent = time.perf_counter() - start
            shown = figures(test, chosen.predict(test.X))
            found[ranker].append(shown | {"seconds": len(FOLDS) * spent})
            print(f"{name} fold {fold}: {chosen!r}", file=sys.stderr, flush=True)
    return {ranker: mean_figures(folds) for ranker, folds in found.items()}
