"""Metrics of qrels and runs: the same numbers as ir-measures."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rankwise.errors import DataError
from rankwise.metrics import (
    disagreement_error,
    evaluate_ranking,
    expected_reciprocal_rank,
    get_metric,
    ndcg,
    rank_biased_precision,
)


def make_run(seed=0, n_queries=12, n_documents=30):
    """Documents with grades, of which a run misses some and adds others; one query has no run."""
    rng = np.random.default_rng(seed)
    qrels, run = {}, {}
    for q in range(n_queries):
        judged = rng.permutation(n_documents)[:20]
        qrels[f"q{q}"] = {f"d{d}": int(rng.integers(0, 4)) for d in judged}
        found = rng.permutation(n_documents)[:15]
        run[f"q{q}"] = {f"d{d}": float(s) for d, s in zip(found, rng.random(15), strict=True)}
    qrels["q3"] = dict.fromkeys(qrels["q3"], 0)
    del run["q5"]
    run["not judged"] = {"d0": 1.0}
    return qrels, run


@pytest.mark.parametrize(
    ("theirs", "ours", "options"),
    [
        ("AP", "map", {}),
        ("AP@5", "map@5", {}),
        ("AP(rel=2)@5", "map@5", {"relevant": 2}),
        ("RR", "mrr", {}),
        ("RR@3", "mrr@3", {}),
        ("P@5", "precision@5", {}),
        ("P@20", "precision@20", {}),
        ("R@5", "recall@5", {}),
        ("R@20", "recall@20", {}),
        ("Success@1", "success@1", {}),
        ("Success@5", "success@5", {}),
        ("nDCG", "ndcg", {"gain": "linear"}),
        ("nDCG@10", "ndcg@10", {"gain": "linear"}),
    ],
)
def test_ir_measures(theirs, ours, options):
    ir_measures = pytest.importorskip("ir_measures")
    qrels, run = make_run()
    measure = ir_measures.parse_measure(theirs)
    want = {m.query_id: m.value for m in ir_measures.iter_calc([measure], qrels, run)}
    function, _ = get_metric(ours)
    got = function(qrels, run, per_query=True, **options)
    assert got.qid.tolist() == list(qrels)
    assert_allclose(got.values, [want.get(q, 0.0) for q in qrels], rtol=1e-12, atol=1e-15)


def test_rank_biased_precision_and_err_of_a_run():
    """From their definitions: rows that were not retrieved have no rank."""
    qrels = {"a": {"x": 1, "y": 1, "z": 0}}
    run = {"a": {"z": 3.0, "x": 2.0, "other": 1.0}}
    assert_allclose(rank_biased_precision(qrels, run, persistence=0.5), 0.25)
    assert_allclose(expected_reciprocal_rank(qrels, run, max_grade=1), 0.25)


def test_a_complete_run_is_the_same_as_arrays():
    y, f, qid = [2, 0, 1, 1, 0], [0.3, 0.3, 0.1, 0.2, 0.9], ["a", "a", "a", "b", "b"]
    qrels, run = {}, {}
    for row, query in enumerate(qid):
        qrels.setdefault(query, {})[row] = y[row]
        run.setdefault(query, {})[row] = f[row]
    assert evaluate_ranking(qrels, run).means == evaluate_ranking(y, f, qid).means
    assert disagreement_error(qrels, run) == disagreement_error(y, f, qid)


def test_all_metrics_of_a_run():
    evaluation = evaluate_ranking(*make_run())
    assert "disagreement" not in evaluation.means
    assert "need a score for every judged document" in evaluation.notes[0]
    assert evaluation.n_queries == 12


@pytest.mark.parametrize(
    ("qrels", "run", "words"),
    [
        ({"a": {"x": 1}}, [0.5], "both be dictionaries"),
        ({1: {"x": 1}}, {"1": {"x": 0.5}}, "None of the 1 queries of the qrels is in the run"),
        ({"a": {"x": 1}}, {"a": {"x": np.nan}}, "run is nan in row 0"),
        ({"a": {"x": "good"}}, {"a": {"x": 0.5}}, "qrels needs one real number per row"),
    ],
)
def test_bad_dictionaries(qrels, run, words):
    with pytest.raises(DataError, match=words):
        ndcg(qrels, run)


def test_queries_are_the_keys():
    with pytest.raises(DataError, match="leave out qid"):
        ndcg({"a": {"x": 1}}, {"a": {"x": 0.5}}, ["a"])
