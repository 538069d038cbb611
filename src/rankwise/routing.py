"""Pipelines and searches of scikit-learn: queries on their way through them, and their ranker."""

from __future__ import annotations

from typing import Any


def predict_with_queries(estimator: Any, X: Any, qid: Any) -> Any:
    """Scores of an estimator; qid is routed to all objects that request it."""
    from sklearn import config_context  # imported late: metrics alone do without scikit-learn

    # scikit-learn's searches predict by their best estimator, but do not pass qid to it.
    estimator = getattr(estimator, "best_estimator_", estimator)
    with config_context(enable_metadata_routing=True):
        return estimator.predict(X, **requested(estimator, "predict", qid))


def last_step(model: Any) -> Any:
    """The ranker of a model, which may be a pipeline or a search."""
    model = getattr(model, "best_estimator_", model)
    return model.steps[-1][1] if hasattr(model, "steps") else model


def first_step(model: Any) -> Any:
    """The part of a model that gets its rows, and knows the number and names of features."""
    model = getattr(model, "best_estimator_", model)
    for _, step in getattr(model, "steps", ()):
        if step is not None and step != "passthrough":
            return first_step(step)
    return model


def requested(estimator: Any, method: str, qid: Any) -> dict[str, Any]:
    """qid, if the estimator or one of its sub-estimators requests it.

    A splitter in it that requests groups gets the queries as well.
    """
    if qid is None:
        return {}
    from sklearn.utils.metadata_routing import get_routing_for_object

    try:
        consumed = get_routing_for_object(estimator).consumes(method, ["qid", "groups"])
    except NotImplementedError:  # a meta-estimator without routing takes no metadata
        return {}
    return dict.fromkeys(consumed, qid)
