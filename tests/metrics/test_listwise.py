"""Listwise metrics against all orders of tied rows, and their invariances."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from rankwise.errors import DataError
from rankwise.metrics import (
    average_precision,
    expected_reciprocal_rank,
    ndcg,
    precision_at_k,
    rank_biased_precision,
    recall_at_k,
    reciprocal_rank,
    success_at_k,
)
from tests.metrics.cases import check_against_oracle, rankings
from tests.oracles import metrics as oracle

score_ties = st.sampled_from(["average", "order"])
undefineds = st.sampled_from(["skip", 0.0, 1, 0.25])
cutoffs = st.sampled_from([None, 1, 2, 3, 8])
small = rankings(max_rows=24, per_query=5)
graded = rankings(max_rows=24, per_query=5, real_labels=False)


@given(small, score_ties, cutoffs, st.sampled_from([1, 0.0, 2, -0.5]), undefineds)
def test_average_precision_is_the_mean_over_orders(ranking, score_ties, k, relevant, undefined):
    options = {"k": k, "relevant": relevant, "score_ties": score_ties}
    check_against_oracle(average_precision, oracle.average_precision, ranking, undefined, **options)


@given(small, score_ties, cutoffs, st.sampled_from([1, 0.0, 2]), undefineds)
def test_reciprocal_rank_is_the_mean_over_orders(ranking, score_ties, k, relevant, undefined):
    options = {"k": k, "relevant": relevant, "score_ties": score_ties}
    check_against_oracle(reciprocal_rank, oracle.reciprocal_rank, ranking, undefined, **options)


@pytest.mark.parametrize(
    ("metric", "plain"),
    [
        (precision_at_k, oracle.precision_at_k),
        (recall_at_k, oracle.recall_at_k),
        (success_at_k, oracle.success_at_k),
    ],
)
@given(small, score_ties, st.integers(1, 8), undefineds)
def test_counts_at_k_are_the_mean_over_orders(metric, plain, ranking, score_ties, k, undefined):
    check_against_oracle(metric, plain, ranking, undefined, k=k, score_ties=score_ties)


@given(small, score_ties, st.sampled_from([0.3, 0.8]), undefineds)
def test_rank_biased_precision_is_the_mean_over_orders(ranking, score_ties, p, undefined):
    options = {"persistence": p, "score_ties": score_ties}
    plain = oracle.rank_biased_precision
    check_against_oracle(rank_biased_precision, plain, ranking, undefined, **options)


@given(graded, score_ties, cutoffs, undefineds)
def test_expected_reciprocal_rank_is_the_mean_over_orders(ranking, score_ties, k, undefined):
    options = {"k": k, "max_grade": 4, "score_ties": score_ties}
    plain = oracle.expected_reciprocal_rank
    check_against_oracle(expected_reciprocal_rank, plain, ranking, undefined, **options)


def test_grades_of_expected_reciprocal_rank():
    y, f = [3, 0, 1], [0.1, 0.2, 0.3]
    assert expected_reciprocal_rank(y, f) == expected_reciprocal_rank(y, f, max_grade=3)
    with pytest.raises(DataError, match=r"label of 3, above max_grade=2"):
        expected_reciprocal_rank(y, f, max_grade=2)
    with pytest.raises(DataError, match=r"labels of 0 and above: got -1"):
        expected_reciprocal_rank([-1, 2], [0.1, 0.2])


@given(
    graded,
    score_ties,
    st.sampled_from([None, 1, 2, 3, 8]),
    st.sampled_from(["exponential", "linear"]),
    st.sampled_from(["log2", "letor"]),
    undefineds,
    st.sampled_from([0.0, 0.25, 70.0]),
)
def test_ndcg_is_the_mean_over_orders(ranking, score_ties, k, gain, discount, undefined, shift):
    y, f, qid = ranking
    y = np.where(y > 0, y + shift, y)  # fractions and large labels are sorted, not counted
    options = {"k": k, "gain": gain, "discount": discount, "score_ties": score_ties}
    check_against_oracle(ndcg, oracle.ndcg, (y, f, qid), undefined, **options)


CURVES = [
    average_precision,
    expected_reciprocal_rank,
    ndcg,
    precision_at_k,
    recall_at_k,
    reciprocal_rank,
    success_at_k,
]


@pytest.mark.parametrize("function", CURVES)
@given(ranking=graded, ks=st.lists(st.integers(1, 12), min_size=1, max_size=5))
def test_several_cutoffs_at_once_are_the_same(function, ranking, ks):
    y, f, qid = ranking
    curve = function(y, f, qid, k=ks)
    assert curve.shape == (len(ks),)
    assert_allclose(curve, [function(y, f, qid, k=k) for k in ks], rtol=1e-14)
    values = function(y, f, qid, k=np.array(ks), per_query=True)
    assert values.values.shape == (len(set(qid.tolist())), len(ks))
    one = function(y, f, qid, k=ks[0], per_query=True)
    assert_allclose(values.values[:, 0], one.values, rtol=1e-14)


@pytest.mark.parametrize("function", [*CURVES, rank_biased_precision])
@given(ranking=rankings(max_rows=40, real_labels=False), seed=st.integers(0, 2**32 - 1))
def test_order_of_rows_names_of_queries_and_scale_do_not_matter(function, ranking, seed):
    y, f, qid = ranking
    value = function(y, f, qid)
    shuffle = np.random.default_rng(seed).permutation(len(y))
    assert_allclose(function(y[shuffle], f[shuffle], qid[shuffle]), value, rtol=1e-12)
    _, names = np.unique(qid, return_inverse=True)
    assert_allclose(function(y, f, 7 - 3 * names), value, rtol=1e-12)
    assert_allclose(function(y, np.exp(f / 2) * 3 - 8, qid), value, rtol=1e-12)
    assert 0.0 <= value <= 1.0


@pytest.mark.parametrize("function", [average_precision, reciprocal_rank, ndcg])
def test_a_perfect_ranking_is_exactly_one(function):
    y = np.tile([2, 1, 0, 0, 1], 20)
    assert function(y, y + 0.001 * np.arange(100)) == 1.0
    assert function(y, y) == pytest.approx(1.0, abs=1e-15)


def test_letor_discount_makes_the_first_two_ranks_equal():
    assert ndcg([0, 1], [2.0, 1.0], discount="letor") == 1.0
    third = ndcg([0, 0, 1], [3.0, 2.0, 1.0], discount="letor")
    assert_allclose(third, 1 / np.log2(3))


def test_a_query_shorter_than_k_is_divided_by_k():
    assert precision_at_k([1, 1], [0.2, 0.1], k=10) == 0.2


def test_threshold_of_relevance():
    y, f = [2, 1, 0], [0.1, 0.9, 0.5]
    assert average_precision(y, f, relevant=1) == (1 / 1 + 2 / 3) / 2
    assert average_precision(y, f, relevant=2) == 1 / 3


def test_queries_without_a_relevant_row_count_zero_unless_skipped():
    y, f, qid = [1, 0, 0, 0], [0.2, 0.1, 0.3, 0.1], [1, 1, 2, 2]
    for function in (average_precision, reciprocal_rank, ndcg):
        assert function(y, f, qid) == 0.5
        assert function(y, f, qid, undefined="skip") == 1.0
        assert function(y, f, qid, undefined=1) == 1.0
        with pytest.raises(DataError, match=r"not defined for query 2 \(1 of 2 queries\): it has"):
            function(y, f, qid, undefined="raise")


def test_one_long_block_of_ties():
    """The expectation over 100,000! orders, against its closed form."""
    n, r = 100_000, 400
    y = np.zeros(n)
    y[:r] = 1
    f = np.zeros(n)
    ranks = np.arange(1, n + 1)
    want = np.mean((1 + (ranks - 1) * (r - 1) / (n - 1)) / ranks)
    assert_allclose(average_precision(y, f), want, rtol=1e-10)
    assert_allclose(precision_at_k(y, f, k=50), r / n)
    discounts = 1 / np.log2(ranks + 1)
    assert_allclose(ndcg(y, f), r / n * discounts.sum() / discounts[:r].sum(), rtol=1e-10)


def test_labels_without_a_gain():
    for gain in ("exponential", "linear"):
        with pytest.raises(DataError, match=r"labels of 0 and above: got -1\. Shift.*pairwise"):
            ndcg([1, -1], [1.0, 2.0], gain=gain)
    with pytest.raises(DataError, match=r"up to 1200 are too large for gain='exponential': use"):
        ndcg([1200, 0], [1.0, 2.0])
    assert ndcg([1200, 0], [1.0, 2.0], gain="linear") == pytest.approx(1 / np.log2(3))
    with pytest.raises(DataError, match=r"too large for gain='linear': divide them"):
        ndcg([1e308, 1e308], [1.0, 2.0], gain="linear")
