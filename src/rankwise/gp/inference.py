"""Gaussian approximations of the posterior of compared differences.

The posterior of f given comparisons D, equation (10) of the KPCRank paper, is

    p(f | D) = p(D)^-1 prod_l p(w_l | d_l) N(f | 0, K),   d_l = f_i - f_j.

Expectation propagation replaces each p(w_l | d_l) by a site exp(-tau_l d_l^2 / 2 + nu_l d_l), so
that the posterior is Gaussian. `update_sites` in `probit` matches the sites to their factors, and
`expectation_propagation` repeats this until nothing changes. Laplace's approximation takes the
sites from the curvature at the mode. Margins with Gaussian noise are sites already: the closed
form.

With K = C C' the covariance of the rows and (d evidence) = tr(M dK),

    M = (a a' - W) / 2,   a = B' slope,   W = B' (T^-1 + B K B')^-1 B,

T = diag(tau). For Laplace's approximation the mode moves too: a q' + q a' is added to a a'.

The compared differences are linear functions of standard normal weights. With a factor C of the
prior covariance, K = C C', the process at the compared rows is f = C u for weights u from N(0, I),
and the differences are d = A u, A = C[first] - C[second]. There are as many weights as the
numerical rank of K: at most one per row, per comparison, per landmark, or per column of a linear
kernel. If raters differ, each difference is multiplied by the slope of its rater.

The context z of a comparison adds z'g to its difference, with g from N(0, v I). The weights
g / v^(1/2) are standard normal, and come first in u: A = C[first] - C[second] + [v^(1/2) Z, 0],
where the first columns of C are 0. A comparison in a context needs no row of its own.

A Cholesky factor is a staircase: row i is zero after column i. The precision of u is stored in
reverse order and factored from its last row and column upwards. A row of C that ends early then
meets only a part of the factor, and still ends early after a triangular solve.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp
from scipy.linalg import get_blas_funcs, get_lapack_funcs, lapack, solve_triangular
from scipy.linalg.blas import dtrsm
from scipy.special import ndtr

from rankwise.backends.arrays import Array, Index, is_sparse
from rankwise.backends.jit import compiled
from rankwise.backends.parallel import (
    cross_product,
    map_in_threads,
    map_rows,
    map_slices,
    matmul,
    solve_lower,
    threads_for,
)
from rankwise.errors import DataError
from rankwise.gp.probit import derivatives, update_sites
from rankwise.graph import QueryGroups
from rankwise.graph.comparisons import Comparisons

CONSTANT = -1  # instead of a column: 1 in every row
_NO_SECOND = -1  # instead of a second point: the value at the first, not a difference
_BLOCK = 128  # rows or columns of a staircase that are processed together
FEW_GAPS = 2**14  # numbers up to which array expressions are fast enough
_SMALL = 2**16  # entries up to which a Laplacian is always dense


@dataclass(frozen=True, eq=False)
class Differences:
    """d = A u with A = S (C[first] - C[second] + [Z, 0]) = B C + S [Z, 0], which is not stored."""

    C: Array  # of shape (n, c + r), in C order; with a context, the first c columns are 0
    first: Index  # rows of C, of shape (N,)
    second: Index
    stairs: int = 0  # how many rows at the top are a staircase: row i is zero after column c + i
    slopes: Array | None = None  # the diagonal of S, of shape (N,); None: all are 1
    context: Array | None = None  # Z, of shape (N, c)

    @cached_property
    def S(self) -> Array:
        """The diagonal of S."""
        return np.ones(len(self.first)) if self.slopes is None else self.slopes

    @property
    def rank(self) -> int:
        return int(self.C.shape[1])

    @property
    def n_context(self) -> int:
        """Weights of the context, which are the first."""
        return 0 if self.context is None else int(self.context.shape[1])

    def in_context(self, Z: Array) -> Differences:
        """The same differences, with a context that had none."""
        zeros = np.zeros((len(self.C), Z.shape[1]))
        return replace(self, C=np.hstack((zeros, self.C)), context=Z)

    def __len__(self) -> int:
        return len(self.first)

    def rows(self, which: Index) -> Array:
        """Rows of A."""
        gaps = self.C[self.first[which]] - self.C[self.second[which]]
        if self.context is not None:
            gaps[:, : self.n_context] = self.context[which]
        return np.asarray(self.S[which, None] * gaps)

    def to_rows(self, z: Array) -> Array:
        """B'z: for every row of C, the sum over its comparisons."""
        n, z = len(self.C), z * self.S
        gained, lost = np.bincount(self.first, z, n), np.bincount(self.second, z, n)
        return np.asarray(gained - lost, dtype=np.float64)

    def apply(self, u: Array) -> Array:
        """A u, for a vector or columns."""
        u = u.astype(self.C.dtype, copy=False)
        f = self.C @ u if u.ndim == 1 else matmul(self.C, np.ascontiguousarray(u))
        gaps = f[self.first] - f[self.second]
        if self.context is not None:
            gaps += self.context @ u[: self.n_context]
        return np.asarray(self.S * gaps.T).T

    def transpose(self, z: Array) -> Array:
        """A'z."""
        out = np.asarray(self.C.T @ self.to_rows(z).astype(self.C.dtype, copy=False))
        if self.context is not None:
            out[: self.n_context] = (self.S * z) @ self.context
        return out

    def laplacian(self, tau: Array) -> Any:
        """B' diag(tau) B, sparse if there are many rows and few comparisons."""
        n, i, j, tau = len(self.C), self.first, self.second, tau * self.S**2
        if n * n <= max(8 * len(self), _SMALL):
            L = np.bincount(i * n + j, -tau, n * n).reshape(n, n)
            L += L.T
            L[np.arange(n), np.arange(n)] = np.bincount(i, tau, n) + np.bincount(j, tau, n)
            return L
        rows, columns = np.concatenate((i, j, i, j)), np.concatenate((i, j, j, i))
        values = np.concatenate((tau, tau, -tau, -tau))
        return sp.csr_array(sp.coo_array((values, (rows, columns)), shape=(n, n)))

    def smoothed(self, tau: Array) -> Array:
        """B' diag(tau) A: O(r min(n^2, N)) time."""
        L, C = self.laplacian(tau).astype(self.C.dtype, copy=False), self.C
        if is_sparse(L):
            out, filled = np.zeros_like(C), np.full(len(C), self.rank)
            filled[: self.stairs] = self.n_context + 1 + np.arange(self.stairs)
            given = L.indptr, L.indices, L.data, C, filled
            map_rows(lambda part: _sparse_product(*given, part.start, part.stop, out), C)
        else:
            out = matmul(L, C)
        if self.context is not None:
            for k, z in enumerate(self.context.T):
                out[:, k] = self.to_rows(tau * self.S * z)
        return out

    def precision(self, tau: Array) -> Array:
        """I + A' diag(tau) A in reverse order, lower triangle: O(r^2 n + N r) time."""
        r, c, Y = self.rank, self.n_context, self.smoothed(tau)
        P = np.empty((r, r), dtype=self.C.dtype, order="F")

        def fill(start: int) -> None:
            stop = min(start + _BLOCK, r)
            top = min(max(start - c, 0), self.stairs)
            product = cross_product(Y[top:, :stop], self.C[top:, start:stop])
            P[r - stop :, r - stop : r - start] = product[::-1, ::-1]

        map_in_threads(fill, range(0, r, _BLOCK), threads_for(self.C.size))
        P[np.arange(r), np.arange(r)] += 1.0
        if self.context is not None:
            Z = self.context[:, ::-1]
            P[r - c :, r - c :] += Z.T @ ((tau * self.S**2)[:, None] * Z)
        return P

    @cached_property
    def prior_variances(self) -> Array:
        """Prior variance of every difference."""
        found = self.squared_norms(self.C)
        return found if self.context is None else found + self._squared_length(self.context)

    def variances(self, weights: WeightPosterior) -> Array:
        """Posterior variance of every difference: O(r^2 n + N r) time."""
        rows, root, r = self.C[:, ::-1].copy(), weights.root, self.rank - self.n_context

        def solve(start: int) -> None:
            stop = min(start + _BLOCK, self.stairs)
            solve_lower(root[r - stop :, r - stop :], rows[start:stop, r - stop :])

        # The longest first, so that no thread ends with it alone.
        starts, threads = range(0, self.stairs, _BLOCK)[::-1], threads_for(rows.size)
        map_in_threads(solve, starts, threads)
        rest = rows[self.stairs :]
        map_rows(lambda part: solve_lower(root, rest[part]), rest)
        if self.context is None:
            return self.squared_norms(rows)
        Z, last = self.context[:, ::-1].astype(self.C.dtype), rows[:, r:]
        solve_lower(root[r:, r:], Z)  # the last rows of the factor meet nothing else of [Z, 0]
        Z += last[self.first] - last[self.second]
        return self.squared_norms(np.ascontiguousarray(rows[:, :r])) + self._squared_length(Z)

    def rougher(self) -> list[Differences]:
        """The same differences with the first weights of rows only, then with fewer digits.

        The first have at most `_FEW_WEIGHTS`, and the others twice as many each.
        """
        levels, rank = list[Differences](), self.rank - self.n_context
        while rank > _FEW_WEIGHTS:
            levels.append(self._part(rank, np.float32))
            rank //= 2
        return [self._part(rank, np.float64), *levels[::-1]] if levels else []

    def _part(self, rank: int, dtype: Any) -> Differences:
        C = np.ascontiguousarray(self.C[:, : self.n_context + rank], dtype=dtype)
        return replace(self, C=C, stairs=min(self.stairs, rank))

    def _squared_length(self, Z: Array) -> Array:
        """|S Z|^2 for every difference."""
        return np.asarray(np.einsum("ij,ij->i", Z, Z) * self.S**2)

    def squared_norms(self, rows: Array) -> Array:
        """|S (rows[first] - rows[second])|^2 for every difference: O(N r)."""
        if len(self) * rows.shape[1] <= FEW_GAPS:
            gaps = rows[self.first] - rows[self.second]
            return np.einsum("ij,ij->i", gaps, gaps) * self.S**2
        out = np.empty(len(self))

        def fill(part: slice) -> None:
            _squared_gaps(rows, self.first[part], self.second[part], out[part])

        map_slices(fill, len(self), len(self) * rows.shape[1])
        return out * self.S**2


