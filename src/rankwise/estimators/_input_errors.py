"""Errors that name the row and column of a value that scikit-learn refuses, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.arrays import Array, is_sparse
from rankwise.errors import DataError
from rankwise.graph.conversion_checks import check_column_names, is_number
from rankwise.tables import plural

ENCODER = "sklearn.preprocessing.OneHotEncoder"
VECTORIZER = "sklearn.feature_extraction.text.TfidfVectorizer"
BOOSTED = "use BoostedRanker, which learns from missing values."
SHOWN = 40  # characters of a text that a message shows


def explain_input(ranker: Any, X: Any, y: Any, error: Exception) -> None:
    """Raise an error that says more than that of scikit-learn, if there is more to say."""
    explain_rows("X", X, error)
    explain_labels(y, error)
    known, given = getattr(ranker, "feature_names_in_", ()), getattr(X, "columns", ())
    if "feature names should match" in str(error) and set(known) <= set(given):
        raise DataError(
            f"{error}Pass the columns of the fit, as in X[list(ranker.feature_names_in_)]."
        )


def explain_rows(what: str, X: Any, error: Exception, encoder: str = ENCODER) -> None:
    """`explain_input` for rows that messages call `what`; `encoder` makes numbers of text."""
    columns = []
    if not is_sparse(X):
        _check_is_table(what, X)
        columns = _columns(X)
        for name, values in columns:
            _check_numbers(f"Column {name} of {what}", values, encoder)
    if f"Input {what} contains NaN" in str(error):
        advice = "Fill them in, for example with sklearn.impute.SimpleImputer"
        advice += f" in a pipeline, drop these rows, or {BOOSTED}" if what == "X" else "."
        _raise_place(what, X, columns, np.isnan, "NaN", "missing value", advice)
    if f"Input {what} contains infinity" in str(error):
        advice = "Use finite numbers instead, or drop these rows."
        _raise_place(what, X, columns, np.isinf, "infinity", "infinite value", advice)


def explain_labels(y: Any, error: Exception) -> None:
    """Raise an error with the number of missing or infinite labels, if scikit-learn found some."""
    if "Input y contains" not in str(error):
        return
    labels = _as_numbers(np.asarray(y)).reshape(len(y), -1)
    missing = np.isnan(labels).any(axis=1)
    if missing.any():
        raise DataError(
            f"Input y contains NaN: {plural(int(missing.sum()), 'missing label')}, the first in "
            f"row {missing.argmax()}. Drop these rows, or use TransductiveRankRLS, which learns "
            "from rows without labels as well."
        )
    infinite = np.isinf(labels).any(axis=1)
    raise DataError(
        f"Input y contains infinity: {plural(int(infinite.sum()), 'infinite label')}, the first in "
        f"row {infinite.argmax()}. Use finite numbers instead, or drop these rows."
    )


def _check_is_table(what: str, X: Any) -> None:
    """Raise an error for what has no rows, or has rows of text or of different lengths."""
    if isinstance(X, (str, PathLike)):
        raise DataError(
            f"{what} must have rows of numbers: got {str(X)[:SHOWN]!r}. Read a file first, for "
            "example with rankwise.data.read_letor or rankwise.data.read_table."
        )
    if isinstance(X, (dict, set, Iterator)):
        a_frame = f"Make a data frame of it, as in pandas.DataFrame({what})."
        advice = a_frame if isinstance(X, dict) else "Pass a list, an array or a data frame."
        raise DataError(f"{what} must have rows of numbers: got a {type(X).__name__}. {advice}")
    if hasattr(X, "columns"):
        check_column_names(X, what)
    if not isinstance(X, (list, tuple, np.ndarray)) or not len(X):
        return
    if isinstance(X[0], str):
        raise DataError(
            f"{what} must have rows of numbers: got texts, such as {X[0][:SHOWN]!r}. Make features "
            f"of them, for example with {VECTORIZER}."
        )
    if isinstance(X[0], dict):
        raise DataError(
            f"{what} must have rows of numbers: got dictionaries. Make a data frame of them, as in "
            f"pandas.DataFrame({what})."
        )
    if all(isinstance(row, (list, tuple, np.ndarray)) for row in X):
        other = next((i for i, row in enumerate(X) if len(row) != len(X[0])), None)
        if other is not None:
            raise DataError(
                f"All rows of {what} must have the same length: got {plural(len(X[0]), 'value')} "
                f"in row 0, and {len(X[other])} in row {other}."
            )


def _columns(X: Any) -> list[tuple[str, NDArray[Any]]]:
    """Names, or numbers, and values of columns; none of what is not a table."""
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        return [(repr(name), np.asarray(X[name])) for name in X.columns]
    array = np.asarray(X)
    return [(str(k), values) for k, values in enumerate(array.T)] if array.ndim == 2 else []


def _check_numbers(where: str, values: NDArray[Any], encoder: str) -> None:
    """Raise an error for the first value of a column that is not a number."""
    if values.dtype.kind not in "OSTU":
        return
    for row, value in enumerate(values.tolist()):
        if isinstance(value, (str, bytes)):
            if not is_number(value):
                raise DataError(
                    f"{where} is text, such as {value[:SHOWN]!r} in row {row}: encode it as "
                    f"numbers, for example with {encoder}, or drop it."
                )
        elif not _is_missing(value):
            try:
                float(value)
            except TypeError as error:  # scikit-learn's checks want this class and this message
                raise TypeError(
                    f"{where} must hold numbers: {error}, in row {row}. Make columns of numbers "
                    "from it, or drop it."
                ) from None
            except OverflowError:
                raise DataError(
                    f"{where} is too large for float64 in row {row}: divide it by a constant."
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
    what: str,
    X: Any,
    columns: list[tuple[str, NDArray[Any]]],
    is_wrong: Callable[[Array], NDArray[np.bool_]],
    wrong: str,
    noun: str,
    advice: str,
) -> None:
    """Raise an error with the number of wrong values, and the first of them by column."""
    if is_sparse(X):
        cells = X.tocoo()
        found_in = np.flatnonzero(is_wrong(cells.data))
        count, row, name = len(found_in), cells.row[found_in[0]], cells.col[found_in[0]]
    else:
        found = [(name, np.flatnonzero(is_wrong(_as_numbers(values)))) for name, values in columns]
        count = sum(len(rows) for _, rows in found)
        name, row = next((name, rows[0]) for name, rows in found if len(rows))
    raise DataError(
        f"Input {what} contains {wrong}: {plural(count, noun)}, the first in row {row}, column "
        f"{name}. {advice}"
    )
