"""PairwiseGP.leave_one_out against fits without each comparison."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, DotProduct, Matern, WhiteKernel

from rankwise import GPOptions, PairwiseGP, load_model, save_model
from rankwise.errors import DataError, ParameterError
from tests.gp.some_comparisons import make_gp

KERNEL = 3.0 * RBF(1.0, (0.5, 2.0))


def votes(seed=0, n_rows=12, n_pairs=24, threshold=0.6):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n_rows, 2))
    f = 2 * np.sin(X).sum(axis=1)
    i = rng.integers(0, n_rows, n_pairs)
    pairs = np.column_stack((i, (i + rng.integers(1, n_rows, n_pairs)) % n_rows))
    gap = f[pairs[:, 0]] - f[pairs[:, 1]] + rng.standard_normal(n_pairs)
    return X, pairs, np.where(np.abs(gap) < threshold, 0.0, np.sign(gap))


def refits(gp, X, pairs, margin, groups):
    """Mean, std and outcomes of each comparison, from a fit without its group."""
    found = np.empty((len(pairs), 5))
    for group in np.unique(groups):
        out = groups == group
        one = clone(gp).fit_pairs(X, pairs[~out], margin=margin[~out])
        X1, X2 = X[pairs[out].T]
        found[out, :2] = np.column_stack(one.predict_difference(X1, X2))
        found[out, 2:] = one.predict_outcomes(X1, X2)
    return found.T


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"tie_model": "threshold"},
        {"landmarks": [0, 1, 2, 3, 4, 5]},
        {"kernel": 0.5 * DotProduct(0.0, "fixed")},
        {"noise": 0.5, "flips": 0.05},
    ],
    ids=str,
)
def test_held_out_comparisons_are_close_to_refits(settings):
    X, pairs, margin = votes()
    gp = make_gp(**{"kernel": KERNEL, "optimizer": None, "tol": 1e-8} | settings)
    gp.fit_pairs(X, pairs, margin=margin)
    groups = np.arange(len(pairs)) // 3
    alone = [] if settings else [(None, np.arange(len(pairs)))]
    for given, numbers in ((groups, groups), *alone):
        held_out = gp.leave_one_out(groups=given)
        mean, std, *outcomes = refits(gp, X, pairs, margin, numbers)
        assert np.abs(held_out.mean - mean).mean() < 0.05
        assert np.abs(held_out.std - std).mean() < 0.05
        outcomes = np.column_stack(outcomes)
        assert_allclose(held_out.probabilities, outcomes, atol=0.04)
        assert_allclose(held_out.probabilities.sum(axis=1), 1.0)
        win, tie, loss = np.log(np.maximum(outcomes, 1e-300)).T
        tied = tie if gp.threshold_ else 0.5 * (win + loss)
        want = np.where(margin > 0, win, np.where(margin < 0, loss, tied))
        assert held_out.log_loss == pytest.approx(-want.mean(), abs=0.005)
        score = outcomes @ [1.0, 0.5, 0.0]
        assert held_out.brier == pytest.approx(np.mean((score - (margin + 1) / 2) ** 2), abs=0.005)
        right = np.where(margin == 0, 0.5, np.sign(held_out.mean) == margin)
        assert held_out.accuracy == pytest.approx(right.mean())


def test_margins_with_gaussian_noise_are_exact():
    X, pairs, _ = votes()
    margin = np.random.default_rng(0).standard_normal(len(pairs))
    gp = PairwiseGP(KERNEL, likelihood="gaussian", noise=0.8, optimizer=None)
    gp.fit_pairs(X, pairs, margin=margin)
    for given in (None, np.arange(len(pairs)) % 4):
        held_out = gp.leave_one_out(groups=given)
        mean, std, *outcomes = refits(
            gp, X, pairs, margin, np.arange(len(pairs)) if given is None else given
        )
        assert_allclose(held_out.mean, mean, atol=1e-8)
        assert_allclose(held_out.std, std, atol=1e-8)
        assert_allclose(held_out.probabilities, np.column_stack(outcomes), atol=1e-8)
        spread = std**2 + 0.64
        density = -0.5 * ((margin - mean) ** 2 / spread + np.log(2 * np.pi * spread))
        assert_allclose(held_out.log_likelihood, density, atol=1e-8)


@pytest.mark.parametrize("likelihood", ["probit", "gaussian"])
@pytest.mark.parametrize("kernel", [WhiteKernel(1.0), 4.0 * RBF(0.01)], ids=str)
@pytest.mark.parametrize("noise", [1.0, 1e-2, 1e-5])
@pytest.mark.filterwarnings("ignore:The comparisons fall into 20 parts")
def test_nothing_is_known_of_a_pair_apart_from_all_others(likelihood, kernel, noise):
    X, pairs = np.arange(40.0)[:, None], np.arange(40).reshape(20, 2)
    margin = np.random.default_rng(0).standard_normal(20)
    margin = np.sign(margin) if likelihood == "probit" else margin
    gp = PairwiseGP(kernel, likelihood=likelihood, noise=noise, optimizer=None)
    gp.fit_pairs(X, pairs, margin=margin)
    for groups in (None, np.arange(20) // 4):
        held_out = gp.leave_one_out(groups=groups)
        assert held_out.accuracy == 0.5
        assert_allclose(held_out.probabilities[:, 0], held_out.probabilities[:, 2])


@pytest.mark.parametrize("likelihood", ["probit", "gaussian"])
def test_a_small_prediction_is_no_rounding_error(likelihood):
    """Row 0 is far ahead of row 1, and row 2 hardly ahead of row 3."""
    kernel = DotProduct(0.0, "fixed")
    X = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1e-3], [0.0, 0.0]])
    pairs = np.repeat([[0, 1], [2, 3]], 10, axis=0)
    gp = PairwiseGP(kernel, likelihood=likelihood, noise=0.01, optimizer=None)
    held_out = gp.fit_pairs(X, pairs).leave_one_out()
    assert held_out.accuracy == 1.0
    assert 0 < held_out.mean[-1] < 0.1 * held_out.mean[0]


def test_the_form_of_the_comparisons_does_not_matter():
    """Swapped rows, repeated comparisons and weights, `tell`, model files."""
    X, pairs, margin = votes()
    gp = make_gp(KERNEL, tie_model="threshold", optimizer=None, tol=1e-9)
    want = clone(gp).fit_pairs(X, pairs, margin=margin).leave_one_out()
    swapped = clone(gp).fit_pairs(X, pairs[:, ::-1], margin=-margin).leave_one_out()
    assert_allclose(swapped.probabilities[:, ::-1], want.probabilities, atol=1e-6)
    assert_allclose(swapped.mean, -want.mean, atol=1e-6)
    assert swapped.log_loss == pytest.approx(want.log_loss, abs=1e-6)
    twice = clone(gp).fit_pairs(
        X, np.repeat(pairs, 2, axis=0), margin=np.repeat(margin, 2), weight=np.full(48, 0.5)
    )
    groups = np.repeat([f"vote {k}" for k in range(24)], 2)
    halves = twice.leave_one_out(groups=groups)
    assert_allclose(halves.probabilities[::2], want.probabilities, atol=1e-5)
    assert halves.log_loss == pytest.approx(want.log_loss, abs=1e-5)
    assert halves.log_loss_standard_error == pytest.approx(want.log_loss_standard_error, rel=1e-4)
    assert twice.leave_one_out().log_loss < want.log_loss


def test_a_grid_of_widths_and_model_files(tmp_path):
    X, pairs, margin = votes(n_pairs=15)
    gp = PairwiseGP(KERNEL, marginalize="grid", optimizer=None)
    gp.fit_pairs(X, pairs, margin=margin)
    assert len(gp.grid_weights_) > 1
    alone = [
        PairwiseGP(k, optimizer=None).fit_pairs(X, pairs, margin=margin) for k in gp.grid_kernels_
    ]
    want = np.tensordot(gp.grid_weights_, [one.leave_one_out().probabilities for one in alone], 1)
    held_out = gp.leave_one_out()
    assert_allclose(held_out.probabilities, want, atol=1e-4)
    again = load_model(save_model(gp, tmp_path / "gp.rankwise")).leave_one_out()
    assert_allclose(again.probabilities, held_out.probabilities)


def test_an_asked_model_can_leave_out_its_answers():
    X, pairs, _ = votes()
    gp = make_gp(4.0 * Matern(1.0, nu=2.5), optimizer=None, tol=1e-8).fit_pairs(X, pairs[:5])
    for _ in range(3):
        gp.tell(gp.suggest_pair(X, random_state=0))
    fresh = clone(gp).fit_pairs(X, gp.pairs_, margin=gp.margin_)
    assert_allclose(
        gp.leave_one_out().probabilities, fresh.leave_one_out().probabilities, atol=1e-5
    )


def test_what_cannot_be_left_out():
    X, pairs, margin = votes()
    gp = PairwiseGP(KERNEL, optimizer=None)
    with pytest.raises(DataError, match="no comparison to leave out"):
        clone(gp).fit_pairs(X, []).leave_one_out()
    newton = (
        clone(gp)
        .set_params(options=GPOptions(inference="laplace"))
        .fit_pairs(X, pairs, margin=margin)
    )
    with pytest.raises(ParameterError, match='use inference="ep"'):
        newton.leave_one_out()
    gp.fit_pairs(X, pairs, margin=margin)
    with pytest.raises(
        DataError, match=r"group needs one entry per comparison: got shape \(23,\) for 24"
    ):
        gp.leave_one_out(groups=np.zeros(23))
    with pytest.raises(DataError, match="group has no value for comparison 2"):
        gp.leave_one_out(groups=["a", "b", None] * 8)
    everything = gp.leave_one_out(groups=np.zeros(24))
    assert_allclose(everything.mean, 0.0, atol=1e-6)  # the prior


def test_a_result_is_a_table_a_frame_and_a_plot():
    X, pairs, margin = votes()
    found = PairwiseGP(KERNEL, optimizer=None).fit_pairs(X, pairs, margin=margin).leave_one_out()
    lines = str(found).splitlines()
    assert [line.split("  ")[0] for line in lines[2:]] == [
        "accuracy", "log-loss", "Brier score", "calibration error",
    ]  # fmt: skip
    assert f"{found.log_loss:.4f}  {found.log_loss_standard_error:.4f}" in lines[3]
    assert repr(found).startswith(f"<HeldOutComparisons: {len(pairs)} comparisons, log-loss ")
    assert "<td" in found._repr_html_()
    frame = found.to_frame()
    assert frame.index.name == "comparison"
    assert_allclose(frame[["win", "tie", "loss"]], found.probabilities)
    assert frame[["first", "second"]].to_numpy().tolist() == pairs.tolist()
    x = found.plot(n_bins=2).get_lines()[1].get_xdata()
    assert (x >= 0.5).all()  # of the predicted winners
    ties = PairwiseGP(KERNEL, optimizer=None).fit_pairs(X, pairs, margin=["tie"] * len(pairs))
    with pytest.raises(DataError, match="All comparisons are ties"):
        ties.leave_one_out().plot()
