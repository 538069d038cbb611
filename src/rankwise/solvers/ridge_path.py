"""RankRLS on arrays: the moments A = F'LF and b = F'Ly, and solutions for any number of lam.

`primal` and `dual` are equations (11) and (8) of the RankRLS paper. `linear_dual` is (8) with the
linear kernel, and returns w. For a graph of comparisons, y is None, and B' diag(w) margin takes the
place of Ly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.linalg import cho_solve, lapack, solve_triangular

from rankwise.backends.arrays import (
    EPS,
    NUMPY,
    Array,
    Backend,
    Index,
    Loader,
    Rows,
    backend_of,
    is_sparse,
)
from rankwise.backends.parallel import even_parts, map_in_threads, map_rows, threads_for
from rankwise.errors import DataError, warn
from rankwise.graph import PreferenceGraph
from rankwise.graph.preference_graph import Blocks, QueryGraph, row_scale
from rankwise.solvers.band import BandForm

BLOCK_BYTES = 8 * 2**20  # of features that a thread processes at a time, in its cache
WIDE = 512  # features, from which blocks of as many rows are large enough on the CPU
THREAD_BYTES = 512 * 2**20  # of the sums and the blocks of all threads
STORED_BYTES = 256 * 2**20  # largest features that are stored to avoid recomputing them


@dataclass(frozen=True, eq=False)
class Moments:
    """The sufficient statistics of a least-squares ranker.

    A = F'LF and b = F'Ly for features F and a preference graph with Laplacian L; for comparisons,
    b = F'B' diag(w) margin. Moments of disjoint sets of queries add up.

    Attributes
    ----------
    A : ndarray of shape (n_features, n_features)
    b : ndarray of shape (n_features,) or (n_features, n_outputs)
    """

    A: Array
    b: Array

    @classmethod
    def of(cls, F: Any, graph: PreferenceGraph, y: Array | None = None) -> Moments:
        """Moments of dense or sparse features.

        A = Z'Z with Z = L^(1/2) F takes half the flops of a general product: O(m n^2) time, and
        memory as for `of_blocks`. N comparisons take O(N n^2) time or, if they
        outnumber the rows by far, O(N + m n^2) time and a copy of F. Sparse features stay sparse.
        """
        if is_sparse(F):
            return cls(graph.gram(F), np.asarray(F.T @ graph.rhs(y)))
        on = backend_of(F)
        if graph.n_root_rows > 2 * graph.n_rows:  # many comparisons: a general product is cheaper
            F = on.rows(F, slice(None))
            A = on.matmul(F.T, graph @ F)
            return cls((A + A.T) / 2, F.T @ on.array(graph.rhs(y)))
        return cls.of_blocks(lambda rows: on.rows(F, rows), F.shape[1], graph, y, on)

    @classmethod
    def of_blocks(
        cls,
        load: Loader,
        n_features: int,
        graph: PreferenceGraph,
        y: Array | None = None,
        on: Backend = NUMPY,
    ) -> Moments:
        """Moments of features that ``load(rows)`` computes block by block.

        O(m n^2) time, or O(N n^2) for N comparisons. In addition to the result, each thread
        needs a matrix like A and 16 MiB, or two blocks of 512 rows if that is more, and all threads
        together at most 512 MiB (on a device, a few of its blocks). If comparisons outnumber rows,
        features of up to 256 MiB and their products are stored, so that they are computed only
        once.
        """
        if graph.n_root_rows > 2 * graph.n_rows and 8 * graph.n_rows * n_features <= STORED_BYTES:
            return cls.of(load(slice(None)), graph, y)
        max_rows = WIDE
        if n_features < WIDE or not on.is_host:
            max_rows = max(256, on.block_bytes(BLOCK_BYTES) // (8 * max(n_features, 1)))
        threads = threads_for(graph.n_rows * n_features) if on.is_host else 1
        if threads > 1:  # as many blocks for each of them, of whole queries if these are short
            rounds = -(-graph.n_rows // (threads * max_rows))
            even = -(-graph.n_rows // (threads * rounds))
            query = 0 if graph.groups is None else int(graph.groups.sizes.max())
            max_rows = max(256, even + min(query, even))
        return cls.of_root_blocks(graph.root_blocks(load, y, max_rows), n_features, on)

    @classmethod
    @np.errstate(over="ignore", invalid="ignore")  # solvers check for overflow
    def of_root_blocks(cls, blocks: Blocks, n_features: int, on: Backend = NUMPY) -> Moments:
        """Moments from blocks (Z, t) of L^(1/2) F and L^(1/2) y.

        Threads sum consecutive pieces, and their sums are added in this order: results are the
        same each time, and depend on the number of threads only in the last digits.
        """

        sizes = blocks.n_rows_of_pieces
        threads = summing_threads(sizes, n_features) if on.is_host else 1
        # Small sums are added quickly: with several for each thread, no thread waits for the last.
        n_parts = threads * (4 if n_features <= SMALL else 1)
        parts = [slice(None)] if threads == 1 else even_parts(sizes, n_parts)
        sums = map_in_threads(lambda part: blocks.moments(part, n_features, on), parts, threads)
        (A, b), *others = sums

        def total(rows: slice) -> None:
            for other_A, other_b in others:
                A[rows] += other_A[rows]
                b[rows] += other_b[rows]

        map_rows(total, A)
        for Z, t in blocks.between():
            A = on.add_gram(A, Z)
            b += on.matmul(Z.T, t.reshape(len(t), -1)).reshape(b.shape)
        return cls(on.mirror_gram(A), b)

    @classmethod
    def of_roots(cls, Z: Array, t: Array) -> Moments:
        """Z'Z and Z't, as a sum over rows in threads unless there are many features."""
        on, n = backend_of(Z), Z.shape[1]

        def of_rows(rows: slice) -> tuple[Array, Array]:
            return on.add_gram(on.zeros(n, n), Z[rows]), on.matmul(Z[rows].T, t[rows])

        parts = map_rows(of_rows, Z) if n <= SMALL else [of_rows(slice(None))]
        A, b = (sum(values) for values in zip(*parts, strict=True))
        return cls(on.mirror_gram(A), b)

    @np.errstate(over="ignore", invalid="ignore")  # solvers check for overflow
    def __add__(self, other: Moments) -> Moments:
        return Moments(self.A + other.A, self.b + other.b)

    @np.errstate(over="ignore", invalid="ignore")  # solvers check for overflow
    def __sub__(self, other: Moments) -> Moments:
        """The moments without some of the queries."""
        return Moments(self.A - other.A, self.b - other.b)

    def label_scatter(self, other: Moments) -> float:
        """What y'Ly of the sum has in addition to y'Ly of both parts: 0."""
        return 0.0

    def intercept(self, w: Array) -> float:
        """The intercept of scores F w: 0, since only differences count."""
        return 0.0


def summing_threads(sizes: Sequence[int], n_features: int) -> int:
    """The number of threads, unless they need so much memory that BLAS's threads are better."""
    threads = threads_for(sum(sizes) * n_features)
    of_one = 8 * n_features * (n_features + 2 * max(sizes, default=0))
    in_memory = THREAD_BYTES // max(of_one, 1)
    return threads if threads <= in_memory else in_memory if 2 * in_memory > threads else 1


