"""What every preference graph can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from rankwise.backends.arrays import Array, Index, Rows, is_sparse
from rankwise.backends.dispatch import backend_of
from rankwise.errors import DataError

Loader = Callable[[Rows], Array]  # the features of some rows, dense, float64, C-ordered


class PairBlock(NamedTuple):
    """Some of the pairs of a graph: rows `first` and `second`, and what each pair weighs."""

    first: Index
    second: Index
    weight: Array


class PreferenceGraph(ABC):
    """Rows are nodes; a pair of rows that counts is an edge.

    With W the weights of the pairs and L = D - W the Laplacian,

        1/2 sum_ij W_ij (p_i - p_j)^2 = p' L p,

    so that every pairwise least-squares loss is (y - f)' L (y - f). L is never formed:
    ``graph @ X`` costs what reading X costs. A root R with L = R'R makes symmetric systems of
    it: X' L X = Z'Z with Z = R X, and X' L y = Z't with t = R y.

    Make one with `from_groups`, `from_scores` or `from_pairs`.

    References
    ----------
    RankRLS paper, section 2.1 and proof of Theorem 1.

    Examples
    --------
    >>> graph = PreferenceGraph.from_groups(["a", "a", "b", "a", "b"])
    >>> graph.n_pairs
    4
    >>> graph @ [1.0, 0.0, 3.0, 0.0, 1.0]
    array([ 2., -1.,  2., -1., -2.])
    """

    n_rows: int

    @staticmethod
    def from_groups(
        qid: Any, *, n_rows: int | None = None, weighting: str = "pairs"
    ) -> PreferenceGraph:
        """All pairs of rows with the same query id.

        Parameters
        ----------
        qid : array-like of shape (n_rows,) or None
            Any dtype, in any order. None, with `n_rows`: all rows are one query.
        n_rows : int, optional
            Needed without `qid`, checked with it.
        weighting : {"pairs", "rows", "queries"}
            What a pair weighs: 1, one over the rows of its query, or one over the pairs of
            its query (so that every query weighs the same).
        """
        return PreferenceGraph.from_scores(None, qid, n_rows=n_rows, weighting=weighting)

    @staticmethod
    def from_scores(
        y: Any,
        qid: Any = None,
        *,
        n_rows: int | None = None,
        ties: str = "include",
        weighting: str = "pairs",
    ) -> PreferenceGraph:
        """The pairs of rows of a query, with or without those of equal score.

        Parameters
        ----------
        y : array-like of shape (n_rows,)
            Scores or labels; they only say which rows are tied.
        qid : array-like of shape (n_rows,), optional
            As for `from_groups`.
        n_rows : int, optional
            As for `from_groups`.
        ties : {"include", "exclude"}
            Whether pairs of equal score count. They are excluded by subtracting the
            Laplacians of the tied rows, never by listing pairs: the cost stays linear.
        weighting : {"pairs", "rows", "queries"}
            As for `from_groups`.
        """
        from rankwise.graph.query_graph import QueryGraph  # a subclass, so not at the top

        return QueryGraph.build(y, qid, n_rows=n_rows, ties=ties, weighting=weighting)

    @staticmethod
    def from_pairs(
        n_rows: int, pairs: Any, margin: Any = None, weight: Any = None
    ) -> PreferenceGraph:
        """Explicit comparisons.

        Parameters
        ----------
        n_rows : int
            Rows that the pairs point at.
        pairs : array-like of shape (n_pairs, 2)
            Row numbers, the preferred row first. A pair may be repeated, or contradicted.
        margin : array-like of shape (n_pairs,) or (n_pairs, n_outputs), optional
            By how much the first row should be ahead. None: by 1.
        weight : array-like of shape (n_pairs,), optional
            What a pair weighs, not negative. None: 1.
        """
        from rankwise.graph.comparison_graph import ComparisonGraph  # a subclass, so not at the top

        return ComparisonGraph.build(n_rows, pairs, margin, weight)

    @property
    @abstractmethod
    def n_pairs(self) -> int:
        """How many pairs of rows count."""

    @property
    @abstractmethod
    def degrees(self) -> Array:
        """The diagonal of L: the weight of all pairs of a row, shape (n_rows,)."""

    @abstractmethod
    def __matmul__(self, X: Any) -> Any:
        """L X, in time linear in X; a sparse X gives a sparse product."""

    @property
    @abstractmethod
    def n_root_rows(self) -> int:
        """How many rows the blocks of `root_blocks` have in all, about."""

    @abstractmethod
    def root(self, X: Any) -> Array:
        """R X, with R'R = L."""

    @abstractmethod
    def root_transpose(self, Z: Array) -> Array:
        """R'Z."""

    @abstractmethod
    def root_kernel(self, K: Array) -> Array:
        """R K R' for a symmetric K, which may be overwritten by it."""

    @abstractmethod
    def root_target(self, y: Array | None) -> Array:
        """The t with R't = `rhs(y)`."""

    @abstractmethod
    def root_blocks(
        self, load: Loader, y: Array | None, max_rows: int
    ) -> Iterator[tuple[Array, Array]]:
        """Blocks (Z, t) with sum Z'Z = F'LF and sum Z't = F' rhs(y).

        ``load(rows)`` gives the features of some rows; some `max_rows` of them are held at a
        time, and each block may overwrite the one before it.
        """

    @abstractmethod
    def gram(self, X: Any) -> Array:
        """X'LX for a sparse X, which is never made dense; shape (n_features, n_features)."""

    @abstractmethod
    def take(self, rows: Any) -> PreferenceGraph:
        """The graph that these rows alone would have given, weights included."""

    @abstractmethod
    def pairs(self, block_size: int = 65536) -> Iterator[PairBlock]:
        """Every pair once, some `block_size` of them at a time."""

    def rhs(self, y: Any = None) -> Array:
        """The right-hand side L y of scores, or that of margins where the graph has them."""
        y = required(y)
        return backend_of(y).array(self @ backend_of(y).array(y))

    def _check_rows(self, X: Any) -> None:
        if X.shape[0] != self.n_rows:
            raise DataError(f"The graph has {self.n_rows} rows: got an array with {X.shape[0]}.")

    def to_dense(self) -> Array:
        """L itself, from its pairs: for tests and small examples, O(n_rows^2) memory."""
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
        raise DataError("A graph of queries has no margins of its own: scores y are needed.")
    return y


def row_scale(weights: Array, X: Any) -> Any:
    """diag(weights) X for a vector, a matrix or a sparse X."""
    if is_sparse(X):
        return sp.diags_array(weights) @ X
    return backend_of(X).array(weights).reshape(-1, *[1] * (X.ndim - 1)) * X
