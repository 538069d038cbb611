"""Gaussian processes on comparisons with features of their own."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
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


def test_context_that_cannot_be_used():
    X, pairs, _, context = shown()
    with pytest.raises(ParameterError, match="context needs exact inference"):
        PairwiseGP(n_landmarks=5).fit_pairs(X, pairs, context=context)
    with pytest.raises(DataError, match="a row of features for each comparison"):
        PairwiseGP().fit_pairs(X, pairs, context=context[:3])
    gp = PairwiseGP(optimizer=None).fit_pairs(X, pairs)
    with pytest.raises(ParameterError, match="fitted without context"):
        gp.predict_preference(X, X, context=context[: len(X)])
