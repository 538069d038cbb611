"""Gaussian processes on comparisons with features of their own."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, DotProduct, WhiteKernel

from rankwise import PairwiseGP, load_model, save_model
from rankwise.data import Comparisons
from rankwise.errors import DataError, ParameterError
from rankwise.gp.inference import WeightPosterior, weights_of_pairs, weights_of_rows
from tests.gp.some_comparisons import make_gp
from tests.oracles.pairwise_gp import with_context
from tests.strategies import seeds


def shown(n=25, n_pairs=150, seed=0):
    """Comparisons in which being shown on the left is worth something; some have no position."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    first = rng.integers(0, n, n_pairs)
    second = (first + rng.integers(1, n, n_pairs)) % n
    context = np.column_stack((rng.choice([-1.0, 0.0, 1.0], n_pairs), rng.standard_normal(n_pairs)))
    gap = X[first, 0] - X[second, 0] + context @ [1.0, 0.0] + rng.standard_normal(n_pairs)
    return X, np.column_stack((first, second)), gap, context


@pytest.mark.parametrize(
    "kernel", [RBF(1.0), 0.5 * DotProduct(0.0, "fixed"), RBF(1.0) + WhiteKernel(0.5)]
)
def test_a_gaussian_posterior_is_that_of_the_joint_covariance(kernel):
    X, pairs, margin, context = shown()
    gp = PairwiseGP(kernel, likelihood="gaussian", noise=0.7, optimizer=None)
    gp.fit_pairs(X, pairs, margin=margin, context=context)
    scale = 1 / np.sqrt(np.mean(context**2, axis=0))
    n = len(X)
    K = np.zeros((n + 2, n + 2))
    K[:n, :n], K[n:, n:] = kernel(X), np.eye(2)
    D = np.zeros((len(pairs), n + 2))
    for k, (i, j) in enumerate(pairs):
        D[k, i], D[k, j] = 1.0, -1.0
    D[:, n:] = context * scale
    gain = K @ D.T @ np.linalg.inv(D @ K @ D.T + 0.49 * np.eye(len(D)))
    mean, covariance = gain @ margin, K - gain @ D @ K
    assert_allclose(gp.predict(X), mean[:n], atol=1e-8)
    assert_allclose(gp.context_coef_, scale * mean[n:], atol=1e-8)
    assert_allclose(gp.context_std_, scale * np.sqrt(np.diag(covariance)[n:]), atol=1e-8)
    _, std = gp.predict(X, return_std=True)
    assert_allclose(std, np.sqrt(np.diag(covariance)[:n]), atol=1e-7)
    contrast = np.eye(n, n + 2)
    contrast[:, :n] -= 1 / n
    assert_allclose(gp.predict(X, contrast="mean"), contrast @ mean, atol=1e-8)


KERNELS = {
    "rows": 2.0 * RBF(1.5, (1.2, 1.8)),
    "own parts": 1.0 * RBF(1.0) + WhiteKernel(0.5),
    "linear": 0.5 * DotProduct(1.0),
}


def slowly(gp, X, pairs, context, **how):
    """The same process with a row for each comparison in its context."""
    kernel = gp.kernel
    rows, pairs, kernel = with_context(X, pairs, context, kernel)
    return clone(gp).set_params(kernel=kernel).fit_pairs(rows, pairs, **how)


