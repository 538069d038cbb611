"""Reduction of a symmetric matrix M to band form, to solve (M + lam I) z = t for many lam."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import as_strided
from scipy.linalg import (
    cho_solve_banded,
    cholesky_banded,
    lapack,
    solve_banded,
    solve_triangular,
)
from scipy.linalg.blas import dgemm, dtrsm

from rankwise.backends.arrays import Array
from rankwise.backends.parallel import matmul, rank_two_update, symmetric_product

WIDTH = 64  # of the band: wide enough for fast products, narrow enough for cheap solves


@dataclass(frozen=True)
class Reflector:
    """I - V T V', applied to the last ``len(V)`` rows of a matrix."""

    V: Array
    T: Array

    def apply(self, Z: Array, *, transposed: bool = False) -> None:
        """Z <- (I - V T V') Z, or (I - V T'V') Z, in place."""
        tail, T = Z[-len(self.V) :], self.T.T if transposed else self.T
        tail -= matmul(self.V, matmul(T, matmul(self.V.T, tail)))


@dataclass(frozen=True)
class BandForm:
    """M = Q B Q' with an orthogonal Q and a narrow band B.

    (M + lam I)^-1 t = Q (B + lam I)^-1 Q't, and the cost of the banded system is negligible. The
    reduction takes 4/3 n^3 flops, all of them in matrix products. This is the cost of four
    Cholesky factorizations; an eigendecomposition costs about eighteen.

    Attributes
    ----------
    band : ndarray of shape (width + 1, n)
        The lower diagonals of B in LAPACK's storage scheme.
    reflectors : list of Reflector
        Q is their product.
    """

    band: Array
    reflectors: list[Reflector]

    @classmethod
    def of(cls, M: Array) -> BandForm:
        """Reduce M, which is overwritten; O(n^3) time, O(n^2) memory for the reflectors."""
        n = len(M)
        M = M if M.flags.f_contiguous else M.T  # M is symmetric, so the matrix is the same
        reflectors = []
        for k in range(0, n - WIDTH - 1, WIDTH):
            panel, rest = M[k + WIDTH :, k : k + WIDTH], M[k + WIDTH :, k + WIDTH :]
            reflector, R = _householder(panel)
            panel[:] = 0.0
            panel[: len(R)] = R
            _two_sided_update(rest, reflector)
            reflectors.append(reflector)
        width = min(WIDTH, n - 1)
        band = np.zeros((width + 1, n))
        for below in range(width + 1):
            band[below, : n - below] = np.diagonal(M, -below)
        return cls(band, reflectors)

    def solve(self, t: Array, lam: float) -> Array:
        """(M + lam I)^-1 t; raise `LinAlgError` if M + lam I is not positive definite."""
        factor = self._factor(lam)
        return self._rotated(t, lambda z: cho_solve_banded((factor, True), z, check_finite=False))

    def rotate(self, Z: Array) -> Array:
        """Q'Z, a C-ordered array."""
        rotated = np.array(Z, order="C")
        for reflector in self.reflectors:
            reflector.apply(rotated, transposed=True)
        return rotated

    def solve_half(self, rotated: Array, lam: float) -> Array:
        """C^-1 Q'Z for the Cholesky factor C of B + lam I and a rotated Z of many columns.

        The squares of the result sum to Z'(M + lam I)^-1 Z. LAPACK solves banded systems column by
        column; here, matrix products take a block of rows at a time. Raises `LinAlgError` if
        M + lam I is not positive definite.
        """
        factor, half = self._factor(lam), rotated.copy()
        width, n = len(factor) - 1, factor.shape[1]
        # In this view of the diagonals, the band of the factor is where it is in the full matrix.
        C = as_strided(factor, (n, n), (factor.itemsize, width * factor.itemsize))
        for start in range(0, n, max(width, 1)):
            before, own = slice(start - width, start), slice(start, start + max(width, 1))
            rows = half[own].T
            if start:
                beside = np.triu(C[own, before])
                rows = dgemm(-1.0, half[before].T, beside, beta=1.0, c=rows, trans_b=1)
            half[own] = dtrsm(1.0, np.tril(C[own, own]), rows, side=1, lower=1, trans_a=1).T
        return half

    def solve_indefinite(self, t: Array, lam: float) -> Array:
        """(M + lam I)^-1 t; raise `LinAlgError` if M + lam I is singular."""
        width, n = len(self.band) - 1, self.band.shape[1]
        regularized = np.zeros((2 * width + 1, n))
        regularized[width:] = self.band
        for above in range(1, width + 1):
            regularized[width - above, above:] = self.band[above, : n - above]
        regularized[width] += lam
        return self._rotated(
            t, lambda z: solve_banded((width, width), regularized, z, check_finite=False)
        )

    def _factor(self, lam: float) -> Array:
        """The lower diagonals of the Cholesky factor of B + lam I."""
        regularized = np.array(self.band, order="F")
        regularized[0] += lam
        return np.asfortranarray(
            cholesky_banded(regularized, overwrite_ab=True, lower=True, check_finite=False)
        )

    def _rotated(self, t: Array, solve: Callable[[Array], Array]) -> Array:
        """Q solve(Q't)."""
        z = solve(self.rotate(t.reshape(len(t), -1)))
        for reflector in reversed(self.reflectors):
            reflector.apply(z)
        return z.reshape(t.shape)


def _householder(panel: Array) -> tuple[Reflector, Array]:
    """QR of a panel: its reflector and the upper triangular R."""
    qr, tau, _, _ = lapack.dgeqrf(np.asfortranarray(panel))
    k = len(tau)
    V = np.asfortranarray(np.tril(qr[:, :k], -1))
    V[np.arange(k), np.arange(k)] = 1.0
    V[:, tau == 0.0] = 0.0  # tau = 0 stands for the identity
    # T^-1 = triu(V'V, 1) + diag(1/tau)
    inverse = np.triu(dgemm(1.0, V, V, trans_a=1), 1)
    inverse[np.arange(k), np.arange(k)] = 1.0 / np.where(tau == 0.0, 1.0, tau)
    T = solve_triangular(inverse, np.eye(k), check_finite=False)
    return Reflector(V, T), np.triu(qr[:k])


def _two_sided_update(A: Array, q: Reflector) -> None:
    """A <- Q'A Q, in place, on the lower triangle.

    With W = A V T and X = W - V (T'V'W) / 2, the result is A - V X' - X V'.
    """
    W = dgemm(1.0, symmetric_product(A, q.V), q.T)
    S = dgemm(1.0, q.T, dgemm(1.0, q.V, W, trans_a=1), trans_a=1)
    X = dgemm(-0.5, q.V, S, beta=1.0, c=W, overwrite_c=1)
    rank_two_update(A, q.V, X)
