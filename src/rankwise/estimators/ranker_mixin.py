"""The base class of all rankers."""

from __future__ import annotations

from inspect import currentframe
from typing import Any

import numpy as np

from rankwise.backends.arrays import to_host
from rankwise.errors import DataError, warn
from rankwise.estimators._skl2onnx import Skl2onnxMixin
from rankwise.graph.label_checks import check_row_weights
from rankwise.parameters import default_parameters

MANY_ROWS = 50  # with fewer, grades may well be those of one ranking


class RankerMixin(Skl2onnxMixin):
    """Adds `score` to a ranker whose `predict` returns scores (higher is better)."""

    n_queries_: int
    predict: Any

    # scikit-learn's class-level requests: with metadata routing on, qid reaches fit and score
    # through any meta-estimator without a call of set_fit_request.
    __metadata_request__fit = {"qid": True}  # noqa: RUF012
    __metadata_request__score = {"qid": True}  # noqa: RUF012

    def score(self, X: Any, y: Any, sample_weight: Any = None, qid: Any = None) -> float:
        """The share of correctly ordered pairs (one minus the disagreement error) over queries.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
            Several outputs are averaged.
        sample_weight : array-like of shape (n_rows,), optional
            How much every row counts, at least 0: a pair counts the product of the weights of its
            rows, and queries count the same. None: 1.
        qid : array-like of shape (n_rows,), optional
            Only rows of the same query are compared. None: all rows are compared.

        Returns
        -------
        float
            1 for a perfect order, about 0.5 for a random one. Tied scores count half. Queries
            without two different labels are ignored.

        Warns
        -----
        RankwiseWarning
            If there is no qid although the ranker was fitted on several queries, or although the
            labels of 50 rows or more look like the grades of documents in queries: whole numbers
            from 0 to 30, of more than two values. scikit-learn's tools pass qid on only if
            metadata routing is enabled. For one ranking of graded rows, pass the same qid for all
            rows.
        """
        from rankwise.metrics.pairwise import disagreement_error, weighted_concordance

        if qid is None:
            warn_without_queries(self, y)
        scores, labels = (
            _columns(to_host(values)) for values in (self._predict_queries(X, qid), y)
        )
        qid = to_host(qid)
        if scores.shape != labels.shape:
            raise DataError(
                f"y must have {len(scores)} rows and {scores.shape[1]} columns, like the "
                f"predictions: got {len(labels)} rows and {labels.shape[1]} columns."
            )
        columns = list(zip(labels.T, scores.T, strict=True))
        if sample_weight is None:
            return 1.0 - float(np.mean([disagreement_error(y, f, qid) for y, f in columns]))
        weights = check_row_weights(sample_weight, len(labels))
        return float(np.mean([weighted_concordance(y, f, qid, weights) for y, f in columns]))

    def decision_function(self, X: Any) -> Any:
        """The scores of `predict`, for scikit-learn's scorers of two classes, such as "roc_auc".

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_outputs)
        """
        return self.predict(X)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Parameters that did not exist when the state was stored get their defaults."""
        defaults = default_parameters(type(self))
        super().__setstate__(defaults | state)  # type: ignore[misc]

    def _predict_queries(self, X: Any, qid: Any) -> Any:
        """Scores of rows, by a ranker that need not know their queries."""
        return self.predict(X)


def warn_without_queries(ranker: Any, y: Any) -> None:
    """Warn of a score without qid, if rows seem to belong to queries."""
    name, n_queries = type(ranker).__name__, getattr(ranker, "n_queries_", 1)
    if n_queries > 1:
        seen = f"{name} was fitted on {n_queries} queries, but no qid reached score"
    elif _groups_are_held_out():
        seen = f"Whole groups are held out, but no qid reached {name}"
    else:
        from rankwise.metrics.ranking_scorer import are_grades

        labels = np.asarray(to_host(y))
        if len(labels) < MANY_ROWS or not are_grades(labels) or len(np.unique(labels)) <= 2:
            return
        seen = f"{name} was fitted to one ranking, and no qid reached score, but y has grades"
    warn(
        f"{seen}: all rows are compared with each other. Pass qid=, one id per row. Pipelines and "
        "scikit-learn's searches pass it on only after "
        "sklearn.set_config(enable_metadata_routing=True); "
        "rankwise.model_selection.cross_validate and RankingSearchCV always do. Groups of a "
        "splitter, as in groups=, do not reach the ranker."
    )


def _groups_are_held_out() -> bool:
    """Whether this is called by scikit-learn's tools with groups=, in this process.

    The groups get to the splitter alone: the calling functions are the only trace of them.
    """
    frame = currentframe()
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith("sklearn.model_selection"):
            given = frame.f_locals
            if any(named.get("groups") is not None for named in (given, given.get("params") or {})):
                return True
        frame = frame.f_back
    return False


def _columns(values: Any) -> Any:
    """Values with a second axis for outputs."""
    array = np.asarray(values)
    return array.reshape(len(array), -1)
