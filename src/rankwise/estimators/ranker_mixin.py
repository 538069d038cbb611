"""The base class of all rankers."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from rankwise.backends.arrays import to_host
from rankwise.errors import DataError, ParameterError, RankwiseWarning


class RankerMixin:
    """Adds `score` to a ranker whose `predict` returns scores (higher is better)."""

    n_queries_: int
    predict: Any

    # scikit-learn's class-level requests: with metadata routing on, qid reaches fit and score
    # through any meta-estimator without a call of set_fit_request.
    __metadata_request__fit = {"qid": True}  # noqa: RUF012
    __metadata_request__score = {"qid": True}  # noqa: RUF012

    def score(self, X: Any, y: Any, sample_weight: None = None, qid: Any = None) -> float:
        """The share of correctly ordered pairs (one minus the disagreement error) over queries.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
            Several outputs are averaged.
        sample_weight : None
            Only for compatibility with scikit-learn; weights are not supported.
        qid : array-like of shape (n_rows,), optional
            Only rows of the same query are compared. None: all rows are compared.

        Returns
        -------
        float
            1 for a perfect order, about 0.5 for a random one. Tied scores count half. Queries
            without two different labels are ignored.
        """
        from rankwise.metrics import disagreement_error  # imported late, as it compiles loops

        if sample_weight is not None:
            raise ParameterError(
                "score does not support sample_weight: it compares pairs, not rows. Omit it."
            )
        if qid is None and getattr(self, "n_queries_", 1) > 1:
            warnings.warn(
                f"{type(self).__name__} was fitted on {self.n_queries_} queries, but score was "
                "called without qid and compares rows across queries. Pass qid to score; in a "
                "meta-estimator, use "
                "sklearn.set_config(enable_metadata_routing=True).",
                RankwiseWarning,
                stacklevel=2,
            )
        scores, labels = (
            _columns(to_host(values)) for values in (self._predict_queries(X, qid), y)
        )
        qid = to_host(qid)
        if scores.shape != labels.shape:
            raise DataError(
                f"y must have {len(scores)} rows and {scores.shape[1]} columns, like the "
                f"predictions: got {len(labels)} rows and {labels.shape[1]} columns."
            )
        errors = [
            disagreement_error(y_k, f_k, qid) for y_k, f_k in zip(labels.T, scores.T, strict=True)
        ]
        return 1.0 - float(np.mean(errors))

    def _predict_queries(self, X: Any, qid: Any) -> Any:
        """Scores of rows, by a ranker that need not know their queries."""
        return self.predict(X)


def _columns(values: Any) -> Any:
    """Values with a second axis for outputs."""
    array = np.asarray(values)
    return array.reshape(len(array), -1)
