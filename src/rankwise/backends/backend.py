"""The operations in which NumPy and torch differ."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from rankwise.backends.arrays import Array, Index, Rows


class Backend(ABC):
    """The operations in which array libraries differ.

    Arrays are float64 unless stated otherwise. Methods that may overwrite an argument say so; use
    the array that they return.

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

    xp: Any
    is_host: ClassVar[bool]
    reduction_cost: ClassVar[int]
    inverse_cost: ClassVar[int]

    # Arrays.

    @abstractmethod
    def array(self, values: Any) -> Array:
        """Dense or sparse values as a float64 array of this backend; not copied if they are one."""

    @abstractmethod
    def index(self, values: Any) -> Any:
        """Row numbers or a mask as an index array of this backend."""

    @abstractmethod
    def rows(self, X: Any, rows: Rows) -> Array:
        """``X[rows]`` as a C-ordered float64 array; a view of X if possible."""

    @abstractmethod
    def empty(self, *shape: int) -> Array:
        """An uninitialized array."""

    @abstractmethod
    def zeros(self, *shape: int) -> Array:
        """An array of zeros."""

    @abstractmethod
    def copy(self, X: Array) -> Array:
        """A C-ordered copy."""

    @abstractmethod
    def contiguous(self, X: Array) -> Array:
        """X in C order; not copied if it already is."""

    @abstractmethod
    def cast(self, X: Array, dtype: Any) -> Any:
        """X in another dtype of this library."""

    @abstractmethod
    def diagonal(self, M: Array) -> Array:
        """The diagonal as a view that can be written to; NumPy's ``M.diagonal()`` cannot."""

    def is_finite(self, X: Array) -> bool:
        """Whether all values are finite."""
        # The sum needs one pass and no mask of the size of X; the mask decides where it overflows.
        with np.errstate(all="ignore"):
            return bool(self.xp.isfinite(X.sum())) or bool(self.xp.isfinite(X).all())

    # Memory.

    @abstractmethod
    def block_bytes(self, in_cache: int) -> int:
        """Size of a block of work in bytes: `in_cache` on a CPU, more on a GPU."""

    @abstractmethod
    def free_bytes(self) -> int | None:
        """Bytes that can still be allocated; None if unknown."""

    # Kernels.

    @abstractmethod
    def manhattan(self, X: Array, Y: Array) -> Array:
        """|x - y|_1 for all rows of X and Y."""

    # Groups: see group_loops.py for the formula.

    @abstractmethod
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
        """Combine row ``rows[k]`` of X with the means of its groups; write row ``target[k]``.

        With ``target is rows``, `out` may be X itself.
        """

    @abstractmethod
    def combine_columns(
        self, X: Array, rows: Index, level_ptr: Index, group_ptr: Index, a: Array, b: Array
    ) -> None:
        """The same along axis 1, in place."""

    @abstractmethod
    def group_sums(self, codes: Index, n_groups: int, X: Array) -> Array:
        """Sums of the rows of X by their group, shape (n_groups, ...)."""

    # Scaling of groups: see group_loops.py. X is C-ordered, float32 or float64.

    @abstractmethod
    def minmax_groups(self, X: Any, rows: Index, ptr: Index) -> bool:
        """Map each column of each group of rows to [0, 1], in place.

        Group g holds the positions ptr[g]:ptr[g + 1] of `rows`, which lists each row once. A
        constant column becomes 0. Returns False if a range overflows.
        """

    @abstractmethod
    def standardize_groups(self, X: Any, rows: Index, ptr: Index) -> None:
        """Give each column of each group mean 0 and variance 1, in place, after `minmax_groups`."""

    @abstractmethod
    def rank_groups(self, X: Any, rows: Index, ptr: Index) -> None:
        """Replace each column of each group by its ranks from -1/2 to 1/2; ties share theirs."""

    # Linear algebra.

    @abstractmethod
    def sparse_product(self, S: Any, X: Array) -> Array:
        """S X for a scipy.sparse S and a dense vector or matrix X."""

    @abstractmethod
    def products(self, X: Any) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
        """The functions P -> X P and Q -> X'Q of matrices, for a dense or scipy.sparse X.

        A sparse X is copied to a device once, with its transpose.
        """

    @abstractmethod
    def matmul(self, A: Array, B: Array) -> Array:
        """A B for two matrices."""

    @abstractmethod
    def add_gram(self, A: Array, Z: Array) -> Array:
        """A + Z'Z on the upper triangle of A, which is overwritten."""

    @abstractmethod
    def with_precision(self, precision: str) -> Backend:
        """This backend with `add_gram` in another precision; sums stay float64."""

    def mirror_upper(self, A: Array) -> Array:
        """The symmetric matrix whose upper triangle is that of A."""
        return self.array(self.xp.triu(A) + self.xp.triu(A, 1).T)

    def symmetrize(self, A: Array) -> None:
        """A <- (A + A') / 2 in place, some rows at a time."""
        step = max(1, self.block_bytes(2**21) // (8 * max(len(A), 1)))
        for start in range(0, len(A), step):
            rows = slice(start, start + step)
            mean = (A[rows, start:] + A[start:, rows].T) / 2
            A[rows, start:] = mean
            A[start:, rows] = mean.T

    @abstractmethod
    def solve_definite(self, M: Array, t: Array, lam: float) -> Array | None:
        """(M + lam I)^-1 t for a symmetric M, which is overwritten.

        Returns None, and leaves M unchanged, if M + lam I is not positive definite.
        """

    @abstractmethod
    def inverse_definite(self, M: Array, shift: Any) -> Array | None:
        """(M + diag(shift))^-1 for a symmetric M; overwrites M and returns None as above."""

    @abstractmethod
    def cholesky(self, M: Array) -> Array | None:
        """The lower factor of a symmetric M; None if M is not positive definite."""

    @abstractmethod
    def pivoted_cholesky(self, K: Array, tolerance: float) -> tuple[Index, Array, Array]:
        """Pivoted factor C C' of the rows of K whose pivots exceed the tolerance.

        Returns the order of all rows, pivots first; C of shape (rank, rank); and the remaining
        diagonal of the other rows.
        """

    @abstractmethod
    def solve_triangular(self, C: Array, B: Array, *, transpose: bool = False) -> Array:
        """C^-1 B for a lower triangular C, or C'^-1 B."""

    @abstractmethod
    def solve(self, A: Array, B: Array) -> Array:
        """A^-1 B for one matrix, or for stacks of them.

        Raises `numpy.linalg.LinAlgError` if A is singular.
        """

    @abstractmethod
    def eigh(self, M: Array) -> tuple[Array, Array]:
        """Eigenvalues, ascending, and eigenvectors as columns; M may be overwritten."""

    @abstractmethod
    def largest_eigh(self, M: Array, n: int) -> tuple[Array, Array]:
        """As `eigh`, for the n largest eigenvalues; M is not changed."""

    @abstractmethod
    def qr(self, A: Array) -> tuple[Array, Array]:
        """Q with orthonormal columns and a triangular R; A may be overwritten."""

    @abstractmethod
    def triangle(self, A: Array) -> Array:
        """Only R of `qr`."""

    @abstractmethod
    def svd(self, A: Array) -> tuple[Array, Array, Array]:
        """The thin decomposition A = U diag(s) V': returns U, s and V'."""
