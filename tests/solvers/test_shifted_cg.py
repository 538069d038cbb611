"""Conjugate gradients for many shifts, compared with dense solutions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from rankwise.errors import DataError
from rankwise.solvers.shifted_cg import is_solved, shifted_cg
from tests.strategies import seeds


def gram(seed, n, rank, spread=0.0):
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((rank, n)) * 10.0 ** (-spread * np.linspace(0, 1, n))
    return Z.T @ Z, Z.T @ rng.standard_normal((rank, 3))


def dense(A, b, lams):
    return [np.linalg.solve(A + lam * np.eye(len(A)), b) for lam in lams]


@given(
    seeds,
    st.integers(1, 12),
    st.integers(1, 15),
    st.lists(st.sampled_from([1e-2, 0.3, 1.0, 1e3]), min_size=1, max_size=4),
)
def test_every_shift_has_the_dense_solution(seed, n, rank, lams):
    A, b = gram(seed, n, rank)
    b[:, 1] = 0.0
    found = shifted_cg(lambda P: A @ P, b, lams, tol=1e-11, max_iter=500)
    for w, want in zip(found.solutions, dense(A, b, lams), strict=True):
        assert_allclose(w, want, rtol=1e-6, atol=1e-7 * abs(want).max())
    assert is_solved(found, 1e-11).all()
    M = np.random.default_rng(0).standard_normal((4, n))
    seen = shifted_cg(lambda P: A @ P, b, lams, tol=1e-11, max_iter=500, observe=lambda P: M @ P)
    for f, want in zip(seen.solutions, dense(A, b, lams), strict=True):
        assert_allclose(f, M @ want, rtol=1e-6, atol=1e-6 * abs(want).max() * n)


def test_a_path_needs_no_more_products_than_its_smallest_shift():
    A, b = gram(0, 60, 80, spread=2.0)
    lams = np.geomspace(1e-2, 1e3, 8).tolist()
    alone = shifted_cg(lambda P: A @ P, b, lams[:1], tol=1e-8, max_iter=500)
    path = shifted_cg(lambda P: A @ P, b, lams[::-1], tol=1e-8, max_iter=500)
    assert path.n_iter == alone.n_iter
    assert_allclose(path.solutions[-1], alone.solutions[0], rtol=1e-9)


def test_a_singular_system_without_a_shift_has_the_shortest_solution():
    A, b = gram(0, 10, 4)
    found = shifted_cg(lambda P: A @ P, b, [0.0], tol=1e-12, max_iter=100)
    assert_allclose(found.solutions[0], np.linalg.lstsq(A, b, rcond=1e-10)[0], atol=1e-8)


def test_lost_orthogonality_is_repaired():
    A, b = gram(1, 80, 100, spread=4.0)
    found = shifted_cg(lambda P: A @ P, b, [1e-6, 1e-3], tol=1e-12, max_iter=20_000)
    for w, lam, residual in zip(found.solutions, [1e-6, 1e-3], found.residuals, strict=True):
        rest = np.linalg.norm(b - A @ w - lam * w, axis=0) / np.linalg.norm(b, axis=0)
        assert_allclose(residual, rest.max(), rtol=1e-3, atol=1e-15)  # true, not claimed
    assert is_solved(found, 1e-12).all()
    assert found.n_iter > len(A)  # more than in exact arithmetic


def test_errors_of_the_recurrences_are_found_and_reduced():
    A, b = gram(2, 30, 40)
    calls = iter(range(10**6))

    def slightly_wrong(P):
        return A @ P * (1.0 + (1e-3 if next(calls) == 2 else 0.0))

    found = shifted_cg(slightly_wrong, b, [0.1, 1.0], tol=1e-9, max_iter=500)
    for w, want in zip(found.solutions, dense(A, b, [0.1, 1.0]), strict=True):
        assert_allclose(w, want, rtol=1e-6, atol=1e-8)


def test_too_few_steps_say_how_far_they_came():
    A, b = gram(0, 60, 80, spread=3.0)
    found = shifted_cg(lambda P: A @ P, b, [1e-6, 1e4], tol=1e-9, max_iter=7)
    assert found.n_iter == 7
    assert is_solved(found, 1e-9).tolist() == [False, True]


@pytest.mark.parametrize("factor", [1e-160, 1e160])
def test_extreme_right_hand_sides(factor):
    A, b = gram(0, 5, 9)
    found = shifted_cg(lambda P: A @ P, b * factor, [1.0], tol=1e-10, max_iter=50)
    assert_allclose(found.solutions[0] / factor, dense(A, b, [1.0])[0], rtol=1e-7, atol=1e-9)


def test_overflow_is_an_error():
    with np.errstate(over="ignore"), pytest.raises(DataError, match="overflow"):
        shifted_cg(lambda P: P * 1e308 * 1e10, np.ones((3, 1)), [1.0], tol=1e-3, max_iter=5)
    with pytest.raises(DataError, match="overflow"):
        shifted_cg(lambda P: P, np.full((3, 1), np.inf), [1.0], tol=1e-3, max_iter=5)
