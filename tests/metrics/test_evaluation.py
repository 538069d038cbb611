"""The evaluation object, its forms, and the paired test."""

import json
import pickle
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import wilcoxon

from rankwise import metrics
from rankwise.errors import DataError, ParameterError
from rankwise.metrics import QueryValues, evaluate_ranking, get_metric, paired_test


def make_data(seed=0, n_queries=30, noise=1.0):
    rng = np.random.default_rng(seed)
    qid = rng.permutation(np.repeat([f"q{i}" for i in range(n_queries)], 12))
    y = rng.integers(0, 3, len(qid))
    y[np.isin(qid, ["q3", "q7"])] = 0
    return y, np.round(y + noise * rng.standard_normal(len(qid)), 1), qid


@pytest.mark.parametrize("score_ties", ["average", "order"])
@pytest.mark.parametrize("discount", ["log2", "letor"])
def test_every_number_is_that_of_its_function(score_ties, discount):
    y, f, qid = make_data()
    options = {"score_ties": score_ties}
    result = evaluate_ranking(
        y, f, qid, k=(1, 5), relevant=2, gain="linear", discount=discount, **options
    )
    want = {
        "MAP": metrics.average_precision(y, f, qid, relevant=2, **options),
        "MRR": metrics.reciprocal_rank(y, f, qid, relevant=2, **options),
        "P@1": metrics.precision_at_k(y, f, qid, k=1, relevant=2, **options),
        "P@5": metrics.precision_at_k(y, f, qid, k=5, relevant=2, **options),
        "NDCG": metrics.ndcg(y, f, qid, gain="linear", discount=discount, **options),
        "NDCG@1": metrics.ndcg(y, f, qid, k=1, gain="linear", discount=discount, **options),
        "NDCG@5": metrics.ndcg(y, f, qid, k=5, gain="linear", discount=discount, **options),
        "disagreement": metrics.disagreement_error(y, f, qid),
        "Kendall tau_b": metrics.kendall_tau(y, f, qid),
    }
    assert list(result.means) == list(want)
    assert_allclose(list(result.means.values()), list(want.values()), rtol=1e-13)
    assert result["NDCG@5"] == result.means["NDCG@5"]
    assert (result.n_rows, result.n_queries) == (360, 30)
    assert result.n_undefined["MAP"] == 30 - len(set(qid[y == 2].tolist()))
    assert result.n_undefined["disagreement"] == 2
    assert len(result.per_query["MAP"]) == 30
    assert len(result.per_query["disagreement"]) == 28
    assert result.notes == ()


def test_undefined_queries_as_asked():
    y, f, qid = make_data()
    skipped = evaluate_ranking(y, f, qid, undefined="skip")
    assert_allclose(skipped["MAP"], metrics.average_precision(y, f, qid, undefined="skip"))
    assert len(skipped.per_query["P@10"]) == 28
    filled = evaluate_ranking(y, f, qid, undefined=0.5)
    assert_allclose(filled["disagreement"], metrics.disagreement_error(y, f, qid, undefined=0.5))
    with pytest.raises(DataError, match=r"MAP is not defined for query q[37] \(2 of 30 queries\)"):
        evaluate_ranking(y, f, qid, undefined="raise")


def test_forms():
    y, f, qid = make_data()
    result = evaluate_ranking(y, f, qid, k=3)
    text = str(result).splitlines()
    assert text[0] == "Ranking of 360 rows in 30 queries"
    assert len({len(line) for line in text[2:11]}) == 1  # aligned
    assert f"{result['MAP']:.4f}" in str(result)
    assert repr(result).startswith("<RankingEvaluation of 30 queries: MAP=0.")
    assert result._repr_html_().count("<tr>") == 1 + len(result.means)
    assert result._repr_html_().startswith("<table>")
    frame = result.to_frame()
    assert frame.loc["MAP", "mean"] == result["MAP"]
    assert frame.loc["disagreement", ["queries", "undefined"]].tolist() == [28, 2]
    rows = result.per_query_frame()
    assert rows.shape == (30, len(result.means))
    assert rows["disagreement"].isna().sum() == 2
    assert rows.loc["q3", "MAP"] == 0.0
    assert_allclose(rows.mean().to_numpy(), list(result.means.values()))


def test_dictionary_is_ready_for_json():
    result = evaluate_ranking(*make_data(), k=3)
    plain = json.loads(json.dumps(result.to_dict(per_query=True)))
    assert plain["n_queries"] == 30
    assert plain["settings"]["gain"] == "exponential"
    assert plain["metrics"]["MAP"]["mean"] == result["MAP"]
    assert plain["metrics"]["MAP"]["qid"] == result.qid.tolist()
    assert np.mean(plain["metrics"]["MAP"]["values"]) == result["MAP"]
    assert "values" not in result.to_dict()["metrics"]["MAP"]


def test_an_evaluation_can_be_pickled():
    result = evaluate_ranking(*make_data())
    again = pickle.loads(pickle.dumps(result))
    assert str(again) == str(result)
    assert again.compare(result)["MAP"].p_value == 1.0


def test_html_is_escaped():
    result = evaluate_ranking([1.5, -0.5], [0.2, 0.1])
    assert "<script" not in result._repr_html_()
    assert "left out" in result._repr_html_()


def test_one_query_and_one_row_read_well():
    assert str(evaluate_ranking([1, 0], [0.5, 0.4])).startswith("Ranking of 2 rows in 1 query\n")


