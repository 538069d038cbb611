"""The evaluation object and its forms."""

import json
import pickle
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rankwise import metrics
from rankwise.errors import DataError
from rankwise.metrics import evaluate_ranking
from tests.metrics.cases import noisy_ranking


@pytest.mark.parametrize("score_ties", ["average", "order"])
@pytest.mark.parametrize("discount", ["log2", "letor"])
def test_every_number_is_the_one_of_its_function(score_ties, discount):
    y, f, qid = noisy_ranking()
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
    assert [note.split()[0] for note in result.notes] == ["3", "2", "2"]


def test_undefined_queries():
    y, f, qid = noisy_ranking()
    skipped = evaluate_ranking(y, f, qid, undefined="skip")
    assert_allclose(skipped["MAP"], metrics.average_precision(y, f, qid, undefined="skip"))
    assert len(skipped.per_query["P@10"]) == 28
    filled = evaluate_ranking(y, f, qid, undefined=0.5)
    assert_allclose(filled["disagreement"], metrics.disagreement_error(y, f, qid, undefined=0.5))
    with pytest.raises(DataError, match=r"MAP is not defined for query q[37] \(2 of 30 queries\)"):
        evaluate_ranking(y, f, qid, undefined="raise")


def test_forms():
    y, f, qid = noisy_ranking()
    result = evaluate_ranking(y, f, qid, k=3)
    text = str(result).splitlines()
    assert text[0] == "Ranking of 360 rows in 30 queries"
    assert len({len(line) for line in text[2:11]}) == 1  # aligned
    assert f"{result['MAP']:.4f}" in str(result)
    assert repr(result).startswith("<RankingEvaluation of 30 queries: MAP=0.")
    assert result._repr_html_().count("<tr>") == 1 + len(result.means)
    assert "<caption>Ranking of 360 rows in 30 queries</caption>" in result._repr_html_()
    frame = result.to_frame()
    assert frame.loc["MAP", "mean"] == result["MAP"]
    assert frame.loc["disagreement", ["queries", "undefined"]].tolist() == [28, 2]
    rows = result.per_query_frame()
    assert rows.shape == (30, len(result.means))
    assert rows["disagreement"].isna().sum() == 2
    assert rows.loc["q3", "MAP"] == 0.0
    assert_allclose(rows.mean().to_numpy(), list(result.means.values()))


def test_dictionary_can_be_written_as_json():
    result = evaluate_ranking(*noisy_ranking(), k=3)
    plain = json.loads(json.dumps(result.to_dict(per_query=True)))
    assert plain["n_queries"] == 30
    assert plain["settings"]["gain"] == "exponential"
    assert plain["metrics"]["MAP"]["mean"] == result["MAP"]
    assert plain["metrics"]["MAP"]["qid"] == result.qid.tolist()
    assert_allclose(np.mean(plain["metrics"]["MAP"]["values"]), result["MAP"])
    assert "values" not in result.to_dict()["metrics"]["MAP"]


def test_an_evaluation_can_be_pickled():
    result = evaluate_ranking(*noisy_ranking())
    again = pickle.loads(pickle.dumps(result))
    assert str(again) == str(result)
    assert again.compare(result)["MAP"].p_value == 1.0


def test_one_query_is_singular():
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
    assert (
        "disagreement left out: every query has only one row or only one distinct label."
        in result.notes
    )


def test_no_defined_metric_is_an_error():
    with pytest.raises(DataError, match=r"No metric is defined\. MAP, MRR and P@k left out"):
        evaluate_ranking([-1.0, -1.0], [0.2, 0.1])


def test_missing_pandas_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    result = evaluate_ranking([1, 0], [0.2, 0.1])
    for form in (result.to_frame, result.per_query_frame):
        with pytest.raises(ImportError, match=r"needs pandas.*pip install pandas"):
            form()


def test_metrics_are_found_by_all_their_names():
    found = evaluate_ranking([2, 0, 1, 0], [0.5, 0.7, 0.3, 0.1], k=(1, 3))
    for name, same in (
        ("ndcg@3", "NDCG@3"),
        ("p@3", "P@3"),
        ("precision@3", "P@3"),
        ("ap", "MAP"),
        ("kendall_tau", "Kendall tau_b"),
    ):
        assert found[name] == found.means[same]
    with pytest.raises(KeyError, match=r"There is no 'ndcg@7', only 'MAP', .*'NDCG@3'"):
        found["ndcg@7"]
    with pytest.raises(KeyError, match=r"There is no 'no metric', only"):
        found["no metric"]
    with pytest.raises(KeyError, match=r"only 'disagreement', .*NDCG left out: NDCG needs labels"):
        evaluate_ranking([-1, 0], [0, 1])["ndcg"]


@pytest.mark.parametrize(
    ("undefined", "mean", "words"),
    [
        (None, 0.5, "1 query has no row with a gain above 0, counted as 0 in NDCG and NDCG@2."),
        ("skip", 1.0, "1 query has no row with a gain above 0, left out of NDCG and NDCG@2."),
        (
            0.25,
            0.625,
            "1 query has no row with a gain above 0, counted as 0.25 in NDCG and NDCG@2.",
        ),
    ],
)
def test_the_table_says_what_became_of_queries_without_a_relevant_row(undefined, mean, words):
    rows = [1, 0, 0, 0], [0.9, 0.5, 0.1, 0.2], ["a", "a", "b", "b"]
    found = evaluate_ranking(*rows, k=2, undefined=undefined)
    assert found["NDCG@2"] == mean
    assert words in found.notes
    assert words in str(found)
    assert evaluate_ranking([1, 0], [0, 1]).notes == ()
