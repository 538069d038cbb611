"""Landmark coordinates."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rankwise.errors import DataError, RankwiseWarning
from rankwise.solvers.ridge_path import LandmarkFactor


def gram(seed, n=12, rank=12):
    F = np.random.default_rng(seed).standard_normal((n, rank))
    return F @ F.T


def test_inner_products_of_coordinates_are_kernel_values():
    K = gram(0)
    basis = LandmarkFactor.of(K)
    coordinates = basis.whiten(K[:, basis.kept])
    assert basis.rank == 12
    assert_allclose(coordinates @ coordinates.T, K, atol=1e-10)


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_linearly_dependent_landmarks_are_dropped(scale):
    K = scale * gram(1, rank=5)
    basis = LandmarkFactor.of(K)
    assert basis.rank == 5
    coordinates = basis.whiten(K[:, basis.kept])
    assert_allclose(coordinates @ coordinates.T, K, atol=1e-9 * scale)
    a = basis.coefficients(np.ones((5, 2)))
    assert a.shape == (12, 2)
    assert np.count_nonzero(a.any(axis=1)) == 5


def test_an_indefinite_kernel_gives_a_warning():
    K = np.diag([1.0, 1.0, -1.0])
    with pytest.warns(RankwiseWarning, match="only 2 of 3 landmarks"):
        assert LandmarkFactor.of(K).rank == 2


def test_a_kernel_of_zeros_raises_an_error():
    with pytest.raises(DataError, match="0 on all landmarks"):
        LandmarkFactor.of(np.zeros((3, 3)))


def test_whitening_rows_and_whitening_moments_agree():
    rng = np.random.default_rng(2)
    K_RR = gram(3)
    basis = LandmarkFactor.of(K_RR)
    K = rng.standard_normal((40, 12)) @ K_RR
    M, t = basis.whiten_system(*moments(K[:, basis.kept]))
    want_M, want_t = moments(basis.whiten(K[:, basis.kept]))
    assert_allclose(M, want_M, rtol=1e-8, atol=1e-8 * np.abs(want_M).max())
    assert_allclose(t, want_t, rtol=1e-8, atol=1e-8 * np.abs(want_t).max())


def moments(F):
    return F.T @ F, F.T @ np.arange(float(len(F)))