@pytest.mark.parametrize(
    ("kernel", "settings"),
    [
        ("rows", {}),
        ("rows", {"inference": "laplace"}),
        ("own parts", {"tie_model": "threshold"}),
        ("linear", {}),
        ("rows", {"likelihood": "gaussian", "noise": 0.7}),
        ("rows", {"marginalize": "grid"}),
    ],
    ids=str,
)
@pytest.mark.parametrize("n_pairs", [12, 70])
def test_context_equals_a_row_for_each_comparison(kernel, settings, n_pairs):
    X, pairs, gap, context = shown(n=16, n_pairs=n_pairs)
    context[:, 0] += 0.1 * np.arange(n_pairs)  # no two are the same
    tied = settings.get("tie_model") is not None
    margin = np.where(np.abs(gap) < 0.3 * tied, 0.0, np.sign(gap))
    if settings.get("likelihood") == "gaussian":
        margin = gap
    gp = make_gp(KERNELS[kernel], **{"optimizer": None, "tol": 1e-10} | settings)
    slow = slowly(gp, X, pairs, context, margin=margin)
    gp.fit_pairs(X, pairs, margin=margin, context=context)
    some = np.hstack((X, np.zeros((len(X), 2))))
    close = {"rtol": 1e-8, "atol": 1e-8}
    for contrast, its in ((None, None), (X, some)):
        for how in ({"return_std": True}, {"return_cov": True}):
            found = gp.predict(X, contrast=contrast, **how)
            for one, two in zip(found, slow.predict(some, contrast=its, **how), strict=True):
                assert_allclose(one, two, **close)
    there = np.hstack((X[:5], (context * gp.context_scale_)[:5]))
    for observed in (False, True):
        assert_allclose(
            gp.predict_preference(X[:5], X[5:10], observed=observed, context=context[:5]),
            slow.predict_preference(there, some[5:10], observed=observed),
            **close,
        )
    mean, std = gp.predict_difference(X[:5], X[5:10])
    assert_allclose((mean, std), slow.predict_difference(some[:5], some[5:10]), **close)
    for step in (0.0, 0.3):
        for one, two in zip(
            gp.log_marginal_likelihood(gp.theta_ + step, eval_gradient=True),
            slow.log_marginal_likelihood(slow.theta_ + step, eval_gradient=True),
            strict=True,
        ):
            assert_allclose(one, two, rtol=1e-7, atol=1e-7)
    if settings.get("inference") == "laplace":
        return
    for groups in (None, np.arange(n_pairs) % 5):
        one, two = gp.leave_one_out(groups=groups), slow.leave_one_out(groups=groups)
        assert_allclose(one.probabilities, two.probabilities, atol=1e-6)
        assert_allclose(one.std, two.std, atol=1e-6)
        assert one.pairs.tolist() == pairs.tolist()


@pytest.mark.parametrize("inference", ["ep", "laplace"])
@pytest.mark.parametrize("settings", [{}, {"n_landmarks": 6, "random_state": 0}])
def test_the_gradient_of_the_evidence_in_a_context(inference, settings):
    X, pairs, gap, context = shown(n=12, n_pairs=40)
    gp = make_gp(
        KERNELS["rows"], optimizer=None, tol=1e-11, inference=inference, tie_model=0.3, **settings
    )
    margin = np.where(np.abs(gap) < 0.4, 0.0, np.sign(gap))
    gp.fit_pairs(X, pairs, margin=margin, context=context)
    theta = gp.theta_
    assert len(theta) == 4  # constant, width, context, threshold
    _, gradient = gp.log_marginal_likelihood(theta, eval_gradient=True)
    for k, step in enumerate(1e-4 * np.eye(4)):
        ends = [gp.log_marginal_likelihood(theta + s * step) for s in (1, -1)]
        assert gradient[k] == pytest.approx((ends[0] - ends[1]) / 2e-4, rel=1e-5, abs=1e-6)


