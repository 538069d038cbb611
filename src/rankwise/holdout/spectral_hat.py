"""Ridge regression with an intercept, for many mu from one eigendecomposition.

This covers one global ranking whose pairs all count, as in `rankwise.holdout.ridge_folds`.
"""

from __future__ import annotations

from dataclasses import dataclass

from rankwise.backends.arrays import Array, Index
from rankwise.backends.dispatch import backend_of
from rankwise.holdout.hat import centred
from rankwise.holdout.rounding import nonnegative
from rankwise.problem import Coordinates


@dataclass(frozen=True, eq=False)
class SpectralHat:
    """The hat matrix H, or C - H with the centring C, on some rows and for any mu.

    From features it is H = W diag(1 / (s + mu)) W'. From a kernel it is
    C - H = W diag(mu / (s + mu)) W', which is accurate for small mu.

    Attributes
    ----------
    n : int
        Number of all rows of the regression.
    W : ndarray of shape (n_some, rank)
        Features in the eigenvectors of their scatter, or the eigenvectors of a kernel.
    s : ndarray of shape (rank,)
    products : ndarray of shape (rank, n_outputs)
        W'y over all rows.
    y : ndarray of shape (n_some, n_outputs)
        Centred labels.
    is_hat : bool
        Whether the matrix is H.
    """

    n: int
    W: Array
    s: Array
    products: Array
    y: Array
    is_hat: bool

    @classmethod
    def of(cls, rows: Coordinates, y: Array, some: Index, least: float) -> SpectralHat:
        """From the coordinates of all rows; `least` is the smallest mu.

        O(m n^2) time for n features, O(m^3) for a kernel matrix.
        """
        on, y = backend_of(y), y - y.mean(axis=0)
        if rows.kernel is not None:
            s, V = on.eigh(centred(on.copy(rows.kernel)))
            s = nonnegative(s, least)
            # The constant vector, whose eigenvalue is zero, is not part of C - H.
            V = on.contiguous(V - V.mean(axis=0))
            return cls(len(y), V[some], s, on.matmul(V.T, on.contiguous(y)), y[some], False)
        F = on.rows(rows.features, slice(None))
        F = on.contiguous(F - F.mean(axis=0))
        s, V = on.eigh(on.mirror_upper(on.add_gram(on.zeros(F.shape[1], F.shape[1]), F)))
        V, s = on.contiguous(V), s.clip(min=0.0)
        return cls(len(y), on.matmul(F[some], V), s, V.T @ (F.T @ y), y[some], True)

    def diagonal(self, mu: float) -> Array:
        """The diagonal of the matrix."""
        diagonal: Array = (self.W**2) @ self._shrinkage(mu)
        return diagonal

    def residuals(self, mu: float) -> Array:
        """(C - H) y."""
        product: Array = self.W @ (self._shrinkage(mu)[:, None] * self.products)
        return self.y - product if self.is_hat else product

    def block(self, mu: float) -> Array:
        """The matrix on these rows."""
        on = backend_of(self.W)
        return on.matmul(on.contiguous(self.W * self._shrinkage(mu)), self.W.T)

    def _shrinkage(self, mu: float) -> Array:
        return (1.0 if self.is_hat else mu) / (self.s + mu)
