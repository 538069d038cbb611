"""Metrics at the edges of floating point: those of 400 digits, or refused in words."""

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose

from rankwise.errors import RankwiseError
from rankwise.metrics import METRICS, get_metric
from tests.oracles import metrics as oracles

WIDTHS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
SCORES = {
    "plain": np.array([0.5, -1.0, 2.0, 0.25, 2.0, 0.0]),
    "far from zero": 1e8 + np.array([1e-7, 0.0, 3e-8, 3e-8, 1.0, 2e-8]),
    "largest": np.array([1.7e308, -1.7e308, 1e308, 0.0, -1e308, 1.7e308]),
    "subnormal": np.array([5e-324, -5e-324, 0.0, 1e-310, -0.0, 1.5e-323]),
    "scales": np.array([1e-300, 1e300, -1e-300, 1.0, 0.0, -1e300]),
    "neighbours": np.array([1.0, np.nextafter(1.0, 2.0), 1.0, np.nextafter(1.0, 0.0), 1.0, 1.0]),
    "equal": np.full(6, 3.0),
    "whole beyond 2^53": np.array([2**53, 2**53 + 1, 2**53 + 2, -(2**62), 2**62, 2**62 + 1]),
    "uint64": np.array([2**64 - 1, 0, 2**63, 2**63 + 1, 2**64 - 1, 1], dtype=np.uint64),
    "float16": np.array([0.1, 6e4, -6e4, 6e-8, 0.0, 0.1], dtype=np.float16),
    "float32": np.array([1e38, 1e-45, -1e38, 0.0, 1.0, 1e38], dtype=np.float32),
    "truth values": np.array([True, False, True, True, False, False]),
}
LABELS = {
    "grades": np.array([0, 2, 1, 0, 4, 1]),
    **{f"grades of {width}": np.array([0, 2, 1, 0, 4, 1], dtype=width) for width in WIDTHS},
    "truth values": np.array([True, False, False, True, False, False]),
    "one relevant": np.array([0, 0, 0, 0, 1, 0]),
    "none relevant": np.zeros(6),
    "equal": np.full(6, 2.0),
    "tiny": 1e-17 * np.array([0.0, 1.0, 2.0, 0.0, 3.0, 1.0]),
    "subnormal": np.array([0.0, 1e-310, 3e-310, 0.0, 2e-310, 0.0]),
    "large grades": np.array([0.0, 900.0, 30.0, 1.0, 1000.0, 900.0]),
    "1e150": 1e150 * np.array([0.0, 1.0, 2.0, 0.0, 3.0, 1.0]),
    "far from zero": 1e9 + np.array([0.0, 1.0, 2.0, 0.0, 3.0, 1.0]),
    "below zero": np.array([-2.0, 1.0, 0.5, 0.0, 3.0, -2.0]),
    "int64 beyond 2^53": np.array([2**53, 2**53 + 1, 2**53 + 1, 0, 1, 2**53]),
    "float16": np.array([0.0, 0.1, 2.0, 4.0, 1.0, 0.0], dtype=np.float16),
}
ORACLES = {
    "disagreement": oracles.disagreement,
    "concordance": lambda y, f: _less(oracles.disagreement(y, f)),
    "auc": lambda y, f: _less(oracles.disagreement(y, f)),
    "kendall_tau": oracles.tau_b,
    "rbp": oracles.rank_biased_precision,
    "map": oracles.average_precision,
    "map@3": lambda y, f: oracles.average_precision(y, f, k=3),
    "mrr": oracles.reciprocal_rank,
    "precision@2": lambda y, f: oracles.precision_at_k(y, f, 2),
    "recall@2": lambda y, f: oracles.recall_at_k(y, f, 2),
    "success@2": lambda y, f: oracles.success_at_k(y, f, 2),
    "err": lambda y, f: oracles.expected_reciprocal_rank(y, f, max(y)),
    "err@2": lambda y, f: oracles.expected_reciprocal_rank(y, f, max(y), k=2),
    "ndcg": oracles.ndcg,
    "ndcg@2": lambda y, f: oracles.ndcg(y, f, k=2),
}


def _less(share):
    return None if share is None else 1 - share


def check(name, labels, scores):
    y, f = LABELS[labels], SCORES[scores]
    try:
        found = get_metric(name).function(y, f, undefined=-7.0)
    except RankwiseError:
        return
    with mpmath.workdps(400):
        exact = [mpmath.mpf(value) for value in y.tolist()]
        want = ORACLES[name](exact, f.tolist())
        want = -7.0 if want is None else float(want)
        assert_allclose(found, want, rtol=1e-11, atol=1e-14, err_msg=f"{labels}, {scores}")


def test_every_metric_is_here():
    assert {name.partition("@")[0] for name in ORACLES} == set(METRICS)


@pytest.mark.parametrize("name", ORACLES)
def test_labels(name):
    for labels in LABELS:
        check(name, labels, "plain")


@pytest.mark.parametrize("name", ORACLES)
def test_scores(name):
    for scores in SCORES:
        check(name, "grades", scores)


@pytest.mark.slow
@pytest.mark.parametrize("name", ORACLES)
def test_labels_with_all_scores(name):
    for labels in LABELS:
        for scores in SCORES:
            check(name, labels, scores)
