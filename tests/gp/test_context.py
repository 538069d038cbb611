"""Gaussian processes on comparisons with features of their own."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, DotProduct, WhiteKernel

from rankwise import PairwiseGP, load_model, save_model
from rankwise.data import Comparisons
from rankwise.errors import DataError, ParameterError


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
    with pytest.raises(ParameterError, match="context needs exact inference"):
        PairwiseGP(n_landmarks=5).fit_pairs(X, pairs, context=context)
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
