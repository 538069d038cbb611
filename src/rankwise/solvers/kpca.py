"""Kernel principal components of training rows and of new rows."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from rankwise.backends.arrays import EPS, NUMPY, Array, Backend, Loader, Rows, backend_of, to_host
from rankwise.backends.parallel import map_in_threads
from rankwise.errors import DataError, ParameterError, warn
from rankwise.solvers.ridge_path import LandmarkFactor, summing_threads

# Lanczos pays off, as measured, from this size on and up to this share of the eigenvectors.
SMALL = 1500  # rows
FEW = 1 / 6  # of all eigenvectors

WIDTH = 16  # vectors in a block: they share one pass over the matrix
CONVERGED = 1e-14  # residuals relative to the largest eigenvalue, as with a dense solver
RESTARTS = 60


def leading_eigenpairs(S: Array, n: int) -> tuple[Array, Array]:
    """The n largest eigenvalues of S, descending, and their vectors as columns.

    If n is small relative to m (`is_few`), a block Lanczos method finds them in O(m^2 n) time, with
    memory for about 7 n vectors and a few 3 n by 3 n matrices. Otherwise, or if Lanczos breaks down
    on repeated eigenvalues, a dense LAPACK routine does, with a copy of S.
    """
    m, on = len(S), backend_of(S)
    if is_few(m, n):
        found = _block_lanczos(S, n)
        if found is not None:
            return found
    s, V = on.largest_eigh(S, n)
    return on.copy(on.xp.flip(s, (0,))), on.contiguous(on.xp.flip(V, (1,)))


def is_few(m: int, n: int) -> bool:
    """Whether n of m eigenvectors are few enough to try Lanczos first."""
    return m >= SMALL and n <= FEW * m


def matrices_needed(m: int, n: int) -> float:
    """Memory of `leading_eigenpairs`, including S and the vectors, in units of m by m matrices."""
    share = n / m
    return 1 + 7 * share + 3 * (3 * share) ** 2 if is_few(m, n) else 2 + share


def _block_lanczos(S: Array, n: int) -> tuple[Array, Array] | None:
    """Block Lanczos with full orthogonalization, restarted with the leading Ritz vectors.

    With the basis Q and the next block B, S Q = Q T + B R E', where E has the last columns of the
    identity. So a Ritz pair (theta, Q y) has the residual |R y_last|. None if a block becomes
    rank-deficient or the method does not converge.
    """
    m, on = len(S), backend_of(S)
    most = 3 * n + 4 * WIDTH
    keep = n + max(n // 2, WIDTH)
    Q = on.empty(most + 2 * WIDTH, m).T  # column-major
    T = on.zeros(most + 2 * WIDTH, most + 2 * WIDTH)
    start = np.random.default_rng(0).standard_normal((m, WIDTH))
    Q[:, :WIDTH] = on.qr(on.array(start))[0]
    k = 0
    for _ in range(RESTARTS):
        while k < most:
            new = slice(k, k + WIDTH)
            k += WIDTH
            block = on.matmul(S, Q[:, new])
            H, B, R = _orthogonalize(Q[:, :k], block)
            T[:k, new], T[new, :k] = H, H.T
            if abs(R.diagonal()).min() <= 1e-12 * abs(T[:k, :k]).max():
                return None
            Q[:, k : k + WIDTH] = B
        theta, Y = on.eigh((T[:k, :k] + T[:k, :k].T) / 2)
        theta, Y = on.xp.flip(theta, (0,)), on.contiguous(on.xp.flip(Y, (1,)).T).T
        residuals = on.xp.linalg.norm(R @ Y[k - WIDTH : k, :n], axis=0)
        if residuals.max() <= CONVERGED * theta[0]:
            return on.copy(theta[:n]), on.matmul(Q[:, :k], Y[:, :n])
        Q[:, :keep] = on.matmul(Q[:, :k], Y[:, :keep])
        Q[:, keep : keep + WIDTH] = B
        T[:] = 0.0
        on.diagonal(T)[:keep] = theta[:keep]
        k = keep
    return None


def _orthogonalize(Q: Array, block: Array) -> tuple[Array, Array, Array]:
    """H = Q'block, and B R = block - Q H with orthonormal B orthogonal to Q, in two passes."""
    on = backend_of(Q)
    H = on.matmul(Q.T, block)
    B, R = on.qr(block - on.matmul(Q, H))
    B, again = on.qr(B - on.matmul(Q, on.matmul(Q.T, B)))
    return H, B, again @ R


