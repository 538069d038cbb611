"""Shapley values of products, by subsets, and sampled."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from rankwise.inspection import shapley
from tests.oracles.shapley import all_sets, shapley_values


def products(P, Q, weights):
    """The values of sets of players."""
    members = [[j in some for j in range(P.shape[1])] for some in all_sets(P.shape[1])]
    return lambda sets: [np.where(row, P, Q).prod(axis=1) @ weights for row in members]


def of_sets(P, Q, weights):
    """The values of sets as rows of an array."""
    return lambda sets, _: np.where(sets[:, None, :], P, Q).prod(axis=2) @ weights


@given(
    st.integers(1, 5), st.integers(1, 4), st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 0.5, 1.0]),
)  # fmt: skip
def test_products_are_the_definition(d, m, seed, share_of_zeros):
    rng = np.random.default_rng(seed)
    P, Q = rng.random((2, m, d)) * (rng.random((2, m, d)) >= share_of_zeros)
    weights = rng.normal(size=m) * 10.0 ** rng.integers(-3, 4)
    want = shapley_values(products(P, Q, weights), d)
    size = max(1.0, abs(weights).max())
    assert_allclose(shapley.of_products(P, Q, weights), want, atol=1e-12 * size)
    assert_allclose(shapley.enumerated(of_sets(P, Q, weights), d), want, atol=1e-12 * size)


@pytest.mark.parametrize("d", [1, 2, 45, 46, 137])
def test_products_sum_to_the_difference_for_many_players(d):
    rng = np.random.default_rng(d)
    P, Q = rng.random((2, 40, d)) ** 0.05
    weights = rng.normal(size=40)
    found = shapley.of_products(P, Q, weights)
    want = weights @ (P.prod(axis=1) - Q.prod(axis=1))
    assert_allclose(found.sum(), want, rtol=0, atol=1e-12)


def test_products_that_are_cut_into_blocks_of_nodes_are_the_same(monkeypatch):
    rng = np.random.default_rng(0)
    P, Q = rng.random((2, 10, 20))
    whole = shapley.of_products(P, Q, np.ones(10))
    monkeypatch.setattr(shapley, "CELLS", 500)
    assert_allclose(shapley.of_products(P, Q, np.ones(10)), whole, rtol=1e-12)


def test_samples_agree_with_all_subsets_and_their_errors_are_right():
    rng = np.random.default_rng(0)
    P, Q = rng.random((2, 30, 6))
    weights = rng.normal(size=30)
    want = shapley_values(products(P, Q, weights), 6)
    gaps = []
    for seed in range(30):
        found, variance = shapley.sampled(
            of_sets(P, Q, weights), 6, 50, np.random.default_rng(seed)
        )
        assert_allclose(found.sum(), want.sum(), atol=1e-12)
        gaps.append((found - want) / np.sqrt(variance))
    assert 0.8 < np.std(gaps) < 1.3


def test_no_players_and_no_products():
    assert shapley.of_products(np.ones((3, 0)), np.ones((3, 0)), np.ones(3)).shape == (0,)
    assert shapley.of_products(np.ones((0, 2)), np.ones((0, 2)), np.ones(0)).tolist() == [0, 0]
