"""Labelled rows of a search, in any container."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array, check_consistent_length

from rankwise.backends.arrays import Array, Index, is_sparse, is_tensor, to_host
from rankwise.errors import DataError
from rankwise.estimators._validation import explain_labels, explain_rows, query_groups
from rankwise.graph import QueryGroups
from rankwise.graph.id_arrays import as_ids
from rankwise.graph.label_checks import labels_differ, nothing_to_rank, numeric_labels


@dataclass(frozen=True)
class LabelledRows:
    """Rows, their labels, their queries and, if there are any, the weights of these.

    `X` is not converted, since a pipeline may select columns of a data frame by name. `qid` is None
    for one global ranking. `labelled` has the numbers of the rows with labels; None: all rows.
    """

    X: Any
    y: NDArray[Any]
    qid: NDArray[Any] | None
    groups: QueryGroups
    query_weight: NDArray[Any] | None = None
    labelled: Index | None = None

    @classmethod
    def of(
        cls, X: Any, y: Any, qid: Any, query_weight: Any = None, *, unlabelled: bool = False
    ) -> LabelledRows:
        """Check rows and labels; with `unlabelled`, y may be NaN in some rows."""
        if y is None:
            raise DataError("A ranker requires y to be passed, but the target y is None.")
        y, qid = numeric_labels(to_host(y)), to_host(qid)
        y = _checked_labels(y, finite="allow-nan" if unlabelled else True)
        X = as_rows(X)
        check_consistent_length(X, y)
        groups = query_groups(qid, len(y), query_weight)
        rows = np.flatnonzero(~np.isnan(y.reshape(len(y), -1)).any(axis=1)) if unlabelled else None
        given = y if rows is None else y[rows]
        if not labels_differ(given, QueryGroups.of(None, len(given))):  # a regressor compares all
            raise nothing_to_rank(groups.n_groups, len(given))
        ids = None if qid is None else as_ids(qid).ravel()
        weights = None if query_weight is None else np.asarray(to_host(query_weight)).ravel()
        return cls(X, y, ids, groups, weights, None if len(given) == len(y) else rows)

    @property
    def with_labels(self) -> LabelledRows:
        """The labelled rows alone."""
        if self.labelled is None:
            return self
        rows = self.labelled
        return LabelledRows(
            take(self.X, rows), self.y[rows], self.queries(rows), self.groups.take(rows),
            self.weights(rows),
        )  # fmt: skip

    @property
    def labels(self) -> Array:
        """y with a column for each output."""
        return np.asarray(self.y, dtype=np.float64).reshape(len(self.y), -1)

    def __len__(self) -> int:
        return len(self.y)

    def queries(self, rows: Index) -> NDArray[Any] | None:
        """The query ids of rows, None for one global ranking."""
        return None if self.qid is None else self.qid[rows]

    def weights(self, rows: Index) -> NDArray[Any] | None:
        """The weights of the queries of rows, None if they have none."""
        return None if self.query_weight is None else self.query_weight[rows]


def _checked_labels(y: Any, *, finite: bool | str) -> NDArray[Any]:
    """Labels as an array; errors have the first row whose label cannot be used."""
    options = {"ensure_2d": False, "ensure_min_samples": 2, "input_name": "y"}
    try:
        return np.asarray(check_array(y, ensure_all_finite=finite, **options))
    except ValueError as error:
        refused = error
    explain_labels(y, refused)
    raise refused


def as_rows(X: Any) -> Any:
    """Arrays and data frames as they are, sparse rows as CSR, and all else as an array of rows."""
    if is_sparse(X):
        return X.tocsr()
    if is_tensor(X) or hasattr(X, "iloc") or hasattr(X, "columns"):
        return X
    try:
        rows = X if isinstance(X, np.ndarray) else np.asarray(X)
        if rows.ndim > 0:
            return rows
        refused: Exception = DataError(
            f"X must have rows of numbers: got a {type(X).__name__}. Pass a list of rows, an array "
            "or a data frame."
        )
    except (TypeError, ValueError) as error:
        refused = error
    explain_rows("X", X, refused)
    raise refused


def take(X: Any, rows: Index, columns: Index | None = None) -> Any:
    """Rows of an array, sparse array or data frame, and columns of a kernel matrix."""
    if hasattr(X, "iloc"):
        return X.iloc[rows] if columns is None else X.iloc[rows, columns]
    if columns is not None:
        return X[rows][:, columns]
    if hasattr(X, "columns") and hasattr(X, "take"):  # a pyarrow table
        return X.take(rows)
    return X[rows]
