"""Scores of held-out predictions, split by split; greater is better."""

from __future__ import annotations

import numpy as np

from rankwise.backends.arrays import Array
from rankwise.errors import DataError
from rankwise.metrics import get_metric
from rankwise.metrics.ranking_scorer import RankingScorer, in_columns
from rankwise.model_selection.search.labelled_rows import LabelledRows
from rankwise.model_selection.search.splits import Splits


def scores_by_split(
    scorer: RankingScorer, data: LabelledRows, splits: Splits, predictions: Array
) -> tuple[Array, Array]:
    """The score of each split and the number of queries that count, for each output.

    `predictions` has the rows of ``splits.rows``. If the metric is undefined for all queries
    of a split, its score is NaN and its count is 0.
    """
    rows = splits.rows
    labels = data.labels[rows]
    predictions = in_columns(predictions, labels.shape)
    finite = np.isfinite(predictions).all(axis=1)
    if not finite.all():
        row = rows[np.argmin(finite)]
        raise DataError(
            f"The held-out prediction of row {row} is {predictions[np.argmin(finite)]}, but "
            "scores must be finite. Remove such parameters from param_grid."
        )
    pairs = list(zip(labels.T, predictions.T, strict=True))
    if isinstance(scorer.scoring, str):
        found = [_query_means(scorer, data, splits, *pair) for pair in pairs]
    else:
        found = [_calls(scorer, data, splits, *pair) for pair in pairs]
    values, counts = zip(*found, strict=True)
    return np.column_stack(values), np.column_stack(counts)


def _query_means(
    scorer: RankingScorer, data: LabelledRows, splits: Splits, labels: Array, predictions: Array
) -> tuple[Array, Array]:
    """One call of the metric for all splits; each query of each split has its own id."""
    n_queries, n_splits = data.groups.n_groups, len(splits)
    queries = splits.split_of_row * n_queries + data.groups.codes[splits.rows]
    function = get_metric(str(scorer.scoring)).function
    result = function(labels, predictions, queries, per_query=True)
    split = result.qid // n_queries
    counts = np.bincount(split, minlength=n_splits)
    sums = np.bincount(split, result.values, minlength=n_splits)
    values = np.full(n_splits, np.nan)
    np.divide(0.0 - sums if scorer.negated else sums, counts, out=values, where=counts > 0)
    return values, counts.astype(np.float64)


def _calls(
    scorer: RankingScorer, data: LabelledRows, splits: Splits, labels: Array, predictions: Array
) -> tuple[Array, Array]:
    """One call of the function for each split."""
    values, counts = np.empty(len(splits)), np.empty(len(splits))
    stop = np.cumsum([len(test) for test in splits.tests])
    for k, test in enumerate(splits.tests):
        part = slice(stop[k] - len(test), stop[k])
        values[k] = scorer.value(labels[part], predictions[part], data.queries(test))
        counts[k] = len(np.unique(data.groups.codes[test]))
    return values, counts
