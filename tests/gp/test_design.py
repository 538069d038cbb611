"""PairwiseGP(marginalize="all"): an average over all hyperparameters."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from rankwise import PairwiseGP, load_model, save_model
from rankwise.errors import ParameterError, RankwiseWarning
from rankwise.gp.hyperparameters import composite_points
from tests.gp.some_comparisons import some_comparisons
from tests.oracles.gp_hyperparameters import density_of, lattice, walk

KERNEL = ConstantKernel(1.0, (1e-2, 1e2)) * RBF(1.0, (1e-1, 1e1))


@pytest.mark.parametrize("d", range(1, 9))
def test_points_integrate_the_moments_of_a_normal_distribution(d):
    points, weights = composite_points(d)
    normal = weights * np.exp(-0.5 * (points**2).sum(axis=1))
    normal /= normal.sum()
    assert_allclose(normal @ points, 0.0, atol=1e-12)
    assert_allclose((normal[:, None] * points).T @ points, np.eye(d), atol=1e-12)
    assert len(points) <= 1 + 2 * d + 2**d
    # No product of two coordinates is that of two others, or of one other.
    corners = np.sign(points[(points != 0).all(axis=1)])
    if d > 1:
        products = corners[:, :, None] * corners[:, None]
        i, j = np.triu_indices(d, 1)
        columns = np.hstack((corners, products[:, i, j]))
        assert_allclose(columns.T @ columns, len(corners) * np.eye(columns.shape[1]), atol=1e-12)


def margins(n_rows=8, n_pairs=14, seed=0):
    rng = np.random.default_rng(seed)
    X = np.sort(rng.uniform(-2, 2, (n_rows, 1)), axis=0)
    pairs = np.array([rng.choice(n_rows, 2, replace=False) for _ in range(n_pairs)])
    f = np.sin(2 * X[:, 0])
    return X, pairs, f[pairs[:, 0]] - f[pairs[:, 1]] + 0.3 * rng.standard_normal(n_pairs)


@pytest.mark.parametrize("by", ["lattice", pytest.param("walk", marks=pytest.mark.slow)])
def test_predictions_are_those_of_many_hyperparameters(by):
    X, pairs, margin = margins()
    new = np.array([[-1.5], [0.3], [3.0]])
    settings = {"likelihood": "gaussian", "noise": 0.5, "prior_scale": 0.7}
    best, whole = (
        PairwiseGP(KERNEL, marginalize=over, **settings).fit_pairs(X, pairs, margin=margin)
        for over in (None, "all")
    )
    start = np.append(KERNEL.theta, np.log(0.5))
    density = density_of(X, pairs, margin, new, start, 0.7)
    if by == "lattice":
        want = lattice(density, start, reach=2.1, n=11)
    else:
        want = walk(density, start, 40_000, np.random.default_rng(1))
    mean, std = whole.predict(new, return_std=True)
    assert len(whole.grid_weights_) == 15
    assert_allclose(mean, want[0], atol=0.05)
    assert_allclose(std, want[1], rtol=0.03)
    alone = best.predict(new, return_std=True)[1]
    assert np.abs(std - want[1]).sum() < 0.2 * np.abs(alone - want[1]).sum()


def test_few_winners_have_a_prior():
    X, pairs, margin = margins(seed=1)
    pairs = np.where(margin[:, None] > 0, pairs, pairs[:, ::-1])
    whole = PairwiseGP(marginalize="all", flips=0.0).fit_pairs(X, pairs)
    start = PairwiseGP(optimizer=None).fit_pairs(X, pairs).kernel_
    found = []
    for z in np.stack(np.meshgrid(*2 * [np.linspace(-3, 3, 7)]), axis=-1).reshape(-1, 2):
        kernel = start.clone_with_theta(start.theta + 0.7 * z)
        gp = PairwiseGP(kernel, optimizer=None).fit_pairs(X, pairs)
        log_density = gp.log_marginal_likelihood_value_ - 0.5 * z @ z
        found.append((np.exp(log_density), *gp.predict(X, contrast="mean", return_std=True)))
    density, means, stds = (np.array(part) for part in zip(*found, strict=True))
    weights = density / density.sum()
    want = weights @ means
    want_std = np.sqrt(weights @ (stds**2 + (means - want) ** 2))
    mean, std = whole.predict(X, contrast="mean", return_std=True)
    assert_allclose(std, want_std, rtol=0.1)
    assert_allclose(mean, want, atol=0.1 * want_std.mean())
    same = PairwiseGP(marginalize="all", flips=0.0, prior_scale=0.7).fit_pairs(X, pairs)
    assert_allclose(same.theta_, whole.theta_, atol=1e-6)


def test_a_wide_prior_of_few_winners():
    X, pairs, margin = margins(n_pairs=6)
    gp = PairwiseGP(marginalize="all", flips=0.0, prior_scale=3.0)
    with pytest.warns(RankwiseWarning, match="uncertain by a factor of.*Set prior_scale"):
        gp.fit_pairs(X, np.where(margin[:, None] > 0, pairs, pairs[:, ::-1]))


def test_two_widths_that_explain_the_same_winners():
    rng = np.random.default_rng(105)
    X = rng.uniform(-2, 2, (12, 2))
    quality = 0.7 * np.sin(X).sum(axis=1) / np.sqrt(2)
    some = np.argwhere(np.tri(12, k=-1))[rng.permutation(66)[:30]]
    pairs = [(i, j) if quality[i] - quality[j] + rng.normal() > 0 else (j, i) for i, j in some]
    gp = PairwiseGP(marginalize="all", flips=0.0)
    with pytest.warns(RankwiseWarning, match="quite different.*Set prior_scale"):
        gp.fit_pairs(X, pairs)


def test_margins_need_a_prior():
    X, pairs, margin = margins()
    gp = PairwiseGP(KERNEL, likelihood="gaussian", marginalize="all")
    with pytest.warns(RankwiseWarning, match="without a prior.*Set prior_scale"):
        gp.fit_pairs(X, pairs, margin=margin)


def test_winners_with_flips_and_ties():
    X, pairs = some_comparisons(n_pairs=40)
    outcome = np.where(np.arange(len(pairs)) % 7 == 0, "tie", "first")
    gp = PairwiseGP(KERNEL, tie_model="threshold", flips=0.05, marginalize="all", prior_scale=1.0)
    gp.fit_pairs(X, pairs, margin=outcome)
    assert len(gp.grid_weights_) == 25  # variance, width, threshold, flips
    assert gp.grid_weights_.sum() == pytest.approx(1.0)
    thresholds = {process.hyper.threshold for process in gp.posterior_.processes}
    assert len(thresholds) > 5
    told = gp.tell([[0, 1]])  # the hyperparameters of each process stay
    assert {process.hyper.threshold for process in told.posterior_.processes} == thresholds


def test_a_mode_on_a_bound_and_a_model_file(tmp_path):
    X, pairs, margin = margins(seed=3)
    kernel = ConstantKernel(1.0, (1e-2, 1e2)) * RBF(0.2, (0.1, 0.3))
    gp = PairwiseGP(kernel, likelihood="gaussian", marginalize="all", prior_scale=0.7)
    with pytest.warns(RankwiseWarning, match="at its bound.*widen the bounds"):
        gp.fit_pairs(X, pairs, margin=margin)
    assert gp.theta_[1] == pytest.approx(np.log(0.3))
    widths = [k.k2.length_scale for k in gp.grid_kernels_]
    assert min(widths) > 0.1 - 1e-9
    assert max(widths) < 0.3 + 1e-9
    loaded = load_model(save_model(gp, tmp_path / "gp.rankwise"))
    assert_allclose(loaded.predict(X), gp.predict(X), atol=1e-12)


def test_nothing_to_average_over():
    X, pairs, _ = margins()
    kernel = ConstantKernel(1.0, "fixed") * RBF(1.0, "fixed")
    with pytest.raises(ParameterError, match='"all" averages over the free'):
        PairwiseGP(kernel, marginalize="all").fit_pairs(X, pairs)
