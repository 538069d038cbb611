"""Transformers that scale within queries, alone, in pipelines, in searches and in model files."""

import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from rankwise import (
    QueryMinMaxScaler,
    QueryRanks,
    QueryStandardScaler,
    RankingSearchCV,
    RankRLS,
    RankSVM,
    WithQueryStandard,
    load_model,
    save_model,
)
from rankwise.errors import DataError, RankwiseWarning
from tests.oracles.scaling import scaled_by_loops
from tests.versions import routed_scores

SCALERS = {
    "query-minmax": QueryMinMaxScaler(),
    "query-standard": QueryStandardScaler(),
    "query-ranks": QueryRanks(),
}
BY_NAME = pytest.mark.parametrize("name", list(SCALERS))


@pytest.fixture
def data():
    """Queries whose features have different units in each of them."""
    rng = np.random.default_rng(0)
    qid = rng.permutation(np.arange(60) % 6)
    X = rng.standard_normal((60, 3))
    y = X @ [1.0, -1.0, 0.5] + 0.1 * rng.standard_normal(60)
    return X * 10.0 ** (qid[:, None] - 3) + qid[:, None], y, qid


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@BY_NAME
def test_scikit_learn_checks(name):
    alone = "without qid, all rows are one query, so a row is not scaled alone"
    expected = {"check_methods_subset_invariance": alone}
    check_estimator(SCALERS[name], on_skip=None, expected_failed_checks=expected)


def test_scaled_features_beside_the_features_as_they_are(data):
    X, _, qid = data
    want = np.hstack([X, scaled_by_loops("query-standard", X, qid)])
    scaler = WithQueryStandard().fit(X, qid=qid)
    assert_allclose(scaler.transform(X, qid=qid), want, atol=1e-12)
    rows = sparse.csr_array(np.where(abs(X) < 1, 0.0, X))
    found = scaler.transform(rows, qid=qid)
    assert sparse.issparse(found)
    assert_allclose(found.toarray(), scaler.transform(rows.toarray(), qid=qid), atol=1e-12)
    assert scaler.transform(X.astype(np.float32), qid=qid).dtype == np.float32
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    names = [*"abc", "standardized a", "standardized b", "standardized c"]
    table = WithQueryStandard().set_output(transform="pandas").fit(frame, qid=qid)
    assert list(table.transform(frame, qid=qid).columns) == names
    alone = "without qid, all rows are one query, so a row is not scaled alone"
    expected = {"check_methods_subset_invariance": alone}
    check_estimator(WithQueryStandard(), on_skip=None, expected_failed_checks=expected)


@BY_NAME
def test_queries_are_scaled_one_by_one(name, data):
    X, _, qid = data
    scaler, want = clone(SCALERS[name]), scaled_by_loops(name, X, qid)
    assert_allclose(scaler.fit_transform(X, qid=qid), want, atol=1e-12)
    assert_allclose(scaler.transform(X, qid=qid.astype(str)), want, atol=1e-12)
    assert scaler.n_queries_ == 6
    assert scaler.max_query_rows_ == 10
    one = qid == 3
    assert_allclose(scaler.transform(X[one], qid=qid[one]), want[one], atol=1e-12)
    got = scaler.transform(sparse.csr_array(X), qid=qid)
    assert_allclose(got.toarray(), want, atol=1e-12)


@BY_NAME
def test_names_and_data_frames(name, data):
    X, _, qid = data
    frame = pd.DataFrame(X, columns=list("abc"), index=np.arange(60) + 7)
    scaler = clone(SCALERS[name]).set_output(transform="pandas")
    out = scaler.fit(frame, qid=pd.Series(qid)).transform(frame, qid=pd.Series(qid))
    assert out.columns.tolist() == scaler.get_feature_names_out().tolist() == list("abc")
    assert out.index.tolist() == frame.index.tolist()
    assert_allclose(out, scaled_by_loops(name, X, qid), atol=1e-12)


