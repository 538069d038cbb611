"""Which rows can be held out: pairs of the same stratum, such as a hospital or a batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.errors import DataError, ParameterError
from rankwise.graph import QueryGroups


def check_two_rows(labels: Array) -> None:
    """With the only row of one of two labels held out, the others say nothing about the order."""
    counts = np.unique(labels, return_counts=True)[1]
    if len(counts) == 2 and counts.min() < 2:
        raise DataError(
            "A label with a single row cannot be held out and learned: add rows of this label."
        )


def pairs_within(strata: Any, qid: Any, n_rows: int) -> Index:
    """All pairs of rows of the same stratum, as row numbers of shape (n_pairs, 2)."""
    if qid is not None:
        raise ParameterError(
            "Give strata or qid, not both: with qid, pairs are held out within queries."
        )
    parts = [
        rows[np.column_stack(np.triu_indices(len(rows), 1))]
        for rows in QueryGroups.of(strata, n_rows)
        if len(rows) > 1
    ]
    if not parts:
        raise DataError("No stratum has two rows: there is no pair to hold out.")
    return np.concatenate(parts)
