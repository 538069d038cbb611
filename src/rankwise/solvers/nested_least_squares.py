"""Least squares on the first p of some features, for every p at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.arrays import EPS, Array, Index, Loader, to_host
from rankwise.backends.backend import Backend
from rankwise.backends.dispatch import NUMPY, backend_of
from rankwise.backends.jit import compiled
from rankwise.errors import DataError
from rankwise.graph import PairGraph
from rankwise.solvers.moments import Moments

BLOCK_BYTES = 2**20  # of features worked on at a time: they stay in cache
LEAST_PIVOT = 1e-3  # of features scaled to one length: below it, their products lose digits
TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class SpectralDirections:
    """Eigenvectors of F'LF that pairs see, as columns, and what belongs to them.

    `eigenvalues` descend, `total` is the sum of all, also of those that are not here, and
    `weights` has an array of shape (n_directions, n_outputs) for each lam.
    """

    directions: Array
    eigenvalues: Array
    total: float
    weights: list[Array]


@dataclass(frozen=True)
class Triangle:
    """U and z with U'U = F'LF and U'z = F'Ly: all that a path needs to know of the rows.

    With L = R'R, they are the triangular factor of Z = R F and what it makes of t = R y. U has
    the condition of Z, and not its square, as F'LF has. The factor of the first p columns is the
    leading p by p part of U: section 4 of the KPCRank paper for every p, and the weights with p
    components solve U_p w = z_p.

    Attributes
    ----------
    U : ndarray of shape (p, p)
        Upper triangular.
    z : ndarray of shape (p, n_outputs)
    """

    U: Array
    z: Array

    @classmethod
    def empty(cls, p: int, n_outputs: int, on: Backend = NUMPY) -> Triangle:
        """That of no rows."""
        return cls(on.zeros(p, p), on.zeros(p, n_outputs))

    @classmethod
    def of_blocks(cls, blocks: Iterable[tuple[Array, Array]], p: int) -> Triangle:
        """From blocks (Z, t) of rows: 2 m p^2 flops."""
        triangle: Triangle | None = None
        for Z, t in blocks:
            t = t.reshape(len(t), -1)
            if triangle is None:
                triangle = Triangle.empty(p, t.shape[1], backend_of(Z))
            triangle = triangle.with_rows(Z, t)
        assert triangle is not None  # graphs without rows are refused before
        return triangle

    @classmethod
    def of_moments(cls, moments: Moments) -> Triangle | None:
        """By Cholesky from Z'Z and Z't: half the flops, and products are faster than reflections.

        None where that would cost digits: where some feature is nearly told by those before it,
        so that the condition of Z'Z, which is that of Z squared, matters; or where products
        overflow. Features may differ in size: they are scaled to one length first.
        """
        on = backend_of(moments.A)
        lengths = on.xp.sqrt(moments.A.diagonal())
        b = moments.b.reshape(len(lengths), -1)
        finite = on.is_finite(moments.A) and on.is_finite(b)
        if not finite or (lengths**2 <= TINY).any():
            return None
        C = on.cholesky(moments.A / lengths / lengths[:, None])
        if C is None or C.diagonal().min() ** 2 < LEAST_PIVOT:
            return None
        return cls(C.T * lengths, on.solve_triangular(C, b / lengths[:, None]))

    def with_rows(self, Z: Array, t: Array) -> Triangle:
        """Further rows taken in."""
        p, on = len(self.U), backend_of(Z)
        rows = on.empty(p + self.z.shape[1], p + len(Z)).T  # column after column
        rows[:p, :p], rows[:p, p:] = self.U, self.z
        rows[p:, :p], rows[p:, p:] = Z, t
        R = on.triangle(rows)
        return Triangle(R[:p, :p], R[:p, p:])

    def path(self, lam: float, noise: Array, free: int = 0) -> tuple[Array, Index]:
        """Weights for every p, shape (p, p, n_outputs), and which features are not idle.

        Entry [:, j] has the weights for j + 1 features: they minimize |t - Z w|^2 + lam |w|^2,
        where the first `free` weights are not penalized. A feature that no pair sees once the
        ones before are known (its rest in Z is no larger than `noise`) is idle: its weight is 0,
        so that nothing is divided by zero and the path goes on without it.
        """
        (p, n_outputs), on = self.z.shape, backend_of(self.U)
        system = self
        if lam > 0:
            system = self._penalized(np.where(np.arange(p) < free, 0.0, np.sqrt(lam)))
        _check_finite(system)
        U, z, kept = system.without_idle(noise)
        inverse = on.solve_triangular(U.T, on.array(np.eye(len(U))), transpose=True)
        with np.errstate(over="ignore", invalid="ignore"):  # said below, with a way out
            steps = on.xp.cumsum(inverse[:, :, None] * z, axis=1)
        if not on.is_finite(steps):
            raise DataError("Weights of components overflow. Scale the labels or margins.")
        weights = on.zeros(p, p, n_outputs)
        seen = np.searchsorted(kept, np.arange(p), side="right")  # kept features up to each
        some = seen > 0
        weights[kept[:, None], np.flatnonzero(some)] = steps[:, seen[some] - 1]
        return weights, kept

    def _penalized(self, ridge: Array) -> Triangle:
        """With a penalty on each weight, of which the roots are given.

        As further rows of Z, with targets 0. Where these are longer than all else, reflections
        would leave of z what rounding does, and products lose nothing.
        """
        on = backend_of(self.U)
        if ridge.max() > float(on.xp.linalg.norm(self.U)):
            A = self.U.T @ self.U + on.array(np.diag(ridge**2))
            quick = Triangle.of_moments(Moments(A, self.U.T @ self.z))
            if quick is not None:
                return quick
        return self.with_rows(on.array(np.diag(ridge)), on.zeros(*self.z.shape))

    def spectral(self, lams: Sequence[float], noise: Array) -> SpectralDirections:
        """The directions of section 4.2 of the KPCRank paper, and their weights for each lam.

        M = U'U = V diag(e) V', and all but the p largest e are set to zero:
        w = sum_{l <= p} V_l (V_l'b) / (e_l + lam). Directions that no pair sees, which are no
        longer in Z than what `noise` makes of them, are left out.
        """
        _check_finite(self)
        on = backend_of(self.U)
        left, sigma, right = on.svd(self.U)
        least = (abs(right) @ on.array(noise)).clip(min=8 * len(sigma) * EPS * float(sigma[0]))
        seen = sigma > least
        if not seen.any():
            raise DataError(
                "No pair sees any component: rows of a query are all alike to the kernel. Check "
                "the features, and qid."
            )
        total = float(sigma @ sigma)
        left, sigma, right = left[:, seen], sigma[seen], right[seen]
        products = left.T @ self.z
        weights = [(sigma / (sigma**2 + lam))[:, None] * products for lam in lams]
        return SpectralDirections(on.contiguous(right.T), sigma**2, total, weights)

    def without_idle(self, noise: Array) -> tuple[Array, Array, Index]:
        """U, z and the numbers of the features that are not idle."""
        p, on = len(self.U), backend_of(self.U)
        norms, pivots = to_host(on.xp.linalg.norm(self.U, axis=0)), to_host(abs(self.U.diagonal()))
        least = noise + 8 * p * EPS * norms
        # Rounding grows as much as columns have shrunk to their rests.
        growth = norms / np.maximum(np.maximum(pivots, least), TINY)
        if (pivots > least * np.maximum.accumulate(np.append(1.0, growth[:-1]))).all():
            return self.U, self.z, np.arange(p)
        # One column after the other, on a small matrix: nothing for a device.
        R = np.ascontiguousarray(to_host(on.xp.hstack((self.U, self.z))))
        kept = np.ones(p, dtype=np.bool_)
        triangularize_without_idle(R, least, norms, kept)
        n = int(kept.sum())
        return on.array(R[:n, :p][:, kept]), on.array(R[:n, p:]), np.flatnonzero(kept)


def component_triangle(
    load: Loader, p: int, graph: PairGraph, y: Array | None, on: Backend = NUMPY
) -> Triangle:
    """The triangle of p features, which ``load(rows)`` makes: O(m p^2) time, a block in memory.

    One pass where features are well told apart, a second one where they are not.
    """

    def blocks() -> Iterable[tuple[Array, Array]]:
        return graph.root_blocks(load, y, max(4 * p, on.block_bytes(BLOCK_BYTES) // (8 * p)))

    with np.errstate(over="ignore", invalid="ignore"):  # the second pass says so, if it must
        quick = Triangle.of_moments(Moments.of_root_blocks(blocks(), p, on))
    return Triangle.of_blocks(blocks(), p) if quick is None else quick


def rounding_noise(eigenvalues: Array, graph: PairGraph) -> Array:
    """The size that columns of Z = R F have by rounding alone.

    Component l is known up to the rounding of the kernel, eps s_1, over sqrt(s_l); and R is no
    larger than the root of twice the largest degree.
    """
    largest = 2.0 * float(graph.degrees.max(initial=0.0))
    eigenvalues = to_host(eigenvalues)
    known = eigenvalues[0] / np.sqrt(eigenvalues)
    return np.asarray(20.0 * EPS * np.sqrt(largest) * known)


def _check_finite(triangle: Triangle) -> None:
    on = backend_of(triangle.U)
    if not on.is_finite(triangle.U):
        raise DataError(
            "Products of kernel values overflow. Scale the features, for example with "
            "sklearn.preprocessing.StandardScaler."
        )
    if not on.is_finite(triangle.z):
        raise DataError("Products with labels or margins overflow. Scale these.")


@compiled
def triangularize_without_idle(
    R: Array, least: Array, norms: Array, kept: NDArray[np.bool_]
) -> None:
    """Householder reflections, column by column, that pass over columns without a rest.

    R has a column for each feature, then those of the targets; a feature whose rest is no longer
    than its entry of `least`, times the growth of rounding so far, is marked in `kept`, and uses
    up no row.
    """
    n_rows, n_columns = R.shape
    row, growth = 0, 1.0
    for j in range(len(least)):
        norm = 0.0
        for i in range(row, n_rows):
            norm += R[i, j] ** 2
        norm = np.sqrt(norm)
        if row == n_rows or norm <= growth * least[j]:
            kept[j] = False
            continue
        growth = max(growth, norms[j] / norm)
        v = R[row:, j].copy()
        v[0] += norm if v[0] >= 0 else -norm
        square = 0.0
        for i in range(len(v)):
            square += v[i] ** 2
        for k in range(j, n_columns):
            product = 0.0
            for i in range(len(v)):
                product += v[i] * R[row + i, k]
            product *= 2.0 / square
            for i in range(len(v)):
                R[row + i, k] -= product * v[i]
        row += 1