@partial(compiled, fastmath={"reassoc"})  # a sum in any order can use vector instructions
def _squared_gaps(rows: Array, first: Index, second: Index, out: Array) -> None:
    """|rows[first] - rows[second]|^2."""
    for k in range(len(first)):
        a, b = rows[first[k]], rows[second[k]]
        total = 0.0
        for j in range(len(a)):
            total += (a[j] - b[j]) ** 2
        out[k] = total


@compiled
def _sparse_product(
    indptr: Index, indices: Index, values: Array, C: Array, filled: Index, start: int, stop: int,
    out: Array,
) -> None:  # fmt: skip
    """Some rows of a sparse matrix times C, added to `out`; row k of C has `filled` entries."""
    for i in range(start, stop):
        row = out[i]
        for p in range(indptr[i], indptr[i + 1]):
            k, value = indices[p], values[p]
            for j in range(filled[k]):
                row[j] += value * C[k, j]


@dataclass(frozen=True, eq=False)
class WeightPosterior:
    """The Gaussian N(mean, P^-1) of the weights u, with P = I + A' diag(tau) A.

    If tau >= 0, no eigenvalue of P is below 1, and its Cholesky factorization cannot fail.
    """

    root: Array  # lower triangular, P in reverse order = root root'; arbitrary above the diagonal
    mean: Array

    @classmethod
    def of(cls, differences: Differences, tau: Array, nu: Array) -> WeightPosterior:
        """From sites exp(-tau d^2 / 2 + nu d)."""
        if differences.rank == 0:
            return cls(np.zeros((0, 0)), np.zeros(0))
        P = differences.precision(tau)
        potrf: Any = get_lapack_funcs("potrf", (P,))
        root, info = potrf(P, lower=1, clean=0, overwrite_a=1)
        if info:
            raise FloatingPointError("The precision is not positive definite.")
        weights = cls(root, np.zeros(0))
        return cls(root, weights.solve(differences.transpose(nu)))

    @property
    def log_det(self) -> float:
        """log |P|."""
        return 2.0 * float(np.log(np.diagonal(self.root)).sum())

    def whiten(self, V: Array) -> Array:
        """W with W'W = V'P^-1 V, the covariance of V'u: O(r^2) per column."""
        if not V.size:
            return V
        return np.asarray(dtrsm(1.0, self.root, np.asfortranarray(V[::-1]), lower=1))

    def solve(self, v: Array) -> Array:
        """P^-1 v."""
        if not v.size:
            return v
        if v.ndim == 1:  # faster than dpotrs
            trsv: Any = get_blas_funcs("trsv", (self.root,))
            solved = trsv(self.root, trsv(self.root, v[::-1], lower=1), lower=1, trans=1)
        else:
            solved = lapack.dpotrs(self.root, v[::-1], lower=1)[0]
        return np.ascontiguousarray(solved[::-1])  # products take steps backwards slowly

    def mean_for(self, differences: Differences, tau: Array, nu: Array) -> Array:
        """About the mean for other sites, with tau >= 0: O(n r) for each step.

        Conjugate gradients from this mean on. This posterior is the preconditioner.
        """

        def product(u: Array) -> Array:
            return np.asarray(u + differences.transpose(tau * differences.apply(u)))

        mean, rest = self.mean, differences.transpose(nu) - product(self.mean)
        ahead = self.solve(rest)
        size = largest = float(rest @ ahead)
        for _ in range(_CG_STEPS):
            if size <= _CG_ACCURACY * largest:
                break
            pushed = product(ahead)
            share = size / float(ahead @ pushed)
            mean, rest = mean + share * ahead, rest - share * pushed
            solved = self.solve(rest)
            last, size = size, float(rest @ solved)
            ahead = solved + (size / last) * ahead
        return mean

    def moments(self, differences: Differences) -> tuple[Array, Array]:
        """Mean and variance of every difference: O(r^2 n + N r)."""
        return differences.apply(self.mean), differences.variances(self)