@dataclass(frozen=True, eq=False)
class CentredMoments:
    """The sufficient statistics of a regression with an intercept.

    A = F'CF and b = F'Cy, where C subtracts means. The sum of two sets of rows also includes the
    scatter between their means.

    Attributes
    ----------
    A : ndarray of shape (n_features, n_features)
    b : ndarray of shape (n_features,) or (n_features, n_outputs)
    n_rows : float
        The number of rows, or the sum of their weights; means are weighted in the same way.
    F_mean : ndarray of shape (n_features,)
    y_mean : ndarray of shape () or (n_outputs,)
    """

    A: Array
    b: Array
    n_rows: float
    F_mean: Array
    y_mean: Array

    @classmethod
    def of_blocks(
        cls, load: Loader, n_features: int, graph: QueryGraph, y: Array, on: Backend = NUMPY
    ) -> CentredMoments:
        """Like `Moments.of_blocks`, for the regression of y on the rows of one query."""
        weights, sums = graph.row_weights, {}

        def load_and_sum(rows: Rows) -> Array:
            F = load(rows)
            first = rows.start if isinstance(rows, slice) else int(rows[0])
            sums[first] = (F if weights is None else row_scale(weights[rows], F)).sum(axis=0)
            return F

        moments = Moments.of_blocks(load_and_sum, n_features, graph, y, on)
        n_rows = len(y) if weights is None else float(weights.sum())
        y_mean = on.array(row_mean(y, weights))
        total = sum(sums[first] for first in sorted(sums))  # in the same order each time
        return cls(moments.A, moments.b, n_rows, total / n_rows, y_mean)

    @np.errstate(over="ignore", invalid="ignore")  # solvers check for overflow
    def __add__(self, other: CentredMoments) -> CentredMoments:
        n = self.n_rows + other.n_rows
        share = other.n_rows / n
        F_gap, y_gap = other.F_mean - self.F_mean, other.y_mean - self.y_mean
        between = self.n_rows * share
        F_gaps = F_gap.reshape(-1, *[1] * y_gap.ndim)
        return CentredMoments(
            self.A + other.A + between * (F_gap[:, None] * F_gap),
            self.b + other.b + between * (F_gaps * y_gap),
            n,
            self.F_mean + share * F_gap,
            self.y_mean + share * y_gap,
        )

    def __sub__(self, other: CentredMoments) -> CentredMoments:
        """The moments without some of the rows."""
        return self + replace(other, A=-other.A, b=-other.b, n_rows=-other.n_rows)

    def label_scatter(self, other: CentredMoments) -> Array:
        """The scatter between the means of y of two parts, which y'Cy of their sum includes."""
        weight = self.n_rows * other.n_rows / (self.n_rows + other.n_rows)
        scatter: Array = weight * (other.y_mean - self.y_mean) ** 2
        return scatter

    def intercept(self, w: Array) -> Array | float:
        """The intercept with which scores F w have the mean of y."""
        value = self.y_mean - self.F_mean @ w
        return float(value) if value.ndim == 0 else value


