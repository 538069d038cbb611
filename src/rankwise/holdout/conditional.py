"""One query, conditional on all others.

A ranker trained on the other queries predicts f for the rows of a query. The conditional kernel is
k(x, x') minus the part that the other queries explain, as the posterior covariance of a Gaussian
process. Both are needed only up to constants, since a query has a free intercept. Holding out rows
of this query is then a problem of this query alone, with the conditional kernel instead of the
kernel and y - f instead of y.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, Index, is_sparse
from rankwise.backends.dispatch import backend_of
from rankwise.graph.query_graph import QueryGraph
from rankwise.holdout.leave_query_out import sums_without
from rankwise.holdout.resolvent import lifted_root_kernel, resolvents


@dataclass(frozen=True)
class Conditional:
    """One query, conditional on the others.

    Attributes
    ----------
    rows : ndarray of shape (n,)
        The rows of the query.
    prediction : ndarray of shape (n, n_outputs)
        f trained without the query, up to a constant.
    target : ndarray of shape (n, n_outputs)
        y minus that prediction, up to a constant.
    kernel : ndarray of shape (n, n) or None
        The conditional kernel, up to constants.
    features : ndarray of shape (n, d) or None
        Features whose inner products are the conditional kernel; either these or `kernel` is set.
    weight : float
        The weight of the query.
    """

    rows: Index
    prediction: Array
    target: Array
    kernel: Array | None = None
    features: Array | None = None
    weight: float = 1.0

    def stored_kernel(self) -> Array:
        """A new matrix with the conditional kernel."""
        if self.kernel is not None:
            return backend_of(self.kernel).copy(self.kernel)
        assert self.features is not None
        return self.features @ self.features.T


def dual_conditionals(
    K: Array, graph: QueryGraph, y: Array, lams: Sequence[float]
) -> Iterator[tuple[int, Conditional]]:
    """(k, query) for each lam with index k and each query with pairs; K is overwritten.

    The Schur complement of N = (R K R + lam I)^-1 is N_qq^-1 = R_q K~ R_q + lam I with the
    conditional kernel K~, and v = N_qq^-1 z_q is R_q (y - f).

    Cost: N for each lam, or one eigendecomposition for all, and the cube of each query size.
    """
    on, t = backend_of(K), graph.root_target(y)
    M = lifted_root_kernel(K, graph)
    queries = [(rows, graph.take(rows)) for rows in query_rows(graph)]
    for k, N in enumerate(resolvents(M, lams, t)):
        z = N.apply(t)
        for rows, part in queries:
            n = len(rows)
            # One solve gives both N_qq^-1 and N_qq^-1 z_q.
            eye = on.array(np.eye(n))
            both = on.solve(N.block(rows), on.xp.hstack((eye, z[rows])))
            inner = both[:, :n] - N.lam * eye
            kernel = part.root_inverse(part.root_inverse(inner).T)
            target = part.root_inverse(on.contiguous(both[:, n:]))
            kernel = (kernel + kernel.T) / 2
            weight = query_weight(graph, rows)
            labels = y[rows] - y[rows[0]]  # exact, also far from zero
            yield k, Conditional(rows, labels - target, target, kernel=kernel, weight=weight)


def primal_conditionals(
    F: Any, graph: QueryGraph, y: Array, lams: Sequence[float]
) -> Iterator[tuple[int, Conditional]]:
    """Like `dual_conditionals`, from features.

    With the moments A and b of the other queries, f = F_q (A + lam I)^-1 b, and the conditional
    kernel is lam F_q (A + lam I)^-1 F_q'.

    Cost: O(m n^2), and one eigendecomposition of an n by n matrix for each query.
    """
    on = backend_of(F)
    Z = on.contiguous(graph.root(F.toarray() if is_sparse(F) else F))
    t = graph.root_target(y)
    folds = list(query_rows(graph))
    for first, A, b in sums_without(Z, t, folds):
        for rows, A_q, b_q in zip(folds[first:], A, b, strict=False):
            s, V = on.eigh(on.copy(A_q))
            own = on.rows(F, rows)
            # Constants do not matter, and differences are accurate far from zero.
            rotated, labels = (own - own.mean(axis=0)) @ V, y[rows] - y[rows[0]]
            for k, lam in enumerate(lams):
                divisors = s.clip(min=0.0) + lam
                f = (rotated / divisors) @ (V.T @ b_q)
                features = on.xp.sqrt(lam / divisors) * rotated
                weight = query_weight(graph, rows)
                yield k, Conditional(rows, f, labels - f, features=features, weight=weight)


def query_weight(graph: QueryGraph, rows: Index) -> float:
    """The weight of the query of these rows."""
    weights = graph.groups.weights
    return 1.0 if weights is None else float(weights[graph.groups.codes[rows[0]]])


def query_rows(graph: QueryGraph) -> Iterator[Index]:
    """Row indices of each query that has pairs, ascending."""
    ends = graph.level_ptr[graph.query_ptr]
    for q in np.flatnonzero(graph.pairs_of_query):
        yield np.sort(graph.rows[ends[q] : ends[q + 1]])
