"""The order of the rows of each query, and its pairs, against loops."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from rankwise.metrics import get_metric, ranked_queries
from rankwise.metrics.ranked_queries import (
    RankedQueries,
    label_levels,
    rank_rows,
    sort_queries,
)

# Some differ in the last bits only, and 0.0 equals -0.0.
CLOSE = (-1.0, 0.0, -0.0, 1.0, 1.0 + 2.0**-52, 1.0 + 2.0**-51, 1.0 - 2.0**-53, 1e300, -1e-300)


@st.composite
def queries(draw, values):
    sizes = draw(st.lists(st.integers(1, 20), min_size=1, max_size=6))
    indptr = np.concatenate(([0], np.cumsum(sizes)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return np.array(rng.choice(values, indptr[-1])), indptr, rng


def parts(indptr):
    return [slice(a, b) for a, b in pairwise(indptr)]


@pytest.mark.parametrize("chunk", [1, 16, 2**15])
@given(problem=queries(CLOSE))
def test_rows_by_score(chunk, problem):
    scores, indptr, rng = problem
    labels, order = np.arange(float(len(scores))), rng.permutation(len(scores))
    order = order if rng.integers(2) else np.arange(len(scores))
    given_order = order if (np.diff(order) != 1).any() else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranked_queries, "_CHUNK", chunk)
        ranked, tied = rank_rows(labels, scores, given_order, indptr)
    for part in parts(indptr):
        rows = sorted(order[part].tolist(), key=lambda row: -scores[row])
        assert ranked[part].tolist() == rows
        values = scores[rows].tolist()
        assert tied[part].tolist() == [False, *(a == b for a, b in pairwise(values))]


@pytest.mark.parametrize("values", [[-(2**63), -5, 0, 7, 2**63 - 1], [0.0, -3.0, 0.25, 1e300]])
@given(data=st.data())
def test_numbers_are_sorted_within_queries(values, data):
    keys, indptr, _ = data.draw(queries(values))
    found = sort_queries(keys, indptr)
    for part in parts(indptr):
        assert found[part].tolist() == sorted(keys[part].tolist())


@pytest.mark.parametrize("values", [[-2.0, 0.0, 5.0], [0.5, 1.5, -0.0, 0.0, 7e10]])
@given(data=st.data())
def test_levels_are_small_and_have_the_order_of_the_labels(values, data):
    labels, indptr, _ = data.draw(queries(values))
    level = label_levels(labels, indptr)
    assert level.min() >= 0
    assert level.max() < max(64, np.diff(indptr).max())
    for part in parts(indptr):
        signs = (np.sign(np.subtract.outer(a, a)) for a in (labels[part], level[part]))
        assert np.array_equal(*signs)


@given(queries(CLOSE))
def test_pairs_are_counted_exactly(problem):
    scores, indptr, rng = problem
    labels = rng.choice([0.0, 1.0, 2.0, 2.5], len(scores))
    qid = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    for y in (np.floor(labels), labels):
        counts = RankedQueries.of(y, scores, qid).pair_counts
        for found, part in zip(counts.tolist(), parts(indptr), strict=True):
            n = part.stop - part.start
            a, b = (
                np.sign(np.subtract.outer(v[part], v[part]))[np.triu_indices(n, 1)]
                for v in (y, scores)
            )
            want = (a * b < 0), (a == 0), (b == 0), ((a == 0) & (b == 0))
            assert found == [n * (n - 1) // 2, *(int(w.sum()) for w in want)]


def test_many_rows_in_one_query():
    y = np.random.default_rng(0).standard_normal(70_000)
    all_pairs = 70_000 * 69_999 // 2
    assert RankedQueries.of(y, -y).pair_counts[0].tolist() == [all_pairs, all_pairs, 0, 0, 0]


@pytest.mark.parametrize("name", ["ndcg", "ndcg@3", "map", "map@2", "precision@2", "mrr", "rbp"])
@given(problem=queries(CLOSE))
def test_queries_are_evaluated_a_few_at_a_time(name, problem):
    scores, indptr, rng = problem
    y = rng.integers(0, 3, len(scores))
    metric = get_metric(name).function
    qid = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    want = metric(y, scores, qid, per_query=True).values
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranked_queries, "_CHUNK", 8)
        patch.setattr(ranked_queries, "_LEAST_PARTS", 1)  # in threads
        assert_allclose(metric(y, scores, qid, per_query=True).values, want, rtol=1e-12)