def row_mean(values: Array, weights: Array | None) -> Array:
    """The mean over rows, each with its weight."""
    if weights is None:
        mean: Array = values.mean(axis=0)
        return mean
    total: Array = row_scale(weights, values).sum(axis=0)
    return total / float(weights.sum())


SMALL = 200  # up to this size, the cost of an eigendecomposition is negligible

TINY = 1e-290  # what is divided by less would overflow
GRAM_MARGIN = 1e3  # times the rounding floor: below it, Z'Z + lam I may be indefinite by rounding


def solve_ridge_path(
    M: Array, t: Array, lams: Sequence[float], *, gram: bool = False
) -> list[Array]:
    """(M + lam I)^-1 t for each lam; M is overwritten.

    One Cholesky factorization for each lam (n^3/3 flops) or, if that is cheaper, one reduction for
    all of them: to band form (4/3 n^3 flops) or, on a device, to eigenvalues. If a lam is below
    the rounding errors of M, a Gram matrix is scaled to a unit diagonal. If that does not help, the
    solution is restricted to the numerical range of M, or of the scaled M if features differ a lot
    in size: M is often numerically singular, and predictions do not depend on the null space.

    If M has negative eigenvalues, the solution is a stationary point of the objective instead of a
    minimum, and a warning is issued. With ``gram=True``, M is known to be a Gram matrix Z'Z, and
    its negative eigenvalues are rounding errors.

    Memory: M, and a copy of it if there are several factorizations.
    """
    check_finite(M, t)
    doubtful = rounding_floor(M) * (GRAM_MARGIN if gram else 1.0)
    if min(lams) <= doubtful or (len(lams) > 1 and len(M) <= SMALL):
        if gram and min(lams) <= doubtful and backend_of(M).is_host:
            scaled = _solve_scaled(M, t, lams)
            if scaled is not None:
                return scaled
            least = M.diagonal()[M.diagonal() > negligible_size(M)].min(initial=np.inf)
            if least <= doubtful:  # a spectrum of M itself would lose this feature
                return [solve_scaled_singular(M, t, lam) for lam in lams]
        spectrum = Spectrum.of(M, gram=gram)
        return [spectrum.solve(t, lam) for lam in lams]
    on = backend_of(M)
    if len(lams) > on.reduction_cost:
        solve = _reduced(M, gram=gram)
        return [solve(t, lam) for lam in lams]
    last = len(lams) - 1
    return [
        _solve_cholesky(M if k == last else on.copy(M), t, lam, gram=gram)
        for k, lam in enumerate(lams)
    ]


def _solve_scaled(M: Array, t: Array, lams: Sequence[float]) -> list[Array] | None:
    """(M + lam I)^-1 t for each lam, each system scaled to a unit diagonal while it is solved.

    So the rounding errors of large features do not matter to small ones. None if a system is
    singular up to rounding errors.
    """
    n, columns, found = len(M), t.reshape(len(t), -1), []
    for lam in lams:
        size = np.sqrt(M.diagonal().clip(min=0.0) + lam)[:, None]
        if size.min(initial=1.0) ** 2 <= negligible_size(M):
            return None
        S = M / size / size.T
        np.fill_diagonal(S, 1.0)
        norm = abs(S).sum(axis=0).max(initial=1.0)
        factor, failed = lapack.dpotrf(S, lower=True)
        if failed or lapack.dpocon(factor, norm, uplo="L")[0] <= GRAM_MARGIN * n * EPS:
            return None
        z = cho_solve((factor, True), columns / size, check_finite=False) / size
        found.append(z.reshape(t.shape))
    return found


