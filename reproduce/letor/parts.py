"""Parts of the LETOR data, and what can be done to their features query by query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from rankwise.data import load_dataset, normalize_per_query
from rankwise.graph import QueryGroups

FOLDS = range(1, 6)
POSITIONS = range(1, 11)


@dataclass(frozen=True)
class Part:
    """Rows of one part of a fold."""

    X: np.ndarray
    y: np.ndarray
    qid: np.ndarray

    def with_features(self, X: np.ndarray) -> Part:
        return Part(X, self.y, self.qid)

    def and_also(self, other: Part) -> Part:
        """The rows of both."""
        return Part(
            np.vstack((self.X, other.X)),
            np.concatenate((self.y, other.y)),
            np.concatenate((self.qid, other.qid)),
        )


def load(name: str, fold: int, prepare: Callable[[Part], np.ndarray]) -> list[Part]:
    """Training, validation and test part of a fold, with prepared features."""
    parts = []
    for which in ("train", "validation", "test"):
        data = load_dataset(name, fold=fold, part=which)
        raw = Part(data.X, data.y, data.qid)
        parts.append(raw.with_features(prepare(raw)))
    return parts


def minmax(part: Part) -> np.ndarray:
    """To [0, 1] in each query, as in the paper."""
    return normalize_per_query(part.X, part.qid)


def standard(part: Part) -> np.ndarray:
    """Mean 0 and variance 1 in each query; 0 where a feature is constant."""

    def scale(X: np.ndarray) -> np.ndarray:
        spread = X.std(axis=0)
        return np.divide(X - X.mean(axis=0), spread, out=np.zeros_like(X), where=spread > 1e-12)

    return _by_query(part, scale)


def ranks(part: Part) -> np.ndarray:
    """Mean ranks in each query, from -1/2 to 1/2."""
    return _by_query(part, lambda X: (rankdata(X, axis=0) - 0.5) / len(X) - 0.5)


def minmax_and_ranks(part: Part) -> np.ndarray:
    """Both, side by side."""
    return np.hstack((minmax(part), ranks(part)))


PREPARATIONS: dict[str, Callable[[Part], np.ndarray]] = {
    "minmax": minmax,
    "standard": standard,
    "ranks": ranks,
    "minmax and ranks": minmax_and_ranks,
}


def _by_query(part: Part, change: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    X = np.asarray(part.X, dtype=np.float64)
    out = np.empty_like(X)
    for rows in QueryGroups.of(part.qid, len(X)):
        out[rows] = change(X[rows])
    return out
