"""AdditiveRankRLS: piecewise linear functions of single features."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from rankwise import AdditiveRankRLS, RankRLS, load_model, save_model
from rankwise.errors import DataError, ParameterError, RankwiseWarning
from rankwise.model_selection import leave_query_out
from rankwise.problem import RampBasis
from tests.strategies import problems


def ramps(X, new, n_ramps):
    """The features of the basis, written out: one ramp between each two neighbouring quantiles."""
    columns = []
    for old, x in zip(X.T, new.T, strict=True):
        knots = np.unique(np.quantile(old, np.linspace(0, 1, n_ramps + 1), method="nearest"))
        for low, high in pairwise(knots):
            columns.append([min(max((v - low) / (high - low), 0.0), 1.0) for v in x])
    return np.array(columns).T


@given(problems(min_pairs=1), st.integers(1, 5))
def test_this_is_rankrls_on_ramps(problem, n_ramps):
    X, y, qid = problem.X, problem.y, problem.qid
    X[:, 0] = X[:, 0].round()  # equal quantiles
    if np.ptp(X[:, 0]) == 0:
        X[0, 0] += 1
    ranker = AdditiveRankRLS(0.3, n_ramps=n_ramps).fit(X, y, qid=qid)
    features = ramps(X, X, n_ramps)
    want = RankRLS(0.3, solver="primal").fit(features, y, qid=qid)
    assert_allclose(ranker.coef_, want.coef_, atol=1e-7)
    new = 3 * np.random.default_rng(0).standard_normal((5, X.shape[1]))
    assert_allclose(ranker.predict(new), ramps(X, new, n_ramps) @ want.coef_, atol=1e-7)


def test_the_curves_add_up_to_the_score():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (300, 3))
    y = np.abs(X[:, 0]) - X[:, 1]
    ranker = AdditiveRankRLS(1e-6, n_ramps=2).fit(X, y)
    curves = [ranker.curve(j) for j in range(3)]
    parts = [np.interp(X[:, j], *curve) for j, curve in enumerate(curves)]
    assert_allclose(np.sum(parts, axis=0), ranker.predict(X), atol=1e-9)
    knots, values = curves[0]
    assert values.argmin() == 1  # |x| goes down and up again
    assert abs(knots[1]) < 0.2
    with pytest.raises(ParameterError, match="feature must be an integer from 0 to 2: got 3"):
        ranker.curve(3)


def test_functions_are_constant_outside_of_their_knots():
    ranker = AdditiveRankRLS(0.1).fit(np.arange(20.0)[:, None], np.arange(20.0))
    with pytest.warns(RankwiseWarning, match="far outside"):
        low, first, last, high = ranker.predict([[-1e6], [0.0], [19.0], [1e6]])
    assert_allclose([low, high], [first, last])


def test_constant_features_and_duplicate_rows_do_no_harm():
    rng = np.random.default_rng(0)
    X = np.column_stack((rng.standard_normal(30), np.full(30, 7.0), np.zeros(30)))
    X, y = np.vstack((X, X)), np.tile(X[:, 0], 2)
    ranker = AdditiveRankRLS(0.1).fit(X, y)
    assert ranker.score(X, y) == 1.0
    changed = X + np.array([0.0, 1e9, -1.0])
    assert_allclose(ranker.predict(changed), ranker.predict(X), atol=1e-9)


def test_sparse_and_single_precision_rows_and_several_outputs():
    rng = np.random.default_rng(0)
    X = np.maximum(rng.standard_normal((60, 3)), 0)
    y, qid = X @ [[1.0, 0.5], [0.0, 1.0], [-1.0, 0.0]], np.arange(60) % 6
    want = AdditiveRankRLS(1.0).fit(X, y, qid=qid).predict(X)
    assert want.shape == (60, 2)
    sparse = AdditiveRankRLS(1.0).fit(sp.csr_array(X), y, qid=qid)
    assert_allclose(sparse.predict(sp.csr_array(X)), want, atol=1e-9)
    single = AdditiveRankRLS(1.0).fit(X.astype(np.float32), y, qid=qid)
    found = single.predict(X.astype(np.float32))
    assert found.dtype == np.float32
    assert_allclose(found, want, atol=1e-3)


def test_exact_hold_outs_equal_refits_between_the_same_knots():
    rng = np.random.default_rng(0)
    X, qid = rng.integers(0, 3, (40, 2)).astype(float), np.arange(40) % 4
    y = rng.standard_normal(40)  # every query has the same three values of each feature
    held_out = leave_query_out(AdditiveRankRLS(n_ramps=2), X, y, qid=qid, alphas=[0.5])
    for query in range(4):
        out = qid == query
        refit = AdditiveRankRLS(0.5, n_ramps=2).fit(X[~out], y[~out], qid=qid[~out])
        assert_allclose(held_out.predictions[0, out], refit.predict(X[out]), atol=1e-8)


def test_values_too_far_apart_are_refused():
    X = [[-1e308], [1e308], [0.0], [1.0]]
    with pytest.raises(DataError, match="ranges from -1e\\+308 to 1e\\+308: scale the features"):
        AdditiveRankRLS(1.0).fit(X, [0, 1, 2, 3])


def test_many_rows_are_sampled_for_the_knots():
    X = np.arange(30_001.0)[:, None]
    basis = RampBasis.of(X, 4)
    assert_allclose(np.append(basis.low, basis.high[-1]), [0, 7500, 15000, 22500, 30000], atol=8)


def test_model_file(tmp_path):
    X = np.random.default_rng(0).standard_normal((20, 2))
    ranker = AdditiveRankRLS(0.1).fit(X, X[:, 0])
    same = load_model(save_model(ranker, tmp_path / "model.rankwise"))
    assert_allclose(same.predict(X), ranker.predict(X))
    assert_allclose(same.curve(1), ranker.curve(1))


@pytest.mark.parametrize("qid", [None, np.arange(700) // 7], ids=["one ranking", "queries"])
@pytest.mark.parametrize("ties", ["include", "exclude"])
def test_alpha_is_chosen_as_for_the_ramps_themselves(qid, ties):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((700, 2))
    y = np.round(np.sin(2 * X[:, 0]) + 0.3 * rng.standard_normal(700))
    ranker = AdditiveRankRLS(n_ramps=3, ties=ties).fit(X, y, qid=qid)
    linear = RankRLS(ties=ties, scale=None).fit(ramps(X, X, 3), y, qid=qid)
    assert_allclose(ranker.alpha_, linear.alpha_)
