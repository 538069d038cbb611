"""Whether there is anything to rank."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwise.errors import DataError
from rankwise.graph.query_groups import QueryGroups


def check_labels_differ(labels: Any, groups: QueryGroups) -> None:
    """Raise an error unless, in every column of labels, some query has two different ones."""
    columns = np.asarray(labels).reshape(groups.n_rows, -1)[groups.order]
    starts = groups.indptr[:-1]
    differ = np.maximum.reduceat(columns, starts) > np.minimum.reduceat(columns, starts)
    constant = np.flatnonzero(~differ.any(axis=0))
    if len(constant) == 0:
        return
    where = "" if columns.shape[1] == 1 else f" in column {constant[0]} of y"
    queries = "query" if groups.n_groups == 1 else "queries"
    raise DataError(
        f"No query has two different labels{where} ({groups.n_groups} {queries}, "
        f"{groups.n_rows} rows): there is no pair to learn from. Check the labels and qid."
    )
