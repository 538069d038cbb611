"""What every ranker shares: scores, and the rules of queries."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from rankwise.backends.arrays import to_host
from rankwise.errors import DataError, ParameterError, RankwiseWarning


class RankerMixin:
    """A ranker: `predict` gives scores, higher is better, and `score` compares pairs."""

    n_queries_: int
    predict: Any

    # scikit-learn's class-level requests: with metadata routing on, qid reaches fit and score
    # through any meta-estimator without a call of set_fit_request.
    __metadata_request__fit = {"qid": True}  # noqa: RUF012
    __metadata_request__score = {"qid": True}  # noqa: RUF012

    def score(self, X: Any, y: Any, sample_weight: None = None, qid: Any = None) -> float:
        """Share of pairs in the right order: one minus the disagreement error, over queries.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
            Several outputs are averaged.
        sample_weight : None
            Pairs have no weights here; anything but None is an error.
        qid : array-like of shape (n_rows,), optional
            Only rows of the same query are compared. None: all rows are.

        Returns
        -------
        float
            1 for a perfect order, about 0.5 for a random one. Ties in the scores count half;
            queries without two different labels are left out.
        """
        from rankwise.metrics import disagreement_error  # compiles loops: only where it is used

        if sample_weight is not None:
            raise ParameterError(
                "score has no sample_weight: pairs are compared, not rows. Leave it out."
            )
        if qid is None and getattr(self, "n_queries_", 1) > 1:
            warnings.warn(
                f"{type(self).__name__} was fitted on {self.n_queries_} queries, but score got no "
                "qid and compares rows across queries. Pass qid to score; in a search, use "
                "sklearn.set_config(enable_metadata_routing=True).",
                RankwiseWarning,
                stacklevel=2,
            )
        scores, labels = (_columns(to_host(values)) for values in (self.predict(X), y))
        qid = to_host(qid)
        if scores.shape != labels.shape:
            raise DataError(
                f"y needs {scores.shape[1]} columns and {len(scores)} rows, as the ranker "
                f"predicts: got {labels.shape[1]} columns and {len(labels)} rows."
            )
        errors = [
            disagreement_error(y_k, f_k, qid) for y_k, f_k in zip(labels.T, scores.T, strict=True)
        ]
        return 1.0 - float(np.mean(errors))


def _columns(values: Any) -> Any:
    """Values with an axis for outputs."""
    array = np.asarray(values)
    return array.reshape(len(array), -1)
