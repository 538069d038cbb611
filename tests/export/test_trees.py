"""Trees for search engines, against slow evaluators of their formats."""

import json
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rankwise import AutoRanker, BoostedRanker, RankRLS
from rankwise.errors import DataError, ExportError, ParameterError
from rankwise.export import (
    elasticsearch_scores,
    solr_scores,
    to_elasticsearch,
    to_elasticsearch_trained_model,
    to_json,
    to_opensearch,
    to_solr,
    to_vespa,
    vespa_scores,
)
from rankwise.export.trees import below, solr_threshold
from tests.oracles.engine_trees import (
    plugin_score,
    solr_score,
    trained_model_score,
    vespa_score,
    vespa_xgboost_score,
)

pytest.importorskip("lightgbm", reason="BoostedRanker needs lightgbm")
NAMES = ["title", "year", "votes"]
QID = np.repeat(np.arange(20), 10)
to_vespa_xgboost = partial(to_vespa, rank_feature="xgboost")
FORMS = [
    (to_elasticsearch, elasticsearch_scores, plugin_score),
    (to_opensearch, elasticsearch_scores, plugin_score),
    (to_solr, solr_scores, solr_score),
    (to_elasticsearch_trained_model, elasticsearch_scores, trained_model_score),
    (to_vespa, vespa_scores, vespa_score),
    (to_vespa_xgboost, vespa_scores, vespa_xgboost_score),
]
OF_VESPA = (to_vespa, to_vespa_xgboost)


def problem(missing=False):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 8, (200, 3)) / 4.0  # many values are equal to thresholds
    X[:, 1] = np.float32(rng.standard_normal(200))
    y = np.clip(np.round(X[:, 0] + X[:, 1] * (X[:, 2] - 1)), 0, 3)
    if missing:
        X[::5, 0] = np.nan
    return X, y


def boosted(X, y):
    return BoostedRanker(8, min_samples_leaf=5).fit(X, y, qid=QID)


def in_target(export, X):
    names = [f"attribute({name})" for name in NAMES] if export in OF_VESPA else NAMES
    return [dict(zip(names, row, strict=True)) for row in X], dict(zip(names, X.T, strict=True))


@pytest.mark.parametrize(("export", "scores", "oracle"), FORMS)
def test_no_pair_turns(export, scores, oracle):
    X, y = problem()
    ranker = boosted(X, y)
    made = export(ranker, features=NAMES, rows=X, qid=QID)
    assert (made.check.n_lost, made.check.n_rows) == (0, 200)
    rows, columns = in_target(export, X)
    found = scores(made.content, columns)
    assert_allclose(found, [oracle(made.content, row) for row in rows], rtol=1e-6, atol=1e-6)
    assert_allclose(np.diff(found), np.diff(ranker.predict(X)), atol=2e-6)
    assert export(ranker).check.n_lost == 0  # on rows that are drawn
    if export in (to_elasticsearch, to_opensearch):
        assert found.min() >= 0


@given(st.floats(-1e30, 1e30), st.integers(-3, 3))
def test_thresholds_send_the_same_float32_to_the_first_child(at, steps):
    x = np.float32(at)
    for _ in range(abs(steps)):
        x = np.nextafter(x, np.float32(np.inf if steps > 0 else -np.inf))
    assert (x < np.float32(below(at))) == (float(x) <= at)


@pytest.mark.parametrize("at", [0.5, 1e-35, -1e-35, 0.0, -3.0, 1970.5, 1e-7, 1e8])
def test_thresholds_of_solr_undo_what_it_adds(at):
    moved = np.float32(solr_threshold(at)) + np.float32(1e-6)
    assert moved <= np.float64(at) or np.float32(at) == moved
    assert float(moved) == pytest.approx(at, rel=2e-7, abs=2e-13)