def solve_scaled_singular(M: Array, t: Array, lam: float) -> Array:
    """(M + lam I)^-1 t for a Gram matrix that is singular even if scaled to a unit diagonal.

    Of all solutions, the shortest one up to rounding errors.
    """
    size = np.sqrt(M.diagonal().clip(min=0.0) + lam)[:, None]
    size[size**2 <= negligible_size(M)] = np.inf  # these features have the weight 0
    S = M / size / size.T
    np.fill_diagonal(S, 1.0)
    s, V = np.linalg.eigh(S)
    kept = s > GRAM_MARGIN * len(M) * EPS
    columns = V[:, kept].T @ (t.reshape(len(t), -1) / size)
    z: Array = V[:, kept] @ (columns / s[kept, None]) / size
    null = V[:, ~kept]
    null[np.linalg.norm(null, axis=1) <= np.sqrt(EPS)] = 0.0  # features on which no other depends
    null /= size
    z -= null @ np.linalg.lstsq(null, z, rcond=None)[0]
    return z.reshape(t.shape)


def negligible_size(M: Array) -> float:
    """Diagonal entries of a Gram matrix that are those of features constant up to rounding errors.

    Features can be as small in other units, but only beside features 1e15 times as large.
    """
    return max(TINY, (4 * EPS) ** 2 * float(M.diagonal().max(initial=0.0)))


def rounding_floor(M: Array) -> float:
    """The size of eigenvalues of M that rounding errors alone can cause, at least `TINY`."""
    n = len(M)
    return max(n * EPS * float(abs(M.diagonal()).max()), TINY) if n else 0.0


@dataclass(frozen=True)
class Spectrum:
    """M = V diag(s) V'; eigenvalues up to `floor` are rounding errors."""

    V: Array
    s: Array
    floor: float

    @classmethod
    def of(cls, M: Array, *, gram: bool = False, floor: float = 0.0) -> Spectrum:
        """One eigendecomposition; M is overwritten. For a Gram matrix, negative values become 0.

        `floor` is the size of rounding errors of M itself, if they are larger than usual.
        """
        floor = max(rounding_floor(M), floor)
        on = backend_of(M)
        s, V = on.eigh(M)
        if gram and len(s):
            floor = max(floor, -4.0 * float(s.min()))
        return cls(V, on.xp.where(abs(s) > floor, s, 0.0), floor)

    def solve(self, t: Array, lam: float) -> Array:
        """(M + lam I)^-1 t; if lam is at most `floor`, restricted to the range of M."""
        V, divisors = self.V, self.s + lam
        if lam <= self.floor:
            kept = self.s != 0.0
            V, divisors = V[:, kept], divisors[kept]
        if len(divisors) and divisors.min() <= 0:
            _warn_indefinite(lam)
            if abs(divisors).min() <= 1e-13 * abs(divisors).max():
                raise _singular(lam)
        columns = t.reshape(len(t), -1)
        z = V @ ((V.T @ columns) / divisors[:, None])
        return z.reshape(t.shape)


def _solve_cholesky(M: Array, t: Array, lam: float, *, gram: bool) -> Array:
    """(M + lam I)^-1 t, in the memory of M."""
    z = backend_of(M).solve_definite(M, t, lam)
    return _reduced(M, gram=gram)(t, lam) if z is None else z


def _reduced(M: Array, *, gram: bool) -> Callable[[Array, float], Array]:
    """A function (t, lam) that solves the system for eigenvalues of any sign."""
    if backend_of(M).is_host:
        form = BandForm.of(M)
        return lambda t, lam: _solve_band(form, t, lam)
    return Spectrum.of(M, gram=gram).solve


def _solve_band(form: BandForm, t: Array, lam: float) -> Array:
    """(M + lam I)^-1 t from the band form of M, definite or not."""
    try:
        return form.solve(t, lam)
    except np.linalg.LinAlgError:
        _warn_indefinite(lam)
    try:
        return form.solve_indefinite(t, lam)
    except np.linalg.LinAlgError:
        raise _singular(lam) from None


def _warn_indefinite(lam: float) -> None:
    warn(
        f"The kernel is not positive semidefinite: at alpha = {lam:g} the objective has no "
        "minimum, and the solution is a stationary point. Use a positive semidefinite kernel "
        "or a larger alpha.",
    )


