"""Arrays: their types, and the operations in which NumPy and torch differ."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import eigh, lapack, solve_triangular
from scipy.linalg import qr as qr_factor
from scipy.spatial.distance import cdist

from rankwise.backends.parallel import (
    SMALL,
    add_gram,
    even_parts,
    map_in_threads,
    map_rows,
    matmul,
    solve_lower,
    threads_for,
)
from rankwise.errors import ParameterError

Array: TypeAlias = NDArray[np.float64]  # or a torch tensor
Index: TypeAlias = NDArray[np.intp]
Sparse: TypeAlias = Any  # scipy.sparse arrays and matrices share no public base class
Rows: TypeAlias = slice | Index  # which rows of an array
Loader: TypeAlias = Callable[[Rows], Array]  # the features of some rows: dense, C-ordered

EPS = float(np.finfo(np.float64).eps)  # the rounding unit of float64


def is_sparse(X: Any) -> bool:
    """Whether X is a scipy.sparse array or matrix."""
    return bool(sp.issparse(X))


def check_compressed(X: Sparse) -> None:
    """Raise a ValueError if numbers in a CSR or CSC array point outside of it.

    SciPy's own check stops where the last pointer is 0 or less.
    """
    if (X.indptr[1:] < X.indptr[:-1]).any():
        raise ValueError("its index pointers decrease")
    X.check_format(full_check=True)


def is_tensor(X: Any) -> bool:
    """Whether X is a torch tensor; does not import torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(X, getattr(torch, "Tensor", ()))


def to_host(X: Any) -> Any:
    """A tensor as a NumPy array of the same dtype; anything else unchanged."""
    return X.detach().cpu().numpy() if is_tensor(X) else X


def dense_rows(X: Any, rows: Rows) -> Array:
    """``X[rows]`` as a C-ordered float64 array; a view of X if possible."""
    if isinstance(rows, np.ndarray) and isinstance(X, np.ndarray) and rows.dtype == np.intp:
        block: Any = X.take(rows, axis=0)  # an index in brackets holds the interpreter lock
    else:
        block = X[rows]
    if is_sparse(block):
        block = block.toarray()
    return np.ascontiguousarray(block, dtype=np.float64)


def as_slice(rows: Index) -> Rows:
    """Consecutive ascending row numbers as a slice, others unchanged."""
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1 and bool((np.diff(rows) == 1).all()):
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows


def mirror_lower(A: Array) -> Array:
    """Copy the lower triangle of a C-ordered A to the upper one, in place, block by block."""
    n, step = len(A), 256

    def mirror(start: int) -> None:
        stop = min(start + step, n)
        for left in range(stop, n, step):  # small squares: both sides are in cache
            A[start:stop, left : left + step] = A[left : left + step, start:stop].T
        square = A[start:stop, start:stop]
        square[:] = np.tril(square) + np.tril(square, -1).T

    map_in_threads(mirror, range(0, n, step), threads_for(A.size))
    return A


class NestedLevels(NamedTuple):
    """x_i <- a_l (x_i - mean_l) + b_g (mean_l - mean_g): rows in levels, levels in groups.

    Level l holds the positions level_ptr[l]:level_ptr[l + 1] of `rows`, group g the levels
    group_ptr[g]:group_ptr[g + 1].
    """

    rows: Index
    level_ptr: Index
    group_ptr: Index
    a: Array
    b: Array

    def combined(self, X: Array, most: int) -> Iterator[tuple[slice, Array]]:
        """Positions, and their combined rows: about so many rows at a time, by array expressions.

        Groups are not divided. Each array may overwrite the previous one.
        """
        rows, memory = as_slice(self.rows), np.empty((0, X.shape[1]))
        in_order = X[rows] if isinstance(rows, slice) else None
        for first, last in runs(np.diff(self.level_ptr[self.group_ptr]), most):
            start, stop = self.group_ptr[first], self.group_ptr[last]
            ptr = self.level_ptr[start : stop + 1]
            part, starts, sizes = slice(ptr[0], ptr[-1]), ptr[:-1] - ptr[0], np.diff(ptr)
            x = X[self.rows[part]] if in_order is None else in_order[part]
            if len(x) > len(memory):  # new memory takes longer than the operations
                memory = np.empty(x.shape)
            z, level = memory[: len(x)], np.repeat(np.arange(len(sizes)), sizes)
            with np.errstate(over="ignore", invalid="ignore"):  # solvers check for overflow
                sums = np.add.reduceat(x, starts, axis=0)
                means = sums / sizes[:, None]
                means.take(level, axis=0, out=z, mode="clip")
                np.subtract(x, z, out=z)
                z *= self.a[start:stop].take(level)[:, None]
                if last - first < stop - start:
                    groups = self.group_ptr[first : last + 1]
                    totals, n_levels = np.diff(self.level_ptr[groups]), np.diff(groups)
                    of_groups = np.add.reduceat(sums, groups[:-1] - start, axis=0)
                    gaps = means - np.repeat(of_groups / totals[:, None], n_levels, axis=0)
                    gaps *= np.repeat(self.b[first:last], n_levels)[:, None]
                    z += gaps.take(level, axis=0)
            yield part, z


