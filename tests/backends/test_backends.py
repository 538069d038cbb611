"""Backends: torch agrees with NumPy, and both do what they document."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from rankwise.backends.arrays import NUMPY, NestedLevels, as_given, backend_of, to_host

pytest.importorskip("torch", reason="needs the extra gpu")

import torch

from rankwise.backends._torch import HostRows, TorchBackend

TORCH = TorchBackend.on(torch.device("cpu"))


def spd(n, seed=0, rank=None):
    F = np.random.default_rng(seed).standard_normal((n, rank or n))
    return F @ F.T


def test_torch_overrides_all_operations():
    shared = {"add_moments", "combined_rows", "is_finite", "symmetrize"}  # written once for both
    own = {name for name in vars(TorchBackend) if not name.startswith("_")}
    assert {name for name in vars(type(NUMPY)) if not name.startswith("_")} - shared <= own


def test_backend_of_an_array():
    assert backend_of(np.zeros(1)) is NUMPY
    assert backend_of([1.0]) is NUMPY
    assert backend_of(torch.zeros(1)) is TORCH
    assert backend_of(HostRows(np.zeros((1, 1)), TORCH)) is TORCH


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
    return NestedLevels(rows, level_ptr, group_ptr, a, b)


@settings(max_examples=40)
@given(nests(), st.integers(1, 3))
def test_combine_rows_and_columns_with_group_means(nest, d):
    rows = nest.rows
    X = np.random.default_rng(0).standard_normal((len(rows), d))
    want, got = np.empty_like(X), torch.empty(X.shape, dtype=torch.float64)
    in_order = np.arange(len(rows))
    NUMPY.combine_rows(X, want, in_order, nest)
    TORCH.combine_rows(torch.tensor(X), got, in_order, nest)
    assert_allclose(got.numpy(), want, atol=1e-13)
    K = X @ X.T
    want, got = K.copy(), torch.tensor(K)
    for on, M in ((NUMPY, want), (TORCH, got)):
        on.combine_rows(M, M, rows, nest)
        on.combine_columns(M, nest)
    assert_allclose(got.numpy(), want, atol=1e-12)


@pytest.mark.parametrize("n", [1, 40, 1100])
@pytest.mark.parametrize("on", [NUMPY, TORCH], ids=["numpy", "torch"])
def test_add_gram(on, n):
    Z = np.random.default_rng(0).standard_normal((30, n))
    A = on.zeros(n, n)
    for part in (Z[:20], Z[20:]):
        A = on.add_gram(A, on.array(part))
    assert_allclose(NUMPY.array(on.mirror_gram(A)), Z.T @ Z, atol=1e-12)


@pytest.mark.parametrize(("n", "rank"), [(30, 30), (150, 150), (150, 40)])
def test_pivoted_cholesky_agrees_with_lapack(n, rank):
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


def test_no_pivoting_if_well_conditioned():
    K = spd(20) + 20 * np.eye(20)
    order, C, rest = TORCH.pivoted_cholesky(torch.tensor(K), 1e-10)
    assert_array_equal(order, np.arange(20))
    assert_allclose((C @ C.T).numpy(), K, atol=1e-12)
    assert len(rest) == 0


@pytest.mark.parametrize("on", [NUMPY, TORCH], ids=["numpy", "torch"])
def test_indefinite_matrices_are_left_unchanged(on):
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
def test_singular_systems_raise_numpy_errors(on):
    with pytest.raises(np.linalg.LinAlgError):
        on.solve(on.zeros(2, 2), on.zeros(2, 1))


@pytest.mark.parametrize("on", [NUMPY, TORCH], ids=["numpy", "torch"])
def test_group_sums(on):
    X, codes = np.random.default_rng(0).standard_normal((200, 3)), np.arange(200) % 90
    want = np.zeros((100, 3))
    np.add.at(want, codes, X)
    assert_allclose(NUMPY.array(on.group_sums(codes, 100, on.array(X))), want, atol=1e-13)


def test_low_precision_products_are_close():
    rough, Z = TORCH.with_precision("tf32"), torch.randn(500, 60, dtype=torch.float64)
    A = rough.mirror_gram(rough.add_gram(rough.zeros(60, 60), Z))
    assert A.dtype == torch.float64
    off = abs(A - Z.T @ Z).max() / A.diagonal().max()
    assert 1e-12 < float(off) < 1e-3


@pytest.mark.parametrize("on", [NUMPY, TORCH], ids=["numpy", "torch"])
def test_diagonal_can_be_written(on):
    M = on.array(spd(3))
    want = NUMPY.array(M).diagonal() + 2.0
    on.diagonal(M)[:] += 2.0
    assert_array_equal(NUMPY.array(M).diagonal(), want)


@pytest.mark.parametrize("on", [NUMPY, TORCH], ids=["numpy", "torch"])
def test_is_finite_without_being_misled_by_the_sum(on):
    assert on.is_finite(on.array([1e308, 1e308]))
    for bad in (np.nan, np.inf, -np.inf):
        assert not on.is_finite(on.array([1.0, bad, -bad]))


@pytest.mark.parametrize("n", [1, 600])
@pytest.mark.parametrize("on", [NUMPY, TORCH], ids=["numpy", "torch"])
def test_symmetrize(on, n):
    A = np.random.default_rng(0).standard_normal((n, n))
    M = on.array(A.copy())
    on.symmetrize(M)
    assert_allclose(NUMPY.array(M), (A + A.T) / 2, rtol=1e-15)


def test_host_rows_are_copied_on_access():
    host = np.arange(12, dtype=np.float32).reshape(4, 3)
    rows = HostRows(host, TORCH)
    assert rows.shape == (4, 3)
    assert len(rows) == 4
    assert as_given(rows) is host
    for part in (slice(1, 3), np.array([3, 0])):
        assert rows[part].dtype == torch.float64
        assert_array_equal(rows[part].numpy(), host[part])


@settings(max_examples=20)
@given(nests(), st.sampled_from(["float32", "float64"]))
def test_scaling_of_groups(nest, dtype):
    rows, ptr = nest[0], nest[1]
    X = np.random.default_rng(1).integers(0, 4, (len(rows), 3)).astype(dtype)
    for name in ("minmax_groups", "standardize_groups", "rank_groups"):
        want, got = X.copy(), torch.tensor(X)
        results = [getattr(on, name)(M, rows, ptr) for on, M in ((NUMPY, want), (TORCH, got))]
        assert results[0] == results[1]
        assert_allclose(got.numpy(), want, atol=1e-6 if dtype == "float32" else 1e-13)


@pytest.mark.parametrize("kind", ["dense", "sparse", "float32"])
def test_products_with_a_matrix_and_its_transpose(kind):
    rng = np.random.default_rng(0)
    X = sp.random_array((9, 5), density=0.4, format="csr", rng=rng)
    P, Q = rng.standard_normal((5, 2)), rng.standard_normal((9, 2))
    given = {"dense": X.toarray(), "sparse": X, "float32": X.astype(np.float32)}[kind]
    want = given.astype(np.float64)
    for on in (NUMPY, TORCH):
        forward, transpose = on.products(given)
        assert_allclose(to_host(forward(on.array(P))), want @ P, atol=1e-12)
        assert_allclose(to_host(transpose(on.array(Q))), want.T @ Q, atol=1e-12)
