"""Pair-counting metrics against two loops over the rows, and their invariances."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from rankwise.metrics import concordance_index, disagreement_error, kendall_tau
from tests.metrics.cases import check_against_oracle, rankings
from tests.oracles import metrics as oracle

FUNCTIONS = [disagreement_error, concordance_index, kendall_tau]


@given(
    rankings(max_rows=40),
    st.sampled_from(["half", "wrong"]),
    st.sampled_from(["exclude", "half"]),
    st.sampled_from(["skip", 0.0, 0.5, 1]),
)
def test_disagreement_is_the_sum_over_pairs(ranking, score_ties, label_ties, undefined):
    options = {"score_ties": score_ties, "label_ties": label_ties}
    check_against_oracle(disagreement_error, oracle.disagreement, ranking, undefined, **options)


@given(rankings(max_rows=40), st.sampled_from(["skip", 0.0, 0.5]))
def test_tau_b_is_the_sum_over_pairs(ranking, undefined):
    check_against_oracle(kendall_tau, oracle.tau_b, ranking, undefined)


@given(rankings(max_rows=40), st.sampled_from(["skip", 0.0, 0.5]))
def test_concordance_is_one_minus_disagreement(ranking, undefined):
    def metric(y, f):
        error = oracle.disagreement(y, f)
        return None if error is None else 1 - error

    check_against_oracle(concordance_index, metric, ranking, undefined)


@given(rankings(max_rows=15), st.sampled_from(["exclude", "half"]))
def test_both_signs_agree_on_a_symmetric_graph(ranking, label_ties):
    """What the docstring says about equation (4) of the KPCRank paper, with our default."""
    y, f, _ = ranking
    ours = disagreement_error(y, f, label_ties=label_ties, undefined=-1.0)
    for sign in (oracle.sign, oracle.sign_minus):
        theirs = oracle.symmetric_disagreement(y.tolist(), f.tolist(), sign, label_ties)
        assert_allclose(ours, -1.0 if theirs is None else theirs, rtol=1e-13)


@given(rankings(max_rows=15))
def test_wrong_is_the_minus_sign_on_comparisons_in_one_direction(ranking):
    y, f, _ = ranking
    theirs = oracle.one_sided_disagreement(y.tolist(), f.tolist())
    ours = disagreement_error(y, f, score_ties="wrong", undefined=-1.0)
    assert_allclose(ours, -1.0 if theirs is None else theirs, rtol=1e-13)


def test_one_wrong_pair_of_three():
    y, f = [2, 1, 0], [0.9, 0.2, 0.4]
    assert disagreement_error(y, f) == 1 / 3
    assert concordance_index(y, f) == 1 - 1 / 3
    assert kendall_tau(y, f) == 1 / 3


def test_a_perfect_ranking_is_exactly_perfect():
    y = np.arange(1000) % 7
    assert disagreement_error(y, y) == 0.0
    assert concordance_index(y, y) == 1.0
    assert kendall_tau(y, y) == 1.0
    assert kendall_tau(y, -y) == -1.0


def test_constant_scores_are_half_wrong_and_uncorrelated():
    y, f = [3, 1, 2, 2], [0.5] * 4
    assert disagreement_error(y, f) == 0.5
    assert disagreement_error(y, f, score_ties="wrong") == 1.0
    assert disagreement_error(y, f, label_ties="half") == 2.5 / 6
    assert kendall_tau(y, f) == 0.0


def test_minus_zero_ties_with_zero():
    assert disagreement_error([1, 0], [-0.0, 0.0]) == 0.5
    assert kendall_tau([0.0, -0.0, 1.0], [1.0, 2.0, 3.0]) == kendall_tau([0, 0, 1], [1, 2, 3])


def test_scores_that_differ_in_the_last_bit_do_not_tie():
    f = np.array([1.0, np.nextafter(1.0, 2.0)])
    assert disagreement_error([0, 1], f) == 0.0
    assert disagreement_error([1, 0], f) == 1.0


@pytest.mark.parametrize("function", FUNCTIONS)
@given(ranking=rankings(max_rows=30), seed=st.integers(0, 2**32 - 1))
def test_order_of_rows_and_names_of_queries_do_not_matter(function, ranking, seed):
    y, f, qid = ranking
    value = function(y, f, qid, undefined=0.0)
    shuffle = np.random.default_rng(seed).permutation(len(y))
    assert_allclose(function(y[shuffle], f[shuffle], qid[shuffle], undefined=0.0), value)
    renamed = 7 - 3 * np.unique(qid, return_inverse=True)[1]
    assert function(y, f, renamed, undefined=0.0) == value


@pytest.mark.parametrize("function", FUNCTIONS)
@given(ranking=rankings(max_rows=30))
def test_a_monotone_map_of_scores_or_labels_does_not_matter(function, ranking):
    y, f, qid = ranking
    value = function(y, f, qid, undefined=0.0)
    levels, place = np.unique(f, return_inverse=True)
    mapped = np.cumsum(np.linspace(0.1, 3.0, len(levels)) ** 3)[place] - 5.0
    assert function(y, mapped, qid, undefined=0.0) == value
    assert function(2.0 * y - 7.0, f, qid, undefined=0.0) == value


@given(rankings(max_rows=30))
def test_negated_scores_reverse_the_metrics(ranking):
    y, f, qid = ranking
    error = disagreement_error(y, f, qid, undefined=0.5)
    assert_allclose(disagreement_error(y, -f, qid, undefined=0.5), 1 - error)
    tau = kendall_tau(y, f, qid, undefined=0.0)
    assert_allclose(kendall_tau(y, -f, qid, undefined=0.0), -tau, atol=1e-15)


def test_counts_of_a_long_query_are_exact():
    """More pairs than fit into 32 bits, against a count by levels."""
    rng = np.random.default_rng(3)
    n = 200_000
    y = rng.integers(0, 4, n)
    f = rng.integers(0, 50, n)
    table = np.zeros((4, 50), dtype=np.int64)
    np.add.at(table, (y, f), 1)
    below = np.cumsum(table, axis=1)
    wrong = tied = total = 0
    for better in range(4):
        for worse in range(better):
            tied += int((table[better] * table[worse]).sum())
            above = below[worse][-1] - below[worse]
            wrong += int((table[better] * above).sum())
            total += int(table[better].sum() * table[worse].sum())
    assert total > 2**32
    assert disagreement_error(y, f) == (2 * wrong + tied) / (2 * total)