@settings(max_examples=25)
@given(seeds, st.integers(0, 3), st.booleans())
def test_a_context_is_further_standard_normal_weights(seed, n_columns, few_rows):
    """Differences with slopes against dense matrices; the context may be any size."""
    rng = np.random.default_rng(seed)
    n, N = rng.integers(2, 9), rng.integers(1, 12)
    F = rng.standard_normal((n, rng.integers(1, n + 1)))
    first = rng.integers(0, n, N)
    second = (first + rng.integers(1, n, N)) % n
    Z, scale = rng.standard_normal((N, n_columns)), rng.uniform(0.5, 2.0, N)
    tau, nu = rng.uniform(0.1, 3.0, N), rng.standard_normal(N)
    build = weights_of_rows if few_rows else weights_of_pairs
    made = build(F @ F.T, first, second).differences.in_context(Z)
    made = replace(made, slopes=scale)
    A = scale[:, None] * np.hstack((Z, F[first] - F[second]))
    S = np.linalg.inv(np.eye(A.shape[1]) + A.T @ (tau[:, None] * A))
    weights = WeightPosterior.of(made, tau, nu)
    mean, variance = weights.moments(made)
    assert_allclose(mean, A @ S @ A.T @ nu, atol=1e-8)
    assert_allclose(variance, np.diagonal(A @ S @ A.T), atol=1e-8)
    assert_allclose(made.prior_variances, (A**2).sum(axis=1), atol=1e-8)
    assert_allclose(made.apply(weights.mean), mean, atol=1e-8)
    assert weights.log_det == pytest.approx(-np.linalg.slogdet(S)[1], abs=1e-8)
    rows = made.rows(np.arange(N))
    assert_allclose(rows @ rows.T, A @ A.T, atol=1e-8)
    assert_allclose(rows.T @ nu, made.transpose(nu), atol=1e-8)
    assert_allclose(weights.mean[:n_columns], (S @ A.T @ nu)[:n_columns], atol=1e-8)


def test_comparisons_may_be_given_from_either_side():
    """A swapped comparison has the opposite context, and shares a site with the original."""
    X, pairs, gap, context = shown(n_pairs=40)
    margin = np.sign(gap)
    gp = make_gp(KERNELS["rows"], optimizer=None, tol=1e-9)
    want = clone(gp).fit_pairs(X, pairs, margin=margin, context=context)
    turn = np.where(np.arange(40) % 2, -1.0, 1.0)
    swapped = np.where(turn[:, None] < 0, pairs[:, ::-1], pairs)
    found = clone(gp).fit_pairs(X, swapped, margin=turn * margin, context=turn[:, None] * context)
    assert_allclose(found.predict(X), want.predict(X), atol=1e-7)
    assert_allclose(found.context_coef_, want.context_coef_, atol=1e-7)
    both = [np.concatenate(two) for two in ((pairs, swapped), (margin, turn * margin))]
    twice = clone(gp).fit_pairs(
        X, both[0], margin=both[1], context=np.vstack((context, turn[:, None] * context))
    )
    doubled = clone(gp).fit_pairs(X, pairs, margin=margin, context=context, weight=[2.0] * 40)
    assert_allclose(twice.predict(X), doubled.predict(X), atol=1e-7)


def test_landmarks_and_raters_in_a_context():
    X, pairs, margin, context = shown(n_pairs=60)
    exact = PairwiseGP(2.0 * RBF(1.5), likelihood="gaussian", optimizer=None)
    exact.fit_pairs(X, pairs, margin=margin, context=context)
    near = clone(exact).set_params(landmarks=np.arange(len(X)))
    near.fit_pairs(X, pairs, margin=margin, context=context)
    assert_allclose(near.predict(X), exact.predict(X), atol=1e-6)
    assert_allclose(near.context_std_, exact.context_std_, atol=1e-6)
    one, two = near.leave_one_out(), exact.leave_one_out()
    assert_allclose((one.mean, one.std), (two.mean, two.std), atol=1e-6)
    rater = np.array(["Ann", "Bob"])[np.arange(60) % 2]
    voted = PairwiseGP(2.0 * RBF(1.5)).fit_pairs(
        X, pairs, margin=np.sign(margin), context=context, rater=rater
    )
    there = voted.predict_preference(X[:3], X[3:6], observed=True, rater="Ann", context=context[:3])
    assert np.all((there > 0) & (there < 1))


