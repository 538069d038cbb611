"""Which rows become landmarks."""

from collections import Counter

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rankwise.kernels import NamedKernel, Precomputed
from rankwise.problem.landmarks import (
    leverage_rows,
    pivoted_cholesky_rows,
    random_rows,
    stratified_rows,
)
from tests.oracles.landmarks import pivot_probabilities, residual_trace


def clusters(rng, sizes=(300, 60, 6), spread=0.05):
    centres = 5.0 * np.arange(len(sizes))[:, None] * np.ones(2)
    return np.vstack(
        [c + spread * rng.standard_normal((n, 2)) for c, n in zip(centres, sizes, strict=True)]
    )


def test_random_rows_are_distinct_and_ascend():
    rows = random_rows(50, 20, np.random.default_rng(0))
    assert len(np.unique(rows)) == 20
    assert (np.diff(rows) > 0).all()


@pytest.mark.parametrize("n", [1, 5, 7, 12, 20])
def test_stratified_rows_are_spread_as_evenly_as_sizes_allow(n):
    codes = np.repeat([0, 1, 2, 3], [2, 10, 1, 7])[np.random.default_rng(1).permutation(20)]
    rows = stratified_rows(codes, n, np.random.default_rng(0))
    assert len(np.unique(rows)) == n
    sizes, counts = np.bincount(codes), np.bincount(codes[rows], minlength=4)
    # A query with rows left never has two fewer than another.
    assert all(counts[q] == sizes[q] or counts[q] >= counts.max() - 1 for q in range(4))


def test_pivoted_cholesky_draws_from_the_distribution_of_single_pivots():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((6, 2))
    kernel, n_draws = NamedKernel("rbf", gamma=0.5), 400
    counts = Counter(tuple(pivoted_cholesky_rows(kernel, X, 3, rng)) for _ in range(n_draws))
    want = {rows: n_draws * p for rows, p in pivot_probabilities(kernel(X), 3).items()}
    assert set(counts) <= set(want)
    chi_square = sum((counts[rows] - n) ** 2 / n for rows, n in want.items())
    # 19 degrees of freedom: exceeded once in ten million. Accepting every proposal gives 388.
    assert chi_square < 70


@pytest.mark.parametrize("choose", [pivoted_cholesky_rows, leverage_rows])
def test_residual_is_smaller_than_that_of_random_rows(choose):
    rng = np.random.default_rng(0)
    X = clusters(rng)
    kernel = NamedKernel("rbf", gamma=20.0)
    K = kernel(X)
    chosen = np.mean([residual_trace(K, choose(kernel, X, 15, rng)) for _ in range(10)])
    uniform = np.mean([residual_trace(K, random_rows(len(X), 15, rng)) for _ in range(10)])
    assert chosen < 0.7 * uniform


def test_pivoted_cholesky_stops_at_the_rank():
    X = np.repeat(np.random.default_rng(0).standard_normal((4, 2)), 5, axis=0)
    rows = pivoted_cholesky_rows(NamedKernel("rbf"), X, 10, np.random.default_rng(0))
    assert len(rows) == 4
    assert len(np.unique(X[rows], axis=0)) == 4


@pytest.mark.parametrize("choose", [pivoted_cholesky_rows, leverage_rows])
def test_a_precomputed_kernel_chooses_the_same_rows(choose):
    X = clusters(np.random.default_rng(0))
    kernel = NamedKernel("rbf", gamma=20.0)
    ours = choose(Precomputed(), kernel(X), 9, np.random.default_rng(1))
    assert_allclose(ours, choose(kernel, X, 9, np.random.default_rng(1)))


@pytest.mark.parametrize("name", ["linear", "rbf", "laplacian", "polynomial", "sigmoid", "cosine"])
def test_the_diagonal_is_that_of_the_matrix(name):
    X = np.random.default_rng(0).standard_normal((5, 3))
    X[2] = 0.0
    kernel = NamedKernel(name, gamma=0.3)
    assert_allclose(kernel.diag(X), np.diagonal(kernel(X)), atol=1e-12)
