"""The paired test between two rankers."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import wilcoxon

from rankwise.errors import DataError, ParameterError
from rankwise.metrics import QueryValues, evaluate_ranking, paired_test
from tests.metrics.cases import noisy_ranking


def test_paired_test_is_scipys():
    y, good, qid = noisy_ranking(noise=0.5)
    _, bad, _ = noisy_ranking(noise=3.0)
    a, b = evaluate_ranking(y, good, qid), evaluate_ranking(y, bad, qid)
    test = paired_test(a, b, "MAP")
    gap = a.per_query["MAP"].values - b.per_query["MAP"].values
    assert test.p_value == wilcoxon(gap).pvalue
    assert test.statistic == wilcoxon(gap).statistic
    assert_allclose(test.difference, a["MAP"] - b["MAP"])
    assert (test.wins, test.ties, test.losses) == tuple(
        int(x) for x in ((gap > 0).sum(), (gap == 0).sum(), (gap < 0).sum())
    )
    assert test.wins + test.ties + test.losses == test.n_queries == 30
    assert str(test).startswith("MAP: 0.")
    assert "Wilcoxon p = " in str(test)


def test_compare_covers_every_metric_and_knows_which_direction_is_better():
    y, good, qid = noisy_ranking(noise=0.5)
    _, bad, _ = noisy_ranking(noise=3.0)
    a, b = evaluate_ranking(y, good, qid), evaluate_ranking(y, bad, qid)
    tests = a.compare(b)
    assert list(tests) == list(a.means)
    assert all(test.wins > test.losses for test in tests.values())
    assert tests["disagreement"].difference < 0
    swapped = b.compare(a)["MAP"]
    assert (swapped.wins, swapped.losses) == (tests["MAP"].losses, tests["MAP"].wins)
    assert_allclose(swapped.p_value, tests["MAP"].p_value)


def test_no_difference_has_p_value_one():
    a = evaluate_ranking(*noisy_ranking())
    test = paired_test(a, a, "NDCG@5")
    assert (test.p_value, test.difference, test.ties) == (1.0, 0.0, 30)


def test_queries_are_matched_by_id():
    a = QueryValues(np.array(["x", "y", "z"]), np.array([0.1, 0.2, 0.3]))
    b = QueryValues(np.array(["z", "x", "y"], dtype=object), np.array([0.3, 0.1, 0.4]))
    test = paired_test(a, b)
    assert (test.wins, test.ties, test.losses) == (0, 2, 1)
    assert paired_test(a, b, greater_is_better=False).wins == 1


def test_invalid_comparisons():
    a = QueryValues(np.array([1, 2, 3]), np.array([0.1, 0.2, 0.3]))
    b = QueryValues(np.array([1, 2, 4]), np.array([0.1, 0.2, 0.3]))
    with pytest.raises(DataError, match=r"same queries: one has 3, the other 3, and query 3 is in"):
        paired_test(a, b)
    shorter = QueryValues(np.array([1, 2]), np.array([0.1, 0.2]))
    with pytest.raises(DataError, match=r"one has 2, the other 3, and query 3 is in only one"):
        paired_test(shorter, a)
    curve = QueryValues(np.array([1, 2]), np.ones((2, 3)))
    with pytest.raises(DataError, match=r"one value per query: b has shape \(2, 3\)\. Take one"):
        paired_test(shorter, curve)
    evaluation = evaluate_ranking([1, 0], [0.2, 0.1])
    with pytest.raises(ParameterError, match=r"metric must be one of 'MAP', .* for a: got None"):
        paired_test(evaluation, evaluation)
