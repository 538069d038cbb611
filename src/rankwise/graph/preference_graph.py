"""Preference graphs: pairs within queries, and explicit comparisons.

`QueryGraph` multiplies by L with nested means, and `ComparisonGraph` with L = B' diag(w) B.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.linalg import lapack, solve_triangular

from rankwise.backends.arrays import (
    FEW,
    Array,
    Backend,
    Index,
    Loader,
    NestedLevels,
    Rows,
    backend_of,
    is_sparse,
    runs,
)
from rankwise.errors import DataError
from rankwise.graph.comparisons import Comparisons
from rankwise.graph.query_groups import QueryGroups
from rankwise.parameters import Choice, check_value


class PairBlock(NamedTuple):
    """Some pairs of a graph: rows `first` and `second`, and the weight of each pair.

    Examples
    --------
    >>> from rankwise.graph import PreferenceGraph
    >>> graph = PreferenceGraph.from_scores([2, 1, 1], ties="exclude", weighting="pairs")
    >>> (block,) = graph.pairs()
    >>> block.first.tolist(), block.second.tolist(), block.weight.tolist()
    ([0, 0], [1, 2], [1.0, 1.0])
    """

    first: Index
    second: Index
    weight: Array


class PreferenceGraph(ABC):
    """A graph whose nodes are rows and whose edges are the pairs of rows that count.

    With W the weights of the pairs and L = D - W the Laplacian,

        1/2 sum_ij W_ij (p_i - p_j)^2 = p' L p,

    so that every pairwise least-squares loss is (y - f)' L (y - f). L is never formed:
    ``graph @ X`` costs as much as reading X. A root R with L = R'R leads to symmetric systems: X' L
    X = Z'Z with Z = R X, and X' L y = Z't with t = R y.

    Call `from_groups`, `from_scores` or `from_pairs`, which return a `QueryGraph` or a
    `ComparisonGraph`.

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
    #: The rows by query; None if the pairs are listed.
    groups: QueryGroups | None
    #: The margins of listed pairs, and the features of the pairs themselves, if there are any.
    margin: Array | None
    context: Array | None

    @staticmethod
    def from_groups(
        qid: Any, *, n_rows: int | None = None, weighting: str = "pairs"
    ) -> PreferenceGraph:
        """All pairs of rows with the same query id.

        Parameters
        ----------
        qid : array-like of shape (n_rows,), QueryGroups or None
            Query ids: integers or text, in any order. None: all `n_rows` rows are one query. Groups
            may have weights of queries (`QueryGroups.weighted`).
        n_rows : int, optional
            Number of rows; needed if `qid` is None, and compared with it otherwise.
        weighting : {"pairs", "rows", "queries"}, default="pairs"
            The weight of a pair: 1, one over the number of rows of its query, or one over the
            number of pairs of its query (so that all queries have the same weight).
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
        """All pairs of rows with the same query id, with or without pairs of equal scores.

        Parameters
        ----------
        y : array-like of shape (n_rows,)
            Scores or labels; used only to find tied rows.
        qid, n_rows, weighting
            As for `from_groups`.
        ties : {"include", "exclude"}, default="include"
            Whether pairs of equal score count. To exclude them, the Laplacians of the tied rows
            are subtracted; no pair is listed, and the cost stays linear.

        Examples
        --------
        >>> PreferenceGraph.from_scores([2, 1, 1], ties="exclude")
        QueryGraph(n_rows=3, n_pairs=2)
        """
        return QueryGraph.build(y, qid, n_rows=n_rows, ties=ties, weighting=weighting)

    @staticmethod
    def from_pairs(
        n_rows: int, pairs: Any, margin: Any = None, weight: Any = None
    ) -> PreferenceGraph:
        """Explicit comparisons.

        Parameters
        ----------
        n_rows : int
            Number of rows.
        pairs : array-like of shape (n_pairs, 2)
            Row numbers, the preferred row first. A pair may be repeated or reversed.
        margin : array-like of shape (n_pairs,) or (n_pairs, n_outputs), optional
            By how much the score of the first row should exceed the score of the second. None: 1.
        weight : array-like of shape (n_pairs,), optional
            The weights of the pairs, not negative. None: 1.

        Examples
        --------
        >>> graph = PreferenceGraph.from_pairs(3, [[0, 1], [0, 2]], weight=[1, 2])
        >>> graph.to_dense()
        array([[ 3., -1., -2.],
               [-1.,  1.,  0.],
               [-2.,  0.,  2.]])
        """
        return ComparisonGraph.of(n_rows, Comparisons.check(n_rows, pairs, margin, weight))

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
        """L X, in time linear in X; the product with a sparse X is sparse."""

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
    def root_blocks(self, load: Loader, y: Array | None, max_rows: int) -> Blocks:
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
    def take(self, rows: Any) -> PreferenceGraph:
        """The graph of these rows alone, with the weights that it would have on its own."""

    @abstractmethod
    def pairs(self, block_size: int = 65536) -> Iterator[PairBlock]:
        """Every pair once, about `block_size` of them at a time."""

    def rhs(self, y: Any = None) -> Array:
        """The right-hand side: L y, or B'W times the margins if the graph has them."""
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
        raise DataError("A graph of queries has no margins: pass scores y.")
    return y


