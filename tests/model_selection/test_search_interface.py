"""What RankingSearchCV takes and gives: scorers, results, containers, routing."""

import io
import pickle
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
import sklearn
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    GroupShuffleSplit,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.metadata_routing import get_routing_for_object

from rankwise import RLS, RankingSearchCV, RankRLS, SparseRankRLS, load_model, save_model
from rankwise.data import make_ranking
from rankwise.errors import DataError
from rankwise.model_selection import leave_query_out
from rankwise.model_selection.search import candidate_names
from tests.model_selection.searches import (
    ALPHAS,
    NAMES,
    folds_of_queries,
    split_scores,
)


def test_functions_score_splits(problem):
    X, y, qid = problem
    calls = []

    def squared_error(labels, scores, queries):
        calls.append(queries)
        return -np.mean((labels - scores) ** 2)

    search = RankingSearchCV(RLS(), {"alpha": ALPHAS}, scoring=squared_error, cv=3)
    search.fit(X, y, qid=NAMES[qid])
    found = leave_query_out(RLS(), X, y, qid=qid, alphas=ALPHAS, n_splits=3)
    tests = folds_of_queries(qid, 3)
    errors = (y - found.predictions) ** 2
    want = np.column_stack([-errors[:, test].mean(axis=1) for test in tests])
    assert_allclose(split_scores(search), want)
    assert_allclose(search.cv_results_["mean_test_score"], want.mean(axis=1))  # 2 queries each
    assert set(calls[0]) == set(NAMES[qid[tests[0]]])
    assert search.score(X, y, qid=qid) == pytest.approx(-((y - search.predict(X)) ** 2).mean())
    # A function may be defined for queries without a pair.
    alone = RankingSearchCV(RLS(), {"alpha": ALPHAS}, scoring=squared_error)
    alone.fit(X[:9], y[:9], qid=np.arange(9))
    assert alone.n_splits_ == 9


def test_functions_get_qid_none_for_a_global_ranking(problem):
    X, y, _ = problem

    def score(labels, scores, qid):
        assert qid is None
        return np.float32(0.5)

    search = RankingSearchCV(RankRLS(), {"alpha": ALPHAS}, scoring=score, cv=2).fit(X, y)
    assert search.best_score_ == 0.5
    assert search.best_index_ == 0
    assert search.cv_results_["rank_test_score"].tolist() == [1, 1, 1]


def test_results_have_the_form_of_scikit_learn(problem):
    X, y, qid = problem
    grid = [
        {"alpha": ALPHAS, "kernel": ["linear", RBF()]},
        {"kernel": ["rbf"], "gamma": [0.5, None], "degree": [2]},
    ]
    ours = RankingSearchCV(RankRLS(), grid, cv=GroupKFold(3)).fit(X, y, qid=qid).cv_results_
    with sklearn.config_context(enable_metadata_routing=True):
        theirs = GridSearchCV(RankRLS(), grid, cv=GroupKFold(3)).fit(X, y, qid=qid, groups=qid)
    theirs = theirs.cv_results_
    assert list(ours) == list(theirs)
    assert ours["params"] == theirs["params"]
    for name in ours:
        if name.startswith("param_"):
            assert ours[name].dtype == theirs[name].dtype
            assert ours[name].mask.tolist() == theirs[name].mask.tolist()
            assert ours[name].tolist() == theirs[name].tolist()
        elif name.startswith("split"):
            assert_allclose(ours[name], theirs[name] - 1)  # their score is 1 - disagreement
        elif name != "params":
            assert ours[name].shape == theirs[name].shape
            assert ours[name].dtype == theirs[name].dtype
    assert min(ours["mean_fit_time"]) >= 0
    assert pd.DataFrame(ours).shape == (8, len(ours))


