"""Coordinates on landmarks, in which the regularizer is the identity."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from rankwise.backends.arrays import EPS, Array, Index
from rankwise.backends.dispatch import backend_of
from rankwise.errors import DataError, RankwiseWarning
from rankwise.solvers.ridge_path import solve_shifted

LEAST_PIVOT = 1e-12  # of the largest: landmarks below it are told by the others, but for rounding
LEAST_KERNEL = 1e-130  # squares of it, and what rounding leaves of these, are still numbers
DELICATE_PIVOT = 1e-3  # below it, sums of products of kernel values would lose too many digits


@dataclass(frozen=True)
class LandmarkFactor:
    """K_RR = C C' on landmarks of which none is told by the others.

    A function on landmarks, f = k(., R) a, has |f|^2 = a'K_RR a; with z = C'a it is |z|^2, and
    the coordinates of a row are C^-1 k(R, x). Duplicate landmarks, or a very wide kernel, make
    K_RR numerically singular: a Cholesky factorization with pivots keeps those landmarks that
    add something to the ones before, and the others get the coefficient 0.

    Attributes
    ----------
    n_landmarks : int
    kept : ndarray of shape (rank,)
        Numbers of the landmarks that are kept, in the order of their pivots.
    C : ndarray of shape (rank, rank)
        Lower triangular.
    """

    n_landmarks: int
    kept: Index
    C: Array

    @classmethod
    def of(cls, K_RR: Array) -> LandmarkFactor:
        """Factor the kernel matrix of the landmarks: r^3/3 flops."""
        n, largest = len(K_RR), float(K_RR.diagonal().max())
        tolerance = max(LEAST_PIVOT, 8 * n * EPS) * largest
        if tolerance <= 0.0:
            if K_RR.diagonal().min() < 0.0:
                raise DataError(
                    "The kernel is not positive semidefinite: it is negative between landmarks "
                    "and themselves. Check its sign."
                )
            raise DataError(
                "The kernel is 0 on all landmarks: there is nothing to tell rows apart by. Check "
                "the features and the kernel."
            )
        if largest < LEAST_KERNEL:
            raise DataError(
                f"Kernel values are so small, {largest:.0e} at most, that their products vanish in "
                "rounding. Scale the features."
            )
        order, C, rest = backend_of(K_RR).pivoted_cholesky(K_RR, tolerance)
        rank = len(C)
        if len(rest) and rest.min() < -1e-6 * largest:
            warnings.warn(
                f"The kernel is not positive semidefinite: only {rank} of {n} landmarks are used. "
                "Use a positive semidefinite kernel.",
                RankwiseWarning,
                stacklevel=2,
            )
        return cls(n, order[:rank], C)

    @property
    def rank(self) -> int:
        """How many landmarks are kept."""
        return len(self.kept)

    @property
    def delicate(self) -> bool:
        """Whether moments of kernel values are too rough: rows must be whitened before."""
        pivots = self.C.diagonal() ** 2
        return bool(pivots.min() < DELICATE_PIVOT * pivots.max())

    def whiten(self, K: Array) -> Array:
        """K C^-T: coordinates of rows from their kernel values against the kept landmarks."""
        on = backend_of(K)
        return on.contiguous(on.solve_triangular(self.C, K.T).T)

    def whiten_system(self, A: Array, b: Array) -> tuple[Array, Array]:
        """C^-1 A C^-T and C^-1 b: moments of kernel values as moments of coordinates."""
        on = backend_of(A)
        M = on.solve_triangular(self.C, on.solve_triangular(self.C, A).T)
        return on.contiguous((M + M.T) / 2), on.solve_triangular(self.C, b)

    def coefficients(self, z: Array) -> Array:
        """a with C'a = z on the kept landmarks, and 0 on the others."""
        on = backend_of(z)
        a = on.zeros(self.n_landmarks, *z.shape[1:])
        a[self.kept] = on.solve_triangular(self.C, z, transpose=True)
        return a

    def solve(self, A: Array, b: Array, lams: Sequence[float]) -> list[Array]:
        """Coordinates z of the ranker for each lam.

        With A = K_RM L K_MR and b = K_RM L y, the coefficients are
        a = (A + lam K_RR)^-1 b = C^-T (C^-1 A C^-T + lam I)^-1 C^-1 b: equation (8) of the
        sparse RankRLS paper, by its section 4.1. Where the basis is `delicate`, A and b are to
        be those of whitened rows. O(r^3) time for all lam together.
        """
        M, t = (backend_of(A).copy(A), b) if self.delicate else self.whiten_system(A, b)
        return solve_shifted(M, t, lams, gram=True)
