"""What every metric starts from: checked input, grouped by query, best score first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rankwise.errors import DataError, ParameterError, UndefinedMetricError
from rankwise.graph.query_groups import QueryGroups

Array: TypeAlias = NDArray[np.float64]
Undefined: TypeAlias = float | Literal["skip", "raise"]

_EXACT = 2**53  # every whole number up to here is a float64


@dataclass(frozen=True, eq=False)
class QueryValues:
    """One value per query.

    Attributes
    ----------
    qid : ndarray of shape (n_queries,)
        The query ids, in the order in which they first appear. Queries that were left out
        (``undefined="skip"``) are not among them.
    values : ndarray of shape (n_queries,) or (n_queries, n_cutoffs)
        The metric; never NaN. A column per cut-off where `k` was a sequence.
    """

    qid: NDArray[Any]
    values: Array

    def __len__(self) -> int:
        return len(self.qid)


@dataclass(frozen=True, eq=False)
class Ranking:
    """The labels of every query in the order of the scores.

    Attributes
    ----------
    groups : QueryGroups
        The queries; ``labels[groups.indptr[g]:groups.indptr[g + 1]]`` is query g.
    labels : ndarray of shape (n_rows,)
        Query after query, best score first; rows with equal scores in the order of the input.
    tied : ndarray of bool, shape (n_rows,)
        Whether a row has the score of the row before it in its query.
    """

    groups: QueryGroups
    labels: Array
    tied: NDArray[np.bool_]

    @classmethod
    def of(cls, y: Any, scores: Any, qid: Any = None) -> Ranking:
        """Check the input and sort the rows of every query, O(n log n)."""
        from rankwise.metrics._sorting import rank_rows

        labels = as_column(y, "y")
        values = as_column(scores, "scores")
        if len(values) != len(labels):
            raise DataError(
                f"scores needs one entry per row of y: got {len(values)} for {len(labels)} rows."
            )
        if not len(labels):
            raise DataError("There are no rows to evaluate: y is empty.")
        groups = QueryGroups.of(qid, len(labels))
        ranked, tied = rank_rows(labels, values.view(np.int64), groups.order, groups.indptr)
        return cls(groups, ranked, tied)


def as_column(values: Any, name: str) -> Array:
    """One finite float64 per row, in an array that compiled code can take.

    Lists, arrays of any real dtype and pandas or polars columns will do; a column of shape
    (n, 1) is flattened.
    """
    if np.ma.is_masked(values):
        raise DataError(f"{name} has masked entries: drop these rows or fill them in.")
    column = np.asarray(values)
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim != 1:
        raise DataError(
            f"{name} needs one number per row, in one dimension: got shape {column.shape}."
        )
    if column.dtype.kind in "iu" and len(column) and _beyond_exact(column):
        raise DataError(
            f"{name} has whole numbers beyond 2**53, which float64 cannot tell apart: "
            "subtract their smallest, or give their ranks."
        )
    if column.dtype.kind not in "biuf":
        column = _parse(column, name)
    column = np.require(column, np.float64, ["C", "W"])
    finite = np.isfinite(column)
    if not finite.all():
        row = int(np.argmin(finite))
        raise DataError(
            f"{name} is {column[row]} in row {row} ({int((~finite).sum())} rows are not finite): "
            "drop these rows or fill them in."
        )
    return column


def _beyond_exact(column: NDArray[Any]) -> bool:
    return int(column.max()) > _EXACT or int(column.min()) < -_EXACT


def _parse(column: NDArray[Any], name: str) -> Array:
    """Numbers that came as objects; anything else is refused."""
    if column.dtype.kind == "O":
        try:
            return column.astype(np.float64)
        except (TypeError, ValueError):
            pass
        for row, value in enumerate(column):
            try:
                float(value)
            except (TypeError, ValueError):
                raise DataError(
                    f"{name} is not a number in row {row}: got {value!r}. "
                    "Drop such rows or fill them in."
                ) from None
    raise DataError(f"{name} needs one real number per row: got dtype {column.dtype}.")


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Refuse a name that is not among the choices."""
    if not isinstance(value, str) or value not in choices:
        listed = ", ".join(repr(c) for c in choices)
        raise ParameterError(f"{name} must be one of {listed}: got {value!r}.")


def check_undefined(undefined: Any) -> None:
    """Refuse what says nothing about queries without a value."""
    if isinstance(undefined, str) and undefined in ("skip", "raise"):
        return
    number = isinstance(undefined, (int, float, np.integer, np.floating))
    if not number or isinstance(undefined, bool) or not np.isfinite(undefined):
        raise ParameterError(
            "undefined must be 'skip', 'raise' or the number that a query without a value counts "
            f"as: got {undefined!r}."
        )


def check_cutoffs(k: Any) -> NDArray[np.int64]:
    """Cut-offs as an array of whole numbers, each at least 1."""
    cutoffs = np.atleast_1d(np.asarray(k))
    if (
        cutoffs.ndim != 1
        or not len(cutoffs)
        or cutoffs.dtype.kind not in "iu"
        or int(cutoffs.min()) < 1
    ):
        raise ParameterError(f"k must be a whole number of at least 1, or several: got {k!r}.")
    return cutoffs.astype(np.int64)


def settle(
    ranking: Ranking, values: Array, undefined: Undefined, *, metric: str, lacks: str
) -> QueryValues:
    """Decide what queries without a value (NaN) contribute.

    `lacks` completes the sentence "query 7 has ..." for a query where the metric is not defined.
    """
    names = ranking.groups.names
    missing = np.isnan(values if values.ndim == 1 else values[:, 0])
    if not missing.any():
        return QueryValues(names, values)
    if undefined == "raise":
        raise UndefinedMetricError(
            f"{metric} is not defined for query {names[np.argmax(missing)]} "
            f"({int(missing.sum())} of {len(names)} queries): it has {lacks}. Leave such queries "
            "out with undefined='skip', or give them a value, as in undefined=0.0."
        )
    if undefined == "skip":
        if missing.all():
            raise UndefinedMetricError(
                f"{metric} is not defined for any of the {len(names)} queries: each has {lacks}. "
                "Check y and qid, or give such queries a value, as in undefined=0.0."
            )
        return QueryValues(names[~missing], values[~missing])
    filled = values.copy()
    filled[missing] = float(undefined)
    return QueryValues(names, filled)


def mean(result: QueryValues) -> float:
    """The mean over queries."""
    return float(result.values.mean())


def at_cutoffs(result: QueryValues, k: Any, per_query: bool) -> float | Array | QueryValues:
    """A column per cut-off where `k` is a sequence, no such axis where it is one number."""
    if k is None or np.ndim(k) == 0:
        result = QueryValues(result.qid, result.values[:, 0])
        return result if per_query else mean(result)
    if per_query:
        return result
    # column by column, to the last bit what each cut-off gives on its own
    return np.array([column.mean() for column in result.values.T])
