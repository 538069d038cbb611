"""The operations of the seam: torch does what NumPy does, and both do what they say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from rankwise.backends.dispatch import NUMPY, at_home, backend_of

pytest.importorskip("torch", reason="needs the extra gpu")

import torch

from rankwise.backends._host_rows import TravellingRows
from rankwise.backends._torch import TorchBackend

TORCH = TorchBackend.on(torch.device("cpu"))


def spd(n, seed=0, rank=None):
    F = np.random.default_rng(seed).standard_normal((n, rank or n))
    return F @ F.T


def test_arrays_tell_where_they_are():
    assert backend_of(np.zeros(1)) is NUMPY
    assert backend_of([1.0]) is NUMPY
    assert backend_of(torch.zeros(1)) is TORCH
    assert backend_of(TravellingRows(np.zeros((1, 1)), TORCH)) is TORCH


@st.composite
def nests(draw):
    """Levels in groups, with rows in any order."""
    sizes = draw(st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=3), max_size=80))
    levels = [n for group in sizes for n in group]
    level_ptr = np.concatenate(([0], np.cumsum(levels))).astype(np.intp)
    group_ptr = np.concatenate(([0], np.cumsum([len(g) for g in sizes]))).astype(np.intp)
    rng = np.random.default_rng(draw(st.integers(0, 100)))
    rows = np.arange(level_ptr[-1])
    if draw(st.booleans()):
        rows = rng.permutation(rows)
    a, b = rng.uniform(0.5, 2.0, len(levels)), rng.uniform(0.5, 2.0, len(sizes))
    return rows, level_ptr, group_ptr, a, b


@given(nests(), st.integers(1, 3))
def test_rows_are_combined_with_the_means_of_their_groups(nest, d):
    rows, level_ptr, group_ptr, a, b = nest
    X = np.random.default_rng(0).standard_normal((len(rows), d))
    want, got = np.empty_like(X), torch.empty(X.shape, dtype=torch.float64)
    in_order = np.arange(len(rows))
    NUMPY.combine_rows(X, want, rows, in_order, level_ptr, group_ptr, a, b)
    TORCH.combine_rows(torch.tensor(X), got, rows, in_order, level_ptr, group_ptr, a, b)
    assert_allclose(got.numpy(), want, atol=1e-13)
    K = X @ X.T
    want, got = K.copy(), torch.tensor(K)
    for on, M in ((NUMPY, want), (TORCH, got)):
        on.combine_rows(M, M, rows, rows, level_ptr, group_ptr, a, b)
        on.combine_columns(M, rows, level_ptr, group_ptr, a, b)
    assert_allclose(got.numpy(), want, atol=1e-12)


@pytest.mark.parametrize("n", [1, 40, 1100])
@pytest.mark.parametrize("on", [NUMPY, TORCH], ids=["numpy", "torch"])
def test_symmetric_updates(on, n):
    Z = np.random.default_rng(0).standard_normal((30, n))
    A = on.gram_zeros(n)
    for part in (Z[:20], Z[20:]):
        A = on.add_gram(A, on.array(part))
    assert_allclose(NUMPY.array(on.mirror_upper(A)), Z.T @ Z, atol=1e-12)


@pytest.mark.parametrize(("n", "rank"), [(30, 30), (150, 150), (150, 40)])
def test_pivoted_cholesky_is_that_of_lapack(n, rank):
    K = spd(n, rank=rank)
    tolerance = 1e-10 * K.diagonal().max()
    want_order, want_C, _ = NUMPY.pivoted_cholesky(K, tolerance)
    order, C, rest = TORCH._pivoted_cholesky(torch.tensor(K), tolerance)
    assert len(C) == len(want_C) == rank
    assert_array_equal(order[:rank], want_order[:rank])
    assert sorted(order.tolist()) == list(range(n))
    assert_allclose(C.numpy(), want_C, atol=1e-9)
    assert_allclose(C.numpy() @ C.numpy().T, K[np.ix_(order[:rank], order[:rank])], atol=1e-9)
    assert len(rest) == n - rank
    assert abs(rest.numpy()).max(initial=0.0) < 1e-9 * K.diagonal().max()


def test_pivots_are_spared_where_their_order_does_not_matter():
    K = spd(20) + 20 * np.eye(20)
    order, C, rest = TORCH.pivoted_cholesky(torch.tensor(K), 1e-10)
    assert_array_equal(order, np.arange(20))
    assert_allclose((C @ C.T).numpy(), K, atol=1e-12)
    assert len(rest) == 0


@pytest.mark.parametrize("on", [NUMPY, TORCH], ids=["numpy", "torch"])
def test_what_is_not_definite_stays_as_it_was(on):
    K = spd(12) - 5.0 * np.eye(12)
    M = on.array(K.copy())
    assert on.solve_definite(M, on.zeros(12), 1e-3) is None
    assert_allclose(NUMPY.array(M), K, atol=1e-15)
    assert on.inverse_definite(M, 1e-3) is None
    assert_allclose(NUMPY.array(M), K, atol=1e-15)
    shift = np.linspace(20.0, 30.0, 12)
    inverse = on.inverse_definite(M, on.array(shift))
    assert_allclose(NUMPY.array(inverse) @ (K + np.diag(shift)), np.eye(12), atol=1e-12)
    z = on.solve_definite(on.array(K.copy()), on.array(np.ones(12)), 20.0)
    assert_allclose((K + 20 * np.eye(12)) @ NUMPY.array(z), np.ones(12), atol=1e-12)


@pytest.mark.parametrize("on", [NUMPY, TORCH], ids=["numpy", "torch"])
def test_a_singular_system_is_an_error_of_numpy(on):
    with pytest.raises(np.linalg.LinAlgError):
        on.solve(on.zeros(2, 2), on.zeros(2, 1))


@pytest.mark.parametrize("on", [NUMPY, TORCH], ids=["numpy", "torch"])
def test_sums_by_group(on):
    X, codes = np.random.default_rng(0).standard_normal((200, 3)), np.arange(200) % 90
    want = np.zeros((100, 3))
    np.add.at(want, codes, X)
    assert_allclose(NUMPY.array(on.group_sums(codes, 100, on.array(X))), want, atol=1e-13)


def test_rough_products_are_off_by_little():
    rough, Z = TORCH.with_precision("tf32"), torch.randn(500, 60, dtype=torch.float64)
    A = rough.mirror_upper(rough.add_gram(rough.gram_zeros(60), Z))
    assert A.dtype == torch.float64
    off = abs(A - Z.T @ Z).max() / A.diagonal().max()
    assert 1e-12 < float(off) < 1e-3


def test_rows_travel():
    host = np.arange(12, dtype=np.float32).reshape(4, 3)
    rows = TravellingRows(host, TORCH)
    assert rows.shape == (4, 3)
    assert len(rows) == 4
    assert at_home(rows) is host
    for part in (slice(1, 3), np.array([3, 0])):
        assert rows[part].dtype == torch.float64
        assert_array_equal(rows[part].numpy(), host[part])
