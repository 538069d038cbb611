"""RankRLS on arrays, in primal and dual form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from scipy.linalg import solve_triangular

from rankwise.backends.arrays import Array, is_sparse
from rankwise.backends.dispatch import backend_of
from rankwise.graph import PairGraph
from rankwise.solvers.moments import Moments
from rankwise.solvers.ridge_path import solve_ridge_path


def primal(
    F: Any, graph: PairGraph, y: Array | None, lams: Sequence[float], C: Array | None = None
) -> list[Array]:
    """w = (F'LF + lam I)^-1 F'Ly for each lam: equation (11) of the RankRLS paper.

    With a lower triangular C, the regularizer is CC' instead of I. O(m n^2 + n^3) time and O(n^2)
    memory for m rows of n features.
    """
    moments = Moments.of(F, graph, y)
    if C is None:
        return solve_ridge_path(moments.A, moments.b, lams, gram=True)

    def solve(M: Array, trans: Literal["N", "T"] = "N") -> Array:
        return np.asarray(solve_triangular(C, M, lower=True, trans=trans, check_finite=False))

    A = solve(solve(moments.A).T)
    found = solve_ridge_path((A + A.T) / 2, solve(moments.b), lams, gram=True)
    return [solve(z, "T") for z in found]


def linear_dual(F: Any, graph: PairGraph, y: Array | None, lams: Sequence[float]) -> list[Array]:
    """w = F'a from `dual` with the linear kernel, for more features than rows.

    With Z = R F, M = Z Z' and w = Z'z. Differences are taken before products, which avoids
    cancellation for features far from zero. Only such columns of a sparse F are made dense.
    """
    on = backend_of(F)
    t = on.array(graph.root_target(y))
    if not is_sparse(F):
        Z = on.contiguous(graph.root(on.rows(F, slice(None))))
        return [Z.T @ z for z in solve_ridge_path(on.matmul(Z, Z.T), t, lams)]
    offset = graph.offset_columns(F)
    near = np.setdiff1d(np.arange(F.shape[1]), offset)
    rest, Z = F[:, near], graph.root(F[:, offset].toarray())
    M = graph.root_kernel(np.ascontiguousarray((rest @ rest.T).toarray(), dtype=np.float64))
    solutions = []
    for z in solve_ridge_path(np.ascontiguousarray(M + Z @ Z.T), t, lams):
        w = np.empty((F.shape[1], *z.shape[1:]))
        w[near], w[offset] = rest.T @ graph.root_transpose(z), Z.T @ z
        solutions.append(w)
    return solutions


def dual(K: Array, graph: PairGraph, y: Array | None, lams: Sequence[float]) -> list[Array]:
    """a = (LK + lam I)^-1 Ly for each lam: equation (8) of the RankRLS paper.

    LK is not symmetric. With L = R'R, the push-through identity gives the symmetric form

        a = R' (R K R' + lam I)^-1 t,   R't = Ly.

    O(m^3) time; K is overwritten, and a single lam needs no further memory.
    """
    t = backend_of(K).array(graph.root_target(y))
    M = graph.root_kernel(K)
    return [graph.root_transpose(z) for z in solve_ridge_path(M, t, lams)]
