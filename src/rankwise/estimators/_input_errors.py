"""Errors that name the row and column of a value that scikit-learn refuses, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.arrays import Array, is_sparse
from rankwise.errors import DataError
from rankwise.graph.conversion_checks import check_column_names, is_number
from rankwise.tables import plural

SHOWN = 40  # characters of a text that a message shows


def explain_input(ranker: Any, X: Any, y: Any, error: Exception) -> None:
    """Raise an error that says more than that of scikit-learn, if there is more to say."""
    message = str(error)
    if is_sparse(X):
        columns = []
    else:
        _check_is_table(X)
        columns = _columns(X)
        for name, values in columns:
            _check_numbers(name, values)
    if "Input X contains NaN" in message:
        _raise_place(
            X, columns, np.isnan, "NaN", "missing value",
            "Fill them in, for example with sklearn.impute.SimpleImputer in a pipeline, drop these "
            "rows, or use BoostedRanker, which learns from missing values.",
        )  # fmt: skip
    if "Input X contains infinity" in message:
        advice = "Use finite numbers instead, or drop these rows."
        _raise_place(X, columns, np.isinf, "infinity", "infinite value", advice)
    if "Input y contains" in message:
        _explain_labels(_as_numbers(np.asarray(y)))
    known, given = getattr(ranker, "feature_names_in_", ()), getattr(X, "columns", ())
    if "feature names should match" in message and set(known) <= set(given):
        raise DataError(
            f"{message}Pass the columns of the fit, as in X[list(ranker.feature_names_in_)]."
        )


def _check_is_table(X: Any) -> None:
    """Raise an error for text, for a list of dictionaries, and for rows of different lengths."""
    if isinstance(X, (str, PathLike)):
        raise DataError(
            f"X must have rows of numbers: got {str(X)[:SHOWN]!r}. Read a file first, for example "
            "with rankwise.data.read_letor or rankwise.data.read_table."
        )
    if hasattr(X, "columns"):
        check_column_names(X, "X")
    if not isinstance(X, (list, tuple)) or not X:
        return
    if isinstance(X[0], dict):
        raise DataError(
            "X must have rows of numbers: got dictionaries. Make a data frame of them, as in "
            "pandas.DataFrame(X)."
        )
    if all(isinstance(row, (list, tuple, np.ndarray)) for row in X):
        other = next((i for i, row in enumerate(X) if len(row) != len(X[0])), None)
        if other is not None:
            raise DataError(
                f"All rows of X must have the same length: got {plural(len(X[0]), 'value')} in row "
                f"0, and {len(X[other])} in row {other}."
            )


def _columns(X: Any) -> list[tuple[str, NDArray[Any]]]:
    """Names, or numbers, and values of columns; none of what is not a table."""
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        return [(repr(name), np.asarray(X[name])) for name in X.columns]
    array = np.asarray(X)
    return [(str(k), values) for k, values in enumerate(array.T)] if array.ndim == 2 else []


def _check_numbers(name: str, values: NDArray[Any]) -> None:
    """Raise an error for the first value of a column that is not a number."""
    if values.dtype.kind not in "OSTU":
        return
    for row, value in enumerate(values.tolist()):
        if isinstance(value, (str, bytes)):
            if not is_number(value):
                raise DataError(
                    f"Column {name} of X is text, such as {value[:SHOWN]!r} in row {row}: encode "
                    "it as numbers, for example with sklearn.preprocessing.OneHotEncoder, or drop "
                    "it."
                )
        elif not _is_missing(value):
            try:
                float(value)
            except TypeError:
                raise DataError(
                    f"Column {name} of X must hold numbers: got {type(value).__name__} in row "
                    f"{row}. Make columns of numbers from it, or drop it."
                ) from None
            except OverflowError:
                raise DataError(
                    f"Column {name} of X is too large for float64 in row {row}: divide it by a "
                    "constant."
                ) from None


def _is_missing(value: Any) -> bool:
    """Whether a value is None, or what pandas has instead; NaN is a number."""
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def _as_numbers(values: NDArray[Any]) -> Array:
    """Values of any shape, with NaN where one is missing."""
    if values.dtype.kind != "O":
        return values.astype(np.float64)
    numbers = [np.nan if _is_missing(v) else float(v) for v in values.ravel().tolist()]
    return np.array(numbers).reshape(values.shape)


def _raise_place(
    X: Any,
    columns: list[tuple[str, NDArray[Any]]],
    is_wrong: Callable[[Array], NDArray[np.bool_]],
    what: str,
    noun: str,
    advice: str,
) -> None:
    """Raise an error with the number of wrong values, and the first of them by column."""
    if is_sparse(X):
        cells = X.tocoo()
        wrong = is_wrong(cells.data)
        count, row, name = int(wrong.sum()), cells.row[wrong][0], cells.col[wrong][0]
    else:
        found = [(name, np.flatnonzero(is_wrong(_as_numbers(values)))) for name, values in columns]
        count = sum(len(rows) for _, rows in found)
        name, row = next((name, rows[0]) for name, rows in found if len(rows))
    raise DataError(
        f"Input X contains {what}: {plural(count, noun)}, the first in row {row}, column {name}. "
        f"{advice}"
    )


def _explain_labels(y: Array) -> None:
    """Raise an error with the number of rows whose labels are missing or infinite."""
    missing = np.isnan(y).reshape(len(y), -1).any(axis=1)
    if missing.any():
        raise DataError(
            f"Input y contains NaN: {plural(int(missing.sum()), 'missing label')}, the first in "
            f"row {missing.argmax()}. Drop these rows, or use TransductiveRankRLS, which learns "
            "from rows without labels as well."
        )
    infinite = np.isinf(y).reshape(len(y), -1).any(axis=1)
    raise DataError(
        f"Input y contains infinity: {plural(int(infinite.sum()), 'infinite label')}, the first in "
        f"row {infinite.argmax()}. Use finite numbers instead, or drop these rows."
    )