def test_folds_are_weighted_by_their_number_of_queries(problem):
    X, y, qid = problem
    search = RankingSearchCV(RankRLS(), {}, cv=4).fit(X, y, qid=qid)  # 2, 2, 1 and 1 queries
    scores, (mean,) = split_scores(search)[0], search.cv_results_["mean_test_score"]
    pure = list(dict.fromkeys(qid.tolist())).index(4)  # has a single label
    weights = np.array([2.0, 2.0, 1.0, 1.0])
    weights[pure % 4] -= 1
    defined = weights > 0
    assert np.isnan(scores).tolist() == (~defined).tolist()
    assert mean == pytest.approx(np.average(scores[defined], weights=weights[defined]))
    variance = np.average((scores[defined] - mean) ** 2, weights=weights[defined])
    assert search.cv_results_["std_test_score"][0] == pytest.approx(np.sqrt(variance))


@pytest.mark.slow
def test_parallel_and_serial_searches_agree(problem):
    X, y, qid = problem
    grid = {"alpha": ALPHAS, "kernel": ["linear", "rbf"], "scale": [None]}
    for backend, cv in (
        ("loky", "leave_query_out"),
        ("loky", GroupKFold(2)),
        ("threading", 2),
        ("threading", "leave_pair_out"),
    ):
        serial = RankingSearchCV(RankRLS(), grid, cv=cv).fit(X, y, qid=qid)
        with parallel_config(backend):
            parallel = RankingSearchCV(RankRLS(), grid, cv=cv, n_jobs=2).fit(X, y, qid=qid)
        for name in ("mean_test_score", "std_test_score"):
            assert_allclose(parallel.cv_results_[name], serial.cv_results_[name])
        assert_allclose(parallel.predict(X), serial.predict(X))


@pytest.mark.parametrize(
    ("cv", "random_state"),
    [("leave_query_out", None), (2, None), (2, 0), (GroupKFold(2), None), ("leave_pair_out", None)],
)
def test_containers(problem, cv, random_state):
    X, y, qid = problem
    search = RankingSearchCV(RankRLS(), {"alpha": ALPHAS}, cv=cv, random_state=random_state)
    want = clone(search).fit(X, y, qid=qid)
    named = {name: X[:, k] for k, name in enumerate("abc")}
    strings = [f"query {q}" for q in qid]
    cases = [
        (pd.DataFrame(named), pd.Series(y), pd.Series(strings)),
        (pl.DataFrame(named), pl.Series(y), pl.Series(strings)),
        (pa.table(named), pa.array(y), pa.array(strings)),
        (X.tolist(), y.tolist(), strings),
        (sp.csc_array(X), y, qid),
        (sp.coo_matrix(X), y, qid),
    ]
    # How queries are held out does not depend on the container: all of them with one plan.
    for given, labels, queries in cases if cv == "leave_query_out" else cases[:1]:
        found = clone(search).fit(given, labels, qid=queries)
        for name in ("mean_test_score", "std_test_score"):
            assert_allclose(found.cv_results_[name], want.cv_results_[name], err_msg=type(given))
        assert_allclose(found.predict(given), want.predict(X))
        assert found.score(given, labels, qid=queries) == pytest.approx(want.score(X, y, qid=qid))
        assert found.n_features_in_ == 3
        if hasattr(given, "columns"):
            assert found.feature_names_in_.tolist() == ["a", "b", "c"]
            assert found.best_estimator_.feature_names_in_.tolist() == ["a", "b", "c"]
        else:
            assert not hasattr(found, "feature_names_in_")


def test_pipelines_may_select_columns_by_name(problem):
    X, y, qid = problem
    frame = pd.DataFrame(X, columns=list("abc")).assign(d="unused")
    pipeline = make_pipeline(make_column_transformer((StandardScaler(), ["a", "c"])), RankRLS())
    search = RankingSearchCV(pipeline, {"rankrls__alpha": ALPHAS}, cv=2).fit(frame, y, qid=qid)
    pipeline = make_pipeline(StandardScaler(), RankRLS())
    want = RankingSearchCV(pipeline, {"rankrls__alpha": ALPHAS}, cv=2).fit(X[:, ::2], y, qid=qid)
    assert_allclose(split_scores(search), split_scores(want))
    assert search.feature_names_in_.tolist() == list("abcd")