@dataclass(frozen=True, eq=False)
class WeightBasis:
    """g = root u: values f(first), or differences f(first) - f(second), at some points."""

    root: Array  # Cholesky factor of the prior covariance of g, lower triangular
    first: Index  # numbers of points, of shape (r,)
    second: Index  # -1 stands for a value
    is_linear: ClassVar[Literal[False]] = False

    def __len__(self) -> int:
        return len(self.first)

    def functionals(self, K: Array) -> Array:
        """Covariances with g from covariances with the points: both have one row each."""
        rows = K[self.first]
        two = np.flatnonzero(self.second != _NO_SECOND)
        rows[two] -= K[self.second[two]]
        return rows

    def project(self, K: Array) -> Array:
        """c with f = c'u at new rows, of shape (r, m), from K, points by new rows: O(r^2 m)."""
        if not len(self) or not K.shape[1]:
            return np.zeros((len(self), K.shape[1]))
        rows = np.asfortranarray(self.functionals(K))
        return np.asarray(
            solve_triangular(self.root, rows, lower=True, overwrite_b=True, check_finite=False)
        )


@dataclass(frozen=True, eq=False)
class LinearBasis:
    """f(x) = sum_j u_j scales_j x[columns_j]: the weights are coefficients of columns."""

    columns: Index  # -1 stands for a constant
    scales: Array
    is_linear: ClassVar[Literal[True]] = True

    def __len__(self) -> int:
        return len(self.columns)

    def features(self, X: Array) -> Array:
        """c with f = c'u at rows of X, of shape (r, m)."""
        values = np.where(self.columns == CONSTANT, 1.0, X[:, self.columns])
        return np.asarray((values * self.scales).T)