LEAST_EIGENVALUE = 1e-12  # relative to the largest; smaller ones are rounding errors
FIRST_TRY = 64  # components computed first for a given share of the variance
BLOCK_BYTES = 8 * 2**20  # of features processed at a time
SHIFT_ROWS = 256  # whose mean is subtracted from all rows


@dataclass(frozen=True)
class Count:
    """The number of components: given, from a share of the variance, or as large as possible.

    With `strict`, a number above the numerical rank is an error; otherwise the rank is used.
    """

    number: int | None = None
    share: float | None = None
    strict: bool = True


@dataclass(frozen=True)
class KernelComponents:
    """Coordinates of rows on principal components, F(x) = k(x, points) A - offset.

    The points are the training rows or landmarks. Over the training rows, components have mean 0
    and are uncorrelated, and their sums of squares are the eigenvalues.

    Attributes
    ----------
    A : ndarray of shape (n_points, p)
    offset : ndarray of shape (p,)
    eigenvalues : ndarray of shape (p,)
        Descending.
    total : float
        Sum of all eigenvalues, also of those that are not in `eigenvalues`.
    """

    A: Array
    offset: Array
    eigenvalues: Array
    total: float

    def __len__(self) -> int:
        return len(self.eigenvalues)

    def of(self, K: Array) -> Array:
        """Components of rows, from their kernel values with the points."""
        return backend_of(K).matmul(K, self.A) - self.offset


def kernel_components(K: Array, count: Count) -> tuple[KernelComponents, Array]:
    """Components of a kernel matrix, which is overwritten, and the coordinates of its rows.

    With H = I - 11'/m, the centred kernel is HKH (section 6.1 of the KPCRank paper), and
    V diag(s) V' is its leading part. A row x has the coordinates
    (k(x, .) - 1'K/m) H V diag(s)^(-1/2), which is equation (3); the training rows have
    V diag(s)^(1/2). O(m^2 p) time; memory for K and for `leading_eigenpairs`.
    """
    m, on = len(K), backend_of(K)
    size = float(abs(K.diagonal()).max())
    mean = K.mean(axis=0)
    K -= mean
    K -= K.mean(axis=1)[:, None]  # recomputed rather than reused, which removes rounding errors
    on.symmetrize(K)
    floor = 4 * m * EPS * size
    total = float(K.diagonal().sum())
    s, V, total = _leading(K, count, total, floor, most=m - 1)
    V -= V.mean(axis=0)
    root = on.xp.sqrt(s)
    A = V / root
    return KernelComponents(A, mean @ A, s, total), V * root


def landmark_components(
    load: Loader, n_rows: int, basis: LandmarkFactor, count: Count, store: bool = False
) -> tuple[KernelComponents, Array | None]:
    """Components of the kernel that landmarks span, K_MR K_RR^-1 K_RM, and coordinates of the rows.

    Rows have the coordinates Phi = K_MR C^-T in the basis; the eigenvectors W of their scatter
    matrix Phi'H Phi are the directions of the components. ``load(rows)`` returns the kernel values
    of rows with the kept landmarks, which are overwritten. O(m r^2) time; memory for a block of
    rows and a few r by r matrices. With `store`, memory for all kernel values, and the coordinates
    of all rows on the components; None otherwise.
    """

    def features(rows: Rows) -> Array:
        K = load(rows)
        return basis.whiten(K) if basis.needs_whitening else K

    stored: list[Array] | None = [] if store else None
    with np.errstate(over="ignore", invalid="ignore"):  # overflow raises an error below
        S, mean, gap = scatter(features, n_rows, basis.rank, backend_of(basis.C), stored)
    on = backend_of(S)
    if not on.is_finite(S):
        raise DataError(
            "Kernel values of rows and landmarks, or products of them, overflow. Scale the "
            "features, for example with sklearn.preprocessing.StandardScaler, or reduce gamma or "
            "degree."
        )
    size = float(S.diagonal().sum() + n_rows * (mean @ mean))
    if basis.needs_whitening:
        lost = 1.0
    else:
        pivots = basis.C.diagonal() ** 2
        lost = float(pivots.max() / pivots.min())
        S, mean = basis.whiten_system(S, mean)
        size = float(S.diagonal().sum() + n_rows * (mean @ mean))
    floor = 4 * EPS * lost * size
    total = float(S.diagonal().sum())
    s, W, total = _leading(S, count, total, floor, most=min(basis.rank, n_rows - 1))
    components = KernelComponents(basis.coefficients(W), mean @ W, s, total)
    if stored is None:
        return components, None
    weights = W if basis.needs_whitening else on.contiguous(components.A[basis.kept])
    coordinates, start = on.empty(n_rows, len(s)), 0
    for F in stored:
        coordinates[start : start + len(F)] = on.matmul(F, weights)
        start += len(F)
    coordinates -= gap @ weights
    return components, coordinates


