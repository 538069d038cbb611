"""What all graphs of pairs can do: products with the Laplacian and its roots."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from rankwise.backends.arrays import Array, Index, Loader, is_sparse
from rankwise.backends.dispatch import backend_of
from rankwise.errors import DataError
from rankwise.graph.query_groups import QueryGroups


class PairBlock(NamedTuple):
    """Some pairs of a graph: rows `first` and `second`, and the weight of each pair."""

    first: Index
    second: Index
    weight: Array


class PairGraph(ABC):
    """A graph whose nodes are rows and whose edges are the pairs of rows that count.

    With W the weights of the pairs and L = D - W the Laplacian,

        1/2 sum_ij W_ij (p_i - p_j)^2 = p' L p,

    so that every pairwise least-squares loss is (y - f)' L (y - f). L is never formed:
    ``graph @ X`` costs as much as reading X. A root R with L = R'R gives symmetric systems:
    X' L X = Z'Z with Z = R X, and X' L y = Z't with t = R y.

    `QueryGraph` and `ComparisonGraph` implement it.

    References
    ----------
    RankRLS paper, section 2.1 and proof of Theorem 1.
    """

    n_rows: int
    #: The rows by query; None if the pairs are listed.
    groups: QueryGroups | None
    #: The margins of listed pairs, and the features of the pairs themselves, if there are any.
    margin: Array | None
    context: Array | None

    @property
    @abstractmethod
    def n_pairs(self) -> int:
        """How many pairs of rows count."""

    @property
    @abstractmethod
    def degrees(self) -> Array:
        """The diagonal of L: the total weight of the pairs of each row, shape (n_rows,)."""

    @property
    @abstractmethod
    def compared(self) -> QueryGroups:
        """Groups of rows such that only rows of the same group are compared."""

    @property
    def row_weights(self) -> Array | None:
        """The weight of each row; None if rows have no weights."""
        return None

    def offset_columns(self, X: Any) -> Index:
        """Columns of a sparse X that are to be centred before products; none by default."""
        return np.empty(0, dtype=np.intp)

    @abstractmethod
    def __matmul__(self, X: Any) -> Any:
        """L X, in time linear in X; a sparse X gives a sparse product."""

    @property
    @abstractmethod
    def n_root_rows(self) -> int:
        """About how many rows the blocks of `root_blocks` have in total."""

    @abstractmethod
    def root(self, X: Any) -> Array:
        """R X, with R'R = L."""

    @abstractmethod
    def root_transpose(self, Z: Array) -> Array:
        """R'Z."""

    @abstractmethod
    def root_kernel(self, K: Array) -> Array:
        """R K R' for a symmetric K, which may be overwritten."""

    @abstractmethod
    def root_target(self, y: Array | None) -> Array:
        """The t with R't = `rhs(y)`."""

    @abstractmethod
    def root_blocks(
        self, load: Loader, y: Array | None, max_rows: int
    ) -> Iterator[tuple[Array, Array]]:
        """Blocks (Z, t) with sum Z'Z = F'LF and sum Z't = F' rhs(y).

        ``load(rows)`` returns the features of some rows. About `max_rows` of them are in memory at
        a time, and each block may overwrite the previous one.
        """

    @abstractmethod
    def gram(self, X: Any) -> Array:
        """X'LX for a sparse X, which stays sparse; shape (n_features, n_features)."""

    @abstractmethod
    def squares(self, X: Any) -> Array:
        """The diagonal of X'LX for a sparse X."""

    @abstractmethod
    def take(self, rows: Any) -> PairGraph:
        """The graph of these rows alone, with the weights that it would have on its own."""

    @abstractmethod
    def pairs(self, block_size: int = 65536) -> Iterator[PairBlock]:
        """Every pair once, about `block_size` of them at a time."""

    def rhs(self, y: Any = None) -> Array:
        """The right-hand side: L y, or that of the margins if the graph has them."""
        y = required(y)
        return backend_of(y).array(self @ backend_of(y).array(y))

    def _check_rows(self, X: Any) -> None:
        if X.shape[0] != self.n_rows:
            raise DataError(f"The graph has {self.n_rows} rows: got an array with {X.shape[0]}.")

    def to_dense(self) -> Array:
        """L as an array, for tests and small examples: O(n_rows^2) memory."""
        L = np.zeros((self.n_rows, self.n_rows))
        for first, second, weight in self.pairs():
            np.add.at(L, (first, first), weight)
            np.add.at(L, (second, second), weight)
            np.add.at(L, (first, second), -weight)
            np.add.at(L, (second, first), -weight)
        return L

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n_rows={self.n_rows}, n_pairs={self.n_pairs})"


def required(y: Any) -> Any:
    """y, which only a graph of comparisons can do without."""
    if y is None:
        raise DataError("A graph of queries has no margins of its own: pass scores y.")
    return y


def row_scale(weights: Array, X: Any) -> Any:
    """diag(weights) X for a vector, a matrix or a sparse X."""
    if is_sparse(X):
        return sp.diags_array(weights) @ X
    with np.errstate(over="ignore"):  # the solver checks for overflow
        return backend_of(X).array(weights).reshape(-1, *[1] * (X.ndim - 1)) * X
