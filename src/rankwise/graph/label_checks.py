"""Checks of labels and weights of rows, and whether there is anything to rank."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, is_sparse
from rankwise.errors import DataError
from rankwise.graph.id_arrays import (
    check_column_names,
    check_real,
    check_unmasked,
    numbers_per_row,
)
from rankwise.graph.query_groups import QueryGroups


def numeric_labels(y: Any) -> Any:
    """Labels as they are, or, if they are text, the numbers that the text represents.

    Raises DataError for other text and for numbers beyond float64, with the first row that has
    them, for the name of a column, for masked entries, dates and sparse arrays, and for data frames
    without columns or with two of the same name.
    """
    if isinstance(y, str):
        raise DataError(
            f"y needs one label per row: got the text {y!r}. Pass the column itself, as in "
            f"y=frame[{y!r}], and leave it out of X."
        )
    if is_sparse(y):
        raise DataError(
            "y is a sparse array: pass y.toarray(), and y.toarray()[:, 0] for one column."
        )
    if hasattr(y, "columns"):
        check_column_names(y, "y")
    check_unmasked("y", y)
    check_real("y", y, allow_complex=True)  # scikit-learn refuses complex numbers
    is_array = any(hasattr(y, name) for name in ("dtype", "columns"))
    array = np.asarray(y) if is_array or isinstance(y, (list, tuple)) else None
    if array is None or array.dtype.kind not in "OSTU":
        return y
    try:
        return array.astype(np.float64)
    except OverflowError:
        row = next(i for i, label in enumerate(array) if not _are_numbers(label))
        raise DataError(f"y is too large for float64 in row {row}: rescale the labels.") from None
    except ValueError:
        row = next(i for i, label in enumerate(array) if not _are_numbers(label))
        raise DataError(
            f"y must have numbers, higher is better: got {str(array[row])!r} in row {row}. Map "
            'labels to numbers, as in [{"bad": 0, "good": 1}[label] for label in y].'
        ) from None
    except TypeError:  # scikit-learn raises the error
        return y


def _are_numbers(labels: Any) -> bool:
    try:
        np.asarray(labels).astype(np.float64)
    except (ValueError, OverflowError):
        return False
    return True


def labels_differ(labels: Any, groups: QueryGroups) -> bool:
    """Whether some query has two different labels, in any column of labels."""
    columns = np.asarray(labels).reshape(groups.n_rows, -1)
    first = columns[groups.order[groups.indptr[:-1]]]
    return bool((columns != first[groups.codes]).any())


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


SMALLEST, LARGEST = 1e-100, 1e100  # so that products neither vanish nor overflow


def check_row_weights(sample_weight: Any, n_rows: int) -> Array:
    """One finite weight per row, at least 0, as a NumPy array."""
    weights = numbers_per_row("sample_weight", sample_weight, n_rows)
    valid = weights >= 0
    if not valid.all():
        row = int(np.argmin(valid))
        raise DataError(
            f"sample_weight must be finite and not negative: got {weights[row]} in row {row}. A "
            "weight of 0 leaves out the row."
        )
    out_of_range = (weights > 0) & ((weights < SMALLEST) | (weights > LARGEST))
    if out_of_range.any():
        row = int(np.argmax(out_of_range))
        raise DataError(
            f"sample_weight must be 0, or from {SMALLEST:g} to {LARGEST:g}: got {weights[row]:g} "
            f"in row {row}. Multiply all weights by a constant."
        )
    return weights
