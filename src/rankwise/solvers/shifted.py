"""(M + lam I) z = t for a symmetric, positive semidefinite M and one or many lam."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh, lapack

from rankwise.backends.arrays import Array
from rankwise.errors import DataError, RankwiseWarning
from rankwise.solvers.band import BandForm

# Measured in Cholesky factorizations of the same size: what many shifts may cost at most.
REDUCTION_COST = 5  # of a band form, for matrices that are not small
SMALL = 200  # below this size an eigendecomposition costs next to nothing

GRAM_MARGIN = 1e3  # of the rounding floor: up to there, sums of products are not quite definite


def solve_shifted(M: Array, t: Array, lams: Sequence[float], *, gram: bool = False) -> list[Array]:
    """(M + lam I)^-1 t for each lam; M is overwritten.

    One Cholesky factorization for each lam (n^3/3 flops), or, where that is cheaper, one
    reduction to band form for all of them (4/3 n^3). A lam that is lost in the rounding of M
    is served by the eigenvectors of M that are not: M is often numerically singular, and what
    its null space would add to z is noise that no prediction depends on.

    Where M has negative eigenvalues the solution is a stationary point of the objective, not
    its minimum, and a warning says so; unless it is known to be a Gram matrix Z'Z, whose negative
    eigenvalues are rounding.

    Memory: M, and a copy of it where several factorizations are made.
    """
    _check_finite(M, t)
    doubtful = rounding_floor(M) * (GRAM_MARGIN if gram else 1.0)
    if min(lams) <= doubtful or (len(lams) > 1 and len(M) <= SMALL):
        spectrum = Spectrum.of(M, gram=gram)
        return [spectrum.solve(t, lam) for lam in lams]
    if len(lams) > REDUCTION_COST:
        form = BandForm.of(M)
        return [_solve_band(form, t, lam) for lam in lams]
    last = len(lams) - 1
    return [_solve_cholesky(M if k == last else M.copy(), t, lam) for k, lam in enumerate(lams)]


def rounding_floor(M: Array) -> float:
    """The size of eigenvalues of M that are nothing but rounding."""
    return float(len(M) * np.finfo(np.float64).eps * np.abs(np.diagonal(M)).max(initial=0.0))


@dataclass(frozen=True)
class Spectrum:
    """M = V diag(s) V'; eigenvalues up to `floor` are nothing but rounding."""

    V: Array
    s: Array
    floor: float

    @classmethod
    def of(cls, M: Array, *, gram: bool = False) -> Spectrum:
        """One eigendecomposition; M is overwritten. Of a Gram matrix, what is negative is 0."""
        floor = rounding_floor(M)
        s, V = eigh(M, overwrite_a=True, check_finite=False)
        if gram:
            floor = max(floor, -4.0 * float(s.min(initial=0.0)))
        return cls(V, np.where(np.abs(s) > floor, s, 0.0), floor)

    def solve(self, t: Array, lam: float) -> Array:
        """(M + lam I)^-1 t; where lam is rounding as well, on the range of M."""
        kept = np.full(len(self.s), True) if lam > self.floor else self.s != 0.0
        V, shifted = self.V[:, kept], self.s[kept] + lam
        if len(shifted) and shifted.min() <= 0:
            _warn_indefinite(lam)
            if np.abs(shifted).min() <= 1e-13 * np.abs(shifted).max():
                raise _singular(lam)
        columns = t.reshape(len(t), -1)
        z = V @ ((V.T @ columns) / shifted[:, None])
        return np.asarray(z.reshape(t.shape))


def _solve_cholesky(M: Array, t: Array, lam: float) -> Array:
    """(M + lam I)^-1 t, in the memory of M."""
    M = M if M.flags.f_contiguous else M.T  # LAPACK's order, without a copy: M is symmetric
    diagonal = np.diagonal(M).copy()
    np.fill_diagonal(M, diagonal + lam)
    factor, info = lapack.dpotrf(M, clean=0, overwrite_a=1)
    if info:  # the lower triangle is as it was
        below = np.tril(M, -1)
        return _solve_band(BandForm.of(below + below.T + np.diag(diagonal)), t, lam)
    z, _ = lapack.dpotrs(factor, t)
    return np.asarray(z).reshape(t.shape)


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
    warnings.warn(
        f"The kernel is not positive semidefinite: at alpha = {lam:g} the objective has no "
        "minimum, and the solution is a stationary point. Use a positive semidefinite kernel, "
        "or a larger alpha.",
        RankwiseWarning,
        stacklevel=2,
    )


def _singular(lam: float) -> DataError:
    return DataError(
        f"The kernel is not positive semidefinite, and at alpha = {lam:g} the system is singular. "
        "Use a positive semidefinite kernel, or another alpha."
    )


def _check_finite(M: Array, t: Array) -> None:
    # Any entry of a positive semidefinite matrix is bounded by the diagonal.
    if not np.isfinite(np.diagonal(M)).all():
        raise DataError(
            "Products of feature or kernel values overflow. Scale the features, "
            "for example with sklearn.preprocessing.StandardScaler."
        )
    if not np.isfinite(t).all():
        raise DataError("Products with labels or margins overflow. Scale these.")
