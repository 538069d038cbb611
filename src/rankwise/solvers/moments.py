"""A = F'LF and b = F'Ly, summed over blocks of rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, Loader, Rows, is_sparse
from rankwise.backends.dispatch import NUMPY, Backend, backend_of
from rankwise.graph import PairGraph
from rankwise.graph.query_graph import QueryGraph, row_scale

BLOCK_BYTES = 8 * 2**20  # of features processed at a time
STORED_BYTES = 256 * 2**20  # largest features that are stored to avoid recomputing them


@dataclass(frozen=True, eq=False)
class Moments:
    """The sufficient statistics of a least-squares ranker.

    A = F'LF and b = F'Ly for features F and a preference graph with Laplacian L; for comparisons,
    b = F'B' diag(w) margin. Moments of disjoint sets of queries add up.

    Attributes
    ----------
    A : ndarray of shape (n_features, n_features)
    b : ndarray of shape (n_features,) or (n_features, n_outputs)
    """

    A: Array
    b: Array

    @classmethod
    def of(cls, F: Any, graph: PairGraph, y: Array | None = None) -> Moments:
        """Moments of dense or sparse features.

        A = Z'Z with Z = L^(1/2) F takes half the flops of a general product: O(m n^2) time, and
        about 8 MiB in addition to the result. N comparisons take O(N n^2) time or, if they
        outnumber the rows by far, O(N + m n^2) time and a copy of F. Sparse features stay sparse.
        """
        if is_sparse(F):
            return cls(graph.gram(F), np.asarray(F.T @ graph.rhs(y)))
        on = backend_of(F)
        if graph.n_root_rows > 2 * graph.n_rows:  # many comparisons: a general product is cheaper
            F = on.rows(F, slice(None))
            A = on.matmul(F.T, graph @ F)
            return cls((A + A.T) / 2, F.T @ on.array(graph.rhs(y)))
        return cls.of_blocks(lambda rows: on.rows(F, rows), F.shape[1], graph, y, on)

    @classmethod
    def of_blocks(
        cls,
        load: Loader,
        n_features: int,
        graph: PairGraph,
        y: Array | None = None,
        on: Backend = NUMPY,
    ) -> Moments:
        """Moments of features that ``load(rows)`` computes block by block.

        O(m n^2) time, or O(N n^2) for N comparisons. In addition to the result, about 16 MiB of
        memory, or 512 rows of features if that is more (on a device, a few of its blocks). If
        comparisons outnumber rows, features of up to 256 MiB and their products are stored, so
        that they are computed only once.
        """
        if graph.n_root_rows > 2 * graph.n_rows and 8 * graph.n_rows * n_features <= STORED_BYTES:
            return cls.of(load(slice(None)), graph, y)
        max_rows = max(256, on.block_bytes(BLOCK_BYTES) // (8 * max(n_features, 1)))
        return cls.of_root_blocks(graph.root_blocks(load, y, max_rows), n_features, on)

    @classmethod
    def of_root_blocks(
        cls, blocks: Iterable[tuple[Array, Array]], n_features: int, on: Backend = NUMPY
    ) -> Moments:
        """Moments from blocks (Z, t) of L^(1/2) F and L^(1/2) y."""
        A, b = on.zeros(n_features, n_features), on.zeros(n_features, 1)
        outputs: tuple[int, ...] = ()
        for Z, t in blocks:
            A = on.add_gram(A, Z)
            b = b + on.matmul(Z.T, t.reshape(len(t), -1))
            outputs = t.shape[1:]
        return cls(on.mirror_upper(A), b.reshape(n_features, *outputs))

    @np.errstate(over="ignore", invalid="ignore")  # solvers check for overflow
    def __add__(self, other: Moments) -> Moments:
        return Moments(self.A + other.A, self.b + other.b)

    @np.errstate(over="ignore", invalid="ignore")  # solvers check for overflow
    def __sub__(self, other: Moments) -> Moments:
        """The moments without some of the queries."""
        return Moments(self.A - other.A, self.b - other.b)

    def label_scatter(self, other: Moments) -> float:
        """What y'Ly of the sum has in addition to y'Ly of both parts: 0."""
        return 0.0

    def intercept(self, w: Array) -> float:
        """The intercept of scores F w: 0, since only differences count."""
        return 0.0


@dataclass(frozen=True, eq=False)
class CentredMoments:
    """The sufficient statistics of a regression with an intercept.

    A = F'CF and b = F'Cy, where C subtracts means. The sum of two sets of rows also includes the
    scatter between their means.

    Attributes
    ----------
    A : ndarray of shape (n_features, n_features)
    b : ndarray of shape (n_features,) or (n_features, n_outputs)
    n_rows : float
        The number of rows, or the sum of their weights; means are weighted in the same way.
    F_mean : ndarray of shape (n_features,)
    y_mean : ndarray of shape () or (n_outputs,)
    """

    A: Array
    b: Array
    n_rows: float
    F_mean: Array
    y_mean: Array

    @classmethod
    def of_blocks(
        cls, load: Loader, n_features: int, graph: QueryGraph, y: Array, on: Backend = NUMPY
    ) -> CentredMoments:
        """Like `Moments.of_blocks`, for the regression of y on the rows of one query."""
        total, weights = on.zeros(n_features), graph.row_weights

        def load_and_sum(rows: Rows) -> Array:
            nonlocal total
            F = load(rows)
            total += (F if weights is None else row_scale(weights[rows], F)).sum(axis=0)
            return F

        moments = Moments.of_blocks(load_and_sum, n_features, graph, y, on)
        n_rows = len(y) if weights is None else float(weights.sum())
        y_mean = on.array(row_mean(y, weights))
        return cls(moments.A, moments.b, n_rows, total / n_rows, y_mean)

    @np.errstate(over="ignore", invalid="ignore")  # solvers check for overflow
    def __add__(self, other: CentredMoments) -> CentredMoments:
        n = self.n_rows + other.n_rows
        share = other.n_rows / n
        F_gap, y_gap = other.F_mean - self.F_mean, other.y_mean - self.y_mean
        between = self.n_rows * share
        F_gaps = F_gap.reshape(-1, *[1] * y_gap.ndim)
        return CentredMoments(
            self.A + other.A + between * (F_gap[:, None] * F_gap),
            self.b + other.b + between * (F_gaps * y_gap),
            n,
            self.F_mean + share * F_gap,
            self.y_mean + share * y_gap,
        )

    @np.errstate(over="ignore", invalid="ignore")  # solvers check for overflow
    def __sub__(self, other: CentredMoments) -> CentredMoments:
        """The moments without some of the rows."""
        n = self.n_rows - other.n_rows
        share = other.n_rows / n
        F_gap, y_gap = other.F_mean - self.F_mean, other.y_mean - self.y_mean
        between = self.n_rows * share
        F_gaps = F_gap.reshape(-1, *[1] * y_gap.ndim)
        return CentredMoments(
            self.A - other.A - between * (F_gap[:, None] * F_gap),
            self.b - other.b - between * (F_gaps * y_gap),
            n,
            self.F_mean - share * F_gap,
            self.y_mean - share * y_gap,
        )

    def label_scatter(self, other: CentredMoments) -> Array:
        """The scatter between the means of y of two parts, which y'Cy of their sum includes."""
        weight = self.n_rows * other.n_rows / (self.n_rows + other.n_rows)
        scatter: Array = weight * (other.y_mean - self.y_mean) ** 2
        return scatter

    def intercept(self, w: Array) -> Array | float:
        """The intercept with which scores F w have the mean of y."""
        value = self.y_mean - self.F_mean @ w
        return float(value) if value.ndim == 0 else value


def row_mean(values: Array, weights: Array | None) -> Array:
    """The mean over rows, each with its weight."""
    if weights is None:
        mean: Array = values.mean(axis=0)
        return mean
    total: Array = row_scale(weights, values).sum(axis=0)
    return total / float(weights.sum())