@pytest.mark.parametrize(
    "estimator", [RankRLS(), make_pipeline(StandardScaler(), RankRLS())], ids=["ranker", "pipeline"]
)
@pytest.mark.parametrize("cv", ["leave_query_out", GroupShuffleSplit(3, random_state=0)])
def test_results_do_not_depend_on_metadata_routing(problem, estimator, cv):
    X, y, qid = problem
    name = "alpha" if isinstance(estimator, RankRLS) else "rankrls__alpha"
    found = []
    for routing in (False, True):
        with sklearn.config_context(enable_metadata_routing=routing):
            search = RankingSearchCV(estimator, {name: ALPHAS}, cv=cv).fit(X, y, qid=qid)
            found.append((split_scores(search), search.score(X, y, qid=qid)))
    assert_allclose(found[0][0], found[1][0])
    assert found[0][1] == pytest.approx(found[1][1])


def test_qid_is_routed_through_other_meta_estimators(problem):
    X, y, qid = problem
    search = RankingSearchCV(RankRLS(), {"alpha": ALPHAS})
    with sklearn.config_context(enable_metadata_routing=True):
        requests = get_routing_for_object(search)
        assert requests.consumes("fit", ["qid"]) == {"qid"}
        assert requests.consumes("score", ["qid"]) == {"qid"}
        results = cross_validate(
            search,
            X,
            y,
            cv=GroupKFold(3),
            params={"qid": qid, "groups": qid},
            return_estimator=True,
        )
        nested = make_pipeline(StandardScaler(), search).fit(X, y, qid=qid)
        assert nested[-1].n_queries_ == 6
    for k, (train, test) in enumerate(GroupKFold(3).split(X, groups=qid)):
        want = clone(search).fit(X[train], y[train], qid=qid[train])
        assert results["estimator"][k].best_params_ == want.best_params_
        score = want.score(X[test], y[test], qid=qid[test])
        assert results["test_score"][k] == pytest.approx(score)
    outer = RankingSearchCV(search, {"scoring": ["disagreement", "map"]}, cv=2)
    outer.fit(X, y, qid=qid)
    assert outer.best_estimator_.n_queries_ == 6