def test_files_in_which_comparisons_had_rows_of_their_own():
    """Files of earlier versions: items in a context were training rows."""
    folder = Path(__file__).parents[1] / "model_files" / "format1"
    gp = load_model(folder / "pairwise-gp-context.rankwise")
    assert gp.X_fit_.shape == (18, 3)
    assert gp.pairs_.max() <= 5
    assert_allclose(gp.context_[:4, 0], [1.0, -1.0, 0.0, 1.0])
    assert_allclose(gp.context_coef_, [-0.8372756314, 0.2230401013])
    assert gp.leave_one_out().log_loss == pytest.approx(0.6965544923)
    fresh = clone(gp).fit_pairs(
        gp.X_fit_, gp.pairs_, margin=gp.margin_, weight=gp.weight_, context=gp.context_
    )
    assert_allclose(fresh.context_coef_, gp.context_coef_, rtol=1e-6)
    gp.tell([3, 4], context=[1.0, 2.0])
    assert_allclose(gp.predict(gp.X_fit_[:2]), [0.1782341384, -0.0580363246], rtol=1e-6)


def test_weights_of_the_context_are_found_and_left_out_of_scores(tmp_path):
    X, pairs, gap, context = shown(n_pairs=600)
    gp = PairwiseGP(1.0 * DotProduct(0.0, "fixed"))
    voted = Comparisons.of(*pairs.T, np.where(gap > 0, "win", "loss"), context=context)
    gp.fit_pairs(X, voted)
    assert np.all(np.abs(gp.context_coef_ - [1.0, 0.0]) < 3 * gp.context_std_)
    assert gp.context_std_.max() < 0.15
    even = gp.predict_preference(X[:5], X[5:10], observed=True)
    ahead = gp.predict_preference(X[:5], X[5:10], observed=True, context=np.tile([1.0, 0], (5, 1)))
    assert (ahead > even).all()
    zero = gp.predict_preference(X[:5], X[5:10], observed=True, context=np.zeros((5, 2)))
    assert_allclose(zero, even)
    found = gp.leave_one_out()
    assert found.log_loss < 0.6
    same = load_model(save_model(gp, tmp_path / "model.rankwise"))
    assert_allclose(same.predict(X), gp.predict(X))
    assert_allclose(same.context_coef_, gp.context_coef_)
    told = gp.tell([3, 4])  # without context
    assert told.pairs_[-1].tolist() == [3, 4]
    assert not hasattr(gp.fit_pairs(X, pairs), "context_coef_")


@pytest.mark.parametrize("kernel", [RBF(1.0), 0.5 * DotProduct(0.0, "fixed")])
def test_told_comparisons_in_a_context_are_those_of_a_fit(kernel):
    X, pairs, margin, context = shown(n_pairs=60)
    context = np.sign(context[:, 1:])  # of the same mean square in every part
    gp = PairwiseGP(kernel, likelihood="gaussian", noise=0.7, optimizer=None)
    whole = clone(gp).fit_pairs(X, pairs, margin=margin, context=context)
    gp.fit_pairs(X, pairs[:50], margin=margin[:50], context=context[:50])
    gp.tell(pairs[50], margin=margin[50], context=context[50])
    gp.tell(pairs[51:55], margin=margin[51:55], context=context[51:55])
    gp.tell(Comparisons.of(*pairs[55:58].T, margin=margin[55:58], context=context[55:58]))
    rows, both = X[pairs[58:].ravel()], [[0, 1], [2, 3]]
    gp.tell(both, margin=margin[58:], context=context[58:], X=rows)
    assert len(gp.pairs_) == 60
    assert_allclose(gp.predict(X), whole.predict(X), atol=1e-6)


@pytest.mark.parametrize("n_pairs", [0, 4])
def test_no_comparison_that_counts(n_pairs):
    X, pairs, _, context = shown(n_pairs=4)
    gp = PairwiseGP(RBF(1.0))
    how = {"context": context[:n_pairs], "weight": np.zeros(n_pairs)}
    gp.fit_pairs(X, pairs[:n_pairs], **how)
    assert_allclose(gp.predict(X), 0.0)
    assert_allclose(gp.context_std_, 1.0)
    gp.tell([0, 1], context=[1.0, 0.0])
    assert gp.predict(X)[0] > 0
    assert gp.context_.tolist() == [[1.0, 0.0]]


