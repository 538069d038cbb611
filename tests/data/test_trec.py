"""TREC's files, trec_eval's order, and objects of other libraries."""

import gzip

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from rankwise.data import as_qrels, as_run, read_qrels, read_run, trec_order, write_run
from rankwise.errors import DataError, ParameterError
from rankwise.metrics import evaluate_ranking

DOCUMENTS = [f"d{k}" for k in range(12)]
SCORES = st.sampled_from([0.0, 1.0, 1.0 + 1e-9, 1.0 + 2e-9, 2.5, -1.0])
QRELS = st.dictionaries(st.sampled_from(DOCUMENTS), st.integers(0, 3), min_size=1)
RUNS = st.dictionaries(st.sampled_from(DOCUMENTS), SCORES, min_size=1)
THEIRS = {
    "MAP": "map",
    "MRR": "recip_rank",
    "P@3": "P_3",
    "P@10": "P_10",
    "NDCG": "ndcg",
    "NDCG@3": "ndcg_cut_3",
    "NDCG@10": "ndcg_cut_10",
}


@given(st.lists(st.tuples(QRELS, RUNS), min_size=1, max_size=4))
def test_metrics_in_this_order_are_those_of_trec_eval(queries):
    pytrec_eval = pytest.importorskip("pytrec_eval")
    qrels = {f"q{k}": judged for k, (judged, _) in enumerate(queries)}
    run = {f"q{k}": scored for k, (_, scored) in enumerate(queries)}
    names = {"map", "recip_rank", "P.3,10", "ndcg", "ndcg_cut.3,10"}
    want = pytrec_eval.RelevanceEvaluator(qrels, names).evaluate(run)
    found = evaluate_ranking(qrels, trec_order(run), k=(3, 10), gain="linear").per_query
    if not any(label for judged in qrels.values() for label in judged.values()):
        return  # metrics of relevance are left out, with a note
    for ours, theirs in THEIRS.items():
        for query, value in zip(found[ours].qid, found[ours].values, strict=True):
            assert_allclose(value, want[query][theirs], atol=1e-12)


def test_runs_are_read_as_they_were_written(tmp_path):
    run = {"q1": {"a": 1 / 3, "b": 2.0}, "q2": {"c": -1e-7}}
    path = write_run(tmp_path / "run.txt", run, tag="mine")
    assert path.read_text().splitlines()[0] == "q1 Q0 b 1 2.0 mine"
    assert read_run(path) == run
    (tmp_path / "run.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert read_run(tmp_path / "run.gz") == run
    with pytest.raises(ParameterError, match="no blanks: got 'a b'"):
        write_run(path, {"q": {"a b": 1.0}})
    assert read_run(path) == run


def test_qrels_may_have_tabs_and_empty_lines(tmp_path):
    path = tmp_path / "qrels.txt"
    path.write_text("1\t0\ta\t2\r\n\n1 0 b -1\n")
    assert read_qrels(path) == {"1": {"a": 2, "b": -1}}


@pytest.mark.parametrize(
    ("read", "content", "words"),
    [
        (read_qrels, b"", "is empty: such a file has lines of: query 0 document relevance"),
        (read_qrels, b"1 0 a 1\n1 0 b\n", "line 2: got 3 fields"),
        (read_qrels, b"1 0 a high\n", "line 1: expected a whole number .* got 'high'"),
        (read_qrels, b"1 0 a 1_0\n", "line 1: expected a whole number .* got '1_0'"),
        (read_qrels, b"1 0 a 1\n1 0 a 0\n", "line 2: the document 'a' of query '1' appears again"),
        (read_qrels, b"1 0 \xe9 1\n", "line 1: not UTF-8"),
        (read_run, b"1 Q0 a 1 nan x\n", "line 1: expected a finite number .* got 'nan'"),
        (read_run, b"1 Q0 a 1 0.5\n", "line 1: got 5 fields"),
        (
            read_run,
            gzip.compress(b"1 Q0 a 1 0.5 x\n" * 99, mtime=0)[:20],
            "not a complete gzip file",
        ),
    ],
)
def test_malformed_files_are_refused(read, content, words, tmp_path):
    path = tmp_path / "trec.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=words) as error:
        read(path)
    assert "trec.txt" in str(error.value)


@pytest.mark.slow
def test_objects_of_other_libraries():
    qrels, run = {"q1": {"a": 2, "b": 0}}, {"q1": {"a": 0.5, "c": 1.5}}
    ranx, ir_measures = pytest.importorskip("ranx"), pytest.importorskip("ir_measures")
    assert as_qrels(ranx.Qrels(qrels)) == qrels
    assert as_run(ranx.Run(run)) == run
    assert ranx.Run(as_run(run)).to_dict() == run
    judged = [ir_measures.Qrel(q, d, v) for q, of in qrels.items() for d, v in of.items()]
    scored = [ir_measures.ScoredDoc(q, d, v) for q, of in run.items() for d, v in of.items()]
    assert as_qrels(iter(judged)) == qrels
    assert as_run(scored) == run
    measure = ir_measures.nDCG @ 10
    assert measure.calc_aggregate(as_qrels(judged), as_run(scored)) == pytest.approx(
        evaluate_ranking(qrels, trec_order(run), gain="linear")["ndcg@10"]
    )
    frame = {"qid": ["q1", "q1"], "docno": ["a", "c"], "score": [0.5, 1.5], "label": [2, 0]}
    for kind in (pd.DataFrame, pl.DataFrame):
        assert as_run(kind(frame)) == run
        assert as_qrels(kind(frame)) == {"q1": {"a": 2, "c": 0}}


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (3, "'int' object is not iterable"),
        ({"q": [1]}, "'list' object has no attribute 'items'"),
        ([("q", "d", 1)], "'tuple' object has no attribute 'query_id'"),
        ({}, "no queries"),
        (pd.DataFrame({"qid": [1]}), "column called doc_id"),
        (pd.DataFrame({"qid": [1, 1], "docno": [2, 2], "score": [1, 2]}), "appears again"),
    ],
)
def test_other_objects_are_refused(source, words):
    with pytest.raises(DataError, match=words):
        as_run(source)


def test_the_order_of_a_run_does_not_matter():
    run = {"q": dict(zip("badc", np.ones(4), strict=True))}
    assert list(trec_order(run)["q"]) == ["d", "c", "b", "a"]


@pytest.mark.parametrize("value", [0.5, np.nan, "high", None])
def test_judgements_of_other_libraries_are_whole_numbers(value):
    with pytest.raises(DataError, match=r"a whole number for the document 'd' of query 'q': got"):
        as_qrels({"q": {"d": value}})
    assert as_qrels({"q": {"d": np.float32(2)}}) == {"q": {"d": 2}}


def test_scores_of_other_libraries_are_finite():
    with pytest.raises(DataError, match="a finite number for the document 'd' of query 'q'"):
        as_run({"q": {"d": np.nan}})
