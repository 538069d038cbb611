"""The splits that the parameter `cv` defines."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import check_cv

from rankwise.backends.arrays import Index
from rankwise.errors import DataError, ParameterError
from rankwise.model_selection.search.labelled_rows import LabelledRows
from rankwise.parameters import Choice, as_generator, check_value
from rankwise.tables import plural

NAMES = ("leave_query_out", "leave_pair_out")


@dataclass(frozen=True)
class Splits:
    """Rows to hold out, split by split.

    Attributes
    ----------
    tests : list of ndarray
        Held-out rows of each split.
    trains : list of ndarray or None
        Training rows of each split; None: all rows that are not held out.
    n_folds : int or None
        Number of folds of queries (or of the rows of a global ranking); None for other splits.
    order : ndarray or None
        The order in which rows are assigned to folds; None: their own order.
    """

    tests: Sequence[Index]
    trains: Sequence[Index] | None = None
    n_folds: int | None = None
    order: Index | None = None

    def __len__(self) -> int:
        return len(self.tests)

    def train(self, k: int, n_rows: int) -> Index:
        """Training rows of split k."""
        if self.trains is not None:
            return self.trains[k]
        return np.delete(np.arange(n_rows), self.tests[k])

    @property
    def rows(self) -> Index:
        """Held-out rows of all splits, concatenated."""
        return np.concatenate(self.tests)

    @property
    def split_of_row(self) -> Index:
        """The split of each of `rows`."""
        return np.repeat(np.arange(len(self)), [len(test) for test in self.tests])


def make_splits(cv: Any, data: LabelledRows, random_state: Any) -> Splits:
    """Splits of whole queries, or of rows if there are no queries; all are of labelled rows."""
    if data.labelled is not None:
        return _among_labelled(cv, data, data.labelled, random_state)
    if isinstance(cv, str):
        check_value("cv", cv, Choice(*NAMES))
        return _leave_query_out(data)
    if isinstance(cv, (int, np.integer)) and not isinstance(cv, bool):
        return _folds(int(cv), data, random_state)
    if not (hasattr(cv, "split") or hasattr(cv, "__iter__")):
        raise ParameterError(
            'cv must be "leave_query_out", "leave_pair_out", a number of folds, a scikit-learn '
            f"splitter, or a list of (train, test) row numbers: got {cv!r}."
        )
    return _listed(cv, data)


def _among_labelled(cv: Any, data: LabelledRows, rows: Index, random_state: Any) -> Splits:
    """The splits of labelled rows; all other rows belong to every training part."""
    found = make_splits(cv, data.with_labels, random_state)
    rest = np.setdiff1d(np.arange(len(data)), rows)
    trains = found.trains
    return Splits(
        [rows[test] for test in found.tests],
        None if trains is None else [np.append(rows[train], rest) for train in trains],
        found.n_folds,
        None if found.order is None else np.append(rows[found.order], rest),
    )


def _leave_query_out(data: LabelledRows) -> Splits:
    if data.qid is None:
        raise DataError(
            'cv="leave_query_out" needs the query of every row: fit(X, y, qid=...). For one global '
            'ranking use cv="leave_pair_out" or a number of folds, as in cv=5.'
        )
    if data.groups.n_groups < 2:
        raise DataError(
            'cv="leave_query_out" needs at least two queries: got one. Use cv="leave_pair_out", '
            "or omit qid and use a number of folds, as in cv=5."
        )
    return Splits(list(data.groups))


def _folds(n_folds: int, data: LabelledRows, random_state: Any) -> Splits:
    """Queries, or the rows of a global ranking, assigned to folds in turn."""
    by_query, groups = data.qid is not None, data.groups
    n = groups.n_groups if by_query else len(data)
    most, what = (n, "query") if by_query else (n // 2, "row")
    if not 2 <= n_folds <= most:
        least = "a query" if by_query else "two rows"
        raise ParameterError(
            f"cv={n_folds} must be at least 2, with at least {least} for every fold: got "
            f"{plural(n, what)}."
        )
    codes = groups.codes if by_query else np.arange(n)
    place, order = np.arange(n), None
    if random_state is not None:
        place = as_generator(random_state).permutation(n)
        order = np.argsort(place[codes], kind="stable")
    fold = (place % n_folds)[codes]
    return Splits([np.flatnonzero(fold == k) for k in range(n_folds)], None, n_folds, order)


def _listed(cv: Any, data: LabelledRows) -> Splits:
    trains, tests = [], []
    for k, split in enumerate(listed_splits(cv, data.X, data.y, data.qid)):
        train, test = (_row_numbers(k, rows, len(data)) for rows in split)
        _check_disjoint(k, train, test, data)
        trains.append(train)
        tests.append(test)
    return Splits(tests, trains)


def listed_splits(cv: Any, X: Any, y: Any, groups: Any) -> list[Any]:
    """The splits of a splitter or a list; whether groups are split is to be checked."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The groups parameter is ignored", UserWarning)
        listed = list(check_cv(cv).split(X, y, groups=groups))
    if not listed:
        raise ParameterError(f"cv={cv!r} yields no splits.")
    return listed


def _row_numbers(k: int, rows: Any, n_rows: int) -> Index:
    """Row numbers of split k, from row numbers or a mask."""
    numbers = np.asarray(rows)
    if numbers.size == 0:
        raise ParameterError(f"Split {k} of cv is empty: it needs training rows and test rows.")
    try:
        return np.asarray(np.arange(n_rows)[numbers])
    except IndexError as error:
        raise ParameterError(f"Split {k} of cv has invalid row numbers: {error}.") from error


def _check_disjoint(k: int, train: Index, test: Index, data: LabelledRows) -> None:
    """Raise an error if a row or a query is in both the training and the test part."""
    both = np.intersect1d(train, test)
    if len(both):
        raise ParameterError(f"Split {k} of cv has row {both[0]} in both train and test.")
    if data.qid is None:
        return
    shared = np.intersect1d(data.groups.codes[train], data.groups.codes[test])
    if len(shared):
        raise DataError(
            f"Split {k} of cv has rows of query {data.groups.names.tolist()[shared[0]]!r} in both "
            f"train and test ({len(shared)} such queries): whole queries must be held out. Use "
            "cv=5, or a splitter that keeps groups together, such as GroupKFold."
        )
