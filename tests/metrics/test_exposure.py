"""Attention by group, against loops over queries and ranks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from rankwise.errors import DataError, ParameterError
from rankwise.metrics import group_exposure


def by_loops(y, scores, groups, qid, k):
    """Shares of attention and relevance of every query, as dictionaries by group."""
    found = []
    for q in np.unique(qid):
        rows = np.flatnonzero(qid == q)
        if y[rows].sum() == 0:
            continue
        seen, wanted = dict.fromkeys(groups, 0.0), dict.fromkeys(groups, 0.0)
        ranked = sorted(rows, key=lambda i: -scores[i])
        weights = [1 / np.log2(r + 2) if k is None or r < k else 0.0 for r in range(len(ranked))]
        for i in rows:
            tied = [w for w, j in zip(weights, ranked, strict=True) if scores[j] == scores[i]]
            seen[groups[i]] += np.mean(tied) / sum(weights)
            wanted[groups[i]] += y[i] / y[rows].sum()
        found.append((seen, wanted))
    return found


@given(st.integers(0, 10**6), st.sampled_from([None, 1, 3]))
def test_shares_are_those_of_loops(seed, k):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 25))
    qid, y = rng.integers(0, 4, n), rng.integers(0, 3, n)
    y[0] = 1
    scores, groups = rng.integers(0, 4, n) * 1.0, rng.choice(["a", "b", "c"], n)
    found, want = group_exposure(y, scores, groups, qid, k=k), by_loops(y, scores, groups, qid, k)
    assert found.n_queries == len(want)
    for g, name in enumerate(found.groups.tolist()):
        seen, wanted = (np.array([one[part][name] for one in want]) for part in (0, 1))
        assert_allclose(found.attention[g], seen.mean(), atol=1e-12)
        assert_allclose(found.relevance[g], wanted.mean(), atol=1e-12)
        if len(want) > 1:
            error = (seen - wanted).std(ddof=1) / np.sqrt(len(want))
            assert_allclose(found.standard_error[g], error, atol=1e-8)
    assert_allclose([found.attention.sum(), found.relevance.sum()], 1.0)


def test_the_table_and_the_interval():
    y, scores, qid = [1, 0, 0, 2, 0, 0], [2.0, 1.0, 2.0, 1.0, 1.0, 2.0], [1, 1, 2, 2, 3, 3]
    found = group_exposure(y, scores, [7, 8, 7, 8, 7, 8], qid)
    assert "without a relevant row: 1 query" in str(found)
    low, high = found.interval[0]
    assert_allclose((low + high) / 2, found.difference[0])
    assert low < found.difference[0] < high
    assert found.to_frame()["attention"].tolist() == found.attention.tolist()
    one = group_exposure([1, 0], [1.0, 0.0], ["a", "b"])
    assert np.isnan(one.interval).all()


@pytest.mark.parametrize(
    ("y", "scores", "message"),
    [
        ([-1, 1], [0.0, 1.0], "0 or more: got -1 in row 0"),
        ([0, 0], [0.0, 1.0], "No query has a row with a label above 0"),
        ([0, 1], [0.0, np.nan], "scores is nan in row 1"),
        ([0, 1], [0.0], "scores needs one entry per row of y"),
    ],
)
def test_wrong_rows_are_explained(y, scores, message):
    with pytest.raises(DataError, match=message):
        group_exposure(y, scores, ["a", "b"])


def test_wrong_options_are_explained():
    with pytest.raises(ParameterError, match="k must be an integer of at least 1"):
        group_exposure([0, 1], [0.0, 1.0], ["a", "b"], k=0)
