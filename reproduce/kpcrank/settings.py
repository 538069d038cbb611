"""Settings of rankers, chosen by five folds of noisy queries.

All samples of noise are outputs of one fit, so that they share kernels and components. Each output
has its own settings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from rankwise import KPCRank, RankRLS

FOLDS = 5
ALPHAS = 2.0 ** np.arange(-12, 23, 2)
RIDGES = np.concatenate(([0.0], ALPHAS[::3]))  # on components


@dataclass(frozen=True)
class Part:
    """Rows with a column of scores for each sample of noise."""

    X: Any
    y: np.ndarray
    qid: np.ndarray

    def take(self, rows: np.ndarray) -> Part:
        return Part(self.X[rows], self.y[rows], self.qid[rows])


@dataclass(frozen=True)
class Row:
    """A ranker: scores for all its settings, the simplest first.

    `scores(train, X)` has shape (rows of X, settings, outputs).
    """

    name: str
    scores: Callable[[Part, Any], np.ndarray]


def on_components(ridges: np.ndarray, train: Part, X: Any) -> np.ndarray:
    """Few components first; for each number, the largest ridge first."""
    ranker = KPCRank("auto", kernel="linear", scale=None, weighting="pairs")
    path = ranker.path(train.X, train.y, ridges[::-1], qid=train.qid)
    joined = np.stack([path.estimator(a).predict_path(X) for a in range(len(ridges))], axis=2)
    return joined.reshape(len(joined), -1, joined.shape[3])


def on_ridges(train: Part, X: Any) -> np.ndarray:
    """The largest alpha first."""
    ranker = RankRLS(scale=None, weighting="pairs")
    path = ranker.path(train.X, train.y, ALPHAS[::-1], qid=train.qid)
    return np.asarray(path.predict(X)).transpose(1, 0, 2)


ROWS = (
    Row("KPCRank", partial(on_components, RIDGES[:1])),
    Row("KPCRank, components and ridge", partial(on_components, RIDGES)),
    Row("RankRLS", on_ridges),
)


def held_out(row: Row, train: Part) -> np.ndarray:
    """Mean disagreement over queries, shape (settings, outputs)."""
    _, codes = np.unique(train.qid, return_inverse=True)
    found, most = [], None
    for k in range(FOLDS):
        inside, outside = codes % FOLDS != k, codes % FOLDS == k
        test = train.take(outside)
        scores = row.scores(train.take(inside), test.X)
        most = scores.shape[1] if most is None else min(most, scores.shape[1])
        found.append(query_errors(test, scores))
    errors = np.concatenate([values[:, :most] for values in found])
    return np.nanmean(errors, axis=0)


def query_errors(part: Part, scores: np.ndarray) -> np.ndarray:
    """Disagreement of each query over pairs of different labels, (queries, settings, outputs)."""
    values = []
    for q in np.unique(part.qid):
        rows = np.flatnonzero(part.qid == q)
        i, j = np.triu_indices(len(rows), 1)
        truth = np.sign(part.y[rows[i]] - part.y[rows[j]])[:, None]
        wrong = 0.5 * (1.0 - truth * np.sign(scores[rows[i]] - scores[rows[j]]))
        counted = (truth != 0).sum(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):  # a query with one label has none
            values.append((wrong * (truth != 0)).sum(axis=0) / counted)
    return np.array(values)
