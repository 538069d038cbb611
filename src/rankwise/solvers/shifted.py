"""(M + lam I) z = t for a symmetric, positive semidefinite M and one or many lam."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh, lapack

from rankwise.backends.arrays import Array
from rankwise.errors import DataError
from rankwise.solvers.band import BandForm

Solve = Callable[[float], Array]

# Measured in Cholesky factorizations of the same size: what many shifts may cost at most.
REDUCTION_COST = 5  # of a band form, for matrices that are not small
SMALL = 200  # below this size an eigendecomposition costs next to nothing


def solve_shifted(M: Array, t: Array, lams: Sequence[float]) -> list[Array]:
    """(M + lam I)^-1 t for each lam; M is overwritten.

    One Cholesky factorization for each lam (n^3/3 flops), or, where that is cheaper, one
    reduction to band form for all of them (4/3 n^3). A lam that is lost in the rounding of M
    is served by the eigenvectors of M that are not: M is often numerically singular, and what
    its null space would add to z is noise that no prediction depends on.

    Memory: M, and a copy of it where several factorizations are made.
    """
    _check_finite(M)
    if min(lams) <= rounding_floor(M) or (len(lams) > 1 and len(M) <= SMALL):
        return list(map(Spectrum.of(M).solver(t), lams))
    if len(lams) > REDUCTION_COST:
        form = BandForm.of(M)
        return [_or_explain(form.solve, t, lam) for lam in lams]
    last = len(lams) - 1
    return [
        _or_explain(lambda t, lam, k=k: _cholesky_solve(M if k == last else M.copy(), t, lam), t, lam)
        for k, lam in enumerate(lams)
    ]


def rounding_floor(M: Array) -> float:
    """The size of eigenvalues of M that are nothing but rounding."""
    return float(len(M) * np.finfo(np.float64).eps * np.diagonal(M).max(initial=0.0))


@dataclass(frozen=True)
class Spectrum:
    """M = V diag(s) V', without the eigenvalues that are nothing but rounding."""

    V: Array
    s: Array

    @classmethod
    def of(cls, M: Array) -> Spectrum:
        """One eigendecomposition; M is overwritten."""
        floor = rounding_floor(M)
        s, V = eigh(M, overwrite_a=True, check_finite=False)
        if s[0] < -100 * floor:
            raise _not_positive(float(s[0]))
        kept = s > floor
        return cls(V[:, kept], s[kept])

    def solver(self, t: Array) -> Solve:
        """The function of lam that gives (M + lam I)^-1 t on the space that V spans."""
        columns = t.reshape(len(t), -1)
        rotated = self.V.T @ columns

        def solve(lam: float) -> Array:
            return (self.V @ (rotated / (self.s + lam)[:, None])).reshape(t.shape)

        return solve


def _cholesky_solve(M: Array, t: Array, lam: float) -> Array:
    """(M + lam I)^-1 t by Cholesky, in the memory of M."""
    M[np.diag_indices_from(M)] += lam
    # LAPACK counts columns first: the transpose of a symmetric matrix spares the copy.
    factor, info = lapack.dpotrf(M.T if M.flags.c_contiguous else M, clean=0, overwrite_a=1)
    if info:
        raise np.linalg.LinAlgError
    z, _ = lapack.dpotrs(factor, t)
    return np.asarray(z).reshape(t.shape)


def _or_explain(solve: Callable[[Array, float], Array], t: Array, lam: float) -> Array:
    try:
        return solve(t, lam)
    except np.linalg.LinAlgError:
        raise _not_positive(-lam) from None


def _not_positive(smallest: float) -> DataError:
    return DataError(
        f"The kernel is not positive semidefinite (an eigenvalue is about {smallest:.3g} or "
        "less), so the objective has no minimum at this alpha. Use a positive semidefinite "
        f"kernel, or an alpha well above {-smallest:.3g}."
    )


def _check_finite(M: Array) -> None:
    # Any entry of a positive semidefinite matrix is bounded by the diagonal.
    if not np.isfinite(np.diagonal(M)).all():
        raise DataError(
            "Products of feature or kernel values overflow. Scale the features, "
            "for example with sklearn.preprocessing.StandardScaler."
        )