def scatter(
    load: Loader,
    n_rows: int,
    n_features: int,
    on: Backend = NUMPY,
    stored: list[Array] | None = None,
) -> tuple[Array, Array, Array]:
    """F'HF, the mean of F, and its gap to the shift, in one pass over blocks of features.

    The shift is the mean of the first rows. It is subtracted from all of them, to avoid
    cancellation; ``load(rows)`` returns arrays that are overwritten. The shifted blocks are
    appended to `stored`. O(m n^2) time; threads have consecutive rows and a matrix each.
    """
    step = max(256, on.block_bytes(BLOCK_BYTES) // (8 * max(n_features, 1)))
    shift = load(slice(min(SHIFT_ROWS, n_rows))).mean(axis=0)

    def of_rows(rows: slice) -> tuple[Array, Array, list[Array]]:
        A, total = on.zeros(n_features, n_features), on.zeros(n_features)
        kept: list[Array] = []
        for start in range(rows.start, rows.stop, step):
            F = load(slice(start, min(start + step, rows.stop)))
            F -= shift
            total += F.sum(axis=0)
            A = on.add_gram(A, F)
            if stored is not None:
                kept.append(F)
        return A, total, kept

    blocks = [min(step, n_rows)] * -(-n_rows // step)
    threads = summing_threads(blocks, n_features) if on.is_host else 1
    cuts = np.linspace(0, n_rows, threads + 1).astype(int).tolist()
    sums = map_in_threads(of_rows, [slice(*cut) for cut in pairwise(cuts)], threads)
    A, total, _ = sums[0]
    for other_A, other_total, _ in sums[1:]:
        A += other_A
        total += other_total
    if stored is not None:
        stored += [F for _, _, kept in sums for F in kept]
    gap = total / n_rows
    return on.mirror_gram(A) - n_rows * on.xp.outer(gap, gap), shift + gap, gap


def _leading(
    S: Array, count: Count, total: float, floor: float, most: int
) -> tuple[Array, Array, float]:
    """The requested eigenvalues above rounding error, descending, their vectors, and the total.

    The total is the trace or, if there are negative eigenvalues, the sum of the known positive
    ones.
    """
    wanted = most if count.number is None else min(count.number, most)
    n = wanted if count.share is None else min(FIRST_TRY, most)
    while True:
        s, V = leading_eigenpairs(S, n)
        rank = int((s > max(LEAST_EIGENVALUE * float(s[0]), floor)).sum())
        if count.share is None or rank < n or n == most or s.sum() >= count.share * total:
            break
        n = min(3 * n, most)
    if rank == 0 and total < -floor:
        raise DataError(
            "The kernel is not positive semidefinite: after centring it has no positive "
            "eigenvalue. Check its sign."
        )
    if rank == 0:
        raise DataError(
            "The kernel does not distinguish the rows: after centring it is zero. Check the "
            "features and the kernel parameters."
        )
    if s[:rank].sum() - total > 1e-6 * s[0]:
        if count.share is not None and n < most:  # shares refer to all positive eigenvalues
            s, V = leading_eigenpairs(S, most)
            rank = int((s > max(LEAST_EIGENVALUE * float(s[0]), floor)).sum())
        total = float(s[:rank].sum())
        warn(
            "The kernel is not positive semidefinite (some eigenvalues are negative). Only "
            "components with positive eigenvalues are used.",
        )
    if count.number is not None and count.number > rank and count.strict:
        raise ParameterError(
            f"n_components={count.number} exceeds the numerical rank of the kernel, which is "
            f'{rank}. Use {rank} or fewer, or n_components="auto" for the maximum.'
        )
    p = rank
    if count.share is not None:
        p = number_with_share(s[:rank], count.share, total)
    elif count.number is not None:
        p = min(rank, count.number)
    on = backend_of(s)
    return on.copy(s[:p]), on.contiguous(V[:, :p]), total


def number_with_share(eigenvalues: Array, share: float, total: float) -> int:
    """How many of the largest eigenvalues sum to this share of the total (at most all)."""
    enough = np.cumsum(to_host(eigenvalues)) >= share * total * (1 - 1e-12)
    return int(np.argmax(enough)) + 1 if enough.any() else len(eigenvalues)
