"""Generated problems have the documented solutions."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rankwise.data import make_ranking
from rankwise.errors import ParameterError


def centred(values, qid):
    counts = np.bincount(qid)
    sums = np.zeros((len(counts), *values.shape[1:]))
    np.add.at(sums, qid, values)
    return values - (sums.T / counts).T[qid]


@pytest.mark.parametrize("effect", [0.0, 1.0, 2.0])
def test_least_squares_over_pairs_and_over_rows(effect):
    problem = make_ranking(
        4000, rows_per_query=(2, 10), n_features=5, query_effect=effect, noise=0.5, random_state=0
    )
    X, y, qid = problem.X, problem.y, problem.qid
    by_pairs = np.linalg.lstsq(centred(X, qid), centred(y, qid))[0]
    by_rows = np.linalg.lstsq(X, y)[0]
    assert_allclose(by_pairs, problem.coef, atol=0.02)
    assert_allclose(by_rows, (1 - effect**2) / (1 + effect**2) * problem.coef, atol=0.04)


def test_without_noise_labels_and_scores_have_the_same_order():
    problem = make_ranking(
        30, rows_per_query=6, n_features=4, noise=0.0, query_effect=3.0, random_state=1
    )
    assert_allclose(centred(problem.y - problem.score, problem.qid), 0, atol=1e-12)
    assert_allclose(problem.score, problem.X @ problem.coef)
    assert_allclose(np.linalg.norm(problem.coef), 1)
    assert np.bincount(problem.qid).tolist() == [6] * 30


def test_sizes_informative_features_and_seed():
    one = make_ranking(200, rows_per_query=(2, 4), informative=3, random_state=7)
    two = make_ranking(
        200, rows_per_query=(2, 4), informative=3, random_state=np.random.default_rng(7)
    )
    assert_array_equal(one.X, two.X)
    assert set(np.bincount(one.qid)) == {2, 3, 4}
    assert np.count_nonzero(one.coef) == 3


def test_grades_are_equal_shares_in_the_order_of_the_labels():
    plain = make_ranking(20, rows_per_query=8, n_features=3, random_state=3)
    by_query = make_ranking(20, rows_per_query=8, n_features=3, n_levels=4, random_state=3)
    overall = make_ranking(
        20, rows_per_query=8, n_features=3, n_levels=4, grading="global", random_state=3
    )
    for q in range(20):
        rows = plain.qid == q
        assert by_query.y[rows][np.argsort(plain.y[rows])].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert_array_equal(overall.y[np.argsort(plain.y)], np.repeat([0, 1, 2, 3], 40))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_queries": 0}, "n_queries must be an integer of at least 1: got 0"),
        ({"n_features": 0}, "n_features must be an integer of at least 1: got 0"),
        ({"rows_per_query": 0}, "rows_per_query must be a positive number, or two"),
        ({"rows_per_query": (5, 2)}, "the smaller one first: got (5, 2)"),
        ({"noise": -1.0}, "noise must be a finite number, 0 or more: got -1.0"),
        ({"noise": float("nan")}, "noise must be a finite number, 0 or more: got nan"),
        ({"query_effect": -1.0}, "query_effect must be a finite number, 0 or more"),
        ({"informative": 21}, "informative must be an integer from 1 to 20, or None: got 21"),
        ({"n_levels": 1}, "n_levels must be an integer of at least 2, or None: got 1"),
        ({"grading": "all"}, "grading must be one of query, global: got 'all'"),
        ({"grading": "global"}, "grading='global' needs n_levels"),
    ],
)
def test_make_ranking_arguments(options, words):
    with pytest.raises(ParameterError, match=re.escape(words)):
        make_ranking(**options)
