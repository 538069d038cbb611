"""Scores of held-out predictions; greater is better."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, to_host
from rankwise.errors import DataError, ParameterError
from rankwise.metrics import get_metric
from rankwise.model_selection.search.labelled_rows import LabelledRows
from rankwise.model_selection.search.splits import Splits


@dataclass(frozen=True)
class RankingScorer:
    """``scorer(y, scores, qid=None)``: a metric, negated if it is an error.

    Attributes
    ----------
    scoring : str or callable
        A name of `rankwise.metrics.METRICS`, or the callable itself.
    negated : bool
        Whether the metric is an error, and its value therefore negated.
    """

    scoring: str | Callable[..., Any]
    negated: bool = False

    @classmethod
    def of(cls, scoring: Any) -> RankingScorer:
        if isinstance(scoring, str):
            return cls(scoring, not get_metric(scoring).greater_is_better)
        if not callable(scoring):
            raise ParameterError(
                "scoring must be the name of a metric in rankwise.metrics, or a function "
                f"(y, scores, qid) whose value is greater for better scores: got {scoring!r}."
            )
        return cls(scoring)

    def __call__(self, y: Any, scores: Any, qid: Any = None) -> float:
        """The mean over queries, and over outputs if y has several columns."""
        labels, qid = np.asarray(to_host(y)).reshape(len(y), -1), to_host(qid)
        predicted = _in_columns(np.asarray(to_host(scores)), labels.shape)
        pairs = zip(labels.T, predicted.T, strict=True)
        return float(np.mean([self._value(label, f, qid) for label, f in pairs]))

    def by_split(
        self, data: LabelledRows, splits: Splits, predictions: Array
    ) -> tuple[Array, Array]:
        """The score of each split and the number of queries that count, for each output.

        `predictions` has the rows of ``splits.rows``. If the metric is undefined for all queries
        of a split, its score is NaN and its count is 0.
        """
        rows = splits.rows
        labels = data.labels[rows]
        predictions = _in_columns(predictions, labels.shape)
        finite = np.isfinite(predictions).all(axis=1)
        if not finite.all():
            row = rows[np.argmin(finite)]
            raise DataError(
                f"The held-out prediction of row {row} is {predictions[np.argmin(finite)]}, but "
                "scores must be finite. Remove such parameters from param_grid."
            )
        pairs = list(zip(labels.T, predictions.T, strict=True))
        if isinstance(self.scoring, str):
            found = [self._query_means(data, splits, *pair) for pair in pairs]
        else:
            found = [self._calls(data, splits, *pair) for pair in pairs]
        values, counts = zip(*found, strict=True)
        return np.column_stack(values), np.column_stack(counts)

    def _query_means(
        self, data: LabelledRows, splits: Splits, labels: Array, predictions: Array
    ) -> tuple[Array, Array]:
        """One call of the metric for all splits; each query of each split has its own id."""
        n_queries, n_splits = data.groups.n_groups, len(splits)
        queries = splits.split_of_row * n_queries + data.groups.codes[splits.rows]
        function = get_metric(str(self.scoring)).function
        result = function(labels, predictions, queries, per_query=True)
        split = result.qid // n_queries
        counts = np.bincount(split, minlength=n_splits)
        sums = np.bincount(split, result.values, minlength=n_splits)
        values = np.full(n_splits, np.nan)
        np.divide(0.0 - sums if self.negated else sums, counts, out=values, where=counts > 0)
        return values, counts.astype(np.float64)

    def _calls(
        self, data: LabelledRows, splits: Splits, labels: Array, predictions: Array
    ) -> tuple[Array, Array]:
        """One call of the function for each split."""
        values, counts = np.empty(len(splits)), np.empty(len(splits))
        stop = np.cumsum([len(test) for test in splits.tests])
        for k, test in enumerate(splits.tests):
            part = slice(stop[k] - len(test), stop[k])
            values[k] = self._value(labels[part], predictions[part], data.queries(test))
            counts[k] = len(np.unique(data.groups.codes[test]))
        return values, counts

    def _value(self, y: Array, scores: Array, qid: Any) -> float:
        if isinstance(self.scoring, str):
            value = float(get_metric(self.scoring).function(y, scores, qid))
            return 0.0 - value if self.negated else value
        value = self.scoring(y, scores, qid)
        if np.ndim(value) or not isinstance(value, Real) or not np.isfinite(float(value)):
            raise ParameterError(
                f"scoring must return a finite number: {self.scoring!r} returned {value!r} for "
                f"{len(y)} rows."
            )
        return float(value)


def _in_columns(predictions: Array, shape: tuple[int, ...]) -> Array:
    if predictions.size != shape[0] * shape[1]:
        raise DataError(
            f"predict must return a score for each of {shape[0]} rows and {shape[1]} outputs: got "
            f"shape {predictions.shape}."
        )
    return predictions.reshape(shape)
