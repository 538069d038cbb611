"""What is known about the scores of items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rankwise.backends.arrays import Array, Index

MANY = 400  # items above which draws take the place of a covariance, and much is done with less
SPREAD = 2.0  # prior variance of scores
_DRAWS = 50  # before anything was computed


class Scores(Protocol):
    """A normal distribution of the scores of all items, in units of the noise of an answer."""

    @property
    def mean(self) -> Array: ...

    def draws(self, most: int) -> Array:
        """Scores from the distribution, at most so many rows; the same ones every time."""

    def spread(self) -> Array:
        """Variance of each score."""

    def contrast(self) -> Array:
        """Variance of each score less the mean of all scores."""

    def variance(self, i: Index, j: Index) -> Array:
        """Variances of differences of pairs of scores."""

    def covariance_of(self, rows: slice) -> Array:
        """Covariances of some scores with all."""

    def axes(self, root: Array) -> tuple[Array, Array | None]:
        """Eigenvalues and eigenvectors of the covariance of root times scores.

        None in place of eigenvectors: scores are taken as independent.
        """

    def compared(self, i: int, j: int) -> Scores:
        """The distribution after a comparison of equals, whose noise has the variance pi / 2."""


def unknown_scores(n_items: int) -> DrawnScores:
    """Before anything was computed: equal scores, about which little is known."""
    around = np.random.default_rng(0).standard_normal((_DRAWS, n_items))
    return DrawnScores(np.zeros(n_items), np.sqrt(SPREAD) * around)


@dataclass(frozen=True, eq=False)
class DenseScores:
    """Scores with their covariance."""

    mean: Array
    covariance: Array

    def draws(self, most: int) -> Array:
        rng = np.random.default_rng(most)
        n, covariance = len(self.mean), self.covariance
        jitter = 1e-9 * float(np.trace(covariance)) / n + 1e-300
        try:
            root = np.linalg.cholesky(covariance + jitter * np.eye(n))
        except np.linalg.LinAlgError:  # rounding made it indefinite
            values, vectors = np.linalg.eigh(covariance)
            root = vectors * np.sqrt(np.maximum(values, 0.0))
        return np.asarray(self.mean + rng.standard_normal((most, n)) @ root.T)

    def spread(self) -> Array:
        return np.diagonal(self.covariance)

    def contrast(self) -> Array:
        level = self.covariance.mean(axis=1)
        return np.maximum(self.spread() - 2.0 * level + level.mean(), 0.0)

    def variance(self, i: Index, j: Index) -> Array:
        spread = self.spread()
        return np.maximum(spread[i] + spread[j] - 2.0 * self.covariance[i, j], 0.0)

    def covariance_of(self, rows: slice) -> Array:
        return np.asarray(self.covariance[rows])

    def axes(self, root: Array) -> tuple[Array, Array | None]:
        values, vectors = np.linalg.eigh(root[:, None] * self.covariance * root)
        return np.maximum(values, 0.0), vectors

    def compared(self, i: int, j: int) -> DenseScores:
        column = self.covariance[:, i] - self.covariance[:, j]
        known = column / (0.5 * np.pi + max(column[i] - column[j], 0.0))
        return DenseScores(self.mean, np.asarray(self.covariance - column[:, None] * known))


@dataclass(frozen=True, eq=False)
class DrawnScores:
    """Scores of many items with draws around their mean, in place of a covariance."""

    mean: Array
    around: Array  # of shape (n_draws, n_items)

    def draws(self, most: int) -> Array:
        return np.asarray(self.mean + self.around[:most])

    def spread(self) -> Array:
        return np.asarray(np.mean(self.around**2, axis=0))

    def contrast(self) -> Array:
        return np.asarray(np.mean((self.around - self.around.mean(axis=1)[:, None]) ** 2, axis=0))

    def variance(self, i: Index, j: Index) -> Array:
        columns, total = np.ascontiguousarray(self.around.T), np.empty(len(i))
        for k in range(0, len(i), 4096):  # as many pairs as fit a cache
            part = slice(k, k + 4096)
            total[part] = np.mean((columns[i[part]] - columns[j[part]]) ** 2, axis=1)
        return total

    def covariance_of(self, rows: slice) -> Array:
        return np.asarray(self.around[:, rows].T @ self.around / len(self.around))

    def axes(self, root: Array) -> tuple[Array, Array | None]:
        return np.asarray(root**2 * self.spread()), None

    def compared(self, i: int, j: int) -> DrawnScores:
        """As before: of many items, pairs that are chosen together have none in common."""
        return self
