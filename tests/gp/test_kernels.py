"""Kernels of PairwiseGP: parts of single items, chosen columns, linear functions."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, WhiteKernel

from rankwise import (
    KPCRank,
    OnColumns,
    PairwiseGP,
    RankRLS,
    SparseRankRLS,
    load_model,
    save_model,
)
from rankwise.errors import ParameterError
from rankwise.gp import evidence
from rankwise.gp.process import (
    kernel_gradient,
    kernel_values,
    linear_coordinates,
    scale_slopes,
)
from rankwise.model_selection import leave_pair_out
from tests.gp.some_comparisons import make_gp


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


@pytest.mark.parametrize(
    "ranker",
    [
        PairwiseGP(RBF(1.0) + WhiteKernel(1.0), n_landmarks=4),
        SparseRankRLS(1.0, kernel=RBF(1.0) + WhiteKernel(1.0), n_landmarks=4),
        KPCRank(2, kernel=RBF(1.0) + WhiteKernel(1.0), n_landmarks=4),
    ],
    ids=lambda ranker: type(ranker).__name__,
)
def test_landmarks_cannot_stand_for_a_white_kernel(ranker):
    X, f, _ = item_comparisons(8, 20)
    with pytest.raises(ParameterError, match="a separate part"):
        ranker.fit(X, f)


@pytest.mark.parametrize("rows", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_rankrls_keeps_what_was_learned_of_each_item(rows):
    X, f, pairs = item_comparisons(12, 900)
    ranker = RankRLS(1.0, kernel=WhiteKernel(2.0), scale=None).fit_pairs(rows(X), pairs)
    assert np.corrcoef(ranker.predict(rows(X)), f)[0, 1] > 0.97
    assert_allclose(ranker.predict(rows(X + 1.0)), 0.0)  # nothing is known of new items


def test_rankrls_agrees_with_the_gaussian_mean_if_items_have_own_parts():
    X, _, pairs = item_comparisons(12, 60)
    X[6:9] = X[:3]  # the same items
    pairs = pairs[(X[pairs[:, 0]] != X[pairs[:, 1]]).any(axis=1)]
    kernel = 0.5 * RBF(1.0) + WhiteKernel(1.5)
    gp = PairwiseGP(kernel, likelihood="gaussian", noise=0.8, optimizer=None).fit_pairs(X, pairs)
    ranker = RankRLS(0.64, kernel=kernel, weighting="pairs", scale=None).fit_pairs(X, pairs)
    new = np.vstack((X, X[:3] + 0.1))
    assert_allclose(ranker.predict(new), gp.predict(new), atol=1e-9)
    assert_allclose(ranker.predict(X[6:9]), ranker.predict(X[:3]))


def test_held_out_rows_of_rankrls_have_no_own_part():
    X, f, _ = item_comparisons(10, 1)
    ranker = RankRLS(0.5, kernel=0.5 * RBF(1.0) + WhiteKernel(1.5), scale=None)
    found = leave_pair_out(ranker, X, f, alphas=[0.5], return_differences=True)
    for (i, j), difference in list(zip(found.pairs, found.differences[0], strict=True))[::9]:
        left = np.setdiff1d(np.arange(10), (i, j))
        first, second = clone(ranker).fit(X[left], f[left]).predict(X[[i, j]])
        assert difference == pytest.approx(first - second, abs=1e-9)


LINEAR = [
    DotProduct(0.7),
    ConstantKernel(2.0) * DotProduct(0.0, "fixed"),
    DotProduct(0.5, "fixed") * ConstantKernel(0.3) + ConstantKernel(1.5),
    OnColumns(2.0 * DotProduct(0.4), [2, 0]) + 0.5 * OnColumns(DotProduct(0.0, "fixed"), [1]),
    ConstantKernel(0.5, "fixed") * (DotProduct(1.0) + 3.0 * OnColumns(DotProduct(2.0), [1])),
]


@pytest.mark.parametrize("kernel", LINEAR, ids=str)
def test_coordinates_of_linear_kernels(kernel):
    X = np.random.default_rng(0).standard_normal((6, 3))

    F = linear_coordinates(kernel, 3).features(X).T
    slopes = scale_slopes(kernel, 3)
    K, dK = kernel(X, eval_gradient=True)
    assert_allclose(F @ F.T, K)
    for p in range(len(kernel.theta)):
        assert_allclose(2 * (F * slopes[:, p]) @ F.T, dK[:, :, p], atol=1e-12)


@pytest.mark.parametrize(
    "kernel", [RBF(1.0), DotProduct() * DotProduct(), DotProduct() ** 2, DotProduct() + RBF(1.0)]
)
def test_other_kernels_have_no_coordinates(kernel):
    assert linear_coordinates(kernel, 3) is None


@pytest.mark.parametrize("settings", [{}, {"likelihood": "gaussian"}, {"inference": "laplace"}])
@pytest.mark.parametrize("kernel", LINEAR[2:4], ids=str)
def test_linear_kernels_are_not_evaluated(kernel, settings, monkeypatch):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((20, 3))
    pairs = np.column_stack((np.arange(20), (np.arange(20) + rng.integers(1, 20, 20)) % 20))
    gp = make_gp(kernel, tol=1e-10, **settings)
    linear = clone(gp).fit_pairs(X, pairs)
    assert linear.posterior_.best.points.shape == (0, 3)
    monkeypatch.setattr(evidence, "linear_coordinates", lambda kernel, n_features: None)
    dense = clone(gp).fit_pairs(X, pairs)
    assert_allclose(linear.theta_, dense.theta_, atol=1e-2)
    dense = make_gp(linear.kernel_, noise=linear.noise_, tol=1e-10, optimizer=None, **settings)
    dense.fit_pairs(X, pairs)
    new = rng.standard_normal((5, 3))
    assert_allclose(linear.predict(new), dense.predict(new), atol=1e-6)
    for how in ({"return_std": True}, {"return_cov": True}, {"contrast": X, "return_std": True}):
        assert_allclose(linear.predict(new, **how)[1], dense.predict(new, **how)[1], atol=1e-6)
    assert_allclose(
        linear.predict_difference(X, X[::-1])[1], dense.predict_difference(X, X[::-1])[1], atol=1e-6
    )
    theta = linear.theta_ - 0.2
    monkeypatch.undo()
    got = linear.log_marginal_likelihood(theta, eval_gradient=True)
    monkeypatch.setattr(evidence, "linear_coordinates", lambda kernel, n_features: None)
    want = linear.log_marginal_likelihood(theta, eval_gradient=True)
    assert got[0] == pytest.approx(want[0], abs=1e-7)
    assert_allclose(got[1], want[1], atol=1e-6)


def test_kernels_on_columns():
    X = np.random.default_rng(0).standard_normal((8, 4))
    kernel = OnColumns(1.5 * RBF([0.5, 2.0]) + WhiteKernel(0.3), [3, 1])
    inner = kernel.kernel
    K, dK = kernel(X, eval_gradient=True)
    assert_allclose(K, inner(X[:, [3, 1]]))
    assert_allclose(dK, inner(X[:, [3, 1]], eval_gradient=True)[1])
    assert_allclose(kernel.diag(X), np.diagonal(K))
    assert_allclose(kernel(X, X[:3]), K[:, :3])  # rows with equal columns are the same item
    assert_allclose(kernel.bounds, inner.bounds)
    moved = kernel.clone_with_theta(kernel.theta + 1.0)
    assert_allclose(moved.theta, kernel.theta + 1.0)
    assert moved != kernel
    assert clone(kernel) == kernel
    assert not kernel.is_stationary() or inner.is_stationary()
    assert "OnColumns(" in str(2.0 * kernel)
    assert kernel.get_params()["kernel__k2__noise_level"] == 0.3
    peer = GaussianProcessRegressor(OnColumns(RBF(1.0), [0])).fit(X, X[:, 0])
    assert len(peer.kernel_.theta) == 1
    for columns in ([0, 4], [-1], [], ["a"], [[0]], [0.5]):
        with pytest.raises(ParameterError, match="columns of OnColumns"):
            PairwiseGP(OnColumns(RBF(1.0), columns)).fit_pairs(X, [[0, 1]])


def test_identity_and_style_have_scales_of_their_own(tmp_path):
    rng = np.random.default_rng(0)
    item, style = rng.integers(0, 8, 300), rng.standard_normal(300)
    quality = 2.0 * rng.standard_normal(8)
    X = np.column_stack((item, style))
    pairs = np.column_stack((np.arange(150), 150 + np.arange(150)))
    f = quality[item] + 0.3 * style
    won = f[:150] - f[150:] + rng.standard_normal(150) > 0
    kernel = OnColumns(WhiteKernel(1.0), [0]) + 1.0 * OnColumns(DotProduct(0.0, "fixed"), [1])
    gp = PairwiseGP(kernel).fit_pairs(X, pairs, margin=won)
    alone = np.column_stack((np.arange(8), np.zeros(8)))
    assert np.corrcoef(gp.predict(alone), quality)[0, 1] > 0.9
    assert np.exp(gp.theta_[0]) > 5 * np.exp(gp.theta_[1])
    for model in (gp, PairwiseGP(LINEAR[3]).fit_pairs(np.column_stack((X, style)), pairs)):
        same = load_model(save_model(model, tmp_path / "model.rankwise"))
        new = X if model is gp else np.column_stack((X, style))
        assert_allclose(same.predict(new), model.predict(new))
        assert same.kernel_ == model.kernel_
