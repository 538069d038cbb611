"""Kernel principal components and the path over their number, compared with dense formulas."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from rankwise import KPCRank
from rankwise.errors import DataError, ParameterError, RankwiseWarning
from rankwise.graph import PreferenceGraph
from rankwise.solvers.kpca import (
    Count,
    kernel_components,
    landmark_components,
    number_with_share,
    scatter,
)
from rankwise.solvers.nested_least_squares import (
    Triangle,
    component_triangle,
    rounding_noise,
)
from rankwise.solvers.ridge_path import LandmarkFactor, Moments
from tests.oracles.kpca import (
    centred,
    coordinates,
    equation_6,
    spectral_weights,
)
from tests.oracles.laplacian import grouped_laplacian
from tests.strategies import problems, ties, weightings


def laplace(A, B):
    """A kernel whose eigenvalues decay slowly, so that rounding errors are negligible."""
    return np.exp(-np.abs(A[:, None] - B).sum(axis=2))


def path_of(components, F, graph, y, lam=0.0):
    triangle = component_triangle(lambda rows: F[rows], len(components), graph, y)
    return triangle.path(lam, rounding_noise(components.eigenvalues, graph))


@given(problems(max_rows=20, min_pairs=2), ties, weightings, st.sampled_from([0.0, 0.1]))
def test_equation_6_for_every_number_of_components(p, ties, weighting, lam):
    K, new = laplace(p.X, p.X), np.random.default_rng(0).standard_normal((4, p.X.shape[1]))
    K_new = laplace(new, p.X)
    components, F = kernel_components(K.copy(), Count())
    graph = PreferenceGraph.from_scores(p.y, p.qid, ties=ties, weighting=weighting)
    weights, kept = path_of(components, F, graph, p.y, lam)
    L = grouped_laplacian(p.y, p.qid, ties, weighting)
    gaps = -np.diff(np.append(components.eigenvalues, 0.0)) / components.eigenvalues[0]
    for n in range(1, len(components) + 1):
        condition = np.linalg.cond(graph.root(F[:, :n])) if lam == 0 else 1.0
        if gaps[n - 1] < 1e-5 or condition > 1e3:
            continue  # the components, or equation (6), are accurate to fewer than eight digits
        want = coordinates(K_new, K, n) @ equation_6(K, L, L @ p.y, n, lam)
        assert_allclose(components.of(K_new) @ weights[:, n - 1, 0], want, atol=1e-8)
    assert set(kept) <= set(range(len(components)))


def test_each_weight_of_equation_6():
    rng = np.random.default_rng(0)
    X, qid = rng.standard_normal((40, 3)), np.arange(40) % 4
    y = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(40)
    ranker = KPCRank(30, kernel="laplacian", gamma=1.0).fit(X, y, qid=qid)
    L = grouped_laplacian(y, qid)
    for p in range(1, 31):
        want = equation_6(laplace(X, X), L, L @ y, p)
        assert_allclose(np.abs(ranker.path_coef_[:p, p - 1]), np.abs(want), atol=1e-8)


@given(problems(max_rows=20, min_pairs=2))
def test_coordinates_agree_with_explicit_centring(p):
    K = laplace(p.X, p.X)
    new = np.random.default_rng(1).standard_normal((5, p.X.shape[1]))
    components, F = kernel_components(K.copy(), Count())
    assert_allclose(components.of(K), F, atol=1e-8)
    assert_allclose(F @ F.T, centred(K), atol=1e-10)
    assert_allclose(F.mean(axis=0), 0.0, atol=1e-10)
    want = coordinates(laplace(new, p.X), K, len(components))
    ours = components.of(laplace(new, p.X))
    assert_allclose(ours @ ours.T, want @ want.T, atol=1e-7)  # invariant to signs


@given(problems(max_rows=16, min_pairs=2))
def test_dependent_components_have_zero_weights(p):
    """Beyond the rank of the graph, weights are zero and the normal equations still hold."""
    K = laplace(p.X, p.X)
    components, F = kernel_components(K.copy(), Count())
    graph = PreferenceGraph.from_groups(p.qid)
    weights, kept = path_of(components, F, graph, p.y)
    M, b = F.T @ (graph @ F), F.T @ (graph @ p.y)
    rank = np.linalg.matrix_rank(graph.to_dense())
    assert len(kept) <= rank
    for n in range(1, len(components) + 1):
        w = weights[:n, n - 1, 0]
        assert np.isfinite(w).all()
        assert not weights[n:, n - 1].any()
        scale = np.abs(M).max() * np.abs(w).sum() + np.abs(b).max()
        assert_allclose(M[:n, :n] @ w, b[:n], atol=1e-10 * scale)


def test_components_constant_within_queries_have_zero_weights():
    rng = np.random.default_rng(0)
    qid = np.repeat(np.arange(10), 8)
    between, within = rng.standard_normal((10, 3))[qid], rng.standard_normal((80, 2))
    y = within[:, 0]
    K_between = 100 * between @ between.T
    K = K_between + within @ within.T
    graph = PreferenceGraph.from_groups(qid)
    components, F = kernel_components(K_between, Count())
    weights, kept = path_of(components, F, graph, y)
    assert len(components) == 3
    assert len(kept) == 0
    assert not weights.any()
    components, F = kernel_components(K, Count())
    weights, _ = path_of(components, F, graph, y)
    f = F @ weights[:, -1, 0]
    gaps = [np.ptp(y[qid == q] - f[qid == q]) for q in range(10)]
    assert max(gaps) < 1e-9


@given(problems(max_rows=14, min_pairs=2), st.integers(1, 4))
def test_spectral_selection_is_section_4_2(p, n):
    K = laplace(p.X, p.X)
    components, F = kernel_components(K.copy(), Count())
    graph = PreferenceGraph.from_groups(p.qid)
    triangle = component_triangle(lambda rows: F[rows], len(components), graph, p.y)
    found = triangle.spectral([0.0], rounding_noise(components.eigenvalues, graph))
    spectrum = np.append(found.eigenvalues, 0.0)
    assume(n < len(spectrum) and spectrum[n - 1] - spectrum[n] >= 1e-4 * spectrum[0])
    L = grouped_laplacian(p.y, p.qid)
    want = spectral_weights(K, L, L @ p.y, len(components), n)
    s = coordinates(K, K, len(components))
    ours = F @ found.directions[:, :n] @ found.weights[0][:n, 0]
    assert_allclose(ours, s @ want, atol=1e-8)
    assert found.total == pytest.approx(np.trace(F.T @ L @ F))


@given(problems(max_rows=20, min_pairs=2), st.integers(1, 7))
def test_triangle_of_blocks_equals_triangle_of_all_rows(p, n_rows):
    Z, t = p.X, p.y[:, None]
    blocks = [(Z[k : k + n_rows], t[k : k + n_rows]) for k in range(0, len(Z), n_rows)]
    triangle = Triangle.of_blocks(blocks, Z.shape[1])
    assert_allclose(triangle.U.T @ triangle.U, Z.T @ Z, atol=1e-10)
    assert_allclose(triangle.U.T @ triangle.z, Z.T @ t, atol=1e-10)


@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.sampled_from([1e-60, 1e-8, 1.0, 1e8, 1e60]), min_size=1, max_size=6),
)
def test_triangles_from_moments_and_from_reflections_agree(seed, sizes):
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((60, len(sizes))) * sizes
    t = rng.standard_normal((60, 2))
    quick = Triangle.of_moments(Moments(Z.T @ Z, Z.T @ t))
    slow = Triangle.of_blocks([(Z, t)], len(sizes))
    assert quick is not None  # random columns are linearly independent
    sign = np.sign(np.diagonal(slow.U))
    assert_allclose(quick.U / sizes, sign[:, None] * slow.U / sizes, atol=1e-12)
    assert_allclose(quick.z, sign[:, None] * slow.z, atol=1e-12)


@pytest.mark.parametrize(
    "mixed",
    [[0.0, 0.0], [1.0, 1e-6], [0.0, 1e-170], [0.0, 1e170]],
    ids=["zero", "nearly dependent", "underflow", "overflow"],
)
def test_ill_conditioned_moments_are_rejected(mixed):
    Z = np.random.default_rng(0).standard_normal((30, 2))
    Z[:, 1] = Z @ mixed
    with np.errstate(over="ignore", invalid="ignore"):
        assert Triangle.of_moments(Moments(Z.T @ Z, Z.T @ Z[:, 0])) is None


def test_landmark_components_of_all_rows_equal_kernel_components():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    K = laplace(X, X)
    want, F = kernel_components(K.copy(), Count(12))
    basis = LandmarkFactor.of(K)
    ours, coordinates = landmark_components(
        lambda rows: K[rows][:, basis.kept], 60, basis, Count(12), store=True
    )
    assert_allclose(ours.eigenvalues, want.eigenvalues, rtol=1e-9)
    assert ours.total == pytest.approx(want.total)
    assert_allclose(np.abs(ours.of(K)), np.abs(F), atol=1e-7)
    assert_allclose(coordinates, ours.of(K), atol=1e-9)


@pytest.mark.parametrize("far", [0.0, 1e6])
def test_scatter_of_blocks(far):
    F = np.random.default_rng(0).standard_normal((3000, 600)) + far
    blocks = []
    A, mean, gap = scatter(lambda rows: F[rows].copy(), 3000, 600, stored=blocks)
    centred_F = F - F.mean(axis=0)
    assert_allclose(mean, F.mean(axis=0), rtol=1e-12, atol=1e-14)
    assert_allclose(A, centred_F.T @ centred_F, atol=1e-5 if far else 1e-9)
    assert_allclose(np.concatenate(blocks) - gap, centred_F, atol=1e-6 if far else 1e-12)


def test_a_share_takes_the_smallest_sufficient_number(monkeypatch):
    X = np.random.default_rng(0).standard_normal((50, 4))
    K = laplace(X, X)
    s = kernel_components(K.copy(), Count())[0].eigenvalues
    monkeypatch.setattr("rankwise.solvers.kpca.FIRST_TRY", 3)
    for share in (0.01, 0.5, 0.9, 0.99, 1.0):
        components, _ = kernel_components(K.copy(), Count(share=share))
        n = len(components)
        assert s[:n].sum() >= share * s.sum() * (1 - 1e-9)
        assert n == 1 or s[: n - 1].sum() < share * s.sum()


def test_rounding_does_not_change_the_number_with_a_share():
    tenths = np.full(10, 0.1)
    assert np.cumsum(tenths)[-1] < 1.0
    assert number_with_share(tenths, 1.0, 1.0) == 10
    assert number_with_share(np.append(tenths, 1e-17), 1.0, 1.0) == 10
    assert number_with_share(tenths, 1.0, 2.0) == 10  # at most all
    assert number_with_share(tenths, 0.35, 1.0) == 4


def test_more_components_than_the_rank():
    F = np.random.default_rng(0).standard_normal((20, 3))
    with pytest.raises(ParameterError, match="numerical rank of the kernel, which is 3"):
        kernel_components(F @ F.T, Count(4))
    assert len(kernel_components(F @ F.T, Count(4, strict=False))[0]) == 3
    assert len(kernel_components(F @ F.T, Count())[0]) == 3
    assert len(kernel_components(F @ F.T + 1e8, Count())[0]) == 3  # centring removes a constant


def test_a_constant_kernel_raises_an_error():
    with pytest.raises(DataError, match="does not distinguish the rows"):
        kernel_components(np.full((5, 5), 3.0), Count(1))


def test_an_indefinite_kernel_gives_a_warning():
    with pytest.warns(RankwiseWarning, match="not positive semidefinite"):
        components, _ = kernel_components(np.diag([2.0, 1.5, 1.0, -2.0]), Count())
    assert (components.eigenvalues > 0).all()


def test_zero_features_have_zero_weights():
    triangle = Triangle(np.zeros((2, 2)), np.ones((2, 1)))
    weights, kept = triangle.path(0.0, np.zeros(2))
    assert len(kept) == 0
    assert not weights.any()


def test_few_components_do_not_copy_the_kernel():
    X = np.random.default_rng(0).standard_normal((1600, 3))
    K = np.exp(-np.square(X[:, None] - X).sum(axis=2))
    tracemalloc.start()
    kernel_components(K, Count(10))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.5 * K.nbytes


def test_overflow_of_kernel_values_with_landmarks():
    K = np.full((20, 2), 1e200)
    K[::2] = -1e200
    basis = LandmarkFactor.of(np.eye(2))
    with pytest.raises(DataError, match=r"overflow\. Scale"):
        landmark_components(lambda rows: K[rows].copy(), 20, basis, Count(1))
