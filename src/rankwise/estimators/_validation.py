"""Validation of rows and labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from rankwise.backends.arrays import (
    Array,
    Index,
    check_compressed,
    is_sparse,
    is_tensor,
    to_host,
)
from rankwise.backends.dispatch import backend_of
from rankwise.errors import DataError
from rankwise.estimators._device import check_targets, check_tensor, send_rows
from rankwise.graph import QueryGroups
from rankwise.graph.conversion_checks import (
    check_column_names,
    check_real,
    check_unmasked,
    is_number,
)
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
    """scikit-learn's `validate_data`, for an X that can be converted without a loss."""
    _check_cells(X)
    try:
        return validate_data(estimator, X, *y, **options)
    except (TypeError, ValueError) as error:
        _explain_columns(X)
        if "Input X contains NaN" in str(error):
            raise _missing_values(X) from None
        raise


def _check_cells(X: Any) -> None:
    """Refuse what conversions would lose: masks, dates, and numbers outside a sparse matrix."""
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


def _explain_columns(X: Any) -> None:
    """Raise an error that names the column of a data frame that cannot be a feature, if any."""
    if not (hasattr(X, "columns") and hasattr(X, "dtypes")):
        return
    check_column_names(X, "X")
    for name in X.columns:
        values = np.asarray(X[name]).tolist()
        text = [entry for entry in values if isinstance(entry, str) and not is_number(entry)]
        if text:
            raise DataError(
                f"Column {name!r} of X is text, such as {text[0]!r}: encode it as numbers, for "
                "example with sklearn.preprocessing.OneHotEncoder, or drop it."
            )


def _missing_values(X: Any) -> DataError:
    """The error for NaN in X, with their number and the first of them."""
    if is_sparse(X):
        cells = X.tocoo()
        missing = np.isnan(cells.data)
        count, row, column = missing.sum(), cells.row[missing][0], cells.col[missing][0]
    else:
        named = hasattr(X, "columns") and hasattr(X, "dtypes")
        columns = [X[name] for name in X.columns] if named else np.asarray(X).T
        found = [_missing_rows(values) for values in columns]
        count, k = sum(map(len, found)), next(k for k, rows in enumerate(found) if len(rows))
        row, column = found[k][0], repr(X.columns[k]) if named else k
    return DataError(
        f"Input X contains NaN: {count} missing values, the first in row {row}, column {column}. "
        "Fill them in, for example with sklearn.impute.SimpleImputer in a pipeline, drop these "
        "rows, or use BoostedRanker, which learns from missing values."
    )


def _missing_rows(values: Any) -> Index:
    """The rows of a column with NaN, None, or what pandas has instead."""
    column = np.asarray(values)
    if column.dtype.kind == "O":
        column = np.array([np.nan if _is_missing(v) else 0.0 for v in column.tolist()])
    return np.flatnonzero(np.isnan(column.astype(np.float64)))


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)  # NaN is not itself
    except TypeError:  # of pandas: NA is neither
        return True


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
