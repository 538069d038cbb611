"""PairwiseGP with comparisons of which some are flipped."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    WhiteKernel,
)

from rankwise import PairwiseGP
from rankwise.gp import hyperparameters
from rankwise.gp.evidence import Evidence, NotConverged
from reproduce.kpcrank.sinc_comparisons import make_sinc_comparisons
from tests.gp.some_comparisons import make_gp, some_comparisons


@pytest.mark.filterwarnings("ignore:Expectation propagation stopped")
@pytest.mark.parametrize("flips", [0.01, 0.1, 0.3])
def test_the_posterior_stays_proper_with_flips(flips):
    """A scale and shares at which some steps lead to sites without a posterior."""
    data = make_sinc_comparisons(n_train_pairs=120, flipped=0.1, random_state=0)
    gp = make_gp(1e4 * RBF(0.8), flips=flips, optimizer=None, max_sweeps=50)
    gp.fit_pairs(data.X_train, data.pairs_train)
    assert np.isfinite(gp.predict(data.X_train[:50], return_std=True)).all()


def test_a_given_share_of_flips_is_learned():
    data = make_sinc_comparisons(n_train_pairs=150, flipped=0.1, random_state=0)
    X, pairs = data.X_train, data.pairs_train
    kernel = ConstantKernel(10.0, (1e-2, 1e4)) * RBF(0.6, "fixed")
    gp = PairwiseGP(kernel, flips=0.05).fit_pairs(X, pairs)
    assert gp.flips_ == pytest.approx(0.1, abs=0.06)
    plain = PairwiseGP(kernel, flips=0.0).fit_pairs(X, pairs)
    truth = np.sinc(data.X_test.ravel())
    assert gp.score(data.X_test, truth) > plain.score(data.X_test, truth)
    assert gp.log_marginal_likelihood_value_ > plain.log_marginal_likelihood_value_
    assert plain.flips_ == 0.0


@pytest.mark.slow
def test_flips_are_learned_if_the_evidence_supports_them():
    data = make_sinc_comparisons(n_train_pairs=150, flipped=0.1, random_state=1)
    X, pairs = data.X_train, data.pairs_train
    kernel = ConstantKernel(10.0, (1e-2, 1e4)) * RBF(0.5, "fixed")
    auto, plain, given_ = (
        PairwiseGP(kernel, **settings_).fit_pairs(X, pairs)
        for settings_ in ({}, {"flips": 0.0}, {"flips": 0.1})
    )
    assert auto.flips_ == pytest.approx(given_.flips_, rel=1e-2)
    assert len(auto.theta_) == len(plain.theta_) + 1
    gain = auto.log_marginal_likelihood_value_ - plain.log_marginal_likelihood_value_
    assert gain > 0.5 * np.log(len(pairs))
    value, gradient = auto.log_marginal_likelihood(eval_gradient=True)
    assert value == pytest.approx(auto.log_marginal_likelihood_value_, abs=1e-3)
    assert gradient.shape == auto.theta_.shape
    for settings_ in ({"optimizer": None}, {"inference": "laplace"}, {"likelihood": "gaussian"}):
        assert make_gp(kernel, **settings_).fit_pairs(X, pairs[:20]).flips_ == 0.0
    prior = PairwiseGP(prior_scale=[1.0, 1.0], marginalize="grid").fit_pairs(X, pairs)
    assert prior.flips_ == pytest.approx(0.1, abs=0.06)


@pytest.mark.parametrize("tie_model", ["half", "threshold"])
def test_noise_with_heavy_tails_is_soon_told_from_flips(tie_model, monkeypatch):
    """A search for flips that leads nowhere costs no more than the fit without them."""
    sweeps = []
    learn = hyperparameters.learn_flips

    def counted(evidence, theta, optimizer):
        before = evidence.n_sweeps
        made = []
        with_flips = type(evidence).with_flips
        monkeypatch.setattr(
            type(evidence),
            "with_flips",
            lambda self, e: made.append(with_flips(self, e)) or made[-1],
        )
        found = learn(evidence, theta, optimizer)
        sweeps.append((before, sum(other.n_sweeps for other in made)))
        return found

    monkeypatch.setattr("rankwise.gp.pairwise_gp.learn_flips", counted)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        f = 1.5 * rng.standard_normal(15)
        i = rng.integers(0, 15, 200)
        j = (i + rng.integers(1, 15, 200)) % 15
        gap = f[i] - f[j] + rng.standard_t(3, 200)
        margin = np.where(np.abs(gap) < 0.5, 0.0, np.sign(gap))
        gp = PairwiseGP(WhiteKernel(1.0), tie_model=tie_model)
        gp.fit_pairs(np.arange(15)[:, None], np.column_stack((i, j)), margin=margin)
        assert gp.flips_ == 0.0
    assert sum(after for _, after in sweeps) <= sum(before for before, _ in sweeps)


def test_the_search_for_flips_goes_on_after_a_step_that_is_too_far(monkeypatch):
    data = make_sinc_comparisons(n_train_pairs=150, flipped=0.1, random_state=1)
    gp = PairwiseGP(ConstantKernel(10.0, (1e-2, 1e4)) * RBF(0.5, "fixed"))
    whole = gp.fit_pairs(data.X_train, data.pairs_train).log_marginal_likelihood_value_
    value_and_gradient, calls = Evidence.value_and_gradient, []

    def not_always(self, theta):
        calls.append(self.hyper.flips > 0)
        if sum(calls) == 6:
            raise NotConverged
        return value_and_gradient(self, theta)

    monkeypatch.setattr(Evidence, "value_and_gradient", not_always)
    gp.fit_pairs(data.X_train, data.pairs_train)
    assert sum(calls) > 6
    assert gp.flips_ > 0
    assert gp.log_marginal_likelihood_value_ == pytest.approx(whole, abs=0.01)


@pytest.mark.parametrize("n_pairs", [6, 150])
def test_without_flips_none_are_learned(n_pairs):
    X, pairs = some_comparisons(seed=2, n_rows=40, n_pairs=n_pairs)
    auto, plain = (PairwiseGP(**s).fit_pairs(X, pairs) for s in ({}, {"flips": 0.0}))
    assert auto.flips_ == 0.0
    assert_allclose(auto.predict(X), plain.predict(X), atol=1e-6)
    assert auto.log_marginal_likelihood_value_ == pytest.approx(
        plain.log_marginal_likelihood_value_, abs=1e-6
    )


def test_the_gradient_of_the_evidence_with_flips():
    X, pairs = some_comparisons(n_pairs=60)
    gp = make_gp(2.0 * RBF(0.9), flips=0.1, optimizer=None, tol=1e-11, max_sweeps=500)
    gp.fit_pairs(X, pairs)
    _, gradient = gp.log_marginal_likelihood(eval_gradient=True)
    value = gp.log_marginal_likelihood
    steps = 1e-4 * np.eye(len(gp.theta_))
    want = [(value(gp.theta_ + s) - value(gp.theta_ - s)) / 2e-4 for s in steps]
    assert_allclose(gradient, want, rtol=1e-5, atol=1e-5)
