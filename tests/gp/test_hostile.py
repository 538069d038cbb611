"""Extreme input: a proper posterior, or an error that says what to do."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, WhiteKernel

from rankwise import PairwiseGP
from rankwise.errors import DataError, ParameterError
from tests.gp.some_comparisons import make_gp

X = np.linspace(0.0, 3.0, 7)[:, None]
PAIRS = np.array([[1, 0], [2, 1], [3, 2], [3, 5], [6, 0]])
HUGE = ConstantKernel(1e200, "fixed") * RBF(1.0)
SETTINGS = [
    {},
    {"inference": "laplace"},
    {"likelihood": "gaussian"},
    pytest.param({"marginalize": "grid"}, marks=pytest.mark.slow),
    {"tie_model": "threshold"},
    {"flips": 0.1},
    {"n_landmarks": 3, "random_state": 0},
]


def check_proper(gp, rows):
    """Check that all results are finite and consistent."""
    mean, std = gp.predict(rows, return_std=True)
    _, cov = gp.predict(rows, return_cov=True)
    for part in (mean, std, cov, gp.sample(rows, n_samples=3, random_state=0)):
        assert np.isfinite(part).all()
    assert (std >= 0).all()
    assert np.linalg.eigvalsh(cov).min() > -1e-6 * max(np.abs(cov).max(), 1e-300)
    assert np.isfinite(gp.log_marginal_likelihood_value_)
    chances = gp.predict_preference(rows, rows[::-1])
    assert ((chances >= 0) & (chances <= 1)).all()
    assert_allclose(gp.rank_probabilities(rows, n_samples=20, random_state=0).sum(axis=1), 1.0)
    value, gradient = gp.log_marginal_likelihood(gp.theta_, eval_gradient=True)
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()
    return mean, std


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
class TestHostile:
    def test_duplicate_rows(self, settings):
        rows = np.repeat(X[:3], 4, axis=0)
        gp = make_gp(**settings).fit_pairs(rows, [[0, 4], [1, 5], [4, 8], [2, 11], [9, 3]])
        mean, _ = check_proper(gp, rows)
        assert_allclose(mean[:4], mean[0], atol=1e-6)

    def test_comparing_a_row_with_its_twin(self, settings):
        rows = np.repeat(X[:4], 2, axis=0)
        gp = make_gp(**settings).fit_pairs(rows, [[0, 1], [2, 3], [0, 4]])
        check_proper(gp, rows)
        assert gp.predict_preference(rows[[0]], rows[[1]]) == pytest.approx(0.5)

    def test_all_rows_the_same(self, settings):
        rows = np.ones((5, 2))
        check_proper(make_gp(**settings).fit_pairs(rows, [[0, 1], [2, 3]]), rows)

    def test_a_constant_kernel(self, settings):
        if "marginalize" in settings:
            pytest.skip("a constant kernel has no width")
        gp = make_gp(ConstantKernel(2.0), **settings).fit_pairs(X, PAIRS)
        mean, _ = check_proper(gp, X)
        assert_allclose(mean, mean[0], atol=1e-8)

    def test_contradictions_and_repetitions(self, settings):
        pairs = np.vstack((np.repeat([[0, 1]], 50, axis=0), np.repeat([[1, 0]], 49, axis=0)))
        check_proper(make_gp(**settings).fit_pairs(X, np.vstack((pairs, PAIRS))), X)

    def test_a_cycle(self, settings):
        check_proper(make_gp(**settings).fit_pairs(X, [[0, 1], [1, 2], [2, 0]]), X)

    def test_a_disconnected_graph(self, settings):
        gp = make_gp(**settings).fit_pairs(X, [[0, 1], [5, 6]])
        check_proper(gp, X)

    def test_one_comparison(self, settings):
        gp = make_gp(**settings).fit_pairs(X, [[3, 0]])
        check_proper(gp, X)
        assert gp.predict_preference(X[[3]], X[[0]])[0] >= 0.5

    def test_no_comparison_is_the_prior(self, settings):
        gp = make_gp(2.0 * RBF(1.0), optimizer=None, **settings).fit_pairs(X, np.empty((0, 2)))
        mean, std = check_proper(gp, X)
        assert_allclose(mean, 0.0)
        assert_allclose(std, np.sqrt(2.0))
        assert gp.log_marginal_likelihood_value_ == 0.0

    def test_ties_only(self, settings):
        gp = make_gp(**settings).fit_pairs(X, PAIRS, margin=np.zeros(len(PAIRS)))
        mean, _ = check_proper(gp, X)
        assert_allclose(mean, 0.0, atol=1e-6)

    def test_a_scale_much_larger_than_the_noise(self, settings):
        gp = make_gp(1e8 * RBF(1.0), optimizer=None, **settings).fit_pairs(X, PAIRS)
        check_proper(gp, X)

    def test_a_scale_much_smaller_than_the_noise(self, settings):
        gp = make_gp(1e-12 * RBF(1.0), optimizer=None, **settings).fit_pairs(X, PAIRS)
        mean, _ = check_proper(gp, X)
        assert np.abs(mean).max() < 1e-6

    def test_extreme_widths(self, settings):
        for width in (1e-5, 1e5):
            kernel = 1.0 * RBF(width, (1e-5, 1e5))
            gp = make_gp(kernel, optimizer=None, **settings).fit_pairs(X, PAIRS)
            check_proper(gp, X)

    def test_features_far_from_zero(self, settings):
        far = 1e6 + X
        check_proper(make_gp(**settings).fit_pairs(far, PAIRS), far)

    def test_tiny_and_huge_weights(self, settings):
        gp = make_gp(**settings).fit_pairs(X, PAIRS, weight=[1e-6, 1e-3, 1.0, 1e3, 1e5])
        check_proper(gp, X)


def test_one_item():
    gp = PairwiseGP().fit([[1.0, 2.0]], [3.0])
    mean, std = gp.predict([[1.0, 2.0]], return_std=True)
    assert mean == 0.0
    assert std == pytest.approx(1.0)
    assert_allclose(gp.rank_probabilities([[1.0, 2.0]]), 1.0)
    with pytest.raises(DataError, match="needs two rows"):
        gp.suggest_pair([[1.0, 2.0]])
    check_proper(PairwiseGP().fit_pairs([[1.0, 2.0]], []), np.ones((1, 2)))


@pytest.mark.filterwarnings("ignore:The comparisons fall into")
@pytest.mark.parametrize(
    "kernel", [RBF(1.0) + WhiteKernel(1.0), Matern(0.5, nu=0.5), 1.0 * DotProduct(1.0), RBF(1.0)]
)
def test_margins_of_any_size(kernel):
    for scale in (1e-8, 1.0, 1e8):
        gp = PairwiseGP(kernel, likelihood="gaussian")
        gp.fit_pairs(X, PAIRS, margin=scale * np.arange(1.0, 6.0))
        assert np.isfinite(gp.predict(X)).all()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: PairwiseGP().fit_pairs(X, [[0, 7]]), "points outside X"),
        (lambda: PairwiseGP().fit_pairs(X, PAIRS, margin=[2.0] * 5), "not by how much"),
        (
            lambda: PairwiseGP(likelihood="gaussian").fit_pairs(X, PAIRS, margin=np.ones((5, 2))),
            "one number per pair",
        ),
        (lambda: PairwiseGP().fit(X, np.arange(7), qid=np.arange(7)), "single row"),
        (
            lambda: PairwiseGP(1.0 * DotProduct()).fit_pairs(1e200 * X, PAIRS),
            "not finite",
        ),
        (lambda: PairwiseGP().fit_pairs(1e300 * X, PAIRS), "too far apart"),
        (lambda: PairwiseGP().fit_pairs(X, PAIRS, weight=[1e300] * 5), "posterior is not finite"),
        (
            lambda: PairwiseGP(likelihood="gaussian").fit_pairs(X, PAIRS, margin=[1e300] * 5),
            "raise noise",
        ),
        (
            lambda: PairwiseGP(HUGE, optimizer=None, tie_model="threshold").fit_pairs(
                X, PAIRS, margin=[1.0, 1.0, 1.0, 0.0, -1.0]
            ),
            "raise noise",
        ),
        (
            lambda: PairwiseGP(optimizer=None).fit_pairs(X, PAIRS).suggest_pair(X, candidates=[]),
            "candidates is empty",
        ),
        (
            lambda: PairwiseGP(optimizer=None).fit_pairs(X, PAIRS).predict_preference(X, X[:2]),
            "row by row",
        ),
    ],
)
def test_data_that_cannot_be_used(call, words):
    with pytest.raises(DataError, match=words):
        call()


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"kernel": "rbf"}, "sklearn.gaussian_process.kernels"),
        ({"noise": 0.0}, "noise must be a number of at least 1e-100"),
        ({"noise_bounds": (2.0, 1.0)}, "the smaller first"),
        ({"noise_bounds": "free"}, "noise_bounds must be one of auto, fixed"),
        ({"tie_model": "drop"}, "tie_model must be one of half, threshold, or a number"),
        ({"flips": 0.1, "inference": "laplace"}, 'needs likelihood="probit"'),
        ({"prior_scale": 0.0}, "prior_scale must be"),
        ({"prior_scale": [1.0, 2.0, 3.0]}, "one for each of the 2 free"),
        ({"options": {"tol": 1.0}}, "options must be GPOptions"),
        ({"marginalize": "grid", "kernel": DotProduct()}, "no free length_scale"),
        ({"n_landmarks": 100}, "more than the 7 rows"),
        ({"n_restarts_optimizer": 1, "kernel": RBF(1.0, (1e-3, np.inf))}, "finite bounds"),
    ],
)
def test_parameters_out_of_range(parameters, words):
    with pytest.raises(ParameterError, match=words):
        make_gp(**parameters).fit_pairs(X, PAIRS)


def test_arguments_of_predictions_out_of_range():
    gp = PairwiseGP(optimizer=None).fit_pairs(X, PAIRS)
    with pytest.raises(ParameterError, match="not both"):
        gp.predict(X, return_std=True, return_cov=True)
    with pytest.raises(ParameterError, match="n_samples must be"):
        gp.sample(X, n_samples=0)
    for theta in ([0.0], [0.0, np.nan]):
        with pytest.raises(ParameterError, match="one finite entry for each of the 2 free"):
            gp.log_marginal_likelihood(theta)
    with pytest.raises(DataError, match="values that are not finite"):
        gp.log_marginal_likelihood([1000.0, 0.0])
    with pytest.raises(ParameterError, match="probability of a tie needs"):
        gp.predict_tie(X, X)
    with pytest.raises(ParameterError, match="strategy must be one of"):
        gp.suggest_pair(X, strategy="best")
    with pytest.raises(ParameterError, match="n_pairs must be"):
        gp.suggest_pair(X, n_pairs=22)
    with pytest.raises(ParameterError, match="candidates must be"):
        gp.suggest_pair(X, candidates=0)
    with pytest.raises(ValueError, match="expecting 1 features"):
        gp.predict(np.ones((2, 2)))
    with pytest.raises(ValueError, match="NaN"):
        gp.predict([[np.nan]])
    for call in (lambda: PairwiseGP().predict(X), lambda: PairwiseGP().tell([0, 1])):
        with pytest.raises(NotFittedError):
            call()


def test_a_tell_that_fails_changes_nothing():
    """The kernel has no finite value at a row of the second comparison."""
    gp = PairwiseGP(1.0 * DotProduct(), optimizer=None).fit_pairs(X, PAIRS)
    mean, pairs = gp.predict(X), gp.pairs_
    with pytest.raises(DataError, match="not finite"):
        gp.tell([[0, 1], [1, 2]], X=[[1.0], [2.0], [1e200]])
    assert len(gp.X_fit_) == len(X)
    assert_allclose(gp.predict(X), mean)
    assert len(gp.tell([]).pairs_) == len(pairs)
    assert len(gp.tell([0, 3]).pairs_) == len(pairs) + 1


def test_a_fit_that_fails_changes_nothing():
    gp = PairwiseGP(optimizer=None)
    wide = np.column_stack((X, X))
    with pytest.raises(DataError, match="points outside X"):
        gp.fit_pairs(X, [[0, 7]])
    with pytest.raises(NotFittedError):
        gp.predict(X)
    gp.fit_pairs(X, PAIRS)
    before = gp.predict(X)
    with pytest.raises(DataError, match="with itself"):
        gp.fit_pairs(wide, [[1, 1]])
    with pytest.raises(DataError, match="single row"):
        gp.fit(wide, np.arange(7), qid=np.arange(7))
    assert_allclose(gp.predict(X), before)
