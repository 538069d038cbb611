"""Scorers that carry queries through scikit-learn's tools."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose
from sklearn.inspection import permutation_importance
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    RandomizedSearchCV,
    cross_val_score,
    cross_validate,
    learning_curve,
)
from sklearn.pipeline import make_pipeline

from rankwise import QueryMinMaxScaler, RankingSearchCV, RankRLS
from rankwise.data import make_ranking
from rankwise.errors import DataError, ParameterError
from rankwise.metrics import disagreement_error, make_ranking_scorer, ndcg
from tests.versions import scorers_of_rankers

DATA = make_ranking(12, rows_per_query=6, n_features=3, n_levels=3, noise=0.5, random_state=0)
X, Y, QID = DATA.X, DATA.y, DATA.qid
FRAME = pd.DataFrame(X, columns=["a", "b", "c"], index=[f"row {i}" for i in range(len(X))])
CV = GroupKFold(3)
METADATA = {"qid": QID, "groups": QID}


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def by_hand(ranker, metric, **options):
    """Scores of refits, with the queries passed by hand."""
    scores = []
    for train, test in CV.split(X, Y, groups=QID):
        ranker.fit(X[train], Y[train], qid=QID[train])
        predicted = ranker.predict(X[test], **{k: v[test] for k, v in options.items()})
        scores.append(metric(Y[test], predicted, QID[test]))
    return scores


@pytest.mark.usefixtures("routing")
class TestRouting:
    def test_cross_val_score(self):
        scorer = make_ranking_scorer("ndcg@10")
        found = cross_val_score(RankRLS(1.0), X, Y, scoring=scorer, cv=CV, params=METADATA)
        assert_allclose(found, by_hand(RankRLS(1.0), lambda *rows: ndcg(*rows, k=10)))

    def test_queries_reach_predict_of_a_ranker_that_scales_within_queries(self):
        scorers = {"error": make_ranking_scorer("disagreement"), "auto": make_ranking_scorer("map")}
        ranker = RankRLS(1.0, scale="query-standard")
        found = cross_validate(ranker, X, Y, scoring=scorers, cv=CV, params=METADATA)
        want = by_hand(RankRLS(1.0, scale="query-standard"), disagreement_error, qid=QID)
        assert_allclose(found["test_error"], [-error for error in want])

    @pytest.mark.parametrize("search", [GridSearchCV, RandomizedSearchCV])
    def test_searches_of_pipelines(self, search):
        options = {"n_iter": 2, "random_state": 0} if search is RandomizedSearchCV else {}
        ranker = make_pipeline(QueryMinMaxScaler(), RankRLS())
        scorer = make_ranking_scorer("ndcg@10")
        found = search(ranker, {"rankrls__alpha": [0.1, 10.0]}, scoring=scorer, cv=CV, **options)
        found.fit(X, Y, **METADATA)
        assert found.best_estimator_[-1].n_queries_ == 12
        assert found.score(X, Y, qid=QID) == scorer(found, X, Y, qid=QID)

    def test_learning_curve(self):
        scorer = make_ranking_scorer("ndcg@10")
        found = learning_curve(
            RankRLS(1.0), X, Y, scoring=scorer, cv=CV, params=METADATA, train_sizes=[1.0]
        )
        assert_allclose(found[2][0], by_hand(RankRLS(1.0), lambda *rows: ndcg(*rows, k=10)))


class TestWithoutRouting:
    def test_a_scorer_without_queries_is_an_error(self):
        ranker = RankRLS(1.0).fit(X, Y)
        with pytest.raises(DataError, match=r"No qid reached make_ranking_scorer\('map'\)"):
            make_ranking_scorer("map")(ranker, X, Y)

    @scorers_of_rankers
    def test_one_ranking_on_purpose(self):
        scorer, ranker = make_ranking_scorer("auc", qid=None), RankRLS(1.0)
        found = cross_val_score(ranker, X, Y > 0, scoring=scorer, cv=3)
        assert_allclose(found, cross_val_score(ranker, X, Y > 0, scoring="roc_auc", cv=3))

    def test_queries_by_index(self):
        scorer = make_ranking_scorer("ndcg@10", qid=pd.Series(QID, index=FRAME.index)[::-1])
        found = cross_val_score(
            RankRLS(1.0), FRAME, Y, scoring=scorer, cv=CV, groups=QID, params={"qid": QID}
        )
        assert_allclose(found, by_hand(RankRLS(1.0), lambda *rows: ndcg(*rows, k=10)))

    def test_permutation_importance_of_scikit_learn(self):
        scorer = make_ranking_scorer("ndcg@10", qid=pd.Series(QID, index=FRAME.index))
        ranker = RankRLS(1.0).fit(FRAME, Y, qid=QID)
        found = permutation_importance(ranker, FRAME, Y, scoring=scorer, random_state=0)
        assert found.importances_mean.argmax() == abs(ranker.coef_).argmax()

    def test_what_cannot_be_found(self):
        scorer = make_ranking_scorer("map", qid=pd.Series(QID, index=FRAME.index))
        ranker = RankRLS(1.0).fit(X, Y, qid=QID)
        with pytest.raises(DataError, match="pandas data frame, got ndarray"):
            scorer(ranker, X, Y)
        with pytest.raises(DataError, match=r"no entry for row 0 of X \(72 of 72 rows\)"):
            scorer(ranker, pd.DataFrame(X), Y)


@pytest.mark.parametrize(
    ("qid", "message"),
    [
        (QID, "got ndarray"),
        ("a column", "got str"),
        (pd.Series([1, 2], index=["a", "a"]), "repeated entries"),
    ],
)
def test_where_queries_cannot_come_from(qid, message):
    with pytest.raises(ParameterError, match=message):
        make_ranking_scorer("map", qid=qid)


def test_metrics_are_checked_and_shown():
    with pytest.raises(ParameterError, match="got 'ndgc'"):
        make_ranking_scorer("ndgc")
    assert repr(make_ranking_scorer("map")) == "make_ranking_scorer('map')"
    assert repr(make_ranking_scorer("map", qid=None)) == "make_ranking_scorer('map', qid=None)"


def test_searches_of_rankwise_take_the_scorer():
    by_name, by_scorer = (
        RankingSearchCV(RankRLS(), {"alpha": [0.1, 10.0]}, scoring=scoring).fit(X, Y, qid=QID)
        for scoring in ("ndcg@10", make_ranking_scorer("ndcg@10"))
    )
    assert by_name.best_score_ == by_scorer.best_score_


def test_a_function_is_called_with_queries():
    def queries(y, scores, qid):
        return float(len(np.unique(qid)))

    ranker = RankRLS(1.0).fit(X, Y, qid=QID)
    assert make_ranking_scorer(queries)(ranker, X, Y, qid=QID) == 12.0
