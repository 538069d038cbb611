"""A problem of six queries, and searches on it as a loop of refits."""

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.model_selection import (
    ParameterGrid,
)

from rankwise.metrics import get_metric

ALPHAS = [0.1, 3.0, 100.0]
QUERIES = [7, 1, 4, 2, 3, 5]
NAMES = np.array(["", "b", "q10", "q9", "a", "c", "d", "zz"])


def make_problem():
    """Rows of six queries in mixed order, one of them with a single label, and noisy grades."""
    rng = np.random.default_rng(0)
    qid = rng.permutation(np.repeat(QUERIES, [12, 9, 5, 8, 6, 8]))
    X = rng.standard_normal((len(qid), 3))
    y = np.digitize(X @ [1.0, -0.5, 0.2] + rng.standard_normal(len(qid)), [-0.7, 0.7])
    y[qid == 4] = 1
    return X, y.astype(float), qid


def leave_queries_out(qid):
    return [np.flatnonzero(qid == q) for q in dict.fromkeys(qid.tolist())]


def folds_of_queries(qid, n):
    names = list(dict.fromkeys(qid.tolist()))
    return [np.flatnonzero(np.isin(qid, names[k::n])) for k in range(n)]


def naive(estimator, grid, X, y, qid, tests, trains=None, scoring="disagreement"):
    """Scores of every candidate and split by refits, and their means over queries."""
    function, greater = get_metric(scoring)
    splits, means = [], []
    for params in ParameterGrid(grid):
        by_split = []
        for k, test in enumerate(tests):
            train = np.setdiff1d(np.arange(len(y)), test) if trains is None else trains[k]
            ranker = clone(estimator).set_params(**params)
            metadata = {} if qid is None else {"qid": qid[train]}
            with sklearn.config_context(enable_metadata_routing=True):
                ranker.fit(X[train], y[train], **metadata)
            f = ranker.predict(X[test])
            values = []
            for q in [None] if qid is None else dict.fromkeys(qid[test]):
                rows = slice(None) if qid is None else qid[test] == q
                if len(np.unique(y[test][rows])) > 1:
                    value = function(y[test][rows], f[rows])
                    values.append(value if greater else -value)
            by_split.append(values)
        splits.append([np.mean(values) if values else np.nan for values in by_split])
        means.append(np.mean(np.concatenate(by_split)))
    return np.array(splits), np.array(means)


def split_scores(search):
    assert search.split_scores_.shape[1] == search.n_splits_
    by_split = isinstance(search.cv, str) == ("split0_test_score" not in search.cv_results_)
    assert by_split  # a column for each split, but not for each query
    return search.split_scores_


def check_against(search, splits, means):
    assert_allclose(split_scores(search), splits, atol=1e-10)
    assert_allclose(search.cv_results_["mean_test_score"], means, atol=1e-10)
    assert means[search.best_index_] == pytest.approx(means.max())  # any of tied maxima
    assert search.best_score_ == search.cv_results_["mean_test_score"][search.best_index_]
    assert search.best_params_ == search.cv_results_["params"][search.best_index_]