def row_scale(weights: Array, X: Any) -> Any:
    """diag(weights) X for a vector, a matrix or a sparse X."""
    if is_sparse(X):
        return sp.diags_array(weights) @ X
    with np.errstate(over="ignore"):  # the solver checks for overflow
        return backend_of(X).array(weights).reshape(-1, *[1] * (X.ndim - 1)) * X


class Blocks(ABC):
    """Blocks of rows (Z, t), in pieces that threads can compute independently."""

    @property
    @abstractmethod
    def n_rows_of_pieces(self) -> list[int]:
        """The number of rows of each piece."""

    @abstractmethod
    def some(self, which: slice) -> Iterator[tuple[Array, Array]]:
        """The blocks of some pieces."""

    def between(self) -> Iterator[tuple[Array, Array]]:
        """A few rows that follow after the blocks of all pieces; none by default."""
        return iter(())

    def __iter__(self) -> Iterator[tuple[Array, Array]]:
        """All blocks: those of the pieces, then what is between them."""
        yield from self.some(slice(None))
        yield from self.between()

    def moments(self, which: slice, n_features: int, on: Backend) -> tuple[Array, Array]:
        """The sums of Z'Z, on one triangle, and of Z't over the blocks of some pieces."""
        A, b = on.zeros(n_features, n_features), on.zeros(n_features, 1)
        outputs: tuple[int, ...] = ()
        for Z, t in self.some(which):
            A = on.add_gram(A, Z)
            b = b + on.matmul(Z.T, t.reshape(len(t), -1))
            outputs = t.shape[1:]
        return A, b.reshape(n_features, *outputs)


class Piece(NamedTuple):
    """Levels of rows that fit in a block, as `NestedLevels` without the rows.

    `group` and `level` are set if they belong to a group, or a level, that is larger than a block.
    """

    level_ptr: Index
    group_ptr: Index
    a: Array
    b: Array
    group: int | None = None
    level: int | None = None


class PieceRows(NamedTuple):
    """Features F and targets t of the rows of a piece, their levels, and their weights.

    `many`: whether all pieces together are worth a compiled loop. Fewer wide rows are: they may be
    one of many folds.
    """

    F: Array
    t: Array
    nest: NestedLevels
    weights: Array | None = None
    many: bool = False

    def root(self) -> tuple[Array, Array]:
        """R F and R t."""
        F, t, nest, weights, many = self
        if weights is not None:
            level = level_of_row(nest.rows, nest.level_ptr)
            group_of_level = np.repeat(np.arange(len(nest.b)), np.diff(nest.group_ptr))
            to_levels, root = (level, group_of_level, nest.a, nest.b), np.sqrt(weights)
            Z, s = (row_scale(root, combine_weighted(X, weights, *to_levels)) for X in (F, t))
            return Z, s
        return backend_of(F).combined_rows(F, t, nest, compiled=many)


@dataclass
class RootBlocks(Blocks):
    """Blocks of R F and R t, from at most `max_rows` rows of features at a time.

    If rows have `weights`, means are weighted, and row i of a block is multiplied by the square
    root of its weight.

    The scatter of a group with more rows than a block is the scatter within its pieces plus the
    scatter of their means. Each piece is therefore centred separately, and a few rows made of the
    means follow at the end.
    """

    nest: NestedLevels
    load: Loader
    targets: Array
    max_rows: int
    weights: Array | None = None
    outputs: tuple[int, ...] = ()
    _means: dict[int, PartMeans] = field(default_factory=dict)

    @cached_property
    def pieces(self) -> list[Piece]:
        """All rows in pieces of at most `max_rows` rows."""
        nest, pieces = self.nest, list[Piece]()
        for first, last in runs(np.diff(nest.level_ptr[nest.group_ptr]), self.max_rows):
            levels = slice(nest.group_ptr[first], nest.group_ptr[last])
            ptr = nest.level_ptr[levels.start : levels.stop + 1]
            if ptr[-1] - ptr[0] > self.max_rows:
                pieces += self._of_long_group(first)
            else:
                groups = nest.group_ptr[first : last + 1] - levels.start
                pieces.append(Piece(ptr, groups, nest.a[levels], nest.b[first:last]))
        return pieces

    @property
    def n_rows_of_pieces(self) -> list[int]:
        """The number of rows of each piece."""
        return [int(piece.level_ptr[-1] - piece.level_ptr[0]) for piece in self.pieces]

    def _of_long_group(self, group: int) -> Iterator[Piece]:
        nest = self.nest
        begin, end = nest.group_ptr[group], nest.group_ptr[group + 1]
        for first, last in runs(np.diff(nest.level_ptr[begin : end + 1]), self.max_rows):
            levels = slice(begin + first, begin + last)
            ptr, a = nest.level_ptr[levels.start : levels.stop + 1], nest.a[levels]
            if ptr[-1] - ptr[0] <= self.max_rows:
                yield Piece(ptr, np.array([0, last - first]), a, nest.b[group : group + 1], group)
                continue
            for start in range(ptr[0], ptr[-1], self.max_rows):
                piece = np.array([start, min(start + self.max_rows, ptr[-1])])
                yield Piece(piece, np.array([0, 1]), a, np.zeros(1), group, levels.start)

    def some(self, which: slice) -> Iterator[tuple[Array, Array]]:
        """The blocks of some pieces."""
        for k in range(*which.indices(len(self.pieces))):
            yield self._shaped(self._loaded(k).root())

    def moments(self, which: slice, n_features: int, on: Backend) -> tuple[Array, Array]:
        """The sums of Z'Z, on one triangle, and of Z't over the blocks of some pieces."""
        if self.weights is not None:
            return super().moments(which, n_features, on)
        A, b = on.zeros(n_features, n_features), on.zeros(n_features, self.targets.shape[1])
        for k in range(*which.indices(len(self.pieces))):
            F, t, nest, _, many = self._loaded(k)
            A, b = on.add_moments(A, b, F, t, nest, compiled=many)
        return A, b.reshape(n_features, *self.outputs)

    def between(self) -> Iterator[tuple[Array, Array]]:
        """Rows made of the means of pieces, after the blocks of all of them."""
        long = ((k, piece) for k, piece in enumerate(self.pieces) if piece.group is not None)
        for group, of_group in groupby(long, lambda item: item[1].group):
            parts: list[PartMeans] = []
            for level, of_level in groupby(of_group, lambda item: item[1].level):
                means = [self._means[k] for k, _ in of_level]
                if level is not None:
                    whole, between = _spread(means, self.nest.a[level])
                    yield self._shaped(between)
                    means = [whole]
                parts += means
            yield self._shaped(_spread(parts, self.nest.b[group])[1])

    def _shaped(self, block: tuple[Array, Array]) -> tuple[Array, Array]:
        return block[0], block[1].reshape(len(block[1]), *self.outputs)

    def _loaded(self, k: int) -> PieceRows:
        """The rows of a piece; if its group is longer, their means are kept."""
        level_ptr, group_ptr, a, b, group, _ = self.pieces[k]
        taken, local = self._taken(int(level_ptr[0]), int(level_ptr[-1]))
        nest = NestedLevels(local, level_ptr - level_ptr[0], group_ptr, a, b)
        weights = None if self.weights is None else self.weights[taken]
        F = self.load(taken)
        n_rows, n_columns = len(self.nest.rows), F.shape[1]
        wide = n_columns > WIDE and n_rows > 4 * n_columns
        many = n_rows * n_columns > (FEW_WIDE if wide else FEW)
        rows = PieceRows(F, self.targets[taken], nest, weights, many)
        if group is not None:
            self._means[k] = PartMeans.of(rows)
        return rows

    def _taken(self, start: int, stop: int) -> tuple[Rows, Index]:
        """The rows at some positions, as a slice if possible, and the positions among them."""
        rows = self.nest.rows[start:stop]
        low, high = int(rows.min()), int(rows.max()) + 1
        if high - low == len(rows):  # a slice avoids the copy
            return slice(low, high), rows - low
        return rows, np.arange(len(rows))


