"""Margins with weights in PairwiseGP: a weight is a number of copies."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF

from rankwise import PairwiseGP, load_model, save_model

N_ROWS, N_PAIRS, N_RATERS = 10, 60, 4
SLOPES = np.array([0.3, 1.0, 1.0, 3.0])
GP = PairwiseGP(2.0 * RBF(1.5), likelihood="gaussian", noise=0.8)
FORMS = [(), ("rater",), ("context",), ("rater", "context")]
WEIGHTS = {
    "2": np.full(N_PAIRS, 2.0),
    "9": np.full(N_PAIRS, 9.0),
    "mixed": np.resize([1.0, 2.0, 9.0], N_PAIRS),
}


def margins(form=(), seed=0):
    """Rows, and comparisons of the form with raters and a context or without."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (N_ROWS, 2))
    i = rng.integers(0, N_ROWS, N_PAIRS)
    pairs = np.column_stack((i, (i + rng.integers(1, N_ROWS, N_PAIRS)) % N_ROWS))
    given = {"rater": rng.integers(0, N_RATERS, N_PAIRS), "context": rng.choice([-1, 1], N_PAIRS)}
    f, slope = 2 * np.sin(X).sum(axis=1), SLOPES[given["rater"]] if "rater" in form else 1.0
    gap = f[pairs[:, 0]] - f[pairs[:, 1]] + 0.7 * given["context"]
    given["context"] = given["context"][:, None] * 1.0
    given = {name: given[name] for name in form}
    return X, {"pairs": pairs, "margin": gap + rng.standard_normal(N_PAIRS) / slope, **given}


def copies(given, times):
    """Every comparison as often as given."""
    times = np.asarray(times).astype(int)
    return {name: np.repeat(values, times, axis=0) for name, values in given.items()}


def density(gp, X, given):
    """Log density of margins of weight 1 under the hyperparameters of a fit."""
    pairs, margin = given["pairs"], given["margin"]
    B = np.zeros((len(pairs), len(X)))
    B[np.arange(len(B)), pairs[:, 0]] = 1
    B[np.arange(len(B)), pairs[:, 1]] = -1
    S = B @ gp.kernel_(X) @ B.T
    if "context" in given:
        Z = given["context"] / np.sqrt(np.mean(given["context"] ** 2, axis=0))
        S += gp.context_variance_ * Z @ Z.T
    slope = np.ones(len(margin))
    if "rater" in given:
        slope = dict(zip(gp.raters_.names, gp.raters_.slope, strict=True))
        slope = np.array([slope[name] for name in given["rater"]])
    return multivariate_normal(np.zeros(len(S)), S + np.diag((gp.noise_ / slope) ** 2)).logpdf(
        margin
    )


@pytest.mark.parametrize("weight", WEIGHTS.values(), ids=WEIGHTS)
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_margin_of_some_weight_is_as_many_copies(form, weight):
    X, given = margins(form)
    repeated = copies(given, weight)
    weighted = clone(GP).fit_pairs(X, **given, weight=weight)
    assert weighted.log_marginal_likelihood_value_ == pytest.approx(
        density(weighted, X, repeated), rel=1e-8
    )
    halves = copies(given, 2 * weight)
    halves["weight"] = np.full(len(halves["margin"]), 0.5)
    for same in (clone(GP).fit_pairs(X, **repeated), clone(GP).fit_pairs(X, **halves)):
        assert_allclose(np.exp(weighted.theta_), np.exp(same.theta_), rtol=2e-3)
        for found, want in zip(
            weighted.predict(X, contrast="mean", return_std=True),
            same.predict(X, contrast="mean", return_std=True),
            strict=True,
        ):
            assert_allclose(found, want, rtol=2e-3, atol=2e-3)
        if "rater" in form:
            assert weighted.raters_.spread > 0
            assert weighted.raters_.spread == pytest.approx(same.raters_.spread, rel=0.02)
            errors = [gp.raters_.standard_error for gp in (weighted, same)]
            assert_allclose(*errors, rtol=0.02)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_the_gradient_of_the_evidence_of_margins_with_weights(form):
    X, given = margins(form)
    weight = np.resize([0.2, 1.0, 5.0, 0.5], N_PAIRS)
    gp = clone(GP).fit_pairs(X, **given, weight=weight)
    theta = gp.theta_ + 0.2
    gradient = gp.log_marginal_likelihood(theta, eval_gradient=True)[1]
    assert len(gradient) == 3 + 4 * ("rater" in form) + ("context" in form)
    for k, slope in enumerate(gradient):
        step = 1e-4 * np.eye(len(theta))[k]
        rise = gp.log_marginal_likelihood(theta + step) - gp.log_marginal_likelihood(theta - step)
        assert slope == pytest.approx(rise / 2e-4, rel=1e-5, abs=1e-5)


def test_a_margin_of_weight_0_does_not_count():
    X, given = margins(("rater",))
    weight = np.arange(N_PAIRS) % 3.0
    some = {name: values[weight > 0] for name, values in given.items()}
    found = clone(GP).fit_pairs(X, **given, weight=weight)
    want = clone(GP).fit_pairs(X, **some, weight=weight[weight > 0])
    assert_allclose(found.theta_, want.theta_)
    assert found.log_marginal_likelihood_value_ == want.log_marginal_likelihood_value_


@pytest.mark.parametrize("form", [(), ("rater",)], ids=str)
def test_leaving_out_a_margin_leaves_out_its_copies(form):
    X, given = margins(form)
    weight = WEIGHTS["mixed"]
    gp = clone(GP).fit_pairs(X, **given, weight=weight)
    times = weight.astype(int)
    fixed = clone(gp).set_params(kernel=gp.kernel_, noise=gp.noise_, optimizer=None)
    if not form:
        apart = fixed.fit_pairs(X, **copies(given, times))
        copied = apart.leave_one_out(groups=np.repeat(np.arange(N_PAIRS), times))
        found = gp.leave_one_out()
        assert_allclose(np.repeat(found.mean, times), copied.mean, atol=1e-6)
        assert_allclose(np.repeat(found.log_likelihood, times), copied.log_likelihood, atol=1e-6)
        assert found.log_loss == pytest.approx(copied.log_loss)
        assert found.log_loss_standard_error == pytest.approx(copied.log_loss_standard_error)
        return
    repeated = copies(given, times)
    for k in (0, 1, 2):  # p(margin | others) from two densities
        ends = np.cumsum(times)
        others = np.ones(len(repeated["margin"]), dtype=bool)
        others[ends[k] - times[k] : ends[k]] = False
        one = others.copy()
        one[ends[k] - 1] = True
        both, without = (
            density(gp, X, {name: values[some] for name, values in repeated.items()})
            for some in (one, others)
        )
        found = gp.leave_one_out().log_likelihood[k]
        assert found == pytest.approx(both - without, abs=1e-6)


def test_told_and_saved_margins_have_weights(tmp_path):
    X, given = margins(("rater",))
    weight = WEIGHTS["mixed"]
    begin, rest = (
        {name: values[part] for name, values in given.items()} | {"weight": weight[part]}
        for part in (slice(40), slice(40, None))
    )
    gp = clone(GP).fit_pairs(X, **begin)
    gp = load_model(save_model(gp, tmp_path / "gp.rankwise"))
    rest["pair"] = rest.pop("pairs")
    gp.tell(**rest)
    assert gp.log_marginal_likelihood_value_ == pytest.approx(
        density(gp, X, copies(given, weight)), rel=1e-8
    )
