"""The parameter `scale` of least-squares rankers."""

import pickle
import warnings

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from rankwise import (
    KPCR,
    RLS,
    KPCRank,
    MeanRanker,
    QueryMinMaxScaler,
    QueryRanks,
    QueryStandardScaler,
    RankingSearchCV,
    RankRLS,
    SparseRankRLS,
    SparseRLS,
    load_model,
    save_model,
)
from rankwise.errors import ParameterError, RankwiseWarning
from rankwise.estimators.ranker_rows import _sample
from rankwise.graph import QueryGroups
from rankwise.model_selection import leave_query_out
from tests.oracles.scaling import scaled_by_loops

SCALERS = {
    "query-minmax": QueryMinMaxScaler,
    "query-standard": QueryStandardScaler,
    "query-ranks": QueryRanks,
}
RANKERS = [
    RankRLS(1.0),
    RankRLS(1.0, solver="dual", ties="exclude"),
    RankRLS(1.0, kernel="rbf"),
    RLS(1.0),
    SparseRankRLS(1.0, landmarks=np.arange(0, 60, 5)),
    SparseRLS(1.0, landmarks=np.arange(0, 60, 5)),
    KPCRank(4),
    KPCR(4),
]
EVERY_RANKER = pytest.mark.parametrize("ranker", RANKERS, ids=repr)


@pytest.fixture
def data():
    """Queries with features of different units, also between queries."""
    rng = np.random.default_rng(0)
    qid = rng.permutation(np.arange(60) % 6)
    X = rng.standard_normal((60, 3))
    y = X @ [1.0, -1.0, 0.5] + 0.1 * rng.standard_normal(60)
    return X * 10.0 ** (qid[:, None] % 3 - 1) + qid[:, None], y, qid


@EVERY_RANKER
@pytest.mark.parametrize("name", list(SCALERS))
def test_a_scaling_within_queries_is_a_pipeline_with_its_transformer(ranker, name, data):
    X, y, qid = data
    ours = clone(ranker).set_params(scale=name).fit(X, y, qid=qid)
    assert ours.scale_ == name
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(SCALERS[name](), clone(ranker).set_params(scale=None))
        pipeline.fit(X, y, qid=qid)
        want = pipeline.predict(X, qid=qid)
        assert_allclose(ours.score(X, y, qid=qid), pipeline.score(X, y, qid=qid))
    assert_allclose(ours.predict(X, qid=qid), want, atol=1e-9)
    one = qid == 4
    assert_allclose(ours.predict(X[one], qid=qid[one]), want[one], atol=1e-9)
    rows = sparse.csr_array(X)
    on_sparse = clone(ours).fit(rows, y, qid=qid)
    assert_allclose(on_sparse.predict(rows, qid=qid), want, atol=1e-7)


@EVERY_RANKER
def test_standard_is_a_pipeline_with_a_standard_scaler(ranker, data):
    X, y, qid = data
    ours = clone(ranker).set_params(scale="standard").fit(X, y, qid=qid)
    scaler = StandardScaler().fit(X)
    alone = clone(ranker).set_params(scale=None).fit(scaler.transform(X), y, qid=qid)
    want = alone.predict(scaler.transform(X))
    gap = ours.predict(X) - want
    assert_allclose(gap, gap[0], atol=1e-9)  # RankRLS leaves out the constant
    if not isinstance(ranker, RankRLS):
        assert_allclose(gap, 0, atol=1e-9)
    if hasattr(ours, "coef_") and ours.coef_.shape == (3,):
        assert_allclose(ours.coef_, alone.coef_ / scaler.scale_)
        assert_allclose(X @ ours.coef_ + getattr(ours, "intercept_", 0.0), ours.predict(X))
    path = ours.path(X, y, [ours.alpha, 10.0], qid=qid)
    assert_allclose(path.predict(X)[0], ours.predict(X), atol=1e-8)
    assert_allclose(path.estimator(0).predict(X), ours.predict(X), atol=1e-8)


@pytest.mark.parametrize("ranker", [RankRLS(1.0), RankRLS(1.0, solver="cg"), RLS(1.0)], ids=repr)
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_a_path_on_standardized_features_has_the_scores_of_its_rankers(ranker, n_outputs, data):
    X, y, qid = data
    Y = y if n_outputs == 1 else np.column_stack((y, X[:, 0]))
    ranker = clone(ranker).set_params(scale="standard")
    path = ranker.path(X, Y, [0.1, 10.0], qid=qid)
    for scores in (path.predict(X), pickle.loads(pickle.dumps(path)).predict(X)):
        for i, alpha in enumerate(path.alphas):
            want = clone(ranker).set_params(alpha=alpha).fit(X, Y, qid=qid).predict(X)
            assert_allclose(scores[i], want, atol=1e-5)
            assert_allclose(scores[i], path.estimator(i).predict(X), atol=1e-9)