class PartMeans(NamedTuple):
    """The means of F and t over a part of a group, and its number of rows (or their weights)."""

    size: float
    F: Array
    t: Array

    @classmethod
    def of(cls, block: PieceRows) -> PartMeans:
        if block.weights is None:
            return cls(len(block.F), block.F.mean(axis=0), block.t.mean(axis=0))
        total = float(block.weights.sum())
        shares = backend_of(block.F).array(block.weights / total)
        return cls(total, shares @ block.F, shares @ block.t)


def _spread(parts: list[PartMeans], scale: float) -> tuple[PartMeans, tuple[Array, Array]]:
    """The parts as one, and rows (Z, t) whose products are the scatter between the parts."""
    on, sizes = backend_of(parts[0].F), np.array([part.size for part in parts], dtype=np.float64)
    factors, shares = on.array(scale * np.sqrt(sizes)[:, None]), on.array(sizes / sizes.sum())
    F, t = (on.xp.stack(list(means)) for means in zip(*((p.F, p.t) for p in parts), strict=True))
    whole = PartMeans(float(sizes.sum()), shares @ F, shares @ t)
    return whole, (factors * (F - whole.F), factors * (t - whole.t))


TIES = ("include", "exclude")
WEIGHTINGS = ("pairs", "rows", "queries")
KERNEL_BYTES = 8 * 2**20  # columns of a kernel matrix that are combined at a time
WIDE, FEW_WIDE = 64, 2**17  # columns of wide rows, and as many numbers are worth a compiled loop


