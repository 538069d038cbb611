"""RankRLS without tied pairs on one query, as a regression with an intercept for each level.

Some rows will be held out. Let n_l be the number of remaining rows of level l, n their total, and
d_l = n - n_l the degree of a row of that level. The optimality conditions for the remaining rows
are

    (K + lam D^-1) a + g_l = y,   T g = B (sums of a over levels),

with the intercepts g, the Laplacian T of the levels with pair weights n_l n_l', and
B = lam diag(n_l) (11' - I) D^-1. The solution is linear in y, a = P y. Held-out rows have a = 0,
and P depends on them only through the numbers n_l. A level without remaining rows has no intercept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.backends.dispatch import Backend, backend_of
from rankwise.holdout.hat import centred, ridge_inverse
from rankwise.holdout.rounding import loses_digits


class PairEntries(NamedTuple):
    """Entries of P and H = K P for pairs (i, j): P is symmetric, H is not."""

    P: Array
    H: Array
    H_transposed: Array


class LevelSystem(Protocol):
    """P and H = K P of a query."""

    @property
    def P_diagonal(self) -> Array: ...

    @property
    def H_diagonal(self) -> Array: ...

    def weights(self, y: Array) -> Array:
        """a = P y."""

    def predictions(self, y: Array) -> Array:
        """f = H y."""

    def product(self, first: Index, second: Index) -> PairEntries:
        """Entries for every row of `first` with every row of `second`, in row-major order."""

    def listed(self, first: Index, second: Index) -> PairEntries:
        """Entries for the pairs (first[k], second[k])."""


@dataclass(frozen=True)
class DenseLevels:
    """P and H as matrices."""

    P: Array
    H: Array

    @classmethod
    def of(cls, kernel: Array, level: Index, left: Index, lam: float) -> DenseLevels:
        """From a kernel matrix: 3 n^3 flops, two matrices of its size."""
        on = backend_of(kernel)
        ridge = on.array(lam / _degrees(left)[level])
        G = ridge_inverse(on.copy(kernel), ridge)
        sums = on.matmul(G, _members(on, level, left))
        P = G
        (intercepts,) = _intercepts(on, sums, level, left, lam, sums.T)
        P -= on.matmul(sums, intercepts)
        return cls(P, on.matmul(kernel, P))

    @property
    def P_diagonal(self) -> Array:
        return backend_of(self.P).contiguous(self.P.diagonal())

    @property
    def H_diagonal(self) -> Array:
        return backend_of(self.H).contiguous(self.H.diagonal())

    def weights(self, y: Array) -> Array:
        return backend_of(y).matmul(self.P, y)

    def predictions(self, y: Array) -> Array:
        return backend_of(y).matmul(self.H, y)

    def product(self, first: Index, second: Index) -> PairEntries:
        rows = first[:, None]
        return PairEntries(
            self.P[rows, second].ravel(),
            self.H[rows, second].ravel(),
            self.H[second[:, None], first].T.ravel(),
        )

    def listed(self, first: Index, second: Index) -> PairEntries:
        return PairEntries(self.P[first, second], self.H[first, second], self.H[second, first])


@dataclass(frozen=True)
class FeatureLevels:
    """P = diag(delta) - left right' and H = F W' from few features, without n by n matrices."""

    delta: Array
    left: Array
    right: Array
    F: Array
    W: Array

    @classmethod
    def of(cls, F: Array, level: Index, left: Index, lam: float) -> FeatureLevels:
        """From d features: O(n (d + levels)^2) flops.

        With Delta = D / lam and Delta^(1/2) F = Q diag(s) V', (K + lam D^-1)^-1 is
        Delta^(1/2) (I - Q diag(s^2 / (1 + s^2)) Q') Delta^(1/2). Products with it are computed
        separately in the span of Q and in its orthogonal complement, because for a small lam they
        would be differences of large numbers.
        """
        on = backend_of(F)
        delta = on.array(_degrees(left)[level] / lam)
        root = on.xp.sqrt(delta)[:, None]
        Q, R = on.qr(root * F)
        inner, s, Vt = on.xp.linalg.svd(R, full_matrices=False)
        Q = on.matmul(on.contiguous(Q), inner)
        members = _members(on, level, left)
        inside = on.matmul(Q.T, root * members)
        outside = root * members - on.matmul(Q, inside)
        outside -= on.matmul(Q, on.matmul(Q.T, outside))
        sums = root * (outside + on.matmul(Q, inside / (1.0 + s**2)[:, None]))
        W = root * on.matmul(Q * (s / (1.0 + s**2)), Vt)
        # sums'F = members'W; the product intercepts F would suffer from cancellation
        sides = sums.T, members.T @ W
        intercepts, of_features = _intercepts(on, sums, level, left, lam, *sides)
        W -= on.matmul(sums, of_features)
        U = root * Q * (s / on.xp.sqrt(1.0 + s**2))
        one, two = on.xp.hstack((U, sums)), on.xp.hstack((U, intercepts.T))
        return cls(delta, one, two, F, W)

    @property
    def P_diagonal(self) -> Array:
        return self.delta - _row_products(self.left, self.right)

    @property
    def H_diagonal(self) -> Array:
        return _row_products(self.F, self.W)

    def weights(self, y: Array) -> Array:
        return self.delta[:, None] * y - backend_of(y).matmul(self.left, self.right.T @ y)

    def predictions(self, y: Array) -> Array:
        return backend_of(y).matmul(self.F, self.W.T @ y)

    def product(self, first: Index, second: Index) -> PairEntries:
        on = backend_of(self.F)
        return PairEntries(
            -on.matmul(self.left[first], on.contiguous(self.right[second].T)).ravel(),
            on.matmul(self.F[first], on.contiguous(self.W[second].T)).ravel(),
            on.matmul(self.W[first], on.contiguous(self.F[second].T)).ravel(),
        )

    def listed(self, first: Index, second: Index) -> PairEntries:
        return PairEntries(
            -_row_products(self.left[first], self.right[second]),
            _row_products(self.F[first], self.W[second]),
            _row_products(self.W[first], self.F[second]),
        )


def stacked_levels(K: Array, level: Index, left: Index, lam: float) -> tuple[Array, Array]:
    """P and H as in `DenseLevels`, for a stack of kernel matrices of shape (n_stack, n, n).

    Raises LinAlgError if rounding errors are too large for the inverses.
    """
    on = backend_of(K)
    G = on.xp.linalg.inv(K + on.array(np.diag(lam / _degrees(left)[level])))
    diagonal, norm = G.diagonal(0, 1, 2), len(level) * float(K.diagonal(0, 1, 2).max())
    if not bool((diagonal > 0.0).all()) or loses_digits(norm, float(diagonal.max())):
        raise np.linalg.LinAlgError("ill-conditioned")
    sums = G @ _members(on, level, left)
    (intercepts,) = _intercepts(on, sums, level, left, lam, sums.swapaxes(1, 2))
    G -= sums @ intercepts
    return G, K @ G


def lifted_kernel(K: Array) -> Array:
    """K, overwritten, centred and then shifted by a constant of the size of its entries.

    Dual weights sum to zero, so constants in K do not matter. Without one, K would be singular;
    with a large one, ill-conditioned.
    """
    K = centred(K)
    K += float(abs(K.diagonal()).max()) / len(K)
    return K


def _row_products(F: Array, G: Array) -> Array:
    """Inner products of corresponding rows of F and G."""
    on = backend_of(F)
    return on.array(on.xp.einsum("ij,ij->i", F, G))


def _degrees(left: Index) -> Array:
    return np.asarray(left.sum() - left, dtype=np.float64)


def _members(on: Backend, level: Index, left: Index) -> Array:
    """The indicator matrix of the levels with remaining rows, shape (n, n_levels)."""
    return on.array(level[:, None] == np.flatnonzero(left))


def _intercepts(
    on: Backend, sums: Array, level: Index, left: Index, lam: float, *sides: Array
) -> list[Array]:
    """g for right-hand sides such as sums', where `sums` = (K + lam D^-1)^-1 members."""
    there = np.flatnonzero(left)
    size, n = left[there].astype(np.float64), float(left.sum())
    T = np.diag(size * n) - np.outer(size, size)
    B = lam * size[:, None] * (1.0 - np.eye(len(there))) / (n - size)
    T, B = on.array(T), on.array(B)
    inner = _members(on, level, left).T @ sums
    # The sum of all equations says that the weights sum to zero, times lam, as 1'T = 0 and
    # 1'B = lam 1'. A multiple of it, added to each equation, makes them independent of each other
    # for a small lam as well.
    B = B + n**2 / float(inner.diagonal(0, -2, -1).max())
    system = T + B @ inner
    return [on.contiguous(on.solve(system, B @ side)) for side in sides]
