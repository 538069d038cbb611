"""Validation of rows and labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from rankwise.backends.arrays import Array, check_compressed, is_sparse, is_tensor, to_host
from rankwise.backends.dispatch import backend_of
from rankwise.errors import DataError
from rankwise.estimators._device import check_targets, check_tensor, send_rows
from rankwise.estimators._input_errors import explain_input
from rankwise.graph import QueryGroups
from rankwise.graph.conversion_checks import check_real, check_unmasked
from rankwise.graph.label_checks import numeric_labels
from rankwise.graph.query_groups import check_ids
from rankwise.problem.memory import check_columns_fit

DTYPES = (np.float64, np.float32)


def check_training(
    estimator: Any, X: Any, y: Any, *, reset: bool = True, min_rows: int = 2
) -> tuple[Any, Array]:
    """Validated training rows and labels; with `reset`, fitted attributes are removed."""
    if reset:
        forget(estimator)
    if is_tensor(X):
        X = check_tensor(estimator, X, reset=reset, min_rows=min_rows)
        return X, check_targets(y, backend_of(X), X.shape[0])
    options = {"accept_sparse": "csr", "dtype": DTYPES, "ensure_min_samples": min_rows}
    y = numeric_labels(to_host(y))
    X, y = validated(estimator, X, y, reset=reset, multi_output=True, y_numeric=True, **options)
    if is_sparse(X):
        check_columns_fit(X)
    X = send_rows(X, estimator.device)
    return X, backend_of(X).array(y)


def check_rows(estimator: Any, X: Any, *, reset: bool = False, min_rows: int = 1) -> Any:
    """Validated rows without labels; with `reset`, fitted attributes are removed."""
    if reset:
        forget(estimator)
    if is_tensor(X):
        return check_tensor(estimator, X, reset=reset, min_rows=min_rows)
    options = {"accept_sparse": "csr", "dtype": DTYPES, "ensure_min_samples": min_rows}
    X = validated(estimator, X, reset=reset, **options)
    if reset and is_sparse(X):
        check_columns_fit(X)
    return send_rows(X, estimator.device)


def validated(estimator: Any, X: Any, *y: Any, **options: Any) -> Any:
    """scikit-learn's `validate_data`, for an X that can be converted without a loss.

    Sparse rows are sorted, without duplicates: SciPy would otherwise sort those of the caller.
    """
    _check_cells(X)
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # of a sum that looks for NaN
            checked = validate_data(estimator, X, *y, **options)
        return (_sorted_rows(checked[0]), *checked[1:]) if y else _sorted_rows(checked)
    except (OverflowError, TypeError, ValueError) as error:
        refused = error
    explain_input(estimator, X, y[0] if y else None, refused)
    raise refused


def _sorted_rows(X: Any) -> Any:
    """Rows as they are, or a copy of sparse rows that have duplicates or are not sorted."""
    if not is_sparse(X) or X.has_canonical_format:
        return X
    X = X.copy()
    X.sum_duplicates()
    return X


def _check_cells(X: Any) -> None:
    """Refuse lazy frames, and what conversions would lose: masks, dates, damaged sparse rows."""
    if hasattr(X, "collect"):
        raise DataError("X is a lazy data frame: pass X.collect().")
    check_unmasked("X", X)
    check_real("X", X, allow_complex=True)  # scikit-learn refuses complex numbers
    if is_sparse(X) and X.format in ("csr", "csc", "coo"):
        try:
            if X.format != "coo":
                check_compressed(X)
            elif X.nnz and any(
                int(numbers.min()) < 0 or int(numbers.max()) >= n
                for numbers, n in zip((X.row, X.col), X.shape, strict=True)
            ):
                raise ValueError("row or column numbers outside its shape")
        except ValueError as error:
            raise DataError(f"X is a damaged sparse matrix: {error}.") from None


def check_new_ids(qid: Any, X: Any) -> None:
    """Check qid of new rows, for a ranker that need not know them."""
    if qid is not None:
        check_ids(to_host(qid), X.shape[0])


def query_groups(qid: Any, n_rows: int, query_weight: Any) -> QueryGroups:
    """The rows of each query, with the weights of queries if there are any."""
    groups = QueryGroups.of(qid, n_rows)
    if query_weight is None:
        return groups
    if groups.n_groups == 1:
        raise DataError(
            "query_weight needs at least two queries: got one. It says how much queries count "
            "relative to each other. Pass qid=, or leave query_weight out."
        )
    return groups.weighted(to_host(query_weight))


def forget(estimator: Any) -> None:
    """Remove all fitted attributes, so that a failed fit does not leave an old model."""
    for name in [name for name in vars(estimator) if name.endswith("_")]:
        delattr(estimator, name)
