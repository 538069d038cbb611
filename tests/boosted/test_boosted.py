"""BoostedRanker: the number of trees, the forms of rows, model files, and its messages."""

import json
import pickle
import zipfile

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from rankwise import BoostedOptions, BoostedRanker, load_model, save_model
from rankwise.boosted.boosted_ranker import deal_into_folds
from rankwise.data import make_ranking
from rankwise.errors import (
    DataError,
    MissingExtraError,
    ModelFileError,
    ParameterError,
    RankwiseWarning,
)
from rankwise.graph import QueryGroups
from rankwise.metrics import ndcg
from rankwise.objectives import RankRLSObjective

lightgbm = pytest.importorskip("lightgbm", reason="BoostedRanker needs lightgbm")

FAST = {"learning_rate": 0.3, "max_leaf_nodes": 4, "min_samples_leaf": 5}


@pytest.fixture(scope="module")
def data():
    return make_ranking(20, rows_per_query=12, n_features=4, n_levels=3, random_state=0)


@pytest.fixture(scope="module")
def fitted(data):
    return BoostedRanker(**FAST).fit(data.X, data.y, qid=data.qid)


def test_scores_are_those_of_lightgbm_with_the_same_objective(data):
    objective = RankRLSObjective("exclude", "queries")
    ranker = BoostedRanker(7, ties="exclude", weighting="queries", l2_regularization=0.0, **FAST)
    ranker.fit(data.X, data.y, qid=data.qid)
    settings = {
        "objective": objective.lightgbm, "learning_rate": 0.3, "num_leaves": 4,
        "min_data_in_leaf": 5, "lambda_l2": 0.0, "verbosity": -1, "num_threads": 1,
    }  # fmt: skip
    sizes = np.full(20, 12)
    want = lightgbm.train(settings, lightgbm.Dataset(data.X, data.y, group=sizes), 7)
    assert_allclose(ranker.predict(data.X), want.predict(data.X), rtol=1e-5)


def test_the_number_of_trees_is_that_of_a_manual_loop(data, fitted):
    folds, _ = deal_into_folds(data.y, QueryGroups.of(data.qid), 5)
    queries = [set(data.qid[folds == k]) for k in range(5)]
    assert sum(map(len, queries)) == 20  # whole queries
    curve = fitted.held_out_scores_
    for n in (1, 3):
        scores = np.empty(len(data.y))
        for k in range(5):
            train, test = folds != k, folds == k
            part = BoostedRanker(n, **FAST).fit(data.X[train], data.y[train], qid=data.qid[train])
            scores[test] = part.predict(data.X[test])
        # Bins of features are made from all rows, so that thresholds differ a little.
        assert_allclose(curve[n - 1], ndcg(data.y, scores, data.qid, k=10), atol=0.02)
    assert fitted.metric_ == "ndcg@10"
    assert fitted.n_estimators_ == np.argmax(curve) + 1 == fitted.booster_.num_trees()
    assert len(curve) == fitted.n_estimators_ + 50
    again = BoostedRanker(fitted.n_estimators_, **FAST).fit(data.X, data.y, qid=data.qid)
    assert again.held_out_scores_ is None
    assert_array_equal(again.predict(data.X), fitted.predict(data.X))


def test_held_out_predictions_for_several_numbers_of_trees(data, fitted):
    folds, _ = deal_into_folds(data.y, QueryGroups.of(data.qid), 5)
    shuffle = np.random.default_rng(0).permutation(len(data.y))
    X, y, qid = data.X[shuffle], data.y[shuffle], data.qid[shuffle]
    for rows in (np.arange(len(y)), np.argsort(qid, kind="stable")):
        numbers, predictions = BoostedRanker(**FAST).held_out_predictions(
            X[rows], y[rows], fold=folds[shuffle][rows], qid=qid[rows]
        )
        assert numbers[:3].tolist() == [1, 2, 3]
        assert predictions.shape == (len(numbers), len(y))
        # Ties between rows of a leaf, and sums of gradients, depend a little on their order.
        for n, scores in zip(numbers[:5], predictions, strict=False):
            value = ndcg(y[rows], scores, qid[rows], k=10)
            assert_allclose(value, fitted.held_out_scores_[n - 1], atol=0.02)


