"""Landmark coordinates in which the regularizer is the identity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rankwise.backends.arrays import EPS, Array, Index
from rankwise.backends.dispatch import backend_of
from rankwise.errors import DataError, warn
from rankwise.solvers.ridge_path import solve_ridge_path

LEAST_PIVOT = 1e-12  # relative to the largest; below it, landmarks are linearly dependent
LEAST_KERNEL = 1e-130  # its square, and rounding errors of that, do not underflow
WHITEN_BELOW = 1e-3  # relative pivots below it: moments of kernel values lose too many digits


@dataclass(frozen=True)
class LandmarkFactor:
    """K_RR = C C' on linearly independent landmarks.

    A function on landmarks, f = k(., R) a, has the squared norm a'K_RR a, which is |z|^2 for
    z = C'a; the coordinates of a row are C^-1 k(R, x). Duplicate landmarks or a very wide kernel
    make K_RR numerically singular. A pivoted Cholesky factorization keeps linearly independent
    landmarks, and the others get the coefficient 0.

    Attributes
    ----------
    n_landmarks : int
    kept : ndarray of shape (rank,)
        Indices of the landmarks that are kept, in pivot order.
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
                    "The kernel is not positive semidefinite: k(x, x) is negative for a landmark. "
                    "Check its sign."
                )
            raise DataError(
                "The kernel is 0 on all landmarks, so it cannot distinguish rows. Check the "
                "features and the kernel."
            )
        if largest < LEAST_KERNEL:
            raise DataError(
                f"Kernel values are at most {largest:.0e}, and their products underflow. Scale the "
                "features."
            )
        order, C, rest = backend_of(K_RR).pivoted_cholesky(K_RR, tolerance)
        rank = len(C)
        if len(rest) and rest.min() < -1e-6 * largest:
            warn(
                f"The kernel is not positive semidefinite: only {rank} of {n} landmarks are used. "
                "Use a positive semidefinite kernel.",
            )
        return cls(n, order[:rank], C)

    @property
    def rank(self) -> int:
        """The number of landmarks that are kept."""
        return len(self.kept)

    @property
    def needs_whitening(self) -> bool:
        """Whether moments of kernel values are too inaccurate, so that rows are whitened first."""
        pivots = self.C.diagonal() ** 2
        return bool(pivots.min() < WHITEN_BELOW * pivots.max())

    def whiten(self, K: Array) -> Array:
        """K C^-T: coordinates of rows from their kernel values with the kept landmarks."""
        on = backend_of(K)
        return on.contiguous(on.solve_triangular(self.C, K.T).T)

    def whiten_system(self, A: Array, b: Array) -> tuple[Array, Array]:
        """C^-1 A C^-T and C^-1 b: moments of coordinates from moments of kernel values."""
        on = backend_of(A)
        M = on.solve_triangular(self.C, on.solve_triangular(self.C, A).T)
        return on.contiguous((M + M.T) / 2), on.solve_triangular(self.C, b)

    def coefficients(self, z: Array) -> Array:
        """The coefficients a with C'a = z on the kept landmarks, and 0 on the others."""
        on = backend_of(z)
        a = on.zeros(self.n_landmarks, *z.shape[1:])
        a[self.kept] = on.solve_triangular(self.C, z, transpose=True)
        return a

    def solve(self, A: Array, b: Array, lams: Sequence[float]) -> list[Array]:
        """Coordinates z of the ranker for each lam.

        With A = K_RM L K_MR and b = K_RM L y, the coefficients are
        a = (A + lam K_RR)^-1 b = C^-T (C^-1 A C^-T + lam I)^-1 C^-1 b: equation (8) of the
        sparse RankRLS paper, by its section 4.1. If `needs_whitening`, A and b must be moments of
        whitened rows. O(r^3) time for all lam together.
        """
        M, t = (backend_of(A).copy(A), b) if self.needs_whitening else self.whiten_system(A, b)
        return solve_ridge_path(M, t, lams, gram=True)