def test_rows_without_qid_are_scaled_as_one_query_with_a_warning(data):
    X, _, qid = data
    scaler = QueryRanks().fit(X, qid=qid)
    for n in (2, 10, 11):
        words = f"fitted on 6 queries of at most 10 rows, but transform got {n} rows"
        with pytest.warns(RankwiseWarning, match=words):
            scaler.transform(X[:n])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scaler.transform(X[:11], qid=[7] * 11)
        QueryRanks().fit(X[:20]).transform(X)  # one query in fit, one query here


def test_bad_input(data):
    X, _, qid = data
    with pytest.raises(DataError, match="qid needs one entry per row of X: got 59 for 60 rows"):
        QueryMinMaxScaler().fit(X, qid=qid[1:])
    scaler = QueryMinMaxScaler().fit(X, qid=qid)
    with pytest.raises(ValueError, match="X has 2 features, but QueryMinMaxScaler is expecting 3"):
        scaler.transform(X[:, :2], qid=qid)
    X[4, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        scaler.transform(X, qid=qid)


@pytest.mark.usefixtures("routing")
@BY_NAME
def test_qid_is_routed_through_pipelines(name, data):
    X, y, qid = data
    pipeline = make_pipeline(clone(SCALERS[name]), RankRLS()).fit(X, y, qid=qid)
    Z = scaled_by_loops(name, X, qid)
    want = RankRLS().fit(Z, y, qid=qid)
    assert_allclose(pipeline.predict(X, qid=qid), want.predict(Z))
    assert_allclose(pipeline.score(X, y, qid=qid), want.score(Z, y, qid=qid))


@routed_scores
@pytest.mark.usefixtures("routing")
@BY_NAME
def test_qid_is_routed_through_searches(name, data):
    X, y, qid = data
    pipeline, Z = make_pipeline(clone(SCALERS[name]), RankRLS()), scaled_by_loops(name, X, qid)
    grid = {"rankrls__alpha": [0.1, 1.0]}
    search = GridSearchCV(pipeline, grid, cv=GroupKFold(3)).fit(X, y, qid=qid, groups=qid)
    alone = GridSearchCV(RankRLS(), {"alpha": [0.1, 1.0]}, cv=GroupKFold(3))
    alone.fit(Z, y, qid=qid, groups=qid)
    assert_allclose(
        search.cv_results_["mean_test_score"], alone.cv_results_["mean_test_score"], atol=1e-12
    )


@BY_NAME
@pytest.mark.parametrize("last", [RankRLS(), RankSVM(), Ridge()], ids=repr)
def test_a_ranking_search_passes_qid_to_all_steps(name, last, data):
    X, y, qid = data
    step = type(last).__name__.lower()
    pipeline = make_pipeline(clone(SCALERS[name]), clone(last))
    search = RankingSearchCV(pipeline, {f"{step}__alpha": [0.1, 1.0]}, cv=3)
    search.fit(X, y, qid=qid)
    Z = scaled_by_loops(name, X, qid)
    alone = RankingSearchCV(clone(last), {"alpha": [0.1, 1.0]}, cv=3).fit(Z, y, qid=qid)
    for key in ("split0_test_score", "mean_test_score"):
        assert_allclose(search.cv_results_[key], alone.cv_results_[key], atol=1e-12)
    assert_allclose(search.predict(X, qid=qid), alone.predict(Z), atol=1e-9)
    assert_allclose(search.score(X, y, qid=qid), alone.score(Z, y, qid=qid), atol=1e-12)


@pytest.mark.usefixtures("routing")
@BY_NAME
def test_model_files(name, data, tmp_path):
    X, y, qid = data
    pipeline = make_pipeline(clone(SCALERS[name]), RankRLS(1.0)).fit(X, y, qid=qid)
    same = load_model(save_model(pipeline, tmp_path / "pipeline.rankwise"))
    assert_allclose(same.predict(X, qid=qid), pipeline.predict(X, qid=qid), atol=1e-12)
    assert same[0].n_queries_ == 6