def _singular(lam: float) -> DataError:
    return DataError(
        f"The kernel is not positive semidefinite, and at alpha = {lam:g} the system is singular. "
        "Use a positive semidefinite kernel or another alpha."
    )


def check_finite(M: Array, t: Array) -> None:
    # The diagonal of a positive semidefinite matrix bounds all of its entries.
    on = backend_of(M)
    if not on.is_finite(M.diagonal()):
        raise DataError(
            "Products of feature or kernel values overflow. Scale the features, "
            "for example with sklearn.preprocessing.StandardScaler."
        )
    if not on.is_finite(t):
        raise DataError("Products with labels or margins overflow. Scale the labels or margins.")


def primal(
    F: Any, graph: PreferenceGraph, y: Array | None, lams: Sequence[float], C: Array | None = None
) -> list[Array]:
    """w = (F'LF + lam I)^-1 F'Ly for each lam: equation (11) of the RankRLS paper.

    Rows of F are the columns of the paper's Phi(X). With a lower triangular C, the regularizer is
    CC' instead of I. O(m n^2 + n^3) time and O(n^2) memory for m rows of n features.
    """
    moments = Moments.of(F, graph, y)
    if C is None:
        return solve_ridge_path(moments.A, moments.b, lams, gram=True)

    def solve(M: Array, trans: Literal["N", "T"] = "N") -> Array:
        return np.asarray(solve_triangular(C, M, lower=True, trans=trans, check_finite=False))

    A = solve(solve(moments.A).T)
    found = solve_ridge_path((A + A.T) / 2, solve(moments.b), lams, gram=True)
    return [solve(z, "T") for z in found]


def linear_dual(
    F: Any, graph: PreferenceGraph, y: Array | None, lams: Sequence[float]
) -> list[Array]:
    """w = F'a from `dual` with the linear kernel, for more features than rows.

    With Z = R F, M = Z Z' and w = Z'z. Differences are taken before products, which avoids
    cancellation for features far from zero. Only such columns of a sparse F are made dense.
    """
    on = backend_of(F)
    t = on.array(graph.root_target(y))
    if not is_sparse(F):
        Z = on.contiguous(graph.root(on.rows(F, slice(None))))
        return [Z.T @ z for z in solve_ridge_path(on.matmul(Z, Z.T), t, lams)]
    offset = graph.offset_columns(F)
    near = np.setdiff1d(np.arange(F.shape[1]), offset)
    rest, Z = F[:, near], graph.root(F[:, offset].toarray())
    M = graph.root_kernel(np.ascontiguousarray((rest @ rest.T).toarray(), dtype=np.float64))
    solutions = []
    for z in solve_ridge_path(np.ascontiguousarray(M + Z @ Z.T), t, lams):
        w = np.empty((F.shape[1], *z.shape[1:]))
        w[near], w[offset] = rest.T @ graph.root_transpose(z), Z.T @ z
        solutions.append(w)
    return solutions


def dual(K: Array, graph: PreferenceGraph, y: Array | None, lams: Sequence[float]) -> list[Array]:
    """a = (LK + lam I)^-1 Ly for each lam: equation (8) of the RankRLS paper.

    The paper's A is a here. LK is not symmetric. With L = R'R, the push-through identity gives the
    symmetric form

        a = R'z,   z = (M + lam I)^-1 t,   M = R K R',   R't = Ly.

    O(m^3) time; K is overwritten, and a single lam needs no further memory.
    """
    t = backend_of(K).array(graph.root_target(y))
    M = graph.root_kernel(K)
    return [graph.root_transpose(z) for z in solve_ridge_path(M, t, lams)]


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
        whitened = on.copy(K)
        on.solve_rows(self.C, whitened)
        return whitened

    def whiten_system(self, A: Array, b: Array) -> tuple[Array, Array]:
        """C^-1 A C^-T and C^-1 b: moments of coordinates from moments of kernel values."""
        on = backend_of(A)
        M = on.copy(A)
        on.solve_rows(self.C, M)
        M = on.copy(M.T)
        on.solve_rows(self.C, M)
        on.symmetrize(M)
        return M, on.solve_triangular(self.C, b)

    def coefficients(self, z: Array) -> Array:
        """The coefficients a with C'a = z on the kept landmarks, and 0 on the others."""
        on = backend_of(z)
        a = on.zeros(self.n_landmarks, *z.shape[1:])
        a[self.kept] = on.solve_triangular(self.C, z, transpose=True)
        return a
