"""Several rankers compared on the same queries."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from rankwise import RLS, RankRLS
from rankwise.data import make_ranking
from rankwise.errors import DataError, ParameterError
from rankwise.metrics import (
    QueryValues,
    average_precision,
    compare_rankings,
    disagreement_error,
    evaluate_ranking,
    ndcg,
    paired_test,
)
from rankwise.metrics.evaluation import holm
from rankwise.model_selection import compare_rankers
from tests.metrics.cases import noisy_ranking
from tests.oracles.significance import holm_adjusted, t_interval, two_sided_sign_flips


def gaps_of(values):
    values = np.asarray(values, dtype=float)
    queries = np.arange(len(values))
    return QueryValues(queries, values), QueryValues(queries, np.zeros(len(values)))


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=8))
def test_few_queries_have_an_exact_p_value(gaps):
    tenths = [gap / 10 for gap in gaps]  # whose sums are not exact
    test = paired_test(*gaps_of(tenths), method="permutation")
    assert test.p_value == pytest.approx(two_sided_sign_flips(gaps))
    assert test.statistic == pytest.approx(np.mean(tenths))
    assert test.method == "permutation"


def test_random_permutations_are_close_to_all_of_them():
    gaps = np.random.default_rng(0).integers(-2, 4, 12)
    exact = two_sided_sign_flips(gaps.tolist())
    drawn = paired_test(*gaps_of(gaps), method="permutation", n_permutations=4000)
    # Five standard deviations of a share of 4,000 draws.
    assert abs(drawn.p_value - exact) < 5 * np.sqrt(exact * (1 - exact) / 4000) + 1e-3
    again = paired_test(*gaps_of(gaps), method="permutation", n_permutations=4000)
    assert again.p_value == drawn.p_value
    other = paired_test(*gaps_of(gaps), method="permutation", n_permutations=4000, random_state=1)
    assert other.p_value != drawn.p_value


def test_a_random_p_value_is_never_zero():
    test = paired_test(*gaps_of(np.ones(40)), method="permutation", n_permutations=99)
    assert test.p_value == pytest.approx(0.01)
    assert paired_test(*gaps_of(np.zeros(40)), method="permutation").p_value == 1.0


def test_the_table_tells_exact_p_values_from_random_ones():
    y, qid = np.tile([0, 1], 12), np.repeat(np.arange(12), 2)
    right = y.astype(float)
    third, all_wrong = np.where(qid < 4, 1 - right, right), 1 - right
    few = compare_rankings(y, {"a": right, "b": third}, qid, metrics=["map"], n_permutations=99)
    assert few.pairs[0].test.p_value == 2 / 2**4
    assert "p: permutation test (exact)." in few.to_table().note
    scores = {"a": right, "b": all_wrong}
    many = compare_rankings(y, scores, qid, metrics=["map"], n_permutations=99)
    assert "p: permutation test (99 permutations)." in many.to_table().note
    scores = {"a": right, "b": third, "c": all_wrong}
    both = compare_rankings(y, scores, qid, metrics=["map"], n_permutations=99)
    assert "p: permutation test (exact, or 99 permutations)." in both.to_table().note


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm(p_values):
    assert_allclose(holm(np.array(p_values)), holm_adjusted(p_values))


def test_intervals_are_students():
    gaps = [0.3, -0.1, 0.2, 0.25]
    test = paired_test(*gaps_of(gaps))
    assert_allclose(test.interval(0.9), t_interval(gaps, 0.9))
    assert np.isnan(paired_test(*gaps_of([0.5])).interval()).all()


@pytest.fixture(scope="module")
def three():
    y, good, qid = noisy_ranking(noise=0.5)
    scores = {"good": good, "fair": noisy_ranking(noise=1.0)[1], "bad": noisy_ranking(noise=9.0)[1]}
    return y, scores, qid


def test_every_pair_in_every_metric(three):
    y, scores, qid = three
    found = compare_rankings(y, scores, qid, metrics=["MAP", "disagreement"], relevant=2)
    names = [(p.metric, p.first, p.second) for p in found.pairs]
    couples = [("good", "fair"), ("good", "bad"), ("fair", "bad")]
    assert names == [(metric, *pair) for metric in ("MAP", "disagreement") for pair in couples]
    a, b = (average_precision(y, scores[n], qid, relevant=2, per_query=True) for n in names[0][1:])
    want = paired_test(a, b, "MAP", method="permutation")
    assert found.pairs[0].test == want
    raw = [pair.test.p_value for pair in found.pairs]
    assert_allclose([pair.adjusted_p_value for pair in found.pairs], holm_adjusted(raw))
    error = found.pairs[4].test  # good against bad
    assert error.difference < 0
    assert error.wins > error.losses


def test_interval_and_p_value_of_a_row_are_not_adjusted_and_stand_beside_the_adjusted_one(three):
    y, scores, qid = three
    found = compare_rankings(y, scores, qid)
    table = found.to_table()
    assert [column.name for column in table.columns[-4:]] == ["from", "to", "p", "p adjusted"]
    raw = [row[-2] for row in table.rows]
    assert raw == [pair.test.p_value for pair in found.pairs]
    assert_allclose([row[-1] for row in table.rows], holm_adjusted(raw))
    for row, pair in zip(table.rows, found.pairs, strict=True):
        low, high = t_interval(_gaps(found, pair), 0.95)
        assert_allclose(row[3:5], [low, high])
        if abs(row[-2] - 0.05) > 0.02:  # t intervals and permutations agree, except at the border
            assert (low > 0 or high < 0) == (row[-2] < 0.05)
    assert {r for r, _ in table.best} == {r for r, row in enumerate(table.rows) if row[-1] < 0.05}
    alone = compare_rankings(y, dict(list(scores.items())[:2]), qid, metrics=["map"]).to_table()
    assert [column.name for column in alone.columns[-2:]] == ["to", "p"]
    assert "adjusted" not in str(alone)


def _gaps(found, pair):
    values = found.values[pair.metric]
    return (values[pair.first].values - values[pair.second].values).tolist()


def test_the_result_shows_itself(three):
    y, scores, qid = three
    found = compare_rankings(y, scores, qid, level=0.9)
    assert list(found.values) == ["ndcg@10", "map", "disagreement"]
    assert repr(found).startswith("<RankingComparison of good, fair, bad on 30 queries in NDCG@10")
    assert "p adjusted: for 9 tests, by Holm's method" in str(found)
    assert "90% intervals" in str(found)
    assert found._repr_html_().count("<table>") == 2
    frame = found.to_frame()
    assert len(frame) == 9
    assert_allclose(frame["difference"], frame["mean_first"] - frame["mean_second"])
    pair = found.pairs[1]
    assert_allclose(frame[["low", "high"]].to_numpy()[1], pair.test.interval(0.9))
    assert f"{pair.test.difference:+.4f}" in found.to_table().to_markdown()
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["means"]["map"]["good"] == average_precision(y, scores["good"], qid)
    assert plain["pairs"][1]["adjusted_p_value"] == pair.adjusted_p_value
    means = found.means_table()
    assert {c: r for r, c in means.best} == {
        1: 0,
        2: 0,
        3: 0,
    }  # the first, also where less is better
    labels = [tick.get_text() for tick in found.plot("map").get_yticklabels()]
    assert [label.partition(":")[0] for label in labels] == ["good", "fair", "bad"]
    with pytest.raises(ParameterError, match="metric must be one of"):
        found.plot("mrr")


def test_labels_that_are_not_grades_are_compared_by_pairs(three):
    y, scores, qid = three
    assert list(compare_rankings(y - 0.5, scores, qid).values) == ["disagreement"]


def test_comparisons_that_are_refused(three):
    y, scores, qid = three
    with pytest.raises(ParameterError, match="at least two rankers by name: got dict of 1"):
        compare_rankings(y, {"good": scores["good"]}, qid)
    with pytest.raises(ParameterError, match="by name: got ndarray"):
        compare_rankings(y, scores["good"], qid)
    with pytest.raises(ParameterError, match="metrics must be a list of names"):
        compare_rankings(y, scores, qid, metrics="map")
    with pytest.raises(ParameterError, match="level"):
        compare_rankings(y, scores, qid, level=95)
    with pytest.raises(DataError, match="a value on one query only"):
        compare_rankings(y, scores)
    with pytest.raises(ParameterError, match="method must be one of"):
        paired_test(*gaps_of([1.0]), method="t")
    with pytest.raises(ParameterError, match="dictionary of fitted rankers by name"):
        compare_rankers([RankRLS(), RLS()], y[:, None], y, qid=qid)


def test_fitted_rankers_are_compared_by_their_scores():
    data = make_ranking(n_queries=12, rows_per_query=5, n_features=3, random_state=0)
    X, y, qid = data.X, data.y, data.qid
    rankers = {
        "pairs": RankRLS(1.0, scale="query-minmax").fit(X, y, qid=qid),
        "rows": RLS(1.0).fit(X, y),
    }
    found = compare_rankers(rankers, X, y, qid=qid, metrics=["disagreement"])
    mean = disagreement_error(y, rankers["pairs"].predict(X, qid=qid), qid)
    assert found.pairs[0].test.mean_a == pytest.approx(mean)


def test_metrics_go_by_any_of_their_names_and_scores_may_be_a_frame():
    y, qid = [0, 1, 2, 0, 1, 2], [1, 1, 1, 2, 2, 2]
    scores = pd.DataFrame({"good": y, "bad": [1, 0, 2, 2, 1, 0]})
    found = compare_rankings(y, scores, qid, metrics=["ndcg@2"])
    assert found.rankers == ("good", "bad")
    assert found.plot("NDCG@2").get_xlabel() == "NDCG@2 behind the best, by query"
    assert list(found.values) == ["ndcg@2"]  # as typed
    one, two = (evaluate_ranking(y, scores[name], qid, k=2) for name in scores)
    assert paired_test(one, two, "ndcg@2").mean_a == 1.0


def test_dictionaries_hold_dictionaries():
    with pytest.raises(DataError, match="as qrels: query 'q' has a list"):
        ndcg({"q": ["d"]}, {"q": {"d": 1.0}})
    with pytest.raises(DataError, match="as run: query 'q' has a list"):
        ndcg({"q": {"d": 1}}, {"q": ["d"]})
