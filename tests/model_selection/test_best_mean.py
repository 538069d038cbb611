"""Choosing candidates by held-out scores, and the estimate of their mean."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from rankwise.model_selection import PairedDifference, ScoreEstimate
from rankwise.model_selection.meta_rankers import HeldOutPool
from tests.oracles import mean_of_best as oracle
from tests.strategies import seeds


@st.composite
def pools(draw):
    """Predictions of candidates of different quality, some of them equal, in shuffled queries."""
    rng = np.random.default_rng(draw(seeds))
    n_queries, n_candidates = draw(st.integers(2, 12)), draw(st.integers(1, 6))
    qid = rng.permutation(np.repeat(np.arange(n_queries), rng.integers(1, 7, n_queries)))
    qid = np.concatenate((qid, [0, 0]))
    y = rng.integers(0, 3, len(qid)).astype(float)
    y[-2:] = 0.0, 1.0  # the metric is defined on one query at least
    noise = rng.uniform(0, 2, n_candidates)[:, None]
    predictions = y + noise * rng.integers(-3, 4, (n_candidates, len(y)))
    batches = np.sort(rng.integers(0, 4, n_candidates))
    return y, qid, predictions, batches, draw(st.sampled_from(["ndcg@10", "disagreement"]))


@given(pools(), st.integers(1, 5))
def test_the_choice_and_the_estimate_are_those_of_the_loops(pool, n_best):
    y, qid, predictions, batches, metric = pool
    ours = HeldOutPool.of(y, qid, predictions, batches, metric)
    scores = np.array([oracle.standardized(f, qid) for f in predictions])
    assert_allclose(ours.scores, scores, atol=1e-5)
    # Sums of float32 scores may tie where sums of float64 scores do not: from here on, the same.
    scores = ours.scores
    table = np.array([oracle.values(y, qid, f, metric) for f in scores])
    assert_allclose(ours.values, table, atol=1e-12)
    errors = metric == "disagreement"
    want = oracle.choose(ours.values, batches, n_best, errors=errors)
    assert ours.choose(n_best).tolist() == want
    if table.shape[1] > 1:
        outer = oracle.outer_values(y, qid, scores, batches, n_best, metric)
        assert_allclose(ours.outer_values(n_best), outer, atol=1e-12)
        estimate = ours.estimate(ours.choose(n_best), ours.outer_values(n_best))
        sign = 1 if metric == "ndcg@10" else -1
        assert_allclose(estimate.score, sign * outer.mean(), atol=1e-12)
        assert estimate.n_queries == table.shape[1]


def test_no_more_than_two_alphas_of_a_ranker_and_none_that_is_clearly_worse():
    rng = np.random.default_rng(0)
    qid, y = np.repeat(np.arange(60), 5), np.tile([0.0, 1, 2, 3, 4], 60)
    good = [y + 1e-3 * k * rng.standard_normal(len(y)) for k in range(4)]
    bad = rng.standard_normal(len(y))
    pool = HeldOutPool.of(y, qid, np.array([*good, y, bad]), np.array([0, 0, 0, 0, 1, 2]), "ndcg")
    chosen = pool.choose(10).tolist()
    assert 4 in chosen
    assert 5 not in chosen
    assert len(chosen) == 3
    assert len(pool.choose(2)) == 2


def test_few_queries_lead_to_a_mean_of_many():
    rng = np.random.default_rng(1)
    qid, y = np.repeat(np.arange(100), 8), rng.integers(0, 3, 800).astype(float)
    noise = np.linspace(1.0, 1.5, 8)[:, None]
    predictions = y + noise * rng.standard_normal((8, 800))
    batches, few = np.arange(8), qid < 4
    all_queries = HeldOutPool.of(y, qid, predictions, batches, "ndcg@10")
    four = HeldOutPool.of(y[few], qid[few], predictions[:, few], batches, "ndcg@10")
    assert len(four.choose(8)) > len(all_queries.choose(8))


def test_the_estimate_of_a_choice_among_noise_is_not_optimistic():
    """Candidates without any merit: the best of them looks good, but not to other queries."""
    rng = np.random.default_rng(2)
    qid, y = np.repeat(np.arange(30), 2), np.tile([0.0, 1.0], 30)
    predictions = rng.standard_normal((200, 60))
    pool = HeldOutPool.of(y, qid, predictions, np.arange(200), "disagreement")
    estimate = pool.estimate(pool.choose(1), pool.outer_values(1))
    assert estimate.optimistic < 0.3
    assert estimate.score > 0.4
    assert not estimate.greater_is_better


def test_a_single_query_has_no_standard_error():
    y, qid = np.array([0.0, 1.0, 2.0]), np.zeros(3)
    pool = HeldOutPool.of(y, qid, np.array([y, -y]), np.array([0, 1]), "disagreement")
    assert pool.choose(2).tolist() == [0, 1]  # there is no evidence against the second
    estimate = pool.estimate(pool.choose(2), pool.outer_values(2))
    assert np.isnan(estimate.standard_error)


def test_interval_and_words():
    estimate = ScoreEstimate("map", True, 0.5, 0.01, 0.6, 1000)
    assert_allclose(estimate.interval(0.95), (0.4804, 0.5196), atol=1e-4)
    assert_allclose(estimate.interval(0.5), (0.49326, 0.50674), atol=1e-4)
    assert str(estimate) == "MAP 0.5000, 95% interval 0.4804 to 0.5196 (1,000 queries)"
    few = ScoreEstimate("map", True, 0.5, 0.01, 0.6, 5, "folds")
    assert_allclose(few.interval(0.95), (0.5 - 0.027764, 0.5 + 0.027764), atol=1e-6)


@pytest.mark.parametrize(
    ("gap", "clear"),
    [
        ([1.0, -1.0], False),
        ([1.0], False),
        ([1.0, 1.1], True),
        ([1.0] * 2, False),  # as often as not where two rankers are equally good
        ([0.8 - 0.7, 0.3 - 0.2, 0.1], False),  # the same up to rounding
        ([1.0] * 5, False),
        ([-1.0] * 6, True),
        ([0.0] * 6, False),
    ],
)
def test_whether_a_difference_is_clear(gap, clear):
    assert PairedDifference.of(np.array(gap)).is_clear is clear


@pytest.mark.parametrize(
    ("error", "n", "unit", "words"),
    [
        (0.0, 2, "folds", "MAP 0.5000 (2 folds, too few for an interval)"),
        (0.1, 4, "queries", "MAP 0.5000 (4 queries, too few for an interval)"),
        (0.0, 9, "queries", "MAP 0.5000 (9 queries, all with the same score: no interval)"),
    ],
)
def test_no_interval_from_too_little(error, n, unit, words):
    estimate = ScoreEstimate("map", True, 0.5, error, 0.5, n, unit)
    assert str(estimate) == words
    assert np.isnan(estimate.interval()).all()
