"""Errors that name the row and column of a value that scikit-learn refuses, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.arrays import Array, is_sparse
from rankwise.errors import DataError
from rankwise.graph.conversion_checks import check_column_names, is_number, too_large
from rankwise.tables import plural

ENCODER = "sklearn.preprocessing.OneHotEncoder"
VECTORIZER = "sklearn.feature_extraction.text.TfidfVectorizer"
SHOWN = 40  # characters of a text that a message shows

Columns = list[tuple[str, NDArray[Any]]]
"""The name, or the number, and the values of each column."""


@dataclass(frozen=True)
class Fault:
    """Numbers that scikit-learn refuses: what it calls them, what they are, and what to do."""

    name: str
    adjective: str
    is_in: Callable[[Array], NDArray[np.bool_]]
    advice: str  # for rows X
    advice_for_labels: str


FAULTS = (
    Fault(
        "NaN",
        "missing",
        np.isnan,
        "Fill them in, for example with sklearn.impute.SimpleImputer in a pipeline, drop these "
        "rows, or use BoostedRanker, which learns from missing values.",
        "Drop these rows, or use TransductiveRankRLS, which learns from rows without labels as "
        "well.",
    ),
    Fault(
        "infinity",
        "infinite",
        np.isinf,
        "Use finite numbers instead, or drop these rows.",
        "Use finite numbers instead, or drop these rows.",
    ),
)


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
    columns: Columns = []
    if not is_sparse(X):
        _check_is_table(what, X)
        columns = _columns(X)
        for name, values in columns:
            _check_numbers(f"Column {name} of {what}", values, encoder)
    for fault in FAULTS:
        if f"Input {what} contains {fault.name}" in str(error):
            _raise_place(what, X, columns, fault)


def explain_labels(y: Any, error: Exception) -> None:
    """Raise an error with the number of missing or infinite labels, if scikit-learn found some."""
    for fault in FAULTS:
        if f"Input y contains {fault.name}" in str(error):
            wrong = fault.is_in(_as_numbers(np.asarray(y))).reshape(len(y), -1).any(axis=1)
            raise DataError(
                f"Input y contains {fault.name}: "
                f"{plural(int(wrong.sum()), f'{fault.adjective} label')}, the first in row "
                f"{wrong.argmax()}. {fault.advice_for_labels}"
            )


def _check_is_table(what: str, X: Any) -> None:
    """Raise an error for what has no rows, or has rows of text or of different lengths."""
    if isinstance(X, (str, bytes, PathLike)):
        raise DataError(
            f"{what} must have rows of numbers: got {str(X)[:SHOWN]!r}. Read a file first, for "
            "example with rankwise.data.read_letor or rankwise.data.read_table."
        )
    if isinstance(X, (dict, set, Iterator)):
        a_frame = f"Make a data frame of it, as in pandas.DataFrame({what})."
        advice = a_frame if isinstance(X, dict) else "Pass a list, an array or a data frame."
        raise DataError(f"{what} must have rows of numbers: got a {type(X).__name__}. {advice}")
    if X is None or np.isscalar(X) or getattr(X, "shape", None) == ():
        raise DataError(
            f"{what} must have rows of numbers: got {X!r}. Pass a list of rows, an array or a data "
            "frame."
        )
    if hasattr(X, "columns"):
        check_column_names(X, what)
    rows = X if isinstance(X, (list, tuple)) else []
    if len(getattr(X, "shape", ())) == 1:  # an array or a column of a data frame
        rows = list(X)
    if rows and isinstance(rows[0], str):
        raise DataError(
            f"{what} must have rows of numbers: got texts, such as {rows[0][:SHOWN]!r}. Make "
            f"features of them, for example with {VECTORIZER}."
        )
    if rows and isinstance(rows[0], dict):
        raise DataError(
            f"{what} must have rows of numbers: got dictionaries. Make a data frame of them, as in "
            f"pandas.DataFrame({what})."
        )
    if all(isinstance(row, (list, tuple, np.ndarray)) for row in rows):
        other = next((i for i, row in enumerate(rows) if len(row) != len(rows[0])), None)
        if other is not None:
            raise DataError(
                f"All rows of {what} must have the same length: got "
                f"{plural(len(rows[0]), 'value')} in row 0, and {len(rows[other])} in row {other}."
            )


def _columns(X: Any) -> Columns:
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
                raise too_large(where, row) from None


def _is_missing(value: Any) -> bool:
    """Whether a value is None, or what pandas has instead; NaN is a number."""
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def _as_numbers(values: NDArray[Any]) -> Array:
    """Values of any shape, with NaN where one is missing."""
    if values.dtype.kind != "O":
        return values.astype(np.float64)
    numbers = [np.nan if _is_missing(v) else float(v) for v in values.ravel().tolist()]
    return np.array(numbers).reshape(values.shape)


def _raise_place(what: str, X: Any, columns: Columns, fault: Fault) -> None:
    """Raise an error with the number of wrong values, and the first of them by column, if any."""
    if is_sparse(X):
        cells = X.tocoo()
        wrong = np.flatnonzero(fault.is_in(cells.data))
        found = [(str(k), cells.row[wrong]) for k in cells.col[wrong[:1]]]
    else:
        rows_of = ((name, fault.is_in(_as_numbers(values))) for name, values in columns)
        found = [(name, np.flatnonzero(wrong)) for name, wrong in rows_of if wrong.any()]
    if not found:
        return
    (name, rows), count = found[0], sum(len(rows) for _, rows in found)
    advice = fault.advice if what == "X" else "Use finite numbers instead."
    raise DataError(
        f"Input {what} contains {fault.name}: {plural(count, f'{fault.adjective} value')}, the "
        f"first in row {rows[0]}, column {name}. {advice}"
    )
