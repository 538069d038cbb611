"""Hold-outs of a search by refitting, for any estimator."""

from __future__ import annotations

from inspect import signature
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from sklearn import config_context
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from rankwise.backends.arrays import Array, Index, to_host
from rankwise.errors import DataError, ParameterError
from rankwise.estimators.least_squares.base import LeastSquaresRanker
from rankwise.graph import QueryGroups
from rankwise.model_selection.search.labelled_rows import LabelledRows, take
from rankwise.model_selection.search.splits import Splits
from rankwise.problem.landmarks import LandmarkChoice, check_in_range
from rankwise.routing import predict_with_queries, requested


class Predicted(NamedTuple):
    """Scores for each alpha (or a single set of scores), times in seconds, and the alphas.

    `shared` names what was computed from all rows; see `HeldOutScores`.
    """

    scores: Array
    fit_time: float
    predict_time: float
    alphas: Array | None = None
    shared: tuple[str, ...] = ()


def refit(
    estimator: Any, alphas: list[float] | None, data: LabelledRows, splits: Splits, k: int
) -> Predicted:
    """Fit without the rows of split k, for every alpha, and predict these rows.

    The scores have shape (n_alphas, n_test, ...), where n_alphas is 1 if `alphas` is None.
    """
    estimator = clone(estimator)
    train, test = splits.train(k, len(data)), splits.tests[k]
    _renumber_landmarks(split_pipeline(estimator)[1], train, len(data))
    columns = train if get_tags(estimator).input_tags.pairwise else None
    X, y, qid = take(data.X, train, columns), data.y[train], data.queries(train)
    weights = data.weights(train)
    new, new_qid = take(data.X, test, columns), data.queries(test)
    start = perf_counter()
    if alphas is None:
        fit_with_queries(estimator, X, y, qid, weights)
        fitted = perf_counter()
        scores = np.asarray(to_host(predict_with_queries(estimator, new, new_qid)))[None]
        return Predicted(scores, fitted - start, perf_counter() - fitted)
    steps, ranker = split_pipeline(estimator)
    if steps is not None:
        X = _fit_transform(steps, X, y, qid)
    path = ranker.path(X, y, alphas, qid=qid, query_weight=weights)
    fitted = perf_counter()
    new = new if steps is None else _transform(steps, new, new_qid)
    scores = to_host(path.predict(new, qid=new_qid))
    return Predicted(scores, fitted - start, perf_counter() - fitted)


def _renumber_landmarks(ranker: Any, train: Index, n_rows: int) -> None:
    """Landmarks that are row numbers of all rows, as row numbers of the training part."""
    landmarks = getattr(ranker, "landmarks", None)
    if landmarks is None or isinstance(landmarks, str) or np.ndim(landmarks) != 1:
        return
    rows = LandmarkChoice.of(landmarks, None).rows
    assert rows is not None  # one dimension
    check_in_range(rows, n_rows)
    position = np.full(n_rows, -1)
    position[train] = np.arange(len(train))
    left = position[rows][position[rows] >= 0]
    if len(left) == 0:
        raise DataError("A split leaves no landmark among its training rows: use more landmarks.")
    ranker.set_params(landmarks=left, n_landmarks=None)


def split_pipeline(estimator: Any) -> tuple[Pipeline | None, Any]:
    """The transformers of a pipeline (None if there are none), and its last step."""
    if not isinstance(estimator, Pipeline):
        return None, estimator
    return (estimator[:-1] if len(estimator) > 1 else None), estimator[-1]


def least_squares_name(estimator: Any) -> str | None:
    """The name of the parameter that is the alpha of a least-squares ranker, or None."""
    if isinstance(estimator, LeastSquaresRanker):
        return "alpha"
    if isinstance(estimator, Pipeline) and isinstance(estimator[-1], LeastSquaresRanker):
        return f"{estimator.steps[-1][0]}__alpha"
    return None


def check_fit_and_predict(name: str, estimator: Any) -> None:
    """Raise an error unless a parameter of this name is an estimator."""
    missing = [method for method in ("fit", "predict") if not hasattr(estimator, method)]
    if isinstance(estimator, type) or missing:
        raise ParameterError(f"{name} must be an object with fit and predict: got {estimator!r}.")


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
                X = _fit_transform(steps, X, y, qid)
                estimator.steps[:-1] = steps.steps
            last.fit(X, y, **metadata)
            return
        if last is not estimator and metadata:
            last.set_fit_request(**dict.fromkeys(metadata, True))
        if "qid" not in metadata:
            metadata |= requested(estimator, "fit", qid)
        estimator.fit(X, y, **metadata)


def _fit_transform(steps: Pipeline, X: Any, y: Any, qid: Any) -> Any:
    with config_context(enable_metadata_routing=True):
        return steps.fit_transform(X, y, **requested(steps, "fit_transform", qid))


def _transform(steps: Pipeline, X: Any, qid: Any) -> Any:
    with config_context(enable_metadata_routing=True):
        return steps.transform(X, **requested(steps, "transform", qid))
