"""Raters of different quality: slopes that are learned, reported and predicted with."""

import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, DotProduct, WhiteKernel

from rankwise import PairwiseGP, load_model, save_model
from rankwise.errors import DataError, ParameterError, RankwiseWarning
from rankwise.gp.hyperparameters import learn_slopes, spread_of
from rankwise.gp.inference import outcome_information
from tests.gp.some_comparisons import make_gp

N_ITEMS = 20
X = np.arange(N_ITEMS)[:, None]
ITEMS = WhiteKernel(1.0)


def votes(n_raters, n_votes, spread, seed=0, threshold=0.0):
    """Pairs, margins, raters and the slopes of raters."""
    rng = np.random.default_rng(seed)
    f, slopes = 1.2 * rng.standard_normal(N_ITEMS), np.exp(spread * rng.standard_normal(n_raters))
    rater = rng.integers(0, n_raters, n_votes)
    i = rng.integers(0, N_ITEMS, n_votes)
    pairs = np.column_stack((i, (i + rng.integers(1, N_ITEMS, n_votes)) % N_ITEMS))
    gap = slopes[rater] * (f[pairs[:, 0]] - f[pairs[:, 1]]) + rng.standard_normal(n_votes)
    return pairs, np.where(np.abs(gap) < threshold, 0.0, np.sign(gap)), rater, slopes


def log_loss(gp, pairs, margin, rater=None):
    chance = gp.predict_outcomes(*X[pairs.T], rater=rater)
    return -np.log(chance[np.arange(len(pairs)), (1 - margin).astype(int)]).mean()


@pytest.fixture(scope="module")
def many():
    """124 raters of different quality, half of their votes, and a model of these."""
    pairs, margin, rater, slopes = votes(124, 6000, 0.8, threshold=0.3)
    gp = PairwiseGP(ITEMS, tie_model="threshold", flips=0.0)
    gp.fit_pairs(X, pairs[:3000], margin=margin[:3000], rater=rater[:3000])
    return gp, pairs, margin, rater, slopes


def test_many_raters_of_different_quality(many):
    gp, pairs, margin, rater, slopes = many
    same = clone(gp).fit_pairs(X, pairs[:3000], margin=margin[:3000])
    new = pairs[3000:], margin[3000:]
    assert log_loss(gp, *new, rater[3000:]) < log_loss(same, *new) - 0.04
    assert same.raters_ is None
    found = gp.raters_
    truth = np.log(slopes[found.names])
    assert found.spread == pytest.approx(0.8, abs=0.2)
    assert np.corrcoef(np.log(found.slope), truth)[0, 1] > 0.8
    off = np.log(found.slope) - truth
    z = (off - off.mean()) / (found.standard_error / found.slope)
    assert 0.8 < z.std() < 1.3
    assert found.n_comparisons.sum() == 3000
    few, much = np.argsort(found.n_comparisons)[[0, -1]]
    assert (found.standard_error / found.slope)[few] > (found.standard_error / found.slope)[much]


@pytest.mark.parametrize("seed", range(3))
def test_few_votes_have_the_common_slope(seed):
    pairs, margin, rater, _ = votes(18, 1150, 0.3, seed)
    gp = PairwiseGP(ITEMS, flips=0.0)
    same = clone(gp).fit_pairs(X, pairs[:150], margin=margin[:150])
    gp.fit_pairs(X, pairs[:150], margin=margin[:150], rater=rater[:150])
    new = pairs[150:], margin[150:]
    assert log_loss(gp, *new, rater[150:]) < log_loss(same, *new) + 0.002


def test_equal_raters_are_found_to_be_equal():
    pairs, margin, rater, _ = votes(10, 300, 0.0)
    gp = make_gp(ITEMS, flips=0.0, tol=1e-8)
    same = clone(gp).fit_pairs(X, pairs, margin=margin)
    gp.fit_pairs(X, pairs, margin=margin, rater=rater)
    assert gp.raters_.spread == 0.0
    assert_allclose(gp.raters_.slope, 1.0)
    assert_allclose(gp.raters_.standard_error, 0.0)
    assert len(gp.theta_) == len(same.theta_)
    assert_allclose(gp.predict(X), same.predict(X), atol=0.01)


