"""The loss of RankRLS in LightGBM, XGBoost and CatBoost."""

import pickle
from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose

from rankwise.data import make_ranking
from rankwise.errors import DataError, ParameterError
from rankwise.objectives import RankRLSObjective
from tests.oracles.boosting import central_differences, pair_loss, second_differences
from tests.oracles.laplacian import pair_weights
from tests.strategies import problems, ties, weightings

WEIGHTINGS = ["pairs", "rows", "queries"]


@given(problems(max_rows=12), ties, weightings)
def test_derivatives_are_those_of_the_loss(problem, ties, weighting):
    y, qid, f = problem.y, problem.qid, problem.X[:, 0]

    def loss(scores):
        return pair_loss(scores, y, qid, ties, weighting)

    rows = RankRLSObjective(ties, weighting).on_rows(y, qid)
    gradient, hessian = rows(y, f)
    assert_allclose(gradient, central_differences(loss, f), atol=1e-9)
    assert_allclose(hessian, second_differences(loss, f), atol=1e-4)  # 0 becomes a little more
    assert (hessian > 0).all()
    total = pair_weights(y, qid, ties, weighting).sum() / 2
    if total:
        assert_allclose(rows.loss(f), loss(f) / total)
    else:
        with pytest.raises(DataError, match="loss is undefined"):
            rows.loss(f)


@pytest.fixture
def data():
    found = make_ranking(12, rows_per_query=8, n_features=3, n_levels=3, random_state=0)
    # Queries of different sizes, one of them a single row.
    keep = np.delete(np.arange(96), [1, 2, 3, 4, 5, 6, 7, 30, 50, 51])
    return found.X[keep], found.y[keep], np.asarray(found.qid)[keep]


def sizes_of(qid):
    return np.unique(qid, return_counts=True)[1]


@pytest.mark.filterwarnings("ignore:The argument 'eval_set'")  # older versions have only that
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")  # arrays in LightGBM 4.6
@pytest.mark.parametrize("ties", ["include", "exclude"])
@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_lightgbm(data, ties, weighting):
    lightgbm = pytest.importorskip("lightgbm")
    X, y, qid = data
    loss = RankRLSObjective(ties, weighting)
    rows = loss.on_rows(y, qid)
    seen = {}
    common = {"num_leaves": 4, "min_data_in_leaf": 2, "verbosity": -1, "num_threads": 1}
    train = lightgbm.Dataset(X, y, group=sizes_of(qid))
    native = lightgbm.train(
        {**common, "objective": loss.lightgbm}, train, num_boost_round=4, valid_sets=[train],
        feval=loss.lightgbm_metric, callbacks=[lightgbm.record_evaluation(seen)],
    )  # fmt: skip
    ranker = lightgbm.LGBMRanker(objective=loss.lgbm_ranker, n_estimators=4, **common)
    ranker.fit(
        X, y, group=sizes_of(qid), eval_set=[(X, y)], eval_group=[sizes_of(qid)],
        eval_metric=loss.lgbm_ranker_metric,
    )  # fmt: skip
    regressor = lightgbm.LGBMRegressor(objective=rows, n_estimators=4, **common).fit(X, y)
    scores = native.predict(X)
    assert_allclose(ranker.predict(X), scores)
    assert_allclose(regressor.predict(X), scores)
    for curve in (seen["training"]["rankrls"], ranker.evals_result_["training"]["rankrls"]):
        assert_allclose(curve[-1], rows.loss(scores), rtol=1e-5)
        assert (np.diff(curve) < 0).all()


@pytest.mark.parametrize("ties", ["include", "exclude"])
@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_xgboost(data, ties, weighting):
    xgboost = pytest.importorskip("xgboost")
    X, y, qid = data
    loss = RankRLSObjective(ties, weighting)
    rows = loss.on_rows(y, qid)
    common = {"max_depth": 2, "min_child_weight": 0, "nthread": 1, "eta": 0.3}
    seen = {}
    train = xgboost.DMatrix(X, y, qid=qid)
    native = xgboost.train(
        {**common, "disable_default_eval_metric": 1}, train, num_boost_round=4, obj=loss.xgboost,
        evals=[(train, "train")], custom_metric=loss.xgboost_metric, evals_result=seen,
        verbose_eval=False,
    )  # fmt: skip
    scores = native.predict(train, output_margin=True)
    assert_allclose(seen["train"]["rankrls"][-1], rows.loss(scores), rtol=1e-4)
    assert (np.diff(seen["train"]["rankrls"]) < 0).all()
    shuffled = np.random.default_rng(0).permutation(len(y))
    regressor = xgboost.XGBRegressor(
        objective=loss.on_rows(y[shuffled], qid[shuffled]), n_estimators=4, base_score=0.0,
        **common,
    ).fit(X[shuffled], y[shuffled])  # fmt: skip
    in_turn = regressor.predict(X)
    assert_allclose(in_turn - in_turn[0], scores - scores[0], atol=1e-4)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_catboost(data, weighting):
    catboost = pytest.importorskip("catboost")
    X, y, qid = data
    scores = np.random.default_rng(1).standard_normal(len(y))
    loss = RankRLSObjective(weighting=weighting)
    weights = loss.catboost_weights(qid)
    # Trees that change next to nothing, so that the metric is that of the scores.
    pool = catboost.Pool(X, y, group_id=qid, group_weight=weights, baseline=scores)
    model = catboost.CatBoostRanker(
        loss_function="QueryRMSE", iterations=1, learning_rate=1e-6, depth=1, verbose=False,
        allow_writing_files=False, thread_count=1, random_seed=0,
    ).fit(pool)  # fmt: skip
    (found,) = model.get_evals_result()["learn"]["QueryRMSE"]
    rows = loss.on_rows(y, qid)
    total = rows.graph.degrees.sum() / 2
    assert_allclose(found**2 * weights.sum(), rows.loss(scores) * total, rtol=1e-4)


def test_rows_are_looked_up_once_and_do_not_travel(data):
    _, y, qid = data
    loss = RankRLSObjective("exclude")
    first = loss._rows(y, None, sizes_of(qid))
    assert loss._rows(y.copy(), None, sizes_of(qid)) is first
    assert loss._rows(y, None, None) is not first
    for _ in range(10):
        loss._rows(np.random.default_rng(0).permutation(y), None, None)
    for copy in (deepcopy(loss), pickle.loads(pickle.dumps(loss))):
        assert copy == loss
        assert not copy._recent


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: RankRLSObjective("drop"), "ties must be one of"),
        (lambda: RankRLSObjective(weighting="row"), "Did you mean 'rows'"),
        (lambda: RankRLSObjective("exclude").catboost_weights([1, 1]), "not possible in CatBoost"),
    ],
)
def test_invalid_parameters(call, message):
    with pytest.raises(ParameterError, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda loss: loss.on_rows([1, 2], [1]), "qid needs one entry per row"),
        (lambda loss: loss.on_rows([[1, 2]]), "one label per row"),
        (lambda loss: loss.on_rows([1, 2])([1, 2, 3], [0, 0, 0]), "made for 2 rows: got 3"),
        (lambda loss: loss.lgbm_ranker([1, 2], [0, 0], [1, 1], [2]), "weights of rows"),
        (lambda loss: loss.lgbm_ranker([1, 1, 2], [0, 0, 0], None, [2, 1]), "No query has two"),
    ],
)
def test_invalid_data(call, message):
    with pytest.raises(DataError, match=message):
        call(RankRLSObjective())