def test_held_out_predictions_of_one_ranking(data):
    fold = np.arange(len(data.y)) % 4
    X = data.y[:, None] + 0.1 * data.X[:, :1]
    _, predictions = BoostedRanker(**FAST).held_out_predictions(X, data.y, fold=fold)
    assert all(
        np.corrcoef(predictions[-1][fold == k], data.y[fold == k])[0, 1] > 0.9 for k in range(4)
    )


def test_limits_and_metrics_of_the_choice(data):
    ranker = BoostedRanker(
        metric="disagreement", options=BoostedOptions(max_estimators=3, cv=2), **FAST
    )
    curve = ranker.fit(data.X, data.y, qid=data.qid).held_out_scores_
    assert len(curve) == 3
    assert ranker.n_estimators_ == np.argmin(curve) + 1


def test_random_splits(data, tmp_path):
    options, rows = BoostedOptions(random_splits=True), (data.X, data.y)
    fits = [
        BoostedRanker(20, options=options, random_state=seed, **FAST).fit(*rows, qid=data.qid)
        for seed in (0, 0, 1)
    ]
    usual = BoostedRanker(20, random_state=0, **FAST).fit(*rows, qid=data.qid)
    first, again, other, usual = (one.predict(data.X) for one in (*fits, usual))
    assert_allclose(first, again, rtol=0)
    assert not np.allclose(first, other)
    assert not np.allclose(first, usual)
    assert np.corrcoef(first, usual)[0, 1] > 0.8
    save_model(fits[0], tmp_path / "trees.rankwise")
    assert load_model(tmp_path / "trees.rankwise").options == options
    with pytest.raises(ParameterError, match="random_splits"):
        BoostedRanker(options=BoostedOptions(random_splits=2)).fit(*rows, qid=data.qid)


def test_interactions_that_a_linear_ranker_cannot_see():
    rng = np.random.default_rng(0)
    X, qid = rng.choice([-1.0, 1.0], (600, 3)), np.arange(600) % 30
    y = X[:, 0] * X[:, 1]
    X += 0.1 * rng.standard_normal(X.shape)
    ranker = BoostedRanker(60, **FAST).fit(X, y, qid=qid)
    assert ranker.score(X, y, qid=qid) > 0.95
    assert ranker.feature_importances_.argmin() == 2
    assert_allclose(ranker.feature_importances_.sum(), 1.0)


def test_one_ranking_and_few_rows(data):
    one = BoostedRanker(options=BoostedOptions(max_estimators=5), **FAST).fit(data.X, data.y)
    assert one.metric_ == "disagreement"
    assert one.held_out_scores_.max() < 0.5
    few = BoostedRanker().fit([[0.0], [1.0], [2.0]], [0, 1, 2])
    assert few.held_out_scores_ is None
    assert few.n_estimators_ == 100
    assert few.score([[0.0], [1.0], [2.0]], [0, 1, 2]) == 1.0


def test_folds_of_the_rows_of_one_query_have_different_labels():
    y = np.array([5.0, 5, 5, 0, 0, 0, 7])
    groups = QueryGroups.of([1, 1, 1, 1, 1, 1, 2])
    fold, queries = deal_into_folds(y, groups, 5)
    assert fold[6] == -1
    assert fold.max() == 2
    assert all(len(set(y[fold == k])) == 2 for k in range(3))
    assert_array_equal(queries, fold)
    assert deal_into_folds(np.array([0.0, 0, 0, 1]), QueryGroups.of(None, 4), 2)[0] is None


