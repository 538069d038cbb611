"""Scalings of features as values, and the statistics of columns and cells that they need."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from operator import add
from typing import Any, ClassVar, Protocol

import numpy as np
import scipy.sparse as sp

from rankwise.backends.arrays import Array, Backend, Index, as_given, backend_of, is_sparse, to_host
from rankwise.backends.parallel import even_parts, map_in_threads, threads_for
from rankwise.errors import DataError
from rankwise.graph.query_groups import QueryGroups

BLOCK_BYTES = 2**21  # of rows at a time, which stay in cache for the second look at them
LEAST_ROWS = 32  # at a time
LONG, FEWEST = 512, 32  # numbers of a long row that NumPy reduces fast, and how many of them


@dataclass(frozen=True, eq=False)
class ColumnStatistics:
    """Range, mean and sum of squared deviations of every feature; adds over blocks of rows.

    Zeros of sparse rows that are not stored count as values. If rows have weights, `n_rows` is the
    sum of these.

    Examples
    --------
    >>> import numpy as np
    >>> halves = [ColumnStatistics.of(np.array(rows)) for rows in ([[1.0], [3.0]], [[5.0]])]
    >>> both = halves[0] + halves[1]
    >>> both.n_rows, both.mean, both.deviation.round(3)
    (3, array([3.]), array([1.633]))
    """

    n_rows: float
    low: Array
    high: Array
    mean: Array
    squares: Array

    @classmethod
    def of(cls, X: Any, weights: Array | None = None) -> ColumnStatistics:
        """The statistics of at least one row, as NumPy arrays; rows may have weights."""
        X = as_given(X)
        if is_sparse(X):
            return cls._of_sparse(X.tocsr(), weights)
        on = backend_of(X)
        step = max(LEAST_ROWS, on.block_bytes(BLOCK_BYTES) // (8 * max(X.shape[1], 1)))

        @np.errstate(over="ignore", invalid="ignore")
        def of_rows(start: int) -> ColumnStatistics:
            block = on.rows(X, slice(start, start + step))
            if weights is None:
                n: float = len(block)
                mean = _reduced(on.xp.sum, block) / n
                gaps = block - mean
                gaps *= gaps
                squares = _reduced(on.xp.sum, gaps)
            else:
                of_row = on.array(weights[start : start + step])
                n = float(of_row.sum())
                mean = (of_row / n) @ block
                squares = of_row @ (block - mean) ** 2
            low, high = (_reduced(extreme, block) for extreme in (on.xp.amin, on.xp.amax))
            parts = (low, high, mean, squares)
            return cls(n, *(np.asarray(to_host(part)) for part in parts))

        threads = threads_for(X.shape[0] * X.shape[1]) if on.is_host else 1
        found = map_in_threads(of_rows, range(0, X.shape[0], step), threads)
        return reduce(add, found)

    @classmethod
    def _of_sparse(cls, X: Any, weights: Array | None) -> ColumnStatistics:
        d, of_rows = X.shape[1], np.ones(X.shape[0]) if weights is None else weights
        n, of_entry = float(of_rows.sum()), np.repeat(of_rows, np.diff(X.indptr))
        low, high = (
            np.asarray(part.toarray(), dtype=np.float64).ravel()
            for part in (X.min(axis=0), X.max(axis=0))
        )
        stored = np.bincount(X.indices, weights=of_entry, minlength=d)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = np.bincount(X.indices, weights=of_entry * X.data, minlength=d) / n
            deviations = of_entry * (X.data - mean[X.indices]) ** 2
            squares = np.bincount(X.indices, weights=deviations, minlength=d)
            return cls(n, low, high, mean, squares + (n - stored) * mean**2)

    def __add__(self, other: ColumnStatistics) -> ColumnStatistics:
        n = self.n_rows + other.n_rows
        with np.errstate(over="ignore", invalid="ignore"):
            gap = other.mean - self.mean
            mean = self.mean + gap * (other.n_rows / n)
            between = gap**2 * (self.n_rows * other.n_rows / n)
            squares = self.squares + other.squares + between
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        return ColumnStatistics(n, low, high, mean, squares)

    @staticmethod
    def without_each(parts: Sequence[ColumnStatistics]) -> Iterator[ColumnStatistics]:
        """The statistics of all parts but one, for each of at least two parts.

        They are sums of what comes before and after. Nothing is subtracted, so the statistics
        without a part with outliers keep all digits.

        Examples
        --------
        >>> import numpy as np
        >>> parts = [ColumnStatistics.of(np.array(x)) for x in ([[1.0]], [[3.0]], [[1e9]])]
        >>> [float(rest.deviation[0]) for rest in ColumnStatistics.without_each(parts)][-1]
        1.0
        """
        after = list(accumulate(reversed(parts[1:]), add))[::-1]
        yield after[0]
        before = parts[0]
        for part, rest in zip(parts[1:], after[1:], strict=False):
            yield before + rest
            before = before + part
        yield before

    def transformed(self, shift: Array, divisor: Array) -> ColumnStatistics:
        """The statistics of ``(X - shift) / divisor``."""
        low, high, mean = (
            (values - shift) / divisor for values in (self.low, self.high, self.mean)
        )
        return ColumnStatistics(self.n_rows, low, high, mean, self.squares / divisor**2)

    @property
    def constant(self) -> Any:
        """Which features have a single value."""
        return self.low == self.high

    @property
    def deviation(self) -> Array:
        """Standard deviation of each feature; exactly 0 where it is constant."""
        return np.where(self.constant, 0.0, np.sqrt(self.squares / self.n_rows))

    @property
    def variance(self) -> float:
        """The variance of all values together, ``X.var()``."""
        between = self.n_rows * (self.mean - self.mean.mean()) ** 2
        return float((self.squares + between).sum() / (self.n_rows * len(self.mean)))


@dataclass(frozen=True, eq=False)
class SparseCells:
    """A cell holds the entries of one feature in one query, if any of them is stored.

    Attributes
    ----------
    X : csr_array
        Rows without duplicates, which may be overwritten.
    order, indptr : ndarray
        ``order[indptr[c]:indptr[c + 1]]`` are the entries of cell c, as positions in ``X.data``.
    of_entry : ndarray of shape (nnz,)
        The cell of each entry.
    query, feature : ndarray of shape (n_cells,)
    incomplete : ndarray of bool, shape (n_cells,)
        Whether some values of the cell are zeros that are not stored.
    """

    X: Any
    order: Index
    indptr: Index
    of_entry: Index
    query: Index
    feature: Index
    incomplete: Any

    @classmethod
    def of(cls, X: Any, groups: QueryGroups) -> SparseCells:
        """Sort the entries by cell: O(z log z) time for z of them."""
        row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        key = groups.codes[row] * X.shape[1] + X.indices
        order = np.argsort(key, kind="stable")
        starts = np.flatnonzero(np.diff(key[order], prepend=-1))
        indptr = np.append(starts, len(key))
        of_entry = np.empty(len(key), dtype=np.intp)
        of_entry[order] = np.repeat(np.arange(len(starts)), np.diff(indptr))
        query, feature = np.divmod(key[order[starts]], max(X.shape[1], 1))
        incomplete = np.diff(indptr) < groups.sizes[query]
        return cls(X, order, indptr, of_entry, query, feature, incomplete)

    def reduce(self, function: np.ufunc) -> Any:
        """np.minimum or np.maximum of the stored entries of each cell."""
        if not len(self.query):
            return np.empty(0, dtype=self.X.dtype)
        return function.reduceat(self.X.data[self.order], self.indptr[:-1])

    def stored(self, cells: Any, groups: QueryGroups) -> SparseCells:
        """With all zeros of these cells stored."""
        if not cells.any():
            return self
        query, feature = self.query[cells], self.feature[cells]
        sizes = groups.sizes[query]
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        row = groups.order[np.repeat(groups.indptr[query], sizes) + within]
        entries = self.X.tocoo()
        values = np.concatenate([entries.data, np.zeros(len(row), dtype=self.X.dtype)])
        rows = np.concatenate([entries.row, row])
        columns = np.concatenate([entries.col, np.repeat(feature, sizes)])
        # Duplicates are added up, and a sum that is zero stays stored.
        X = sp.coo_array((values, (rows, columns)), shape=self.X.shape).tocsr()
        return SparseCells.of(X, groups)


class Scaling(Protocol):
    """Maps rows to scaled rows of the same kind, shape and dtype."""

    name: ClassVar[str]
    #: Whether values of a query depend on its other rows, and on nothing else.
    within_queries: ClassVar[bool]

    def scale(self, X: Any, groups: QueryGroups) -> Any:
        """A scaled copy of rows: a C-ordered array, a CSR array or a tensor."""


@dataclass(frozen=True)
class QueryMinMax:
    """Each feature of each query from 0 to 1: (x - min) / (max - min) over the query's rows.

    A feature that is constant within a query becomes 0 there. Sparse rows stay as they are stored,
    unless a feature has a negative minimum in a query: then all its values in that query are
    stored.

    Examples
    --------
    >>> import numpy as np
    >>> X, groups = np.array([[1.0], [4.0], [2.0], [7.0]]), QueryGroups.of(["a", "a", "a", "b"])
    >>> QueryMinMax().scale(X, groups).ravel().round(3)
    array([0.   , 1.   , 0.333, 0.   ])
    """

    name: ClassVar[str] = "query-minmax"
    within_queries: ClassVar[bool] = True

    def scale(self, X: Any, groups: QueryGroups) -> Any:
        if not is_sparse(X):
            return _scale_dense(_minmax, X, groups)
        cells = SparseCells.of(_csr_copy(X), groups)
        negative = cells.incomplete & (cells.reduce(np.minimum) < 0)
        cells = cells.stored(negative, groups)
        low, high = cells.reduce(np.minimum), cells.reduce(np.maximum)
        low[cells.incomplete] = 0  # as no minimum there is negative
        with np.errstate(over="ignore"):
            span = high - low
        _check_range(bool(np.isfinite(span).all()), span.dtype)
        span[span == 0] = 1
        X = cells.X
        X.data -= low[cells.of_entry]
        X.data /= span[cells.of_entry]
        X.eliminate_zeros()
        return X


@dataclass(frozen=True)
class QueryStandard:
    """Each feature of each query with mean 0 and variance 1: (x - mean) / standard deviation.

    A feature that is constant within a query becomes 0 there. In sparse rows, all values of a
    feature in a query are stored if one of them is: results are the same as for dense rows.

    Examples
    --------
    >>> import numpy as np
    >>> X, groups = np.array([[1.0], [4.0], [2.0], [7.0]]), QueryGroups.of(["a", "a", "a", "b"])
    >>> QueryStandard().scale(X, groups).ravel().round(3)
    array([-1.069,  1.336, -0.267,  0.   ])
    """

    name: ClassVar[str] = "query-standard"
    within_queries: ClassVar[bool] = True

    def scale(self, X: Any, groups: QueryGroups) -> Any:
        return _scale_cells(_standardize, X, groups)


@dataclass(frozen=True)
class QueryRank:
    """The rank of each value within its query, from -1/2 (smallest) to 1/2 (largest).

    Of n rows, ranks are 1 / (n - 1) apart, equal values share the mean of their ranks, and a
    constant feature is 0. Sparse rows are treated as in `QueryStandard`. Unlike other scalings,
    ranks do not change if a feature is replaced by an increasing function of itself.

    Examples
    --------
    >>> import numpy as np
    >>> X, groups = np.array([[1.0], [400.0], [2.0], [7.0]]), QueryGroups.of(["a", "a", "a", "b"])
    >>> QueryRank().scale(X, groups).ravel()
    array([-0.5,  0.5,  0. ,  0. ])
    """

    name: ClassVar[str] = "query-ranks"
    within_queries: ClassVar[bool] = True

    def scale(self, X: Any, groups: QueryGroups) -> Any:
        return _scale_cells(_rank, X, groups)


@dataclass(frozen=True)
class Beside:
    """Rows as they are, and the columns of a scaling beside them.

    Examples
    --------
    >>> import numpy as np
    >>> X, groups = np.array([[1.0], [4.0], [2.0], [7.0]]), QueryGroups.of(["a", "a", "a", "b"])
    >>> Beside(QueryRank()).scale(X, groups)
    array([[ 1. , -0.5],
           [ 4. ,  0.5],
           [ 2. ,  0. ],
           [ 7. ,  0. ]])
    """

    scaling: Scaling

    name: ClassVar[str] = "beside"
    within_queries: ClassVar[bool] = True

    def scale(self, X: Any, groups: QueryGroups) -> Any:
        scaled = self.scaling.scale(X, groups)
        if is_sparse(scaled):
            return sp.hstack([X, scaled], format="csr", dtype=scaled.dtype)
        return backend_of(scaled).xp.hstack((X, scaled))


@dataclass(frozen=True, eq=False)
class ColumnStandard:
    """Each feature with mean 0 and variance 1 over the rows that it was made from.

    Features that are constant there are only shifted. If it was made from sparse rows, values are
    divided but not shifted, as in ``StandardScaler(with_mean=False)``: rows stay sparse. If it was
    made from dense rows, sparse rows become dense.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0], [3.0]])
    >>> scaling = ColumnStandard.of(ColumnStatistics.of(X))
    >>> scaling.scale(np.array([[3.0], [5.0]]), QueryGroups.of(None, 2)).ravel()
    array([1., 3.])
    """

    mean: Array
    deviation: Array

    name: ClassVar[str] = "standard"
    within_queries: ClassVar[bool] = False

    @classmethod
    def of(
        cls,
        statistics: ColumnStatistics,
        *,
        centre: bool = True,
        names: Sequence[str] | None = None,
    ) -> ColumnStandard:
        """From the statistics of some rows; `centre` is False if these are sparse.

        `names` are the names of features, for the error if a standard deviation overflows.
        """
        deviation = statistics.deviation
        if not (np.isfinite(deviation).all() and np.isfinite(statistics.mean).all()):
            column = int(np.argmin(np.isfinite(deviation) & np.isfinite(statistics.mean)))
            raise DataError(
                f"The standard deviation of {shown_feature(column, names)} overflows: divide it by "
                "a constant."
            )
        mean = np.where(statistics.constant, statistics.low, statistics.mean) * centre
        return cls(mean, np.where(deviation == 0, 1.0, deviation))

    def scale(self, X: Any, groups: QueryGroups) -> Any:
        if is_sparse(X) and not self.mean.any():
            X = _csr_copy(X)
            X.data /= self.deviation[X.indices].astype(X.dtype, copy=False)
            return X
        on = backend_of(X)
        mean, deviation = on.array(self.mean), on.array(self.deviation)
        out = on.copy(X.toarray() if is_sparse(X) else X)
        step = max(1, on.block_bytes(2**21) // (8 * max(X.shape[1], 1)))

        def scale_rows(start: int) -> None:  # in float64, some rows at a time
            rows = slice(start, start + step)
            out[rows] = on.cast((on.rows(X, rows) - mean) / deviation, X.dtype)

        threads = threads_for(X.shape[0] * X.shape[1]) if on.is_host else 1
        map_in_threads(scale_rows, range(0, len(out), step), threads)
        return out


def shown_feature(k: int, names: Sequence[str] | None) -> str:
    """Feature k in a message: its name, or its number if features have no names."""
    return f"feature {k}" if names is None else repr(names[k])


QUERY_SCALINGS: dict[str, Scaling] = {
    scaling.name: scaling for scaling in (QueryMinMax(), QueryStandard(), QueryRank())
}
"""The scalings within queries, by name."""

SCALINGS = (*QUERY_SCALINGS, ColumnStandard.name)
"""The names of all scalings."""


def _reduced(reduction: Callable[..., Any], block: Any) -> Any:
    """``reduction(block, axis=0)``, in half the time for few columns: rows are joined first."""
    n, d = block.shape
    joined = LONG // max(d, 1)
    if not isinstance(block, np.ndarray) or d == 1 or joined < 2 or n < FEWEST * joined:
        return reduction(block, axis=0)
    n -= n % joined
    long = reduction(block[:n].reshape(-1, joined * d), axis=0).reshape(joined, d)
    return reduction(np.concatenate((long, block[n:])), axis=0)


_Cells = Callable[[Backend, Any, Any, Any], None]


def _minmax(on: Backend, X: Any, rows: Any, ptr: Any) -> None:
    _check_range(on.minmax_groups(X, rows, ptr), X.dtype)


def _standardize(on: Backend, X: Any, rows: Any, ptr: Any) -> None:
    _minmax(on, X, rows, ptr)
    on.standardize_groups(X, rows, ptr)


def _rank(on: Backend, X: Any, rows: Any, ptr: Any) -> None:
    on.rank_groups(X, rows, ptr)


def _scale_dense(scale: _Cells, X: Any, groups: QueryGroups) -> Any:
    """Scale each query, some queries in each thread."""
    on = backend_of(X)
    out = on.copy(X)
    threads = threads_for(X.shape[0] * X.shape[1]) if on.is_host else 1
    parts = even_parts(groups.sizes.tolist(), threads)
    map_in_threads(
        lambda part: scale(on, out, groups.order, groups.indptr[part.start : part.stop + 1]),
        parts,
        threads,
    )
    return out


def _scale_cells(scale: _Cells, X: Any, groups: QueryGroups) -> Any:
    """Scale dense rows, or each cell of sparse rows as if it were a column."""
    if not is_sparse(X):
        return _scale_dense(scale, X, groups)
    cells = SparseCells.of(_csr_copy(X), groups)
    cells = cells.stored(cells.incomplete, groups)
    X = cells.X
    scale(backend_of(X.data), X.data[:, None], cells.order, cells.indptr)
    X.eliminate_zeros()
    return X


def _csr_copy(X: Any) -> Any:
    rows = sp.csr_array(X, copy=True)
    rows.sum_duplicates()
    return rows


def _check_range(finite: bool, dtype: Any) -> None:
    if not finite:
        raise DataError(
            f"The values of a feature are too far apart for {dtype}: divide it by a constant."
        )
