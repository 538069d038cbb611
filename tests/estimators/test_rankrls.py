"""RankRLS and RLS as estimators."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import pairwise_kernels

from rankwise import RLS, RankRLS
from rankwise.errors import DataError, RankwiseWarning
from tests.oracles.laplacian import grouped_laplacian
from tests.oracles.objective import minimize_regression
from tests.strategies import comparisons, problems, ties, weightings

NAMED = ["linear", "rbf", "laplacian", "polynomial", "poly", "cosine"]


@given(problems(min_pairs=1), ties, weightings, st.sampled_from(NAMED))
def test_every_kernel_solves_equation_8(p, ties, weighting, kernel):
    ranker = RankRLS(0.5, kernel=kernel, gamma=0.7, degree=2, ties=ties, weighting=weighting)
    ranker.fit(p.X, p.y, qid=p.qid)
    K = pairwise_kernels(p.X, metric=kernel, filter_params=True, gamma=0.7, degree=2, coef0=1.0)
    L = grouped_laplacian(p.y, p.qid, ties, weighting)
    a = np.linalg.solve(L @ K + 0.5 * np.eye(len(K)), L @ p.y)
    assert_allclose(ranker.predict(p.X), K @ a, atol=1e-8)


@given(problems(min_pairs=1), ties, weightings)
def test_primal_and_dual_agree(p, ties, weighting):
    primal, dual = (
        RankRLS(1.0, ties=ties, weighting=weighting, solver=solver).fit(p.X, p.y, qid=p.qid)
        for solver in ("primal", "dual")
    )
    assert_allclose(primal.coef_, dual.coef_, atol=1e-8)


@given(problems(min_pairs=1), ties, st.sampled_from(["linear", "rbf"]))
def test_a_path_agrees_with_separate_fits(p, ties, kernel):
    alphas = [0.01, 1.0, 100.0]
    ranker = RankRLS(1.0, kernel=kernel, ties=ties, scale=None)
    path = ranker.path(p.X, p.y, alphas, qid=p.qid)
    scores = path.predict(p.X)
    assert scores.shape == (3, len(p.y))
    for k, alpha in enumerate(alphas):
        alone = RankRLS(alpha, kernel=kernel, ties=ties, scale=None).fit(p.X, p.y, qid=p.qid)
        assert_allclose(scores[k], alone.predict(p.X), atol=1e-8)
        assert_allclose(path.estimator(k).predict(p.X), scores[k], atol=1e-10)
        assert path.estimator(k).get_params() == alone.get_params()
    assert not hasattr(ranker, "n_features_in_")


@pytest.mark.parametrize("estimator", [RankRLS(1.0, ties="exclude"), RankRLS(1.0), RLS(1.0)])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_several_outputs_agree_with_separate_fits(estimator, kernel):
    rng = np.random.default_rng(0)
    X, Y, qid = rng.standard_normal((30, 4)), rng.integers(0, 3, (30, 2)), np.arange(30) // 6
    estimator.set_params(kernel=kernel, scale=None)
    together = estimator.fit(X, Y, qid=qid).predict(X)
    path = estimator.path(X, Y, [0.1, 1.0, 5.0], qid=qid).predict(X)
    assert path.shape == (3, 30, 2)
    assert_allclose(path[1], together, atol=1e-10)
    score = estimator.score(X, Y, qid=qid)
    scores = []
    for k in range(2):
        assert_allclose(together[:, k], estimator.fit(X, Y[:, k], qid=qid).predict(X), atol=1e-10)
        scores.append(estimator.score(X, Y[:, k], qid=qid))
    assert score == pytest.approx(np.mean(scores))


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_array, sp.csr_matrix, sp.coo_array])
@pytest.mark.parametrize(
    "estimator",
    [RankRLS(1.0), RankRLS(1.0, kernel="rbf", scale=None), RLS(1.0), RLS(1.0, solver="dual")],
)
def test_sparse_and_dense_input_agree(kind, estimator):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((40, 6)) < 0.4, rng.standard_normal((40, 6)), 0.0)
    y, qid = rng.standard_normal(40), np.arange(40) % 7
    dense = estimator.fit(X, y, qid=qid).predict(X)
    assert_allclose(estimator.fit(kind(X), y, qid=qid).predict(kind(X)), dense, atol=1e-10)


def test_sparse_primal_does_not_make_the_rows_dense():
    rng = np.random.default_rng(0)
    X = sp.random_array((20_000, 300), density=0.001, rng=rng, format="csr")
    y, qid = rng.standard_normal(20_000), np.arange(20_000) // 20
    RankRLS(1.0).fit(X, y, qid=qid)  # compiles
    tracemalloc.start()
    RankRLS(1.0).fit(X, y, qid=qid)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.5 * X.shape[0] * X.shape[1] * 8


@given(problems(min_pairs=1))
def test_rls_is_ridge_regression_with_an_intercept(p):
    reference = Ridge(alpha=2.0).fit(p.X, p.y)
    for solver in ("primal", "dual"):
        model = RLS(alpha=2.0, solver=solver).fit(p.X, p.y)
        assert_allclose(model.coef_, reference.coef_, atol=1e-8)
        assert model.intercept_ == pytest.approx(reference.intercept_, abs=1e-8)


@given(problems(max_rows=8, max_features=2, min_pairs=1))
def test_rls_minimizes_the_squared_errors(p):
    w, intercept = minimize_regression(p.X, p.y, 0.7)
    model = RLS(alpha=0.7).fit(p.X, p.y)
    assert_allclose(model.coef_, w, atol=1e-4)
    assert model.intercept_ == pytest.approx(intercept, abs=1e-4)


@given(comparisons(), st.sampled_from(["linear", "rbf"]))
def test_margins_from_scores_agree_with_a_fit_to_scores(c, kernel):
    y = c.X @ np.arange(1, c.X.shape[1] + 1) + 0.5
    n = len(y)
    pairs = np.argwhere(np.triu(np.ones((n, n)), 1))
    margin = y[pairs[:, 0]] - y[pairs[:, 1]]
    by_pairs = RankRLS(1.0, kernel=kernel, scale=None).fit_pairs(c.X, pairs, margin=margin)
    by_scores = RankRLS(1.0, kernel=kernel, weighting="pairs", scale=None).fit(c.X, y)
    assert_allclose(by_pairs.predict(c.X), by_scores.predict(c.X), atol=1e-8)


@given(comparisons())
def test_repeating_a_comparison_doubles_its_weight(c):
    twice = RankRLS(1.0).fit_pairs(
        c.X, np.repeat(c.pairs, 2, axis=0), margin=np.repeat(c.margin, 2)
    )
    heavy = RankRLS(1.0).fit_pairs(c.X, c.pairs, margin=c.margin, weight=np.full(len(c.pairs), 2.0))
    assert_allclose(twice.coef_, heavy.coef_, atol=1e-9)


def test_precomputed_callable_and_gaussian_process_kernels():
    rng = np.random.default_rng(0)
    X, y, new = rng.standard_normal((20, 3)), rng.standard_normal(20), rng.standard_normal((4, 3))
    want = RankRLS(1.0, kernel="rbf", gamma=0.5).fit(X, y).predict(new)
    K, K_new = (pairwise_kernels(A, X, "rbf", gamma=0.5) for A in (X, new))
    assert_allclose(RankRLS(1.0, kernel="precomputed").fit(K, y).predict(K_new), want, atol=1e-10)
    assert_allclose(RankRLS(1.0, kernel=RBF(1.0)).fit(X, y).predict(new), want, atol=1e-10)

    def of_two_rows(a, b):
        return np.exp(-0.5 * ((a - b) ** 2).sum())

    assert_allclose(
        RankRLS(1.0, kernel=of_two_rows, scale=None).fit(X, y).predict(new), want, atol=1e-10
    )


@pytest.mark.filterwarnings("ignore:The kernel is not positive")
def test_the_default_gamma_is_that_of_kernel_ridge():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((20, 3)), rng.standard_normal(20)
    for kernel in ("rbf", "poly", "sigmoid", "laplacian"):
        ours = RankRLS(1.0, kernel=kernel, scale=None).fit(X, y).kernel_
        theirs = KernelRidge(kernel=kernel)._get_kernel(X)
        assert_allclose(ours(X), theirs, atol=1e-12)


def test_an_indefinite_kernel_solves_equation_8_and_gives_a_warning():
    rng = np.random.default_rng(0)
    X, y = 3 * rng.standard_normal((20, 3)), rng.standard_normal(20)
    with pytest.warns(RankwiseWarning, match="not positive semidefinite"):
        ranker = RankRLS(0.1, kernel="sigmoid", gamma=1.0, weighting="pairs").fit(X, y)
    scores = ranker.predict(X)
    K, L = np.tanh(X @ X.T + 1), 20 * np.eye(20) - 1
    assert_allclose(scores, K @ np.linalg.solve(L @ K + 0.1 * np.eye(20), L @ y), atol=1e-8)


def test_float32_in_float32_out():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 3)), rng.standard_normal(30)
    for estimator in (RankRLS(1.0), RankRLS(1.0, kernel="rbf", scale=None), RLS(1.0)):
        narrow = estimator.fit(X.astype(np.float32), y).predict(X.astype(np.float32))
        assert narrow.dtype == np.float32
        assert_allclose(narrow, estimator.fit(X, y).predict(X), atol=1e-4)


def test_the_solver_is_chosen_by_cost():
    rng = np.random.default_rng(0)
    y = rng.standard_normal(10)
    assert RankRLS(1.0).fit(rng.standard_normal((10, 3)), y).solver_ == "primal"
    assert RankRLS(1.0).fit(rng.standard_normal((10, 30)), y).solver_ == "dual"
    assert (
        RankRLS(1.0, kernel="rbf", scale=None).fit(rng.standard_normal((10, 3)), y).solver_
        == "dual"
    )


@pytest.mark.parametrize("alpha", [0.0, 1e-300, 1e-12, 1e12, 1e300])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "polynomial"])
@pytest.mark.parametrize("ties", ["include", "exclude"])
def test_ill_conditioned_problems_give_finite_scores(alpha, kernel, ties):
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((6, 3)), 4, axis=0)  # duplicate rows
    X[:, 1] = 5.0  # a constant feature
    y = rng.integers(0, 2, 24)
    y[:4] = 1  # a query with one label
    qid = np.r_[np.zeros(4), np.ones(19), 2]  # a query with one row
    scores = RankRLS(alpha, kernel=kernel, ties=ties, scale=None).fit(X, y, qid=qid).predict(X)
    assert np.isfinite(scores).all()
    assert_allclose(scores[::4], scores[3::4], atol=1e-6 * max(1, np.abs(scores).max()))


def test_tiny_alpha_reproduces_learnable_differences():
    rng = np.random.default_rng(0)
    X, y, qid = rng.standard_normal((12, 20)), rng.standard_normal(12), np.arange(12) % 3
    for alpha in (0.0, 1e-14, 1e-8):
        for ranker in (RankRLS(alpha), RLS(alpha)):  # so regression is a minimizer, too
            scores = ranker.fit(X, y, qid=qid).predict(X)
            for q in range(3):
                rows = qid == q
                assert_allclose(np.diff(scores[rows]), np.diff(y[rows]), atol=1e-5)


def test_a_refit_removes_the_previous_model():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((10, 3)), rng.standard_normal(10)
    ranker = RankRLS(1.0, kernel="rbf", scale=None).fit(X, y).set_params(kernel="linear").fit(X, y)
    assert not hasattr(ranker, "dual_coef_")
    assert not hasattr(ranker, "X_fit_")
    assert not hasattr(ranker.set_params(kernel="precomputed").fit(X @ X.T, y), "X_fit_")


@given(comparisons(max_rows=5, max_pairs=60), st.sampled_from([np.asarray, sp.csr_array]))
def test_many_more_comparisons_than_rows(c, kind):
    """With more than twice as many comparisons as rows, moments use the Laplacian directly."""
    ranker = RankRLS(1.0).fit_pairs(kind(c.X), c.pairs, margin=c.margin, weight=c.weight)
    L, rhs = np.zeros((len(c.X),) * 2), np.zeros(len(c.X))
    for (i, j), margin, weight in zip(c.pairs, c.margin, c.weight, strict=True):
        e = np.eye(len(c.X))[i] - np.eye(len(c.X))[j]
        L, rhs = L + weight * np.outer(e, e), rhs + weight * margin * e
    want = np.linalg.solve(c.X.T @ L @ c.X + np.eye(c.X.shape[1]), c.X.T @ rhs)
    assert_allclose(ranker.coef_, want, atol=1e-9)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("solver", ["primal", "dual"])
@pytest.mark.parametrize("estimator", [RankRLS(10.0), RankRLS(10.0, ties="exclude"), RLS(10.0)])
def test_features_far_from_zero_do_not_lose_digits(kind, solver, estimator):
    rng = np.random.default_rng(0)
    X, qid = rng.standard_normal((200, 8)), np.repeat(np.arange(20), 10)
    y = X[:, :3].sum(axis=1)
    near = estimator.set_params(solver=solver).fit(X, y, qid=qid).coef_
    X[:, 0] += 1e7
    X[:, 4] += 1e7
    assert_allclose(estimator.fit(kind(X), y, qid=qid).coef_, near, atol=1e-6)


def test_labels_that_overflow_raise_an_error():
    X = np.arange(6.0).reshape(3, 2)
    with pytest.raises(DataError, match="labels or margins overflow"):
        RankRLS(1.0).fit(X, [0.0, 1e308, -1e308])
