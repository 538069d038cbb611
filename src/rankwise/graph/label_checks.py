"""Whether there is anything to rank."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwise.errors import DataError
from rankwise.graph.query_groups import QueryGroups


def labels_differ(labels: Any, groups: QueryGroups) -> bool:
    """Whether some query has two different labels, in any column of labels."""
    columns = np.asarray(labels).reshape(groups.n_rows, -1)
    previous = np.concatenate(([0], groups.order[:-1])).astype(np.intp)
    same_query = groups.codes[groups.order] == groups.codes[previous]
    return bool((columns[groups.order] != columns[previous])[same_query].any())


def check_labels_differ(labels: Any, groups: QueryGroups) -> None:
    """Raise an error unless some query has two different labels."""
    if not labels_differ(labels, groups):
        raise nothing_to_rank(groups.n_groups, groups.n_rows)


def nothing_to_rank(n_queries: int, n_rows: int) -> DataError:
    """The error if all rows of each query have the same label."""
    if n_queries == n_rows:
        return DataError(
            f"Every query has a single row ({n_queries} queries): there is no pair to learn from. "
            "Check qid: rows that are ranked together have the same id."
        )
    queries = "query" if n_queries == 1 else "queries"
    return DataError(
        f"No query has two different labels ({n_queries} {queries}, {n_rows} rows): there is no "
        "pair to learn from. Check the label column and qid; rows that are ranked together have "
        "the same id."
    )
