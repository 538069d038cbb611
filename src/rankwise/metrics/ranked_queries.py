"""The input of every metric: checked, grouped by query, and sorted by score."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rankwise.errors import DataError
from rankwise.graph.query_groups import QueryGroups

Array: TypeAlias = NDArray[np.float64]

_LARGEST_EXACT = 2**53  # float64 holds every whole number up to here


@dataclass(frozen=True, eq=False)
class RankedQueries:
    """The labels of each query in the order of the scores.

    Attributes
    ----------
    groups : QueryGroups
        The queries; ``labels[groups.indptr[g]:groups.indptr[g + 1]]`` is query g.
    labels : ndarray of shape (n_rows,)
        Query by query, best score first; rows with equal scores in the order of the input.
    tied : ndarray of bool, shape (n_rows,)
        Whether a row has the same score as the row before it in its query.
    """

    groups: QueryGroups
    labels: Array
    tied: NDArray[np.bool_]

    @classmethod
    def of(cls, y: Any, scores: Any, qid: Any = None) -> RankedQueries:
        """Check the input and sort the rows of each query, O(n log n)."""
        from rankwise.metrics._merge_sort import rank_rows

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

    @cached_property
    def pair_counts(self) -> NDArray[np.int64]:
        """Numbers of pairs of each query, shape (n_queries, 5).

        The columns: all pairs, discordant, tied in the labels, tied in the scores, tied in both.
        """
        from rankwise.metrics._merge_sort import count_pairs

        counts = count_pairs(self.labels.view(np.int64), self.tied, self.groups.indptr)
        sizes = self.groups.sizes.astype(np.int64)
        return np.column_stack((sizes * (sizes - 1) // 2, counts))


def as_column(values: Any, name: str) -> Array:
    """One finite float64 per row, in an array that compiled code accepts.

    Takes lists, arrays of any real dtype and columns of pandas or polars; a column of shape
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
    if column.dtype.kind in "iu" and len(column) and _exceeds_float64(column):
        raise DataError(
            f"{name} has whole numbers beyond 2**53, which float64 cannot tell apart: "
            "subtract the smallest of them, or use their ranks."
        )
    if column.dtype.kind not in "biuf":
        column = _parse_objects(column, name)
    column = np.require(column, np.float64, ["C", "W"])
    finite = np.isfinite(column)
    if not finite.all():
        row = int(np.argmin(finite))
        raise DataError(
            f"{name} is {column[row]} in row {row} ({int((~finite).sum())} rows are not finite): "
            "drop these rows or fill them in."
        )
    return column


def _exceeds_float64(column: NDArray[Any]) -> bool:
    return int(column.max()) > _LARGEST_EXACT or int(column.min()) < -_LARGEST_EXACT


def _parse_objects(column: NDArray[Any], name: str) -> Array:
    """Numbers from an array of objects; an error for anything else."""
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
