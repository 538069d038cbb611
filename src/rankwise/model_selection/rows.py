"""Labelled rows in any container, how they are split, and fits of any estimator to them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.model_selection import KFold, StratifiedGroupKFold, StratifiedKFold, check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_array, check_consistent_length

from rankwise.backends.arrays import Array, Index, is_sparse, is_tensor, to_host
from rankwise.errors import DataError, ParameterError
from rankwise.estimators.ranker_rows import explain_labels, explain_rows, query_groups
from rankwise.graph import QueryGroups
from rankwise.graph.comparisons import Comparisons
from rankwise.graph.query_groups import (
    are_numbers,
    as_ids,
    labels_differ,
    nothing_to_rank,
    numeric_labels,
)
from rankwise.parameters import Choice, as_generator, check_value
from rankwise.routing import requested
from rankwise.tables import plural
from rankwise.walks import are_graphs


@dataclass(frozen=True)
class LabelledRows:
    """Rows, their labels, their queries and, if there are any, the weights of the queries.

    `X` is not converted, since a pipeline may select columns of a data frame by name. `qid` is None
    for one global ranking. `labelled` has the numbers of the rows with labels; None: all rows.
    """

    X: Any
    y: NDArray[Any]
    qid: NDArray[Any] | None
    groups: QueryGroups
    query_weight: NDArray[Any] | None = None
    labelled: Index | None = None

    @classmethod
    def of(
        cls, X: Any, y: Any, qid: Any, query_weight: Any = None, *, unlabelled: bool = False
    ) -> LabelledRows:
        """Check rows and labels; with `unlabelled`, y may be NaN in some rows."""
        if y is None:
            raise DataError("A ranker requires y to be passed, but the target y is None.")
        y, qid = numeric_labels(to_host(y)), to_host(qid)
        y = _checked_labels(y, finite="allow-nan" if unlabelled else True)
        X = as_rows(X)
        check_consistent_length(X, y)
        groups = query_groups(qid, len(y), query_weight)
        rows = np.flatnonzero(~np.isnan(y.reshape(len(y), -1)).any(axis=1)) if unlabelled else None
        given = y if rows is None else y[rows]
        if not labels_differ(given, QueryGroups.of(None, len(given))):  # a regressor compares all
            raise nothing_to_rank(groups.n_groups, len(given))
        ids = None if qid is None else as_ids(qid).ravel()
        weights = None if query_weight is None else np.asarray(to_host(query_weight)).ravel()
        return cls(X, y, ids, groups, weights, None if len(given) == len(y) else rows)

    @property
    def with_labels(self) -> LabelledRows:
        """The labelled rows alone."""
        return self if self.labelled is None else self.take(self.labelled)

    @property
    def labels(self) -> Array:
        """y with a column for each output."""
        return np.asarray(self.y, dtype=np.float64).reshape(len(self.y), -1)

    def __len__(self) -> int:
        return len(self.y)

    def queries(self, rows: Index) -> NDArray[Any] | None:
        """The query ids of rows, None for one global ranking."""
        return None if self.qid is None else self.qid[rows]

    def take(self, rows: Index, columns: Index | None = None) -> LabelledRows:
        """Some rows, all of which have labels, and some columns if X is a kernel matrix."""
        weights = None if self.query_weight is None else self.query_weight[rows]
        groups = self.groups.take(rows)
        return LabelledRows(
            take(self.X, rows, columns), self.y[rows], self.queries(rows), groups, weights
        )


def class_labels(y: Any, positive: Any) -> Any:
    """1 for the positive class and 0 for all others; without `positive`, y as it is.

    Words have no order: they need `positive`, as the curves of scikit-learn need `pos_label`.

    Examples
    --------
    >>> class_labels(["relapse", "remission", "relapse"], "relapse")
    array([1., 0., 1.])
    """
    if y is None or isinstance(y, str) or is_sparse(y) or (is_tensor(y) and positive is None):
        return y
    array = np.asarray(to_host(y))
    if positive is None and array.dtype.kind not in "OTU":
        return y
    if positive is not None and array.ndim != 1:
        raise DataError(f"positive is for one label per row: got y of shape {array.shape}.")
    labels = array.ravel().tolist()
    if positive is None:
        words = sorted({label for label in labels if isinstance(label, str)})
        if words and not are_numbers(words):
            raise DataError(
                f"y has the classes {', '.join(map(repr, words[:5]))}: name the class to rank "
                f"first, as in positive={words[0]!r}."
            )
        return y
    for row, label in enumerate(labels):
        if label is None or label != label:
            raise DataError(f"y has no label in row {row}: leave this row out.")
    if positive not in labels:
        known = ", ".join(map(repr, list(dict.fromkeys(labels))[:5]))
        raise DataError(f"No label is positive={positive!r}: y has {known}.")
    return np.array([float(label == positive) for label in labels])


def _checked_labels(y: Any, *, finite: bool | str) -> NDArray[Any]:
    """Labels as an array; errors name the first row whose label cannot be used."""
    options = {"ensure_2d": False, "ensure_min_samples": 2, "input_name": "y"}
    try:
        return np.asarray(check_array(y, ensure_all_finite=finite, **options))
    except ValueError as error:
        refused = error
    explain_labels(y, refused)
    raise refused


def as_rows(X: Any) -> Any:
    """Arrays and data frames as they are, sparse rows as CSR, and all else as an array of rows.

    An array of graphs has one axis.
    """
    if is_sparse(X):
        return X.tocsr()
    if is_tensor(X) or hasattr(X, "iloc") or hasattr(X, "columns"):
        return X
    if are_graphs(X):
        graphs = np.empty(len(X), dtype=object)
        for k, graph in enumerate(X):
            graphs[k] = graph
        return graphs
    try:
        rows = np.asanyarray(X)
        if rows.ndim > 0:
            return rows
        refused: Exception = DataError(f"X must have rows of numbers: got a {type(X).__name__}.")
    except (TypeError, ValueError) as error:
        refused = error
    explain_rows("X", X, refused)
    raise refused


def take(X: Any, rows: Index, columns: Index | None = None) -> Any:
    """Rows of an array, sparse array or data frame, and columns of a kernel matrix."""
    if hasattr(X, "iloc"):
        return X.iloc[rows] if columns is None else X.iloc[rows, columns]
    if columns is not None:
        return X[rows][:, columns]
    if hasattr(X, "columns") and hasattr(X, "take"):  # a pyarrow table
        return X.take(rows)
    return X[rows]


def check_fit_and_predict(name: str, estimator: Any) -> None:
    """Raise an error unless a parameter of this name is an estimator."""
    has_both = hasattr(estimator, "fit") and hasattr(estimator, "predict")
    if isinstance(estimator, type) or not has_both:
        raise ParameterError(f"{name} must be an object with fit and predict: got {estimator!r}.")


def split_pipeline(estimator: Any) -> tuple[Pipeline | None, Any]:
    """The transformers of a pipeline (None if there are none), and its last step."""
    if not isinstance(estimator, Pipeline):
        return None, estimator
    return (estimator[:-1] if len(estimator) > 1 else None), estimator[-1]


def fit_with_queries(estimator: Any, X: Any, y: Any, qid: Any, query_weight: Any = None) -> None:
    """Fit an estimator, passing queries in the form that it accepts.

    The rankers of LightGBM, XGBoost and CatBoost get their rows sorted by query, with group sizes,
    ids or group ids. Other rankers get qid unchanged, and regressors get no queries. In pipelines
    and other meta-estimators, qid is routed to all objects that request it, regardless of whether
    the user has enabled metadata routing.
    """
    with config_context(enable_metadata_routing=True):
        steps, last = split_pipeline(estimator)
        accepted = signature(last.fit).parameters
        metadata: dict[str, Any] = {}
        if "group" in accepted or "group_id" in accepted:
            groups = QueryGroups.of(qid, len(y))
            X, y, qid = take(X, groups.order), y[groups.order], groups.codes[groups.order]
            name = next(name for name in ("qid", "group", "group_id") if name in accepted)
            metadata = {name: groups.sizes if name == "group" else qid}
        elif "qid" in accepted and qid is not None:
            metadata = {"qid": qid}
        if query_weight is not None:
            if "query_weight" not in accepted:
                raise ParameterError(f"{type(last).__name__}.fit takes no query_weight.")
            metadata["query_weight"] = query_weight
        if last is not estimator and metadata and not hasattr(last, "set_fit_request"):
            # CatBoost knows no routing, so that a pipeline would not pass its groups.
            if steps is not None:
                X = fit_transform(steps, X, y, qid)
                estimator.steps[:-1] = steps.steps
            last.fit(X, y, **metadata)
            return
        if last is not estimator and metadata:
            last.set_fit_request(**dict.fromkeys(metadata, True))
        if "qid" not in metadata:
            metadata |= requested(estimator, "fit", qid)
        estimator.fit(X, y, **metadata)


def fit_transform(steps: Pipeline, X: Any, y: Any, qid: Any) -> Any:
    """Fit the transformers of a pipeline, and transform the same rows."""
    with config_context(enable_metadata_routing=True):
        return steps.fit_transform(X, y, **requested(steps, "fit_transform", qid))


def transform(steps: Pipeline, X: Any, qid: Any) -> Any:
    """Transform rows by fitted transformers."""
    with config_context(enable_metadata_routing=True):
        return steps.transform(X, **requested(steps, "transform", qid))


ITEMS = "leave_item_out"


@dataclass(frozen=True)
class Splits:
    """Rows (or comparisons) to hold out, split by split.

    Attributes
    ----------
    tests : sequence of ndarray
        Held-out rows of each split.
    trains : sequence of ndarray or None
        Training rows of each split; None: all rows that are not held out.
    """

    tests: Sequence[Index]
    trains: Sequence[Index] | None = None

    @classmethod
    def in_turn(cls, units: Index, n_folds: int, place: Index | None = None) -> Splits:
        """Units dealt out to folds in the order of their `place`, or of their numbers."""
        fold = (units if place is None else place[units]) % n_folds
        return cls([np.flatnonzero(fold == k) for k in range(n_folds)])

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

    @property
    def fold_of_row(self) -> Index:
        """The split of every row, if each is held out once."""
        fold = np.empty(len(self.rows), dtype=np.intp)
        fold[self.rows] = self.split_of_row
        return fold

    def among(self, rows: Index, n_rows: int) -> Splits:
        """The same splits of some rows; all other rows belong to every training part."""
        rest = np.setdiff1d(np.arange(n_rows), rows)
        trains = self.trains
        return Splits(
            [rows[test] for test in self.tests],
            None if trains is None else [np.append(rows[train], rest) for train in trains],
        )


def make_splits(cv: Any, data: LabelledRows, random_state: Any) -> Splits:
    """Splits of whole queries, or of rows if there are no queries; all are of labelled rows."""
    if data.labelled is not None:
        return make_splits(cv, data.with_labels, random_state).among(data.labelled, len(data))
    if isinstance(cv, str):
        check_value("cv", cv, Choice("leave_query_out", "leave_pair_out"))
        if data.qid is None or data.groups.n_groups < 2:
            given = "no qid" if data.qid is None else "one query"
            raise DataError(
                'cv="leave_query_out" needs the query of every row, and at least two queries: got '
                f'{given}. For one ranking, omit qid and use cv="leave_pair_out" or a number of '
                "folds, as in cv=5."
            )
        return Splits(list(data.groups))
    if data.qid is None:
        rows = QueryGroups.of(np.arange(len(data)))
        return _dealt(cv, rows, "row", random_state, (data.X, data.y, None), least=2)
    return _dealt(cv, data.groups, "query", random_state, (data.X, data.y, data.qid))


def comparison_splits(cv: Any, given: Comparisons, random_state: Any) -> Splits | None:
    """Splits of groups of comparisons, or of comparisons without groups; None: items."""
    n = len(given)
    ids = np.arange(n) if given.groups is None else given.groups
    groups = QueryGroups.of(ids)
    unit = "comparison" if given.groups is None else "group"
    if isinstance(cv, str):
        check_value("cv", cv, Choice("leave_comparison_out", "leave_query_out", ITEMS))
        if cv == ITEMS:
            return None
        if groups.n_groups < 2:
            raise DataError(f"Holding out {unit}s needs at least two of them: got one.")
        return Splits(list(groups))
    return _dealt(cv, groups, unit, random_state, (np.zeros(n), np.zeros(n), ids))


def _dealt(
    cv: Any, units: QueryGroups, unit: str, random_state: Any, given: Any, *, least: int = 1
) -> Splits:
    """Folds of whole units, `least` in each fold, or the splits of a splitter or a list."""
    n = units.n_groups
    if isinstance(cv, (int, np.integer)) and not isinstance(cv, bool):
        if not 2 <= cv <= n // least:
            raise ParameterError(
                f"cv={cv} must be at least 2, with at least {plural(least, unit)} for every fold: "
                f"got {plural(n, unit)}."
            )
        place = None if random_state is None else as_generator(random_state).permutation(n)
        return Splits.in_turn(units.codes, int(cv), place)
    if not (hasattr(cv, "split") or hasattr(cv, "__iter__")):
        raise ParameterError(
            "cv must be the name of a hold-out, a number of folds, a scikit-learn splitter, or a "
            f"list of (train, test) row numbers: got {cv!r}."
        )
    trains, tests = [], []
    for k, split in enumerate(listed_splits(cv, *given)):
        train, test = (_row_numbers(k, rows, units.n_rows) for rows in split)
        shared = np.intersect1d(units.codes[train], units.codes[test])
        if len(shared):
            name = units.names.tolist()[shared[0]]
            raise DataError(
                f"Split {k} of cv has {unit} {name!r} in both train and test ({len(shared)} such "
                "cases): each must be held out as a whole. Use cv=5, or a splitter that keeps "
                "groups together, such as GroupKFold."
            )
        trains.append(train)
        tests.append(test)
    return Splits(tests, trains)


def listed_splits(cv: Any, X: Any, y: Any, groups: Any) -> list[Any]:
    """The splits of a splitter or a list, which the caller checks for split groups."""
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


def stratified_folds(
    labels: Array, groups: Index | None, n_folds: int, n_repeats: int, rng: np.random.Generator
) -> Splits:
    """Folds of rows, or of whole groups, stratified by label if there are two; dealt repeatedly."""
    counts = np.unique(labels, return_counts=True)[1]
    strata = labels if len(counts) == 2 else np.zeros(len(labels))
    n_folds = min(n_folds, int(counts.min())) if len(counts) == 2 else n_folds
    if groups is not None:
        n_groups = len(np.unique(groups))
        if n_groups < 2:
            raise DataError("All rows are in one group: there is nothing to learn from without it.")
        n_folds = min(n_folds, n_groups)
    kind = StratifiedKFold if len(counts) == 2 else KFold
    tests: list[Index] = []
    for _ in range(n_repeats):
        seed = int(rng.integers(2**31))
        splitter = (StratifiedGroupKFold if groups is not None else kind)(
            n_splits=n_folds, shuffle=True, random_state=seed
        )
        tests += [test for _, test in splitter.split(labels, strata, groups)]
    return Splits(tests)


def pairs_of_units(
    labels: Array, units: Index, stratum: Index, n_pairs: int, rng: np.random.Generator
) -> Splits:
    """Rows of two different units, drawn by random pairs of rows with different labels."""
    i, j = np.triu_indices(len(labels), 1)
    counts = (labels[i] != labels[j]) & (stratum[i] == stratum[j]) & (units[i] != units[j])
    choices = np.unique(np.sort(units[np.column_stack((i, j))[counts]], axis=1), axis=0)
    if len(choices) == 0:
        raise DataError("There is no pair with different labels to hold out. Check the labels.")
    pairs = rng.permutation(choices)[:n_pairs]
    return Splits([np.flatnonzero(np.isin(units, pair)) for pair in pairs])
