"""Triplets drawn for pairs of a query and a relevant document."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from rankwise.data import draw_triplets
from rankwise.errors import DataError, ParameterError
from tests.strategies import seeds


@given(seeds, st.integers(1, 5), st.integers(2, 12), st.integers(1, 4))
def test_a_known_positive_is_never_the_other_document(seed, n_queries, n_documents, n_negatives):
    rng = np.random.default_rng(seed)
    relevant = rng.random((n_queries, n_documents)) < 0.5
    relevant[:, 0] = False  # something to draw
    relevant[0, 1] = True
    pairs = rng.permutation(np.argwhere(relevant) * [3, 1])  # queries 0, 3, 6, ...
    triplets = draw_triplets(pairs, n_documents, n_negatives=n_negatives, random_state=seed)
    assert_array_equal(triplets[:, :2], np.repeat(pairs, n_negatives, axis=0))
    assert ((triplets[:, 2] >= 0) & (triplets[:, 2] < n_documents)).all()
    assert not relevant[triplets[:, 0] // 3, triplets[:, 2]].any()


def test_other_documents_are_uniform():
    pairs = [[4, 1], [4, 3], [2, 0]]
    triplets = draw_triplets(pairs, 6, n_negatives=6000, random_state=0)
    for query, others in ((4, [0, 2, 4, 5]), (2, [1, 2, 3, 4, 5])):
        drawn = triplets[triplets[:, 0] == query, 2]
        shares = np.bincount(drawn, minlength=6) / len(drawn)
        assert_allclose(shares[others], 1 / len(others), atol=0.03)
        assert_allclose(shares.sum() - shares[others].sum(), 0.0, atol=1e-12)


def test_a_pair_that_is_given_twice_counts_once():
    triplets = draw_triplets([[0, 1], [0, 1]], 2, n_negatives=3, random_state=0)
    assert_array_equal(triplets[:, 2], 0)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([[0, 0], [0, 1], [0, 2]], "All 3 documents are relevant to query 0"),
        ([[0, 3]], r"positives\[0\] is \(0, 3\): rows are counted from 0, and documents to 2"),
        ([[0, 1], [-1, 0]], r"positives\[1\]"),
        ([[0.0, 1.0]], "whole numbers, .* got float64"),
        ([0, 1], "must have rows .query, relevant document."),
        (np.empty((0, 2), int), "at least one"),
        ([[0], [1, 2]], "positives must have rows"),
    ],
)
def test_wrong_pairs(pairs, message):
    with pytest.raises(DataError, match=message):
        draw_triplets(pairs, 3)


def test_wrong_counts():
    with pytest.raises(ParameterError, match="n_negatives"):
        draw_triplets([[0, 1]], 3, n_negatives=0)
    with pytest.raises(ParameterError, match="n_documents"):
        draw_triplets([[0, 1]], 0)