def test_outcomes_in_a_context():
    X, pairs, gap, context = shown(n_pairs=100)
    gp = PairwiseGP(RBF(1.0), optimizer=None, tie_model="threshold")
    gp.fit_pairs(X, pairs, margin=np.where(np.abs(gap) < 0.3, 0, np.sign(gap)), context=context)
    there = np.tile([1.0, 0.0], (5, 1))
    outcomes = gp.predict_outcomes(X[:5], X[5:10], context=there)
    assert_allclose(outcomes.sum(axis=1), 1.0)
    want = gp.predict_preference(X[:5], X[5:10], observed=True, context=there)
    assert_allclose(outcomes @ [1.0, 0.5, 0.0], want)
    assert_allclose(gp.predict_tie(X[:5], X[5:10], context=there), outcomes[:, 1])
    assert np.abs(outcomes - gp.predict_outcomes(X[:5], X[5:10])).max() > 0.01


def test_told_comparisons_of_named_items():
    X, pairs, gap, context = shown(n_pairs=60)
    names = np.array([f"item {k}" for k in range(len(X))])
    voted = Comparisons.of(*names[pairs.T], gap > 0, items=names, context=context)
    gp = PairwiseGP(RBF(1.0), optimizer=None).fit_pairs(X, voted)
    gp.tell(Comparisons.of(["item 3"], ["item 4"], ["loss"], items=names))
    assert gp.pairs_[-1].tolist() == [3, 4]
    assert gp.margin_[-1] == -1.0
    with pytest.raises(DataError, match=r"a row for each of the 24 items"):
        gp.tell(Comparisons.of(["item 3"], ["item 4"], items=names[1:]))
    with pytest.raises(ParameterError, match="margin belongs to the comparisons"):
        gp.tell(voted, margin=[1.0])
    with pytest.raises(DataError, match=r"use rankwise\.data\.Comparisons\.of"):
        gp.tell(["item 3", "item 4"])


def test_context_that_cannot_be_used():
    X, pairs, _, context = shown()
    with pytest.raises(DataError, match="context needs one entry per pair"):
        PairwiseGP().fit_pairs(X, pairs, context=context[:3])
    gp = PairwiseGP(optimizer=None).fit_pairs(X, pairs)
    with pytest.raises(ParameterError, match="fitted without context"):
        gp.predict_preference(X, X, context=context[: len(X)])
    with pytest.raises(ParameterError, match="fitted without context"):
        gp.tell([0, 1], context=[1.0, 0.0])
    gp.fit_pairs(X, pairs, context=context)
    with pytest.raises(DataError, match="context has 1 columns, but the ranker was fitted with 2"):
        gp.tell([0, 1], context=[1.0])


@pytest.mark.parametrize("likelihood", ["probit", "gaussian"])
def test_a_weight_counts_as_copies_do_in_a_context(likelihood):
    X, pairs, gap, context = shown(n=8, n_pairs=12)
    margin = np.sign(gap) if likelihood == "probit" else gap
    times = np.arange(12) % 4
    gp = make_gp(KERNELS["rows"], optimizer=None, tol=1e-10, likelihood=likelihood)
    copies = np.repeat(np.arange(12), times)
    apart = clone(gp).fit_pairs(X, pairs[copies], margin=margin[copies], context=context[copies])
    gp.fit_pairs(X, pairs, margin=margin, weight=times, context=context)
    assert_allclose(gp.context_scale_, apart.context_scale_, rtol=1e-12)
    assert_allclose(gp.context_coef_, apart.context_coef_, atol=1e-8)
    assert_allclose(gp.predict(X), apart.predict(X), atol=1e-8)
