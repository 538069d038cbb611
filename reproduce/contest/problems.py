"""Ranking problems in five folds, whose test labels are out of reach of the rankers.

Real data from RANKWISE_DATA. Rankers get as many whole queries as have `ROWS` rows:

- ohsumed, mq2008: the official folds; the training and the validation part are for the rankers;
- parses: candidate parses of sentences (GENIA, Link Grammar), graded by their F1 in the sentence;
- kinases: the drugs of a target (Davis et al.), graded by affinity; features of drug and target.

Data of scikit-learn, in groups at random:

- diabetes: patients in groups of 15, graded by the progress of the disease;
- digits: images in groups of 30, graded by the digit that they show;
- cancer: tumours in groups of 12, of which the malignant ones count.

Generated data; all folds are drawn from the same function:

- friedman: Friedman's function, which is smooth and has one interaction, with noise;
- boxes: points count if they lie in boxes of three features each, as trees describe them;
- signs: the signs of two products of features;
- thresholds: a sum of steps, on features with long tails;
- offsets: a linear function of features that each query shifts and scales;
- noise: a linear function that explains a tenth of the variance, among 40 features.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits

from rankwise.graph import QueryGroups
from rankwise.metrics import ndcg
from reproduce.letor.parts import Part, load

METRIC = partial(ndcg, k=10, undefined="skip", per_query=True)
ROWS = 4000  # for the rankers, in whole queries
FOLDS = range(1, 6)
QUERIES, NEW_QUERIES, SIZE = 80, 100, 20  # of generated data


@dataclass(frozen=True)
class Fold:
    """Rows for the rankers, new rows without labels, and a judge of their scores.

    `judge` maps scores of the new rows to NDCG@10 of each query with a relevant row. It alone knows
    the labels.
    """

    pool: Part
    X: np.ndarray
    qid: np.ndarray
    judge: Callable[[np.ndarray], np.ndarray]


def make_fold(pool: Part, test: Part, noise: np.random.Generator | None = None) -> Fold:
    """A fold; with `noise`, the labels of the test rows are random."""
    labels = test.y if noise is None else noise.permutation(test.y)

    def judge(scores: np.ndarray) -> np.ndarray:
        return METRIC(labels, scores, test.qid).values

    return Fold(pool, test.X, test.qid, judge)


def get_fold(name: str, number: int) -> Fold:
    """A fold of a problem."""
    if name in ("ohsumed", "mq2008"):
        train, valid, test = load(name, number, lambda part: part.X)
        return make_fold(some_queries(train.and_also(valid), ROWS), test)
    if name in GENERATED:
        rng = np.random.default_rng([zlib.crc32(name.encode()), number])
        n_rows = (QUERIES + NEW_QUERIES) * SIZE
        whole = GENERATED[name](rng, n_rows)
        is_new = whole.qid >= QUERIES
        return make_fold(take(whole, ~is_new), take(whole, is_new))
    whole = GIVEN[name]()
    names, codes = np.unique(whole.qid, return_inverse=True)
    order = np.random.default_rng(0).permutation(len(names))
    is_new = order[codes] % len(FOLDS) == number - 1
    return make_fold(some_queries(take(whole, ~is_new), ROWS), take(whole, is_new))


def take(part: Part, rows: np.ndarray) -> Part:
    """Some rows."""
    return Part(part.X[rows], part.y[rows], part.qid[rows])


def some_queries(part: Part, most: int) -> Part:
    """Random whole queries with at most so many rows."""
    if len(part.y) <= most:
        return part
    groups = QueryGroups.of(part.qid)
    order = np.random.default_rng(0).permutation(groups.n_groups)
    kept = order[np.cumsum(groups.sizes[order]) <= most]
    return take(part, np.isin(groups.codes, kept))


def grouped(X: Any, y: Any, size: int) -> Part:
    """Rows at random in groups of a size."""
    n = len(X) // size * size
    rows = np.random.default_rng(0).permutation(len(X))[:n]
    return Part(np.asarray(X, float)[rows], np.asarray(y, float)[rows], np.arange(n) // size)


def graded(part: Part, shares: tuple[float, ...]) -> Part:
    """Grades by rank within each group: the first share of its rows has grade 0, and so on."""
    y = np.empty(len(part.y))
    for rows in QueryGroups.of(part.qid):
        y[rows] = np.digitize(rankdata(part.y[rows]) / len(rows), shares, right=True)
    return Part(part.X, y, part.qid)


MANY = (0.6, 0.85, 0.95)


@cache
def parses() -> Part:
    """The 60 most frequent pairs of a link type and its length, as counts, and the parser's rank.

    Features that count links do not name words, so a few thousand parses are enough.
    """
    from reproduce.parses.features import walks
    from reproduce.parses.run import corpus

    every = [p for p in corpus().parsed if np.ptp(p.scores()) > 0 and len(p.linkages) >= 5]
    counts = [walks(linkage, 1) for p in every for linkage in p.linkages]
    total: dict[str, int] = {}
    for one in counts:
        for name in one:
            total[name] = total.get(name, 0) + 1
    kept = sorted(total, key=lambda name: (-total[name] * (len(counts) - total[name]), name))[:60]
    X = np.array([[one[name] for name in kept] for one in counts], dtype=float)
    y = np.concatenate([p.scores() for p in every])
    return graded(Part(X, y, np.repeat(np.arange(len(every)), [len(p.linkages) for p in every])),
                  (0.5, 0.75, 0.9))  # fmt: skip


@cache
def kinases() -> Part:
    """Components of the similarities of drugs and of targets; affinities of 1 uM and below."""
    from reproduce.two_sided.run import davis

    data = davis()
    drugs, targets = (_components(data[name], 12) for name in ("2D", "G"))
    n_drugs, n_targets = data["Y"].shape
    X = np.hstack([np.tile(drugs, (n_targets, 1)), np.repeat(targets, n_drugs, axis=0)])
    y = np.digitize(data["Y"].T.ravel(), [5.01, 6.0, 7.0, 8.0]).astype(float)
    return Part(X, y, np.repeat(np.arange(n_targets), n_drugs))


def _components(K: np.ndarray, number: int) -> np.ndarray:
    values, vectors = np.linalg.eigh(K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean())
    return vectors[:, -number:] * np.sqrt(np.maximum(values[-number:], 0.0))


def diabetes() -> Part:
    return graded(grouped(*load_diabetes(return_X_y=True), 15), (0.5, 0.8))


def digits() -> Part:
    X, y = load_digits(return_X_y=True)
    return grouped(X, y // 2, 30)


def cancer() -> Part:
    X, y = load_breast_cancer(return_X_y=True)
    return grouped(X, 1 - y, 12)


def made(X: np.ndarray, score: np.ndarray) -> Part:
    return graded(Part(X, score, np.arange(len(X)) // SIZE), MANY)


def friedman(rng: np.random.Generator, n: int) -> Part:
    U = rng.uniform(size=(n, 10))
    score = 10 * np.sin(np.pi * U[:, 0] * U[:, 1]) + 20 * (U[:, 2] - 0.5) ** 2
    return made(U, score + 10 * U[:, 3] + 5 * U[:, 4] + 4 * rng.standard_normal(n))


def boxes(rng: np.random.Generator, n: int) -> Part:
    fixed = np.random.default_rng(2)
    Z, score = rng.standard_normal((n, 12)), 0.7 * rng.standard_normal(n)
    for _ in range(6):
        features, ends = fixed.choice(12, 3, replace=False), fixed.uniform(-1, 0.5, 3)
        score += fixed.uniform(0.5, 2) * (Z[:, features] > ends).all(axis=1)
    return made(np.exp(Z) * 10.0 ** fixed.uniform(-3, 4, 12), score)


def signs(rng: np.random.Generator, n: int) -> Part:
    Z = rng.standard_normal((n, 10))
    score = np.sign(Z[:, 0] * Z[:, 1]) + np.sign(Z[:, 2] * Z[:, 3]) + 0.5 * Z[:, 4]
    return made(Z, score + rng.standard_normal(n))


def thresholds(rng: np.random.Generator, n: int) -> Part:
    fixed, Z = np.random.default_rng(3), rng.standard_normal((n, 15))
    ends, weights = fixed.uniform(-1, 1, (2, 15)), fixed.standard_normal((2, 15))
    score = ((ends[0] < Z) * weights[0] + (ends[1] < Z) * weights[1]).sum(axis=1)
    return made(np.exp(1.5 * Z), score + 1.5 * rng.standard_normal(n))


def offsets(rng: np.random.Generator, n: int) -> Part:
    fixed, Z = np.random.default_rng(4), rng.standard_normal((n, 12))
    score = Z @ fixed.standard_normal(12) + 2.0 * rng.standard_normal(n)
    shift, width = (rng.standard_normal((n // SIZE, 12)) for _ in range(2))
    X = Z * np.exp(width).repeat(SIZE, axis=0) + 3.0 * shift.repeat(SIZE, axis=0)
    return made(X, score)


def noise(rng: np.random.Generator, n: int) -> Part:
    fixed, Z = np.random.default_rng(5), rng.standard_t(4, (n, 40))
    score = Z[:, :10] @ fixed.standard_normal(10)
    return made(Z, score + 3.0 * score.std() * rng.standard_normal(n))


GIVEN: dict[str, Callable[[], Part]] = {
    "parses": parses,
    "kinases": kinases,
    "diabetes": diabetes,
    "digits": digits,
    "cancer": cancer,
}
GENERATED: dict[str, Callable[[np.random.Generator, int], Part]] = {
    "friedman": friedman,
    "boxes": boxes,
    "signs": signs,
    "thresholds": thresholds,
    "offsets": offsets,
    "noise": noise,
}
PROBLEMS = ("ohsumed", "mq2008", *GIVEN, *GENERATED)


def folds(name: str) -> Iterator[Fold]:
    """All folds of a problem."""
    return (get_fold(name, number) for number in FOLDS)