def test_a_path_of_comparisons_on_standardized_features(data):
    X = data[0]
    pairs = np.arange(60).reshape(30, 2)
    path = RankRLS(scale="standard").path_pairs(X, pairs, [0.1, 10.0])
    for alpha, scores in zip(path.alphas, path.predict(X), strict=True):
        want = RankRLS(alpha, scale="standard").fit_pairs(X, pairs).predict(X)
        assert_allclose(scores, want, atol=1e-8)


@pytest.mark.parametrize("name", list(SCALERS))
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("kind", [RankRLS, RLS])
def test_hold_outs_of_queries_equal_refits(name, kernel, kind, data):
    X, y, qid = data
    ranker = kind(1.0, scale=name, kernel=kernel)
    held_out = leave_query_out(ranker, X, y, qid=qid)
    for query in range(6):
        rows = qid == query
        part = clone(ranker).fit(X[~rows], y[~rows], qid=qid[~rows])
        assert_allclose(
            held_out.predictions[0][rows], part.predict(X[rows], qid=qid[rows]), atol=1e-8
        )


def test_a_search_with_exact_hold_outs_equals_one_with_refits(data):
    X, y, qid = data
    grid = {"alpha": [0.1, 1.0], "scale": ["query-minmax", "query-ranks", None]}
    exact = RankingSearchCV(RankRLS(), grid).fit(X, y, qid=qid)
    folds = list(LeaveOneGroupOut().split(X, y, qid))
    refits = RankingSearchCV(RankRLS(), grid, cv=folds).fit(X, y, qid=qid)
    with sklearn.config_context(enable_metadata_routing=True):
        plain = GridSearchCV(RankRLS(), grid, cv=folds).fit(X, y, qid=qid)
    want = plain.cv_results_["mean_test_score"]
    for search in (exact, refits):
        assert_allclose(1 + search.cv_results_["mean_test_score"], want, atol=1e-9)
    assert_allclose(exact.predict(X, qid=qid), exact.best_estimator_.predict(X, qid=qid))


