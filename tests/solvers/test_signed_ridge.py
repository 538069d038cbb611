"""Weights with given signs, against all sets of zeros and against SciPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import lsq_linear

from rankwise.errors import DataError
from rankwise.solvers.ridge_path import solve_ridge_path
from rankwise.solvers.signed_ridge import signed_solution, solve_signed_path
from tests.oracles.signed_ridge import best_signed_weights


@given(st.integers(0, 10**6), st.integers(1, 4), st.sampled_from([1e-3, 1.0, 100.0]))
def test_weights_are_the_best_of_all_sets_of_zeros(seed, n, lam):
    rng = np.random.default_rng(seed)
    Z, t = rng.standard_normal((6, n)), rng.standard_normal(6)
    signs = rng.integers(-1, 2, n)
    (found,) = solve_signed_path(Z.T @ Z, Z.T @ t, [lam], signs)
    assert_allclose(found, best_signed_weights(Z, t, lam, signs), atol=1e-9)


def test_small_features_beside_huge_ones_keep_their_weights():
    Z, units = np.random.default_rng(0).standard_normal((60, 4)), np.array([1.0, 1e-3, 1e9, 2.0])
    A, t, signs = Z.T @ Z, Z.T @ (Z @ np.arange(1.0, 5.0)), np.array([1, 0, 1, 1])
    (found,) = solve_signed_path(A * units * units[:, None], t * units, [1.0], signs)
    assert_allclose(found * units, np.linalg.solve(A + np.diag(units**-2.0), t), rtol=1e-6)


def test_small_features_beside_huge_duplicates_keep_their_weights():
    Z, units = np.random.default_rng(0).standard_normal((60, 3)), np.array([1.0, 2.0, 1e9])
    A, b, some = Z.T @ Z, Z.T @ (Z @ np.arange(1.0, 4.0)), np.array([0, 1, 2, 2])
    F, signs = (Z * units)[:, some], np.array([1, 0, 0, 0])
    (found,) = solve_signed_path(F.T @ F, (b * units)[some], [1.0], signs)
    want = np.linalg.solve(A + np.diag(units**-2.0 / [1.0, 1.0, 2.0]), b)[some] / [1, 1, 2, 2]
    assert_allclose(found * units[some], want, rtol=1e-6)


@pytest.mark.parametrize("spread", [0.0, 3.0])
def test_the_solution_is_scipys_and_paths_agree_with_single_alphas(spread):
    rng, n, lams = np.random.default_rng(0), 60, [0.01, 1.0, 100.0]
    Z = rng.standard_normal((90, n)) * 10.0 ** (spread * rng.uniform(-1, 1, n))
    Z[:, 1] = Z[:, 0] + 1e-3 * rng.standard_normal(90)
    t, signs = rng.standard_normal((90, 2)), rng.integers(-1, 2, n)
    low, high = np.where(signs == 1, 0.0, -np.inf), np.where(signs == -1, 0.0, np.inf)
    for lam, found in zip(lams, solve_signed_path(Z.T @ Z, Z.T @ t, lams, signs), strict=True):
        for w, column in zip(found.T, t.T, strict=True):
            rows = np.vstack((Z, np.sqrt(lam) * np.eye(n)))
            target = np.concatenate((column, np.zeros(n)))
            want = lsq_linear(rows, target, (low, high), method="bvls", tol=1e-15).x
            assert_allclose(w, want, rtol=0, atol=1e-8 * np.abs(want).max())
            assert (signs * w >= 0).all()


def test_without_signs_it_is_ridge_regression_also_if_the_moments_are_singular():
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((20, 4))
    Z = np.column_stack((Z, Z[:, 0]))  # twice the same feature
    A, b = Z.T @ Z, Z.T @ rng.standard_normal(20)
    for lam in (0.0, 1e-14, 1.0):
        (found,) = solve_signed_path(A, b, [lam], [0] * 5)
        (want,) = solve_ridge_path(A.copy(), b, [lam], gram=True)
        assert_allclose(found, want, atol=1e-8)
    (found,) = solve_signed_path(A, b, [0.0], [1, -1, 1, 0, 1])
    assert (np.array([1, -1, 1, 0, 1]) * found >= 0).all()


@given(st.integers(0, 10**6))
def test_the_start_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 12))
    Z, signs = rng.standard_normal((n + 2, n)), rng.integers(-1, 2, n)
    M, b = Z.T @ Z + 0.1 * np.eye(n), rng.standard_normal(n)
    want, _ = signed_solution(M, b, signs)
    found, _ = signed_solution(M, b, signs, rng.random(n) < 0.5)
    assert_allclose(found, want, atol=1e-9)


def test_products_that_overflow_are_refused():
    with pytest.raises(DataError, match="overflow"):
        solve_signed_path(np.diag([np.inf, 1.0]), np.ones(2), [1.0], [1, 1])
