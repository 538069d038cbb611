"""Kernels of PairwiseGP: parts of single items, chosen columns, linear functions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, WhiteKernel

from rankwise import PairwiseGP
from rankwise.errors import ParameterError
from rankwise.estimators.gp.kernel_values import kernel_gradient, kernel_values


def item_comparisons(n_items, n_pairs, seed=0):
    """Features that say nothing about the quality of items, the quality, and comparisons."""
    rng = np.random.default_rng(seed)
    X, f = rng.standard_normal((n_items, 2)), 1.5 * rng.standard_normal(n_items)
    i = rng.integers(0, n_items, n_pairs)
    j = (i + rng.integers(1, n_items, n_pairs)) % n_items
    win = f[i] - f[j] + rng.standard_normal(n_pairs) > 0
    return X, f, np.where(win[:, None], np.column_stack((i, j)), np.column_stack((j, i)))


@pytest.mark.parametrize(
    "kernel",
    [
        WhiteKernel(2.0),
        2.0 * WhiteKernel(1.0),
        ConstantKernel(0.5) * RBF(1.0) + WhiteKernel(2.0),
        (RBF(1.0) + WhiteKernel(2.0)) ** 1.0,
    ],
    ids=str,
)
def test_a_white_kernel_keeps_what_was_learned_of_each_item(kernel):
    X, f, pairs = item_comparisons(12, 900)
    gp = PairwiseGP(kernel, optimizer=None, flips=0.0).fit_pairs(X, pairs)
    assert np.corrcoef(gp.predict(X), f)[0, 1] > 0.97
    if isinstance(kernel, WhiteKernel):
        peer = PairwiseGP(2.0 * RBF(1e-4), optimizer=None, flips=0.0).fit_pairs(X, pairs)
        for ours, theirs in zip(
            gp.predict(X, return_cov=True), peer.predict(X, return_cov=True), strict=True
        ):
            assert_allclose(ours, theirs, atol=1e-6)
        assert_allclose(gp.predict(X + 0.1), 0.0)
        assert_allclose(gp.predict(X + 0.1, return_std=True)[1], np.sqrt(2.0))


def test_rows_with_equal_features_are_the_same_item():
    X, _, pairs = item_comparisons(6, 40)
    kernel = 0.7 * Matern(1.0, nu=1.5) + WhiteKernel(0.5)
    twice = np.vstack((X, X))
    moved = pairs + 6 * (np.arange(len(pairs)) % 2)[:, None]
    settings = {"likelihood": "gaussian", "optimizer": None}  # its posterior is exact
    one = PairwiseGP(kernel, **settings).fit_pairs(X, pairs)
    two = PairwiseGP(kernel, **settings).fit_pairs(twice, moved)
    assert_allclose(two.predict(twice), np.tile(one.predict(X), 2), atol=1e-8)
    assert_allclose(
        two.predict(X, return_std=True)[1], one.predict(X, return_std=True)[1], atol=1e-8
    )
    assert two.log_marginal_likelihood_value_ == pytest.approx(
        one.log_marginal_likelihood_value_, abs=1e-8
    )
    assert_allclose(one.predict_preference(X, X.copy()), 0.5)
    zeros = np.array([[0.0], [-0.0], [1.0]])
    assert_allclose(
        kernel_values(WhiteKernel(2.0), zeros), [[2.0, 2.0, 0.0], [2.0, 2.0, 0.0], [0.0, 0.0, 2.0]]
    )


def test_the_gradient_with_equal_rows_and_a_white_kernel():
    X = np.array([[0.0, 1.0], [0.5, -1.0], [0.0, 1.0], [2.0, 0.0], [0.5, -1.0]])
    kernel = 0.8 * RBF(1.3) * WhiteKernel(0.6) + WhiteKernel(0.3) + DotProduct(0.5)
    K, dK = kernel_gradient(kernel, X)
    assert_allclose(K, kernel_values(kernel, X))
    assert_allclose(K, kernel_values(kernel, X, X.copy()))
    for p, step in enumerate(1e-5 * np.eye(len(kernel.theta))):
        up, down = (
            kernel_values(kernel.clone_with_theta(kernel.theta + s), X) for s in (step, -step)
        )
        assert_allclose(dK[:, :, p], (up - down) / 2e-5, atol=1e-8)


def test_landmarks_cannot_stand_for_a_white_kernel():
    X, _, pairs = item_comparisons(8, 20)
    with pytest.raises(ParameterError, match="part of its own"):
        PairwiseGP(RBF(1.0) + WhiteKernel(1.0), n_landmarks=4).fit_pairs(X, pairs)
