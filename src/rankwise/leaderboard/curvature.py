"""Curvatures: minus second derivatives of a penalized log-likelihood, and equations with them.

A few parameters are common to all battles. All others, such as the effects of judges or the
deviations of categories, are in small blocks, one for each judge or category, that are independent
of each other given the common parameters. So second derivatives have the shape of an arrow, and
the blocks are eliminated, all blocks of one size at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.linalg.lapack import dpotri

from rankwise.backends.arrays import Array, Index, Sparse, is_sparse
from rankwise.solvers.shifted_cg import shifted_cg

PCG_TOLERANCE = 1e-12
TRACE_TOLERANCE = 1e-7  # of the vectors: traces have its square
PROBES = 24  # vectors that estimate a trace where there is no matrix


@dataclass(frozen=True, eq=False)
class DenseCurvature:
    """By a Cholesky factorization of the matrix, scaled to a unit diagonal."""

    factor: tuple[Array, bool]
    scale: Array

    @classmethod
    def of(cls, K: Array) -> DenseCurvature:
        diagonal = K.diagonal()
        if not (np.isfinite(diagonal).all() and (diagonal > 0).all()):
            raise LinAlgError("not positive definite")
        scale = 1.0 / np.sqrt(diagonal)
        return cls(cho_factor(K * scale * scale[:, None], lower=True, check_finite=False), scale)

    def solve(self, R: Array) -> Array:
        """The inverse times R."""
        scale = self.scale.reshape(-1, *[1] * (R.ndim - 1))
        return np.asarray(scale * cho_solve(self.factor, scale * R, check_finite=False))

    def traces(self, groups: dict[str, slice]) -> dict[str, float]:
        """The sums of the diagonal of the inverse, over groups of parameters."""
        diagonal = self.inverse().diagonal()
        return {name: float(diagonal[part].sum()) for name, part in groups.items()}

    def inverse(self) -> Array:
        """The inverse."""
        lower = np.tril(dpotri(self.factor[0], lower=1)[0])
        whole = lower + np.tril(lower, -1).T
        return np.asarray(whole * self.scale * self.scale[:, None])

    def log_det(self) -> float:
        """The logarithm of the determinant."""
        return 2.0 * float(np.log(self.factor[0].diagonal()).sum() - np.log(self.scale).sum())

    @property
    def common(self) -> DenseCurvature:
        """The curvature of the parameters that are common to all battles."""
        return self

    def eliminate(self, scores: Sparse) -> Array | Sparse:
        """Scores of the common parameters, once all others have followed them."""
        return scores

    def bias(self, precision: Array) -> Array:
        """The penalties P, likewise."""
        return np.diag(precision)


@dataclass(frozen=True, eq=False)
class IterativeCurvature:
    """By conjugate gradients, preconditioned with the diagonal, for a sparse matrix.

    To the matrix, `precision` is added on the diagonal, and `level` to all entries of `items`.
    """

    matrix: Sparse
    precision: Array
    items: slice
    level: float
    common: ClassVar[None] = None  # there is no matrix

    def solve(self, R: Array, tolerance: float = PCG_TOLERANCE) -> Array:
        diagonal = self.matrix.diagonal() + self.precision
        diagonal[self.items] += self.level
        scale = 1.0 / np.sqrt(np.maximum(diagonal, 1e-300))[:, None]

        def apply(P: Array) -> Array:
            V = scale * P
            out = self.matrix @ V + self.precision[:, None] * V
            if self.level:
                out[self.items] += self.level * V[self.items].sum(axis=0)
            return np.asarray(scale * out)

        B = R.reshape(len(R), -1)
        found = shifted_cg(apply, scale * B, [0.0], tol=tolerance, max_iter=10 * len(B))
        X = scale * found.solutions[0]
        if ((B * X).sum(axis=0) < 0).any():
            raise LinAlgError("not positive definite")
        return np.asarray(X.reshape(R.shape))

    def traces(self, groups: dict[str, slice]) -> dict[str, float]:
        rng = np.random.default_rng(0)
        found = {}
        for name, part in groups.items():
            probes = np.zeros((len(self.precision), PROBES))
            probes[part] = rng.choice([-1.0, 1.0], size=(part.stop - part.start, PROBES))
            found[name] = float((probes * self.solve(probes, TRACE_TOLERANCE)).sum() / PROBES)
        return found

    def own_variances(self) -> Array:
        """Of each parameter, given all others."""
        return np.asarray(1.0 / (self.matrix.diagonal() + self.precision))


def curvature_of(matrix: Any, precision: Array, items: slice, level: float) -> Any:
    """Of a matrix, with `precision` on its diagonal and `level` on all entries of `items`.

    It solves equations (`solve`) and sums the diagonal of the inverse (`traces`).
    Matrices are dense, sparse, or of a shape with its own `curvature`, such as an `Arrow`.
    """
    if is_sparse(matrix):
        return IterativeCurvature(matrix, precision, items, level)
    if not isinstance(matrix, np.ndarray):
        return matrix.curvature(precision, items, level)
    K = matrix.copy()
    K[np.diag_indices_from(K)] += precision
    K[items, items] += level
    return DenseCurvature.of(K)


@dataclass(frozen=True, eq=False)
class EqualBlocks:
    """Second derivatives of independent blocks of one size k.

    `at` has the numbers of their parameters, of shape (n, k), B the second derivatives of each
    block, (n, k, k), and X those by a block and the common parameters, (n, k, n_common). If X is
    large, it is a sparse matrix of n k rows.
    """

    at: Index
    B: Array
    X: Any

    def inverses(self, precision: Array) -> tuple[Array, float]:
        """The inverse of each block with `precision`, and the logarithm of all determinants."""
        B, own = self.B.copy(), np.arange(self.B.shape[1])
        B[:, own, own] += precision[self.at]
        if not np.isfinite(B).all():
            raise LinAlgError("not finite")
        log_det = 2.0 * float(np.log(np.einsum("jaa->ja", np.linalg.cholesky(B))).sum())
        return np.asarray(np.linalg.inv(B), dtype=np.float64), log_det


@dataclass(frozen=True, eq=False)
class Arrow:
    """Second derivatives: C of the common parameters, which come first, and those of blocks.

    Unless `exact`, the variance of a parameter of a block is given all common parameters.
    """

    C: Array
    blocks: Sequence[EqualBlocks]
    exact: bool = True

    def diagonal(self) -> Array:
        """The diagonal, in the order of the parameters."""
        size = len(self.C) + sum(part.at.size for part in self.blocks)
        found = np.empty(size)
        found[: len(self.C)] = self.C.diagonal()
        for part in self.blocks:
            found[part.at] = np.einsum("jaa->ja", part.B)
        return found

    def curvature(self, precision: Array, items: slice, level: float) -> ArrowCurvature:
        """With `precision` on the diagonal and `level` on all entries of items."""
        nc, log_det, inverses = len(self.C), 0.0, []
        S = self.C.copy()
        S[np.diag_indices_from(S)] += precision[:nc]
        S[items, items] += level
        sparse = any(is_sparse(part.X) for part in self.blocks)
        T: Any = [] if sparse else np.zeros((len(precision), nc))
        for part in self.blocks:
            inverse, more = part.inverses(precision)
            log_det += more
            inverses.append(inverse)
            n, k = part.at.shape
            if sparse:
                here = sp.bsr_array((-inverse, np.arange(n), np.arange(n + 1))).tocsr() @ part.X
                T.append(here)
                S += (part.X.T @ here).toarray()
            else:
                here = (inverse @ part.X).reshape(n * k, nc)
                S -= part.X.reshape(n * k, nc).T @ here
                T[part.at.ravel()] = -here
        if sparse:
            place = np.concatenate([np.arange(nc), *(part.at.ravel() for part in self.blocks)])
            T = sp.vstack([sp.eye_array(nc), *T]).tocsr()[np.argsort(place)]
        else:
            T[:nc] = np.eye(nc)
        at = [part.at for part in self.blocks]
        return ArrowCurvature(DenseCurvature.of(S), T, at, inverses, log_det, self.exact)


@dataclass(frozen=True, eq=False)
class ArrowCurvature:
    """Blocks are eliminated: the curvature of common parameters is S = C - X' B^-1 X.

    `follow` is the matrix T, by which all parameters follow the common ones: the identity above
    -B^-1 X. So the inverse is T S^-1 T', and B^-1, the `inverses`, for parameters `at` of blocks.
    """

    common: DenseCurvature
    follow: Any
    at: Sequence[Index]
    inverses: Sequence[Array]
    block_log_det: float
    exact: bool

    def solve(self, R: Array) -> Array:
        """The inverse times R."""
        found = np.asarray(self.follow @ self.common.solve(self.follow.T @ R))
        for at, inverse in zip(self.at, self.inverses, strict=True):
            found[at] += np.einsum("jab,jb...->ja...", inverse, R[at])
        return found

    def log_det(self) -> float:
        """The logarithm of the determinant."""
        return self.common.log_det() + self.block_log_det

    def traces(self, groups: dict[str, slice]) -> dict[str, float]:
        """The sums of the diagonal of the inverse, over groups of parameters."""
        V, nc = self.common.inverse(), len(self.common.scale)
        diagonal = self.own_variances()
        if self.exact:
            T, moved = self.follow, self.follow @ V
            both = T.multiply(moved) if is_sparse(T) else T * moved
            diagonal += np.asarray(both.sum(axis=1)).ravel()
        else:
            diagonal[:nc] = V.diagonal()
        return {name: float(diagonal[part].sum()) for name, part in groups.items()}

    def own_variances(self) -> Array:
        """Of the parameters of blocks, given the common ones; 0 for these."""
        found = np.zeros(self.follow.shape[0])
        for at, inverse in zip(self.at, self.inverses, strict=True):
            found[at] = np.einsum("jaa->ja", inverse)
        return found

    def eliminate(self, scores: Sparse) -> Any:
        """Scores of the common parameters, once the blocks have followed them."""
        return scores @ self.follow

    def bias(self, precision: Array) -> Array:
        """The penalties P, likewise."""
        if is_sparse(self.follow):
            return np.asarray((self.follow.T @ sp.diags_array(precision) @ self.follow).toarray())
        return np.asarray((self.follow * precision[:, None]).T @ self.follow)
