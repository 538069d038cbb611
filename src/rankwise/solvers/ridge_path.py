"""RankRLS on arrays, in primal and dual form, for any number of lam."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.linalg import solve_triangular

from rankwise.backends.arrays import EPS, Array, is_sparse
from rankwise.backends.dispatch import backend_of
from rankwise.errors import DataError, warn
from rankwise.graph import PairGraph
from rankwise.solvers.band import BandForm
from rankwise.solvers.moments import Moments

SMALL = 200  # up to this size, the cost of an eigendecomposition is negligible

TINY = 1e-290  # what is divided by less would overflow
GRAM_MARGIN = 1e3  # times the rounding floor: below it, Z'Z + lam I may be indefinite by rounding


def solve_ridge_path(
    M: Array, t: Array, lams: Sequence[float], *, gram: bool = False
) -> list[Array]:
    """(M + lam I)^-1 t for each lam; M is overwritten.

    One Cholesky factorization for each lam (n^3/3 flops) or, if that is cheaper, one reduction for
    all of them: to band form (4/3 n^3 flops) or, on a device, to eigenvalues. If a lam is below
    the rounding errors of M, the solution is restricted to the numerical range of M: M is often
    numerically singular, and predictions do not depend on the null space.

    If M has negative eigenvalues, the solution is a stationary point of the objective instead of a
    minimum, and a warning is issued. With ``gram=True``, M is known to be a Gram matrix Z'Z, and
    its negative eigenvalues are rounding errors.

    Memory: M, and a copy of it if there are several factorizations.
    """
    _check_finite(M, t)
    doubtful = rounding_floor(M) * (GRAM_MARGIN if gram else 1.0)
    if min(lams) <= doubtful or (len(lams) > 1 and len(M) <= SMALL):
        spectrum = Spectrum.of(M, gram=gram)
        return [spectrum.solve(t, lam) for lam in lams]
    on = backend_of(M)
    if len(lams) > on.reduction_cost:
        solve = _reduced(M, gram=gram)
        return [solve(t, lam) for lam in lams]
    last = len(lams) - 1
    return [
        _solve_cholesky(M if k == last else on.copy(M), t, lam, gram=gram)
        for k, lam in enumerate(lams)
    ]


def rounding_floor(M: Array) -> float:
    """The size of eigenvalues of M that rounding errors alone can cause, at least `TINY`."""
    return diagonal_floor(M.diagonal())


def diagonal_floor(diagonal: Array) -> float:
    """`rounding_floor` of a matrix with this diagonal."""
    n = len(diagonal)
    return max(n * EPS * float(abs(diagonal).max()), TINY) if n else 0.0


@dataclass(frozen=True)
class Spectrum:
    """M = V diag(s) V'; eigenvalues up to `floor` are rounding errors."""

    V: Array
    s: Array
    floor: float

    @classmethod
    def of(cls, M: Array, *, gram: bool = False, floor: float = 0.0) -> Spectrum:
        """One eigendecomposition; M is overwritten. For a Gram matrix, negative values become 0.

        `floor` is the size of rounding errors of M itself, if they are larger than usual.
        """
        floor = max(rounding_floor(M), floor)
        on = backend_of(M)
        s, V = on.eigh(M)
        if gram and len(s):
            floor = max(floor, -4.0 * float(s.min()))
        return cls(V, on.xp.where(abs(s) > floor, s, 0.0), floor)

    def solve(self, t: Array, lam: float) -> Array:
        """(M + lam I)^-1 t; if lam is at most `floor`, restricted to the range of M."""
        V, divisors = self.V, self.s + lam
        if lam <= self.floor:
            kept = self.s != 0.0
            V, divisors = V[:, kept], divisors[kept]
        if len(divisors) and divisors.min() <= 0:
            _warn_indefinite(lam)
            if abs(divisors).min() <= 1e-13 * abs(divisors).max():
                raise _singular(lam)
        columns = t.reshape(len(t), -1)
        z = V @ ((V.T @ columns) / divisors[:, None])
        return z.reshape(t.shape)


def _solve_cholesky(M: Array, t: Array, lam: float, *, gram: bool) -> Array:
    """(M + lam I)^-1 t, in the memory of M."""
    z = backend_of(M).solve_definite(M, t, lam)
    return _reduced(M, gram=gram)(t, lam) if z is None else z


def _reduced(M: Array, *, gram: bool) -> Callable[[Array, float], Array]:
    """A function (t, lam) that solves the system for eigenvalues of any sign."""
    if backend_of(M).is_host:
        form = BandForm.of(M)
        return lambda t, lam: _solve_band(form, t, lam)
    return Spectrum.of(M, gram=gram).solve


def _solve_band(form: BandForm, t: Array, lam: float) -> Array:
    """(M + lam I)^-1 t from the band form of M, definite or not."""
    try:
        return form.solve(t, lam)
    except np.linalg.LinAlgError:
        _warn_indefinite(lam)
    try:
        return form.solve_indefinite(t, lam)
    except np.linalg.LinAlgError:
        raise _singular(lam) from None


def _warn_indefinite(lam: float) -> None:
    warn(
        f"The kernel is not positive semidefinite: at alpha = {lam:g} the objective has no "
        "minimum, and the solution is a stationary point. Use a positive semidefinite kernel "
        "or a larger alpha.",
    )


def _singular(lam: float) -> DataError:
    return DataError(
        f"The kernel is not positive semidefinite, and at alpha = {lam:g} the system is singular. "
        "Use a positive semidefinite kernel or another alpha."
    )


def _check_finite(M: Array, t: Array) -> None:
    # The diagonal of a positive semidefinite matrix bounds all of its entries.
    on = backend_of(M)
    if not on.is_finite(M.diagonal()):
        raise DataError(
            "Products of feature or kernel values overflow. Scale the features, "
            "for example with sklearn.preprocessing.StandardScaler."
        )
    if not on.is_finite(t):
        raise DataError("Products with labels or margins overflow. Scale the labels or margins.")


def primal(
    F: Any, graph: PairGraph, y: Array | None, lams: Sequence[float], C: Array | None = None
) -> list[Array]:
    """w = (F'LF + lam I)^-1 F'Ly for each lam: equation (11) of the RankRLS paper.

    Rows of F are the columns of the paper's Phi(X). With a lower triangular C, the regularizer is
    CC' instead of I. O(m n^2 + n^3) time and O(n^2) memory for m rows of n features.
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

    The paper's A is a here. LK is not symmetric. With L = R'R, the push-through identity gives the
    symmetric form

        a = R'z,   z = (M + lam I)^-1 t,   M = R K R',   R't = Ly.

    O(m^3) time; K is overwritten, and a single lam needs no further memory.
    """
    t = backend_of(K).array(graph.root_target(y))
    M = graph.root_kernel(K)
    return [graph.root_transpose(z) for z in solve_ridge_path(M, t, lams)]
