"""Scores of held-out predictions for many alphas."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rankwise.errors import UndefinedMetricError
from rankwise.holdout import scores
from rankwise.holdout.scores import score_predictions
from rankwise.metrics import get_metric

RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 3, (30, 2)).astype(float)
LABELS[:5] = 1.0  # a query without pairs
QID = np.repeat([4, 0, 2, 7, 1, 3], 5)
ALPHAS = np.arange(1.0, 8.0)


@pytest.mark.parametrize("metric", ["ndcg@3", "disagreement"])
@pytest.mark.parametrize("most_rows", [0, 70, 10_000])
def test_alphas_are_scored_one_by_one_or_several_in_a_call(monkeypatch, metric, most_rows):
    monkeypatch.setattr(scores, "FEW_COUNTS", 0)
    monkeypatch.setattr(scores, "CALL_ROWS", most_rows)
    predictions, (function, _) = RNG.standard_normal((7, 30, 2)).round(1), get_metric(metric)
    found = score_predictions(ALPHAS, LABELS, predictions, metric, QID)
    for k, f in enumerate(predictions):
        values = [
            function(y, s, QID, per_query=True).values for y, s in zip(LABELS.T, f.T, strict=True)
        ]
        assert_allclose(found.score[k], np.mean([v.mean() for v in values]))
        errors = [v.std(ddof=1) / np.sqrt(len(v)) for v in values]
        assert_allclose(found.standard_error[k], np.mean(errors))


def test_an_error_counts_the_queries_of_one_alpha():
    with pytest.raises(UndefinedMetricError, match="any of the 6 queries"):
        score_predictions(ALPHAS, np.ones((30, 1)), np.zeros((7, 30, 1)), "disagreement", QID)
