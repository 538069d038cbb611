"""What an array library must be able to do for us; see the package for the idea."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from rankwise.backends.arrays import Array, Index, Rows


class Backend(ABC):
    """Where arrays live, and the operations that differ from one such place to the other.

    Arrays are float64 unless something else is said. Methods that may overwrite an argument say
    so; what they return is the result, wherever it is.

    Attributes
    ----------
    xp : module
        NumPy or torch, for functions that both have under one name and with one meaning.
    is_host : bool
        Whether arrays are NumPy's.
    reduction_cost : int
        How many Cholesky factorizations cost as much as one reduction that serves all shifts.
    inverse_cost : int
        How many inverses of a definite matrix cost as much as its eigendecomposition.
    eps : float
        The relative rounding of products of features.
    flops : float
        A rough rate of factorizations, in flops a second: to refuse what would take hours.
    """

    xp: Any
    is_host: ClassVar[bool]
    reduction_cost: ClassVar[int]
    inverse_cost: ClassVar[int]
    eps: float
    flops: float

    # Arrays.

    @abstractmethod
    def array(self, values: Any) -> Array:
        """Values from anywhere, dense or sparse, as float64 here; the same where they are that."""

    @abstractmethod
    def index(self, values: Any) -> Any:
        """Row numbers, or a mask, from this machine."""

    @abstractmethod
    def rows(self, X: Any, rows: Rows) -> Array:
        """``X[rows]`` as a C-ordered float64 array; a view of X where that is possible."""

    @abstractmethod
    def empty(self, *shape: int) -> Array:
        """An array of no particular values."""

    @abstractmethod
    def zeros(self, *shape: int) -> Array:
        """An array of zeros."""

    @abstractmethod
    def copy(self, X: Array) -> Array:
        """A C-ordered copy."""

    @abstractmethod
    def contiguous(self, X: Array) -> Array:
        """X in C order; X itself where it is."""

    @abstractmethod
    def cast(self, X: Array, dtype: Any) -> Any:
        """X in another dtype of this library."""

    @abstractmethod
    def is_finite(self, X: Array) -> bool:
        """Whether all values are finite."""

    @abstractmethod
    def add_to_diagonal(self, M: Array, values: Any) -> None:
        """M <- M + diag(values), in place."""

    @abstractmethod
    def fill_diagonal(self, M: Array, value: float) -> None:
        """Set the diagonal, in place."""

    # Memory.

    @abstractmethod
    def block_bytes(self, in_cache: int) -> int:
        """Bytes to work on at a time: `in_cache` where caches matter, more on a device."""

    @abstractmethod
    def free_bytes(self) -> int | None:
        """What can still be allocated; None where nobody can tell."""

    # Kernels.

    @abstractmethod
    def exp_nonpositive(self, K: Array) -> Array:
        """exp(min(K, 0)) in place: a squared distance below zero is rounding."""

    @abstractmethod
    def manhattan(self, X: Array, Y: Array) -> Array:
        """|x - y|_1 for all rows of X and Y."""

    # Groups: see grouped.py for the formula.

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
        """Row ``rows[k]`` of X, combined with the means of its groups, as row ``target[k]``.

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

    # Linear algebra.

    @abstractmethod
    def sparse_product(self, S: Any, X: Array) -> Array:
        """S X for a scipy.sparse S and a dense vector or matrix X."""

    @abstractmethod
    def matmul(self, A: Array, B: Array) -> Array:
        """A B for two matrices."""

    @abstractmethod
    def gram_zeros(self, n: int) -> Array:
        """The zeros that `add_gram` starts from."""

    @abstractmethod
    def add_gram(self, A: Array, Z: Array) -> Array:
        """A + Z'Z on the upper triangle of A, which is overwritten."""

    @abstractmethod
    def with_precision(self, precision: str) -> Backend:
        """This place, where `add_gram` multiplies in another precision; sums stay float64."""

    @abstractmethod
    def mirror_upper(self, A: Array) -> Array:
        """The symmetric matrix whose upper triangle is that of A."""

    @abstractmethod
    def symmetrize(self, A: Array) -> None:
        """A <- (A + A') / 2 in place."""

    @abstractmethod
    def solve_definite(self, M: Array, t: Array, lam: float) -> Array | None:
        """(M + lam I)^-1 t for a symmetric M, in its memory; None where that is not definite.

        M is then as it was.
        """

    @abstractmethod
    def inverse_definite(self, M: Array, shift: Any) -> Array | None:
        """(M + diag(shift))^-1 for a symmetric M, in its memory; None as above."""

    @abstractmethod
    def cholesky(self, M: Array) -> Array | None:
        """The lower factor of a symmetric M; None where M is not definite."""

    @abstractmethod
    def pivoted_cholesky(self, K: Array, tolerance: float) -> tuple[Index, Array, Array]:
        """C C' = K with rows in the order of pivots that are above the tolerance.

        (order of all rows, C of shape (rank, rank), what is left of the diagonal of the others).
        """

    @abstractmethod
    def solve_triangular(self, C: Array, B: Array, *, transpose: bool = False) -> Array:
        """C^-1 B for a lower triangular C, or C'^-1 B."""

    @abstractmethod
    def solve(self, A: Array, B: Array) -> Array:
        """A^-1 B for one matrix, or for stacks of them.

        `numpy.linalg.LinAlgError` where A is singular.
        """

    @abstractmethod
    def eigh(self, M: Array) -> tuple[Array, Array]:
        """Eigenvalues, ascending, and eigenvectors as columns; M may be overwritten."""

    @abstractmethod
    def largest_eigh(self, M: Array, n: int) -> tuple[Array, Array]:
        """As `eigh`, of the n largest; M stays as it is."""

    @abstractmethod
    def qr(self, A: Array) -> tuple[Array, Array]:
        """Q with orthonormal columns and a triangular R; A may be overwritten."""

    @abstractmethod
    def triangle(self, A: Array) -> Array:
        """R of `qr` alone."""

    @abstractmethod
    def svd(self, A: Array) -> tuple[Array, Array, Array]:
        """A = U diag(s) V', with as many columns as there are values: (U, s, V')."""