@pytest.mark.parametrize(("export", "scores", "oracle"), FORMS)
def test_missing_values_go_where_the_model_sends_them_or_are_refused(export, scores, oracle):
    X, y = problem(missing=True)
    ranker = boosted(X, y)
    if export in (*OF_VESPA, to_elasticsearch_trained_model):
        made = export(ranker, features=NAMES, rows=X, qid=QID)
        rows, columns = in_target(export, X)
        near = {"rtol": 1e-6, "atol": 1e-6} if export is to_elasticsearch_trained_model else {}
        assert_allclose(scores(made.content, columns), ranker.predict(X), **near)
        assert_allclose([oracle(made.content, row) for row in rows], ranker.predict(X), **near)
        return
    with pytest.raises(ExportError, match="learned another side for missing values"):
        export(ranker, rows=X, qid=QID)
    with pytest.raises(DataError, match="The rows have missing values"):
        export(ranker, rows=X, qid=QID, complete=True)
    full = np.nan_to_num(X)
    assert export(ranker, rows=full, qid=QID, complete=True).check.n_lost == 0
    unseen = boosted(full, y)  # a missing value is 0 where training rows had none
    assert export(unseen, rows=X, qid=QID).check.n_lost == 0


@pytest.mark.parametrize(("export", "scores", "oracle"), FORMS)
def test_large_features_are_checked_as_they_are(export, scores, oracle):
    X, y = problem()
    X[:, 0] = 1e9 + np.arange(200)
    y = np.random.default_rng(0).integers(0, 4, 200)
    ranker = boosted(X, y)
    if export is to_vespa:
        assert export(ranker, features=NAMES, rows=X, qid=QID).check.n_lost == 0
        return
    if export is to_vespa_xgboost:
        for given in ({"rows": X, "qid": QID}, {}):
            with pytest.raises(ExportError, match="thresholds in float32: use lightgbm"):
                export(ranker, features=NAMES, **given)
        return
    with pytest.raises(ExportError, match="computes in float32, which is too coarse"):
        export(ranker, rows=X, qid=QID)
    with pytest.raises(ExportError, match="takes features in float32"):
        export(ranker)


def test_a_mean_of_one_ranker_ranks_as_the_ranker():
    X, y = problem()
    trees = BoostedRanker(5, min_samples_leaf=5)
    auto = AutoRanker(candidates=[trees], boosted=False).fit(X, y, qid=QID)
    assert to_solr(auto, rows=X, qid=QID).check.n_lost == 0
    mixed = AutoRanker(candidates=[trees, RankRLS()], boosted=False, n_best=2).fit(X, y, qid=QID)
    if len(mixed.parts_) > 1:
        with pytest.raises(ExportError):
            to_solr(mixed, rows=X, qid=QID)


def test_what_does_not_fit_trees_is_refused():
    X, y = problem()
    ranker = boosted(X, y)
    with pytest.raises(ParameterError, match="trees need none"):
        to_elasticsearch(ranker, normalizers=True)
    with pytest.raises(ExportError, match="trees"):
        to_json(ranker)
    linear = RankRLS().fit(X, y, qid=QID)
    with pytest.raises(ExportError, match="is written from trees: fit a BoostedRanker"):
        to_elasticsearch_trained_model(linear)
    with pytest.raises(ParameterError, match="rank_feature is for trees"):
        to_vespa(linear, features=NAMES, rank_feature="xgboost")
    with pytest.raises(ParameterError, match="rank_feature"):
        to_vespa(ranker, features=NAMES, rank_feature="catboost")
    pipeline = make_pipeline(StandardScaler(), BoostedRanker(3)).fit(X, y, boostedranker__qid=QID)
    for refused in (to_elasticsearch, to_solr, to_vespa, to_elasticsearch_trained_model):
        with pytest.raises(ExportError, match="other steps come before the trees of this Boosted"):
            refused(pipeline)
    with pytest.raises(ExportError, match="not a rank feature of Vespa"):
        to_vespa(ranker, features=["a title", "year", "votes"])


def test_names_and_bodies():
    X, y = problem()
    X[:, 2] = 0.0  # never used
    ranker = boosted(X, y)
    body = json.loads(to_solr(ranker, features=NAMES, name="m", store="s", rows=X).content)
    assert [feature["name"] for feature in body["features"]] == ["title", "year"]
    assert (body["name"], body["store"]) == ("m", "s")
    body = json.loads(to_elasticsearch(ranker, features=NAMES, name="m", rows=X).content)
    assert body["model"]["model"]["type"] == "model/xgboost+json"
    low = to_elasticsearch(ranker, rows=X, positive=False)
    assert elasticsearch_scores(low.content, {f"f{k + 1}": X[:, k] for k in range(3)}).min() < 0
