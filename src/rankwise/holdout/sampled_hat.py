"""Ridge regression with an intercept: the hat matrix on some of its rows, for many mu.

This covers one global ranking whose pairs all count, as in `rankwise.holdout.ridge_folds`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.backends.dispatch import backend_of
from rankwise.graph.query_graph import QueryGraph
from rankwise.holdout.hat import centred
from rankwise.holdout.resolvent import lifted_root_kernel
from rankwise.problem import Coordinates


class HatRows(NamedTuple):
    """Some rows of a regression at one mu.

    `matrix` is the hat matrix H if `is_hat`, otherwise C - H with the centring C, and `residuals`
    are (C - H) y.
    """

    is_hat: bool
    matrix: Array
    residuals: Array

    def held_out(self, n: int) -> Array:
        """Residuals of each row in the regression without it, of n rows in all."""
        own = self.matrix.diagonal()
        left = 1.0 - 1.0 / n - own if self.is_hat else own
        errors: Array = self.residuals / left[:, None]
        return errors


def hat_rows(rows: Coordinates, y: Array, some: Index, mus: Sequence[float]) -> Iterator[HatRows]:
    """The hat matrix of all rows on some of them, for each mu; `y` is centred.

    O(m n^2) time for n features. For a kernel matrix, m^3/3 flops for each mu.
    """
    return (_from_features if rows.kernel is None else _from_kernel)(rows, y, some, mus)


def _from_features(
    rows: Coordinates, y: Array, some: Index, mus: Sequence[float]
) -> Iterator[HatRows]:
    """H = F V diag(1 / (s + mu)) V'F' from one eigendecomposition."""
    on = backend_of(y)
    F = on.rows(rows.features, slice(None))
    F = on.contiguous(F - F.mean(axis=0))
    s, V = on.eigh(on.mirror_upper(on.add_gram(on.zeros(F.shape[1], F.shape[1]), F)))
    V, s = on.contiguous(V), s.clip(min=0.0)
    W, products = on.matmul(F[some], V), V.T @ (F.T @ y)
    for mu in mus:
        shrunk = W / (s + mu)
        yield HatRows(True, on.matmul(shrunk, W.T), y[some] - shrunk @ products)


def _from_kernel(
    rows: Coordinates, y: Array, some: Index, mus: Sequence[float]
) -> Iterator[HatRows]:
    """C - H = mu (Kc + mu I)^-1, without the constant vector.

    Its eigenvalue, which is zero, is raised to the size of the others, as in `DenseHat`.
    """
    assert rows.kernel is not None
    K = centred(backend_of(y).copy(rows.kernel))
    n, scale = len(K), float(abs(K.diagonal()).max())
    K += scale / n
    for mu, (N, z) in zip(mus, last_rows(K, y, some, mus), strict=True):
        yield HatRows(False, mu * N - mu / (mu + scale) / n, mu * z)


def kernel_query_residuals(
    K: Array, graph: QueryGraph, y: Array, folds: Sequence[Index], lams: Sequence[float]
) -> Iterator[Array]:
    """y - f for the rows of folds, by fits without their fold, up to a constant in each query.

    See `dual_folds`. Only the diagonal block of the rows of all folds is needed; K is overwritten.
    """
    on, t = backend_of(K), graph.root(y)
    some, ends = np.concatenate(folds), np.cumsum([len(fold) for fold in folds])
    parts = [slice(end - len(fold), end) for fold, end in zip(folds, ends, strict=True)]
    for N, z in last_rows(lifted_root_kernel(K, graph), t, some, lams):
        v = on.zeros(*t.shape)
        for fold, part in zip(folds, parts, strict=True):
            v[fold] = on.solve(N[part, part], z[part])
        yield graph.root_inverse(v)[some]


def last_rows(
    M: Array, t: Array, some: Index, lams: Sequence[float]
) -> Iterator[tuple[Array, Array]]:
    """(N[some][:, some], (N t)[some]) for N = (M + lam I)^-1 and each lam.

    If these rows come last, the last block of the Cholesky factor gives both: m^3/3 flops for each
    lam, a third of those of an inverse. Raises `LinAlgError` if M + lam I is not definite.
    """
    on, n = backend_of(M), len(some)
    order = np.concatenate((np.setdiff1d(np.arange(len(M)), some), some))
    M, t, eye = M[order[:, None], order], t[order], on.array(np.eye(n))
    diagonal = on.copy(M.diagonal())
    for lam in lams:
        on.diagonal(M)[:] = diagonal + lam
        factor = on.cholesky(M)
        if factor is None:
            raise np.linalg.LinAlgError("The kernel is not positive semidefinite.")
        corner = factor[-n:, -n:]
        half = on.solve_triangular(factor, t)[-n:]
        inverse = on.solve_triangular(corner, eye)
        yield inverse.T @ inverse, on.solve_triangular(corner, half, transpose=True)