@dataclass(frozen=True, eq=False)
class WeightSpace:
    """Differences as linear functions of the weights, and the meaning of the weights.

    The rows of C are the compared rows. With fewer comparisons than rows, they are the comparisons,
    each of which is compared with a row of zeros.
    """

    differences: Differences
    basis: WeightBasis | LinearBasis
    order: Index  # which rows or comparisons the rows of C are

    def of_rows(self, V: Array, n_rows: int, first: Index, second: Index) -> Array:
        """Derivatives by the compared rows from derivatives by the rows of C, one row each."""
        if len(self.order) == len(V):
            out = np.empty_like(V)
            out[self.order] = V
            return out
        ones, each = np.ones(len(self.order)), np.arange(len(self.order))
        entries = (np.tile(each, 2), np.concatenate((first[self.order], second[self.order])))
        B = sp.csr_array((np.concatenate((ones, -ones)), entries), shape=(len(ones), n_rows))
        return np.asarray(B.T @ V[:-1])


def weights_of_rows(K: Array, first: Index, second: Index) -> WeightSpace:
    """At most one weight per row: for no more rows than comparisons."""
    C, order = pivoted_cholesky(K)
    position, r = np.argsort(order), C.shape[1]
    basis = WeightBasis(C[:r], order[:r], np.full(r, _NO_SECOND))
    return WeightSpace(Differences(C, position[first], position[second], r), basis, order)


def weights_of_pairs(K: Array, first: Index, second: Index) -> WeightSpace:
    """At most one weight per comparison: for fewer comparisons than rows."""
    rows = K[first] - K[second]
    C, order = pivoted_cholesky(rows[:, first] - rows[:, second])
    n, r = C.shape
    basis = WeightBasis(C[:r], first[order[:r]], second[order[:r]])
    differences = Differences(_with_zeros(C), np.argsort(order), np.full(n, n), r)
    return WeightSpace(differences, basis, order)


def weights_of(
    basis: WeightBasis | LinearBasis, C: Array, first: Index, second: Index
) -> WeightSpace:
    """One weight per landmark, or per column of a linear kernel, from coordinates C of the rows."""
    if len(C) <= len(first):
        return WeightSpace(
            Differences(np.ascontiguousarray(C), first, second), basis, np.arange(len(C))
        )
    n = len(first)
    differences = Differences(_with_zeros(C[first] - C[second]), np.arange(n), np.full(n, n))
    return WeightSpace(differences, basis, np.arange(n))


def _with_zeros(C: Array) -> Array:
    """Rows and a row of zeros."""
    return np.vstack((C, np.zeros((1, C.shape[1]))))


def pivoted_cholesky(K: Array) -> tuple[Array, Index]:
    """C, a staircase, and an order of rows with K[order][:, order] = C C' up to rounding.

    O(n r^2 + n^2) time. K may be singular: the first r rows determine all others.
    """
    n = len(K)
    if n == 0 or not np.diagonal(K).max() > 0:
        return np.zeros((n, 0)), np.arange(n)
    upper, order, rank, _ = lapack.dpstrf(K.T if K.flags.c_contiguous else K)
    C = np.ascontiguousarray(upper[:rank].T)
    for i in range(rank):
        C[i, i + 1 :] = 0.0
    return C, order.astype(np.intp) - 1


@dataclass(frozen=True, eq=False)
class PairObservations:
    """Pairs of compared rows, each with what was observed of it.

    Rows and pairs are in the order of their first appearance: further comparisons change the values
    of existing pairs, and append others. A pair that two raters compared, or that was compared in
    two contexts, counts as two pairs.
    """

    rows: Index  # the rows that were compared
    first: Index  # positions in `rows`, of shape (N,)
    second: Index
    values: Array  # weights of wins, losses and ties (probit), or margin and weight (gaussian)
    parts: Array  # what each comparison adds to the values of its pair
    pair: Index  # number of its pair
    sign: Array  # -1 if its first row is the second of its pair
    rater: Index | None = None  # number of the rater of each pair, -1 for one who is not known
    context: Array | None = None  # of the first row of each pair, of shape (N, c)

    @classmethod
    def from_outcomes(
        cls, comparisons: Comparisons, rater: Index | None = None, *, half_ties: bool
    ) -> PairObservations:
        """Each pair once (by rater and context), with its wins, losses and ties: O(N log N).

        Margins are 1 (the first row won), 0 (a tie) or -1. With `half_ties`, a tie counts as
        half a win for each row.
        """
        rows, first, second = _positions(comparisons.pairs)
        sign = np.where(first < second, 1.0, -1.0)
        low, high = np.minimum(first, second), np.maximum(first, second)
        who = np.zeros(len(first), dtype=np.intp) if rater is None else rater + 1
        shape = (max(len(rows), 1), max(len(rows), 1), int(who.max(initial=0)) + 1)
        number = QueryGroups.of(np.ravel_multi_index((low, high, who), shape)).codes
        context = comparisons.context
        if context is not None:
            context = sign[:, None] * context + 0.0  # not -0
            kind = np.unique(context, axis=0, return_inverse=True)[1].ravel()
            number = QueryGroups.of(number * (kind.max(initial=0) + 1) + kind).codes
        _, shown = np.unique(number, return_index=True)  # a comparison of each pair
        outcome = sign * comparisons.margin
        parts = np.column_stack((outcome > 0, outcome < 0, outcome == 0)).astype(np.float64)
        if half_ties:
            parts[:, :2] += 0.5 * parts[:, 2:]
            parts[:, 2] = 0.0
        parts *= comparisons.weight[:, None]
        counts = np.empty((len(shown), 3))
        for column, part in zip(counts.T, parts.T, strict=True):
            column[:] = np.bincount(number, part, len(shown))
        raters = None if rater is None else rater[shown]
        context = None if context is None else context[shown]
        return cls(rows, low[shown], high[shown], counts, parts, number, sign, raters, context)

    @classmethod
    def from_margins(cls, comparisons: Comparisons, rater: Index | None = None) -> PairObservations:
        """Every comparison with its margin and weight, as it was given."""
        rows, first, second = _positions(comparisons.pairs)
        values = np.column_stack((comparisons.margin, comparisons.weight))
        each, sign = np.arange(len(values)), np.ones(len(values))
        context = comparisons.context
        return cls(rows, first, second, values, values, each, sign, rater, context)

    def __len__(self) -> int:
        return len(self.first)

    def weighted(self, share: float) -> PairObservations:
        """The same with all weights multiplied, for outcomes."""
        return replace(self, values=share * self.values, parts=share * self.parts)