def test_forms_of_rows(data, fitted):
    want = fitted.predict(data.X)
    names = list("abcd")
    order = np.random.default_rng(1).permutation(len(data.y))
    frame = pd.DataFrame(data.X, columns=names)
    named = BoostedRanker(fitted.n_estimators_, **FAST).fit(
        frame.iloc[order], data.y[order], qid=[f"query {q}" for q in data.qid[order]]
    )
    assert named.feature_names_in_.tolist() == names
    assert_allclose(named.predict(frame), want, rtol=1e-5)
    with pytest.raises(ValueError, match="feature names"):
        named.predict(frame.rename(columns={"a": "e"}))
    for kind in (sp.csr_matrix, sp.csc_array):
        sparse = BoostedRanker(**FAST).fit(kind(data.X), data.y, qid=data.qid)
        assert_allclose(sparse.predict(kind(data.X)), want, rtol=1e-5)
    narrow = BoostedRanker(**FAST).fit(data.X.astype(np.float32), data.y, qid=data.qid)
    assert narrow.predict(data.X.astype(np.float32)).dtype == np.float32


def test_missing_values_are_a_value_of_their_own():
    X = np.array([[np.nan], [0.0], [1.0]] * 20)
    y, qid = np.array([2.0, 0.0, 1.0] * 20), np.repeat(np.arange(20), 3)
    ranker = BoostedRanker(20, learning_rate=0.3).fit(X, y, qid=qid)
    assert ranker.score(X, y, qid=qid) == 1.0
    with pytest.raises(ValueError, match="infinity"):
        ranker.predict([[np.inf]])


def test_threads_and_seeds(data):
    one = BoostedRanker(5, max_features=0.5, random_state=3, **FAST)
    one.fit(data.X, data.y, qid=data.qid)
    two = BoostedRanker(5, max_features=0.5, random_state=3, n_jobs=2, **FAST)
    two.fit(data.X, data.y, qid=data.qid)
    assert_allclose(one.predict(data.X), two.predict(data.X))
    other = BoostedRanker(5, max_features=0.5, random_state=4, **FAST)
    other.fit(data.X, data.y, qid=data.qid)
    assert not np.allclose(one.predict(data.X), other.predict(data.X))


def test_more_threads_than_processors_are_not_asked_for(data):
    """OpenMP ended the process, without an error that could be caught."""
    ranker = BoostedRanker(5, **FAST).fit(data.X, data.y, qid=data.qid)
    scores = ranker.predict(data.X)
    ranker.set_params(n_jobs=2**31 - 1)
    assert_allclose(ranker.predict(data.X), scores)
    assert_allclose(ranker.fit(data.X, data.y, qid=data.qid).predict(data.X), scores)


def test_lambdarank(data):
    ranker = BoostedRanker(5, loss="lambdarank", **FAST).fit(data.X, data.y, qid=data.qid)
    assert ranker.score(data.X, data.y, qid=data.qid) > 0.8
    peer = lightgbm.LGBMRanker(
        n_estimators=5, learning_rate=0.3, num_leaves=4, min_child_samples=5, reg_lambda=1.0,
        n_jobs=1, verbose=-1,
    ).fit(data.X, data.y, group=np.full(20, 12))  # fmt: skip
    assert_allclose(ranker.predict(data.X), peer.booster_.predict(data.X), rtol=1e-5)


def test_pickles_and_model_files(data, fitted, tmp_path):
    copy = pickle.loads(pickle.dumps(fitted))
    read = load_model(save_model(fitted, tmp_path / "boosted.rankwise"))
    for same in (copy, read):
        assert_array_equal(same.predict(data.X), fitted.predict(data.X))
        assert_allclose(same.feature_importances_, fitted.feature_importances_)
        assert same.n_estimators_ == fitted.n_estimators_


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("max_feature_idx=3", "max_feature_idx=4"),
        ("num_class=1", "num_class=2"),
        ("left_child=", "left_child=9 "),
        ("left_child=1 ", "left_child=7 "),
        ("split_feature=", "split_feature=5 "),
        ("leaf_value=", "leaf_value=nan "),
        ("num_cat=0", "num_cat=1"),
        ("num_leaves=4", "num_leaves=400"),
        ("num_leaves=4", "num_leaves=4\nnum_leaves=4"),
        ("tree_sizes=", "tree_sizes=9"),
        ("is_linear=0", "is_linear=1"),
        ("end of trees", "end of tree"),
    ],
)
def test_damaged_trees_are_refused(fitted, tmp_path, old, new):
    path = save_model(fitted, tmp_path / "boosted.rankwise")
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    tree = json.loads(members["model.json"])
    state = tree["model"]["ranker"]["fitted"]
    assert old in state["trees_"]
    state["trees_"] = state["trees_"].replace(old, new)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, json.dumps(tree) if name == "model.json" else content)
    with pytest.raises(ModelFileError):
        load_model(path)


