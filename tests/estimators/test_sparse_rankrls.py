"""SparseRankRLS and SparseRLS: equation (8), landmarks, blocks."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF
from sklearn.metrics.pairwise import pairwise_kernels, rbf_kernel

from rankwise import RLS, RankingSearchCV, RankRLS, SparseRankRLS, SparseRLS
from rankwise.model_selection import leave_pair_out, leave_query_out
from rankwise.problem import landmarks as landmark_choice
from tests.oracles.landmarks import sparse_coefficients
from tests.oracles.laplacian import grouped_laplacian
from tests.strategies import comparisons, problems, ties, weightings

NAMED = ["linear", "rbf", "laplacian", "polynomial", "cosine"]
METHODS = ["random", "stratified", "kmeans", "rpcholesky", "leverage"]


def make(n=120, d=3, n_queries=12, seed=0):
    rng = np.random.default_rng(seed)
    X, qid = rng.standard_normal((n, d)), rng.permutation(np.arange(n) % n_queries)
    return X, np.round(np.sin(X[:, 0]) * 3 + rng.standard_normal(n)), qid


@given(problems(min_pairs=1, max_features=5), ties, weightings, st.sampled_from(NAMED))
def test_coefficients_solve_equation_8(p, ties, weighting, kernel):
    # No more landmarks than features, so that no kernel matrix of them is singular.
    rows = np.random.default_rng(0).permutation(len(p.y))[: p.X.shape[1]]
    ranker = SparseRankRLS(
        0.5, landmarks=rows, kernel=kernel, gamma=0.7, degree=2, ties=ties, weighting=weighting
    ).fit(p.X, p.y, qid=p.qid)
    how = {"metric": kernel, "filter_params": True, "gamma": 0.7, "degree": 2, "coef0": 1.0}
    K_MR, K_RR = (pairwise_kernels(A, p.X[rows], **how) for A in (p.X, p.X[rows]))
    a = sparse_coefficients(K_MR, K_RR, grouped_laplacian(p.y, p.qid, ties, weighting), p.y, 0.5)
    if np.linalg.cond(K_RR) < 1e6:
        assert ranker.rank_ == len(rows)
        assert_allclose(ranker.dual_coef_, a, rtol=1e-8, atol=1e-8)
    assert_allclose(ranker.predict(p.X), K_MR @ a, atol=1e-6)


@pytest.mark.parametrize("ties", ["include", "exclude"])
def test_a_path_solves_equation_8_for_every_alpha(ties):
    X, y, qid = make()
    rows = np.arange(0, 120, 12)
    ranker = SparseRankRLS(landmarks=rows, gamma=0.7, ties=ties, weighting="pairs", scale=None)
    alphas = [1e-3, 0.5, 20.0, 1e4]
    path = ranker.path(X, y, alphas, qid=qid)
    K_MR, L = rbf_kernel(X, X[rows], gamma=0.7), grouped_laplacian(y, qid, ties, "pairs")
    for k, alpha in enumerate(alphas):
        a = sparse_coefficients(K_MR, K_MR[rows], L, y, alpha)
        assert_allclose(path.estimator(k).dual_coef_, a, rtol=1e-6, atol=1e-8)
        assert_allclose(path.predict(X)[k], K_MR @ a, atol=1e-7)


@given(problems(min_pairs=1), ties, weightings, st.sampled_from(NAMED), st.booleans())
def test_all_rows_as_landmarks_agree_with_the_dual(p, ties, weighting, kernel, pointwise):
    how = {"alpha": 0.5, "kernel": kernel, "gamma": 0.7, "degree": 2}
    if pointwise:
        sparse, dense = SparseRLS(landmarks=np.arange(len(p.y)), **how, scale=None), RLS(**how)
    else:
        how |= {"ties": ties, "weighting": weighting}
        sparse, dense = (
            SparseRankRLS(landmarks=np.arange(len(p.y)), **how, scale=None),
            RankRLS(**how),
        )
    for ranker in (sparse, dense):
        ranker.fit(p.X, p.y, qid=p.qid)
    new = np.random.default_rng(0).standard_normal((5, p.X.shape[1]))
    assert_allclose(sparse.predict(new), dense.predict(new), atol=1e-7)


@pytest.mark.parametrize("gamma", [1.0, 0.1, 0.01, 1e-4])
@pytest.mark.parametrize("alpha", [1e-6, 1e-3, 1.0])
def test_near_singular_landmarks_lose_few_digits(gamma, alpha):
    X, y, qid = make(n=200, n_queries=20)
    new = np.random.default_rng(1).standard_normal((50, 3))
    sparse = SparseRankRLS(alpha, landmarks=np.arange(200), gamma=gamma).fit(X, y, qid=qid)
    dense = RankRLS(alpha, kernel="rbf", gamma=gamma).fit(X, y, qid=qid)
    gap = sparse.predict(new) - dense.predict(new)
    # The dropped part is below 1e-12 of K and enters the solution as K / alpha.
    assert np.ptp(gap) < 1e-8 * np.ptp(dense.predict(new)) / min(alpha, 1.0)


@given(comparisons(max_pairs=60), st.sampled_from(["linear", "rbf"]))
def test_comparisons(c, kernel):
    how = {"alpha": 0.3, "kernel": kernel, "scale": None}
    sparse, dense = SparseRankRLS(landmarks=np.arange(len(c.X)), **how), RankRLS(**how)
    for ranker in (sparse, dense):
        ranker.fit_pairs(c.X, c.pairs, margin=c.margin, weight=c.weight)
    assert_allclose(sparse.predict(c.X), dense.predict(c.X), atol=1e-7)


@pytest.mark.parametrize(
    "estimator",
    [
        SparseRankRLS(1.0, ties="exclude", scale=None),
        SparseRankRLS(1.0, scale=None),
        SparseRLS(1.0, scale=None),
    ],
)
def test_several_outputs_agree_with_separate_fits(estimator):
    X, _, qid = make()
    Y = np.random.default_rng(1).integers(0, 3, (120, 2)).astype(float)
    estimator = clone(estimator).set_params(landmarks=np.arange(0, 120, 4))
    together = estimator.fit(X, Y, qid=qid).predict(X)
    path = estimator.path(X, Y, [0.1, 1.0, 5.0], qid=qid)
    assert_allclose(path.predict(X)[1], together, atol=1e-9)
    assert_allclose(path.estimator(1).predict(X), together, atol=1e-9)
    for k in range(2):
        assert_allclose(together[:, k], estimator.fit(X, Y[:, k], qid=qid).predict(X), atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_methods_choose_n_landmarks(method):
    X, y, qid = make()
    ranker = SparseRankRLS(1.0, n_landmarks=15, landmarks=method, random_state=3, scale=None)
    first, second = (clone(ranker).fit(X, y, qid=qid) for _ in range(2))
    assert first.landmarks_.shape == (15, 3)
    assert first.rank_ == 15
    assert_allclose(first.predict(X), second.predict(X))
    if method != "kmeans":
        assert_allclose(X[first.landmark_indices_], first.landmarks_)
    else:
        assert not hasattr(first, "landmark_indices_")


@pytest.mark.parametrize("method", ["kmeans", "rpcholesky", "leverage"])
def test_expensive_methods_choose_from_a_sample(method, monkeypatch):
    monkeypatch.setattr("rankwise.problem.landmarks.LEAST_CANDIDATES", 40)
    monkeypatch.setattr("rankwise.problem.landmarks.CANDIDATES", 2)
    sizes = []

    def record_sizes(function):
        def recorded(*arguments):
            sizes.extend(x.shape[0] for x in arguments if isinstance(x, np.ndarray))
            return function(*arguments)

        return recorded

    for name in ("_cluster_centres", "pivoted_cholesky_rows", "leverage_rows"):
        monkeypatch.setattr(landmark_choice, name, record_sizes(getattr(landmark_choice, name)))
    X, y, qid = make()
    ranker = SparseRankRLS(1.0, n_landmarks=10, landmarks=method, random_state=3, scale=None).fit(
        X, y, qid=qid
    )
    assert sizes == [40]
    if method != "kmeans":
        assert_allclose(X[ranker.landmark_indices_], ranker.landmarks_)
        K = RBF(np.sqrt(1.5))(X)
        precomputed = clone(ranker).set_params(kernel="precomputed").fit(K, y, qid=qid)
        assert_allclose(precomputed.landmark_indices_, ranker.landmark_indices_)


def test_sparse_rows_callable_and_precomputed_kernels():
    X, y, qid = make()
    rows = np.arange(0, 120, 7)
    want = SparseRankRLS(1.0, landmarks=rows, gamma=0.5).fit(X, y, qid=qid).predict(X)

    def of_two_rows(a, b):
        return np.exp(-0.5 * ((a - b) ** 2).sum())

    for kernel in (RBF(1.0), of_two_rows):
        same = (
            SparseRankRLS(1.0, landmarks=rows, kernel=kernel, scale=None)
            .fit(X, y, qid=qid)
            .predict(X)
        )
        assert_allclose(same, want, atol=1e-8)
    K = RBF(1.0)(X)
    precomputed = SparseRankRLS(1.0, landmarks=rows, kernel="precomputed").fit(K, y, qid=qid)
    assert_allclose(precomputed.predict(K), want, atol=1e-8)
    sparse = SparseRankRLS(1.0, landmarks=rows, gamma=0.5).fit(sp.csr_array(X), y, qid=qid)
    assert_allclose(sparse.predict(sp.csr_array(X)), want, atol=1e-8)
    assert_allclose(sparse.predict(X), want, atol=1e-8)
    points = SparseRankRLS(1.0, landmarks=X[rows], gamma=0.5).fit(sp.csr_array(X), y, qid=qid)
    assert_allclose(points.predict(X), want, atol=1e-8)


def test_float32_in_float32_out():
    X, y, qid = make()
    wide = (
        SparseRankRLS(1.0, n_landmarks=20, random_state=0, scale=None).fit(X, y, qid=qid).predict(X)
    )
    narrow = X.astype(np.float32)
    scores = (
        SparseRankRLS(1.0, n_landmarks=20, random_state=0, scale=None)
        .fit(narrow, y, qid=qid)
        .predict(narrow)
    )
    assert scores.dtype == np.float32
    assert_allclose(scores, wide, atol=1e-3)


def blocks_of(X, y, qid, n_blocks=4):
    names = np.array_split(np.unique(qid), n_blocks)
    return [(X[np.isin(qid, q)], y[np.isin(qid, q)], qid[np.isin(qid, q)]) for q in names]


@pytest.mark.parametrize("gamma", [None, 1e-3])
@pytest.mark.parametrize("outputs", [(), (2,)])
@pytest.mark.parametrize(
    "estimator",
    [
        SparseRankRLS(1.0, ties="exclude", scale=None),
        SparseRankRLS(1.0, scale=None),
        SparseRLS(1.0, scale=None),
    ],
)
def test_blocks_agree_with_a_fit_to_all_rows(estimator, outputs, gamma):
    X, _, qid = make()
    y = np.random.default_rng(1).integers(0, 3, (120, *outputs)).astype(float)
    blocks = blocks_of(X, y, qid)
    estimator = clone(estimator).set_params(landmarks=X[::5], gamma=gamma)
    want = clone(estimator).fit(X, y, qid=qid)
    parts = clone(estimator)
    for X_part, y_part, qid_part in blocks:
        parts.partial_fit(X_part, y_part, qid=qid_part)
    assert parts.n_queries_ == want.n_queries_ == 12
    streamed = clone(estimator).fit_blocks(iter(blocks))
    path = estimator.path_blocks(blocks, [0.3, 1.0])
    for scores in (parts.predict(X), streamed.predict(X), path.predict(X)[1]):
        assert_allclose(scores, want.predict(X), atol=1e-7)
    # `fit` removes the sums.
    assert not hasattr(parts.fit(X, y, qid=qid), "block_sums_")


@pytest.mark.parametrize("method", [*METHODS, "rows"])
def test_landmarks_of_blocks_are_among_their_rows(method):
    X, y, qid = make()
    order = np.argsort(qid, kind="stable")
    X, y, qid = X[order], y[order], qid[order]
    landmarks = [100, 3, 3, 57] if method == "rows" else method
    n = None if method == "rows" else 20
    ranker = SparseRankRLS(1.0, n_landmarks=n, landmarks=landmarks, random_state=0, scale=None)
    ranker.fit_blocks(blocks_of(X, y, qid))
    assert len(ranker.landmarks_) == (4 if method == "rows" else 20)
    if method != "kmeans":
        assert_allclose(ranker.landmarks_, X[ranker.landmark_indices_])
        fixed = SparseRankRLS(1.0, landmarks=ranker.landmark_indices_, scale=None).fit(
            X, y, qid=qid
        )
        assert_allclose(fixed.predict(X), ranker.predict(X), atol=1e-8)
    if method == "stratified":
        assert np.bincount(qid[ranker.landmark_indices_]).max() == 2


def test_sparse_blocks_and_sampling():
    X, y, qid = make()
    blocks = [(sp.csr_array(X_part), *rest) for X_part, *rest in blocks_of(X, y, qid)]
    ranker = SparseRankRLS(1.0, n_landmarks=10, random_state=0, scale=None).fit_blocks(blocks)
    dense = SparseRankRLS(1.0, landmarks=ranker.landmarks_.toarray(), scale=None).fit(X, y, qid=qid)
    assert_allclose(ranker.predict(X), dense.predict(X), atol=1e-8)


def test_a_reservoir_is_a_uniform_sample():
    counts = np.zeros(30)
    rng = np.random.default_rng(0)
    for _ in range(2000):
        sample = landmark_choice.Reservoir(6, rng)
        for start in (0, 4, 5, 20):
            stop = {0: 4, 4: 5, 5: 20, 20: 30}[start]
            sample.add(np.arange(start, stop)[:, None], np.arange(start, stop))
        rows, X, ids = sample.sample()
        assert len(rows) == 6
        assert (X[:, 0] == rows).all()
        assert (ids == rows).all()
        counts[rows] += 1
    assert abs(counts - 400).max() < 5 * np.sqrt(400)


@pytest.mark.filterwarnings("ignore:SparseR.*nearly the same between all rows")
@pytest.mark.parametrize("alpha", [0.0, 1e-300, 1e-12, 1e-3, 1e12, 1e300])
@pytest.mark.parametrize(
    ("kernel", "gamma"), [("rbf", 1.0), ("rbf", 1e-12), ("linear", None), ("polynomial", 0.5)]
)
@pytest.mark.parametrize("estimator", [SparseRankRLS(1.0, scale=None), SparseRLS(1.0, scale=None)])
def test_linearly_dependent_landmarks_give_finite_scores(estimator, alpha, kernel, gamma):
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((20, 3)), 3, axis=0)
    X[:, 1] = 5.0
    y, qid = rng.integers(0, 3, 60).astype(float), np.arange(60) // 10
    ranker = clone(estimator).set_params(
        alpha=alpha, kernel=kernel, gamma=gamma, landmarks=np.arange(60)
    )
    scores = ranker.fit(X, y, qid=qid).predict(X)
    assert np.isfinite(scores).all()
    assert ranker.rank_ <= 20
    # Rows with equal features are not interpolated.
    assert np.abs(scores - scores.mean()).max() < 100


@pytest.mark.parametrize("gamma", [1.0, 1e-4])
def test_predictions_are_continuous_in_alpha(gamma):
    X, y, qid = make()
    X = np.repeat(X, 2, axis=0)
    y, qid = np.repeat(y, 2), np.repeat(qid, 2)
    ranker = SparseRankRLS(1.0, landmarks=np.arange(0, 240, 3), gamma=gamma)
    alphas = np.geomspace(1e-9, 1e3, 121)
    scores = ranker.path(X, y, alphas, qid=qid).predict(X)
    steps = np.abs(np.diff(scores, axis=0)).max(axis=1)
    assert steps.max() < 0.25 * np.ptp(scores)
    twice = ranker.path(X, y, [alphas[40], alphas[40] * (1 + 1e-9)], qid=qid).predict(X)
    assert_allclose(*twice, atol=1e-5)


def refit(ranker, X, y, qid, out):
    rest = np.setdiff1d(np.arange(len(y)), out)
    return clone(ranker).fit(X[rest], y[rest], qid=qid[rest]).predict(X[out])


@pytest.mark.parametrize(
    "ranker",
    [
        SparseRankRLS(0.5, landmarks=np.random.default_rng(5).standard_normal((9, 3)), scale=None),
        SparseRankRLS(
            0.5,
            landmarks=np.random.default_rng(5).standard_normal((9, 3)),
            ties="exclude",
            scale=None,
        ),
        SparseRankRLS(
            0.5,
            landmarks=np.random.default_rng(5).standard_normal((60, 3)),
            weighting="queries",
            scale=None,
        ),
        SparseRLS(0.5, landmarks=np.random.default_rng(5).standard_normal((9, 3)), scale=None),
    ],
)
def test_hold_outs_equal_refits_with_the_same_landmarks(ranker):
    X, y, qid = make(n=40, n_queries=5)
    held_out = leave_query_out(ranker, X, y, qid=qid)
    for q in range(5):
        rows = np.flatnonzero(qid == q)
        want = refit(ranker, X, y, qid, rows)
        assert_allclose(held_out.predictions[0, rows], want, atol=1e-8)
    pairs = leave_pair_out(ranker, X, y, qid=qid, return_differences=True)
    for (i, j), difference in list(zip(pairs.pairs, pairs.differences[0], strict=True))[::9]:
        first, second = refit(ranker, X, y, qid, [i, j])
        assert difference == pytest.approx(first - second, abs=1e-8)


def test_hold_outs_with_random_landmarks():
    X, y, qid = make()
    ranker = SparseRankRLS(1.0, n_landmarks=20, random_state=0, scale=None)
    points = clone(ranker).fit(X, y, qid=qid).landmarks_
    drawn, fixed = (
        leave_query_out(r, X, y, qid=qid).predictions
        for r in (ranker, SparseRankRLS(1.0, landmarks=points, scale=None))
    )
    assert_allclose(drawn, fixed, atol=1e-8)


def test_a_search_holds_out_exactly(monkeypatch):
    X, y, qid = make()
    fits = []
    fit = SparseRankRLS.fit
    monkeypatch.setattr(SparseRankRLS, "fit", lambda *a, **k: fits.append(1) or fit(*a, **k))
    ranker = SparseRankRLS(1.0, n_landmarks=20, random_state=0, scale=None)
    alphas = [0.1, 1.0, 10.0]
    search = RankingSearchCV(ranker, {"alpha": alphas, "gamma": [0.1, 1.0]}).fit(X, y, qid=qid)
    assert len(fits) == 1  # the best candidate, fitted to all rows
    wanted = [
        leave_query_out(ranker.set_params(gamma=gamma), X, y, qid=qid, alphas=alphas).score
        for gamma in (0.1, 1.0)
    ]
    table = {
        (p["gamma"], p["alpha"]): -score
        for p, score in zip(
            search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True
        )
    }
    for gamma, scores in zip((0.1, 1.0), wanted, strict=True):
        for alpha, score in zip(alphas, scores, strict=True):
            assert table[gamma, alpha] == pytest.approx(score, abs=1e-9)