def _positions(pairs: Index) -> tuple[Index, Index, Index]:
    """The distinct rows of pairs, and where the first and the second of each pair are in them."""
    groups = QueryGroups.of(pairs.ravel())
    return groups.names, groups.codes[::2].copy(), groups.codes[1::2].copy()


def check_comparisons(
    X: Any, n_rows: int, pairs: Any, likelihood: str, **columns: Any
) -> Comparisons:
    """Check comparisons of the rows of X for a likelihood; there may be none."""
    given = Comparisons.given(X, n_rows, pairs, **columns, allow_empty=True)
    if given.margin.ndim > 1:
        raise DataError(
            f"margin needs one number per pair: got shape {given.margin.shape}. "
            "A Gaussian process has one output: fit one for each column."
        )
    is_outcome = np.isin(given.margin, (-1.0, 0.0, 1.0))
    if likelihood == "probit" and not is_outcome.all():
        k = int(np.argmin(is_outcome))
        raise DataError(
            "The probit likelihood models who won, not by how much: margin must be 1, 0 (a tie) "
            f"or -1, but entry {k} is {given.margin[k]:g}. Use numpy.sign(margin), or "
            'likelihood="gaussian".'
        )
    return given


def comparisons_of_scores(
    groups: QueryGroups, y: Array, likelihood: str, max_pairs: int, rng: np.random.Generator
) -> Comparisons:
    """All pairs of rows of a query, or `max_pairs` of them drawn at random, compared by score."""
    ends = np.cumsum(groups.sizes * (groups.sizes - 1) // 2)
    n_pairs = int(ends[-1])
    if n_pairs > max_pairs:
        chosen = np.sort(rng.choice(n_pairs, max_pairs, replace=False))
    else:
        chosen = np.arange(n_pairs)
    query = np.searchsorted(ends, chosen, side="right")
    begins = np.concatenate(([0], ends[:-1]))
    i, j = _pair_of_number(chosen - begins[query], groups.sizes[query])
    both = groups.order[groups.indptr[query][:, None] + np.column_stack((i, j))]
    pairs = np.sort(both, axis=1)
    gap = y[pairs[:, 0]] - y[pairs[:, 1]]
    margin = np.sign(gap) if likelihood == "probit" else gap
    return Comparisons(pairs, margin, np.ones(len(pairs)))


def _pair_of_number(number: Index, n: Index) -> tuple[Index, Index]:
    """The pair i < j of that number in (0, 1), (0, 2), ..., (0, n - 1), (1, 2), ..."""
    half = n - 0.5
    i = np.floor(half - np.sqrt(np.maximum(half**2 - 2.0 * number, 0.0))).astype(np.intp)
    i += (i + 1) * (2 * n - i - 2) // 2 <= number  # where the root was rounded
    i -= i * (2 * n - i - 1) // 2 > number
    return i, number - i * (2 * n - i - 1) // 2 + i + 1


Sites = tuple[Array, Array]  # tau and nu
_DEPTH = 5  # number of sweeps that a step is extrapolated from
_PLAIN = 3  # number of sweeps before the first extrapolation
_LEAST_SHARE = 0.05  # of a step
_FEW_WEIGHTS = 128  # up to which means are not much cheaper than variances
_ROUGH_SITES, _SINGLE = 0.01, 1e-3  # errors of sites of fewer weights, and in single precision
_ROUGH_SWEEPS = 6  # at most, for sites to start from
_CG_STEPS, _CG_ACCURACY = 8, 1e-3  # the latter relative to the first error, squared
_ROUGH = 0.1  # largest change of a difference in the last step towards a start
_HALVINGS = 6  # of a step to sites without a proper posterior
_NARROWEST = 0.3  # smallest pivot of the weights' precision; it is 1 for the prior


@dataclass(frozen=True, eq=False)
class Approximation:
    """A Gaussian posterior of the weights, its sites exp(-tau d^2 / 2 + nu d), and its evidence."""

    weights: WeightPosterior
    tau: Array  # of shape (N,), as all arrays here
    nu: Array
    mean: Array  # of every difference
    variance: Array
    log_evidence: float
    slope: Array  # of the log-likelihood: the posterior mean of f is K B' slope
    bend: Array | None = None  # of the evidence by the mode, for Laplace's approximation
    threshold_slope: float = 0.0  # of the evidence
    flips_slope: float = 0.0
    converged: bool = True
    n_sweeps: int = 0  # from the first sites on; those in single precision are not counted
    residual: float = 0.0  # remaining error of the moments, relative to their spread

    def cavities(self, prior: Array, sites: Any = slice(None)) -> tuple[Array, Array]:
        """Mean and variance of the differences of some sites, each without its site.

        They are no wider than before any comparison, with the variances `prior`.
        """
        mean, variance, tau, nu = (
            part[sites] for part in (self.mean, self.variance, self.tau, self.nu)
        )
        share = _cavity_shares(variance, tau, prior[sites])
        return (mean - variance * nu) / share, variance / share

    def sites_for(self, ratio: Array) -> Sites:
        """Sites to start from where prior variances of the differences are `ratio` times these.

        A site is about as wide as noise and posterior together. Where the noise is small
        relative to the posterior, the posterior grows with the prior.
        """
        share = (1.0 + self.variance) / (1.0 + ratio * self.variance)
        return self.tau * share, self.nu * np.sqrt(share)


def _cavity_shares(variance: Array, tau: Array, prior: Array) -> Array:
    """Variances of differences relative to their variances without their sites."""
    least = np.divide(variance, prior, out=np.ones_like(prior), where=prior > 0)
    return np.maximum(1.0 - tau * variance, np.minimum(least, 1.0))


def expectation_propagation(
    differences: Differences,
    counts: Array,
    threshold: float = 0.0,
    flips: float = 0.0,
    *,
    start: Sites | None = None,
    tol: float = 1e-6,
    max_sweeps: int = 100,
) -> Approximation:
    """Sites that match the moments of every factor: section 5 of the KPCRank paper.

    A site stands for the likelihood of one difference. At the fixed point, replacing any site
    by its likelihood leaves mean and variance of the posterior as they are. Likelihoods are
    log-concave (unless outcomes are flipped), so tau >= 0 and every posterior is proper. At
    the fixed point the evidence is stationary in the sites.

    A sweep updates all sites at once: O(r^2 min(n, N) + r^3 + N r), where r is the rank of the
    prior. Sweeps are extrapolated from the last few, and damped while they do not converge. If r is
    large, the first sweeps are for a part of the weights, whose number is doubled until it is r,
    and in single precision. A sweep then updates all sites twice, the second time to new means,
    which are cheap, but with the same cavity variances.

    Parameters
    ----------
    differences : Differences
        In units of the noise, as is the threshold.
    counts : ndarray of shape (N, 3)
        Weights of wins, losses and ties of the first row.
    threshold, flips : float
        Half the width of the interval of ties, 0: no ties; and the share of flipped outcomes.
    start : (tau, nu), optional
        Sites to start from, such as the sites of a similar problem. None: no information, or
        Laplace's approximation if there are pairs with several comparisons, whose factors are
        integrals: these are cheap near the posterior, and costly near a wide prior. If the rank is
        large, these are the first sites of the fewest weights.
    tol : float
        Largest error of the moments, relative to their spread, after at most `max_sweeps` in double
        precision.
    """
    n, counts = len(differences), np.ascontiguousarray(counts)
    levels, sites, matched = [differences], np.zeros((2, n)), np.empty((n, 3))
    if start is not None:
        sites = np.vstack(start)
    else:
        levels = [*differences.rougher(), differences] if flips == 0.0 else levels
        once = (counts.sum(axis=1) == counts.max(axis=1, initial=0.0)) & (counts <= 1.0).all(axis=1)
        if not once.all():
            near = laplace(levels[0], counts, threshold, tol=_ROUGH)
            sites = np.vstack((near.tau, near.nu))
    for level in levels:
        is_last, prior = level is differences, level.prior_variances
        is_large = level.rank - level.n_context > _FEW_WEIGHTS and flips == 0.0
        least, most = tol, max_sweeps
        if not is_last:
            least = _SINGLE if level.rank == differences.rank else _ROUGH_SITES
            most = _ROUGH_SWEEPS
        good, steps = np.zeros((2, n)), _Steps(0 if is_large else _PLAIN)
        for sweep in range(most + 1):
            try:
                weights, tau, nu, retreated = _proper(level, sites[0], sites[1], good)
            except FloatingPointError:
                if is_last:
                    raise
                break  # too few digits for this prior
            good = np.vstack((tau, nu))
            mean, variance = weights.moments(level)
            residual, evidence, by_t, by_e = update_sites(
                mean, variance, prior, tau, nu, counts, threshold, flips, matched
            )
            is_done = residual <= least or sweep == most
            if is_done and is_last:
                break
            if is_large:  # a second update, to the means of the matched sites
                spread = variance / _cavity_shares(variance, tau, prior)
                tau, nu = matched[:, :2].T.copy()
                means = level.apply(weights.mean_for(level, tau, nu))
                variance = spread / (1.0 + tau * spread)
                update_sites(means, variance, prior, tau, nu, counts, threshold, flips, matched)
            sites = steps.next(good, matched[:, :2].T, residual, retreated)
            if is_done:
                break
        if not is_last and not np.isfinite(sites).all():  # too few digits, again
            sites = np.zeros((2, n))
    evidence += 0.5 * float(nu @ mean) - 0.5 * weights.log_det
    return Approximation(
        weights,
        tau,
        nu,
        mean,
        variance,
        evidence,
        nu - tau * mean,
        threshold_slope=by_t,
        flips_slope=by_e,
        converged=residual <= tol,
        n_sweeps=sweep,
        residual=residual,
    )


def gain_of_flips(a: Approximation, counts: Array, threshold: float, share: float) -> float:
    """How much a share of flips changes the evidence, if the sites stay as they are: one sweep.

    The evidence is stationary in the sites, so it is the gain up to second order.
    """
    sites = (a.mean, a.variance, np.full(len(a.mean), np.inf), a.tau, a.nu)
    given, out = (np.ascontiguousarray(counts), threshold), np.empty((len(counts), 3))
    with_flips, without = (update_sites(*sites, *given, e, out)[1] for e in (share, 0.0))
    return float(with_flips - without)


def _proper(
    differences: Differences, tau: Array, nu: Array, good: Array
) -> tuple[WeightPosterior, Array, Array, bool]:
    """The posterior of these sites, or of sites nearer to good ones; and whether it retreated.

    With flipped outcomes, sites may have negative precisions. Too many of them leave no
    posterior, or one that is far wider than the prior, which no comparison justifies.
    """
    for halvings in range(_HALVINGS):
        try:
            weights = WeightPosterior.of(differences, tau, nu)
        except FloatingPointError:
            if not (tau < 0).any():
                raise
        else:
            if (tau >= 0).all() or np.diagonal(weights.root).min() > _NARROWEST:
                return weights, tau, nu, halvings > 0
        tau, nu = 0.5 * (tau + good[0]), 0.5 * (nu + good[1])
    tau, nu = np.maximum(good[0], 0.0), good[1]
    return WeightPosterior.of(differences, tau, nu), tau, nu, True


class _Steps:
    """The next sites from the current ones and the matched ones.

    Plain steps at first, then Anderson acceleration: the combination of the last steps that
    would be best if the map were linear. After a step that diverges, damped plain steps: half the
    share and twice as many each time.
    """

    def __init__(self, plain: int) -> None:
        self.best = np.inf
        self.failures = 0
        self.plain = plain
        self.past: list[tuple[Array, Array]] = []

    def next(self, sites: Array, matched: Array, residual: float, retreated: bool) -> Array:
        """The next (tau, nu), as rows of one array; tau stays proper."""
        gap = matched - sites
        if retreated or residual > 2.0 * self.best:
            self.past.clear()
            self.failures += 1
            self.plain = _PLAIN + 2**self.failures
            self.best = residual
        self.best = min(self.best, residual)
        self.past = [*self.past, (sites, gap)][-_DEPTH - 1 :]
        self.plain -= 1
        if self.plain >= 0 or len(self.past) == 1:
            return np.asarray(sites + max(0.5**self.failures, _LEAST_SHARE) * gap)
        bends = np.column_stack([(gap - old).ravel() for _, old in self.past[:-1]])
        moves = np.column_stack([(sites - at).ravel() for at, _ in self.past[:-1]])
        shares = np.linalg.lstsq(bends, gap.ravel(), rcond=1e-8)[0]
        new = matched - ((moves + bends) @ shares).reshape(gap.shape)
        new[0] = np.where((new[0] < 0) & (matched[0] >= 0), matched[0], new[0])
        return np.asarray(new)


def laplace(
    differences: Differences,
    counts: Array,
    threshold: float = 0.0,
    *,
    start: Sites | None = None,
    tol: float = 1e-6,
    max_sweeps: int = 100,
) -> Approximation:
    """N(u, P^-1) at the u that maximizes sum_l l(A u) - |u|^2 / 2, by Newton's method.

    Cheaper than expectation propagation, since no step needs variances, and less accurate: the
    mean of a skewed posterior is not at its mode, and its curvature there is not its spread.

    Parameters are as in `expectation_propagation`; `tol` is the largest change of a difference
    in the last of at most `max_sweeps` Newton steps, in units of the noise.
    """
    n = len(differences)
    counts, terms = np.ascontiguousarray(counts), np.empty((n, 7))

    def objective(u: Array) -> float:
        """log p(outcomes | d) + log N(u | 0, I) up to a constant; `terms` is filled."""
        derivatives(differences.apply(u), counts, threshold, terms)
        return float(terms[:, 0].sum() - 0.5 * (u @ u))

    def parabola(d: Array) -> Sites:
        """The sites that touch the log-likelihood at d."""
        tau = np.maximum(-terms[:, 2], 0.0)
        return tau, tau * d + terms[:, 1]

    u = np.zeros(differences.rank)
    if start is not None:
        u = WeightPosterior.of(differences, *start).mean
    step, steps, value = np.inf, 0, objective(u)
    while step > tol and steps < max_sweeps:
        steps += 1
        target = WeightPosterior.of(differences, *parabola(differences.apply(u))).mean - u
        moved = np.abs(differences.apply(target)).max(initial=0.0)
        share = 1.0
        while True:
            new = u + share * target
            trial = objective(new)
            # Written so that a NaN ends both loops.
            if not trial < value - 1e-10 * (1.0 + abs(value)) or not share * moved >= 1e-14:
                break
            share *= 0.5
        u, value, step = new, trial, share * moved
    d = differences.apply(u)
    tau, nu = parabola(d)
    weights = WeightPosterior(WeightPosterior.of(differences, tau, nu).root, u)
    variance = weights.moments(differences)[1]
    skew = 0.5 * variance * terms[:, 3]

    def smoothed(z: Array) -> Array:
        """The covariance of the differences times z."""
        return differences.apply(weights.solve(differences.transpose(z)))

    by_t = terms[:, 4].sum() + 0.5 * variance @ terms[:, 6] + skew @ smoothed(terms[:, 5])
    return Approximation(
        weights,
        tau,
        nu,
        d,
        variance,
        value - 0.5 * weights.log_det,
        terms[:, 1].copy(),
        bend=skew - tau * smoothed(skew),
        threshold_slope=float(by_t),
        converged=bool(step <= tol),
        n_sweeps=steps,
        residual=float(step) if n else 0.0,
    )


def gaussian(differences: Differences, margin: Array, weight: Array, noise: Any) -> Approximation:
    """prod_l N(margin_l | d_l, noise^2)^weight_l: section 5 of the KPCRank paper, v = noise^-2.

    A weight is how often a margin was observed, and each comparison may have its own noise. If the
    noise is common, the mean minimizes sum_l weight_l (margin_l - d_l)^2 + noise^2 |f|^2: it is
    RankRLS with alpha = noise^2. O(r^2 min(n, N) + r^3 + N r).
    """
    variances = np.square(noise)
    tau = weight / variances
    nu = tau * margin
    weights = WeightPosterior.of(differences, tau, nu)
    mean, variance = weights.moments(differences)
    scale = -(weight * np.log(2 * np.pi * variances)).sum()
    evidence = 0.5 * (scale - nu @ margin + nu @ mean - weights.log_det)
    return Approximation(weights, tau, nu, mean, variance, float(evidence), nu - tau * mean)


def slope_gradient(differences: Differences, a: Approximation) -> Array:
    """Derivatives of the evidence by the logarithm of the slope of every difference: O(N r).

    They are the diagonal of 2 M_d A A', where M_d is M for the covariance of the differences:
    slope_l m_l - tau_l v_l, with the posterior means and variances of the differences.
    """
    out = a.slope * a.mean - a.tau * a.variance
    if a.bend is not None:
        out += a.bend * a.mean + a.slope * differences.apply(differences.transpose(a.bend))
    return np.asarray(out)


def precision_gradient(a: Approximation, weight: Array) -> Array:
    """The same for a Gaussian likelihood, whose slopes divide the noise."""
    return np.asarray(weight - np.square(a.slope) / a.tau - a.tau * a.variance)


def covariance_gradient(differences: Differences, a: Approximation) -> Array:
    """M, of shape (n, n): O(n^2 r) time.

    W = L - L C P^-1 C'L with L = B'TB, since C P^-1 C' is the posterior covariance.
    """
    L = differences.laplacian(a.tau)
    V = a.weights.whiten(differences.smoothed(a.tau).T)
    M = matmul(V.T, V) if V.size else V.T @ V
    M -= L.toarray() if is_sparse(L) else L
    rows = differences.to_rows(a.slope)
    M += rows[:, None] * rows
    if a.bend is not None:
        bend = differences.to_rows(a.bend)
        M += rows[:, None] * bend + bend[:, None] * rows
    M *= 0.5
    return M


def factor_gradient(differences: Differences, a: Approximation) -> Array:
    """M C, of shape (n, c + r), without M: O(n r^2 + N r) time; 0 in columns of the context.

    W C = B'T A P^-1 in all other columns, since A'T A = P - I.
    """
    C = differences.C
    out = -a.weights.solve(differences.smoothed(a.tau).T).T
    rows = differences.to_rows(a.slope)
    out += rows[:, None] * (rows @ C)
    if a.bend is not None:
        bend = differences.to_rows(a.bend)
        out += rows[:, None] * (bend @ C) + bend[:, None] * (rows @ C)
    out[:, : differences.n_context] = 0.0
    return out / 2


def context_gradient(differences: Differences, a: Approximation) -> float:
    """Derivative of the evidence by log v, the variance of the weights of the context.

    With A_c the columns of A that belong to the context, it is tr(M_d A_c A_c'), where M_d is M for
    the covariance of the differences: |A_c' slope|^2 - tr(I - P^-1) over 2, over these columns.
    """
    c = differences.n_context
    own = np.eye(differences.rank)[:, :c]
    rows = differences.transpose(a.slope)[:c]
    out = 0.5 * float(rows @ rows - c + np.square(a.weights.whiten(own)).sum())
    return out if a.bend is None else out + float(rows @ differences.transpose(a.bend)[:c])


def outcome_information(
    a: Approximation, prior: Array, counts: Array, threshold: float, flips: float
) -> Array:
    """Fisher's information of the outcomes of each pair about the logarithm of its slope.

    The difference is as uncertain as it is without these outcomes; `prior` has its variances before
    any. With x = slope d from N(m, v), the first row wins with probability Phi(z), where
    z = (m - t) / sqrt(1 + v) and dz / d log slope = (m + t v) / (1 + v)^(3/2).
    """
    m, v = a.cavities(prior)
    t, share, spread = threshold, 1.0 - 2.0 * flips, np.sqrt(1.0 + v)
    chances, changes = [], []
    for side in (m, -m):
        z = (side - t) / spread
        chances.append(flips + share * ndtr(z))
        density = np.exp(-0.5 * np.square(z)) / np.sqrt(2.0 * np.pi)
        changes.append(share * density * (side + t * v) / spread**3)
    if threshold > 0:
        chances.append(1.0 - chances[0] - chances[1])
        changes.append(-changes[0] - changes[1])
    each = sum(
        np.square(change) / np.maximum(chance, 1e-12)
        for chance, change in zip(chances, changes, strict=True)
    )
    return np.asarray(counts.sum(axis=1) * each)


def margin_information(a: Approximation, weight: Array) -> Array:
    """The same for margins with Gaussian noise, each of them observed `weight` times.

    The variance of one observation is noise^2 + v, where v is the variance of its difference
    without it: noise^2 / (noise^2 + v) = 1 - (posterior variance) / noise^2. If all
    observations together have a weight below 1, this can be below 0, and counts as 0.
    """
    noise_share = 1.0 - a.tau / weight * a.variance
    return np.asarray(2.0 * weight * np.square(np.maximum(noise_share, 0.0)))
