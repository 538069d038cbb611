"""(M + lam I) z = t for a symmetric, positive semidefinite M and one or many lam."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rankwise.backends.arrays import EPS, Array
from rankwise.backends.dispatch import backend_of
from rankwise.errors import DataError, RankwiseWarning
from rankwise.solvers.band import BandForm

SMALL = 200  # below this size an eigendecomposition costs next to nothing

GRAM_MARGIN = 1e3  # of the rounding floor: up to there, sums of products are not quite definite


def solve_shifted(M: Array, t: Array, lams: Sequence[float], *, gram: bool = False) -> list[Array]:
    """(M + lam I)^-1 t for each lam; M is overwritten.

    One Cholesky factorization for each lam (n^3/3 flops), or, where that is cheaper, one
    reduction for all of them: to band form (4/3 n^3), or, on a device, to eigenvalues. A lam that
    is lost in the rounding of M is served by the eigenvectors of M that are not: M is often
    numerically singular, and what its null space would add to z is noise that no prediction
    depends on.

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
    """The size of eigenvalues of M that are nothing but rounding."""
    return len(M) * EPS * float(abs(M.diagonal()).max()) if len(M) else 0.0


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
        on = backend_of(M)
        s, V = on.eigh(M)
        if gram and len(s):
            floor = max(floor, -4.0 * float(s.min()))
        return cls(V, on.xp.where(abs(s) > floor, s, 0.0), floor)

    def solve(self, t: Array, lam: float) -> Array:
        """(M + lam I)^-1 t; where lam is rounding as well, on the range of M."""
        V, shifted = self.V, self.s + lam
        if lam <= self.floor:
            kept = self.s != 0.0
            V, shifted = V[:, kept], shifted[kept]
        if len(shifted) and shifted.min() <= 0:
            _warn_indefinite(lam)
            if abs(shifted).min() <= 1e-13 * abs(shifted).max():
                raise _singular(lam)
        columns = t.reshape(len(t), -1)
        z = V @ ((V.T @ columns) / shifted[:, None])
        return z.reshape(t.shape)


def _solve_cholesky(M: Array, t: Array, lam: float, *, gram: bool) -> Array:
    """(M + lam I)^-1 t, in the memory of M."""
    z = backend_of(M).solve_definite(M, t, lam)
    return _reduced(M, gram=gram)(t, lam) if z is None else z


def _reduced(M: Array, *, gram: bool) -> Callable[[Array, float], Array]:
    """A function of t and lam that solves, whatever the signs of eigenvalues."""
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
    on = backend_of(M)
    if not on.is_finite(M.diagonal()):
        raise DataError(
            "Products of feature or kernel values overflow. Scale the features, "
            "for example with sklearn.preprocessing.StandardScaler."
        )
    if not on.is_finite(t):
        raise DataError("Products with labels or margins overflow. Scale these.")
