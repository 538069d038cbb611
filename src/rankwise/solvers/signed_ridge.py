"""Ridge regression with weights of given signs, from moments: an active-set method.

With M = A + lam I, the weights minimize w'Mw / 2 - w'b where s_j w_j >= 0 for each sign s_j that is
not 0. They are the solution if some weights are 0, the others F solve M_FF w_F = b_F with the right
signs, and no weight of 0 would decrease the objective by growing into its permitted direction:
s_j (Mw - b)_j >= 0. M is positive definite, so there is one solution.

Block principal pivoting (Portugal, Júdice, Vicente: A comparison of block pivoting and interior
point algorithms for linear least squares problems with nonnegative variables. Mathematics of
Computation 63, 1994) exchanges all weights that violate one of the two conditions at once. If that
does not help, it exchanges one of them at a time, which ends after finitely many steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv

from rankwise.backends.arrays import EPS, Array, backend_of, to_host
from rankwise.solvers.ridge_path import (
    check_finite,
    negligible_size,
    rounding_floor,
    solve_scaled_singular,
)

Mask: TypeAlias = NDArray[np.bool_]
PATIENCE = 3  # exchanges of all violations that do not lower their number
ROUNDS = 50  # of single exchanges for each weight, before rounding errors count for more
GROWTH = 10.0
FEW_DIGITS = 1e3  # times the rounding floor: smaller pivots may be rounding errors


def solve_signed_path(
    A: Array, b: Array, lams: Sequence[float], signs: Sequence[int]
) -> list[Array]:
    """The weights with these signs for each lam; each output and each lam starts from the last.

    A few Cholesky factorizations for each lam and output: O(n^3) time each. Weights that are 0 are
    exactly 0.
    """
    check_finite(A, b)
    on, host, sign = backend_of(A), np.array(to_host(A), dtype=np.float64), np.array(signs)
    columns = np.asarray(to_host(b), dtype=np.float64).reshape(len(host), -1)
    found = [np.empty_like(columns) for _ in lams]
    diagonal = host.diagonal().copy()
    free: list[Mask | None] = [None] * columns.shape[1]
    for k in np.argsort(lams)[::-1].tolist():  # fewer weights are free at large alphas
        np.fill_diagonal(host, diagonal + lams[k])
        for o, column in enumerate(columns.T):
            found[k][:, o], free[o] = signed_solution(host, column, sign, free[o])
    return [on.array(w.reshape(b.shape)) for w in found]


def signed_solution(
    M: Array, b: Array, signs: Array, free: Mask | None = None
) -> tuple[Array, Mask]:
    """The weights of one output, and which of them are free.

    The exchanges start from the weights in `free`, or from the solution without signs.
    """
    bound = signs != 0
    free = np.ones(len(b), dtype=bool) if free is None else free | ~bound
    size = np.sqrt(M.diagonal())  # |M_ij| <= size_i size_j
    fewest, patience, rounds = len(b) + 1, PATIENCE, 0
    tolerance = len(b) * EPS
    while True:
        w = np.zeros(len(b))
        w[free] = _solve(M if free.all() else M[free][:, free], b[free])
        slope = signs * (M @ w - b)
        rounding = tolerance * (size * (size @ np.abs(w)) + np.abs(b))
        wrong = np.where(free, signs * w < 0.0, slope < -rounding) & bound
        n_wrong = int(np.count_nonzero(wrong))
        if n_wrong == 0:
            return w, free
        if n_wrong < fewest:
            fewest, patience = n_wrong, PATIENCE
        elif patience > 0:
            patience -= 1
        else:
            last = int(np.flatnonzero(wrong)[-1])
            wrong = np.arange(len(b)) == last
            rounds += 1
            if rounds % (ROUNDS * len(b)) == 0:
                tolerance *= GROWTH
        free = free ^ wrong


def _solve(M: Array, b: Array) -> Array:
    """M^-1 b; restricted to the numerical range of M if it is singular."""
    if len(b) == 0:
        return b
    # So that large features do not hide the pivots of small ones.
    size = np.sqrt(M.diagonal().clip(min=negligible_size(M)))
    S = M / size[:, None] / size
    factor, z, failed = dposv(S, b / size, lower=True)  # a Cholesky factorization
    if not failed and factor.diagonal().min() ** 2 > FEW_DIGITS * rounding_floor(S):
        return np.asarray(z / size)
    floor, sizes = rounding_floor(M), M.diagonal()
    least = sizes[sizes > negligible_size(M)].min(initial=np.inf)
    if least <= FEW_DIGITS * floor:  # the eigenvalues of M would lose this feature
        return solve_scaled_singular(M, b, 0.0)
    s, V = np.linalg.eigh(M)
    kept = s > floor
    return np.asarray(V[:, kept] @ ((V[:, kept].T @ b) / s[kept]))
