"""Exact hold-outs of single comparisons."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.backends.backend import Backend
from rankwise.backends.dispatch import backend_of
from rankwise.graph.comparison_graph import ComparisonGraph
from rankwise.holdout.rounding import nonnegative
from rankwise.problem import Problem, System


@dataclass(frozen=True, eq=False)
class ComparisonHat:
    """Some comparisons, for any lam: their fitted differences and leverages.

    With z = x_i - x_j, the leverage of a comparison of weight w is h = w z'(A + lam I)^-1 z, and
    the fit without it predicts (z'w - h margin) / (1 - h).

    Attributes
    ----------
    D : ndarray of shape (n_some, rank)
        Differences of rows in eigenvectors.
    s : ndarray of shape (rank,)
    products : ndarray of shape (rank, n_outputs)
    weight : ndarray of shape (n_some,)
    margin : ndarray of shape (n_some, n_outputs)
    own : ndarray of shape (n_some,) or None
        z'z in the feature space of a kernel; None for features.
    """

    D: Array
    s: Array
    products: Array
    weight: Array
    margin: Array
    own: Array | None = None

    @classmethod
    def from_sums(cls, problem: Problem, system: System, some: Index) -> ComparisonHat:
        """From moments: O(N n^2) time for N comparisons, without the coordinates of all rows."""
        graph, X = _graph(problem), problem.X
        found = system.coordinate_moments(system.moments(X, problem.tasks[0], problem.loss))
        on, b = backend_of(found.A), found.b
        s, V = on.eigh(found.A)
        V, load = on.contiguous(V), system.coordinates(X)
        rows, where = np.unique(
            np.concatenate((graph.first[some], graph.second[some])), return_inverse=True
        )
        F = load(rows)
        first, second = np.split(where, 2)
        D = on.matmul(on.contiguous(F[first] - F[second]), V)
        products = V.T @ b.reshape(len(b), -1)
        return cls(D, s.clip(min=0.0), products, *_given(graph, some, on))

    @classmethod
    def from_kernel(cls, problem: Problem, K: Array, some: Index, least: float) -> ComparisonHat:
        """From a kernel matrix: O(m^3) time; `least` is the smallest lam.

        With the root R and R K R' = V diag(s) V', the inverse of L + lam K^-1 is
        (K - P diag(1 / (s + lam)) P') / lam with P = K R'V.
        """
        graph, on = _graph(problem), backend_of(K)
        t = on.array(graph.root_target(None))
        RK = graph.root(K)
        s, V = on.eigh(on.contiguous(graph.root_kernel(on.copy(K))))
        V, s = on.contiguous(V), nonnegative(s, least)
        P = on.matmul(on.contiguous(RK.T), V)
        first, second = graph.first[some], graph.second[some]
        diagonal = K.diagonal()
        own = diagonal[first] + diagonal[second] - 2.0 * K[first, second]
        products = V.T @ t.reshape(len(t), -1)
        return cls(P[first] - P[second], s, products, *_given(graph, some, on), own)

    def held_out(self, lam: float) -> Array:
        """Differences of the scores of both rows without the comparison, (n_some, n_outputs)."""
        divisors = self.s + lam
        fitted = self.D @ (self.products / divisors[:, None])
        leverage = (self.D**2) @ (1.0 / divisors)
        if self.own is not None:
            leverage = (self.own - leverage) / lam
        h = (self.weight * leverage).clip(max=1.0 - 1e-12)[:, None]
        differences: Array = (fitted - h * self.margin) / (1.0 - h)
        return differences


def _graph(problem: Problem) -> ComparisonGraph:
    graph = problem.tasks[0].graph
    assert isinstance(graph, ComparisonGraph)
    return graph


def _given(graph: ComparisonGraph, some: Index, on: Backend) -> tuple[Array, Array]:
    margin = graph.margin[some]
    return on.array(graph.weight[some]), on.array(margin.reshape(len(margin), -1))
