"""Least squares on the first p features, for every p at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.arrays import EPS, NUMPY, Array, Backend, Index, Loader, backend_of, to_host
from rankwise.errors import DataError
from rankwise.graph import PreferenceGraph
from rankwise.graph.preference_graph import Blocks
from rankwise.solvers.ridge_path import Moments

BLOCK_BYTES = 2**20  # of features processed at a time, so that they stay in cache
LEAST_PIVOT = 1e-3  # for features of unit length; below it, their products lose digits
TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class SpectralDirections:
    """Eigenvectors of F'LF on which pairs differ, as columns, with their eigenvalues and weights.

    `eigenvalues` are descending, `total` is the sum of all eigenvalues, also of the directions left
    out, and `weights` has an array of shape (n_directions, n_outputs) for each lam.
    """

    directions: Array
    eigenvalues: Array
    total: float
    weights: list[Array]


@dataclass(frozen=True)
class Triangle:
    """U and z with U'U = F'LF and U'z = F'Ly: the sufficient statistics of a path.

    With L = R'R, U is the triangular factor of Z = R F = Q U, and z = Q't for t = R y. U has the
    condition number of Z, whereas F'LF has its square. The factor of the first p columns is the
    leading p by p part of U, and the weights with p components solve U_p w = z_p, which is
    equation (6) of the KPCRank paper for every p.

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
        """The triangle of zero rows."""
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
        assert triangle is not None  # graphs without rows have already raised an error
        return triangle

    @classmethod
    def of_moments(cls, moments: Moments) -> Triangle | None:
        """By Cholesky from Z'Z and Z't, which is faster than reflections of Z.

        None if that would lose digits, because a feature is almost linearly dependent on the
        previous ones (Z'Z has the squared condition number of Z), or if products overflow.
        Features are scaled to unit length first, so they may differ in size.
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
        """The triangle with additional rows."""
        p, on = len(self.U), backend_of(Z)
        rows = on.empty(p + self.z.shape[1], p + len(Z)).T  # column-major
        rows[:p, :p], rows[:p, p:] = self.U, self.z
        rows[p:, :p], rows[p:, p:] = Z, t
        R = on.triangle(rows)
        return Triangle(R[:p, :p], R[:p, p:])

    def path(self, lam: float, noise: Array, free: int = 0) -> tuple[Array, Index]:
        """Weights for every p, shape (p, p, n_outputs), and the indices of independent features.

        Entry [:, j] has the weights for j + 1 features: they minimize |t - Z w|^2 + lam |w|^2,
        where the first `free` weights are not penalized. A feature is dependent if its column of Z
        is, up to `noise`, a linear combination of the previous ones. Its weight is 0, which
        avoids a division by zero, and the path continues without it.
        """
        p, on = len(self.U), backend_of(self.U)
        U, z, kept = self._solvable(lam, noise, free)
        inverse = on.solve_triangular(U.T, on.eye(len(U)), transpose=True)
        weights = on.zeros(p, p, z.shape[1])
        weights[kept] = self._for_every_p(inverse, z, kept)
        return weights, kept

    def scores(self, F: Array, lam: float, noise: Array, free: int = 0) -> Array:
        """F times the weights of `path`, shape (n, p, n_outputs), without these: O(n p^2) time."""
        on = backend_of(self.U)
        U, z, kept = self._solvable(lam, noise, free)
        with np.errstate(over="ignore", invalid="ignore"):  # overflow raises an error
            turned = on.solve_triangular(U.T, on.contiguous(F[:, kept].T)).T
        return self._for_every_p(turned, z, kept)

    def _for_every_p(self, rows: Array, z: Array, kept: Index) -> Array:
        """Sums of rows times z over the kept features among the first p, for every p."""
        p, on = len(self.U), backend_of(self.U)
        with np.errstate(over="ignore", invalid="ignore"):  # overflow raises an error below
            steps: Array = on.xp.cumsum(rows[:, :, None] * z, axis=1)
        if not on.is_finite(steps):
            raise DataError("Weights of components overflow. Scale the labels or margins.")
        if len(kept) == p:
            return steps
        found = on.zeros(len(rows), p, z.shape[1])
        n_kept = np.searchsorted(kept, np.arange(p), side="right")  # kept features up to each
        some = n_kept > 0
        found[:, np.flatnonzero(some)] = steps[:, n_kept[some] - 1]
        return found

    def _solvable(self, lam: float, noise: Array, free: int) -> tuple[Array, Array, Index]:
        """U and z with a penalty, of the linearly independent features, and their indices."""
        system = self
        if lam > 0:
            ridge = np.where(np.arange(len(self.U)) < free, 0.0, np.sqrt(lam))
            system = self._penalized(ridge)
        _check_finite(system)
        return system.without_idle(noise)

    @cached_property
    def moments(self) -> Moments:
        """U'U and U'z."""
        with np.errstate(over="ignore", invalid="ignore"):  # `of_moments` checks
            return Moments(self.U.T @ self.U, self.U.T @ self.z)

    def _penalized(self, ridge: Array) -> Triangle:
        """The triangle with a penalty on each weight; `ridge` has the square roots.

        Penalties are additional rows of Z with targets 0. If they dominate, reflections would
        lose z in rounding errors, whereas products are accurate. Products are also faster, if they
        do not lose digits.
        """
        on = backend_of(self.U)
        A = self.moments.A + on.array(np.diag(ridge**2))
        quick = Triangle.of_moments(Moments(A, self.moments.b))
        if quick is not None:
            return quick
        return self.with_rows(on.array(np.diag(ridge)), on.zeros(*self.z.shape))

    def spectral(self, lams: Sequence[float], noise: Array) -> SpectralDirections:
        """The directions of section 4.2 of the KPCRank paper, and their weights for each lam.

        M = U'U = V diag(e) V', and all but the p largest e are set to zero:
        w = sum_{l <= p} V_l (V_l'b) / (e_l + lam). Directions on which pairs do not differ (Z V_l
        is zero up to `noise`) are left out.
        """
        _check_finite(self)
        on = backend_of(self.U)
        left, sigma, right = on.xp.linalg.svd(self.U, full_matrices=False)
        least = (abs(right) @ on.array(noise)).clip(min=8 * len(sigma) * EPS * float(sigma[0]))
        kept = sigma > least
        if not kept.any():
            raise DataError(
                "All rows of a query have the same components, so there is nothing to learn from. "
                "Check the features and qid."
            )
        total = float(sigma @ sigma)
        left, sigma, right = left[:, kept], sigma[kept], right[kept]
        products = left.T @ self.z
        weights = [(sigma / (sigma**2 + lam))[:, None] * products for lam in lams]
        return SpectralDirections(on.contiguous(right.T), sigma**2, total, weights)

    def without_idle(self, noise: Array) -> tuple[Array, Array, Index]:
        """U and z of the linearly independent features, and their indices."""
        p, on = len(self.U), backend_of(self.U)
        norms, pivots = to_host(on.xp.linalg.norm(self.U, axis=0)), to_host(abs(self.U.diagonal()))
        least = noise + 8 * p * EPS * norms
        # Rounding errors grow by the factor by which orthogonalization shrinks columns.
        growth = norms / np.maximum(np.maximum(pivots, least), TINY)
        if (pivots > least * np.maximum.accumulate(np.append(1.0, growth[:-1]))).all():
            return self.U, self.z, np.arange(p)
        # Column by column on a small matrix: this would be slow on a device.
        R = np.ascontiguousarray(to_host(on.xp.hstack((self.U, self.z))))
        kept = np.ones(p, dtype=np.bool_)
        triangularize_without_idle(R, least, norms, kept)
        n = int(kept.sum())
        return on.array(R[:n, :p][:, kept]), on.array(R[:n, p:]), np.flatnonzero(kept)


def component_triangle(
    load: Loader, p: int, graph: PreferenceGraph, y: Array | None, on: Backend = NUMPY
) -> Triangle:
    """The triangle of p features that ``load(rows)`` computes block by block.

    O(m p^2) time, memory for one block. If features are nearly linearly dependent, a second pass
    is needed.
    """

    def blocks() -> Blocks:
        return graph.root_blocks(load, y, max(4 * p, on.block_bytes(BLOCK_BYTES) // (8 * p)))

    with np.errstate(over="ignore", invalid="ignore"):  # overflow is checked after the second pass
        quick = Triangle.of_moments(Moments.of_root_blocks(blocks(), p, on))
    return Triangle.of_blocks(blocks(), p) if quick is None else quick


def component_folds(
    F: Array,
    Z: Array,
    t: Array,
    folds: Sequence[Index],
    lams: Sequence[float],
    noise: Array,
    free: int = 0,
) -> Array:
    """Predictions for every fold by a fit without it, shape (n_lams, n_rows, p, n_outputs).

    Entry [:, :, j] uses j + 1 components. Z = R F and t = R y are the rows of the least-squares
    problem, with the same folds as F. The first `free` columns (an intercept) are always used, are
    not penalized, and do not count as components.

    O(m p^2 log k) time for k folds, and for each lam O(m p^2) and p^3 / 3 for each fold.
    """
    on = backend_of(F)
    out = on.empty(len(lams), len(F), F.shape[1] - free, t.shape[1])
    for k, triangle in triangles_without(Z, t, folds):
        rows = F[folds[k]]
        for f, lam in zip(out, lams, strict=True):
            f[folds[k]] = triangle.scores(rows, lam, noise, free)[:, free:]
    return out


def triangles_without(Z: Array, t: Array, folds: Sequence[Index]) -> Iterator[tuple[int, Triangle]]:
    """(k, the triangle of all folds but k), for every k.

    Removing rows from a triangle would lose accuracy. Instead, folds are bisected recursively, and
    the rows of each half are added to the triangle of the other.
    """
    p, n_outputs = Z.shape[1], t.shape[1]

    def visit(first: int, last: int, outside: Triangle) -> Iterator[tuple[int, Triangle]]:
        if last - first == 1:
            yield first, outside
            return
        middle = (first + last) // 2
        for mine, other in (((first, middle), (middle, last)), ((middle, last), (first, middle))):
            rows = np.concatenate(folds[slice(*other)])
            yield from visit(*mine, outside.with_rows(Z[rows], t[rows]))

    yield from visit(0, len(folds), Triangle.empty(p, n_outputs, backend_of(Z)))


def rounding_noise(eigenvalues: Array, graph: PreferenceGraph) -> Array:
    """The norm of columns of Z = R F that rounding errors alone can cause.

    The error of component l is the kernel's, eps s_1, over sqrt(s_l), and the norm of R is
    at most the square root of twice the largest degree.
    """
    largest = 2.0 * float(graph.degrees.max(initial=0.0))
    if not np.isfinite(largest):
        raise DataError("Sums of weights overflow. Divide the weights by a constant.")
    eigenvalues = to_host(eigenvalues)
    errors = eigenvalues[0] / np.sqrt(eigenvalues)
    return np.asarray(20.0 * EPS * np.sqrt(largest) * errors)


def _check_finite(triangle: Triangle) -> None:
    on = backend_of(triangle.U)
    if not on.is_finite(triangle.U):
        raise DataError(
            "Products of kernel values overflow. Scale the features, for example with "
            "sklearn.preprocessing.StandardScaler."
        )
    if not on.is_finite(triangle.z):
        raise DataError("Products with labels or margins overflow. Scale the labels or margins.")


@np.errstate(over="ignore", invalid="ignore")  # solutions are checked
def triangularize_without_idle(
    R: Array, least: Array, norms: Array, kept: NDArray[np.bool_]
) -> None:
    """Householder reflections, column by column, that skip linearly dependent columns.

    R has a column for each feature, followed by the targets. A feature is skipped, and its entry of
    `kept` set to False, if its remaining norm is at most its entry of `least` times the growth of
    rounding errors so far.
    """
    row, growth = 0, 1.0
    for j in range(len(least)):
        rest = R[row:, j:]
        v = rest[:, 0].copy()
        norm = np.sqrt(v @ v)
        if row == len(R) or norm <= growth * least[j]:
            kept[j] = False
            continue
        growth = max(growth, norms[j] / norm)
        v[0] += norm if v[0] >= 0 else -norm
        rest -= np.outer(v, (2.0 / (v @ v)) * (v @ rest))
        row += 1
