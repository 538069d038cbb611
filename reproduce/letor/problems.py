"""Ranking problems in five folds, whose test labels are out of reach of the rankers.

OHSUMED and MQ2008 have their official folds: the training and the validation part are for the
rankers, the test part is for the judge. The others have five folds of queries each:

- diabetes: patients of scikit-learn's data in groups of 15, graded by the progress of the disease;
- digits: images of scikit-learn's data in groups of 30, graded by the digit that they show;
- friedman: Friedman's function, which is smooth and has one interaction, with noise;
- boxes: points count if they lie in boxes of three features each, as trees describe them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.datasets import load_diabetes, load_digits

from rankwise.metrics import average_precision, ndcg
from reproduce.letor.parts import FOLDS, Part, load

VALUES = {"MAP": average_precision, "NDCG@10": partial(ndcg, k=10)}


@dataclass(frozen=True)
class Fold:
    """Rows for the rankers, new rows without labels, and a judge of their scores.

    `judge` maps scores of the new rows to the values of each metric on each query. It alone knows
    the labels.
    """

    pool: Part
    X: np.ndarray
    qid: np.ndarray
    judge: Callable[[np.ndarray], dict[str, np.ndarray]]


def make_fold(pool: Part, test: Part, noise: np.random.Generator | None) -> Fold:
    """A fold; with `noise`, the labels of the test rows are random."""
    labels = test.y if noise is None else noise.permutation(test.y)

    def judge(scores: np.ndarray) -> dict[str, np.ndarray]:
        return {
            name: metric(labels, scores, test.qid, per_query=True).values
            for name, metric in VALUES.items()
        }

    return Fold(pool, test.X, test.qid, judge)


def folds(name: str, noise: np.random.Generator | None = None) -> Iterator[Fold]:
    """The five folds of a problem."""
    if name in ("ohsumed", "mq2008"):
        for fold in FOLDS:
            train, valid, test = load(name, fold, lambda part: part.X)
            yield make_fold(train.and_also(valid), test, noise)
        return
    rows = MADE[name]()
    for fold in range(5):
        test = rows.qid % 5 == fold
        pool, new = (Part(rows.X[at], rows.y[at], rows.qid[at]) for at in (~test, test))
        yield make_fold(pool, new, noise)


def grouped(X: Any, y: Any, size: int) -> Part:
    """Rows at random in groups of a size."""
    n = len(X) // size * size
    rows = np.random.default_rng(0).permutation(len(X))[:n]
    return Part(np.asarray(X, float)[rows], np.asarray(y, float)[rows], np.arange(n) // size)


def graded(part: Part, shares: tuple[float, ...]) -> Part:
    """Grades by rank within each group: the first share of its rows has grade 0, and so on."""
    size = np.count_nonzero(part.qid == 0)
    places = rankdata(part.y.reshape(-1, size), axis=1).ravel() / size
    return Part(part.X, np.digitize(places, shares, right=True).astype(float), part.qid)


def diabetes() -> Part:
    return graded(grouped(*load_diabetes(return_X_y=True), 15), (0.5, 0.8))


def digits() -> Part:
    X, y = load_digits(return_X_y=True)
    return grouped(X, y // 2, 30)


def friedman() -> Part:
    rng = np.random.default_rng(1)
    U = rng.uniform(size=(6000, 10))
    score = 10 * np.sin(np.pi * U[:, 0] * U[:, 1]) + 20 * (U[:, 2] - 0.5) ** 2
    score += 10 * U[:, 3] + 5 * U[:, 4] + 4 * rng.standard_normal(6000)
    return graded(grouped(U, score, 30), (0.6, 0.85, 0.95))


def boxes() -> Part:
    rng = np.random.default_rng(2)
    Z = rng.standard_normal((6000, 12))
    score = 0.7 * rng.standard_normal(6000)
    for _ in range(6):
        features, ends = rng.choice(12, 3, replace=False), rng.uniform(-1, 0.5, 3)
        score += rng.uniform(0.5, 2) * (Z[:, features] > ends).all(axis=1)
    X = np.exp(Z) * 10.0 ** rng.uniform(-3, 4, 12)
    return graded(grouped(X, score, 30), (0.6, 0.85, 0.95))


MADE: dict[str, Callable[[], Part]] = {
    "diabetes": diabetes,
    "digits": digits,
    "friedman": friedman,
    "boxes": boxes,
}
PROBLEMS = ("ohsumed", "mq2008", *MADE)
