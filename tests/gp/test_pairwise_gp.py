"""PairwiseGP as an estimator: likelihoods, hyperparameters, ties, input."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import ndtr
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

from rankwise import GPOptions, OnColumns, PairwiseGP, RankRLS, load_model, save_model
from rankwise.errors import RankwiseWarning
from rankwise.gp import hyperparameters
from reproduce.kpcrank.sinc_comparisons import make_sinc_comparisons
from tests.gp.some_comparisons import make_gp, some_comparisons
from tests.oracles.pairwise_gp import dense_ep
from tests.strategies import comparisons

KERNELS = [
    ConstantKernel(2.0) * RBF(0.8),
    RBF([0.7, 1.5]) + WhiteKernel(0.1),
    ConstantKernel(1.5, "fixed") * Matern(1.0, nu=1.5) + DotProduct(0.5),
    RationalQuadratic(1.0, 0.8) * ConstantKernel(0.5),
]


@given(comparisons(), st.floats(0.1, 3.0))
def test_the_gaussian_mean_agrees_with_rankrls(c, noise):
    kernel = 1.7 * Matern(1.2, nu=2.5)
    gp = PairwiseGP(kernel, likelihood="gaussian", noise=noise, optimizer=None)
    gp.fit_pairs(c.X, c.pairs, margin=c.margin, weight=c.weight)
    ranker = RankRLS(noise**2, kernel=kernel, weighting="pairs", scale=None)
    ranker.fit_pairs(c.X, c.pairs, margin=c.margin, weight=c.weight)
    new = c.X + 0.3
    assert_allclose(gp.predict(c.X), ranker.predict(c.X), atol=1e-10, rtol=1e-10)
    assert_allclose(gp.predict(new), ranker.predict(new), atol=1e-10, rtol=1e-10)


def test_the_gaussian_model_of_scores_agrees_with_rankrls():
    rng = np.random.default_rng(0)
    X, y, qid = rng.standard_normal((30, 3)), rng.standard_normal(30), np.arange(30) % 4
    gp = PairwiseGP(RBF(2.0), likelihood="gaussian", noise=0.6, optimizer=None).fit(X, y, qid=qid)
    ranker = RankRLS(0.36, kernel=RBF(2.0), weighting="pairs").fit(X, y, qid=qid)
    assert_allclose(gp.predict(X), ranker.predict(X), atol=1e-10)
    assert gp.n_queries_ == 4


def test_posterior_and_predictions_agree_with_dense_matrices():
    X, pairs = some_comparisons(n_rows=8, n_pairs=14)
    kernel = 2.0 * RBF(0.9) + WhiteKernel(0.05)
    noise = 0.7
    gp = make_gp(kernel, noise=noise, optimizer=None, tol=1e-10).fit_pairs(X, pairs)
    distinct, where = np.unique(np.sort(pairs, axis=1), axis=0, return_inverse=True)
    counts = np.zeros((len(distinct), 3))
    np.add.at(counts, (where.ravel(), (pairs[:, 0] > pairs[:, 1]).astype(int)), 1.0)
    K = kernel(X)
    mean, covariance, evidence = dense_ep(K / noise**2, distinct, counts)
    mean, covariance = noise * mean, noise**2 * covariance
    assert gp.log_marginal_likelihood_value_ == pytest.approx(evidence, abs=1e-5)
    new = X[:5] + 0.2
    K_new, K_inv = kernel(new, X), np.linalg.inv(K)
    want = K_new @ K_inv @ mean
    spread = kernel(new) + K_new @ K_inv @ (covariance - K) @ K_inv @ K_new.T
    got, cov = gp.predict(new, return_cov=True)
    assert_allclose(got, want, atol=1e-5)
    assert_allclose(cov, spread, atol=1e-5)
    assert_allclose(gp.predict(new, return_std=True)[1], np.sqrt(np.diagonal(cov)), atol=1e-9)
    gap, v = want[1] - want[2], spread[1, 1] + spread[2, 2] - 2 * spread[1, 2]
    probability = gp.predict_preference(new[[1]], new[[2]])
    assert probability == pytest.approx(ndtr(gap / np.sqrt(v)), abs=1e-5)
    probability = gp.predict_preference(new[[1]], new[[2]], observed=True)
    assert probability == pytest.approx(ndtr(gap / np.sqrt(v + noise**2)), abs=1e-5)


SETTINGS = [
    {"inference": "laplace"},
    {"likelihood": "gaussian", "noise": 0.5},
    {"noise": 0.8, "noise_bounds": (0.1, 10.0)},
    {"tie_model": "threshold"},
    {"tie_model": "threshold", "inference": "laplace", "noise_bounds": (0.1, 10.0)},
]


@pytest.mark.parametrize(
    ("kernel", "settings_"),
    [*((kernel, {}) for kernel in KERNELS), *((KERNELS[1], settings_) for settings_ in SETTINGS)],
    ids=str,
)
@pytest.mark.parametrize("n_pairs", [9, 60])
def test_the_gradient_of_the_evidence(kernel, settings_, n_pairs):
    X, pairs = some_comparisons(n_pairs=n_pairs)
    margin = np.ones(len(pairs))
    margin[::4], margin[1] = 0.0, -1.0
    gp = make_gp(kernel, optimizer=None, tol=1e-10, max_sweeps=500, **settings_)
    gp.fit_pairs(X, pairs, margin=margin)
    theta = gp.theta_ + 0.1
    value, gradient = gp.log_marginal_likelihood(theta, eval_gradient=True)
    assert value == pytest.approx(gp.log_marginal_likelihood(theta), rel=1e-9)
    steps = 1e-4 * np.eye(len(theta))
    want = [
        (
            8 * (gp.log_marginal_likelihood(theta + s) - gp.log_marginal_likelihood(theta - s))
            - gp.log_marginal_likelihood(theta + 2 * s)
            + gp.log_marginal_likelihood(theta - 2 * s)
        )
        / 12e-4
        for s in steps
    ]
    assert_allclose(gradient, want, rtol=1e-5, atol=1e-5)


def test_the_optimizer_ends_at_a_maximum():
    X, pairs = some_comparisons(n_pairs=80)
    start = PairwiseGP(optimizer=None).fit_pairs(X, pairs)
    gp = PairwiseGP().fit_pairs(X, pairs)
    assert gp.log_marginal_likelihood_value_ > start.log_marginal_likelihood_value_
    _, gradient = gp.log_marginal_likelihood(eval_gradient=True)
    assert np.abs(gradient).max() < 0.05
    more = make_gp(n_restarts_optimizer=2, random_state=0).fit_pairs(X, pairs)
    assert more.log_marginal_likelihood_value_ >= gp.log_marginal_likelihood_value_ - 1e-3
    near = PairwiseGP(prior_scale=0.01).fit_pairs(X, pairs)
    assert np.abs(near.theta_ - start.theta_).max() < np.abs(gp.theta_ - start.theta_).max()


def test_a_custom_optimizer():
    X, pairs = some_comparisons()
    seen = []

    def stay(objective, theta, bounds):
        seen.append((objective(theta), bounds.shape))
        return theta, 0.0

    gp = PairwiseGP(1.0 * RBF(1.0), optimizer=stay).fit_pairs(X, pairs)
    assert_allclose(gp.theta_, 0.0)
    assert seen[0][1] == (2, 2)


@settings(max_examples=20)
@given(comparisons(max_rows=10, max_pairs=15))
def test_a_repeated_comparison_is_one_of_twice_the_weight(c):
    gp = PairwiseGP(RBF(1.0), optimizer=None)
    twice = clone(gp).fit_pairs(c.X, np.repeat(c.pairs, 2, axis=0)).predict(c.X)
    heavy = clone(gp).fit_pairs(c.X, c.pairs, weight=np.full(len(c.pairs), 2.0)).predict(c.X)
    assert_allclose(twice, heavy, atol=1e-8)
    swapped = clone(gp).fit_pairs(c.X, c.pairs[:, ::-1], margin=-np.ones(len(c.pairs)))
    assert_allclose(swapped.predict(c.X), clone(gp).fit_pairs(c.X, c.pairs).predict(c.X), atol=1e-8)


def test_contradictions_cancel_and_a_tie_is_half_a_win_each():
    X = np.array([[0.0], [1.0], [5.0]])
    both = PairwiseGP(RBF(1.0), optimizer=None).fit_pairs(X, [[0, 1], [1, 0]])
    assert_allclose(both.predict(X), 0.0, atol=1e-9)
    tied = PairwiseGP(RBF(1.0), optimizer=None).fit_pairs(X, [[0, 1]], margin=[0.0], weight=[2.0])
    for one in (both, tied):
        assert one.predict_preference(X[[0]], X[[1]]) == pytest.approx(0.5)
    assert_allclose(both.predict(X, return_std=True)[1], tied.predict(X, return_std=True)[1])


def test_if_all_are_ties_both_rows_may_win():
    X, pairs = np.arange(8.0)[:, None], np.array([(i, j) for i in range(8) for j in range(i)])
    gp = PairwiseGP(tie_model="threshold").fit_pairs(X, pairs, margin=["tie"] * len(pairs))
    win, tie, loss = gp.predict_outcomes(X[:5], X[3:]).T
    assert_allclose(win, loss, rtol=1e-3)
    assert_allclose(tie, 1 - 1 / (len(pairs) + 2), atol=5e-3)


@pytest.mark.parametrize("kernel", [None, 1.0 * RBF(1.0), DotProduct()], ids=str)
def test_features_of_very_different_spread(kernel):
    rng = np.random.default_rng(0)
    X, pairs = rng.standard_normal((8, 2)) * [1.0, 1e4], [[0, 1], [2, 3], [4, 5]]
    words = r"factor of .*\(feature 0\).*\(feature 1\).*StandardScaler"
    with pytest.warns(RankwiseWarning, match=words):
        PairwiseGP(kernel, optimizer=None).fit_pairs(X, pairs)
    with pytest.warns(RankwiseWarning, match=words):
        PairwiseGP(kernel, optimizer=None).fit(X, X[:, 0])
    PairwiseGP(kernel, optimizer=None).fit_pairs(X / [1.0, 1e4], pairs)
    PairwiseGP(1.0 * RBF(X.std(axis=0)), optimizer=None).fit_pairs(X, pairs)
    PairwiseGP(OnColumns(RBF(1.0), [0]), optimizer=None).fit_pairs(X, pairs)


def test_ties_with_a_threshold():
    rng = np.random.default_rng(0)
    X = np.linspace(0, 3, 30)[:, None]
    f, t = 4 * np.sin(X.ravel()), 0.8
    i, j = rng.integers(0, 30, 500), rng.integers(0, 30, 500)
    i, j = i[i != j], j[i != j]
    observed = f[i] - f[j] + rng.standard_normal(len(i))
    margin = np.where(np.abs(observed) < t, 0.0, np.sign(observed))
    gp = PairwiseGP(tie_model="threshold").fit_pairs(X, np.column_stack((i, j)), margin=margin)
    assert gp.threshold_ == pytest.approx(t, abs=0.15)
    assert np.corrcoef(gp.predict(X), f)[0, 1] > 0.99
    pairs = rng.integers(0, 30, (2000, 2))
    X1, X2 = X[pairs[:, 0]], X[pairs[:, 1]]
    tie, wins = gp.predict_tie(X1, X2), gp.predict_preference(X1, X2, observed=True)
    gap = f[pairs[:, 0]] - f[pairs[:, 1]]
    assert_allclose(tie, ndtr(t - gap) - ndtr(-t - gap), atol=0.12)
    assert_allclose(wins + gp.predict_preference(X2, X1, observed=True), 1.0)
    no_ties = PairwiseGP(tie_model="threshold", optimizer=None).fit_pairs(X, [[0, 1]])
    assert no_ties.threshold_ == 0.0
    assert_allclose(no_ties.predict_tie(X[:2], X[1:3]), 0.0)


@pytest.mark.parametrize("tie_model", ["half", "threshold"])
def test_outcomes_are_those_of_a_comparison(tie_model):
    X, pairs = some_comparisons()
    margin = np.tile([1.0, 0.0, -1.0, 1.0], 10)
    gp = PairwiseGP(tie_model=tie_model, optimizer=None, flips=0.05, noise=0.7)
    gp.fit_pairs(X, pairs, margin=margin)
    outcomes = gp.predict_outcomes(X[:7], X[7:14])
    assert_allclose(outcomes.sum(axis=1), 1.0)
    assert_allclose(gp.predict_outcomes(X[7:14], X[:7]), outcomes[:, ::-1], atol=1e-12)
    observed = gp.predict_preference(X[:7], X[7:14], observed=True)
    assert_allclose(outcomes @ [1.0, 0.5, 0.0], observed)
    if tie_model == "threshold":
        assert (outcomes[:, 1] > 0).all()
        assert_allclose(outcomes[:, 1], gp.predict_tie(X[:7], X[7:14]))
    else:
        assert_allclose(outcomes[:, 1], 0.0)


@pytest.mark.parametrize("ranker", [PairwiseGP(optimizer=None), RankRLS()], ids=str)
def test_booleans_and_words_say_who_won(ranker):
    X, pairs = some_comparisons()
    won = np.random.default_rng(0).random(len(pairs)) < 0.5
    shuffled = np.where(won[:, None], pairs, pairs[:, ::-1])
    want = clone(ranker).fit_pairs(X, pairs).predict(X)
    for margin in (won, pd.Series(won), won.astype(object), np.where(won, "first", "second")):
        got = clone(ranker).fit_pairs(X, shuffled, margin=margin).predict(X)
        assert_allclose(got, want, atol=1e-7)
    tied = np.where(np.arange(len(pairs)) % 3, "first", "tie")
    numbers = np.where(tied == "tie", 0.0, 1.0)
    numbers[0], tied = -1.0, np.where(np.arange(len(pairs)) == 0, "second", tied)
    fits = [clone(ranker).fit_pairs(X, pairs, margin=m).predict(X) for m in (tied, numbers)]
    assert_allclose(*fits)


def test_floats_of_1_and_0_are_ties_with_a_warning():
    X, pairs = some_comparisons()
    words = np.where(np.arange(len(pairs)) % 3, "first", "tie")
    gp = PairwiseGP(optimizer=None).fit_pairs(X, pairs, margin=words)
    with pytest.warns(RankwiseWarning, match="0 stands for a tie"):
        again = PairwiseGP(optimizer=None).fit_pairs(X, gp.pairs_, margin=gp.margin_)
    assert_allclose(again.predict(X), gp.predict(X))


def test_the_first_tie_after_a_fit_without_ties():
    X, pairs = some_comparisons()
    gp = make_gp(2.0 * RBF(1.0), tie_model=0.3, optimizer=None, tol=1e-9)
    told = clone(gp).fit_pairs(X, pairs)
    assert told.threshold_ == 0.0
    told.tell(pairs[0], margin=0)
    whole = clone(gp).fit_pairs(X, [*pairs, pairs[0]], margin=["first"] * len(pairs) + ["tie"])
    assert told.threshold_ == 0.3
    assert_allclose(told.theta_, whole.theta_)
    assert_allclose(told.predict(X), whole.predict(X), atol=1e-6)
    assert told.log_marginal_likelihood(told.theta_) == pytest.approx(
        whole.log_marginal_likelihood_value_, abs=1e-7
    )


def test_scores_with_equal_values_have_ties():
    X = np.arange(6.0)[:, None]
    gp = PairwiseGP(optimizer=None).fit(X, [0, 0, 1, 1, 2, 2])
    assert len(gp.pairs_) == 15
    assert gp.score(X, [0, 0, 1, 1, 2, 2]) == 1.0
    learned = PairwiseGP(tie_model="threshold").fit(X, [0, 0, 1, 1, 2, 2])
    assert learned.threshold_ > 0


def test_pairs_of_many_scores_are_sampled():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2))
    y = X[:, 0]
    gp = PairwiseGP(optimizer=None, max_pairs=200, random_state=3).fit(X, y)
    assert len(gp.pairs_) == 200
    assert len(np.unique(gp.pairs_, axis=0)) == 200
    assert gp.score(X, y) > 0.9
    again = PairwiseGP(optimizer=None, max_pairs=200, random_state=3).fit(X, y)
    assert_allclose(again.predict(X), gp.predict(X))


def test_data_frames_sparse_rows_and_names():
    X, pairs = some_comparisons()
    frame = pd.DataFrame(X, columns=["a", "b"])
    gp = PairwiseGP(optimizer=None).fit_pairs(frame, pairs)
    assert gp.feature_names_in_.tolist() == ["a", "b"]
    plain = PairwiseGP(optimizer=None).fit_pairs(X, pairs)
    assert_allclose(gp.predict(frame), plain.predict(X))
    sparse = PairwiseGP(optimizer=None).fit_pairs(sp.csr_array(X), pairs)
    assert_allclose(sparse.predict(sp.csr_matrix(X)), plain.predict(X))
    assert "PairwiseGP" in gp._repr_html_()
    assert repr(PairwiseGP(noise=0.5)) == "PairwiseGP(noise=0.5)"


def test_the_order_of_rows_and_pairs_does_not_matter():
    X, pairs = some_comparisons()
    rng = np.random.default_rng(1)
    rows, order = rng.permutation(len(X)), rng.permutation(len(pairs))
    moved = np.argsort(rows)[pairs][order]
    for likelihood in ("probit", "gaussian"):
        gp = PairwiseGP(optimizer=None, likelihood=likelihood)
        want = clone(gp).fit_pairs(X, pairs).predict(X)
        assert_allclose(clone(gp).fit_pairs(X[rows], moved).predict(X), want, atol=1e-5)


@pytest.mark.parametrize("inference", ["ep", "laplace"])
def test_a_fit_that_does_not_converge_warns(inference):
    X, pairs = some_comparisons()
    gp = make_gp(100.0 * RBF(1.0), optimizer=None, max_sweeps=1, inference=inference)
    with pytest.warns(ConvergenceWarning, match="raise max_sweeps or tol"):
        gp.fit_pairs(X, pairs)
    assert not gp.converged_
    assert np.isfinite(gp.predict(X)).all()


def test_an_optimizer_that_does_not_converge_warns(monkeypatch):
    monkeypatch.setattr(hyperparameters, "_BOXES", 1)
    data = make_sinc_comparisons(n_train_pairs=60, random_state=0)
    with pytest.warns(ConvergenceWarning, match="narrow the bounds"):
        PairwiseGP().fit_pairs(data.X_train, data.pairs_train)


def test_score_without_queries_warns():
    rng = np.random.default_rng(0)
    X, y, qid = rng.standard_normal((12, 2)), rng.standard_normal(12), np.arange(12) % 3
    gp = PairwiseGP(optimizer=None).fit(X, y, qid=qid)
    with pytest.warns(RankwiseWarning, match="no qid reached score"):
        gp.score(X, y)
    assert 0 <= gp.score(X, y, qid=qid) <= 1


def test_parameters_of_earlier_model_files(tmp_path):
    """Those that have moved to GPOptions or been merged, and those that are gone."""
    old = {
        "kernel": None, "noise": 2.0, "noise_bounds": (0.5, 4.0), "tie_model": "threshold",
        "threshold": 0.3, "n_restarts_optimizer": 1, "inference": "laplace", "sweeps": "sequential",
        "grid_step": 0.25, "tol": 1e-7, "max_sweeps": 200,
    }  # fmt: skip
    gp = PairwiseGP(**PairwiseGP.upgraded_parameters(old), random_state=0)
    assert gp.tie_model == 0.3
    assert gp.options == GPOptions(
        (0.5, 4.0), n_restarts_optimizer=1, inference="laplace", tol=1e-7
    )
    usual = {"tie_model": "half", "threshold": 0.5, "noise_bounds": "auto", "tol": 1e-5}
    assert PairwiseGP.upgraded_parameters(usual) == {"tie_model": "half", "options": None}
    X, pairs = some_comparisons()
    again = load_model(save_model(gp.fit_pairs(X, pairs), tmp_path / "gp.rankwise"))
    assert again.options == gp.options
    assert_allclose(again.predict(X), gp.predict(X))
