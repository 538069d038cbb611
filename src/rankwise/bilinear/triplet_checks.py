"""Checks of queries, documents, triplets, classes and grades for the bilinear ranker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_array

from rankwise.backends.arrays import Array, check_compressed, is_sparse
from rankwise.bilinear.algorithm_1 import INT32_MAX, Ints
from rankwise.bilinear.triplet_sampling import from_classes
from rankwise.errors import DataError
from rankwise.estimators._validation import VECTORIZER, explain_rows
from rankwise.graph.id_arrays import check_column_names, check_lossless, check_real
from rankwise.graph.query_groups import missing_entries

DRAWN_TRIPLETS = 2000  # from classes

Rows = tuple[sp.csr_array, sp.csr_array, Ints]
"""Rows of queries, rows of documents, and triplets of them."""

CheckRows = Callable[[Any], sp.csr_array]


def check_rows(X: Any, name: str) -> sp.csr_array:
    """Dense or sparse rows as a CSR array with sorted columns and no explicit zeros.

    Raises an error for columns that do not exist: compiled code would write to them.
    """
    if hasattr(X, "collect"):
        raise DataError(f"{name} is a lazy data frame: pass {name}.collect().")
    if not is_sparse(X):
        check_lossless(name, X)
    elif X.format in ("csr", "csc"):
        _check_compressed(X, name)
    if hasattr(X, "columns"):
        check_column_names(X, name)
    rows = sp.csr_array(_checked_array(X, name))
    if rows.shape[1] > INT32_MAX:
        raise DataError(f"{name} has {rows.shape[1]} features: the maximum is {INT32_MAX}.")
    _check_compressed(rows, name)
    if not rows.has_canonical_format or (rows.data == 0.0).any():
        rows = rows.copy()  # it may share its arrays with X, which must not change
        rows.sum_duplicates()
        rows.eliminate_zeros()
    return rows


def _check_compressed(rows: Any, name: str) -> None:
    try:
        check_compressed(rows)
    except ValueError as error:
        kind = rows.format.upper()
        raise DataError(f"{name} is not a valid {kind} array: {error}.") from None


def _checked_array(X: Any, name: str) -> Any:
    """scikit-learn's `check_array`, with errors that name the row and column."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # of a sum that looks for NaN
            return check_array(X, accept_sparse="csr", dtype=np.float64, input_name=name)
    except (OverflowError, TypeError, ValueError) as error:
        refused = error
    explain_rows(name, X, refused, encoder=VECTORIZER)
    raise refused


def columns_of(X: Any) -> list[str] | None:
    """The names of a data frame's columns."""
    return [str(name) for name in X.columns] if hasattr(X, "columns") else None


def _as_array(values: Any, name: str) -> NDArray[Any]:
    try:
        return np.asarray(values)
    except ValueError:
        raise DataError(f"{name} has entries of different lengths: make them equal.") from None


def check_triplets(triplets: Any, Q: sp.csr_array, D: sp.csr_array, name: str = "triplets") -> Ints:
    """Triplets (q, d+, d-) of existing, different rows with features."""
    check_lossless(name, triplets)
    given = _as_array(triplets, name)
    if given.ndim != 2 or given.shape[1:] != (3,) or len(given) == 0:
        raise DataError(
            f"{name} must have shape (n, 3), with rows (query, preferred document, other document) "
            f"and at least one of them: got shape {given.shape}."
        )
    if given.dtype.kind not in "iu":
        raise DataError(f"{name} must hold row numbers, as whole numbers: got {given.dtype}.")
    for column, what, X in ((0, "Q", Q), (1, "D", D), (2, "D", D)):
        wrong = (given[:, column] < 0) | (given[:, column] >= X.shape[0])
        expected = f"a row of {what}, which has rows 0 to {X.shape[0] - 1}"
        message = f"{name}[{{k}}] is {{triplet}}: {{row}} is not {expected}"
        _refuse(wrong, message, triplet=given, row=given[:, column])
    rows = np.ascontiguousarray(given, dtype=np.int64)
    same = rows[:, 1] == rows[:, 2]
    _refuse(same, f"{name}[{{k}}] prefers document {{row}} to itself", row=rows[:, 1])
    for column, what, X in ((0, "Query", Q), (1, "Document", D), (2, "Document", D)):
        empty = np.diff(X.indptr)[rows[:, column]] == 0
        message = f"{what} {{row}} in {name}[{{k}}] has no features: all of its values are 0"
        _refuse(empty, message, row=rows[:, column])
    return rows


def _refuse(wrong: NDArray[np.bool_], message: str, **of: NDArray[Any]) -> None:
    """Raise an error for the first entry k that is wrong, with how many there are."""
    places = np.flatnonzero(wrong)
    if len(places):
        k, count = int(places[0]), len(places)
        first = message.format(k=k, **{name: values[k] for name, values in of.items()})
        such = f"{count} such {'entry' if count == 1 else 'entries'}"
        raise DataError(f"{first} ({such}). Remove or correct them.")


