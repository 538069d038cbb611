"""The backend of an array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh, lapack, solve_triangular
from scipy.linalg import qr as qr_factor
from scipy.linalg import svd as svd_factors
from scipy.spatial.distance import cdist

from rankwise.backends import blas
from rankwise.backends.arrays import Array, Index, Rows, dense_rows, is_sparse, is_tensor, to_host
from rankwise.backends.backend import Backend
from rankwise.errors import ParameterError


class NumpyBackend(Backend):
    """NumPy arrays in host memory."""

    xp = np
    is_host = True
    reduction_cost = 5
    inverse_cost = 4

    def array(self, values: Any) -> Array:
        values = values.toarray() if is_sparse(values) else to_host(values)
        return np.asarray(values, dtype=np.float64)

    def index(self, values: Any) -> Any:
        return np.asarray(values)

    def rows(self, X: Any, rows: Rows) -> Array:
        return dense_rows(X, rows)

    def empty(self, *shape: int) -> Array:
        return np.empty(shape)

    def zeros(self, *shape: int) -> Array:
        return np.zeros(shape)

    def copy(self, X: Array) -> Array:
        return np.array(X, order="C")

    def contiguous(self, X: Array) -> Array:
        return np.ascontiguousarray(X)

    def cast(self, X: Array, dtype: Any) -> Any:
        return np.asarray(X, dtype=dtype)

    def diagonal(self, M: Array) -> Array:
        return np.asarray(np.einsum("ii->i", M))

    def block_bytes(self, in_cache: int) -> int:
        return in_cache

    def free_bytes(self) -> int | None:
        return None

    def manhattan(self, X: Array, Y: Array) -> Array:
        return np.asarray(cdist(X, Y, "cityblock"))

    def combine_rows(
        self,
        X: Array,
        out: Array,
        rows: Index,
        target: Index,
        level_ptr: Index,
        group_ptr: Index,
        a: Array,
        b: Array,
    ) -> None:
        from rankwise.backends import group_loops  # imported late: Numba takes a while

        group_loops.combine_rows(X, out, rows, target, level_ptr, group_ptr, a, b)

    def combine_columns(
        self, X: Array, rows: Index, level_ptr: Index, group_ptr: Index, a: Array, b: Array
    ) -> None:
        from rankwise.backends import group_loops

        group_loops.combine_columns(X, rows, level_ptr, group_ptr, a, b)

    def group_sums(self, codes: Index, n_groups: int, X: Array) -> Array:
        n = len(codes)
        member = sp.csr_array((np.ones(n), codes, np.arange(n + 1)), shape=(n, n_groups))
        return np.asarray(member.T @ X)

    def minmax_groups(self, X: Any, rows: Index, ptr: Index) -> bool:
        from rankwise.backends import group_loops

        with np.errstate(over="ignore", invalid="ignore"):
            return bool(group_loops.minmax_groups(X, rows, ptr))

    def standardize_groups(self, X: Any, rows: Index, ptr: Index) -> None:
        from rankwise.backends import group_loops

        group_loops.standardize_groups(X, rows, ptr)

    def rank_groups(self, X: Any, rows: Index, ptr: Index) -> None:
        from rankwise.backends import group_loops

        group_loops.rank_groups(X, rows, ptr)

    def sparse_product(self, S: Any, X: Array) -> Array:
        return np.asarray(S @ X)

    def products(self, X: Any) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
        if not is_sparse(X):
            X = np.asarray(X, dtype=np.float64)
            return lambda P: blas.matmul(X, P), lambda Q: blas.matmul(X.T, Q)
        if X.dtype != np.float64:  # once, not in every product; the indices are shared
            X = sp.csr_array((X.data.astype(np.float64), X.indices, X.indptr), shape=X.shape)
        return lambda P: np.asarray(X @ P), lambda Q: np.asarray(X.T @ Q)

    def matmul(self, A: Array, B: Array) -> Array:
        return blas.matmul(A, B)

    def add_gram(self, A: Array, Z: Array) -> Array:
        return blas.add_gram(A, Z)

    def with_precision(self, precision: str) -> NumpyBackend:
        raise ParameterError(
            f"precision={precision!r} needs a GPU: NumPy arrays are multiplied in float64. Use "
            'device="cuda", or precision="float64".'
        )

    def solve_definite(self, M: Array, t: Array, lam: float) -> Array | None:
        factor = self._factor(M, lam)
        if factor is None:
            return None
        z, _ = lapack.dpotrs(factor, t)
        return np.asarray(z).reshape(t.shape)

    def inverse_definite(self, M: Array, shift: Any) -> Array | None:
        factor = self._factor(M, shift)
        if factor is None:
            return None
        inverse, _ = lapack.dpotri(factor, overwrite_c=1)
        return blas.mirror_lower(inverse.T)

    def _factor(self, M: Array, shift: Any) -> Array | None:
        """Factor M + diag(shift) in place, in LAPACK's order; None if it is not definite."""
        M = M if M.flags.f_contiguous else M.T  # without a copy: M is symmetric
        diagonal = np.diagonal(M).copy()
        np.fill_diagonal(M, diagonal + shift)
        factor, info = lapack.dpotrf(M, clean=0, overwrite_a=1)
        if info:  # restore M from its lower triangle, which is unchanged
            blas.mirror_lower(M)
            np.fill_diagonal(M, diagonal)
            return None
        return np.asarray(factor)

    def cholesky(self, M: Array) -> Array | None:
        M = M if M.flags.f_contiguous else M.T  # symmetric: LAPACK's order without a transposition
        factor, info = lapack.dpotrf(M, lower=1)
        return None if info else np.asarray(factor)

    def pivoted_cholesky(self, K: Array, tolerance: float) -> tuple[Index, Array, Array]:
        diagonal = np.diagonal(K).copy()
        factor, pivot, rank, _ = lapack.dpstrf(np.asfortranarray(K), tol=tolerance, lower=1)
        order = pivot.astype(np.intp) - 1
        rest = diagonal[order[rank:]] - (factor[rank:, :rank] ** 2).sum(axis=1)
        return order, np.asfortranarray(np.tril(factor[:rank, :rank])), rest

    def solve_triangular(self, C: Array, B: Array, *, transpose: bool = False) -> Array:
        if transpose:
            return np.asarray(solve_triangular(C, B, lower=True, trans="T", check_finite=False))
        return np.asarray(solve_triangular(C, B, lower=True, check_finite=False))

    def solve(self, A: Array, B: Array) -> Array:
        return np.asarray(np.linalg.solve(A, B))

    def eigh(self, M: Array) -> tuple[Array, Array]:
        s, V = eigh(M, overwrite_a=True, check_finite=False)
        return s, V

    def largest_eigh(self, M: Array, n: int) -> tuple[Array, Array]:
        m = len(M)
        s, V = eigh(M, subset_by_index=None if n == m else [m - n, m - 1], check_finite=False)
        if len(s) < n:  # LAPACK may lose some of many equal ones
            s, V = eigh(M, check_finite=False)
            s, V = s[m - n :], V[:, m - n :]
        return s, V

    def qr(self, A: Array) -> tuple[Array, Array]:
        Q, R = qr_factor(A, mode="economic", overwrite_a=True, check_finite=False)
        return np.asarray(Q, dtype=np.float64), np.asarray(R, dtype=np.float64)

    def triangle(self, A: Array) -> Array:
        (R,) = qr_factor(A, mode="r", overwrite_a=True, check_finite=False)
        return np.asarray(R)

    def svd(self, A: Array) -> tuple[Array, Array, Array]:
        U, s, Vt = svd_factors(A, full_matrices=False, check_finite=False)
        return U, s, Vt


NUMPY = NumpyBackend()


__all__ = ["NUMPY", "as_given", "backend_of", "is_sent"]


def backend_of(X: Any) -> Backend:
    """The backend of X: that of the device of a tensor or of `HostRows`, otherwise NumPy's."""
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