@dataclass(frozen=True, eq=False, repr=False)
class QueryGraph(PreferenceGraph):
    """Pairs of rows of the same query; if ties are excluded, pairs with different labels.

    Rows with equal labels form a level of the query. On a query of n rows whose pairs have weight
    w, the level l of row i having n_l rows,

        (L x)_i = within_l (x_i - mean_l) + between (mean_l - mean),

    with between = w n and within_l = w (n - n_l). If ties count, the query is a single level, and
    within = w n. The two parts are orthogonal projections, so a power of L, such as its square
    root, takes the powers of the two coefficients. This is the low-rank form of sections 2.3 and 3
    of the RankRLS paper, sorted by eigenvalue.

    If rows have weights v, the weight of a pair is multiplied by v_i v_j. Sums of weights replace
    numbers of rows, means are weighted, and (L x)_i is multiplied by v_i. The two parts are then
    orthogonal in the inner product x' diag(v) y, and the root is

        (R x)_i = v_i^(1/2) (within_l^(1/2) (x_i - mean_l) + between^(1/2) (mean_l - mean)).

    Attributes
    ----------
    n_rows : int
    groups : QueryGroups
        The rows of each query, with weights of queries and rows if there are any.
    rows : ndarray of shape (n_rows,)
        Row numbers, query by query, and level by level within a query.
    level_ptr : ndarray of shape (n_levels + 1,)
        ``rows[level_ptr[l]:level_ptr[l + 1]]`` are the rows of level l.
    query_ptr : ndarray of shape (n_queries + 1,)
        Query q has the levels from query_ptr[q] to query_ptr[q + 1].
    ties, weighting : str
        See `PreferenceGraph.from_scores`.
    """

    n_rows: int
    groups: QueryGroups
    rows: Index
    level_ptr: Index
    query_ptr: Index
    ties: str
    weighting: str
    margin = None
    context = None

    @classmethod
    def build(
        cls, y: Any, qid: Any, *, n_rows: int | None, ties: str, weighting: str
    ) -> QueryGraph:
        """Sort rows into queries and levels; the only O(n log n) step."""
        check_value("ties", ties, Choice(*TIES))
        check_value("weighting", weighting, Choice(*WEIGHTINGS))
        if y is not None:
            y = np.asarray(y)
            if y.ndim != 1:
                raise DataError(f"Scores must be one-dimensional: got shape {y.shape}.")
            if n_rows is not None and len(y) != n_rows:
                raise DataError(f"y needs one entry per row: got {len(y)} for {n_rows} rows.")
            n_rows = len(y)
        groups = QueryGroups.of(qid, n_rows)
        if ties == "include":
            rows, level_ptr, query_ptr = groups.order, groups.indptr, np.arange(groups.n_groups + 1)
        elif y is None:
            raise DataError("Ties can only be excluded if scores y are given.")
        else:
            rows, level_ptr, query_ptr = _sort_into_levels(groups, y)
        return cls(groups.n_rows, groups, rows, level_ptr, query_ptr, ties, weighting)

    @cached_property
    def level_sizes(self) -> Index:
        """The number of rows of each level."""
        return np.diff(self.level_ptr)

    @cached_property
    def query_of_level(self) -> Index:
        return np.repeat(np.arange(len(self.query_ptr) - 1), np.diff(self.query_ptr))

    @cached_property
    def pairs_of_query(self) -> Index:
        """The number of pairs of each query that count."""
        n_pairs = self.groups.sizes * (self.groups.sizes - 1) // 2
        if self.ties == "exclude":
            tied = self.level_sizes * (self.level_sizes - 1) // 2
            n_pairs = n_pairs - np.bincount(
                self.query_of_level, tied, minlength=len(n_pairs)
            ).astype(np.intp)
        return n_pairs

    @cached_property
    def row_weights(self) -> Array | None:
        """The weight of each row, or None.

        If all queries have the same weight, row weights are divided by the largest of their query:
        L is the same, and products of weights are neither too large nor too small.
        """
        weights = self.groups.row_weights
        if weights is None or self.weighting != "queries":
            return weights
        largest = np.maximum.reduceat(weights[self.groups.order], self.groups.indptr[:-1])
        return weights / largest[self.groups.codes]

    @cached_property
    def level_totals(self) -> Array:
        """The sum of the weights of the rows of each level: without weights, their number."""
        if self.row_weights is None:
            return self.level_sizes.astype(np.float64)
        return _sums(self.level_of_row, self.row_weights, len(self.level_sizes))

    @cached_property
    def query_totals(self) -> Array:
        """The sum of the weights of the rows of each query: without weights, their number."""
        # A sum over levels: the total of a query with a single level equals the level's exactly.
        return _sums(self.query_of_level, self.level_totals, len(self.groups.sizes))

    @cached_property
    def pair_totals(self) -> Array:
        """The sum of v_i v_j over the pairs of each query that count: without weights, 1 each."""
        if self.row_weights is None:
            return self.pairs_of_query.astype(np.float64)
        if self.ties == "include":
            tied = _sums(self.groups.codes, self.row_weights**2, len(self.groups.sizes))
        else:
            tied = _sums(self.query_of_level, self.level_totals**2, len(self.groups.sizes))
        return np.where(self.pairs_of_query > 0, self.query_totals**2 - tied, 0.0) / 2

    @cached_property
    def pair_weight(self) -> Array:
        """The weight of a pair of each query, in addition to the weights of its rows."""
        weight = pair_weight(self.weighting, self.query_totals, self.pair_totals)
        if self.groups.weights is not None:
            weight = weight * self.groups.weights
        return np.asarray(weight, dtype=np.float64)

    @cached_property
    def between(self) -> Array:
        """The coefficient of mean_l - mean, one per query."""
        return self.pair_weight * self.query_totals

    @cached_property
    def within(self) -> Array:
        """The coefficient of x_i - mean_l, one per level."""
        others = self.query_totals[self.query_of_level].astype(np.float64)
        if self.ties == "exclude":
            others -= self.level_totals
        return self.pair_weight[self.query_of_level] * others

    @property
    def n_pairs(self) -> int:
        return int(self.pairs_of_query.sum())

    @property
    def n_root_rows(self) -> int:
        return self.n_rows

    @cached_property
    def level_of_row(self) -> Index:
        """The level of each row."""
        return level_of_row(self.rows, self.level_ptr)

    @property
    def compared(self) -> QueryGroups:
        """The rows by query."""
        return self.groups

    @property
    def degrees(self) -> Array:
        if self.ties == "exclude":
            own = self.level_totals[self.level_of_row]
        else:
            own = np.ones(self.n_rows) if self.row_weights is None else self.row_weights
        partners = self.query_totals[self.groups.codes] - own
        return self._scaled(self.pair_weight[self.groups.codes] * partners, 1.0)

    def _combine(self, X: Any, within: Array, between: Array) -> Array:
        on = backend_of(X)
        X = on.array(X)
        self._check_rows(X)
        flat = on.contiguous(X.reshape(self.n_rows, -1))
        if self.row_weights is not None:
            nest = (self.level_of_row, self.query_of_level, within, between)
            return combine_weighted(flat, self.row_weights, *nest).reshape(X.shape)
        out = on.empty(*flat.shape)
        nested = NestedLevels(self.rows, self.level_ptr, self.query_ptr, within, between)
        on.combine_rows(flat, out, self.rows, nested)
        return out.reshape(X.shape)

    def __matmul__(self, X: Any) -> Any:
        if not is_sparse(X):
            return self._scaled(self._combine(X, self.within, self.between), 1.0)
        self._check_rows(X)
        product = row_scale(self._diagonal, X)
        for indicator, coefficient in self._low_rank():
            product = product + indicator @ row_scale(coefficient, indicator.T @ X)
        return product.tocsr()

    @property
    def _diagonal(self) -> Array:
        """within for each row, times the weight of the row."""
        return self._scaled(self.within[self.level_of_row], 1.0)

    def _scaled(self, X: Array, power: float) -> Array:
        """Rows multiplied by a power of their weights."""
        return X if self.row_weights is None else row_scale(self.row_weights**power, X)

    def _low_rank(self) -> list[tuple[Any, Array]]:
        """L minus its diagonal part, as a sum of P diag(c) P', where P has levels or queries."""
        level, weights = self.level_of_row, self.row_weights
        of_query = self.between / self.query_totals
        if self.ties == "include":
            return [(indicator(level, len(self.level_sizes), weights), -of_query)]
        of_level = (self.between[self.query_of_level] - self.within) / self.level_totals
        return [
            (indicator(level, len(self.level_sizes), weights), of_level),
            (indicator(self.groups.codes, len(self.groups.sizes), weights), -of_query),
        ]

    def root(self, X: Any) -> Array:
        return self._scaled(self._combine(X, self._root.a, self._root.b), 0.5)

    def root_transpose(self, Z: Array) -> Array:
        if self.row_weights is None:
            return self.root(Z)  # this root is symmetric
        return self._scaled(self.root(self._scaled(backend_of(Z).array(Z), -0.5)), 0.5)

    @cached_property
    def _root(self) -> NestedLevels:
        a, b = np.sqrt(self.within), np.sqrt(self.between)
        return NestedLevels(self.rows, self.level_ptr, self.query_ptr, a, b)

    def root_inverse(self, X: Any) -> Array:
        """R+ X, with an inverse R+ of R: R+ R centres each query that has pairs."""
        inverse = _reciprocal(self._root.a), _reciprocal(self._root.b)
        return self._combine(self._scaled(X, -0.5), *inverse)

    def root_kernel(self, K: Array) -> Array:
        on = backend_of(K)
        if self.row_weights is not None:
            step = max(1, on.block_bytes(KERNEL_BYTES) // (8 * max(self.n_rows, 1)))
            for M in (K, K.T):
                for start in range(0, self.n_rows, step):
                    columns = slice(start, start + step)
                    M[:, columns] = self.root(M[:, columns])
            return K
        on.combine_rows(K, K, self.rows, self._root)
        on.combine_columns(K, self._root)
        return K

    def root_target(self, y: Array | None) -> Array:
        return self.root(self._from_first(y))

    def root_blocks(self, load: Loader, y: Array | None, max_rows: int) -> Blocks:
        y = required(y)
        on, outputs = backend_of(y), tuple(y.shape[1:])
        targets = on.contiguous(on.array(y).reshape(self.n_rows, -1))
        return RootBlocks(self._root, load, targets, max_rows, self.row_weights, outputs)

    def gram(self, X: Any) -> Array:
        A = X.T @ row_scale(self._diagonal, X)
        for indicator, coefficient in self._low_rank():
            sums = indicator.T @ X
            A = A + sums.T @ row_scale(coefficient, sums)
        A = np.asarray(A.toarray())
        offset = self.offset_columns(X)
        if len(offset):
            Z = self.root(X[:, offset].toarray())
            A[:, offset] = X.T @ self.root_transpose(Z)
            A[offset] = A[:, offset].T
            A[np.ix_(offset, offset)] = Z.T @ Z
        return A

    def rhs(self, y: Any = None) -> Array:
        return super().rhs(self._from_first(y))

    def _from_first(self, y: Any) -> Array:
        """Labels minus the first label of each query.

        These are exact for labels far from zero, where means would be rounded.
        """
        y = backend_of(required(y)).array(y)
        first = self.groups.order[self.groups.indptr[:-1]]
        labels: Array = y - y[first[self.groups.codes]]
        return labels

    def offset_columns(self, X: Any) -> Index:
        """Columns of a sparse X that vary little around a value far from zero.

        Their scatter is the difference of two large sums, most of which cancels. Make such columns
        dense and centre them.
        """
        raw, scatter = self._raw_and_scatter(X)
        return np.flatnonzero((raw > 0) & (scatter < 1e-4 * raw))

    def squares(self, X: Any) -> Array:
        return self._raw_and_scatter(X)[1].clip(min=0.0)

    def _raw_and_scatter(self, X: Any) -> tuple[Array, Array]:
        """Sums of squares of the columns of a sparse X, as they are and of differences."""
        squares = X.multiply(X)
        raw = np.asarray(squares.T @ self._diagonal).ravel()
        scatter = raw.copy()
        for indicator, coefficient in self._low_rank():
            sums = indicator.T @ X
            scatter += np.asarray(sums.multiply(sums).T @ coefficient).ravel()
        return raw, scatter

    def take(self, rows: Any) -> QueryGraph:
        rows = np.arange(self.n_rows)[rows]
        level, groups = self.level_of_row[rows], self.groups.take(rows)
        return QueryGraph.build(
            level, groups, n_rows=None, ties=self.ties, weighting=self.weighting
        )

    def pairs(self, block_size: int = 65536) -> Iterator[PairBlock]:
        for q in range(len(self.groups.sizes)):
            levels = self.level_ptr[self.query_ptr[q] : self.query_ptr[q + 1] + 1]
            rows = self.rows[levels[0] : levels[-1]]
            level = np.repeat(np.arange(len(levels) - 1), np.diff(levels))
            step = max(1, block_size // max(len(rows), 1))
            for start in range(0, len(rows), step):
                i, j = np.nonzero(
                    np.arange(start, min(start + step, len(rows)))[:, None] < np.arange(len(rows))
                )
                i += start
                if self.ties == "exclude":
                    differ = level[i] != level[j]
                    i, j = i[differ], j[differ]
                if len(i):
                    first, second = np.minimum(rows[i], rows[j]), np.maximum(rows[i], rows[j])
                    weight = np.full(len(i), self.pair_weight[q])
                    if self.row_weights is not None:
                        weight *= self.row_weights[first] * self.row_weights[second]
                    yield PairBlock(first, second, weight)


def _sort_into_levels(groups: QueryGroups, y: Array) -> tuple[Index, Index, Index]:
    """`rows`, `level_ptr` and `query_ptr` of a graph without ties."""
    rows = np.lexsort((y, groups.codes))
    query, label = groups.codes[rows], y[rows]
    new_level = np.ones(len(rows), dtype=bool)
    new_level[1:] = (query[1:] != query[:-1]) | (label[1:] != label[:-1])
    starts = np.flatnonzero(new_level)
    level_ptr = np.append(starts, len(rows)).astype(np.intp)
    n_levels = np.bincount(query[starts], minlength=groups.n_groups)
    query_ptr = np.concatenate(([0], np.cumsum(n_levels))).astype(np.intp)
    return rows.astype(np.intp, copy=False), level_ptr, query_ptr


def pair_weight(weighting: str, n_rows: Any, n_pairs: Any) -> Any:
    """The weight of a pair in a query with `n_rows` rows and `n_pairs` pairs that count.

    If rows have weights, these are sums of the weights of rows and pairs.
    """
    size = {"pairs": np.ones_like(n_rows), "rows": n_rows, "queries": n_pairs}[weighting]
    return 1.0 / np.where(np.asarray(size) > 0, size, 1)


def indicator(codes: Index, n_columns: int, values: Array | None = None) -> Any:
    """The sparse matrix with a one, or another value, at (i, codes[i])."""
    n = len(codes)
    values = np.ones(n) if values is None else values
    return sp.csr_array((values, codes, np.arange(n + 1)), shape=(n, n_columns))


def _sums(codes: Index, values: Array, n: int) -> Array:
    """The sum of the values with each code."""
    return np.asarray(np.bincount(codes, values, minlength=n), dtype=np.float64)


def _reciprocal(values: Array) -> Array:
    """1 / values, and 0 for 0."""
    return np.divide(1.0, values, out=np.zeros_like(values), where=values > 0)


def level_of_row(rows: Index, level_ptr: Index) -> Index:
    """The level of each row; level l has the rows ``rows[level_ptr[l]:level_ptr[l + 1]]``."""
    level = np.empty(len(rows), dtype=np.intp)
    level[rows] = np.repeat(np.arange(len(level_ptr) - 1), np.diff(level_ptr))
    return level


def combine_weighted(
    X: Array, weights: Array, level: Index, group_of_level: Index, a: Array, b: Array
) -> Array:
    """a_l (x_i - mean_l) + b_g (mean_l - mean_g), with means in which row i has a weight.

    `level` has the level l of each row, and `group_of_level` the group g of each level; every group
    has rows. Like `rankwise.backends.group_loops` with weights, in a few passes over X.
    """
    on, n_levels, n_groups = backend_of(X), len(a), len(b)
    group = group_of_level[level]
    first = np.empty(n_groups, dtype=np.intp)
    first[group[::-1]] = np.arange(len(X))[::-1]
    # Relative to a row of the group: features that are constant in it become exactly 0.
    X = X - X[first][group]
    of_level = np.bincount(level, weights, minlength=n_levels)
    of_group = np.bincount(group_of_level, of_level, minlength=n_groups)
    sums = on.group_sums(level, n_levels, row_scale(weights, X))
    means = row_scale(1.0 / of_level, sums)
    group_means = row_scale(1.0 / of_group, on.group_sums(group_of_level, n_groups, sums))
    X -= means[level]
    combined: Array = row_scale(a[level], X)
    if n_levels > n_groups:  # otherwise the means of levels are the means of groups
        combined += row_scale(b[group_of_level], means - group_means[group_of_level])[level]
    return combined


PAIRS_TOGETHER = 2**14  # whose differences of sparse rows are in memory


@dataclass(frozen=True, eq=False, repr=False)
class ComparisonGraph(PreferenceGraph):
    """Comparisons between rows, each with a weight w and a margin.

    With B the incidence matrix (1 at the preferred row of a pair, -1 at the other),
    L = B' diag(w) B and the right-hand side is B' diag(w) margin.

    The root is diag(sqrt w) B, with a row per comparison; or, if there are more comparisons than
    rows, the pivoted Cholesky factor of L, with at most one row per row of X.

    Attributes
    ----------
    n_rows : int
    first, second : ndarray of shape (n_pairs,)
        The preferred and the other row of each pair.
    margin : ndarray of shape (n_pairs,) or (n_pairs, n_outputs)
    weight : ndarray of shape (n_pairs,)
    context : ndarray of shape (n_pairs, n_columns) or None
        Features of the comparisons themselves. Each column is a further row of the graph, after
        the rows of X, and B has its values there: B F is then the differences of features plus the
        context, if the features of these rows are unit vectors (see `ContextSpace`).
    group_of_pair : ndarray of shape (n_pairs,) or None
        The group of each comparison, numbered from 0, if whole groups are to be held out.
    """

    n_rows: int
    first: Index
    second: Index
    margin: Array
    weight: Array
    context: Array | None = None
    group_of_pair: Index | None = None
    groups = None

    @classmethod
    def of(cls, n_rows: int, given: Comparisons, context: Array | None = None) -> ComparisonGraph:
        """Checked comparisons of this many rows, with scaled context columns."""
        first, second = given.pairs.T.copy()
        n_rows += 0 if context is None else context.shape[1]
        groups = None if given.groups is None else QueryGroups.of(given.groups).codes
        return cls(n_rows, first, second, given.margin, given.weight, context, groups)

    def with_context_columns(self) -> ComparisonGraph:
        """With a comparison of weight 0 and margin 0 as the unit of each context column."""
        assert self.context is not None
        n, none = self.context.shape[1], np.zeros(self.context.shape[1], dtype=np.intp)
        return replace(
            self,
            first=np.append(self.first, none),
            second=np.append(self.second, none),
            margin=np.concatenate((self.margin, np.zeros((n, *self.margin.shape[1:])))),
            weight=np.append(self.weight, np.zeros(n)),
            context=np.vstack((self.context, np.eye(n))),
            group_of_pair=None,
        )

    @property
    def n_pairs(self) -> int:
        return int(np.count_nonzero(self.weight))

    @property
    def n_root_rows(self) -> int:
        return len(self.first)

    @property
    def n_items(self) -> int:
        """The number of rows of X, which the context columns follow."""
        return self.n_rows - (0 if self.context is None else self.context.shape[1])

    @property
    def compared(self) -> QueryGroups:
        """One group of all rows of X; each context column is alone."""
        return QueryGroups.of((np.arange(self.n_rows) - self.n_items + 1).clip(min=0))

    @property
    def degrees(self) -> Array:
        both = np.concatenate((self.first, self.second))
        weights = np.tile(self.weight, 2)
        found = np.bincount(both, weights, self.n_rows).astype(np.float64)
        if self.context is not None:
            found[self.n_items :] = self.weight @ self.context**2
        return found

    @cached_property
    def incidence(self) -> Any:
        """B, sparse, of shape (n_pairs, n_rows)."""
        n = len(self.first)
        values = np.tile([1.0, -1.0], n)
        columns = np.column_stack((self.first, self.second)).ravel()
        ends = np.arange(0, 2 * n + 1, 2)
        differences = sp.csr_array((values, columns, ends), shape=(n, self.n_items))
        if self.context is None:
            return differences
        return sp.hstack((differences, sp.csr_array(self.context)), format="csr")

    @cached_property
    def laplacian(self) -> Any:
        """L, sparse, of shape (n_rows, n_rows): repeated pairs are merged."""
        return (self.incidence.T @ row_scale(self.weight, self.incidence)).tocsr()

    @cached_property
    def _cholesky(self) -> CholeskyRoot | None:
        """The root with fewer rows than B, if there are more comparisons than rows."""
        return CholeskyRoot.of(self.laplacian) if len(self.first) > self.n_rows else None

    def __matmul__(self, X: Any) -> Any:
        if is_sparse(X):
            self._check_rows(X)
            return self.laplacian @ X
        on = backend_of(X)
        X = on.array(X)
        self._check_rows(X)
        return on.sparse_product(self.laplacian, X)

    def rhs(self, y: Any = None) -> Array:
        """B' diag(w) margin, or L y if scores are given."""
        if y is not None:
            return super().rhs(y)
        return np.asarray(self.incidence.T @ row_scale(self.weight, self.margin))

    def root(self, X: Any) -> Array:
        on = backend_of(X)
        X = on.array(X)
        if self._cholesky is not None:
            return on.array(on.array(self._cholesky.U) @ X)
        differences = on.sparse_product(self.incidence, X)
        return on.array(row_scale(np.sqrt(self.weight), differences))

    def root_transpose(self, Z: Array) -> Array:
        on = backend_of(Z)
        if self._cholesky is not None:
            return on.array(self._cholesky.U).T @ Z
        return on.sparse_product(self.incidence.T, row_scale(np.sqrt(self.weight), Z))

    def root_kernel(self, K: Array) -> Array:
        return self.root(self.root(K).T)

    def root_target(self, y: Array | None) -> Array:
        if self._cholesky is not None:
            return self._cholesky.target(self.rhs(y))
        on = backend_of(y)
        margin = self.margin if y is None else on.sparse_product(self.incidence, y)
        return on.array(row_scale(np.sqrt(self.weight), margin))

    def root_blocks(self, load: Loader, y: Array | None, max_rows: int) -> Blocks:
        return DifferenceBlocks(self, load, y, max_rows)

    def differences(self, load: Loader, some: Index) -> Array:
        """Rows of B F for some comparisons; ``load(rows)`` returns the features of rows."""
        pairs = np.concatenate((self.first[some], self.second[some]))
        rows, where = np.unique(pairs, return_inverse=True)
        D = _subtract_rows(load(rows), *np.split(where, 2))
        if self.context is not None:
            units = load(np.arange(self.n_items, self.n_rows))
            D += backend_of(D).array(self.context[some]) @ units
        return D

    def stored_differences(self, F: Array, some: Index) -> Array:
        """Rows of B F for some comparisons, with the features of all rows at hand."""
        D = _subtract_rows(F, self.first[some], self.second[some])
        if self.context is not None:
            on = backend_of(D)
            D += on.matmul(on.array(self.context[some]), on.contiguous(F[self.n_items :]))
        return D

    def gram(self, X: Any) -> Array:
        # A product of differences: nothing cancels, unlike in X' (L X).
        Z = row_scale(np.sqrt(self.weight), self.incidence @ X)
        return np.asarray((Z.T @ Z).toarray())

    def squares(self, X: Any) -> Array:
        total = np.zeros(X.shape[1])
        for start in range(0, len(self.first), PAIRS_TOGETHER):
            part = slice(start, start + PAIRS_TOGETHER)
            differences = self.incidence[part] @ X
            total += differences.multiply(differences).T @ self.weight[part]
        return total

    def take(self, rows: Any) -> ComparisonGraph:
        assert self.context is None  # its rows are not rows of X
        rows = np.arange(self.n_rows)[rows]
        position = np.full(self.n_rows, -1, dtype=np.intp)
        position[rows] = np.arange(len(rows))
        first, second = position[self.first], position[self.second]
        kept = (first >= 0) & (second >= 0)
        return ComparisonGraph(
            len(rows), first[kept], second[kept], self.margin[kept], self.weight[kept]
        )

    def to_dense(self) -> Array:
        """L as an array, for tests and small examples: O(n_rows^2) memory."""
        return np.asarray(self.laplacian.toarray())

    def pairs(self, block_size: int = 65536) -> Iterator[PairBlock]:
        """Each comparison as given: `first` is the preferred row."""
        counted = np.flatnonzero(self.weight)
        for start in range(0, len(counted), block_size):
            part = counted[start : start + block_size]
            yield PairBlock(self.first[part], self.second[part], self.weight[part])


@dataclass(frozen=True)
class CholeskyRoot:
    """U with U'U = L; its columns `pivots`, in this order, are upper triangular."""

    U: Array
    pivots: Index

    @classmethod
    def of(cls, laplacian: Any) -> CholeskyRoot:
        factor, pivot, rank, _ = lapack.dpstrf(laplacian.toarray(order="F"), overwrite_a=1)
        U = np.empty((rank, len(pivot)))
        U[:, pivot - 1] = np.triu(factor[:rank])
        return cls(U, pivot[:rank].astype(np.intp) - 1)

    def target(self, rhs: Array) -> Array:
        """The t with U't = rhs, for a right-hand side in the range of L."""
        return solve_triangular(
            self.U[:, self.pivots], rhs[self.pivots], trans="T", check_finite=False
        )


def _subtract_rows(F: Array, first: Index, second: Index) -> Array:
    """F[first] - F[second]."""
    if not backend_of(F).is_host:
        return F[first] - F[second]
    # Indices are valid; "clip" spares NumPy a check that makes it slower.
    D: Array = F.take(first, axis=0, mode="clip")
    with np.errstate(over="ignore"):  # the solver checks for overflow
        D -= F.take(second, axis=0, mode="clip")
    return D


@dataclass(frozen=True, eq=False)
class DifferenceBlocks(Blocks):
    """Blocks of the differences of compared rows, times the roots of the weights."""

    graph: ComparisonGraph
    load: Loader
    y: Array | None
    max_rows: int

    @property
    def n_rows_of_pieces(self) -> list[int]:
        """The number of comparisons of each piece."""
        n = len(self.graph.first)
        return [min(self.max_rows, n - start) for start in range(0, n, self.max_rows)]

    def some(self, which: slice) -> Iterator[tuple[Array, Array]]:
        """The blocks of some pieces."""
        graph, y = self.graph, self.y
        for start in range(0, len(graph.first), self.max_rows)[which]:
            part = np.arange(start, min(start + self.max_rows, len(graph.first)))
            D = graph.differences(self.load, part)
            root_weight = np.sqrt(graph.weight[part])
            margin = (
                graph.margin[part] if y is None else y[graph.first[part]] - y[graph.second[part]]
            )
            t = backend_of(D).array(row_scale(root_weight, margin))
            yield row_scale(root_weight, D), t
