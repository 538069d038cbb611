"""Queries held out of weighted fits, compared with refits of the estimator."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.base import clone

from rankwise import RankRLS, SparseRankRLS
from rankwise.model_selection import leave_query_out
from tests.strategies import seeds, ties

pytestmark = pytest.mark.filterwarnings("ignore:.*(values far outside|deviations of features)")
QID = np.repeat(np.arange(4), [3, 4, 5, 3])
SCALES = [None, "standard", "query-minmax", "query-standard", "query-ranks"]


def assert_refits(ranker, X, y, weights):
    """Predictions for each query equal those of a fit to the others, up to a constant."""
    found = leave_query_out(ranker, X, y, qid=QID, **weights)
    assert found.shared == ()
    for query in range(4):
        out = query == QID
        rest = {name: values[~out] for name, values in weights.items()}
        refitted = clone(ranker).fit(X[~out], y[~out], qid=QID[~out], **rest)
        want, held = refitted.predict(X[out], qid=QID[out]), found.predictions[0][out]
        assert_allclose(held - held.mean(axis=0), want - want.mean(axis=0), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("weighting", ["rows", "pairs", "queries"])
@pytest.mark.parametrize("scale", SCALES)
@given(
    seeds,
    ties,
    st.sampled_from(["primal", "dual"]),
    st.sampled_from([(15,), (15, 2)]),
    st.sets(st.sampled_from(["sample_weight", "query_weight"])),
)
def test_linear_rankers_with_weights(scale, weighting, seed, ties, solver, shape, names):
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((15, 3)) * [1.0, 5.0, 20.0], rng.standard_normal(shape)
    both = {"sample_weight": rng.uniform(0.2, 3.0, 15), "query_weight": rng.uniform(1, 3, 4)[QID]}
    ranker = RankRLS(10.0, scale=scale, ties=ties, weighting=weighting, solver=solver)
    assert_refits(ranker, X, y, {name: both[name] for name in names})


@pytest.mark.parametrize("weighting", ["rows", "pairs", "queries"])
def test_other_rankers_with_weights(weighting):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((15, 3)) * [1.0, 5.0, 20.0], rng.standard_normal(15)
    weights = {"sample_weight": rng.uniform(0.2, 3.0, 15)}
    for ranker in (
        RankRLS(1.0, scale="standard", weighting=weighting),
        RankRLS(1.0, scale="standard", weighting=weighting, monotone={0: 1, 1: -1}),
        RankRLS(1.0, scale="query-minmax", kernel="rbf", gamma=0.3, weighting=weighting),
        SparseRankRLS(1.0, scale=None, landmarks=X[:4] + 0.5, gamma=0.01, weighting=weighting),
    ):
        assert_refits(ranker, X, y, weights)