class TestAuto:
    """Which scaling the default chooses."""

    @pytest.mark.parametrize("kernel", ["rbf", "laplacian", "polynomial", "sigmoid"])
    def test_kernels_with_gamma(self, kernel, data):
        X, y, qid = data
        ranker = SparseRankRLS(1.0, kernel=kernel, n_landmarks=10, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a sigmoid kernel is not positive definite
            assert ranker.fit(X, y, qid=qid).scale_ == "query-minmax"
            assert ranker.fit(X, y).scale_ == "standard"
            assert ranker.set_params(gamma="scale").fit(X, y).scale_ == "standard"
            assert ranker.set_params(gamma=0.1).fit(X, y, qid=qid).scale_ is None

    def test_what_is_in_units_of_its_own(self, data):
        X, y, qid = data
        for ranker in (
            RankRLS(kernel="cosine"),
            RankRLS(kernel=lambda a, b: float(a @ b)),
            SparseRankRLS(landmarks=X[:5]),
        ):
            assert ranker.fit(X, y, qid=qid).scale_ is None
        assert RankRLS(kernel="precomputed").fit(X @ X.T, y, qid=qid).scale_ is None

    def test_linear_functions_of_comparable_features(self, data):
        X, y, qid = data
        assert RankRLS(1.0).fit(X, y, qid=qid).scale_ is None

    def test_linear_functions_of_other_features_with_a_number_for_alpha(self, data):
        X, y, qid = data
        with pytest.warns(RankwiseWarning, match=r"factor of \de\+0\d.*scale=\"query-minmax\""):
            assert RankRLS(1.0).fit(X * [1e-3, 1, 1e3], y, qid=qid).scale_ is None
        with pytest.warns(RankwiseWarning, match='scale="standard"'):
            RankRLS(1.0).fit(X * [1e-3, 1, 1e3], y)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            RankRLS(0.0).fit(X * [1e-3, 1, 1e3], y, qid=qid)  # nothing depends on units


@pytest.mark.parametrize("kernel", ["rbf", "polynomial"])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_gamma_by_the_variance_of_scaled_rows(kernel, kind, data):
    X, y, qid = data
    for name in ("query-minmax", "standard", None):
        ranker = RankRLS(1.0, kernel=kernel, gamma="scale", scale=name)
        ranker.fit(kind(X), y, qid=qid)
        Z = {"query-minmax": scaled_by_loops("query-minmax", X, qid), None: X}.get(name)
        if Z is None:
            Z = X / X.std(axis=0) if kind is sparse.csr_array else StandardScaler().fit_transform(X)
        assert ranker.gamma_ == pytest.approx(1 / (3 * Z.var()))
        assert ranker.kernel_.gamma == ranker.gamma_
    constant = RankRLS(1.0, kernel="rbf", gamma="scale", scale=None)
    with pytest.warns(RankwiseWarning, match="all features are constant"):
        constant.fit(np.ones((4, 2)), [0, 1, 2, 3])
    assert constant.gamma_ == 1.0


@pytest.mark.parametrize(
    "options",
    [{}, {"scale": "standard"}, {"gamma": "scale"}, {"gamma": "scale", "scale": "standard"}],
    ids=str,
)
@pytest.mark.parametrize("kind", [SparseRankRLS, SparseRLS])
def test_blocks_are_scaled_as_all_rows_are(kind, options, data):
    X, y, qid = data
    order = np.argsort(qid, kind="stable")
    X, y, qid = X[order], y[order], qid[order]
    blocks = [(X[part], y[part], qid[part]) for part in (slice(0, 20), slice(20, 60))]
    ranker = kind(1.0, landmarks=np.arange(0, 60, 7), **options)
    want = clone(ranker).fit(X, y, qid=qid)
    ours = clone(ranker).fit_blocks(blocks)
    assert (ours.scale_, ours.max_query_rows_, ours.n_queries_) == (want.scale_, 10, 6)
    assert_allclose(ours.predict(X, qid=qid), want.predict(X, qid=qid), atol=1e-8)
    path = ranker.path_blocks(blocks, [1.0, 3.0]).predict(X, qid=qid)
    assert_allclose(path[0], want.predict(X, qid=qid), atol=1e-8)


def test_blocks_that_come_one_at_a_time(data):
    X, y, qid = data
    order = np.argsort(qid, kind="stable")
    X, y, qid = X[order], y[order], qid[order]
    ranker = SparseRankRLS(1.0, landmarks=np.arange(0, 40, 5))
    want = clone(ranker).fit(X, y, qid=qid)
    for part in (slice(0, 40), slice(40, 60)):
        ranker.partial_fit(X[part], y[part], qid=qid[part])
    assert_allclose(ranker.predict(X, qid=qid), want.predict(X, qid=qid), atol=1e-8)
    ranker.set_params(scale=None)
    with pytest.raises(ParameterError, match="scale changed since the first block"):
        ranker.partial_fit(X[:10], y[:10], qid=qid[:10] + 10)


def test_comparisons_are_standardized():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 2)) * [1e-2, 1e2]
    pairs = rng.permutation(20).reshape(-1, 2)
    ours = RankRLS(1.0, kernel="rbf").fit_pairs(X, pairs)
    Z = StandardScaler().fit_transform(X)
    want = RankRLS(1.0, kernel="rbf", scale=None).fit_pairs(Z, pairs)
    assert ours.scale_ == "standard"
    assert_allclose(ours.predict(X), want.predict(Z), atol=1e-9)


@pytest.mark.parametrize("n_rows", [2, 10, 60])
def test_rows_without_qid_are_scaled_as_one_query_with_a_warning(n_rows, data, tmp_path):
    X, y, qid = data
    ranker = SparseRankRLS(1.0, n_landmarks=10, random_state=0).fit(X, y, qid=qid)
    words = f"6 queries of at most 10 rows, but {{}} got {n_rows} rows without qid"
    save_model(ranker, tmp_path / "ranker.rankwise")
    calls = {
        "predict": ranker.predict,
        "decision_function": ranker.decision_function,
        "of a file": load_model(tmp_path / "ranker.rankwise").predict,
        "path": ranker.path(X, y, [1.0], qid=qid).predict,
        "pipeline": make_pipeline(FunctionTransformer(), clone(ranker))
        .fit(X, y, sparserankrls__qid=qid)
        .predict,
        "mean": MeanRanker([RankRLS(scale=None)]).fit(X, y, qid=qid).predict,
        "search": RankingSearchCV(ranker, {"alpha": [1.0]}).fit(X, y, qid=qid).predict,
    }
    want = ranker.predict(X[:n_rows], qid=["a"] * n_rows)
    for name, call in calls.items():
        with pytest.warns(RankwiseWarning, match=words.format("predict")) as found:
            scores = call(X[:n_rows])
        assert len(found) == 1, name
        if name != "mean":
            assert_allclose(np.ravel(scores), want, atol=1e-9)


