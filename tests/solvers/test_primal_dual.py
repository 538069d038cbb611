"""Primal and dual, compared with a general optimizer and with each other."""

import numpy as np
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from rankwise.graph import PreferenceGraph
from rankwise.solvers.ridge_path import Moments, dual, primal
from tests.oracles.laplacian import edge_laplacian, edge_rhs, grouped_laplacian, pair_weights
from tests.oracles.objective import minimize_comparisons, minimize_kernel, minimize_linear
from tests.strategies import comparisons, problems, ties, weightings

lams = st.sampled_from([0.1, 1.0, 30.0])


@given(problems(max_rows=9, max_features=3), ties, weightings, lams)
def test_the_primal_minimizes_the_pairwise_objective(p, ties, weighting, lam):
    graph = PreferenceGraph.from_scores(p.y, p.qid, ties=ties, weighting=weighting)
    want = minimize_linear(p.X, p.y, pair_weights(p.y, p.qid, ties, weighting), lam)
    assert_allclose(primal(p.X, graph, p.y, [lam])[0], want, atol=2e-4)


@given(problems(max_rows=7, max_features=3), ties, weightings, lams)
def test_the_dual_minimizes_the_pairwise_objective(p, ties, weighting, lam):
    graph = PreferenceGraph.from_scores(p.y, p.qid, ties=ties, weighting=weighting)
    K = np.exp(-((p.X[:, None] - p.X) ** 2).sum(axis=2))
    f = K @ dual(K.copy(), graph, p.y, [lam])[0]
    want = minimize_kernel(K, p.y, pair_weights(p.y, p.qid, ties, weighting), lam)
    assert_allclose(f, want, atol=1e-3)


@given(comparisons(max_rows=6, max_pairs=10), lams)
def test_comparisons_minimize_the_errors_of_the_margins(c, lam):
    graph = PreferenceGraph.from_pairs(len(c.X), c.pairs, c.margin, c.weight)
    want = minimize_comparisons(c.X, c.pairs, c.margin, c.weight, lam)
    assert_allclose(primal(c.X, graph, None, [lam])[0], want, atol=2e-4)


@given(problems(), ties, weightings, st.lists(lams, min_size=1, max_size=3))
def test_equations_11_and_8_solved_densely(p, ties, weighting, lams):
    graph = PreferenceGraph.from_scores(p.y, p.qid, ties=ties, weighting=weighting)
    L, (m, n) = grouped_laplacian(p.y, p.qid, ties, weighting), p.X.shape
    K = p.X @ p.X.T + np.eye(m)
    for lam, w, a in zip(
        lams, primal(p.X, graph, p.y, lams), dual(K.copy(), graph, p.y, lams), strict=True
    ):
        assert_allclose(
            w, np.linalg.solve(p.X.T @ L @ p.X + lam * np.eye(n), p.X.T @ L @ p.y), atol=1e-8
        )
        assert_allclose(a, np.linalg.solve(L @ K + lam * np.eye(m), L @ p.y), atol=1e-8)


@given(comparisons(), lams)
def test_comparisons_solved_densely(c, lam):
    m, n = c.X.shape
    graph = PreferenceGraph.from_pairs(m, c.pairs, c.margin, c.weight)
    L, rhs = edge_laplacian(m, c.pairs, c.weight), edge_rhs(m, c.pairs, c.margin, c.weight)
    K = c.X @ c.X.T + np.eye(m)
    (w,), (a,) = primal(c.X, graph, None, [lam]), dual(K.copy(), graph, None, [lam])
    assert_allclose(w, np.linalg.solve(c.X.T @ L @ c.X + lam * np.eye(n), c.X.T @ rhs), atol=1e-8)
    assert_allclose(a, np.linalg.solve(L @ K + lam * np.eye(m), rhs), atol=1e-8)


@given(problems(), ties, weightings)
def test_sparse_and_several_outputs(p, ties, weighting):
    graph = PreferenceGraph.from_scores(p.y, p.qid, ties=ties, weighting=weighting)
    Y = np.column_stack((p.y, -p.y, np.arange(len(p.y))))
    dense, sparse = Moments.of(p.X, graph, Y), Moments.of(sp.csr_array(p.X), graph, Y)
    assert_allclose(dense.A, sparse.A, atol=1e-9)
    assert_allclose(dense.b, sparse.b, atol=1e-9)
    (W,) = primal(p.X, graph, Y, [1.0])
    for k in range(3):
        assert_allclose(W[:, k], primal(p.X, graph, Y[:, k], [1.0])[0], atol=1e-9)


@given(problems(min_pairs=1), ties)
def test_moments_of_whole_queries_add_up(p, ties):
    def moments(rows):
        graph = PreferenceGraph.from_scores(p.y[rows], p.qid[rows], ties=ties)
        return Moments.of(p.X[rows], graph, p.y[rows])

    first = p.qid == p.qid[0]
    if first.all():
        return
    total, want = moments(first) + moments(~first), moments(np.full(len(p.y), True))
    assert_allclose(total.A, want.A, atol=1e-9)
    assert_allclose(total.b, want.b, atol=1e-9)


@given(problems(), ties, weightings, st.floats(-1e3, 1e3))
def test_a_constant_added_to_the_labels_of_a_query_changes_nothing(p, ties, weighting, shift):
    graph = PreferenceGraph.from_scores(p.y, p.qid, ties=ties, weighting=weighting)
    moved = p.y + shift * (p.qid == p.qid[0])
    assert_allclose(
        primal(p.X, graph, moved, [1.0])[0], primal(p.X, graph, p.y, [1.0])[0], atol=1e-8
    )
