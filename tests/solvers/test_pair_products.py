"""Products with X'LX, compared with dense matrices."""

import numpy as np
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from rankwise.graph import PreferenceGraph, QueryGroups
from rankwise.solvers import shifted_cg
from rankwise.solvers.shifted_cg import PairProducts, pair_squares, row_chunks, within_queries
from tests.oracles.laplacian import edge_laplacian, grouped_laplacian
from tests.strategies import comparisons, problems, seeds, ties, weightings


def thinned(X, seed):
    """Most entries become zeros; some features stay complete in some queries."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(X.shape) < rng.random(X.shape[1]), X, 0.0)


@given(problems(), seeds, ties, weightings, st.booleans())
def test_products_and_squares_of_queries(p, seed, ties, weighting, is_sparse):
    X = thinned(p.X, seed)
    graph = PreferenceGraph.from_scores(p.y, p.qid, ties=ties, weighting=weighting)
    L = grouped_laplacian(p.y, p.qid, ties, weighting)
    given = sp.csr_array(X) if is_sparse else X
    products = PairProducts.of(given, [graph], [p.y])
    P = np.random.default_rng(seed).standard_normal((X.shape[1], 2))
    assert_allclose(products(P), X.T @ (L @ (X @ P)), atol=1e-9)
    assert_allclose(products.b[:, 0], X.T @ (L @ p.y), atol=1e-9)
    if is_sparse:
        assert_allclose(pair_squares(given, graph), (X.T @ L @ X).diagonal(), atol=1e-9)


@given(problems(), seeds)
def test_several_graphs_share_the_products(p, seed):
    X, rng = thinned(p.X, seed), np.random.default_rng(seed)
    labels = np.column_stack((p.y, rng.integers(0, 3, len(p.y))))
    graphs = [PreferenceGraph.from_scores(y, p.qid, ties="exclude") for y in labels.T]
    products = PairProducts.of(sp.csr_array(X), graphs, list(labels.T))
    P = rng.standard_normal((X.shape[1], 4))  # the two systems, twice
    for k in range(4):
        L = grouped_laplacian(labels[:, k % 2], p.qid, "exclude")
        assert_allclose(products(P)[:, k], X.T @ (L @ (X @ P[:, k])), atol=1e-9)


@given(comparisons(), seeds)
def test_products_and_squares_of_comparisons(c, seed):
    X = thinned(c.X, seed)
    graph = PreferenceGraph.from_pairs(len(X), c.pairs, c.margin, c.weight)
    L = edge_laplacian(len(X), c.pairs, c.weight)
    products = PairProducts.of(sp.csr_array(X), [graph], [None])
    P = np.random.default_rng(seed).standard_normal((X.shape[1], 2))
    assert_allclose(products(P), X.T @ (L @ (X @ P)), atol=1e-9)
    assert_allclose(pair_squares(sp.csr_array(X), graph), (X.T @ L @ X).diagonal(), atol=1e-9)


@given(problems(), seeds, st.sampled_from([1, 3, 2**21]))
def test_complete_features_become_differences(p, seed, chunk):
    X, groups = thinned(p.X, seed), QueryGroups.of(p.qid)
    before, shifted_cg.CHUNK = shifted_cg.CHUNK, chunk
    try:
        found = within_queries(sp.csr_array(X), groups)
        chunks = list(row_chunks(sp.csr_array(X)))
    finally:
        shifted_cg.CHUNK = before
    want = X.copy()
    for rows in groups:
        complete = (X[rows] != 0).all(axis=0) & (len(rows) > 1)
        want[np.ix_(rows, complete)] -= X[rows[0], complete]
    assert_allclose(found.toarray(), want, atol=1e-15)
    assert found.nnz <= np.count_nonzero(X)
    assert [(part.start, part.stop) for part in chunks[:1]] == [(0, chunks[0].stop)]
    assert sum(part.stop - part.start for part in chunks) == len(X)


def test_features_far_from_zero_do_not_cancel():
    rng = np.random.default_rng(0)
    X, y, qid = rng.standard_normal((40, 3)), rng.standard_normal(40), np.arange(40) // 5
    X[X > 1] = 0.0
    X[:, 0] = rng.integers(-4, 5, 40)  # such that 1e12 can be added without rounding
    shifted = X.copy()
    shifted[:, 0] += 1e12 * (1 + qid)
    graph = PreferenceGraph.from_scores(y, qid)
    near, far = (PairProducts.of(sp.csr_array(Z), [graph], [y]) for Z in (X, shifted))
    assert_allclose(far(np.eye(3)), near(np.eye(3)), rtol=1e-12, atol=1e-11)
    assert_allclose(far.b, near.b, rtol=1e-12, atol=1e-11)


def test_duplicate_entries_are_added_up():
    X = sp.csr_array(
        (np.array([1.0, 2.0, 5.0]), np.array([0, 0, 0]), np.array([0, 2, 3])), shape=(2, 1)
    )
    assert within_queries(X, QueryGroups.of(None, 2)).toarray().ravel().tolist() == [0.0, 2.0]
    assert X.nnz == 3  # the user's matrix is not changed
