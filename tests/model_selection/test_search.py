"""RankingSearchCV, compared with a loop of refits."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import RBF, Matern
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    ParameterGrid,
)
from sklearn.pipeline import make_pipeline

from rankwise import RLS, RankingSearchCV, RankRLS
from rankwise.metrics import disagreement_error, get_metric
from rankwise.model_selection import k_fold, leave_pair_out, leave_query_out
from tests.model_selection.searches import (
    ALPHAS,
    check_against,
    folds_of_queries,
    leave_queries_out,
    naive,
    split_scores,
)

GRIDS = {
    "alpha": {"alpha": ALPHAS},
    "ties and weighting": {
        "alpha": ALPHAS,
        "ties": ["include", "exclude"],
        "weighting": ["pairs", "queries"],
    },
    "kernels": [
        {"alpha": ALPHAS, "kernel": ["rbf"], "gamma": [0.1, 1.0]},
        {"alpha": np.array(ALPHAS), "kernel": ["linear", RBF(0.7), Matern()]},
        {"kernel": ["poly"], "scale": [None]},
    ],
    "interpolation": {"alpha": [0.0, 1.0]},
}


@pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS)
@pytest.mark.parametrize("cv", ["leave_query_out", 3, "splitter"])
def test_holding_out_queries_equals_refitting(problem, grid, cv):
    X, y, qid = problem
    if cv == "splitter":
        cv = GroupKFold(3)
        trains, tests = zip(*cv.split(X, groups=qid), strict=True)
    else:
        trains = None
        tests = leave_queries_out(qid) if isinstance(cv, str) else folds_of_queries(qid, cv)
    search = RankingSearchCV(RankRLS(), grid, cv=cv).fit(X, y, qid=qid)
    check_against(search, *naive(RankRLS(), grid, X, y, qid, tests, trains))
    assert search.n_splits_ == len(tests)
    want = RankRLS(**search.best_params_).fit(X, y, qid=qid)
    assert_allclose(search.predict(X), want.predict(X))


@pytest.mark.parametrize("scoring", ["concordance", "ndcg@3", "map", "kendall_tau"])
def test_any_metric(problem, scoring):
    X, y, qid = problem
    kept = qid != 4  # the metrics differ in how they score a single label
    X, y, qid = X[kept], y[kept], qid[kept]
    search = RankingSearchCV(RLS(), {"alpha": ALPHAS}, scoring=scoring).fit(X, y, qid=qid)
    tests = leave_queries_out(qid)
    check_against(search, *naive(RLS(), {"alpha": ALPHAS}, X, y, qid, tests, scoring=scoring))
    want = get_metric(scoring).function(y, search.predict(X), qid)
    assert search.score(X, y, qid=qid) == pytest.approx(want)


@pytest.mark.parametrize("ties", ["include", "exclude"])
def test_folds_of_rows_of_a_global_ranking_equal_refits(problem, ties):
    X, y, _ = problem
    tests = [np.arange(len(y))[k::4] for k in range(4)]
    search = RankingSearchCV(RankRLS(ties=ties), {"alpha": ALPHAS}, cv=4).fit(X, y)
    check_against(search, *naive(RankRLS(ties=ties), {"alpha": ALPHAS}, X, y, None, tests))
    assert_allclose(
        search.cv_results_["mean_test_score"],
        -k_fold(RankRLS(ties=ties), X, y, n_splits=4, alphas=ALPHAS).score,
    )
    listed = RankingSearchCV(RankRLS(ties=ties), {"alpha": ALPHAS}, cv=KFold(4)).fit(X, y)
    tests = [test for _, test in KFold(4).split(X)]
    check_against(listed, *naive(RankRLS(ties=ties), {"alpha": ALPHAS}, X, y, None, tests))


@pytest.mark.parametrize(("with_queries", "scoring"), [(True, "disagreement"), (False, "auc")])
def test_leave_pair_out_equals_refitting(problem, with_queries, scoring):
    X, y, qid = (part[:14] for part in problem)
    codes = qid % 2 if with_queries else None
    grid = {"alpha": ALPHAS, "ties": ["include", "exclude"]}
    search = RankingSearchCV(RankRLS(), grid, cv="leave_pair_out", scoring=scoring)
    search.fit(X, y, qid=codes)
    every = np.zeros(14, int) if codes is None else codes
    for k, params in enumerate(ParameterGrid(grid)):
        wrong = {q: [] for q in every}
        for i, j in zip(*np.triu_indices(14, 1), strict=True):
            if every[i] == every[j] and y[i] != y[j]:
                rest = np.setdiff1d(np.arange(14), [i, j])
                ranker = RankRLS(**params).fit(X[rest], y[rest], qid=every[rest])
                f = ranker.predict(X[[i, j]])
                wrong[every[i]].append((f[0] > f[1]) != (y[i] > y[j]))
        error = np.mean([np.mean(values) for values in wrong.values()])
        want = 1 - error if scoring == "auc" else -error
        assert search.cv_results_["mean_test_score"][k] == pytest.approx(want)
    sizes = np.bincount(every)
    assert search.n_splits_ == (sizes * (sizes - 1) // 2).sum()
    assert "split0_test_score" not in search.cv_results_
    se = leave_pair_out(RankRLS(), X, y, qid=codes, alphas=ALPHAS).standard_error
    assert_allclose(search.cv_results_["std_test_score"][::2], se)


@pytest.mark.parametrize("cv", ["leave_query_out", 2, "leave_pair_out"])
def test_several_outputs_are_averaged(problem, cv):
    X, y, qid = problem
    Y = np.column_stack((y, X[:, 0].round()))
    search = RankingSearchCV(RankRLS(), {"alpha": ALPHAS}, cv=cv).fit(X, Y, qid=qid)
    if cv == "leave_pair_out":
        want = leave_pair_out(RankRLS(), X, Y, qid=qid, alphas=ALPHAS).error.mean(axis=1)
    else:
        n_folds = None if isinstance(cv, str) else cv
        want = leave_query_out(RankRLS(), X, Y, qid=qid, alphas=ALPHAS, n_splits=n_folds).score
    assert_allclose(search.cv_results_["mean_test_score"], -want)
    assert search.predict(X).shape == Y.shape
    errors = [disagreement_error(Y[:, k], search.predict(X)[:, k], qid) for k in range(2)]
    assert search.score(X, Y, qid=qid) == pytest.approx(-np.mean(errors))


@pytest.mark.parametrize("with_queries", [True, False])
def test_random_folds_are_the_same_for_exact_hold_outs_and_refits(problem, with_queries):
    X, y, qid = problem
    qid = qid if with_queries else None
    grid = {"alpha": ALPHAS, "kernel": ["linear", "rbf"], "scale": [None]}
    exact = RankingSearchCV(RankRLS(), grid, cv=3, random_state=5).fit(X, y, qid=qid)
    refits = RankingSearchCV(
        make_pipeline(RankRLS()),
        {f"rankrls__{name}": values for name, values in grid.items()},
        cv=3,
        random_state=5,
    ).fit(X, y, qid=qid)
    assert_allclose(split_scores(exact), split_scores(refits))
    in_turn = RankingSearchCV(RankRLS(), grid, cv=3).fit(X, y, qid=qid)
    assert not np.allclose(split_scores(exact), split_scores(in_turn))
    generator = np.random.default_rng(5)
    again = RankingSearchCV(RankRLS(), grid, cv=3, random_state=generator).fit(X, y, qid=qid)
    assert_allclose(split_scores(exact), split_scores(again))


@pytest.mark.parametrize("cv", ["leave_query_out", 3, GroupKFold(3)])
@pytest.mark.parametrize("random_state", [None, 1])
def test_precomputed_kernels_are_split_by_rows_and_columns(problem, cv, random_state):
    X, y, qid = problem
    settings = {"cv": cv, "random_state": random_state}
    K = RankingSearchCV(RankRLS(kernel="precomputed"), {"alpha": ALPHAS}, **settings)
    linear = RankingSearchCV(RankRLS(solver="dual"), {"alpha": ALPHAS}, **settings)
    for kernel in (X @ X.T, pd.DataFrame(X @ X.T), sp.csr_array(X @ X.T)):
        K.fit(kernel, y, qid=qid)
        assert_allclose(split_scores(K), split_scores(linear.fit(X, y, qid=qid)))
    assert K.__sklearn_tags__().input_tags.pairwise


def test_scores_of_queries_are_behind_the_means_of_folds(problem):
    X, y, qid = problem
    search = RankingSearchCV(RankRLS(), {"alpha": ALPHAS}, cv=3).fit(X, y, qid=qid)
    each = RankingSearchCV(RankRLS(), {"alpha": ALPHAS}).fit(X, y, qid=qid)
    assert search.query_scores_.shape == each.split_scores_.shape == (3, 6)
    assert_allclose(np.nanmean(search.query_scores_, axis=1), search.cv_results_["mean_test_score"])
    assert_allclose(each.query_scores_, each.split_scores_)
