"""The mean of several rankers."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from hypothesis import given
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rankwise import MeanRanker, QueryStandardScaler, RankRLS, RankSVM, load_model, save_model
from rankwise.data import make_ranking
from rankwise.errors import DataError, ParameterError
from rankwise.graph import QueryGroups
from rankwise.model_selection.meta_rankers import standardized
from tests.oracles import mean_of_best as oracle
from tests.strategies import problems


@pytest.fixture
def data():
    return make_ranking(8, rows_per_query=(1, 9), n_features=3, n_levels=3, random_state=0)


@given(problems())
def test_scores_are_standardized_within_queries(problem):
    scores = np.column_stack((problem.X[:, 0], 1e6 + problem.y, np.full(len(problem.y), 0.3))).T
    groups = QueryGroups.of(problem.qid)
    want = [oracle.standardized(f, groups.codes) for f in scores]
    assert_allclose(standardized(scores, groups), want, atol=1e-6)
    both = standardized(np.stack((scores, -scores), axis=2), groups)
    assert_allclose(both[..., 0], want, atol=1e-6)
    assert_allclose(both[..., 1], -np.array(want), atol=1e-6)


def test_rounding_errors_of_equal_scores_are_not_scaled_up():
    scores = np.array([[1.0, 1.0 + 2e-16, 1.0 - 1e-16, 0.0, 3.0]])
    found = standardized(scores, QueryGroups.of([0, 0, 0, 1, 1]))
    assert_allclose(found, [[0, 0, 0, -1, 1]], atol=1e-12)


def test_the_mean_is_that_of_rankers_fitted_one_by_one(data):
    X, y, qid = data.X, data.y, data.qid
    rankers = [RankRLS(1.0), RankRLS(5.0, kernel="rbf", gamma=0.3), RankSVM()]
    mean = MeanRanker(rankers, weights=[1, 2, 1]).fit(X, y, qid=qid)
    alone = [clone(ranker).fit(X, y, qid=qid).predict(X) for ranker in rankers]
    a, b, c = (oracle.standardized(f, qid) for f in alone)
    assert_allclose(mean.predict(X, qid=qid), (a + 2 * b + c) / 4, atol=1e-9)
    assert_allclose(mean.weights_, [0.25, 0.5, 0.25])
    assert not hasattr(rankers[0], "coef_")
    # The same id for all rows: they are one query.
    a, b, c = (oracle.standardized(f[:5], np.zeros(5)) for f in alone)
    assert_allclose(mean.predict(X[:5], qid=np.zeros(5)), (a + 2 * b + c) / 4, atol=1e-9)


def test_scores_of_one_ranking_do_not_depend_on_the_other_rows(data):
    X, y = data.X, data.X[:, 0] - data.X[:, 1]
    mean = MeanRanker([RankRLS(1.0), Ridge()]).fit(X, y)
    parts = [clone(ranker).fit(X, y).predict(X) for ranker in (RankRLS(1.0), Ridge())]
    want = np.mean([(f - f.mean()) / f.std() for f in parts], axis=0)
    assert_allclose(mean.predict(X), want, atol=1e-9)
    assert_allclose(mean.predict(X[3:4]), want[3:4], atol=1e-9)
    assert mean.score(X, y) > 0.9


def test_several_outputs(data):
    Y = np.column_stack((data.y, -data.X[:, 0]))
    for qid in (data.qid, None):
        mean = MeanRanker([RankRLS(1.0), RankRLS(9.0)]).fit(data.X, Y, qid=qid)
        found = mean.predict(data.X, qid=qid)
        for k in range(2):
            alone = MeanRanker([RankRLS(1.0), RankRLS(9.0)]).fit(data.X, Y[:, k], qid=qid)
            assert_allclose(found[:, k], alone.predict(data.X, qid=qid), atol=1e-8)


def test_pipelines_get_their_queries(data):
    steps = [
        make_pipeline(QueryStandardScaler(), RankRLS(1.0)),
        make_pipeline(StandardScaler(), Ridge()),
    ]
    mean = MeanRanker(steps).fit(data.X, data.y, qid=data.qid)
    with sklearn.config_context(enable_metadata_routing=True):
        first = clone(steps[0]).fit(data.X, data.y, qid=data.qid).predict(data.X, qid=data.qid)
    second = clone(steps[1]).fit(data.X, data.y).predict(data.X)
    want = np.mean([oracle.standardized(f, data.qid) for f in (first, second)], axis=0)
    assert_allclose(mean.predict(data.X, qid=data.qid), want, atol=1e-8)


def test_names_sparse_rows_and_model_files(data, tmp_path):
    frame = pd.DataFrame(data.X, columns=list("abc"))
    mean = MeanRanker([RankRLS(1.0), RankSVM()]).fit(frame, data.y, qid=data.qid)
    assert mean.feature_names_in_.tolist() == list("abc")
    with pytest.raises(ValueError, match="feature names"):
        mean.predict(frame.rename(columns={"a": "z"}))
    sparse = clone(mean).fit(sp.csr_array(data.X), data.y, qid=data.qid)
    want = mean.predict(frame, qid=data.qid)
    assert_allclose(sparse.predict(sp.csr_array(data.X), qid=data.qid), want, atol=1e-6)
    same = load_model(save_model(mean, tmp_path / "mean.rankwise"))
    assert_allclose(same.predict(frame, qid=data.qid), want)
    one = MeanRanker([RankRLS(1.0)]).fit(data.X, data.X[:, 0])
    same = load_model(save_model(one, tmp_path / "one.rankwise"))
    assert_allclose(same.predict(data.X[:3]), one.predict(data.X[:3]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rankers": RankRLS()}, "rankers must be a list"),
        ({"rankers": "rankrls"}, "rankers must be a list"),
        ({"rankers": []}, "must be a list of rankers"),
        ({"rankers": [RankRLS]}, "must be an object with fit and predict"),
        ({"rankers": [RankRLS()], "weights": [1, 2]}, r"one for each ranker"),
        ({"rankers": [RankRLS()], "weights": [-1]}, "one for each ranker"),
        ({"rankers": [RankRLS()], "weights": [0]}, "positive sum"),
    ],
)
def test_parameters_are_checked(data, arguments, message):
    with pytest.raises(ParameterError, match=message):
        MeanRanker(**arguments).fit(data.X, data.y, qid=data.qid)


class Broken(Ridge):
    def predict(self, X):
        return np.where(np.arange(len(X)) == 2, np.nan, 1.0)


def test_scores_that_are_not_finite_are_refused(data):
    mean = MeanRanker([Broken()]).fit(data.X, data.y, qid=data.qid)
    with pytest.raises(DataError, match="score of row 2 by Broken is not finite"):
        mean.predict(data.X, qid=data.qid)