@pytest.mark.parametrize(
    ("n_pairs", "settings"),
    [
        (8, {}),
        (40, {}),
        (40, {"inference": "laplace", "tie_model": "threshold"}),
        (40, {"likelihood": "gaussian", "noise": 0.5}),
        (40, {"tie_model": "threshold", "noise": 0.8, "noise_bounds": (0.1, 9.0), "flips": 0.05}),
        (40, {"landmarks": [0, 3, 5, 9]}),
        (40, {"kernel": 0.5 * DotProduct(0.3)}),
    ],
    ids=str,
)
def test_the_gradient_of_the_evidence(n_pairs, settings):
    pairs, margin, rater, _ = votes(4, n_pairs, 0.8, threshold=0.5)
    rows = np.random.default_rng(0).uniform(-2, 2, (N_ITEMS, 2))
    given = {"kernel": 2.0 * RBF(1.5), "tol": 1e-10, "max_sweeps": 500} | settings
    gp = make_gp(optimizer=lambda _, theta, __: (theta, 0.0), **given)
    gp.fit_pairs(rows, pairs, margin=margin, rater=rater)
    slopes = np.array([0.4, 1.0, 2.5, 1.3])[: len(gp.raters_.names)]
    gp.raters_ = replace(gp.raters_, slope=slopes, spread=0.5)
    theta = gp._present_evidence().start
    value, gradient = gp.log_marginal_likelihood(theta, eval_gradient=True)
    assert value == pytest.approx(gp.log_marginal_likelihood(theta), rel=1e-9)
    assert len(gradient) >= 2 + len(slopes)
    for k, slope in enumerate(gradient):
        step = 1e-4 * np.eye(len(theta))[k]
        near, far = (
            gp.log_marginal_likelihood(theta + s) - gp.log_marginal_likelihood(theta - s)
            for s in (step, 2 * step)
        )
        assert slope == pytest.approx((8 * near - far) / 12e-4, rel=1e-5, abs=1e-5)


def test_the_slope_of_all_raters_divides_the_noise():
    pairs, margin, rater, _ = votes(3, 60, 0.5, threshold=0.5)
    for likelihood in ("probit", "gaussian"):
        gp = make_gp(
            2.0 * RBF(3.0), noise=0.6, tie_model="threshold", likelihood=likelihood,
            optimizer=lambda _, theta, __: (theta, 0.0), tol=1e-9, flips=0.0,
        )  # fmt: skip
        less = clone(gp).set_params(noise=0.3).fit_pairs(X, pairs, margin=margin)
        gp.fit_pairs(X, pairs, margin=margin, rater=rater)
        gp.raters_ = replace(gp.raters_, slope=np.full(3, 2.0), spread=0.5)
        evidence = gp._present_evidence()
        process = evidence.process(evidence.start)
        assert process.approximation.log_evidence == pytest.approx(
            less.log_marginal_likelihood_value_, abs=1e-3
        )  # a pair has one site for all raters, or one for each
        assert_allclose(process.mean(X), less.predict(X), atol=1e-3)
        outcomes = process.outcomes(X[:5], X[5:10], 2.0)[:2].T
        assert_allclose(outcomes, less.predict_outcomes(X[:5], X[5:10])[:, :2], atol=1e-3)


def test_predictions_for_raters(many):
    gp = many[0]
    best, worst = gp.raters_.names[np.argsort(-gp.raters_.slope)[[0, -1]]]
    X1, X2 = X[:6], X[6:12]
    common = gp.predict_outcomes(X1, X2)
    with pytest.warns(RankwiseWarning, match=r"slope, 1: -5 .*fit_pairs learns"):
        assert_allclose(gp.predict_outcomes(X1, X2, rater=-5), common)
    with pytest.warns(RankwiseWarning, match=rf"'{best}' .*its raters are of type int"):
        assert_allclose(gp.predict_outcomes(X1, X2, rater=str(best)), common)
    chances = [
        gp.predict_preference(X1, X2, observed=True, rater=rater) for rater in (best, None, worst)
    ]
    assert (np.diff(np.abs(np.array(chances) - 0.5), axis=0) < 0).all()
    with pytest.warns(RankwiseWarning, match="1: 1000000000 "):
        mixed = gp.predict_outcomes(X1, X2, rater=[best, worst, best, worst, 10**9, 10**9])
    assert_allclose(mixed[[1, 3]], gp.predict_outcomes(X1, X2, rater=worst)[[1, 3]])
    assert_allclose(mixed[4:], common[4:])
    assert_allclose(
        gp.predict_tie(X1, X2, rater=worst), gp.predict_outcomes(X1, X2, rater=worst)[:, 1]
    )


