"""TransductiveRankRLS: rows without labels in the regularizer."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from rankwise import (
    RankingSearchCV,
    RankRLS,
    SparseRankRLS,
    TransductiveRankRLS,
    load_model,
    save_model,
)
from rankwise.errors import DataError, ParameterError
from rankwise.graph.query_groups import QueryGroups
from rankwise.model_selection import k_fold, leave_pair_out, leave_query_out, permutation_test
from rankwise.problem import FeatureSpace, PairLoss, Problem, SmoothSpace
from rankwise.problem.smooth_space import neighbor_laplacian
from tests.oracles.laplacian import laplacian
from tests.oracles.transductive import neighbor_weights, transductive_scores
from tests.strategies import problems


def centred(scores, qid):
    return scores - np.array([scores[qid == q].mean() for q in qid])


def some_labels(problem, n_labelled):
    y = problem.y.copy()
    y[max(2, n_labelled) :] = np.nan
    return y


@given(problems(max_rows=9, min_pairs=1), st.integers(1, 5))
def test_the_graph_connects_nearest_rows(problem, n_neighbors):
    groups = QueryGroups.of(problem.qid)
    want = laplacian(neighbor_weights(problem.X, problem.qid, n_neighbors))
    assert_allclose(neighbor_laplacian(problem.X, groups, n_neighbors).toarray(), want)
    sparse = neighbor_laplacian(sp.csr_matrix(problem.X), groups, n_neighbors)
    assert_allclose(sparse.toarray(), want)


@given(
    problems(max_rows=12, min_pairs=1),
    st.integers(2, 12),
    st.sampled_from(["include", "exclude"]),
    st.sampled_from(["query", "all"]),
    st.booleans(),
)
def test_scores_are_those_of_the_definition(problem, n_labelled, ties, neighbors, wide):
    X, qid = problem.X, problem.qid
    if wide:
        X = np.hstack([X, np.random.default_rng(0).standard_normal((len(X), 30))])
    y = some_labels(problem, n_labelled)
    ranker = TransductiveRankRLS(
        0.3, smoothness=20.0, n_neighbors=3, neighbors=neighbors, ties=ties, scale=None
    ).fit(X, y, qid=qid)
    near = None if neighbors == "query" else np.zeros(len(X))
    want = transductive_scores(
        X, X @ X.T, y, qid, 0.3, smoothness=20.0, n_neighbors=3, ties=ties, near=near
    )
    assert_allclose(centred(ranker.predict(X), qid), centred(want, qid), atol=1e-6)


def test_kernel_on_all_rows_as_landmarks():
    rng = np.random.default_rng(0)
    X, qid = rng.standard_normal((30, 2)), np.arange(30) % 3
    y = np.where(np.arange(30) < 12, X[:, 0], np.nan)
    ranker = TransductiveRankRLS(0.3, kernel="rbf", gamma=0.5, scale=None, landmarks=np.arange(30))
    K = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2))
    want = transductive_scores(X, K, y, qid, 0.3, smoothness=10.0, n_neighbors=10)
    assert_allclose(ranker.fit(X, y, qid=qid).predict(X), want, atol=1e-7)


def problem_of_rows(seed=0):
    rng = np.random.default_rng(seed)
    X, qid = rng.standard_normal((60, 4)), rng.permutation(np.arange(60) % 10)
    y = np.round(X @ [1.0, -1.0, 0.5, 0.0] + 0.5 * rng.standard_normal(60))
    return X, np.where(qid < 6, y, np.nan), qid


def test_without_smoothness_it_is_rankrls_on_the_labelled_rows():
    X, y, qid = problem_of_rows()
    known = ~np.isnan(y)
    plain = TransductiveRankRLS(2.0, smoothness=0.0).fit(X, y, qid=qid)
    assert_allclose(plain.coef_, RankRLS(2.0).fit(X[known], y[known], qid=qid[known]).coef_)
    assert plain.n_queries_ == 6
    assert plain.labelled_.tolist() == np.flatnonzero(known).tolist()
    options = {"kernel": "rbf", "gamma": 0.2, "scale": None, "landmarks": X[:9]}
    kernel = TransductiveRankRLS(2.0, smoothness=0.0, **options).fit(X, y, qid=qid)
    sparse = SparseRankRLS(2.0, **options).fit(X[known], y[known], qid=qid[known])
    assert_allclose(kernel.predict(X), sparse.predict(X), atol=1e-9)


RANKERS = [
    {},
    {"kernel": "rbf", "landmarks": np.arange(25), "scale": "standard"},
    {"neighbors": "all", "ties": "exclude"},
    {"scale": "query-minmax", "weighting": "queries"},
    {"scale": "standard", "weighting": "pairs"},
]


@pytest.mark.parametrize("options", RANKERS, ids=["linear", "rbf", "all", "minmax", "standard"])
def test_exact_hold_outs_equal_fits_without_these_labels(options):
    X, y, qid = problem_of_rows()
    y[0] = np.nan  # a query with some labels
    alphas = [0.1, 3.0]
    queries = leave_query_out(TransductiveRankRLS(**options), X, y, qid=qid, alphas=alphas)
    pairs = leave_pair_out(
        TransductiveRankRLS(**options), X, y, qid=qid, alphas=alphas, return_differences=True
    )
    assert np.isnan(queries.predictions[:, np.isnan(y)]).all()
    assert not np.isnan(y[pairs.pairs]).any()
    for k, alpha in enumerate(alphas):
        for out in (np.flatnonzero((qid == 2) & ~np.isnan(y)), *pairs.pairs[[3, 40]]):
            left = y.copy()
            left[out] = np.nan
            scores = TransductiveRankRLS(alpha, **options).fit(X, left, qid=qid).predict(X, qid=qid)
            if len(out) > 2:
                found = queries.predictions[k, out]
                assert_allclose(found - found.mean(), scores[out] - scores[out].mean(), atol=1e-8)
            else:
                row = np.flatnonzero((pairs.pairs == out).all(axis=1))[0]
                assert_allclose(
                    pairs.differences[k, row], scores[out[0]] - scores[out[1]], atol=1e-8
                )


def test_folds_of_one_ranking_equal_refits():
    X, y, _ = problem_of_rows()
    found = k_fold(TransductiveRankRLS(), X, y, n_splits=4, alphas=[0.5]).predictions[0]
    out = np.flatnonzero(~np.isnan(y))[1::4]
    left = y.copy()
    left[out] = np.nan
    scores = TransductiveRankRLS(0.5).fit(X, left).predict(X)
    assert_allclose(np.diff(found[out]), np.diff(scores[out]), atol=1e-8)


@pytest.mark.parametrize("cv", ["leave_query_out", 3, "leave_pair_out"])
def test_searches_hold_out_labelled_rows(cv):
    X, y, qid = problem_of_rows()
    known, alphas = ~np.isnan(y), [0.1, 1.0, 10.0]
    grid = {"alpha": alphas, "smoothness": [0.0, 100.0]}
    seed = 0 if cv == 3 else None
    search = RankingSearchCV(TransductiveRankRLS(), grid, cv=cv, random_state=seed)
    search.fit(X, y, qid=qid)
    plain = RankingSearchCV(RankRLS(), {"alpha": alphas}, cv=cv, random_state=seed)
    plain.fit(X[known], y[known], qid=qid[known])
    scores = search.cv_results_["mean_test_score"].reshape(3, 2)[:, 0]
    assert_allclose(scores, plain.cv_results_["mean_test_score"])
    assert search.n_splits_ == plain.n_splits_
    assert search.best_estimator_.labelled_.tolist() == np.flatnonzero(known).tolist()


def test_a_search_refits_if_alpha_is_chosen_in_each_split():
    X, y, qid = problem_of_rows()
    search = RankingSearchCV(TransductiveRankRLS(), {"smoothness": [0.0, 10.0]}, cv=2)
    assert search.fit(X, y, qid=qid).best_score_ > -0.4
    search = RankingSearchCV(TransductiveRankRLS(1.0), {"alpha": [1.0]}, refit="mean-of-best")
    with pytest.raises(ParameterError, match="one label for every row"):
        search.fit(X, y, qid=qid)


def test_rows_without_labels_help_where_neighbours_have_similar_labels():
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 3, 200)
    upper = np.arange(200) < 100
    X = np.column_stack([np.cos(angle) + ~upper, np.where(upper, 1, -1) * np.sin(angle)])
    X[~upper, 1] += 0.5
    y = np.full(200, np.nan)
    y[[10, 150]] = 1, 0
    plain, smooth = (
        TransductiveRankRLS(1e-3, smoothness=s, n_neighbors=5, kernel="rbf", gamma=5.0, scale=None)
        .fit(X, y)
        .score(X, upper)
        for s in (0.0, 1e4)
    )
    assert smooth > plain + 0.05


def test_containers_precisions_and_outputs():
    X, y, qid = problem_of_rows()
    want = TransductiveRankRLS(1.0).fit(X, y, qid=qid)
    for given_rows in (pd.DataFrame(X, columns=list("abcd")), pl.DataFrame(X), sp.csr_matrix(X)):
        ranker = TransductiveRankRLS(1.0).fit(given_rows, y, qid=qid)
        assert_allclose(ranker.coef_, want.coef_, atol=1e-9)
    single = TransductiveRankRLS(1.0).fit(X.astype(np.float32), y, qid=qid)
    assert single.predict(X.astype(np.float32)).dtype == np.float32
    assert_allclose(single.coef_, want.coef_, atol=1e-4)
    for labels in (pd.Series(y), y.tolist(), y.astype(object)):
        assert_allclose(TransductiveRankRLS(1.0).fit(X, labels, qid=qid).coef_, want.coef_)
    both = TransductiveRankRLS(1.0).fit(X, np.column_stack([y, -2 * y]), qid=qid)
    assert_allclose(both.coef_, [want.coef_, -2 * want.coef_], atol=1e-9)
    path = TransductiveRankRLS().path(X, y, [1.0, 5.0], qid=qid)
    assert_allclose(path.estimator(0).coef_, want.coef_)


def test_model_file(tmp_path):
    X, y, qid = problem_of_rows()
    for kernel in ("linear", "rbf"):
        ranker = TransductiveRankRLS(kernel=kernel, n_landmarks=9, random_state=0)
        ranker.fit(X, y, qid=qid)
        same = load_model(save_model(ranker, tmp_path / f"{kernel}.rankwise"))
        assert_allclose(same.predict(X, qid=qid), ranker.predict(X, qid=qid))


def test_duplicate_rows_and_queries_of_one_row_do_no_harm():
    X, y, qid = problem_of_rows()
    X, y, qid = (
        np.vstack([X, X, X[:3]]),
        np.tile(y, 3)[:123],
        np.append(np.tile(qid, 2), [20, 21, 22]),
    )
    assert np.isfinite(TransductiveRankRLS().fit(X, y, qid=qid).coef_).all()
    only = np.ones((4, 1))
    only[0] = 2.0
    ranker = TransductiveRankRLS(1.0).fit(only, [1.0, 0.0, np.nan, np.nan], qid=[0, 0, 1, 1])
    assert ranker.coef_ > 0


def test_a_space_without_unlabelled_rows_uses_those_of_its_problem():
    X, y, qid = problem_of_rows()
    y, loss = X[:, 0], PairLoss()
    problem = Problem(X, loss.tasks(y, qid), loss, SmoothSpace(FeatureSpace(), 10.0), qid)
    want = TransductiveRankRLS(1.0).fit(X, y, qid=qid)
    assert_allclose(problem.solve([1.0]).solutions[0].weights, want.coef_)
    assert_allclose(problem.coordinates().features.shape, X.shape)


def test_errors():
    X, y, qid = problem_of_rows()
    with pytest.raises(DataError, match="y is NaN in 59 of 60 rows: at least two rows"):
        TransductiveRankRLS().fit(X, np.where(np.arange(60) == 3, 1.0, np.nan))
    labels = np.column_stack([y, y])
    labels[np.flatnonzero(np.isnan(y))[0], 0] = 1.0
    with pytest.raises(DataError, match=r"Row \d+ of y has labels in some columns"):
        TransductiveRankRLS().fit(X, labels, qid=qid)
    with pytest.raises(ParameterError, match="needs features to find neighbours"):
        TransductiveRankRLS(kernel="precomputed").fit(X @ X.T, y, qid=qid)
    with pytest.raises(ValueError, match="Input y contains infinity"):
        TransductiveRankRLS().fit(X, np.where(np.isnan(y), np.inf, y), qid=qid)
    with pytest.raises(ParameterError, match="smoothness must be"):
        TransductiveRankRLS(smoothness=-1.0).fit(X, y, qid=qid)
    with pytest.raises(DataError, match="leave out pairs, strata and groups"):
        leave_pair_out(TransductiveRankRLS(1.0), X, y, pairs=[[0, 1]])
    with pytest.raises(DataError, match="needs a label for every row"):
        permutation_test(TransductiveRankRLS(1.0), X, y, qid=qid, n_permutations=5)
    with pytest.raises(ParameterError, match="takes no sample_weight"):
        TransductiveRankRLS().make_problem(X, y, sample_weight=np.ones(60))


@pytest.mark.parametrize("shape", [(20, 3), (10, 20)])
def test_features_that_overflow(shape):
    X = 1e200 * np.random.default_rng(0).standard_normal(shape)
    for rows in (X, sp.csr_array(X)):
        with pytest.raises(DataError, match="overflow"):  # and no warning of NumPy
            TransductiveRankRLS(1.0, scale=None).fit(rows, np.arange(len(X)))


def test_no_rows():
    with pytest.raises(ValueError, match=r"0 sample\(s\).* minimum of 2 is required"):
        TransductiveRankRLS().fit(np.empty((0, 3)), [], qid=[])
