"""Pipelines, meta-estimators and rankers of other libraries in RankingSearchCV."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import AdaBoostRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import (
    LeaveOneGroupOut,
    ParameterGrid,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from rankwise import RLS, RankingSearchCV, RankRLS
from rankwise.metrics import disagreement_error, get_metric
from tests.model_selection.searches import (
    ALPHAS,
    NAMES,
    QUERIES,
    check_against,
    folds_of_queries,
    leave_queries_out,
    naive,
    split_scores,
)

IN_A_PIPELINE = pytest.mark.parametrize(
    "pipeline", [False, pytest.param(True, marks=[pytest.mark.slow, pytest.mark.ci])]
)


class CountsFits(BaseEstimator, TransformerMixin):
    """Records the queries of every fit, over all clones."""

    __metadata_request__fit = {"qid": True}  # noqa: RUF012
    fits = []  # noqa: RUF012

    def fit(self, X, y=None, qid=None):
        self.fits.append(qid)
        return self

    def transform(self, X):
        return X

    def __sklearn_is_fitted__(self):
        return True


def test_pipelines_fit_their_transformers_without_the_held_out_rows(problem):
    X, y, qid = problem
    X = X * [1.0, 10.0, 100.0]
    pipeline = make_pipeline(StandardScaler(), RankRLS())
    grid = {"rankrls__alpha": ALPHAS, "standardscaler__with_std": [True, False]}
    for cv, tests in ((3, folds_of_queries(qid, 3)), ("leave_query_out", leave_queries_out(qid))):
        search = RankingSearchCV(pipeline, grid, cv=cv).fit(X, y, qid=qid)
        check_against(search, *naive(pipeline, grid, X, y, qid, tests))
        assert search.best_estimator_[-1].n_queries_ == 6


@pytest.mark.parametrize("routing", [True, False])
def test_pipelines_fit_once_for_all_alphas_and_pass_qid_to_steps_that_request_it(problem, routing):
    X, y, qid = problem
    pipeline = make_pipeline(CountsFits(), RankRLS())
    CountsFits.fits.clear()
    with sklearn.config_context(enable_metadata_routing=routing):
        RankingSearchCV(pipeline, {"rankrls__alpha": ALPHAS}, cv=3).fit(X, y, qid=qid)
    assert len(CountsFits.fits) == 3 + 1
    assert [len(np.unique(qid)) for qid in CountsFits.fits] == [4, 4, 4, 6]


def test_steps_of_a_pipeline_may_be_replaced(problem):
    X, y, qid = problem
    pipeline = make_pipeline(StandardScaler(), RankRLS())
    grid = [
        {"rankrls": [RankRLS(), RLS()], "rankrls__alpha": ALPHAS},
        {"rankrls": [Ridge(), DummyRegressor()], "standardscaler": ["passthrough"]},
    ]
    search = RankingSearchCV(pipeline, grid, cv=2).fit(X, y, qid=qid)
    scores = search.cv_results_["mean_test_score"]
    assert len(scores) == 8
    assert scores[-1] == pytest.approx(-0.5)
    alone = RankingSearchCV(Ridge(), {}, cv=2).fit(X, y, qid=qid)
    assert scores[-2] == pytest.approx(alone.best_score_)


@pytest.mark.parametrize(
    "estimator",
    [Ridge(), AdaBoostRegressor(n_estimators=2), make_pipeline(StandardScaler(), Ridge())],
)
def test_regressors_get_no_queries_but_whole_queries_are_held_out(problem, estimator):
    X, y, qid = problem
    search = RankingSearchCV(estimator, {}, cv=LeaveOneGroupOut()).fit(X, y, qid=qid)
    tests = [np.flatnonzero(qid == q) for q in sorted(QUERIES)]
    for test, score in zip(tests, split_scores(search)[0], strict=True):
        rest = np.setdiff1d(np.arange(len(y)), test)
        if isinstance(estimator, AdaBoostRegressor):
            continue  # not deterministic
        f = clone(estimator).fit(X[rest], y[rest]).predict(X[test])
        if len(np.unique(y[test])) > 1:
            assert score == pytest.approx(-disagreement_error(y[test], f))
        else:
            assert np.isnan(score)


def test_meta_estimators_around_a_ranker_get_qid(problem):
    X, y, qid = problem
    wrapped = TransformedTargetRegressor(RankRLS(), func=np.negative, inverse_func=np.negative)
    grid = {"regressor__alpha": ALPHAS}
    search = RankingSearchCV(wrapped, grid, cv=3).fit(X, y, qid=qid)
    check_against(search, *naive(wrapped, grid, X, y, qid, folds_of_queries(qid, 3)))
    assert search.best_estimator_.regressor_.n_queries_ == 6


def check_library(make, grid, metadata, problem, pipeline):
    """Compare unsorted queries with string ids with refits on sorted rows."""
    X, y, qid = problem
    estimator = make()
    if pipeline:
        grid = {f"{type(estimator).__name__.lower()}__{name}": v for name, v in grid.items()}
        estimator = make_pipeline(FunctionTransformer(), estimator)
    search = RankingSearchCV(estimator, grid, cv=3, scoring="ndcg@5").fit(X, y, qid=NAMES[qid])
    tests = folds_of_queries(qid, 3)
    for k, params in enumerate(ParameterGrid(grid)):
        params = {name.split("__")[-1]: value for name, value in params.items()}
        for s, test in enumerate(tests):
            rest = np.setdiff1d(np.arange(len(y)), test)
            names = list(dict.fromkeys(qid[rest].tolist()))
            rest = np.concatenate([rest[qid[rest] == q] for q in names])
            ranker = make().set_params(**params).fit(X[rest], y[rest], **metadata(qid[rest]))
            want = get_metric("ndcg@5").function(y[test], ranker.predict(X[test]), qid[test])
            assert split_scores(search)[k, s] == pytest.approx(want)
    assert np.isfinite(search.predict(X)).all()
    for cv, queries in (("leave_query_out", NAMES[qid]), (2, None)):
        clone(search).set_params(cv=cv).fit(X, y, qid=queries)
    frame = pd.DataFrame(X, columns=list("abc"))
    framed = clone(search).fit(frame, pd.Series(y), qid=pd.Series(NAMES[qid]))
    assert_allclose(split_scores(framed), split_scores(search))


def sizes(qid):
    return np.diff(np.r_[np.flatnonzero(np.r_[True, qid[1:] != qid[:-1]]), len(qid)])


@IN_A_PIPELINE
def test_rankers_of_xgboost(problem, pipeline):
    xgboost = pytest.importorskip("xgboost")

    def make():
        return xgboost.XGBRanker(n_estimators=3, objective="rank:ndcg", n_jobs=1)

    grid = {"max_depth": [1, 3], "learning_rate": [0.3]}
    check_library(make, grid, lambda q: {"group": sizes(q)}, problem, pipeline)


# LightGBM 4.6 gives names to the columns of arrays, and warns when it predicts other arrays.
@pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")
@IN_A_PIPELINE
def test_rankers_of_lightgbm(problem, pipeline):
    lightgbm = pytest.importorskip("lightgbm")

    def make():
        return lightgbm.LGBMRanker(n_estimators=3, min_child_samples=2, n_jobs=1, verbose=-1)

    check_library(make, {"num_leaves": [2, 5]}, lambda q: {"group": sizes(q)}, problem, pipeline)


@IN_A_PIPELINE
def test_rankers_of_catboost(problem, pipeline):
    catboost = pytest.importorskip("catboost")

    def make():
        return catboost.CatBoostRanker(
            iterations=3, loss_function="QueryRMSE", thread_count=1, random_seed=0, verbose=False,
            allow_writing_files=False,
        )  # fmt: skip

    check_library(make, {"depth": [1, 3]}, lambda q: {"group_id": q}, problem, pipeline)
