"""Suggested pairs, further comparisons by `tell`, and landmarks."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import entr, ndtr
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, Matern, WhiteKernel

from rankwise import Leaderboard, PairwiseGP, load_model, save_model
from rankwise.errors import ParameterError
from rankwise.estimators import pair_strategies
from rankwise.estimators.pair_strategies import Bald, PairBelief, bald, eubo
from tests.gp.some_comparisons import make_gp
from tests.strategies import comparisons

X = np.random.default_rng(0).uniform(-2, 2, (40, 2))
F = 3 * np.sin(X).sum(axis=1)


def some_pairs(n, rng):
    """Pairs of a row of the first half with one of the second."""
    return np.column_stack((rng.integers(0, 20, n), rng.integers(20, 40, n)))


def oracle(pairs, rng):
    """Noisy comparisons, the preferred row first."""
    pairs = np.atleast_2d(pairs)
    gap = F[pairs[:, 0]] - F[pairs[:, 1]] + rng.standard_normal(len(pairs))
    return np.where(gap[:, None] > 0, pairs, pairs[:, ::-1])


@given(
    st.floats(-5, 5),
    st.floats(0.01, 30),
    st.sampled_from([0.5, 1.0, 3.0]),
    st.sampled_from([0.0, 0.01, 0.1, 0.4]),
)
def test_bald_is_close_to_the_information(m, v, noise, flips):
    d = np.linspace(m - 10 * np.sqrt(v), m + 10 * np.sqrt(v), 4001)
    p = flips + (1 - 2 * flips) * ndtr(d / noise)
    density = np.exp(-0.5 * (d - m) ** 2 / v) / np.sqrt(2 * np.pi * v)
    expected = np.trapezoid((entr(p) + entr(1 - p)) * density, d)
    p = flips + (1 - 2 * flips) * ndtr(m / np.sqrt(v + noise**2))
    want = entr(p) + entr(1 - p) - expected
    assert bald(np.array([m]), np.array([v]), noise, flips)[0] == pytest.approx(want, abs=0.03)


@given(st.floats(-3, 3), st.floats(-3, 3), st.floats(0.01, 4))
def test_eubo_is_the_expected_maximum(a, b, v):
    rng = np.random.default_rng(0)
    gap = a - b + np.sqrt(v) * rng.standard_normal(100_000)
    want = np.maximum(b + gap, b).mean()
    got = eubo(np.array([a]), np.array([b]), np.array([v]))[0]
    assert got == pytest.approx(want, abs=0.03)
    sure = eubo(np.array([a]), np.array([b]), np.zeros(1))[0]
    assert sure == pytest.approx(max(a, b))


def belief_of(mean, covariance, pairs, noise, flips=0.0):
    return PairBelief(
        np.arange(len(mean)), pairs, lambda rows: (mean, covariance), None, "probit", noise, flips,
        np.random.default_rng(0),
    )  # fmt: skip


def test_a_batch_shrinks_the_covariance_as_it_goes():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((6, 6))
    cov, mean = A @ A.T, rng.standard_normal(6)
    pairs = np.argwhere(np.triu(np.ones((6, 6)), 1))

    chosen = belief_of(mean, cov, pairs, 0.5).best_pairs(lambda f, g, variance: variance, 4)
    left = cov.copy()
    for k in chosen:
        variances = [left[i, i] + left[j, j] - 2 * left[i, j] for i, j in pairs]
        assert variances[k] == pytest.approx(max(variances))
        b = np.zeros(6)
        b[pairs[k, 0]], b[pairs[k, 1]] = 1.0, -1.0
        precision = np.linalg.inv(left) + np.outer(b, b) / (0.5 * np.pi * 0.25)
        left = np.linalg.inv(precision)
    assert len(set(chosen.tolist())) == 4


@pytest.mark.parametrize("strategy", ["bald", "eubo", "thompson", "random"])
@pytest.mark.parametrize("likelihood", ["probit", "gaussian"])
def test_suggestions(strategy, likelihood):
    rng = np.random.default_rng(0)
    gp = PairwiseGP(likelihood=likelihood).fit_pairs(X, oracle(some_pairs(15, rng), rng))
    pair = gp.suggest_pair(X, strategy=strategy, random_state=0)
    assert pair.shape == (2,)
    assert pair[0] != pair[1]
    batch = gp.suggest_pair(X, strategy=strategy, n_pairs=7, random_state=0)
    assert batch.shape == (7, 2)
    assert len({tuple(sorted(p)) for p in batch.tolist()}) == 7
    again = gp.suggest_pair(X, strategy=strategy, n_pairs=7, random_state=0)
    assert (batch == again).all()
    given_ = np.array([[0, 1], [2, 3], [4, 5]])
    for pair in gp.suggest_pair(X, strategy=strategy, n_pairs=3, candidates=given_, random_state=0):
        assert pair.tolist() in given_.tolist()
    drawn = gp.suggest_pair(X, strategy=strategy, candidates=5, random_state=0)
    assert (drawn < len(X)).all()


def test_the_best_candidates_are_suggested():
    rng = np.random.default_rng(1)
    gp = PairwiseGP(2.0 * RBF(1.0), optimizer=None).fit_pairs(X, oracle([[0, 1], [2, 3]], rng))
    i, j = np.triu_indices(len(X), 1)
    mean, cov = gp.predict(X, return_cov=True)
    variance = cov[i, i] + cov[j, j] - 2 * cov[i, j]
    best = np.argmax(bald(mean[i] - mean[j], variance, 1.0))
    assert gp.suggest_pair(X).tolist() == [i[best], j[best]]
    best = np.argmax(eubo(mean[i], mean[j], variance))
    assert gp.suggest_pair(X, strategy="eubo").tolist() == [i[best], j[best]]


@pytest.mark.parametrize(("noise", "flips"), [(1.0, 0.0), (0.3, 0.1)])
@pytest.mark.parametrize("seed", range(5))
def test_pairs_that_are_passed_over_are_not_the_best(noise, flips, seed):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((30, 5 + seed)) * rng.uniform(0.1, 2.0, (30, 1))
    mean, cov = rng.standard_normal(30), A @ A.T
    pairs = np.column_stack(np.triu_indices(30, 1))

    def score(first, second, variance):
        return bald(first - second, variance, noise, flips)

    belief = belief_of(mean, cov, pairs, noise, flips)
    assert Bald().choose(belief, 8).tolist() == belief.best_pairs(score, 8).tolist()


@pytest.mark.parametrize(
    "settings_", [{}, {"tie_model": "threshold"}, {"flips": 0.05}, {"noise": 0.6}], ids=str
)
def test_questions_to_the_training_rows_agree_with_fits(settings_, tmp_path):
    """The pool is updated; a model that never keeps one asks the same, and learns the same."""
    rng = np.random.default_rng(3)
    pairs = oracle(some_pairs(60, rng), rng)
    outcomes = np.where(np.arange(60) % 5 == 4, "tie", "first").astype("U6")
    outcomes[0] = "second"
    gp = PairwiseGP(3.0 * RBF(1.0) + WhiteKernel(0.1), optimizer=None, **settings_)
    kept = clone(gp).fit_pairs(X, pairs, margin=outcomes)
    fresh = clone(gp).fit_pairs(X, pairs, margin=outcomes)
    for k in range(6):
        asked = kept.suggest_pair(X)
        assert asked.tolist() == fresh.suggest_pair(X).tolist()
        if k == 3:
            asked = np.vstack((asked, pairs[0]))  # a pair that was compared before
        kept.tell(asked, margin=["tie" if k == 2 else "first"] * len(np.atleast_2d(asked)))
        fresh = clone(gp).fit_pairs(X, kept.pairs_, margin=kept.margin_)
        assert "posterior_" not in vars(kept)
        assert kept.log_marginal_likelihood_value_ == pytest.approx(
            fresh.log_marginal_likelihood_value_, abs=1e-4
        )
    twin = load_model(save_model(kept, tmp_path / "model.rankwise"))
    for model in (kept, twin, clone(kept).fit_pairs(X, kept.pairs_, margin=kept.margin_)):
        mean, std = model.predict(X, return_std=True)
        want = fresh.predict(X, return_std=True)
        assert_allclose(mean, want[0], atol=1e-4)
        assert_allclose(std, want[1], atol=1e-4)
    assert (
        pickle.loads(pickle.dumps(kept)).suggest_pair(X).tolist() == kept.suggest_pair(X).tolist()
    )


class Closest:
    """A strategy of a user: rows with similar scores."""

    def choose(self, belief, n_pairs):
        return belief.best_pairs(lambda first, second, variance: -np.abs(first - second), n_pairs)


def test_a_strategy_of_the_user():
    gp = PairwiseGP(2.0 * RBF(1.0), optimizer=None).fit_pairs(X, [[0, 1], [2, 3], [4, 5]])
    mean = gp.predict(X)
    i, j = gp.suggest_pair(X, strategy=Closest())
    gaps = np.abs(mean[:, None] - mean) + np.where(np.eye(len(X)), np.inf, 0.0)
    assert abs(mean[i] - mean[j]) == pytest.approx(gaps.min(), abs=1e-9)
    board = Leaderboard().fit(list("abca" * 9), list("bcac" * 9), ["win", "tie"] * 18)
    assert board.suggest_pairs(2, strategy=Closest()).shape == (2, 2)
    Closest.choose = lambda self, belief, n_pairs: [0] * n_pairs
    with pytest.raises(ParameterError, match="must choose 2 different positions from 0 to 779"):
        gp.suggest_pair(X, strategy=Closest(), n_pairs=2)


def test_repeated_candidates_are_suggested_once():
    gp = PairwiseGP(optimizer=None).fit_pairs(X, [[0, 1]])
    twice = [[5, 2], [2, 5], [5, 2], [7, 3]]
    assert sorted(gp.suggest_pair(X, candidates=twice, n_pairs=2).tolist()) == [[5, 2], [7, 3]]
    with pytest.raises(ParameterError, match="an integer from 1 to 2"):
        gp.suggest_pair(X, candidates=twice, n_pairs=3)


def test_rows_of_a_large_pool_are_sampled(monkeypatch):
    monkeypatch.setattr(pair_strategies, "POOL", 5)
    gp = PairwiseGP(optimizer=None).fit_pairs(X, [[0, 1]])
    batch = gp.suggest_pair(X, n_pairs=10, random_state=0)
    assert len(np.unique(batch)) == 5
    assert (batch[:, 0] != batch[:, 1]).all()


TELL_SETTINGS = [
    {},
    {"kernel": 1.5 * Matern(1.0, nu=1.5) + WhiteKernel(0.2)},
    {"likelihood": "gaussian", "noise": 0.7},
    {"inference": "laplace"},
    {"landmarks": X[:12]},
]


@pytest.mark.parametrize("settings_", TELL_SETTINGS, ids=str)
@settings(max_examples=5)
@given(c=comparisons(max_rows=12, max_pairs=25), n_first=st.integers(0, 10))
def test_tell_agrees_with_a_fit(settings_, c, n_first):
    rows = np.column_stack((c.X[:, 0], c.X[:, -1]))
    parameters = {"kernel": 2.0 * RBF(1.0), **settings_}
    gp = make_gp(optimizer=None, tol=1e-10, **parameters)
    whole = clone(gp).fit_pairs(rows, c.pairs)
    told = clone(gp).fit_pairs(rows, c.pairs[:n_first])
    for pair in c.pairs[n_first:]:
        told.tell(pair)
    assert_allclose(told.predict(rows), whole.predict(rows), atol=1e-6)
    assert_allclose(
        told.predict(rows, return_cov=True)[1], whole.predict(rows, return_cov=True)[1], atol=1e-6
    )
    assert told.log_marginal_likelihood_value_ == pytest.approx(
        whole.log_marginal_likelihood_value_, abs=1e-6
    )
    assert told.log_marginal_likelihood(told.theta_) == pytest.approx(
        whole.log_marginal_likelihood_value_, abs=1e-6
    )
    assert len(told.pairs_) == len(c.pairs)


def test_tell_with_several_pairs_new_rows_ties_and_grids():
    rng = np.random.default_rng(0)
    pairs = oracle(some_pairs(30, rng), rng)
    kernel = 2.0 * RBF(1.0, (0.4, 2.5))
    gp = make_gp(kernel, marginalize="grid", optimizer=None, tol=1e-9)
    whole = clone(gp).fit_pairs(X, pairs, margin=["first"] * 25 + ["tie"] * 5, weight=[2.0] * 30)
    told = clone(gp).fit_pairs(X, pairs[:20], weight=[2.0] * 20)
    told.tell(pairs[20:], margin=["first"] * 5 + ["tie"] * 5, weight=[2.0] * 10)
    assert [str(k) for k in told.grid_kernels_] == [str(k) for k in whole.grid_kernels_]
    assert_allclose(told.grid_weights_, whole.grid_weights_, atol=1e-6)
    assert_allclose(told.predict(X), whole.predict(X), atol=1e-5)
    fresh = PairwiseGP(2.0 * RBF(1.0), optimizer=None).fit_pairs(X[:5], [[0, 1]])
    fresh.tell([[0, 1], [2, 0]], X=X[5:8])
    assert fresh.X_fit_.shape == (8, 2)
    direct = PairwiseGP(2.0 * RBF(1.0), optimizer=None).fit_pairs(X[:8], [[0, 1], [5, 6], [7, 5]])
    assert_allclose(fresh.predict(X), direct.predict(X), atol=1e-5)


def test_bald_needs_fewer_comparisons_than_random_pairs():
    errors = {}
    for strategy in ("bald", "random"):
        errors[strategy] = []
        for seed in range(3):
            rng = np.random.default_rng(seed)
            gp = PairwiseGP(4.0 * RBF(1.0), optimizer=None).fit_pairs(X, [])
            for _ in range(20):
                gp.tell(oracle(gp.suggest_pair(X, strategy=strategy, random_state=rng), rng)[0])
            errors[strategy].append(1 - gp.score(X, F))
    assert np.mean(errors["bald"]) < 0.9 * np.mean(errors["random"])


def test_all_rows_as_landmarks_is_exact():
    rng = np.random.default_rng(0)
    pairs = oracle(some_pairs(60, rng), rng)
    kernel = 2.0 * Matern(1.0, nu=1.5)
    exact = PairwiseGP(kernel, optimizer=None).fit_pairs(X, pairs)
    sparse = PairwiseGP(kernel, optimizer=None, landmarks=np.arange(40)).fit_pairs(X, pairs)
    new = X + 0.1
    for one, two in zip(
        exact.predict(new, return_cov=True), sparse.predict(new, return_cov=True), strict=True
    ):
        assert_allclose(one, two, atol=1e-5)
    assert sparse.log_marginal_likelihood_value_ == pytest.approx(
        exact.log_marginal_likelihood_value_, abs=1e-6
    )


@pytest.mark.parametrize("likelihood", ["probit", "gaussian"])
@pytest.mark.parametrize("kernel", [1.5 * RBF([0.8, 1.2]), 2.0 * Matern(1.0, nu=2.5)], ids=str)
def test_the_gradient_with_landmarks(kernel, likelihood):
    rng = np.random.default_rng(0)
    pairs = oracle(some_pairs(60, rng), rng)
    gp = make_gp(
        kernel, likelihood=likelihood, noise=0.7, noise_bounds=(0.1, 10.0), optimizer=None,
        landmarks=X[::5] + 0.05, tol=1e-11,
    ).fit_pairs(X, pairs)  # fmt: skip
    _, gradient = gp.log_marginal_likelihood(eval_gradient=True)
    steps = 1e-4 * np.eye(len(gp.theta_))
    value = gp.log_marginal_likelihood
    want = [(value(gp.theta_ + s) - value(gp.theta_ - s)) / 2e-4 for s in steps]
    assert_allclose(gradient, want, rtol=1e-5, atol=1e-5)


@pytest.fixture(scope="module")
def many():
    rng = np.random.default_rng(0)
    rows = rng.uniform(-2, 2, (200, 2))
    f = 3 * np.sin(rows).sum(axis=1)
    i, j = rng.integers(0, 100, 500), rng.integers(100, 200, 500)
    win = f[i] - f[j] + rng.standard_normal(500) > 0
    pairs = np.where(win[:, None], np.column_stack((i, j)), np.column_stack((j, i)))
    return rows, f, pairs, PairwiseGP().fit_pairs(rows, pairs)


@pytest.mark.parametrize("method", ["random", "stratified", "kmeans", "rpcholesky", "leverage"])
def test_few_landmarks_are_close_to_exact_inference(many, method):
    rows, f, pairs, exact = many
    settings_ = {} if method == "kmeans" else {"kernel": exact.kernel_, "optimizer": None}
    gp = PairwiseGP(n_landmarks=30, landmarks=method, random_state=0, **settings_)
    gp.fit_pairs(rows, pairs)
    assert gp.landmarks_.shape == (30, 2)
    assert gp.score(rows, f) > exact.score(rows, f) - 0.01
    std, want = (one.predict(rows, return_std=True)[1] for one in (gp, exact))
    assert np.median(std / want) == pytest.approx(1.0, abs=0.25)