def test_trees_without_a_split_give_a_warning():
    with pytest.warns(RankwiseWarning, match="No tree has a split"):
        ranker = BoostedRanker(3).fit(np.ones((8, 2)), np.arange(8) % 2)
    assert np.ptp(ranker.predict(np.ones((3, 2)))) == 0


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda X, y: BoostedRanker().fit(X, np.ones(4)), DataError, "No query has two different"),
        (
            lambda X, y: BoostedRanker().fit(X, y, qid=[1, 2, 3, 4]),
            DataError,
            "Every query has a single row",
        ),
        (lambda X, y: BoostedRanker(2).fit(X, 1e300 * y), DataError, "labels are too large"),
        (lambda X, y: BoostedRanker(2).fit(0 * X, y), DataError, "All features are zero"),
        (lambda X, y: BoostedRanker().fit(1e-300 * X, y), DataError, "All features are zero"),
        (
            lambda X, y: BoostedRanker(loss="lambdarank").fit(
                np.tile(X, (2501, 1)), np.tile(y, 2501)
            ),
            DataError,
            "got 10,004. Use",
        ),
        (
            lambda X, y: BoostedRanker(loss="lambdarank").fit(X, y / 2),
            DataError,
            "got 0.5 in row 1",
        ),
        (
            lambda X, y: BoostedRanker(loss="lambdarank", ties="exclude").fit(X, y),
            ParameterError,
            'are for loss="rankrls"',
        ),
        (lambda X, y: BoostedRanker("all").fit(X, y), ParameterError, "n_estimators must be"),
        (lambda X, y: BoostedRanker(0).fit(X, y), ParameterError, "n_estimators must be"),
        (lambda X, y: BoostedRanker(metric="ndgc").fit(X, y), ParameterError, "metric must be one"),
        (lambda X, y: BoostedRanker(loss="rank").fit(X, y), ParameterError, "loss must be one of"),
    ],
)
def test_messages(call, error, message):
    with pytest.raises(error, match=message):
        call(np.arange(8.0).reshape(4, 2), np.arange(4.0))


def test_a_missing_extra_names_the_command(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "lightgbm", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'rankwise\[boost\]'"):
        BoostedRanker(2).fit([[0.0], [1.0]], [0, 1])


@pytest.mark.parametrize("loss", ["rankrls", "lambdarank"])
def test_monotone_features_never_turn_the_score(loss):
    data = make_ranking(30, rows_per_query=10, n_features=3, n_levels=3, random_state=0)
    signs = {0: -1, 1: 1}
    ranker = BoostedRanker(20, loss=loss, monotone=signs, min_samples_leaf=5)
    ranker.fit(data.X, data.y, qid=data.qid)
    for j, sign in signs.items():
        grid = np.tile(data.X[:1], (10_000, 1))
        grid[:, j] = np.linspace(data.X.min(), data.X.max(), 10_000)
        assert (sign * np.diff(ranker.predict(grid)) >= 0).all()
    with pytest.raises(ParameterError, match="X has no names"):
        BoostedRanker(2, monotone={"price": 1}).fit(data.X, data.y)


def test_options_have_rules_and_advice():
    with pytest.raises(TypeError, match=r"Use options=BoostedOptions\(max_estimators="):
        BoostedRanker(max_estimators=3)
    with pytest.raises(ParameterError, match="cv must be an integer of at least 2"):
        BoostedRanker(options=BoostedOptions(cv=1)).fit([[0.0], [1.0]], [0, 1])
