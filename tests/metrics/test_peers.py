"""The same numbers as scikit-learn, SciPy and ranx, where the conventions are the same."""

import warnings

import numba
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import kendalltau
from sklearn.metrics import average_precision_score, ndcg_score, roc_auc_score

from rankwise.metrics import (
    average_precision,
    concordance_index,
    disagreement_error,
    kendall_tau,
    ndcg,
    precision_at_k,
)


def make_data(seed, tied, n_queries=40, per_query=37):
    """Labels and scores of shape (n_queries, per_query), and the same as columns."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, (n_queries, per_query))
    f = y + 2.0 * rng.standard_normal(y.shape)
    if tied:
        f = np.round(f)
    return y, f, np.repeat(np.arange(n_queries), per_query)


@pytest.mark.parametrize("tied", [False, True])
def test_scikit_learn(tied):
    y, f, qid = make_data(0, tied)
    binary = y > 1
    auc = [roc_auc_score(a, b) for a, b in zip(binary, f, strict=True)]
    assert_allclose(concordance_index(binary.ravel(), f.ravel(), qid), np.mean(auc))
    assert_allclose(disagreement_error(binary.ravel(), f.ravel(), qid), 1 - np.mean(auc))
    for k in (None, 1, 5, 100):
        ours = ndcg(y.ravel(), f.ravel(), qid, k=k, gain="linear")
        assert_allclose(ours, ndcg_score(y, f, k=k))
        ours = ndcg(y.ravel(), f.ravel(), qid, k=k)
        assert_allclose(ours, ndcg_score(2**y - 1, f, k=k))
    if not tied:
        ap = [average_precision_score(a, b) for a, b in zip(binary, f, strict=True)]
        assert_allclose(average_precision(y.ravel(), f.ravel(), qid, relevant=2), np.mean(ap))


@pytest.mark.parametrize("tied", [False, True])
def test_scipy(tied):
    y, f, qid = make_data(0, tied)
    want = [kendalltau(a, b).statistic for a, b in zip(y, f, strict=True)]
    got = kendall_tau(y.ravel(), f.ravel(), qid, per_query=True)
    assert_allclose(got.values, want, rtol=1e-12)


@pytest.fixture(scope="module")
def ranx():
    """ranx with its loops in Python: compiling them would take 20 seconds."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(numba.config, "DISABLE_JIT", True)
        return pytest.importorskip("ranx")


def best_first(values):
    """What ranx computes with: (row, value) by descending value, query by query."""
    order = np.argsort(-values, axis=1, kind="stable")
    return np.stack((order, np.take_along_axis(values, order, axis=1)), axis=2).astype(float)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(
    ("name", "metric", "options"),
    [
        ("map", average_precision, {}),
        ("map-l2", average_precision, {"relevant": 2}),
        ("precision@5", precision_at_k, {"k": 5}),
        ("precision@37", precision_at_k, {"k": 37}),
        ("ndcg", ndcg, {"gain": "linear"}),
        ("ndcg_burges@10", ndcg, {"k": 10}),
    ],
)
def test_ranx(ranx, name, metric, options, tied):
    """Ties in the order of the rows; 0 for a query without a relevant row."""
    y, f, qid = make_data(0, tied)
    y[4] = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = ranx.evaluate(best_first(y), best_first(f), name)
    ours = metric(y.ravel(), f.ravel(), qid, score_ties="order", **options)
    assert_allclose(ours, theirs, rtol=1e-10)
