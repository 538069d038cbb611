"""Cross-validation of rankers, against refits by hand."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import sklearn
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, GroupShuffleSplit, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rankwise import QueryMinMaxScaler, RankingSearchCV, RankRLS, RankSVM
from rankwise.data import make_ranking
from rankwise.errors import DataError, ParameterError
from rankwise.metrics import average_precision, disagreement_error, make_ranking_scorer, ndcg
from rankwise.model_selection import cross_validate
from tests.versions import routed_scores

DATA = make_ranking(15, rows_per_query=(3, 7), n_features=3, n_levels=3, noise=0.5, random_state=0)
ORDER = np.random.default_rng(0).permutation(len(DATA.y))
X, Y, QID = DATA.X[ORDER], DATA.y[ORDER], np.array([f"q{q}" for q in DATA.qid[ORDER]])


def refits(ranker, splits):
    """Predictions of rows by refits without their fold."""
    scores = np.empty(len(Y))
    for train, test in splits:
        ranker.fit(X[train], Y[train], qid=QID[train])
        scores[test] = ranker.predict(X[test])
    return scores


@pytest.mark.parametrize("ranker", [RankRLS(1.0), RankRLS(), RankSVM()], ids=repr)
def test_folds_of_queries_equal_refits(ranker):
    found = cross_validate(ranker, X, Y, qid=QID, cv=3, scoring=["ndcg@10", "disagreement"])
    names = list(dict.fromkeys(QID))
    fold = np.array([names.index(q) % 3 for q in QID])
    splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(3)]
    scores = refits(ranker, splits)
    assert_allclose(found.predictions, scores, atol=1e-8)
    values = ndcg(Y, scores, QID, k=10, per_query=True)
    assert found["ndcg@10"] == pytest.approx(values.mean())
    assert found.standard_errors["ndcg@10"] == pytest.approx(values.standard_error())
    assert found["disagreement"] == pytest.approx(disagreement_error(Y, scores, QID))
    assert_allclose(found.per_query["ndcg@10"].values, values.values)
    assert found.per_query["ndcg@10"].qid.tolist() == names


@pytest.mark.parametrize(
    "rows", [pd.DataFrame(X), pl.DataFrame(X), sp.csr_array(X), X.tolist()], ids=type
)
def test_containers(rows):
    found = cross_validate(RankRLS(1.0), rows, Y, qid=list(QID), cv=GroupKFold(3))
    want = cross_validate(RankRLS(1.0), X, Y, qid=QID, cv=GroupKFold(3))
    assert_allclose(found.predictions, want.predictions)


def test_a_query_that_is_held_out_twice_counts_once():
    splits = list(GroupShuffleSplit(4, test_size=0.4, random_state=0).split(X, Y, QID))
    found = cross_validate(RankRLS(1.0), X, Y, qid=QID, cv=splits, scoring="map")
    assert found.predictions is None
    by_query = {}
    for train, test in splits:
        ranker = RankRLS(1.0).fit(X[train], Y[train], qid=QID[train])
        values = average_precision(Y[test], ranker.predict(X[test]), QID[test], per_query=True)
        for query, value in zip(values.qid, values.values, strict=True):
            by_query.setdefault(query, []).append(value)
    means = {query: np.mean(values) for query, values in by_query.items()}
    found = found.per_query["map"]
    assert dict(zip(found.qid, found.values, strict=True)) == pytest.approx(means)


def test_one_ranking():
    found = cross_validate(Ridge(), X, Y > 0, scoring="auc", cv=3)
    assert found.over == {"auc": "splits"}
    values = []
    for k in range(3):
        test = np.arange(len(Y)) % 3 == k
        predicted = Ridge().fit(X[~test], Y[~test] > 0).predict(X[test])
        values.append(1 - disagreement_error(Y[test] > 0, predicted))
    assert_allclose(found.per_query["auc"].values, values)


PIPELINE = make_pipeline(QueryMinMaxScaler(), RankRLS(1.0))


@pytest.mark.parametrize(
    "ranker",
    [
        PIPELINE,
        RankingSearchCV(PIPELINE, {}, cv=2),
        pytest.param(
            GridSearchCV(PIPELINE, {"rankrls__alpha": [1.0]}, cv=GroupKFold(2)),
            marks=routed_scores,
        ),
    ],
    ids=lambda ranker: type(ranker).__name__,
)
def test_pipelines_and_searches_get_queries(ranker):
    inner = cross_validate(RankRLS(1.0, scale="query-minmax"), X, Y, qid=QID)
    assert_allclose(cross_validate(ranker, X, Y, qid=QID).predictions, inner.predictions)


def test_functions_dictionaries_and_scorers():
    def worst(y, scores, qid):
        return float(ndcg(y, scores, qid, per_query=True).values.min())

    scoring = {"mine": worst, "map": make_ranking_scorer("map")}
    found = cross_validate(RankRLS(1.0), X, Y, qid=QID, cv=3, scoring=scoring)
    assert found.over == {"mine": "splits", "map": "queries"}
    assert len(found.per_query["mine"]) == 3
    assert found.per_query_frame().columns.tolist() == ["map"]
    assert list(cross_validate(RankRLS(1.0), X, Y, qid=QID, scoring=worst).means) == ["worst"]


def test_several_outputs_are_averaged():
    columns = np.column_stack((Y, Y.max() - Y))
    both = cross_validate(RankRLS(1.0), X, columns, qid=QID, scoring="map")
    each = [cross_validate(RankRLS(1.0), X, y, qid=QID, scoring="map") for y in columns.T]
    assert_allclose(both.predictions, np.column_stack([one.predictions for one in each]))
    assert both["map"] == pytest.approx(np.mean([one["map"] for one in each]), abs=0.05)


def test_it_prints_itself_and_compares_rankers():
    good, bad = (
        cross_validate(ranker, X, Y, qid=QID, scoring=["ndcg@10", "disagreement"])
        for ranker in (RankRLS(1.0), make_pipeline(StandardScaler(with_std=False), RankRLS(1e9)))
    )
    assert repr(good).startswith("<CrossValidation of 5 splits: NDCG@10 0.")
    assert "disagreement (lower is better)" in str(good)
    assert "<table>" in good._repr_html_()
    assert good.to_frame().loc["ndcg@10", "values"] == 15
    assert good.per_query_frame().shape == (15, 2)
    tests = good.compare(bad)
    gap = good["disagreement"] - bad["disagreement"]
    assert tests["disagreement"].difference == pytest.approx(gap)
    assert tests["disagreement"].n_queries == 15
    assert good.plot().get_xlabel()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"cv": "leave_pair_out"}, ParameterError, "model_selection.leave_pair_out"),
        ({"cv": 16}, ParameterError, "got 15 queries"),
        ({"cv": KFold(3)}, DataError, "in both train and test"),
        ({"scoring": []}, ParameterError, "scoring is empty"),
        ({"scoring": ["map", "map"]}, ParameterError, "a name twice"),
        ({"scoring": "ndgc"}, ParameterError, "got 'ndgc'"),
        ({"qid": QID[:3]}, DataError, "got 3 for"),
    ],
)
def test_invalid_calls(options, error, message):
    with pytest.raises(error, match=message):
        cross_validate(RankRLS(1.0), X, Y, **{"qid": QID} | options)


def test_a_class_is_refused():
    with pytest.raises(ParameterError, match="estimator must be an object with fit and predict"):
        cross_validate(RankRLS, X, Y, qid=QID)


@pytest.mark.parametrize(
    "ranker", [RankRLS(1.0), RankRLS(), make_pipeline(StandardScaler(), RankRLS(1.0))]
)
def test_weights_of_queries_reach_every_fit(ranker):
    names = list(dict.fromkeys(QID))
    number = np.array([names.index(q) for q in QID])
    weight = np.where(number < 5, 50.0, 1.0)
    found = cross_validate(ranker, X, Y, qid=QID, cv=3, query_weight=weight).predictions
    with sklearn.config_context(enable_metadata_routing=True):
        for fold in range(3):
            train, test = number % 3 != fold, number % 3 == fold
            model = clone(ranker)
            model.fit(X[train], Y[train], qid=QID[train], query_weight=weight[train])
            assert_allclose(found[test], model.predict(X[test]), atol=1e-8)


@pytest.mark.parametrize("alpha", [1.0, "auto"])
def test_weights_of_queries_in_folds_at_random(alpha):
    """Exact hold-outs and refits have the same folds."""
    weight = np.where(np.char.endswith(QID, "1"), 50.0, 1.0)
    given = {"qid": QID, "cv": 3, "random_state": 1}
    ranker = RankRLS(alpha)
    found = cross_validate(ranker, X, Y, query_weight=weight, **given).predictions
    again = cross_validate(make_pipeline(ranker), X, Y, query_weight=weight, **given).predictions
    assert_allclose(found, again, atol=1e-8)
    assert abs(found - cross_validate(ranker, X, Y, **given).predictions).max() > 1e-3


def test_weights_of_queries_need_a_ranker_that_takes_them():
    weight = np.ones(len(Y))
    with pytest.raises(ParameterError, match=r"Ridge.fit takes no query_weight"):
        cross_validate(Ridge(), X, Y, qid=QID, query_weight=weight)
    with pytest.raises(DataError, match="query_weight needs at least two queries"):
        cross_validate(RankRLS(), X, Y, query_weight=weight)
