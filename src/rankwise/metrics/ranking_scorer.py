"""Scores for model selection, where greater is better, and scorers for scikit-learn's tools."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, to_host
from rankwise.errors import DataError, ParameterError
from rankwise.metric_names import Metric, get_metric
from rankwise.routing import predict_with_queries

ROUTED = "routed"


@dataclass(frozen=True)
class RankingScorer:
    """``scorer(y, scores, qid=None)``: a metric, negated if it is an error.

    Attributes
    ----------
    scoring : str, Metric or callable
        A name of `rankwise.metrics.METRICS`, a metric with other options, or a function.
    negated : bool
        Whether the metric is an error, and its value therefore negated.
    """

    scoring: str | Metric | Callable[..., Any]
    negated: bool = False

    @classmethod
    def of(cls, scoring: Any) -> RankingScorer:
        """From the name of a metric, a function, or what `make_ranking_scorer` returns."""
        if isinstance(scoring, EstimatorScorer):
            return scoring.scorer
        if isinstance(scoring, str):
            return cls(scoring, not get_metric(scoring).greater_is_better)
        if isinstance(scoring, Metric):
            return cls(scoring, not scoring.greater_is_better)
        if not callable(scoring):
            raise ParameterError(
                "scoring must be the name of a metric in rankwise.metrics, or a function "
                f"(y, scores, qid) whose value is greater for better scores: got {scoring!r}."
            )
        return cls(scoring)

    @property
    def metric(self) -> Metric | None:
        """The metric, which has a value for each query; None for a function."""
        if isinstance(self.scoring, Metric):
            return self.scoring
        return get_metric(self.scoring) if isinstance(self.scoring, str) else None

    def __call__(self, y: Any, scores: Any, qid: Any = None) -> float:
        """The mean over queries, and over outputs if y has several columns."""
        labels, qid = np.asarray(to_host(y)).reshape(len(y), -1), to_host(qid)
        predicted = in_columns(np.asarray(to_host(scores)), labels.shape)
        pairs = zip(labels.T, predicted.T, strict=True)
        return float(np.mean([self.value(label, f, qid) for label, f in pairs]))

    def value(self, y: Array, scores: Array, qid: Any) -> float:
        """The mean over queries, for one output."""
        if self.metric is not None:
            value = float(self.metric.function(y, scores, qid))
            return 0.0 - value if self.negated else value
        function: Any = self.scoring
        value = function(y, scores, qid)
        if np.ndim(value) or not isinstance(value, Real) or not np.isfinite(float(value)):
            raise ParameterError(
                f"scoring must return a finite number: {self.scoring!r} returned {value!r} for "
                f"{len(y)} rows."
            )
        return float(value)


@dataclass(frozen=True, eq=False, repr=False)
class EstimatorScorer:
    """``scorer(estimator, X, y, *, qid=None)``, as `make_ranking_scorer` returns it.

    Attributes
    ----------
    scorer : RankingScorer
        The metric.
    qid : "routed", pandas Series or None
        Where queries come from, see `make_ranking_scorer`.
    """

    scorer: RankingScorer
    qid: Any = ROUTED

    def __call__(self, estimator: Any, X: Any, y: Any, *, qid: Any = None) -> float:
        """The score of a fitted estimator on these rows."""
        queries = self._queries(X) if qid is None else qid
        return self.scorer(y, predict_with_queries(estimator, X, queries), queries)

    def _queries(self, X: Any) -> Any:
        """The queries of rows for which no qid was passed."""
        if self.qid is None:
            return None
        if isinstance(self.qid, str):
            raise DataError(
                f"No qid reached {self!r}. Call sklearn.set_config(enable_metadata_routing=True) "
                "and pass qid, as in cross_val_score(..., params={'qid': qid, 'groups': qid}), or "
                "use rankwise.model_selection.cross_validate(..., qid=qid). Without routing, a "
                "data frame X finds its queries with make_ranking_scorer(..., qid=series). For one "
                "ranking of all rows: make_ranking_scorer(..., qid=None)."
            )
        if not hasattr(X, "index") or not hasattr(X, "columns"):
            raise DataError(
                "A scorer with qid as a series finds the query of a row by its index: X must be a "
                f"pandas data frame, got {type(X).__name__}."
            )
        unknown = ~X.index.isin(self.qid.index)
        if unknown.any():
            raise DataError(
                f"The qid of the scorer has no entry for row {X.index[unknown].tolist()[0]!r} of X "
                f"({int(unknown.sum())} of {len(X)} rows): give X and qid the same index."
            )
        return self.qid.loc[X.index].to_numpy()

    def get_metadata_routing(self) -> Any:
        """What scikit-learn passes to this scorer if metadata routing is enabled."""
        from sklearn.utils.metadata_routing import MetadataRequest

        request = MetadataRequest(owner=self)
        if isinstance(self.qid, str):
            request.score.add_request(param="qid", alias=True)
        return request

    def __repr__(self) -> str:
        qid = "" if isinstance(self.qid, str) else ", qid=None" if self.qid is None else ", qid=..."
        return f"make_ranking_scorer({self.scorer.scoring!r}{qid})"


def make_ranking_scorer(scoring: Any, *, qid: Any = ROUTED) -> EstimatorScorer:
    """A scorer by a ranking metric, for the parameter `scoring` of scikit-learn's tools.

    Greater is better, as in scikit-learn: errors are negated. The score is the mean over queries.

    Parameters
    ----------
    scoring : str or callable
        A name of `rankwise.metrics.METRICS`, such as "ndcg@10" or "map", or a function
        ``(y, scores, qid)`` that returns a number, where greater is better.
    qid : "routed", pandas Series or None, default="routed"
        Where queries come from:

        - "routed": scikit-learn passes them, if metadata routing is enabled and `qid` is among
          the parameters of the tool. It is an error if none are passed.
        - a Series: a query for each entry of the index of X, which must be a data frame. This needs
          no routing, and works with tools that do not route, such as scikit-learn's
          ``permutation_importance``. Pass qid to `fit` as well.
        - None: all rows are one ranking.

    Returns
    -------
    callable
        ``scorer(estimator, X, y, *, qid=None)``

    Examples
    --------
    >>> import sklearn
    >>> from rankwise import RankRLS
    >>> from rankwise.data import make_ranking
    >>> from rankwise.metrics import make_ranking_scorer
    >>> from sklearn.model_selection import GroupKFold, cross_val_score
    >>> data = make_ranking(n_queries=30, n_levels=4, random_state=0)
    >>> with sklearn.config_context(enable_metadata_routing=True):
    ...     scores = cross_val_score(
    ...         RankRLS(),
    ...         data.X,
    ...         data.y,
    ...         scoring=make_ranking_scorer("ndcg@10"),
    ...         cv=GroupKFold(3),
    ...         params={"qid": data.qid, "groups": data.qid},
    ...     )
    >>> bool(scores.min() > 0.9)
    True
    """
    scorer, is_series = RankingScorer.of(scoring), hasattr(qid, "loc") and hasattr(qid, "index")
    if not (qid is None or is_series or (isinstance(qid, str) and qid == ROUTED)):
        raise ParameterError(
            'qid of make_ranking_scorer must be "routed", a pandas Series with the index of X, or '
            f"None: got {type(qid).__name__}. A scorer gets parts of X, so an array does not "
            "show which query a row belongs to."
        )
    if is_series and not qid.index.is_unique:
        raise ParameterError("qid of make_ranking_scorer has repeated entries in its index.")
    return EstimatorScorer(scorer, qid)


def in_columns(predictions: Array, shape: tuple[int, ...]) -> Array:
    """Predictions with a column for each output; an error if there are too few or too many."""
    if predictions.size != shape[0] * shape[1]:
        raise DataError(
            f"predict must return a score for each of {shape[0]} rows and {shape[1]} outputs: got "
            f"shape {predictions.shape}."
        )
    return predictions.reshape(shape)