def test_score_without_qid_warns_once(data):
    X, y, qid = data
    ranker = RankRLS(1.0, scale="query-ranks").fit(X, y, qid=qid)
    for call in (ranker.score, RankingSearchCV(ranker, {"alpha": [1.0]}).fit(X, y, qid=qid).score):
        with pytest.warns(RankwiseWarning, match="no qid reached score") as found:
            call(X, y)
        assert len(found) == 1


def test_rows_that_are_one_query_by_construction(data):
    X, y, qid = data
    ranker = SparseRankRLS(1.0, n_landmarks=10, scale="query-ranks", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ranker.fit(X, y, qid=qid).predict(X, qid=np.zeros(60))  # as many rows as you like
        scores = ranker.decision_function(X, qid=qid)
        assert_allclose(scores, ranker.predict(X, qid=qid))
        clone(ranker).set_params(scale="standard").fit(X, y, qid=qid).predict(X)
        ranker.fit(X, y).predict(X[:20])  # fitted to one query


@pytest.mark.parametrize("method", ["predict", "decision_function"])
def test_qid_reaches_the_ranker_of_a_pipeline(method, data):
    X, y, qid = data
    ranker = RankRLS(1.0, scale="query-standard")
    want = clone(ranker).fit(X, y, qid=qid).predict(X, qid=qid)
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(FunctionTransformer(), ranker).fit(X, y, qid=qid)
        assert_allclose(getattr(pipeline, method)(X, qid=qid), want)


def test_what_cannot_be_scaled(data):
    X, y, qid = data
    for ranker in (
        SparseRankRLS(landmarks=X[:5], scale="query-minmax"),
        KPCRank(2, landmarks=X[:5], scale="standard"),
    ):
        with pytest.raises(ParameterError, match="landmarks are points: scale the rows first"):
            ranker.fit(X, y, qid=qid)
    with pytest.raises(ParameterError, match="kernel='precomputed': scale the rows first"):
        RankRLS(kernel="precomputed", scale="standard").fit(X @ X.T, y)
    with pytest.raises(
        ParameterError, match=r"scale must be one of auto, query-minmax, .*, or None"
    ):
        RankRLS(scale="minmax").fit(X, y)


class TestRowsFarFromTheTrainingRows:
    """A model of scaled rows that is given raw ones says so."""

    @pytest.mark.parametrize("ranker", [RankRLS(1.0), SparseRankRLS(1.0, gamma=1.0)], ids=repr)
    def test_a_warning_names_the_features(self, ranker, tmp_path):
        rng = np.random.default_rng(0)
        X = rng.uniform(size=(50, 2))
        ranker = clone(ranker).fit(X, X[:, 0])
        raw = X * [1.0, 1e6]
        message = r"predict got values far outside .* in feature 1: .* Scale new rows"
        with pytest.warns(RankwiseWarning, match=message):
            ranker.predict(raw)
        loaded = load_model(save_model(ranker, tmp_path / "model.rankwise"))
        with pytest.warns(RankwiseWarning, match=message):
            loaded.predict(raw)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ranker.predict(X + 5)

    def test_no_warning_if_the_ranker_scales_within_queries(self):
        rng = np.random.default_rng(0)
        X, qid = rng.uniform(size=(50, 2)), np.arange(50) // 5
        ranker = RankRLS(1.0, scale="query-minmax").fit(X, X[:, 0], qid=qid)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert_allclose(ranker.predict(1e6 * X, qid=qid), ranker.predict(X, qid=qid))


class TestKernels:
    """A kernel that learns nothing from the rows is noticed in fit, once."""

    @pytest.mark.parametrize(
        ("gamma", "message"),
        [(1e4, "nearly 0 between different rows"), (1e-9, "nearly the same between all rows")],
    )
    @pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
    def test_gamma_that_does_not_fit_the_rows(self, gamma, message, kind):
        rng = np.random.default_rng(0)
        X = kind(rng.standard_normal((40, 3)))
        y, qid = rng.standard_normal(40), np.arange(40) // 4
        for ranker in (RankRLS(1.0, kernel="rbf", gamma=gamma), KPCRank(2, gamma=gamma)):
            with pytest.warns(RankwiseWarning, match=message) as found:
                ranker.fit(X, y, qid=qid)
            assert len(found) == 1
        search = RankingSearchCV(RankRLS(kernel="rbf", gamma=gamma), {"alpha": [0.1, 1.0]}, cv=2)
        with pytest.warns(RankwiseWarning, match=message) as found:
            search.fit(X, y, qid=qid)
        assert len(found) == 1

    def test_defaults_fit_rows_of_any_size(self):
        rng = np.random.default_rng(0)
        X, y, qid = rng.standard_normal((40, 3)), rng.standard_normal(40), np.arange(40) // 4
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for size in (1e-200, 1.0, 1e200):
                for kernel in ("rbf", "laplacian", "polynomial"):
                    ranker = RankRLS(1.0, kernel=kernel).fit(size * X, y, qid=qid)
                    assert ranker.score(size * X, y, qid=qid) > 0.6


@EVERY_RANKER
@pytest.mark.parametrize("name", [*SCALERS, "standard"])
def test_model_files(ranker, name, data, tmp_path):
    X, y, qid = data
    ranker = clone(ranker).set_params(scale=name).fit(X, y, qid=qid)
    same = load_model(save_model(ranker, tmp_path / "model.rankwise"))
    assert_allclose(same.predict(X, qid=qid), ranker.predict(X, qid=qid), atol=1e-12)
    assert (same.scale_, same.max_query_rows_) == (name, 10)


@pytest.mark.parametrize("within", [True, False])
@pytest.mark.parametrize(
    "ranker", [SparseRankRLS(n_landmarks=30, random_state=0), RankRLS(kernel="rbf")]
)
def test_auto_finds_out_whether_scores_depend_on_the_other_rows_of_a_query(ranker, within):
    rng = np.random.default_rng(3)
    qid = np.repeat(np.arange(20), 12)
    X = rng.standard_normal((240, 2)) + 8 * rng.standard_normal((20, 2))[qid]
    scaled = QueryMinMaxScaler().fit(X, qid=qid).transform(X, qid=qid)
    y = np.abs((scaled[:, 0] - 0.5) if within else X[:, 0])
    fitted = clone(ranker).fit(X, y, qid=qid)
    assert fitted.scale_ == ("query-minmax" if within else "standard")
    if within:
        shuffle = rng.permutation(240)
        again = clone(ranker).fit(X[shuffle], y[shuffle], qid=qid[shuffle])
        assert again.scale_ == fitted.scale_


@pytest.mark.parametrize("ranker", [RankRLS(), SparseRankRLS(n_landmarks=30, random_state=0)])
def test_auto_takes_ranks_if_they_are_clearly_better(ranker):
    rng = np.random.default_rng(0)
    qid = np.repeat(np.arange(25), 12)
    Z = rng.standard_normal((300, 3))
    X = np.exp(4 * Z) * [1e-4, 1.0, 1e4]
    y = np.digitize(Z.sum(axis=1), [0.0, 1.5])
    assert clone(ranker).fit(X, y, qid=qid).scale_ == "query-ranks"
    assert clone(ranker).fit(Z * [1e-4, 1.0, 1e4], y, qid=qid).scale_ != "query-ranks"


def test_auto_tries_scalings_on_a_sample_of_queries():
    """Many rows, of which the sampled queries have no different labels."""
    rng = np.random.default_rng(0)
    qid = np.repeat(np.arange(300), 5)
    X, y = rng.standard_normal((1500, 2)), np.zeros(1500)
    y[:5] = np.arange(5)
    ranker = SparseRankRLS(n_landmarks=20, random_state=0).fit(X, y, qid=qid)
    assert ranker.scale_ == "query-minmax"


def test_rare_features_of_sparse_rows_are_not_small():
    """Their deviations are small, but not their values."""
    rng = np.random.default_rng(0)
    n, rare = 4000, 40
    words = sparse.csr_array(
        (np.full(rare, 0.02), (rng.integers(0, n, rare), np.arange(rare))), shape=(n, rare)
    )
    X = sparse.hstack([sparse.csr_array(rng.random((n, 1))), words], format="csr")
    y, qid = rng.random(n), np.arange(n) // 20
    for alpha in (1.0, "auto"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert RankRLS(alpha).fit(X, y, qid=qid).scale_ is None
    X.data[X.indices > 0] *= 1e-3
    with pytest.warns(RankwiseWarning, match="differ by a factor of"):
        RankRLS(1.0).fit(X, y, qid=qid)


def test_the_sample_of_queries_does_not_depend_on_the_type_of_ids():
    ids = np.repeat(np.arange(300), 5)
    kinds = (ids, ids.astype(np.int32), ids.astype(object), ids.tolist())
    samples = [_sample(QueryGroups.of(qid), 100).tolist() for qid in kinds]
    assert len(samples[0]) == 100
    assert samples == [samples[0]] * len(kinds)