CHUNK_BYTES, CHUNK_ROWS = 2**19, 384  # of combined rows that stay in cache, and rows at least
FEW = 2**20  # numbers up to which array expressions are fast enough, without anything to compile
IN_CACHE = 2**15  # numbers that array expressions process at a time
SHORT = 64  # rows of a group, up to which sorting by insertion is fast


def _loops() -> Any:
    """Compiled loops over groups of rows, imported late: Numba takes a while."""
    from rankwise.backends import group_loops

    return group_loops


def runs(sizes: Index, most: int) -> Iterator[tuple[int, int]]:
    """Consecutive items [first, last) of at most this total size, or a single larger item."""
    ends = np.cumsum(sizes)
    first = 0
    while first < len(sizes):
        begin = ends[first] - sizes[first]
        last = max(first + 1, int(np.searchsorted(ends, begin + most, side="right")))
        yield first, last
        first = last


def _groups_in_cache(
    rows: Index, ptr: Index, n_columns: int
) -> Iterator[tuple[Rows, Index, Index]]:
    """Rows of some groups at a time, where each group starts among them, and its size.

    Empty groups are left out.
    """
    ptr = ptr[np.append(True, np.diff(ptr) > 0)]
    for first, last in runs(np.diff(ptr), IN_CACHE // max(n_columns, 1)):
        ends = ptr[first : last + 1]
        yield as_slice(rows[ends[0] : ends[-1]]), ends[:-1] - ends[0], np.diff(ends)


def _groups_alike(sizes: Index, most: int) -> Iterator[Index]:
    """Numbers of groups, some at a time, of which none is twice as long as another."""
    by_size = np.argsort(sizes, kind="stable")[np.count_nonzero(sizes == 0) :]
    longer = 1 + np.flatnonzero(np.diff(np.frexp(sizes[by_size])[1]))
    for alike in np.split(by_size, longer):
        for first, last in runs(sizes[alike], most):
            yield alike[first:last]


def _ranks(values: Any, n: Index) -> Array:
    """Ranks along the last axis, from -1/2 to 1/2, among the n smallest values."""
    order = np.argsort(values, axis=-1)
    value, position = np.take_along_axis(values, order, -1), np.arange(values.shape[-1])
    differs = value[..., 1:] != value[..., :-1]
    first = last = np.broadcast_to(position, value.shape)
    if not differs.all():
        edge = np.ones((*value.shape[:-1], 1), dtype=bool)
        begins, ends = np.append(edge, differs, -1), np.append(differs, edge, -1)
        first = np.maximum.accumulate(np.where(begins, position, 0), axis=-1)
        last = np.where(ends, position, len(position))[..., ::-1]
        last = np.minimum(np.minimum.accumulate(last, axis=-1)[..., ::-1], n - 1)
    ranks = np.empty(value.shape)
    found = (first + last - (n - 1)) / (2.0 * np.maximum(n - 1, 1))
    np.put_along_axis(ranks, order, found, -1)
    return ranks


def _parts_of_groups(
    nest: NestedLevels, n_columns: int, threads: int
) -> list[tuple[slice, int, int]]:
    """Groups, and the columns from low to high, for each thread: some groups, or some columns."""
    groups = slice(0, len(nest.b))
    if threads == 1:
        return [(groups, 0, n_columns)]
    sizes = np.diff(nest.level_ptr[nest.group_ptr])
    if 2 * threads * int(sizes.max()) <= int(sizes.sum()):
        return [(part, 0, n_columns) for part in even_parts(sizes.tolist(), threads)]
    cuts = np.linspace(0, n_columns, min(threads, n_columns) + 1).astype(int).tolist()
    return [(groups, low, high) for low, high in pairwise(cuts)]


class Backend:
    """The operations in which array libraries differ, on NumPy arrays in host memory.

    `TorchBackend` overrides them for tensors. Arrays are float64 unless stated otherwise. Methods
    that may overwrite an argument are documented as such; use the array that they return.

    Attributes
    ----------
    xp : module
        NumPy or torch, for functions that have the same name and meaning in both.
    is_host : bool
        Whether arrays are NumPy arrays.
    reduction_cost : int
        Number of Cholesky factorizations that take as long as one reduction for all shifts.
    inverse_cost : int
        Number of inverses of a definite matrix that take as long as its eigendecomposition.
    """

    xp: Any = np
    is_host: ClassVar[bool] = True
    reduction_cost: ClassVar[int] = 5
    inverse_cost: ClassVar[int] = 4

    def array(self, values: Any) -> Array:
        """Dense or sparse values as a float64 array of this backend; not copied if they are one."""
        values = values.toarray() if is_sparse(values) else to_host(values)
        return np.asarray(values, dtype=np.float64)

    def index(self, values: Any) -> Any:
        """Row numbers or a mask as an index array of this backend."""
        return np.asarray(values)

    def rows(self, X: Any, rows: Rows) -> Array:
        """``X[rows]`` as a C-ordered float64 array; a view of X if possible."""
        return dense_rows(X, rows)

    def empty(self, *shape: int) -> Array:
        """An uninitialized array."""
        return np.empty(shape)

    def zeros(self, *shape: int) -> Array:
        """An array of zeros."""
        return np.zeros(shape)

    def eye(self, n: int) -> Array:
        """The identity matrix."""
        return np.eye(n)

    def copy(self, X: Array) -> Array:
        """A C-ordered copy."""
        if not isinstance(X, np.ndarray) or threads_for(X.size) == 1:
            return np.array(X, order="C")
        out = np.empty_like(X, order="C")
        map_rows(lambda rows: np.copyto(out[rows], X[rows]), X)
        return out

    def contiguous(self, X: Array) -> Array:
        """X in C order; not copied if it already is."""
        return np.ascontiguousarray(X)

    def cast(self, X: Array, dtype: Any) -> Any:
        """X in another dtype of this library."""
        return np.asarray(X, dtype=dtype)

    def diagonal(self, M: Array) -> Array:
        """The diagonal as a view that can be written to; NumPy's ``M.diagonal()`` cannot."""
        return np.asarray(np.einsum("ii->i", M))

    def block_bytes(self, in_cache: int) -> int:
        """Size of a block of work in bytes: `in_cache` on a CPU, more on a GPU."""
        return in_cache

    def free_bytes(self) -> int | None:
        """Bytes that can still be allocated; None if unknown."""
        return None

    def manhattan(self, X: Array, Y: Array) -> Array:
        """|x - y|_1 for all rows of X and Y."""
        return np.asarray(cdist(X, Y, "cityblock"))

    def combine_rows(
        self, X: Array, out: Array, target: Index, nest: NestedLevels, *, compiled: bool = False
    ) -> None:
        """Combine row ``nest.rows[k]`` of X with the means of its groups; write row ``target[k]``.

        With ``target is nest.rows``, `out` may be X itself. `compiled`: use a compiled loop, as for
        many numbers, since these rows are some of many, or other columns are many.
        """
        rows, level_ptr, group_ptr, a, b = nest
        if compiled or X.size > FEW:
            combine = _loops().combine_rows

            def run(part: tuple[slice, int, int]) -> None:
                groups, low, high = part
                ptr = group_ptr[groups.start : groups.stop + 1]
                combine(X, out, rows, target, level_ptr, ptr, a, b[groups], low, high)

            threads = threads_for(X.size)
            map_in_threads(run, _parts_of_groups(nest, X.shape[1], threads), threads)
            return
        into = as_slice(target)
        in_order = out[into] if isinstance(into, slice) else None
        for part, z in nest.combined(X, IN_CACHE // max(X.shape[1], 1)):
            if in_order is None:
                out[target[part]] = z
            else:
                in_order[part] = z

    def combined_rows(
        self, X: Array, t: Array, nest: NestedLevels, *, compiled: bool = False
    ) -> tuple[Array, Array]:
        """New arrays with the rows of X and t combined, in their order; see `combine_rows`."""
        out, of_t, target = self.empty(*X.shape), self.empty(*t.shape), np.arange(len(X))
        compiled = compiled or X.shape[0] * X.shape[1] > FEW
        self.combine_rows(X, out, target, nest, compiled=compiled)
        self.combine_rows(t, of_t, target, nest, compiled=compiled)
        return out, of_t

    def add_moments(
        self, A: Array, b: Array, X: Array, t: Array, nest: NestedLevels, *, compiled: bool = False
    ) -> tuple[Array, Array]:
        """A + Z'Z on one triangle, and b + Z's, for Z and s from `combined_rows`.

        A and b are overwritten.
        """
        if not self.is_host or threads_for(X.size) > 1:
            Z, s = self.combined_rows(X, t, nest, compiled=compiled)
            return self.add_gram(A, Z), b + self.matmul(Z.T, s)
        most = max(CHUNK_ROWS, CHUNK_BYTES // (8 * X.shape[1]))
        if compiled or X.size > FEW:
            _loops().add_moments(A, b, X, t, *nest, most)
            return A, b
        both = zip(nest.combined(X, most), nest.combined(t, most), strict=True)
        for (_, Z), (_, s) in both:
            A = self.add_gram(A, Z)
            b += self.matmul(Z.T, s)
        return A, b

    def combine_columns(self, X: Array, nest: NestedLevels) -> None:
        """The same along axis 1, in place."""
        if X.size > FEW:
            threads, combine = threads_for(X.size), _loops().combine_columns
            map_in_threads(lambda x: combine(x, *nest), np.array_split(X, threads), threads)
        else:
            self.combine_rows(X.T, X.T, nest.rows, nest)

    def group_sums(self, codes: Index, n_groups: int, X: Array) -> Array:
        """Sums of the rows of X by their group, shape (n_groups, ...)."""
        n = len(codes)
        member = sp.csr_array((np.ones(n), codes, np.arange(n + 1)), shape=(n, n_groups))
        return np.asarray(member.T @ X)

    def minmax_groups(self, X: Any, rows: Index, ptr: Index) -> bool:
        """Map each column of each group of rows to [0, 1], in place.

        Group g holds the positions ptr[g]:ptr[g + 1] of `rows`, which lists each row once. A
        constant column becomes 0. Returns False if a range overflows.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            if X.size > FEW:
                return bool(_loops().minmax_groups(X, rows, ptr))
            finite = True
            for some, starts, sizes in _groups_in_cache(rows, ptr, X.shape[1]):
                x = X[some]
                low, high = (part.reduceat(x, starts, axis=0) for part in (np.minimum, np.maximum))
                span = high - low
                finite &= bool(np.isfinite(span).all())
                span[span == 0] = 1
                z = x - np.repeat(low, sizes, axis=0)
                z /= np.repeat(span, sizes, axis=0)
                X[some] = z
            return finite

    def standardize_groups(self, X: Any, rows: Index, ptr: Index) -> None:
        """Give each column of each group mean 0 and variance 1, in place, after `minmax_groups`."""
        if X.size > FEW:
            _loops().standardize_groups(X, rows, ptr)
            return
        for some, starts, sizes in _groups_in_cache(rows, ptr, X.shape[1]):
            x = X[some].astype(np.float64)
            mean = np.add.reduceat(x, starts, axis=0) / sizes[:, None]
            x -= np.repeat(mean, sizes, axis=0)
            deviation = np.sqrt(np.add.reduceat(x**2, starts, axis=0) / sizes[:, None])
            deviation[deviation == 0] = 1.0
            x /= np.repeat(deviation, sizes, axis=0)
            X[some] = x

    def rank_groups(self, X: Any, rows: Index, ptr: Index) -> None:
        """Replace each column of each group by its ranks from -1/2 to 1/2; ties share theirs."""
        sizes, d = np.diff(ptr), X.shape[1]
        if X.size > FEW:
            _loops().rank_short_groups(X, rows, ptr, SHORT)
            sizes[sizes <= SHORT] = 0
        for some in _groups_alike(sizes, IN_CACHE // max(d, 1)):
            n, longest = sizes[some], int(sizes[some].max())
            real = np.arange(longest) < n[:, None]
            held = rows[(ptr[some, None] + np.arange(longest))[real]]
            step = max(1, IN_CACHE // longest)
            for columns in (slice(left, left + step) for left in range(0, d, step)):
                values = np.full((*real.shape, len(X[0, columns])), np.inf, X.dtype)
                values[real] = X[held, columns]  # infinities make shorter groups as long
                ranks = _ranks(np.ascontiguousarray(values.swapaxes(1, 2)), n[:, None, None])
                X[held, columns] = ranks.swapaxes(1, 2)[real]

    def sparse_product(self, S: Any, X: Array) -> Array:
        """S X for a scipy.sparse S and a dense vector or matrix X."""
        return np.asarray(S @ X)

    def products(self, X: Any) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
        """The functions P -> X P and Q -> X'Q of matrices, for a dense or scipy.sparse X.

        A sparse X is copied to a device once, with its transpose.
        """
        if not is_sparse(X):
            X = np.asarray(X, dtype=np.float64)
            return lambda P: matmul(X, P), lambda Q: matmul(X.T, Q)
        if X.dtype != np.float64:  # once, not in every product; the indices are shared
            X = sp.csr_array((X.data.astype(np.float64), X.indices, X.indptr), shape=X.shape)
        return lambda P: np.asarray(X @ P), lambda Q: np.asarray(X.T @ Q)

    def matmul(self, A: Array, B: Array) -> Array:
        """A B for two matrices of one precision."""
        return matmul(A, B)

    def add_gram(self, A: Array, Z: Array) -> Array:
        """A + Z'Z on one triangle of A, which is overwritten; `mirror_gram` fills the other."""
        return add_gram(A, Z)

    def with_precision(self, precision: str) -> Backend:
        """This backend with `add_gram` in another precision; sums stay float64."""
        raise ParameterError(
            f"precision={precision!r} needs a GPU: NumPy arrays are multiplied in float64. Use "
            'device="cuda", or precision="float64".'
        )

    def solve_definite(self, M: Array, t: Array, lam: float) -> Array | None:
        """(M + lam I)^-1 t for a symmetric M, which is overwritten.

        Returns None, and leaves M unchanged, if M + lam I is not positive definite.
        """
        factor = self._factor(M, lam)
        if factor is None:
            return None
        z, _ = lapack.dpotrs(factor, t)
        return np.asarray(z).reshape(t.shape)

    def inverse_definite(self, M: Array, shift: Any) -> Array | None:
        """(M + diag(shift))^-1 for a symmetric M; overwrites M and returns None as above."""
        factor = self._factor(M, shift)
        if factor is None:
            return None
        inverse, _ = lapack.dpotri(factor, overwrite_c=1)
        return mirror_lower(inverse.T)

    def _factor(self, M: Array, shift: Any) -> Array | None:
        """Factor M + diag(shift) in place, in LAPACK's order; None if it is not definite."""
        M = M if M.flags.f_contiguous else M.T  # without a copy: M is symmetric
        diagonal = np.diagonal(M).copy()
        np.fill_diagonal(M, diagonal + shift)
        factor, info = lapack.dpotrf(M, clean=0, overwrite_a=1)
        if info:  # restore M from its lower triangle, which is unchanged
            mirror_lower(M)
            np.fill_diagonal(M, diagonal)
            return None
        return np.asarray(factor)

    def cholesky(self, M: Array) -> Array | None:
        """The lower factor of a symmetric M; None if M is not positive definite."""
        M = M if M.flags.f_contiguous else M.T  # symmetric: LAPACK's order without a transposition
        factor, info = lapack.dpotrf(M, lower=1)
        return None if info else np.asarray(factor)

    def pivoted_cholesky(self, K: Array, tolerance: float) -> tuple[Index, Array, Array]:
        """Pivoted factor C C' of the rows of K whose pivots exceed the tolerance.

        Returns the order of all rows, pivots first; C of shape (rank, rank); and the remaining
        diagonal of the other rows.
        """
        diagonal = np.diagonal(K).copy()
        factor, pivot, rank, _ = lapack.dpstrf(np.asfortranarray(K), tol=tolerance, lower=1)
        order = pivot.astype(np.intp) - 1
        rest = diagonal[order[rank:]] - (factor[rank:, :rank] ** 2).sum(axis=1)
        return order, np.asfortranarray(np.tril(factor[:rank, :rank])), rest

    def solve_triangular(self, C: Array, B: Array, *, transpose: bool = False) -> Array:
        """C^-1 B for a lower triangular C, or C'^-1 B."""
        if transpose:
            return np.asarray(solve_triangular(C, B, lower=True, trans="T", check_finite=False))
        return np.asarray(solve_triangular(C, B, lower=True, check_finite=False))

    def solve_rows(self, C: Array, B: Array) -> None:
        """x <- C^-1 x for each row of a C-ordered B and a lower triangular C, in threads."""
        C = np.asfortranarray(C)
        map_rows(lambda rows: solve_lower(C, B[rows]), B)

    def solve(self, A: Array, B: Array) -> Array:
        """A^-1 B for one matrix, or for stacks of them.

        Raises `numpy.linalg.LinAlgError` if A is singular.
        """
        return np.asarray(np.linalg.solve(A, B))

    def eigh(self, M: Array) -> tuple[Array, Array]:
        """Eigenvalues, ascending, and eigenvectors as columns; M may be overwritten."""
        if len(M) <= SMALL:  # SciPy would hold the interpreter lock
            s, V = np.linalg.eigh(M)
        else:
            s, V = eigh(M, overwrite_a=True, check_finite=False)
        return s, V

    def largest_eigh(self, M: Array, n: int) -> tuple[Array, Array]:
        """As `eigh`, for the n largest eigenvalues; M is not changed."""
        m = len(M)
        s, V = eigh(M, subset_by_index=None if n == m else [m - n, m - 1], check_finite=False)
        if len(s) < n:  # LAPACK may lose some of many equal ones
            s, V = eigh(M, check_finite=False)
            s, V = s[m - n :], V[:, m - n :]
        return s, V

    def qr(self, A: Array) -> tuple[Array, Array]:
        """Q with orthonormal columns and a triangular R; A may be overwritten."""
        Q, R = qr_factor(A, mode="economic", overwrite_a=True, check_finite=False)
        return np.asarray(Q, dtype=np.float64), np.asarray(R, dtype=np.float64)

    def triangle(self, A: Array) -> Array:
        """Only R of `qr`."""
        (R,) = qr_factor(A, mode="r", overwrite_a=True, check_finite=False)
        return np.asarray(R)

    def is_finite(self, X: Array) -> bool:
        """Whether all values are finite."""
        # The sum needs one pass and no mask of the size of X; the mask decides where it overflows.
        with np.errstate(all="ignore"):
            total = sum(map_rows(lambda rows: X[rows].sum(), X)) if X.ndim else X
            return bool(self.xp.isfinite(total)) or bool(self.xp.isfinite(X).all())

    def mirror_gram(self, A: Array) -> Array:
        """The symmetric matrix with the triangle of A from `add_gram`; A is overwritten."""
        return mirror_lower(A)

    def symmetrize(self, A: Array) -> None:
        """A <- (A + A') / 2 in place, some rows at a time."""
        step = max(1, self.block_bytes(2**21) // (8 * max(len(A), 1)))
        for start in range(0, len(A), step):
            rows = slice(start, start + step)
            mean = (A[rows, start:] + A[start:, rows].T) / 2
            A[rows, start:] = mean
            A[start:, rows] = mean.T


NUMPY = Backend()


def backend_of(X: Any) -> Backend:
    """The backend for the device of X, a tensor or `HostRows`; otherwise NumPy's."""
    if isinstance(X, np.ndarray):
        return NUMPY
    backend = getattr(X, "backend", None)
    if isinstance(backend, Backend):
        return backend
    if is_tensor(X):
        from rankwise.backends._torch import TorchBackend  # torch is already imported

        return TorchBackend.on(X.device)
    return NUMPY


def as_given(X: Any) -> Any:
    """The array that the user passed: the host array of `HostRows`, anything else unchanged."""
    return X.host if isinstance(getattr(X, "backend", None), Backend) else X


def is_sent(X: Any) -> bool:
    """Whether rows are in host memory but processed on a device: results are then copied back."""
    return not is_tensor(X) and not backend_of(X).is_host
