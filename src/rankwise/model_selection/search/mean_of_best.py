"""The mean of the best candidates of a search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rankwise.errors import DataError, ParameterError
from rankwise.metrics.ranking_scorer import RankingScorer
from rankwise.model_selection.best_mean import HeldOutPool
from rankwise.model_selection.search.grid_candidates import Batch, Outcome
from rankwise.model_selection.search.labelled_rows import LabelledRows
from rankwise.model_selection.search.splits import Splits

MEAN_OF_BEST = "mean-of-best"


def check_mean_search(cv: Any, scorer: RankingScorer, data: LabelledRows) -> None:
    """A mean needs held-out scores of rows, and the metric of each query."""
    if isinstance(cv, str) and cv == "leave_pair_out":
        raise ParameterError(
            'refit="mean-of-best" needs held-out rows: use cv="leave_query_out", or a number of '
            'folds, as in cv=5. With cv="leave_pair_out" there are only pairs.'
        )
    if not isinstance(scorer.scoring, str):
        raise ParameterError(
            'refit="mean-of-best" compares candidates query by query: scoring must be the name of '
            f"a metric, got {scorer.scoring!r}."
        )
    if data.labels.shape[1] > 1:
        raise DataError(
            f'refit="mean-of-best" needs one column of labels: got {data.labels.shape[1]}.'
        )


def held_out_pool(
    batches: Sequence[Batch],
    outcomes: Sequence[Outcome],
    data: LabelledRows,
    splits: Splits,
    scorer: RankingScorer,
) -> HeldOutPool:
    """The held-out scores of all candidates, in the order of the grid."""
    back = np.argsort(np.concatenate([batch.candidates for batch in batches]))
    predictions = [outcome.predictions for outcome in outcomes if outcome.predictions is not None]
    columns = np.concatenate([part.reshape(len(part), -1) for part in predictions])[back]
    numbers = np.repeat(np.arange(len(batches)), [len(batch.candidates) for batch in batches])[back]
    return HeldOutPool.of_splits(data, splits, columns, numbers, str(scorer.scoring))
