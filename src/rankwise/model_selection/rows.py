"""Labelled rows in any container, and fits of any estimator to them."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_array, check_consistent_length

from rankwise.backends.arrays import Array, Index, is_sparse, is_tensor, to_host
from rankwise.errors import DataError, ParameterError
from rankwise.estimators._validation import explain_labels, explain_rows, query_groups
from rankwise.graph import QueryGroups
from rankwise.graph.id_arrays import as_ids
from rankwise.graph.label_checks import labels_differ, nothing_to_rank, numeric_labels
from rankwise.routing import requested


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
    """Arrays and data frames as they are, sparse rows as CSR, and all else as an array of rows."""
    if is_sparse(X):
        return X.tocsr()
    if is_tensor(X) or hasattr(X, "iloc") or hasattr(X, "columns"):
        return X
    try:
        rows = np.asanyarray(X)
        if rows.ndim > 0:
            return rows
        refused: Exception = DataError(
            f"X must have rows of numbers: got a {type(X).__name__}. Pass a list of rows, an array "
            "or a data frame."
        )
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
