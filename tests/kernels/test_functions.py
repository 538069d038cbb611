"""Kernels against scikit-learn's."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.metrics.pairwise import pairwise_kernels

from rankwise import kernels
from rankwise.kernels import NamedKernel, PairFunction, Precomputed, kernel_product
from tests.strategies import seeds

PARAMETERS = {
    "linear": {},
    "cosine": {},
    "rbf": {"gamma": 0.3},
    "laplacian": {"gamma": 0.3},
    "polynomial": {"gamma": 0.3, "degree": 2, "coef0": 0.5},
    "poly": {"gamma": 0.3, "degree": 3, "coef0": 0.5},
    "sigmoid": {"gamma": 0.3, "coef0": 0.5},
}


@given(st.sampled_from(sorted(PARAMETERS)), seeds, st.sampled_from([np.asarray, sp.csr_array]))
def test_kernels_are_those_of_scikit_learn(name, seed, kind):
    rng = np.random.default_rng(seed)
    X, Y = (np.where(rng.random((n, 4)) < 0.6, rng.standard_normal((n, 4)), 0.0) for n in (7, 5))
    kernel = NamedKernel(name, **PARAMETERS[name])
    assert_allclose(
        kernel(kind(X), kind(Y)), pairwise_kernels(X, Y, name, **PARAMETERS[name]), atol=1e-12
    )
    assert_allclose(
        kernel(kind(X)), pairwise_kernels(X, metric=name, **PARAMETERS[name]), atol=1e-12
    )


@pytest.mark.parametrize("name", sorted(PARAMETERS))
def test_blocks_make_no_difference(name, monkeypatch):
    rng = np.random.default_rng(0)
    X, Y, V = rng.standard_normal((9, 3)), rng.standard_normal((8, 3)), rng.standard_normal((8, 2))
    kernel = NamedKernel(name, **PARAMETERS[name])
    whole = kernel(X, Y)
    monkeypatch.setattr(kernels, "BLOCK_BYTES", 100)
    monkeypatch.setattr("rankwise.kernels.PREDICT_BYTES", 100)
    assert_allclose(kernel(X, Y), whole, atol=1e-14)
    assert_allclose(kernel(sp.csr_array(X), sp.csr_array(Y)), whole, atol=1e-14)
    assert_allclose(kernel_product(kernel, X, Y, V), whole @ V, atol=1e-13)


def test_the_rbf_kernel_keeps_its_accuracy_far_from_the_origin():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 3))
    far = NamedKernel("rbf", gamma=0.5)(X + 1e6)
    assert_allclose(far, NamedKernel("rbf", gamma=0.5)(X), atol=1e-8)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("size", [1e6, 1e150, 1e200])
def test_the_rbf_kernel_of_rows_far_from_each_other(kind, size):
    X = size * np.array([[1.0, 0.0, 0.0], [0.0, -2.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 3.0]])
    near = X + np.array([0.0, 0.25, 0.0])  # lost by rounding, if X is large
    kernel, want = NamedKernel("rbf", gamma=2.0), np.eye(4)
    want[0, 2] = want[2, 0] = 1.0
    assert_allclose(kernel(kind(X)), want)
    assert_allclose(kernel(kind(X), kind(X.copy())), want)
    close = np.exp(-2.0 * (X[[0, 1]] - near[[0, 1]])[:, 1] ** 2)
    assert_allclose(kernel(kind(near), kind(X)).diagonal()[:2], close)


def test_a_function_of_two_rows():
    X, Y = np.array([[1.0, 2.0], [3.0, 4.0], [0.0, 1.0]]), np.array([[1.0, 1.0]])
    kernel = PairFunction(np.dot)
    assert_allclose(kernel(X, Y), X @ Y.T)
    assert_allclose(kernel(X), X @ X.T)


def test_precomputed_values_are_copied():
    K = np.eye(2)
    Precomputed()(K)[0, 0] = 5.0
    assert K[0, 0] == 1.0
