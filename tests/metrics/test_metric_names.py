"""Names of metrics that people type."""

import pytest

from rankwise.errors import ParameterError
from rankwise.metric_names import metric_label
from rankwise.metrics import compare_rankings, get_metric, ndcg
from rankwise.metrics.ranking_scorer import RankingScorer


def test_linear_gains_by_name():
    y, scores, qid = [0.5, 3, 1, 0, 2, 1], [0.3, 0.2, 0.9, 0.4, 0.1, 0.5], [0, 0, 0, 1, 1, 1]
    want = ndcg(y, scores, qid, k=2, gain="linear")
    for name in ("linear-ndcg@2", "linear NDCG@2", "LINEAR-NDCG@2"):
        assert get_metric(name).function(y, scores, qid) == want
        assert metric_label(name) == "linear NDCG@2"
    # The gain of a comparison does not undo what the name says.
    found = compare_rankings(y, {"a": scores, "b": y}, qid, metrics=["linear-ndcg@2"])
    assert found.values["linear-ndcg@2"]["a"].mean() == want
    assert RankingScorer.of("linear-ndcg@2")(y, scores, qid) == want
    for name in ("linear-map", "linear-", "linear", "linear-linear-ndcg"):
        with pytest.raises(ParameterError, match="metric must be one of"):
            get_metric(name)
