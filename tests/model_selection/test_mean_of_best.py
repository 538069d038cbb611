"""RankingSearchCV(refit="mean-of-best")."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import Ridge

from rankwise import MeanRanker, RankingSearchCV, RankRLS, load_model, save_model
from rankwise.data import make_ranking
from rankwise.errors import ParameterError
from rankwise.metrics import ndcg
from rankwise.model_selection import leave_query_out
from tests.oracles import mean_of_best as oracle

GRID = {"alpha": [0.1, 10.0, 1e3, 1e5], "ties": ["include", "exclude"]}


@pytest.fixture(scope="module")
def data():
    return make_ranking(12, rows_per_query=6, n_features=4, n_levels=3, noise=2.0, random_state=0)


def test_the_mean_is_chosen_by_held_out_predictions(data):
    X, y, qid = data.X, data.y, data.qid
    search = RankingSearchCV(RankRLS(), GRID, scoring="ndcg@10", refit="mean-of-best", n_best=3)
    search.fit(X, y, qid=qid)
    scores, batches = [], []
    for params in search.cv_results_["params"]:
        held_out = leave_query_out(RankRLS(**params), X, y, qid=qid)
        scores.append(oracle.standardized(held_out.predictions[0], qid))
        batches.append(params["ties"])
    scores = np.array(scores)
    table = np.array([oracle.values(y, qid, f, "ndcg@10") for f in scores])
    assert_allclose(search.cv_results_["mean_test_score"], table.mean(axis=1))
    assert search.mean_indices_.tolist() == oracle.choose(table, batches, 3)
    outer = oracle.outer_values(y, qid, scores, batches, 3, "ndcg@10")
    assert_allclose(search.score_estimate_.score, outer.mean())

    params = [search.cv_results_["params"][k] for k in search.mean_indices_]
    want = MeanRanker([RankRLS(**p) for p in params]).fit(X, y, qid=qid).predict(X, qid=qid)
    assert_allclose(search.predict(X, qid=qid), want)
    assert_allclose(search.score(X, y, qid=qid), ndcg(y, want, qid, k=10))
    assert search.best_params_ == search.cv_results_["params"][search.mean_indices_[0]]


def test_refitted_candidates_folds_and_one_ranking(data, tmp_path):
    grid = {"alpha": [0.1, 1.0, 100.0]}
    search = RankingSearchCV(Ridge(), grid, cv=4, refit="mean-of-best", random_state=0)
    search.fit(data.X, data.y, qid=data.qid)
    assert search.score_estimate_.n_queries == 12
    assert len(search.best_estimator_.rankers_) == len(search.mean_indices_)
    one = RankingSearchCV(RankRLS(), grid, cv=4, refit="mean-of-best").fit(data.X, data.X[:, 0])
    assert (one.score_estimate_.n_queries, one.score_estimate_.unit) == (4, "folds")
    assert one.score(data.X, data.X[:, 0]) > -0.1
    same = load_model(save_model(one, tmp_path / "search.rankwise"))
    assert_allclose(same.predict(data.X), one.predict(data.X))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"cv": "leave_pair_out"}, ParameterError, "query by query"),
        ({"refit": "mean"}, ParameterError, 'refit must be True or False, or "mean-of-best"'),
        ({"n_best": 0}, ParameterError, "n_best must be an integer of at least 1"),
    ],
)
def test_what_cannot_be_averaged_is_refused(data, options, error, message):
    search = RankingSearchCV(RankRLS(), GRID, **{"refit": "mean-of-best"} | options)
    with pytest.raises(error, match=message):
        search.fit(data.X, data.y, qid=data.qid)


def test_several_outputs_are_refused(data):
    search = RankingSearchCV(RankRLS(), GRID, refit="mean-of-best")
    with pytest.raises(ParameterError, match="one label for every row"):
        search.fit(data.X, np.column_stack((data.y, data.y)), qid=data.qid)
