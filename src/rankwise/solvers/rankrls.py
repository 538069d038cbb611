"""RankRLS on arrays, in its two forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rankwise.backends.arrays import Array
from rankwise.graph import PreferenceGraph
from rankwise.solvers.moments import Moments
from rankwise.solvers.shifted import solve_shifted


def primal(F: Any, graph: PreferenceGraph, y: Array | None, lams: Sequence[float]) -> list[Array]:
    """w = (F'LF + lam I)^-1 F'Ly for each lam: equation (11) of the RankRLS paper.

    O(m n^2 + n^3) time and O(n^2) memory for m rows of n features.
    """
    moments = Moments.of(F, graph, y)
    return solve_shifted(moments.A, moments.b, lams)


def dual(K: Array, graph: PreferenceGraph, y: Array | None, lams: Sequence[float]) -> list[Array]:
    """a = (LK + lam I)^-1 Ly for each lam: equation (8) of the RankRLS paper.

    LK is not symmetric; with L = R'R, pushing R through gives

        a = R' (R K R' + lam I)^-1 t,   R't = Ly,

    which is. O(m^3) time; K is overwritten, and is all the memory one lam needs.
    """
    t = graph.root_target(y)
    M = graph.root_kernel(K)
    return [graph.root_transpose(z) for z in solve_shifted(M, t, lams)]
