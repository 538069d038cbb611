"""Predictions of PairwiseGP: mixtures, contrasts, samples, ranks, preferences."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    WhiteKernel,
)

from rankwise import PairwiseGP
from rankwise.errors import ParameterError
from reproduce.kpcrank.sinc_comparisons import make_sinc_comparisons
from tests.gp.some_comparisons import make_gp, some_comparisons


def test_marginalizing_the_width():
    data = make_sinc_comparisons(n_train_pairs=60, flipped=0.05, random_state=0)
    gp = make_gp(marginalize="grid", tol=1e-9).fit_pairs(data.X_train, data.pairs_train)
    assert len(gp.grid_weights_) > 3
    assert gp.grid_weights_.sum() == pytest.approx(1.0)
    assert gp.grid_weights_.max() < 1.0
    X, w = data.X_test[:20], gp.grid_weights_
    alone = [
        make_gp(kernel, optimizer=None, tol=1e-9).fit_pairs(data.X_train, data.pairs_train)
        for kernel in gp.grid_kernels_
    ]
    values = np.array([one.log_marginal_likelihood_value_ for one in alone])
    assert_allclose(
        w, np.exp(values - values.max()) / np.exp(values - values.max()).sum(), atol=1e-6
    )
    means = np.array([one.predict(X) for one in alone])
    covs = np.array([one.predict(X, return_cov=True)[1] for one in alone])
    mean, cov = gp.predict(X, return_cov=True)
    assert_allclose(mean, w @ means, atol=1e-6)
    second = np.einsum("k,kij->ij", w, covs + means[:, :, None] * means[:, None])
    assert_allclose(cov, second - np.outer(mean, mean), atol=1e-5)
    assert_allclose(gp.predict(X, return_std=True)[1] ** 2, np.diagonal(cov), atol=1e-8)
    chance = gp.predict_preference(X[:5], X[5:10])
    assert_allclose(
        chance, w @ [one.predict_preference(X[:5], X[5:10]) for one in alone], atol=1e-6
    )


@pytest.mark.parametrize("settings_", [{}, {"marginalize": "grid"}, {"landmarks": [0, 5, 9]}])
@pytest.mark.parametrize("n_pairs", [6, 40])
def test_contrasts_are_linear_functions_of_scores(settings_, n_pairs):
    X, pairs = some_comparisons(n_pairs=n_pairs)
    kernel = 2.0 * RBF(1.0, (0.5, 2.0))
    gp = PairwiseGP(kernel, optimizer=None, **settings_).fit_pairs(X, pairs)
    new, rows = X[:4] + 0.1, X[3:9]
    for contrast, reference in (("mean", X), (rows, rows), (pd.DataFrame(rows), rows)):
        both = np.vstack((new, reference))
        mean, cov = gp.predict(both, return_cov=True)
        A = np.hstack((np.eye(4), np.full((4, len(reference)), -1 / len(reference))))
        got = gp.predict(new, contrast=contrast, return_cov=True)
        assert_allclose(got[0], A @ mean, atol=1e-9)
        assert_allclose(got[1], A @ cov @ A.T, atol=1e-9)
        std = gp.predict(new, contrast=contrast, return_std=True)[1]
        assert_allclose(std, np.sqrt(np.diagonal(got[1])), atol=1e-7)
        assert_allclose(gp.predict(new, contrast=contrast), got[0], atol=1e-9)
    mean, cov = gp.predict(X, return_cov=True)
    gap, std = gp.predict_difference(X[[0, 1]], X[[2, 3]])
    assert_allclose(gap, mean[[0, 1]] - mean[[2, 3]], atol=1e-9)
    variance = cov[[0, 1], [0, 1]] + cov[[2, 3], [2, 3]] - 2 * cov[[0, 1], [2, 3]]
    assert_allclose(std**2, variance, atol=1e-7)
    with pytest.raises(ParameterError, match="contrast must be"):
        gp.predict(X, contrast="median")


def test_intervals_of_contrasts_cover_the_truth_as_often_as_they_say():
    """The intervals of single scores are far too wide: they include the level."""
    covered, too_wide = [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        f, X = rng.standard_normal(20), np.arange(20)[:, None]
        i = rng.integers(0, 20, 500)
        j = (i + rng.integers(1, 20, 500)) % 20
        won = f[i] - f[j] + rng.standard_normal(500) > 0
        gp = PairwiseGP(1.0 * RBF(3.0) + WhiteKernel(1.0), optimizer=None, flips=0.0)
        gp.fit_pairs(X, np.column_stack((i, j)), margin=won)
        mean, std = gp.predict(X, contrast="mean", return_std=True)
        covered.append(np.abs(mean - (f - f.mean())) < 1.645 * std)
        alone = gp.predict(X, return_std=True)
        too_wide.append(np.abs(alone[0] - f) < 1.645 * alone[1])
    assert np.mean(covered) == pytest.approx(0.9, abs=0.035)
    assert np.mean(too_wide) > 0.98


def test_samples_have_the_posterior_moments():
    X, pairs = some_comparisons()
    for settings_ in ({}, {"marginalize": "grid"}):
        gp = PairwiseGP(**settings_).fit_pairs(X, pairs)
        draws = gp.sample(X, n_samples=40_000, random_state=0)
        mean, cov = gp.predict(X, return_cov=True)
        assert draws.shape == (40_000, len(X))
        scale = np.sqrt(np.diagonal(cov))
        assert_allclose((draws.mean(axis=0) - mean) / scale, 0.0, atol=0.03)
        assert_allclose(
            np.cov(draws.T) / np.outer(scale, scale), cov / np.outer(scale, scale), atol=0.05
        )
        assert_allclose(
            gp.sample(X, n_samples=3, random_state=1), gp.sample(X, n_samples=3, random_state=1)
        )


def test_rank_probabilities():
    X, pairs = some_comparisons(n_rows=6, n_pairs=30)
    gp = PairwiseGP().fit_pairs(X, pairs)
    chances = gp.rank_probabilities(X, n_samples=4000, random_state=0)
    assert_allclose(chances.sum(axis=0), 1.0)
    assert_allclose(chances.sum(axis=1), 1.0)
    two = gp.rank_probabilities(X[:2], n_samples=40_000, random_state=0)
    assert two[0, 0] == pytest.approx(gp.predict_preference(X[[0]], X[[1]])[0], abs=0.01)
    twins = gp.rank_probabilities(X[[0, 0]], n_samples=4000, random_state=0)
    assert_allclose(twins, 0.5, atol=0.05)
    expected = chances @ np.arange(6)
    assert_allclose(np.argsort(expected), np.argsort(-gp.predict(X)))


def test_preferences_are_coherent():
    X, pairs = some_comparisons()
    gp = PairwiseGP().fit_pairs(X, pairs)
    for observed in (False, True):
        p = gp.predict_preference(X[:7], X[7:14], observed=observed)
        assert_allclose(p + gp.predict_preference(X[7:14], X[:7], observed=observed), 1.0)
        assert_allclose(gp.predict_preference(X, X, observed=observed), 0.5)
    better = gp.predict_preference(X[:7], X[7:14])
    noisy = gp.predict_preference(X[:7], X[7:14], observed=True)
    assert (np.abs(noisy - 0.5) <= np.abs(better - 0.5) + 1e-12).all()


def test_gaussian_scores_agree_with_regression():
    """With a constant in the kernel, regression on values is regression on differences."""
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(0, 4, (25, 1)), axis=0)
    y = np.sin(2 * X.ravel())
    gp = PairwiseGP(1.0 * RBF(0.7), likelihood="gaussian", noise=1e-2, optimizer=None).fit(X, y)
    peer = GaussianProcessRegressor(
        1.0 * RBF(0.7) + ConstantKernel(1e4), alpha=1e-4 / 25, optimizer=None
    ).fit(X, y)
    new = rng.uniform(0, 4, (10, 1))
    ours, theirs = gp.predict(new), peer.predict(new)
    assert_allclose(ours - ours.mean(), theirs - theirs.mean(), atol=1e-3)
