"""Probabilities of least-squares rankers, from differences that are held out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize_scalar

from rankwise import KPCRank, PairwiseGP, RankRLS, SparseRankRLS, load_model, save_model
from rankwise.errors import DataError, ParameterError
from rankwise.holdout.scores import logistic_slope


def some_votes(seed=0, n_rows=60, n_pairs=300, n_features=4):
    rng = np.random.default_rng(seed)
    X, w = rng.standard_normal((n_rows, n_features)), rng.standard_normal(n_features)
    i = rng.integers(0, n_rows, n_pairs)
    j = (i + rng.integers(1, n_rows, n_pairs)) % n_rows
    f = X @ w
    won = rng.random(n_pairs) < 1 / (1 + np.exp(f[j] - f[i]))
    return X, f, np.column_stack((i, j)), won


RANKERS = [
    RankRLS(2.0),
    RankRLS(),
    RankRLS(kernel="rbf", gamma=0.1),
    SparseRankRLS(2.0, n_landmarks=20, gamma=0.1, random_state=0),
]


@pytest.mark.parametrize("ranker", RANKERS, ids=str)
def test_the_slope_is_that_of_refits(ranker):
    X, _, pairs, won = some_votes(n_rows=25, n_pairs=40)
    margin = np.where(won, 1.0, -1.0)
    margin[::9] = 0.0
    ranker.fit_pairs(X, pairs, margin=margin)
    fixed = {"alpha": ranker.alpha_}
    if isinstance(ranker, SparseRankRLS):
        fixed["landmarks"] = ranker.landmark_indices_
    differences = []
    for k, (i, j) in enumerate(pairs):
        weight = np.ones(len(pairs))
        weight[k] = 0.0
        other = type(ranker)(**{**ranker.get_params(), **fixed})
        f = other.fit_pairs(X, pairs, margin=margin, weight=weight).predict(X)
        differences.append(f[i] - f[j])
    d, n = np.array(differences), len(pairs)
    target = np.where(margin == 0, 0.5, np.where(margin > 0, n + 1, 1) / (n + 2))

    def loss(a):
        return np.sum(np.logaddexp(0, a * d) - target * a * d)

    best = minimize_scalar(loss, bounds=(0, 50), method="bounded", options={"xatol": 1e-9})
    assert ranker.preference_slope_ == pytest.approx(best.x, rel=1e-4)


@pytest.mark.parametrize("ranker", RANKERS, ids=str)
def test_probabilities_are_calibrated(ranker, tmp_path):
    X, f, pairs, won = some_votes(n_pairs=1500)
    ranker.fit_pairs(X, pairs, margin=won)
    i, j = np.random.default_rng(1).integers(0, 60, (2, 4000))
    chance = ranker.predict_preference(X[i], X[j])
    truth = 1 / (1 + np.exp(f[j] - f[i]))
    assert np.mean(np.abs(chance - truth)) < 0.05
    assert_allclose(chance + ranker.predict_preference(X[j], X[i]), 1.0)
    same = load_model(save_model(ranker, tmp_path / "model.rankwise"))
    assert_allclose(same.predict_preference(X[i], X[j]), chance)
    if ranker is RANKERS[1]:
        gp = PairwiseGP(flips=0.0).fit_pairs(X, pairs, margin=won)
        theirs = gp.predict_preference(X[i], X[j], observed=True)
        assert np.mean(np.abs(chance - truth)) < np.mean(np.abs(theirs - truth)) + 0.02


def test_slopes_at_the_extremes():
    ones = np.ones(4)
    assert logistic_slope(-ones, ones, ones) == 0.0  # worse than chance
    assert logistic_slope(np.zeros(4), ones, ones) == 0.0
    assert 0 < logistic_slope(ones, ones, ones) < 10  # finite, though all are right
    assert logistic_slope(1e-8 * ones, ones, ones) == pytest.approx(
        1e8 * logistic_slope(ones, ones, ones)
    )


def test_rankers_without_probabilities():
    X, _, pairs, won = some_votes()
    many = np.column_stack((won, ~won))
    for ranker in (
        RankRLS(1.0).fit(X, X[:, 0]),
        RankRLS(1.0).fit_pairs(X, pairs).fit(X, X[:, 0]),
        RankRLS(1.0, kernel="rbf").fit_pairs(X, pairs),
        RankRLS(1.0).fit_pairs(X, pairs, margin=many),
        KPCRank(3).fit_pairs(X, pairs),
    ):
        with pytest.raises(ParameterError, match="Probabilities need a fit to comparisons"):
            ranker.predict_preference(X, X)
    with pytest.raises(ParameterError, match="the fit had a single comparison"):
        RankRLS(1.0).fit_pairs(X, pairs[:1]).predict_preference(X, X)
    with pytest.raises(DataError, match="row by row"):
        RankRLS(1.0).fit_pairs(X, pairs).predict_preference(X, X[:2])


@pytest.mark.parametrize("alpha", [0.0, 1e-300, 1e-14])
def test_a_fit_whose_comparisons_cannot_be_held_out_has_no_probabilities(alpha):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 20))
    pairs = np.column_stack((np.arange(15), np.arange(15, 30)))
    groups = np.arange(15) // 3
    for given in ({}, {"groups": groups}):
        ranker = RankRLS(alpha, scale=None).fit_pairs(X, pairs, **given)
        assert np.isfinite(ranker.predict(X)).all()
        with pytest.raises(ParameterError, match="lost in rounding errors"):
            ranker.predict_preference(X, X)


def test_comparisons_of_weight_0_do_not_count_in_the_slope():
    rng = np.random.default_rng(0)
    difference, margin = rng.standard_normal(40) + 0.5, np.where(rng.random(40) < 0.9, 1.0, -1.0)
    weight = np.where(np.arange(40) % 4, 0.0, 1.0)
    kept = weight > 0
    want = logistic_slope(difference[kept], margin[kept], weight[kept])
    assert logistic_slope(difference, margin, weight) == pytest.approx(want, rel=1e-9)