def test_told_comparisons_have_raters(many):
    gp, pairs, margin, rater, _ = many
    more = slice(3000, 3010)
    told = copy.deepcopy(gp).tell(pairs[more], margin=margin[more], rater=rater[more])
    asked = copy.deepcopy(gp)
    asked.suggest_pair(X, random_state=0)
    asked.tell(pairs[more], margin=margin[more], rater=rater[more])
    evidence = told._present_evidence()
    cold = replace(evidence, _best=None).condition(evidence.hyper)
    assert len(told.rater_) == 3010
    for model in (told, asked):
        assert_allclose(model.predict(X), cold.mean(X), atol=2e-3)
    one = copy.deepcopy(gp).tell(pairs[3000], margin=margin[3000], rater=rater[3000])
    assert one.rater_[-1] == gp.raters_.numbers(rater[[3000]])[0]
    unknown = copy.deepcopy(gp).tell(pairs[3000], margin=margin[3000])
    assert unknown.rater_[-1] == -1


@pytest.mark.slow
@pytest.mark.ci
def test_leaving_out_comparisons_of_raters():
    """Against posteriors without them, with the same slopes."""
    pairs, margin, rater, _ = votes(6, 400, 1.0)
    for likelihood in ("probit", "gaussian"):
        gp = make_gp(ITEMS, likelihood=likelihood, flips=0.0, tol=1e-8)
        gp.fit_pairs(X, pairs, margin=margin, rater=rater)
        assert gp.raters_.spread > 0
        held_out = gp.leave_one_out(groups=np.arange(400) // 2)
        for k in (0, 30, 61):
            left = np.arange(400) // 2 != k
            evidence = gp._fitted_evidence(
                X, gp._comparisons.take(left), gp.rater_[left], gp.threshold_
            )
            process = evidence.condition(evidence.hyper)
            i, j = X[pairs[~left].T]
            win, tie, _ = process.outcomes(i, j, gp.raters_.slopes_of(rater[~left], 2))
            assert_allclose(held_out.probabilities[~left, 0], win, atol=0.01)
            assert_allclose(held_out.probabilities[~left, 1], tie)
        assert held_out.log_loss < 1.3


def test_names_and_order_do_not_matter(many, tmp_path):
    gp, pairs, margin, rater, _ = many
    order = np.random.default_rng(0).permutation(1000)
    names = pd.Series([f"rater {k}" for k in rater[order]])
    frame = pd.DataFrame({"item": X.ravel()})
    given = {"margin": np.array(["first", "tie", "second"])[(1 - margin[order]).astype(int)]}
    named = clone(gp).fit_pairs(frame, pairs[order], rater=names, **given)
    plain = clone(gp).fit_pairs(frame, pairs[:1000], margin=margin[:1000], rater=rater[:1000])
    by_name = named.raters_.to_frame().slope
    by_number = plain.raters_.to_frame().slope
    assert_allclose(by_name[[f"rater {k}" for k in by_number.index]], by_number, rtol=2e-2)
    again = load_model(save_model(named, tmp_path / "gp.rankwise"))
    assert_allclose(
        again.predict_outcomes(frame[:3], frame[3:6], rater="rater 3"),
        named.predict_outcomes(frame[:3], frame[3:6], rater="rater 3"),
    )
    assert str(again.raters_) == str(named.raters_)
    header = str(named.raters_).splitlines()[0].split()
    assert header == ["rater", "slope", "s.e.", "comparisons"]
    mixed = np.array(["a", 1, None], dtype=object)[rater[:300] % 2]
    assert (
        len(clone(gp).fit_pairs(X, pairs[:300], margin=margin[:300], rater=mixed).raters_.names)
        == 2
    )


def test_comparisons_of_weight_0_have_no_rater():
    pairs, margin, rater, _ = votes(5, 60, 0.5)
    weight = np.where(rater == 2, 0.0, 1.0)
    gp = PairwiseGP(ITEMS).fit_pairs(X, pairs, margin=margin, weight=weight, rater=rater)
    assert 2 not in gp.raters_.names
    assert len(gp.rater_) == len(gp.pairs_) == (rater != 2).sum()


def test_raters_that_cannot_be_used(many):
    pairs, margin, rater, _ = votes(3, 60, 0.5)
    fit = {"X": X, "pairs": pairs, "margin": margin}
    with pytest.raises(ParameterError, match="learned by the optimizer, and there is none"):
        PairwiseGP(ITEMS, optimizer=None).fit_pairs(**fit, rater=rater)
    with pytest.raises(DataError, match=r"rater needs one entry per comparison: got shape \(\)"):
        PairwiseGP(ITEMS).fit_pairs(**fit, rater="me")
    with pytest.raises(DataError, match=r"rater needs one entry per comparison: got shape \(59,\)"):
        PairwiseGP(ITEMS).fit_pairs(**fit, rater=rater[1:])
    with pytest.raises(DataError, match="rater has no value for comparison 1"):
        PairwiseGP(ITEMS).fit_pairs(**fit, rater=["a", None, "b"] * 20)
    plain = PairwiseGP(ITEMS).fit_pairs(**fit)
    with pytest.raises(ParameterError, match="The fit had no raters"):
        plain.predict_outcomes(X[:2], X[2:4], rater="me")
    with pytest.raises(ParameterError, match="only if the fit had raters"):
        plain.tell([0, 1], rater="me")
    with pytest.raises(ParameterError, match="does not depend on the rater"):
        many[0].predict_preference(X[:2], X[2:4], rater=3)
    with pytest.raises(DataError, match="rater needs one entry per comparison"):
        many[0].predict_outcomes(X[:2], X[2:4], rater=[1, 2, 3])


def test_the_spread_of_estimates():
    rng = np.random.default_rng(0)
    information = rng.uniform(0.5, 50.0, 500)
    noise = rng.standard_normal(500) / np.sqrt(information)
    assert spread_of(0.6 * rng.standard_normal(500) + noise, information) == pytest.approx(
        0.6, abs=0.06
    )
    assert spread_of(noise, information) == 0.0
    nothing = np.zeros(3)
    assert spread_of(nothing, nothing) == 0.0


def test_the_information_is_the_expected_curvature(many):
    """Fisher's information of an outcome is the variance of its score."""
    gp = many[0]
    evidence = gp._present_evidence()
    process = evidence.process(evidence.start)
    slopes = evidence.slopes(evidence.hyper)
    prior = 2.0 * gp.kernel_.noise_level * slopes**2
    a, t = process.approximation, gp.threshold_
    counts = np.zeros((len(prior), 3))
    counts[:, 0] = 1.0
    found = outcome_information(a, prior, counts, t, 0.02)
    mean, variance = a.cavities(prior)

    def logs(step):
        s = np.exp(step)
        hyper = replace(evidence.hyper, noise=1.0, flips=0.02)
        return np.log(hyper.outcomes(s * mean, s**2 * variance))

    score = (logs(1e-5) - logs(-1e-5)) / 2e-5
    assert_allclose(found, (np.exp(logs(0.0)) * score**2).sum(axis=0), rtol=1e-4, atol=1e-8)


def test_one_rater_is_like_none():
    pairs, margin, _, _ = votes(1, 200, 0.0)
    gp = PairwiseGP(ITEMS, flips=0.0).fit_pairs(X, pairs, margin=margin, rater=np.full(200, "me"))
    assert gp.raters_.names.tolist() == ["me"]
    assert gp.raters_.spread == 0.0
    assert gp.predict_outcomes(X[:1], X[1:2], rater="me").shape == (1, 3)
    evidence = gp._present_evidence()
    assert learn_slopes(evidence, evidence.start, "lbfgs")[1].shape == gp.theta_.shape