@pytest.mark.parametrize(
    "estimator",
    [
        RankingSearchCV(RankRLS(), {"alpha": [0.1, 1.0]}, cv=2),
        pytest.param(
            RankingSearchCV(make_pipeline(StandardScaler(), RLS()), {"rls__alpha": [1.0]}, cv=2),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["ranker", "pipeline"],
)
def test_scikit_learn_checks(estimator):
    check_estimator(estimator, on_skip=None)


def test_clone_repr_and_files(problem, tmp_path):
    X, y, qid = problem
    search = RankingSearchCV(RankRLS(), {"alpha": [1.0, 2.0]}, cv=3)
    assert clone(search).get_params().keys() == search.get_params().keys()
    assert repr(search) == (
        "RankingSearchCV(cv=3, estimator=RankRLS(), param_grid={'alpha': [1.0, 2.0]})"
    )
    assert "RankRLS" in search._repr_html_()
    search.fit(X, y, qid=qid)
    assert vars(search.estimator) == vars(RankRLS())
    same = [pickle.loads(pickle.dumps(search)), load_model(save_model(search, tmp_path / "s"))]
    for copy in same:
        assert_allclose(copy.predict(X), search.predict(X))
        assert copy.score(X, y, qid=qid) == pytest.approx(search.score(X, y, qid=qid))
        assert copy.best_params_ == search.best_params_


def test_without_refit_there_is_no_predict(problem):
    X, y, qid = problem
    search = RankingSearchCV(RankRLS(), {"alpha": ALPHAS}, refit=False).fit(X, y, qid=qid)
    assert search.best_params_["alpha"] in ALPHAS
    assert search.n_features_in_ == 3
    assert not hasattr(search, "best_estimator_")
    assert not hasattr(search, "refit_time_")
    for name in ("predict", "score"):
        assert not hasattr(search, name)
        with pytest.raises(AttributeError, match=name) as error:
            getattr(search, name)
        assert "refit=False" in str(error.value.__cause__)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_verbose_shows_progress_on_terminals(problem, monkeypatch, capsys):
    X, y, qid = problem
    search = RankingSearchCV(RankRLS(), {"alpha": ALPHAS}, verbose=True)
    search.fit(X, y, qid=qid)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    search.fit(X, y, qid=qid)
    assert "Searching" in sys.stderr.getvalue()
    shown = sys.stderr.getvalue()
    search.set_params(verbose=False).fit(X, y, qid=qid)
    assert sys.stderr.getvalue() == shown
    assert capsys.readouterr().out == ""


def test_landmarks_by_row_number_are_the_same_rows_in_every_split():
    rng = np.random.default_rng(0)
    X, y, qid = rng.standard_normal((60, 3)), rng.standard_normal(60), np.arange(60) // 6
    splits = [(np.arange(12, 60), np.arange(12)), (np.arange(48), np.arange(48, 60))]
    found = []
    for landmarks in (np.arange(20, 40), X[20:40]):
        search = RankingSearchCV(
            SparseRankRLS(landmarks=landmarks, scale=None), {"alpha": [1.0]}, cv=splits
        )
        found.append(search.fit(X, y, qid=qid).best_score_)
    assert found[0] == pytest.approx(found[1])


def test_a_search_as_a_frame_and_as_a_picture(problem):
    X, y, qid = problem
    grid = {"alpha": [1e-3, 1.0, 1e5], "ties": ["include"]}
    search = RankingSearchCV(RankRLS(), grid, scoring="auc").fit(X, y, qid=qid)
    frame = search.to_frame()
    assert frame["rank"].is_monotonic_increasing
    assert_allclose(frame["score"], np.sort(search.cv_results_["mean_test_score"])[::-1])
    best = frame.index[0]
    behind = search.split_scores_[best] - search.split_scores_
    behind = behind[:, ~np.isnan(behind[0])]  # queries without a pair have no AUC
    assert_allclose(frame["behind_best"], behind.mean(axis=1)[frame.index], atol=1e-12)
    error = behind.std(axis=1, ddof=1) / np.sqrt(behind.shape[1])
    assert_allclose(frame["standard_error"], error[frame.index], atol=1e-12)
    ax = search.plot(top=2)
    names = [tick.get_text().split(":")[0] for tick in ax.get_yticklabels()]
    assert names == [f"alpha {alpha:.4g}" for alpha in frame["alpha"][:2]]
    assert ax.get_xlabel() == "AUC behind the best, by query, the best 2 of 3"


def test_a_search_over_pairs_has_no_splits_to_plot(problem):
    X, y, qid = problem
    search = RankingSearchCV(RankRLS(), {"alpha": [1.0, 10.0]}, cv="leave_pair_out")
    search.fit(X, y, qid=qid)
    assert search.split_scores_.shape == (2, 0)
    assert search.to_frame()["standard_error"].isna().all()
    with pytest.raises(DataError, match="use a number of folds"):
        search.plot()


def test_names_of_candidates():
    rbf, linear = {"kernel": "rbf", "gamma": 0.1}, {"kernel": "linear", "gamma": 0.1}
    assert candidate_names([rbf, linear]) == ["kernel rbf", "kernel linear"]
    assert candidate_names([rbf]) == ["kernel rbf, gamma 0.1"]
    assert candidate_names([{"ranker__alpha": 1.0}, {}]) == ["alpha 1", ""]
    twice = candidate_names([{"alpha": 1.0}, {"alpha": 1.0 + 1e-9}])
    assert twice == ["alpha 1 (candidate 0)", "alpha 1 (candidate 1)"]
    assert len(candidate_names([{"a": "x" * 50}])[0]) == 32


def test_the_decision_function_gets_the_queries():
    data = make_ranking(8, rows_per_query=5, n_features=3, random_state=0)
    search = RankingSearchCV(RankRLS(scale="query-minmax"), {"alpha": [1.0]})
    search.fit(data.X, data.y, qid=data.qid)
    wanted = search.predict(data.X, qid=data.qid)
    assert_array_equal(search.decision_function(data.X, qid=data.qid), wanted)