def check_full_rows(X: sp.csr_array, name: str) -> None:
    """Raise an error for a row without a value other than 0."""
    empty = np.diff(X.indptr) == 0
    _refuse(empty, f"Row {{k}} of {name} has no features: all of its values are 0")


def check_classes(labels: Any, n_rows: int, name: str = "labels") -> NDArray[np.intp]:
    """Class numbers, with at least two classes, one of them with two rows."""
    given = _as_array(labels, name)
    if given.shape != (n_rows,):
        raise DataError(
            f"{name} needs one entry per row of X: got {given.shape} for {n_rows} rows."
        )
    _refuse(missing_entries(given), f"{name}[{{k}}] is missing")
    try:
        classes, numbers, counts = np.unique(given, return_inverse=True, return_counts=True)
    except TypeError:
        kinds = sorted({type(label).__name__ for label in given.tolist()})
        raise DataError(
            f"{name} must be all numbers or all text: got {', '.join(kinds)}."
        ) from None
    if len(classes) == 0:
        raise DataError(f"{name} is empty: a triplet needs three rows.")
    if len(classes) < 2:
        raise DataError(
            f"{name} has only one class, {classes.tolist()[0]!r}: a triplet needs a document of "
            "another class."
        )
    if counts.max() < 2:
        raise DataError(
            f"Every row has its own class ({len(classes)} classes): a triplet needs two rows "
            f"of one class. Check the {name}."
        )
    return np.asarray(numbers, dtype=np.intp)


def check_grades(grades: Any, qid: Any, Q: sp.csr_array, D: sp.csr_array) -> tuple[Ints, Array]:
    """One finite grade and one row of Q for each document."""
    query = _as_array(qid, "qid")
    check_real("grades", grades)
    try:
        values = _as_array(grades, "grades").astype(np.float64)
    except (OverflowError, TypeError, ValueError):
        raise DataError("grades must be numbers, where higher is better.") from None
    for name, given in (("grades", values), ("qid", query)):
        if given.shape != (D.shape[0],):
            raise DataError(
                f"{name} needs one entry per row of D: got {given.shape} for {D.shape[0]} rows."
            )
    _refuse(~np.isfinite(values), "grades must be finite: row {k} is not")
    expected = f"qid must hold rows of Q, from 0 to {Q.shape[0] - 1}"
    if query.dtype.kind not in "iu":
        raise DataError(f"{expected}, which are whole numbers: got {query.dtype}.")
    if query.min() < 0 or query.max() >= Q.shape[0]:
        raise DataError(f"{expected}: got values from {query.min()} to {query.max()}.")
    check_full_rows(D, "D")
    empty = np.diff(Q.indptr)[query] == 0
    _refuse(empty, "Query {query} has no features: all of its values are 0", query=query)
    return query.astype(np.int64), values


def check_names(names: Any, n_features: int, name: str) -> NDArray[Any] | None:
    """One name for each feature, or None."""
    if names is None:
        return None
    if isinstance(names, (dict, set, frozenset)):
        raise DataError(
            f"{name} needs the names in the order of the features, which a {type(names).__name__} "
            "does not have: pass vectorizer.get_feature_names_out()."
        )
    try:
        given = np.asarray(list(names), dtype=str)
    except (TypeError, ValueError):
        raise DataError(
            f"{name} must be a list of names, one per feature: got {names!r:.60}."
        ) from None
    if given.shape != (n_features,):
        raise DataError(f"{name} needs one name per feature: got {len(given)} for {n_features}.")
    return given


def held_out_triplets(
    given: Any, Q: sp.csr_array, D: sp.csr_array, queries: CheckRows, documents: CheckRows
) -> Rows | None:
    """Triplets of the rows of the fit, or of other rows, which are checked by functions."""
    if given is None:
        return None
    if _has_rows(given):
        Q, D, given = queries(given[0]), documents(given[1]), given[2]
    return Q, D, check_triplets(given, Q, D, "held_out")


def held_out_classes(given: Any, queries: CheckRows) -> Rows | None:
    """Triplets that are drawn from other rows with classes."""
    if given is None:
        return None
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise DataError("held_out of fit_classes must be a tuple (X, labels) of other rows.")
    rows = queries(given[0])
    numbers = check_classes(given[1], rows.shape[0], "held_out labels")
    full = np.flatnonzero(np.diff(rows.indptr))  # rows without a known word have no score
    kept = check_classes(numbers[full], len(full), "held_out labels of rows with a known word")
    drawn = from_classes(kept)(np.random.default_rng(0), DRAWN_TRIPLETS)
    return rows, rows, full[drawn]


def _has_rows(given: Any) -> bool:
    """Whether held-out triplets come with their own rows: (Q, D, triplets)."""
    if not isinstance(given, (tuple, list)) or len(given) != 3:
        return False
    first = given[0]
    return len(getattr(first, "shape", ())) == 2 or (
        isinstance(first, (list, tuple)) and len(first) > 0 and np.ndim(first[0]) == 1
    )
