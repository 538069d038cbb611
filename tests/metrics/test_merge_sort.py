"""The compiled merge sort and its count of inversions against NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankwise.metrics import _merge_sort


def run_sort(values):
    n = len(values)
    a, scratch = np.empty(n + 8, np.int64), np.empty(n + 8, np.int64)
    a[:n] = values
    return a, int(_merge_sort.sort(a, scratch, n, True))


@given(st.integers(1, 300), st.sampled_from([1, 2, 5, 2**62]), st.integers(0, 2**32 - 1))
def test_sort_sorts_and_counts_inversions(n, levels, seed):
    values = np.random.default_rng(seed).integers(-levels, levels, n)
    a, count = run_sort(values)
    assert a[:n].tolist() == sorted(values.tolist())
    assert count == int(np.triu(values[:, None] > values).sum())


@pytest.mark.parametrize("n", [7, 8, 9, 4096, 5000])
def test_inversions_of_sorted_and_reversed(n):
    assert run_sort(np.arange(n))[1] == 0
    assert run_sort(np.arange(n)[::-1])[1] == n * (n - 1) // 2


def test_block_of_eight_sorts_every_zero_one_sequence():
    """A network that sorts all of these sorts everything (Knuth's zero-one principle)."""
    for bits in range(256):
        values = [(bits >> i) & 1 for i in range(8)]
        assert run_sort(values)[0][:8].tolist() == sorted(values)
