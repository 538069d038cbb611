"""Weights of rows: their checks, and the rows that they leave out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, Index, is_tensor
from rankwise.backends.dispatch import as_given
from rankwise.errors import DataError, ParameterError
from rankwise.estimators._device import send_rows
from rankwise.graph import QueryGroups
from rankwise.graph.label_checks import check_row_weights


@dataclass(frozen=True, eq=False)
class KeptRows:
    """The rows with weights above 0, as groups with these weights."""

    rows: Index
    groups: QueryGroups
    n_rows: int

    @classmethod
    def of(cls, ranker: Any, sample_weight: Any, groups: QueryGroups) -> KeptRows:
        """Check the weights of rows, and leave out those of weight 0."""
        weights, n_rows = check_row_weights(sample_weight, groups.n_rows), groups.n_rows
        rows = np.flatnonzero(weights)
        if len(rows) < 2:
            raise DataError(
                f"sample_weight is zero for {n_rows - len(rows)} of {n_rows} rows: at least two "
                "rows must have weights above 0."
            )
        if len(rows) < n_rows and getattr(ranker, "kernel", None) == "precomputed":
            raise DataError(
                f"sample_weight is 0 in row {int(np.argmin(weights > 0))}, and "
                'kernel="precomputed" needs a column for every row: leave out the rows of weight 0 '
                "and their columns."
            )
        return cls(rows, groups.with_row_weights(weights).take(rows), n_rows)

    @property
    def all(self) -> bool:
        """Whether all rows are kept."""
        return len(self.rows) == self.n_rows

    def of_training(self, ranker: Any, X: Any, y: Array, qid: Any) -> tuple[Any, Array, Any]:
        """The validated rows, labels and query ids that are kept."""
        if self.all:
            return X, y, qid
        X = as_given(X)[self.rows]
        X = X if is_tensor(X) else send_rows(X, getattr(ranker, "device", None))
        return X, y[self.rows], None if qid is None else self.groups.names[self.groups.codes]


def refuse_row_weights(ranker: Any) -> ParameterError:
    """The error for rankers without weights of rows."""
    return ParameterError(
        f"{type(ranker).__name__} takes no sample_weight: RankRLS, RLS, SparseRankRLS, "
        "SparseRLS and RankSVM do."
    )
