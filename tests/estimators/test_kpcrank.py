"""KPCRank and KPCR as estimators."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rankwise import KPCR, RLS, ComponentOptions, KPCRank, RankRLS
from rankwise.errors import DataError, KernelSizeError, ParameterError, RankwiseWarning
from rankwise.estimators.kpcrank import OPTIONS
from rankwise.kernels import NamedKernel
from tests.oracles.kpca import coordinates, equation_6
from tests.oracles.laplacian import edge_laplacian, edge_rhs, grouped_laplacian
from tests.strategies import comparisons, problems, seeds, ties, weightings


def make_problem(seed=0, n_rows=60, n_queries=10):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, 3))
    qid = rng.permutation(np.arange(n_rows) % n_queries)
    return X, np.sin(X[:, 0]) + 0.3 * rng.standard_normal(n_rows), qid


@given(
    seeds,
    ties,
    weightings,
    st.sampled_from(["linear", "rbf", "laplacian", "polynomial", "cosine"]),
    st.sampled_from([0.0, 0.3]),
)
def test_every_kernel_solves_equation_6(seed, ties, weighting, kernel, alpha):
    X, y, qid = make_problem(seed, 30, 4)
    y = y.round(0) if ties == "exclude" else y
    rng = np.random.default_rng(seed)
    y[rng.permutation(30)[:2]] = 0, 5
    qid[np.flatnonzero((y == 0) | (y == 5))] = 0
    settings = {"gamma": 0.7, "degree": 2}
    ranker = KPCRank(
        3, alpha=alpha, kernel=kernel, ties=ties, weighting=weighting, **settings, scale=None
    ).fit(X, y, qid=qid)
    of_peer = {"polynomial": {"gamma": 0.7, "degree": 2}, "rbf": {"gamma": 0.7}}
    parameters = of_peer.get(kernel, {"gamma": 0.7} if kernel == "laplacian" else {})
    new = rng.standard_normal((5, 3))
    K, K_new = (pairwise_kernels(A, X, kernel, **parameters) for A in (X, new))
    L = grouped_laplacian(y, qid, ties, weighting)
    path = ranker.predict_path(new)
    for p in (1, 2, 3):
        want = coordinates(K_new, K, p) @ equation_6(K, L, L @ y, p, alpha)
        assert_allclose(path[:, p - 1], want, atol=1e-8)
    assert_allclose(ranker.predict(new), path[:, -1], atol=1e-9)
    assert_allclose(ranker.transform(new) @ ranker.coef_, path[:, -1], atol=1e-9)


@given(comparisons(max_rows=12), st.sampled_from([0.0, 0.5]))
def test_comparisons_solve_equation_6(c, alpha):
    p = min(2, len(c.X) - 1, c.X.shape[1])
    ranker = KPCRank(p, alpha=alpha, kernel="laplacian", gamma=1.0)
    ranker.fit_pairs(c.X, c.pairs, margin=c.margin, weight=c.weight)
    K = pairwise_kernels(c.X, c.X, "laplacian", gamma=1.0)
    L = edge_laplacian(len(c.X), c.pairs, c.weight)
    F = coordinates(K, K, p)
    assume(alpha > 0 or np.linalg.cond(F.T @ L @ F) <= 1e6)
    rhs = edge_rhs(len(c.X), c.pairs, c.margin, c.weight)
    assert_allclose(ranker.predict(c.X), F @ equation_6(K, L, rhs, p, alpha), atol=1e-8)


@given(problems(min_pairs=2), seeds, st.sampled_from([KPCRank, KPCR]))
def test_the_order_of_rows_does_not_matter(p, seed, kind):
    rows = np.random.default_rng(seed).permutation(len(p.y))
    n = min(3, len(p.y) - 1)
    ranker = kind(n, alpha=1e-3, kernel="laplacian", gamma=0.5)
    scores = ranker.fit(p.X, p.y, qid=p.qid).predict_path(p.X)
    moved = ranker.fit(p.X[rows], p.y[rows], qid=p.qid[rows]).predict_path(p.X)
    assert_allclose(moved, scores, atol=1e-7)


@given(problems(min_pairs=2), seeds, ties, weightings)
def test_a_constant_added_to_the_labels_of_a_query_does_not_matter(p, seed, ties, weighting):
    names, codes = np.unique(p.qid, return_inverse=True)
    shift = np.random.default_rng(seed).integers(-5, 5, len(names))[codes]
    ranker = KPCRank(
        min(3, len(p.y) - 1),
        alpha=1e-3,
        kernel="laplacian",
        gamma=0.5,
        ties=ties,
        weighting=weighting,
    )
    scores = ranker.fit(p.X, p.y, qid=p.qid).predict(p.X)
    assert_allclose(ranker.fit(p.X, p.y + shift, qid=p.qid).predict(p.X), scores, atol=1e-7)


@given(problems(min_pairs=2), st.floats(-100, 100), st.sampled_from([KPCRank, KPCR]))
def test_a_constant_added_to_the_kernel_does_not_matter(p, constant, kind):
    K = pairwise_kernels(p.X, p.X, "laplacian", gamma=0.5)
    ranker = kind(min(3, len(p.y) - 1), alpha=1e-3, kernel="precomputed")
    ranker.fit(K, p.y, qid=p.qid)
    scores, F = ranker.predict_path(K), np.abs(ranker.transform(K))
    ranker.fit(K + constant, p.y, qid=p.qid)
    assert_allclose(ranker.predict_path(K + constant), scores, atol=1e-6)
    if np.diff(ranker.eigenvalues_).max(initial=-1.0) < -1e-3:
        assert_allclose(np.abs(ranker.transform(K + constant)), F, atol=1e-6)


@pytest.mark.parametrize("pointwise", [False, True])
def test_all_components_with_a_ridge_agree_with_the_full_ranker(pointwise):
    X, y, qid = make_problem()
    component, whole = (KPCR, RLS) if pointwise else (KPCRank, RankRLS)
    ours = component("auto", alpha=0.5, gamma=0.4).fit(X, y, qid=qid).predict(X)
    want = whole(0.5, kernel="rbf", gamma=0.4).fit(X, y, qid=qid).predict(X)
    assert (ours - want).std() < 1e-10
    if pointwise:
        assert_allclose(ours, want, atol=1e-9)


def test_kpcr_is_regression_on_components():
    X, y, _ = make_problem()
    model = KPCR(5, gamma=0.4).fit(X, y)
    F = model.transform(X)
    G = np.column_stack((np.ones(60), F))
    want = np.linalg.lstsq(G, y, rcond=None)[0]
    assert_allclose(model.coef_, want[1:], atol=1e-9)
    assert model.intercept_ == pytest.approx(want[0])


@pytest.mark.parametrize("kind", [KPCRank, KPCR])
def test_several_outputs_agree_with_separate_fits(kind):
    X, y, qid = make_problem()
    Y = np.column_stack((y.round(), -y, y**2))
    variants = [{}] if kind is KPCR else [{"ties": "include"}, {"ties": "exclude"}]
    for extra in (*variants, {"n_landmarks": 30, "random_state": 0}):
        ranker = kind(6, **extra, scale=None).fit(X, Y, qid=qid)
        assert ranker.coef_.shape == (3, 6)
        path = ranker.predict_path(X)
        assert path.shape == (60, 6, 3)
        for k in range(3):
            alone = kind(6, **extra, scale=None).fit(X, Y[:, k], qid=qid)
            assert_allclose(path[:, :, k], alone.predict_path(X), atol=1e-9)
            assert_allclose(ranker.predict(X)[:, k], alone.predict(X), atol=1e-9)


@pytest.mark.parametrize("ties", ["include", "exclude"])
def test_all_rows_as_landmarks(ties, monkeypatch):
    X, y, qid = make_problem()
    exact = KPCRank(8, ties=ties, scale=None).fit(X, y, qid=qid)
    ours = KPCRank(8, ties=ties, landmarks=np.arange(60), scale=None).fit(X, y, qid=qid)
    assert_allclose(ours.predict_path(X), exact.predict_path(X), atol=1e-8)
    assert_allclose(ours.eigenvalues_, exact.eigenvalues_, rtol=1e-10)
    assert not hasattr(ours, "X_fit_")
    monkeypatch.setattr("rankwise.problem.component_space.STORED_BYTES", 0)
    streamed = KPCRank(8, ties=ties, landmarks=np.arange(60), scale=None).fit(X, y, qid=qid)
    assert_allclose(streamed.predict_path(X), exact.predict_path(X), atol=1e-8)
    K = pairwise_kernels(X, X, "rbf", gamma=1 / 3)
    rows = np.arange(0, 60, 2)
    want = KPCRank(8, landmarks=rows, scale=None).fit(X, y, qid=qid).predict(X)
    precomputed = KPCRank(8, landmarks=rows, kernel="precomputed").fit(K, y, qid=qid)
    assert_allclose(precomputed.predict(K), want, atol=1e-8)


def test_sparse_rows_and_comparisons_on_landmarks():
    X, y, qid = make_problem()
    want = KPCRank(5, scale=None).fit(X, y, qid=qid).predict_path(X)
    assert_allclose(
        KPCRank(5, scale=None).fit(sp.csr_array(X), y, qid=qid).predict_path(sp.csr_array(X)),
        want,
        atol=1e-9,
    )
    pairs = np.random.default_rng(0).integers(0, 60, (400, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    margin = y[pairs[:, 0]] - y[pairs[:, 1]]
    exact = KPCRank(5, scale=None).fit_pairs(X, pairs, margin=margin).predict(X)
    ours = (
        KPCRank(5, landmarks=np.arange(60), scale=None)
        .fit_pairs(X, pairs, margin=margin)
        .predict(X)
    )
    assert_allclose(ours, exact, atol=1e-9)


def test_leading_and_spectral_agree_only_for_one_ranking():
    X, y, qid = make_problem()
    one = [
        KPCRank(5, scale=None, options=ComponentOptions(selection=s)).fit(X, y).predict_path(X)
        for s in ("leading", "spectral")
    ]
    assert_allclose(*one, atol=1e-9)
    many = [
        KPCRank(5, scale=None, options=ComponentOptions(selection=s))
        .fit(X, y, qid=qid)
        .predict_path(X)
        for s in ("leading", "spectral")
    ]
    assert np.abs(many[0] - many[1]).max() > 0.05


def test_spectral_selection_is_a_ranker_and_a_transformer():
    X, y, qid = make_problem()
    ranker = KPCRank(4, alpha=0.1, scale=None, options=ComponentOptions(selection="spectral")).fit(
        X, y, qid=qid
    )
    assert_allclose(ranker.transform(X) @ ranker.coef_, ranker.predict(X), atol=1e-9)
    assert_allclose(ranker.predict_path(X)[:, -1], ranker.predict(X), atol=1e-9)
    everything = KPCRank(
        "auto", alpha=0.1, scale=None, options=ComponentOptions(selection="spectral")
    ).fit(X, y, qid=qid)
    leading = KPCRank("auto", alpha=0.1, scale=None).fit(X, y, qid=qid).predict(X)
    gap = everything.predict(X) - leading
    assert max(np.ptp(gap[qid == q]) for q in range(10)) < 1e-9
    with pytest.raises(ParameterError, match="rank 50"):
        KPCRank(51, scale=None, options=ComponentOptions(selection="spectral")).fit(X, y, qid=qid)
    with pytest.raises(ParameterError, match="each of 2 outputs"):
        KPCRank(3, ties="exclude", scale=None, options=ComponentOptions(selection="spectral")).fit(
            X, np.c_[y, y], qid=qid
        )


def test_more_components_than_the_rank():
    X, y, qid = make_problem()
    with pytest.raises(ParameterError, match="numerical rank of the kernel, which is 3"):
        KPCRank(4, kernel="linear").fit(X, y, qid=qid)
    assert KPCRank("auto", kernel="linear").fit(X, y, qid=qid).n_components_ == 3
    share = KPCRank(0.5, kernel="linear").fit(X, y, qid=qid)
    assert share.n_components_ < 3
    assert share.explained_variance_ratio_.sum() >= 0.5


def test_idle_components():
    X, y, qid = make_problem()
    ranker = KPCRank("auto", gamma=2.0).fit(X, y, qid=qid)
    assert len(ranker.idle_components_) == 9  # 59 components, but 60 rows minus 10 queries
    assert not ranker.coef_[ranker.idle_components_].any()
    scores = ranker.predict(X)
    for q in range(10):
        assert_allclose(np.diff(scores[qid == q]), np.diff(y[qid == q]), atol=1e-6)


@pytest.mark.parametrize("alpha", [0.0, 1e-300, 1e-12, 1e12])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "polynomial"])
def test_ill_conditioned_problems_give_finite_scores(alpha, kernel):
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((6, 3)), 4, axis=0)  # duplicate rows
    X[:, 1] = 5.0  # a constant feature
    y = rng.integers(0, 2, 24)
    qid = np.r_[np.zeros(4), np.ones(19), 2]  # a query of duplicates, and one of a single row
    for landmarks in (None, 10):
        for selection in ("leading", "spectral"):
            ranker = KPCRank(
                "auto",
                alpha=alpha,
                kernel=kernel,
                n_landmarks=landmarks,
                random_state=0,
                scale=None,
                options=ComponentOptions(selection=selection),
            ).fit(X, y, qid=qid)
            scores = ranker.predict_path(X)
            assert np.isfinite(scores).all()
            assert_allclose(scores[::4], scores[3::4], atol=1e-6 * max(1, np.abs(scores).max()))


def test_two_rows():
    for kind in (KPCRank, KPCR):
        assert kind(1).fit([[0.0], [1.0]], [0.0, 1.0]).predict([[0.0], [1.0]]).argmax() == 1
    with pytest.raises(DataError, match="Set n_components to a number"):
        KPCRank(scale=None).fit([[0.0], [1.0]], [0.0, 1.0])


def test_a_transformer_in_a_pipeline():
    X, y, qid = make_problem()
    ranker = KPCRank(3, scale=None).fit(X, y, qid=qid)
    assert ranker.get_feature_names_out().tolist() == ["kpcrank0", "kpcrank1", "kpcrank2"]
    assert_allclose(KPCRank(3, scale=None).fit_transform(X, y, qid=qid), ranker.transform(X))
    frame = ranker.set_output(transform="pandas").transform(X)
    assert list(frame.columns) == ["kpcrank0", "kpcrank1", "kpcrank2"]
    pipeline = make_pipeline(StandardScaler(), KPCR(3, scale=None), RankRLS()).fit(X, y)
    assert pipeline.predict(X).shape == (60,)


def test_float32_in_float32_out():
    X, y, qid = make_problem()
    wide = KPCRank(5, scale=None).fit(X, y, qid=qid)
    narrow = KPCRank(5, scale=None).fit(X.astype(np.float32), y, qid=qid)
    for method in ("predict", "predict_path", "transform"):
        ours = getattr(narrow, method)(X.astype(np.float32))
        assert ours.dtype == np.float32
        if method != "transform":  # its signs are arbitrary
            assert_allclose(ours, getattr(wide, method)(X), atol=1e-4)


def test_a_path_over_alpha():
    X, y, qid = make_problem()
    alphas = [0.0, 0.1, 10.0]
    for n_components in (6, "cv"):
        path = KPCRank(n_components, scale=None).path(X, y, alphas, qid=qid)
        scores = path.predict(X)
        for k, alpha in enumerate(alphas):
            alone = KPCRank(n_components, alpha=alpha, scale=None).fit(X, y, qid=qid)
            assert_allclose(scores[k], alone.predict(X), atol=1e-9)
            again = path.estimator(k)
            assert again.n_components_ == alone.n_components_
            assert_allclose(again.predict_path(X), alone.predict_path(X), atol=1e-9)
            assert_allclose(again.predict(X), alone.predict(X), atol=1e-9)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"n_components": 0},
            "n_components must be an integer of at least 1, a number above 0 and at",
        ),
        (
            {"n_components": 1.5},
            "n_components must be an integer of at least 1, a number above 0 and at",
        ),
        ({"n_components": "all"}, "one of auto, cv"),
        (
            {"n_components": True},
            "n_components must be an integer of at least 1, a number above 0 and at",
        ),
        ({"n_components": 3, "selection": "largest"}, "selection must be one of"),
        ({"cv": "leave_one_out"}, "cv must be"),
        ({"cv": 1}, "of at least 2"),
        ({"cv": 5.0}, "of at least 2"),
        ({"cv": np.array([1, 2])}, "cv must be"),
        ({"max_components": 0}, "max_components must be"),
        ({"n_components": 3, "cv": "leave_one_out"}, "cv must be"),
        ({"n_components": 3, "rule": "two_se"}, "rule must be"),
        ({"n_components": 3, "max_components": 0}, "max_components must be"),
        ({"n_components": 3, "alpha": -1}, "alpha must be"),
        ({"n_components": 3, "n_landmarks": 0}, "n_landmarks must be"),
        ({"cv": "leave_pair_out"}, "one global ranking"),
        ({"cv": "leave_query_out", "selection": "spectral"}, "Use a number of folds"),
    ],
)
def test_invalid_parameters(parameters, message):
    X, y, qid = make_problem()
    chosen = {name: parameters.pop(name) for name in OPTIONS if name in parameters}
    with pytest.raises((ParameterError, DataError), match=message):
        KPCRank(**parameters, options=ComponentOptions(**chosen), scale=None).fit(X, y, qid=qid)


def test_options_of_the_wrong_kind_and_of_kpcr():
    X, y, qid = make_problem()
    with pytest.raises(ParameterError, match="options must be ComponentOptions"):
        KPCRank(options={"cv": 3}).fit(X, y, qid=qid)
    with pytest.raises(ParameterError, match='KPCR has selection="leading" only'):
        KPCR(3, options=ComponentOptions(selection="spectral")).fit(X, y)


def test_parameters_of_earlier_versions_become_options():
    old = {"n_components": 2, "cv": 5, "rule": "one_se"}
    options = ComponentOptions(rule="one_se")
    assert KPCRank.upgraded_parameters(old) == {"n_components": 2, "options": options}


def test_a_refit_removes_the_previous_model():
    X, y, qid = make_problem()
    ranker = KPCRank(scale=None, options=ComponentOptions(cv=3)).fit(X, y, qid=qid)
    assert hasattr(ranker, "component_errors_")
    ranker.set_params(n_components=3, n_landmarks=20).fit(X, y, qid=qid)
    assert not hasattr(ranker, "component_errors_")
    assert not hasattr(ranker, "X_fit_")
    assert ranker.dual_components_.shape == (20, 3)


@pytest.mark.parametrize("landmarks", [None, np.arange(60)])
def test_a_failed_refit_removes_the_components(landmarks):
    X, y, qid = make_problem()
    ranker = KPCRank(landmarks=landmarks, scale=None, options=ComponentOptions(cv=3)).fit(
        X, y, qid=qid
    )
    fitted = {name for name in vars(ranker) if name.endswith("_")}
    with pytest.raises(ParameterError, match="numerical rank"):
        ranker.set_params(n_components=59, kernel="linear").fit(X, y, qid=qid)
    remaining = {name for name in vars(ranker) if name.endswith("_")}
    about_rows = {"n_features_in_", "n_queries_", "max_query_rows_", "feature_range_"}
    assert remaining == about_rows | {"scale_", "scaling_"} < fitted
    for method in ("predict", "predict_path", "transform"):
        with pytest.raises(NotFittedError):
            getattr(ranker, method)(X)


@pytest.mark.filterwarnings("ignore:KPCRank. the standard deviations of features differ")
def test_spectral_directions_that_are_constant_within_queries():
    """Components that vary only between queries are rounding errors within queries."""
    rng = np.random.default_rng(0)
    qid = np.repeat(np.arange(10), 8)
    y = rng.standard_normal(80)
    between, within = rng.standard_normal((10, 3))[qid], rng.standard_normal((80, 2))
    ranker = KPCRank("auto", kernel="linear", options=ComponentOptions(selection="spectral"))
    with pytest.raises(DataError, match="same components"):
        ranker.fit(between, y, qid=qid)
    ranker.fit(np.hstack((1e6 * between, within)), y, qid=qid)
    assert ranker.n_components_ == 2


def test_a_share_of_one_uses_all_spectral_directions():
    for seed in range(20):
        X, y, qid = make_problem(seed)
        share, auto = (
            KPCRank(n, kernel="linear", options=ComponentOptions(selection="spectral")).fit(
                X, y, qid=qid
            )
            for n in (1.0, "auto")
        )
        assert share.n_components_ == auto.n_components_ == 3
        assert auto.explained_variance_ratio_.sum() == pytest.approx(1.0)
        assert share.explained_variance_ratio_[0] < 0.9


def test_kernels_that_overflow_raise_an_error():
    X, y, qid = make_problem()
    X[30:] *= 1e60
    for landmarks in (np.arange(20), X[:20]):
        ranker = KPCRank(2, kernel="polynomial", degree=6, landmarks=landmarks, scale=None)
        with pytest.raises(DataError, match=r"overflow\. Scale the features"):
            ranker.fit(X, y, qid=qid)


def test_scores_that_overflow_float32():
    X, y, _ = make_problem()
    narrow = X.astype(np.float32)
    ranker = KPCRank(2, kernel="polynomial", degree=3, scale=None).fit(narrow, 1e30 * y)
    for method in ("predict", "predict_path", "transform"):
        with (
            pytest.warns(RankwiseWarning, match=f"{method} got values far outside"),
            pytest.raises(DataError, match="overflow float32"),
        ):
            getattr(ranker, method)(np.float32(1e13) * narrow)
    assert ranker.__sklearn_tags__().transformer_tags.preserves_dtype == ["float64", "float32"]


@pytest.mark.parametrize("ties", ["include", "exclude"])
def test_kernel_values_with_landmarks_are_computed_in_blocks(ties, monkeypatch):
    X, y, qid = make_problem()
    monkeypatch.setattr("rankwise.problem.component_space.STORED_BYTES", 0)
    monkeypatch.setattr("rankwise.solvers.kpca.BLOCK_BYTES", 0)
    monkeypatch.setattr("rankwise.kernels.PREDICT_BYTES", 8 * 20 * 7)
    sizes = []

    class RecordingKernel(NamedKernel):
        def __call__(self, A, B=None):
            sizes.append(len(A))
            return super().__call__(A, B)

    kernel = RecordingKernel("rbf", gamma=0.3, degree=3, coef0=1.0)
    monkeypatch.setattr("rankwise.estimators.kpcrank.make_kernel", lambda *_: kernel)
    KPCRank(3, ties=ties, landmarks=np.arange(20), scale=None).fit(X, np.c_[y, -y].round(), qid=qid)
    # The landmarks, the scatter, once for all tasks, and a look at the kernel of all rows.
    assert sizes == [20] + 8 * [7] + [4, 60]


def test_many_components_need_a_second_matrix(monkeypatch):
    X, y, qid = make_problem()
    pages = {"SC_PAGE_SIZE": 1, "SC_PHYS_PAGES": 12 * 60**2}  # one matrix and a half
    monkeypatch.setattr("rankwise.problem.problem.os.sysconf", pages.__getitem__)
    with pytest.raises(KernelSizeError, match=r"and its eigenvectors .* Use landmarks"):
        KPCRank(20, scale=None).fit(X, y, qid=qid)
    monkeypatch.setattr("rankwise.solvers.kpca.SMALL", 60)
    assert KPCRank(2, scale=None).fit(X, y, qid=qid).n_components_ == 2
    with pytest.raises(KernelSizeError):
        KPCRank("auto", scale=None).fit(X, y, qid=qid)


def test_folds_of_several_outputs_with_ties_excluded():
    rng = np.random.default_rng(0)
    X, Y, qid = rng.standard_normal((60, 3)), rng.integers(0, 3, (60, 2)), np.arange(60) // 6
    ranker = KPCRank(ties="exclude", scale=None).fit(X, Y, qid=qid)
    assert ranker.coef_.shape == (2, ranker.n_components_)


def test_weights_for_a_huge_alpha_are_proportional_to_the_gradient():
    rng = np.random.default_rng(0)
    X, y, qid = rng.standard_normal((60, 3)), rng.standard_normal(60), np.arange(60) // 6
    want = KPCRank(5, alpha=1e10, scale=None).fit(X, y, qid=qid).coef_ * 1e10
    for alpha in (1e20, 1e40, 1e200):
        assert_allclose(
            KPCRank(5, alpha=alpha, scale=None).fit(X, y, qid=qid).coef_ * alpha, want, rtol=1e-6
        )


def test_kernels_that_are_not_positive_semidefinite():
    rng = np.random.default_rng(0)
    X, y, qid = rng.standard_normal((60, 3)), rng.standard_normal(60), np.arange(60) // 6
    with pytest.raises(DataError, match="not positive semidefinite"):
        KPCRank(3, kernel="precomputed").fit(-np.eye(60), y, qid=qid)
    with pytest.warns(RankwiseWarning, match="not positive semidefinite"):
        ranker = KPCRank("auto", kernel="sigmoid", gamma=1.0).fit(X, y, qid=qid)
    assert ranker.explained_variance_ratio_.sum() == pytest.approx(1.0)
    with pytest.warns(RankwiseWarning, match="not positive semidefinite"):
        most = KPCRank(0.99, kernel="sigmoid", gamma=1.0).fit(X, y, qid=qid)
    ratio = ranker.explained_variance_ratio_
    assert most.n_components_ == np.searchsorted(np.cumsum(ratio), 0.99) + 1


def test_labels_that_overflow_raise_an_error():
    rng = np.random.default_rng(0)
    X, y, qid = rng.standard_normal((60, 3)), rng.standard_normal(60), np.arange(60) // 6
    with pytest.raises(DataError, match="overflow"):
        KPCRank(scale=None).fit(X, y * 1e307, qid=qid)


def test_queries_of_numbers_and_texts_stay_apart_in_folds():
    rng = np.random.default_rng(0)
    X, query = rng.standard_normal((60, 4)), rng.integers(6, size=60)
    y = X[:, 0] + rng.standard_normal(60)

    def errors(names):
        ranker = KPCRank(
            n_landmarks=12, landmarks="stratified", options=ComponentOptions(cv=3), random_state=0
        )
        return ranker.fit(X, y, qid=[names[k] for k in query]).component_errors_.error

    assert_allclose(errors([1, "1", 2, "2", 3, "3"]), errors(range(6)))