def test_negative_labels_leave_the_listwise_metrics_out():
    result = evaluate_ranking([1.5, -0.5, 0.3], [0.2, 0.1, 0.4])
    assert list(result.means) == ["disagreement", "Kendall tau_b"]
    assert "MAP, MRR and P@k left out: labels go down to -0.5" in str(result)
    assert "NDCG left out: NDCG needs labels of 0 and above" in str(result)


def test_large_labels_leave_ndcg_out():
    result = evaluate_ranking([5000.0, 300.0, 20.0], [0.2, 0.1, 0.4], relevant=1000)
    assert "NDCG" not in result.means
    assert result["MAP"] == 0.5
    assert "too large for gain='exponential'" in result.notes[0]


def test_labels_below_the_threshold_leave_relevance_out():
    result = evaluate_ranking([0.5, 0.25, 0.0], [0.2, 0.1, 0.4])
    assert "MAP" not in result.means
    assert result.notes == (
        "MAP, MRR and P@k left out: no label reaches relevant=1, the largest is 0.5. "
        "Give the label from which a row is relevant.",
    )


def test_single_rows_leave_the_pairwise_metrics_out():
    result = evaluate_ranking([1, 1], [0.2, 0.1], [1, 2])
    assert result["MAP"] == 1.0
    assert "disagreement left out: every query has no two different labels." in result.notes


def test_nothing_to_say_is_an_error():
    with pytest.raises(DataError, match=r"No metric is defined\. MAP, MRR and P@k left out"):
        evaluate_ranking([-1.0, -1.0], [0.2, 0.1])


def test_missing_pandas_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    result = evaluate_ranking([1, 0], [0.2, 0.1])
    for form in (result.to_frame, result.per_query_frame):
        with pytest.raises(ImportError, match=r"needs pandas.*pip install pandas.*to_dict"):
            form()


def test_paired_test_is_scipys():
    y, good, qid = make_data(noise=0.5)
    _, bad, _ = make_data(noise=3.0)
    a, b = evaluate_ranking(y, good, qid), evaluate_ranking(y, bad, qid)
    test = paired_test(a, b, "MAP")
    gap = a.per_query["MAP"].values - b.per_query["MAP"].values
    assert test.p_value == wilcoxon(gap).pvalue
    assert test.statistic == wilcoxon(gap).statistic
    assert_allclose(test.difference, a["MAP"] - b["MAP"])
    assert (test.wins, test.ties, test.losses) == tuple(
        int(x) for x in ((gap > 0).sum(), (gap == 0).sum(), (gap < 0).sum())
    )
    assert test.wins + test.ties + test.losses == test.n_queries == 30
    assert str(test).startswith("MAP: 0.")
    assert "Wilcoxon p = " in str(test)


def test_compare_covers_every_metric_and_knows_which_way_is_better():
    y, good, qid = make_data(noise=0.5)
    _, bad, _ = make_data(noise=3.0)
    a, b = evaluate_ranking(y, good, qid), evaluate_ranking(y, bad, qid)
    tests = a.compare(b)
    assert list(tests) == list(a.means)
    assert all(test.wins > test.losses for test in tests.values())
    assert tests["disagreement"].difference < 0
    swapped = b.compare(a)["MAP"]
    assert (swapped.wins, swapped.losses) == (tests["MAP"].losses, tests["MAP"].wins)
    assert swapped.p_value == tests["MAP"].p_value


def test_no_difference_has_p_value_one():
    a = evaluate_ranking(*make_data())
    test = paired_test(a, a, "NDCG@5")
    assert (test.p_value, test.difference, test.ties) == (1.0, 0.0, 30)


def test_queries_are_matched_by_name():
    a = QueryValues(np.array(["x", "y", "z"]), np.array([0.1, 0.2, 0.3]))
    b = QueryValues(np.array(["z", "x", "y"], dtype=object), np.array([0.3, 0.1, 0.4]))
    test = paired_test(a, b)
    assert (test.wins, test.ties, test.losses) == (0, 2, 1)
    assert paired_test(a, b, greater_is_better=False).wins == 1


def test_what_cannot_be_compared():
    a = QueryValues(np.array([1, 2, 3]), np.array([0.1, 0.2, 0.3]))
    b = QueryValues(np.array([1, 2, 4]), np.array([0.1, 0.2, 0.3]))
    with pytest.raises(DataError, match=r"same queries: one has 3, the other 3, and query 3 is in"):
        paired_test(a, b)
    shorter = QueryValues(np.array([1, 2]), np.array([0.1, 0.2]))
    with pytest.raises(DataError, match=r"one has 2, the other 3, and query 3 is in only one"):
        paired_test(shorter, a)
    curve = QueryValues(np.array([1, 2]), np.ones((2, 3)))
    with pytest.raises(DataError, match=r"one value per query: b has shape \(2, 3\)\. Take one"):
        paired_test(shorter, curve)
    evaluation = evaluate_ranking([1, 0], [0.2, 0.1])
    with pytest.raises(ParameterError, match=r"metric must be one of 'MAP', .* for a: got None"):
        paired_test(evaluation, evaluation)


def test_names_as_tables_print_them():
    assert get_metric("P@5").function.func is get_metric("precision").function
    assert get_metric("Kendall tau_b") == get_metric("kendall_tau")
