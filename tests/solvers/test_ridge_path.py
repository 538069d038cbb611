"""Ridge paths by every method, compared with a general solver."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from rankwise.errors import DataError, RankwiseWarning
from rankwise.solvers import ridge_path
from rankwise.solvers.band import WIDTH, BandForm
from rankwise.solvers.ridge_path import Spectrum, solve_ridge_path
from tests.strategies import seeds


def semidefinite(seed, n, rank=None):
    Z = np.random.default_rng(seed).standard_normal((n, n if rank is None else rank))
    return Z @ Z.T


@pytest.mark.parametrize("n", [1, 2, 3, WIDTH, WIDTH + 1, WIDTH + 2, 2 * WIDTH + 3, 230])
@pytest.mark.parametrize("outputs", [(), (1,), (3,)])
@pytest.mark.parametrize("n_lams", [1, 3, 8])
def test_solutions(n, outputs, n_lams, monkeypatch):
    monkeypatch.setattr(ridge_path, "SMALL", 0)
    M = semidefinite(n, n)
    t = np.random.default_rng(n).standard_normal((n, *outputs))
    lams = np.geomspace(0.1, 100, n_lams)
    for lam, z in zip(lams, solve_ridge_path(M.copy(), t, lams), strict=True):
        assert_allclose((M + lam * np.eye(n)) @ z, t, atol=1e-9 * n)


@given(seeds, st.integers(1, 200))
def test_band_form_preserves_eigenvalues(seed, n):
    M = semidefinite(seed, n, rank=max(1, n // 2))
    form = BandForm.of(M.copy())
    B = np.zeros((n, n))
    for below, diagonal in enumerate(form.band):
        B += np.diag(diagonal[: n - below], -below)
    B += np.tril(B, -1).T
    assert_allclose(np.linalg.eigvalsh(B), np.linalg.eigvalsh(M), atol=1e-10 * n * n)


@given(seeds, st.integers(1, 200), st.integers(1, 70))
def test_half_solutions_of_a_band_form(seed, n, n_columns):
    M, Z = semidefinite(seed, n), np.random.default_rng(seed).standard_normal((n, n_columns))
    form = BandForm.of(M.copy())
    half = form.solve_half(form.rotate(Z), 0.5)
    expected = Z.T @ np.linalg.solve(M + 0.5 * np.eye(n), Z)
    assert_allclose(half.T @ half, expected, atol=1e-10 * n * n_columns)


@pytest.mark.parametrize("lam", [0.0, 1e-300, 1e-14])
def test_a_negligible_lam_gives_the_minimum_norm_solution(lam):
    M = semidefinite(0, 30, rank=10)
    t = M @ np.ones(30)
    (z,) = solve_ridge_path(M.copy(), t, [lam])
    assert_allclose(z, np.linalg.pinv(M) @ t, atol=1e-10)


@pytest.mark.parametrize("n_lams", [1, 4])
def test_small_features_beside_huge_ones_keep_their_weights(n_lams):
    Z = np.random.default_rng(0).standard_normal((60, 5))
    Z[:, 4], units = Z[:, 3], np.array([1.0, 1e-3, 1e9, 2.0, 2.0])  # the last two are the same
    A, t, lams = Z.T @ Z, Z.T @ (Z @ np.arange(5.0)), np.geomspace(1.0, 30.0, n_lams)
    M = A * units * units[:, None]
    for lam, z in zip(lams, solve_ridge_path(M, t * units, lams, gram=True), strict=True):
        expected = np.linalg.solve(A + lam * np.diag(units**-2.0), t)
        assert_allclose(z * units, expected, rtol=1e-6)


@pytest.mark.parametrize("lams", [[0.0], [1e-12], [1.0], [1e-12, 1.0]])
@pytest.mark.parametrize("copied", [1, 2])
def test_small_features_beside_duplicates_and_constants_keep_their_weights(lams, copied):
    units, shared = np.array([1.0, 1e-3, 1e9, 2.0]), np.where(np.arange(4) == copied, 2.0, 1.0)
    Z = np.random.default_rng(0).standard_normal((60, 4))
    A, b = Z.T @ Z, Z.T @ (Z @ np.arange(1.0, 5.0))
    F = Z * units
    F = np.column_stack((F, F[:, copied], np.zeros(60)))
    t = np.append(b * units, [b[copied] * units[copied], 0.0])
    for lam, z in zip(lams, solve_ridge_path(F.T @ F, t, lams, gram=True), strict=True):
        w = np.linalg.solve(A + lam * np.diag(units**-2.0 / shared), b) / units / shared
        assert_allclose(z, np.append(w, [w[copied], 0.0]), rtol=1e-6)


def test_zero_matrix_with_lam_zero():
    (z,) = solve_ridge_path(np.zeros((3, 3)), np.ones(3), [0.0])
    assert_allclose(z, 0.0)


def test_solutions_are_continuous_where_the_method_changes():
    M = semidefinite(0, 40, rank=20)
    t = M @ np.ones(40)
    floor = ridge_path.rounding_floor(M)
    below, above = (solve_ridge_path(M.copy(), t, [c * floor])[0] for c in (0.99, 1.01))
    assert_allclose(M @ below, M @ above, atol=1e-9 * np.abs(t).max())


@pytest.mark.parametrize("lams", [[1.0], [1.0] * 8, [0.0]])
@pytest.mark.parametrize("n", [10, 250])
def test_an_indefinite_matrix_gives_a_stationary_point_and_a_warning(lams, n):
    rng = np.random.default_rng(n)
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    M = Q @ np.diag(np.r_[-5.0, np.linspace(2.0, 5.0, n - 1)]) @ Q.T
    t = rng.standard_normal(n)
    with pytest.warns(RankwiseWarning, match="not positive semidefinite"):
        solutions = solve_ridge_path(M.copy(), t, lams)
    for lam, z in zip(lams, solutions, strict=True):
        assert_allclose((M + lam * np.eye(n)) @ z, t, atol=1e-9)


@pytest.mark.parametrize("lams", [[5.0], [5.0] * 8])
@pytest.mark.parametrize("n", [10, 250])
@pytest.mark.filterwarnings("ignore:The kernel is not positive")
def test_a_singular_system_raises_an_error(lams, n):
    M = np.diag(np.r_[-5.0, np.ones(n - 1)])
    with pytest.raises(DataError, match="singular"):
        solve_ridge_path(M, np.ones(n), lams)


def test_overflow_raises_an_error():
    with pytest.raises(DataError, match="overflow"):
        solve_ridge_path(np.diag([1.0, np.inf]), np.ones(2), [1.0])


def test_spectrum_solves_for_every_lam():
    M = semidefinite(1, 12)
    t = np.ones((12, 2))
    spectrum = Spectrum.of(M.copy())
    for lam in (0.5, 5.0):
        assert_allclose(spectrum.solve(t, lam), np.linalg.solve(M + lam * np.eye(12), t), atol=1e-9)
