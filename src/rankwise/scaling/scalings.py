"""Scalings of features as values: what was done to training rows can be done to others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import scipy.sparse as sp

from rankwise.backends.arrays import Array, is_sparse
from rankwise.backends.backend import Backend
from rankwise.backends.dispatch import backend_of
from rankwise.errors import DataError
from rankwise.graph.query_groups import QueryGroups
from rankwise.scaling.column_statistics import ColumnStatistics
from rankwise.scaling.sparse_cells import SparseCells


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

    A feature that is constant within a query becomes 0 there. Of sparse rows, all values of a
    feature in a query are stored if one of them is: they are the same numbers as for dense rows.

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
    """The rank of each value among those of its query, from -1/2 (smallest) to 1/2 (largest).

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

        `names` are those of features, for the error if a standard deviation overflows.
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
        for start in range(0, len(out), step):  # in float64, some rows at a time
            rows = slice(start, start + step)
            out[rows] = on.cast((on.rows(X, rows) - mean) / deviation, X.dtype)
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

_Cells = Callable[[Backend, Any, Any, Any], None]


def _minmax(on: Backend, X: Any, rows: Any, ptr: Any) -> None:
    _check_range(on.minmax_groups(X, rows, ptr), X.dtype)


def _standardize(on: Backend, X: Any, rows: Any, ptr: Any) -> None:
    _minmax(on, X, rows, ptr)
    on.standardize_groups(X, rows, ptr)


def _rank(on: Backend, X: Any, rows: Any, ptr: Any) -> None:
    on.rank_groups(X, rows, ptr)


def _scale_dense(scale: _Cells, X: Any, groups: QueryGroups) -> Any:
    on = backend_of(X)
    out = on.copy(X)
    scale(on, out, groups.order, groups.indptr)
    return out


def _scale_cells(scale: _Cells, X: Any, groups: QueryGroups) -> Any:
    """Scale dense rows, or each cell of sparse rows as if it were a column of its own."""
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
