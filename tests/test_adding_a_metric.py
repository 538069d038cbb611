"""A metric that is declared in one place is known everywhere."""

import pickle

import numpy as np
import pytest
from typer.testing import CliRunner

from rankwise import AutoRanker, RankingSearchCV, RankRLS, metric_names
from rankwise.cli.main import app
from rankwise.cli.options import metric_words
from rankwise.data import make_ranking, write_letor
from rankwise.errors import ParameterError
from rankwise.metrics import compare_rankings, evaluate_ranking, get_metric, paired_test
from rankwise.metrics.ranking_metrics import ranking_metric
from rankwise.plots import plot_query_values


@pytest.fixture(autouse=True)
def top_miss(monkeypatch):
    """Declares the metric "top1_miss", for the length of a test."""
    monkeypatch.setitem(metric_names._RANKING, "top1_miss", None)  # which a test takes away again

    @ranking_metric(
        "top1_miss",
        label="Top-1 miss",
        other_names=("t1m",),
        greater_is_better=False,
        undefined="skip",
        lacks="no rows",
        evaluated=("whole",),
    )
    def top1_miss(ranked):
        """Whether the first row is not the best of its query."""
        starts = ranked.groups.indptr[:-1]
        return 1.0 * (ranked.labels[starts] < np.maximum.reduceat(ranked.labels, starts))

    return top1_miss


@pytest.fixture(scope="module")
def data():
    return make_ranking(n_queries=12, rows_per_query=6, n_features=3, n_levels=3, random_state=0)


Y, F, QID = [2, 1, 0, 0, 2, 1], [0.9, 0.1, 0.3, 0.5, 0.2, 0.4], ["a"] * 3 + ["b"] * 3


def test_by_any_of_its_names(top_miss):
    for name in ("top1_miss", "TOP1_MISS", "Top-1 miss", "t1m"):
        function, greater_is_better = get_metric(name)
        assert function is top_miss
        assert not greater_is_better
    assert not get_metric("t1m").takes_cutoff
    assert not get_metric("t1m").counts_relevant
    with pytest.raises(ParameterError, match=r"'top1_miss': got 'other'\. A cut-off"):
        get_metric("other")


def test_in_evaluations_comparisons_tests_and_pictures():
    evaluation = evaluate_ranking(Y, F, QID)
    assert evaluation["top1_miss"] == evaluation.means["Top-1 miss"] == 0.5
    assert "Top-1 miss (lower is better)" in str(evaluation)
    better = evaluate_ranking(Y, Y, QID)
    assert paired_test(better, evaluation, "t1m").wins == 1
    comparison = compare_rankings(Y, {"a": F, "b": Y}, QID, metrics=["t1m"])
    assert "Top-1 miss (lower is better)" in str(comparison)
    pytest.importorskip("matplotlib")
    assert "Top-1 miss" in plot_query_values([0.0, 1.0], metric="top1_miss").get_ylabel()


def test_in_searches_and_auto(data):
    search = RankingSearchCV(RankRLS(), {"alpha": [0.1, 10.0]}, scoring="top1_miss")
    assert search.fit(data.X, data.y, qid=data.qid).best_score_ <= 0.0
    ranker = AutoRanker(metric="top1_miss", candidates="linear", boosted=False)
    ranker.fit(data.X, data.y, qid=data.qid)
    assert "Top-1 miss" in str(ranker.results_.to_table())
    assert not ranker.results_.greater_is_better


def test_by_the_command(data, tmp_path):
    path = tmp_path / "train.txt"
    write_letor(path, data.X, data.y, data.qid)
    to = ["--out", str(tmp_path / "model.rankwise"), "--alphas", "0.1,10"]
    told = CliRunner().invoke(app, ["tune", str(path), "--metric", "top1_miss", *to])
    assert told.exit_code == 0, told.output
    assert "Top-1 miss" in told.output
    assert "top1_miss" in metric_words()


def test_a_declared_metric_is_a_plain_value():
    metric = get_metric("ndcg")
    assert pickle.loads(pickle.dumps(metric)) == metric
    assert len({metric, get_metric("NDCG")}) == 1
