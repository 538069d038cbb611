"""The compiled sort and ranking against NumPy, where they could go wrong."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankwise.metrics import _sorting
from rankwise.metrics._ranking import Ranking


def run_sort(values):
    n = len(values)
    a, scratch = np.empty(n + 8, np.int64), np.empty(n + 8, np.int64)
    a[:n] = values
    return a, int(_sorting.sort(a, scratch, n, True))


@given(st.integers(1, 300), st.sampled_from([1, 2, 5, 2**62]), st.integers(0, 2**32 - 1))
def test_sort_sorts_and_counts_inversions(n, levels, seed):
    values = np.random.default_rng(seed).integers(-levels, levels, n)
    a, count = run_sort(values)
    assert a[:n].tolist() == sorted(values.tolist())
    assert count == sum(int((values[i] > values[i + 1 :]).sum()) for i in range(n))


@pytest.mark.parametrize("n", [7, 8, 9, 4096, 5000])
def test_inversions_of_sorted_and_reversed(n):
    assert run_sort(np.arange(n))[1] == 0
    assert run_sort(np.arange(n)[::-1])[1] == n * (n - 1) // 2


def test_block_of_eight_sorts_every_zero_one_sequence():
    """A network that sorts all of these sorts everything (Knuth's zero-one principle)."""
    for bits in range(256):
        values = [(bits >> i) & 1 for i in range(8)]
        assert run_sort(values)[0][:8].tolist() == sorted(values)


def ranked(f, qid=None):
    """Row numbers in the order of the scores, and the ties."""
    ranking = Ranking.of(np.arange(len(f)), f, qid)
    return ranking.labels.astype(int), ranking.tied


@given(st.integers(1, 200), st.integers(0, 2**32 - 1), st.sampled_from([1, 3, 60, 2**50]))
def test_scores_that_differ_in_their_last_bits(n, seed, spread):
    """Scores that agree in the leading bits that are sorted first, of both signs."""
    rng = np.random.default_rng(seed)
    start = rng.choice([np.float64(1.0), np.float64(-3.7), np.float64(1e-300)], n)
    f = (start.view(np.int64) + rng.integers(0, spread, n)).view(np.float64)
    rows, tied = ranked(f)
    want = np.argsort(-f, kind="stable")
    assert rows.tolist() == want.tolist()
    assert tied.tolist() == [False, *(f[want][1:] == f[want][:-1]).tolist()]


def test_extreme_scores_are_in_order():
    f = np.array([0.0, -0.0, 5e-324, -5e-324, 1e308, -1e308, np.finfo(float).max, -1.0])
    rows, tied = ranked(f)
    assert f[rows].tolist() == sorted(f.tolist(), reverse=True)
    assert tied.tolist() == [False, False, False, False, True, False, False, False]


def test_ranking_of_shuffled_queries():
    rows, tied = ranked([0.1, 0.4, 0.3, 0.4, 0.3], ["b", "a", "b", "a", "b"])
    assert rows.tolist() == [2, 4, 0, 1, 3]
    assert tied.tolist() == [False, True, False, False, True]
