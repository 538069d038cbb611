"""Preference graphs against Laplacians computed by two loops."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from rankwise.errors import DataError, ParameterError
from rankwise.graph import PreferenceGraph, QueryGroups
from tests.oracles.laplacian import edge_laplacian, edge_rhs, grouped_laplacian
from tests.strategies import comparisons, problems, ties, weightings


@st.composite
def query_weights(draw, qid):
    """One weight per row, the same for all rows of a query."""
    of_query = {query: draw(st.sampled_from([0.5, 1.0, 3.0])) for query in dict.fromkeys(qid)}
    return np.array([of_query[query] for query in qid])


def row_weights(n_rows):
    """One weight per row, some below and some above 1."""
    one = st.sampled_from([0.01, 0.5, 1.0, 3.0])
    return st.lists(one, min_size=n_rows, max_size=n_rows).map(np.array)


@st.composite
def graphs(draw):
    """A graph of any kind, its Laplacian by loops, and a right-hand side with its oracle."""
    if draw(st.booleans()):
        p = draw(problems())
        kind = {"ties": draw(ties), "weighting": draw(weightings)}
        weight = draw(query_weights(p.qid))
        of_rows = draw(st.none() | row_weights(len(p.qid)))
        L = grouped_laplacian(p.y, p.qid, **kind, query_weight=weight, row_weight=of_rows)
        groups = QueryGroups.of(p.qid).weighted(weight).with_row_weights(of_rows)
        return PreferenceGraph.from_scores(p.y, groups, **kind), L, p.X, p.y, L @ p.y
    c = draw(comparisons())
    graph = PreferenceGraph.from_pairs(len(c.X), c.pairs, c.margin, c.weight)
    rhs = edge_rhs(len(c.X), c.pairs, c.margin, c.weight)
    return graph, edge_laplacian(len(c.X), c.pairs, c.weight), c.X, None, rhs


@given(graphs())
def test_products_with_the_laplacian(case):
    graph, L, X, y, rhs = case
    assert_allclose(graph @ X, L @ X, atol=1e-9)
    assert_allclose(graph @ X[:, 0], L @ X[:, 0], atol=1e-9)
    assert_allclose(graph.rhs(y), rhs, atol=1e-9)
    assert_allclose(graph.degrees, np.diag(L), atol=1e-9)
    assert_allclose(graph.to_dense(), L, atol=1e-9)


@given(graphs(), st.sampled_from([sp.csr_array, sp.csc_array, sp.csr_matrix]))
def test_sparse_products_with_the_laplacian(case, kind):
    graph, L, X, _, _ = case
    X = np.where(X > 0.3, X, 0.0)
    product = graph @ kind(X)
    assert sp.issparse(product)
    assert_allclose(product.toarray(), L @ X, atol=1e-9)
    assert_allclose(graph.gram(kind(X)), X.T @ L @ X, atol=1e-9)


@given(graphs())
def test_the_root_is_a_square_root(case):
    graph, L, X, y, rhs = case
    Z = graph.root(X)
    assert_allclose(Z.T @ Z, X.T @ L @ X, atol=1e-8)
    assert_allclose(graph.root_transpose(Z), L @ X, atol=1e-8)
    assert_allclose(graph.root_transpose(graph.root_target(y)), rhs, atol=1e-8)
    R = graph.root(np.eye(graph.n_rows))
    assert_allclose(graph.root_kernel(X @ X.T), R @ X @ X.T @ R.T, atol=1e-8)


@given(graphs(), st.integers(1, 30))
def test_root_blocks_add_up_to_the_moments(case, max_rows):
    graph, L, X, y, rhs = case
    loaded = []

    def load(rows):
        block = np.ascontiguousarray(X[rows])
        loaded.append(len(block))
        return block

    d = X.shape[1]
    A, b = np.zeros((d, d)), np.zeros(d)
    for Z, t in graph.root_blocks(load, y, max_rows):
        A += Z.T @ Z
        b += Z.T @ t
    assert_allclose(A, X.T @ L @ X, atol=1e-8)
    assert_allclose(b, X.T @ rhs, atol=1e-8)
    assert max(loaded) <= 2 * max_rows  # a comparison has two rows


@given(problems(), ties, weightings, st.data())
def test_take_is_the_graph_of_these_rows_alone(p, ties, weighting, data):
    rows = data.draw(st.permutations(range(len(p.y))))[: max(1, len(p.y) - 3)]
    weight = data.draw(query_weights(p.qid))
    groups = QueryGroups.of(p.qid).weighted(weight)
    part = PreferenceGraph.from_scores(p.y, groups, ties=ties, weighting=weighting).take(rows)
    want = grouped_laplacian(p.y[rows], p.qid[rows], ties, weighting, weight[rows])
    assert_allclose(part.to_dense(), want, atol=1e-12)
    assert part.groups.names[part.groups.codes].tolist() == p.qid[rows].tolist()


@given(comparisons(), st.data())
def test_take_keeps_the_comparisons_among_these_rows(c, data):
    rows = np.array(data.draw(st.permutations(range(len(c.X))))[: max(1, len(c.X) - 2)])
    graph = PreferenceGraph.from_pairs(len(c.X), c.pairs, c.margin, c.weight)
    inside = np.isin(c.pairs, rows).all(axis=1)
    want = edge_laplacian(len(c.X), c.pairs[inside], c.weight[inside])[np.ix_(rows, rows)]
    assert_allclose(graph.take(rows).to_dense(), want, atol=1e-12)


@given(problems(), ties, weightings, st.integers(1, 50))
def test_every_pair_comes_once(p, ties, weighting, block_size):
    graph = PreferenceGraph.from_scores(p.y, p.qid, ties=ties, weighting=weighting)
    seen = [(i, j) for block in graph.pairs(block_size) for i, j in zip(*block[:2], strict=True)]
    want = np.argwhere(np.triu(grouped_laplacian(p.y, p.qid, ties, weighting)) < 0)
    assert sorted(seen) == sorted(map(tuple, want.tolist()))
    assert graph.n_pairs == len(want)


@given(problems(), ties, weightings, st.data())
def test_permuting_rows_permutes_the_product(p, ties, weighting, data):
    order = np.array(data.draw(st.permutations(range(len(p.y)))))
    graph = PreferenceGraph.from_scores(p.y, p.qid, ties=ties, weighting=weighting)
    moved = PreferenceGraph.from_scores(p.y[order], p.qid[order], ties=ties, weighting=weighting)
    assert_allclose(moved @ p.X[order], (graph @ p.X)[order], atol=1e-10)


def test_one_query_without_qid():
    graph = PreferenceGraph.from_groups(None, n_rows=4)
    assert_allclose(graph.to_dense(), 4 * np.eye(4) - 1)


def test_several_margins_share_the_graph():
    margin = np.array([[1.0, 0.5], [2.0, -1.0], [0.0, 3.0]])
    pairs = [[0, 1], [2, 1], [0, 2]]
    rhs = PreferenceGraph.from_pairs(3, pairs, margin).rhs()
    for k in range(2):
        assert_allclose(rhs[:, k], PreferenceGraph.from_pairs(3, pairs, margin[:, k]).rhs())


def test_every_graph_is_a_preference_graph():
    assert isinstance(PreferenceGraph.from_groups([1, 1]), PreferenceGraph)
    assert isinstance(PreferenceGraph.from_pairs(2, [[0, 1]]), PreferenceGraph)


@given(problems(), ties, weightings)
def test_groups_can_be_shared(p, ties, weighting):
    groups = QueryGroups.of(p.qid)
    graph = PreferenceGraph.from_scores(p.y, groups, ties=ties, weighting=weighting)
    assert graph.groups is groups
    want = PreferenceGraph.from_scores(p.y, p.qid, ties=ties, weighting=weighting)
    assert_allclose(graph.to_dense(), want.to_dense(), atol=1e-12)


def test_query_ids_of_mixed_types():
    qid = np.array([1, "1", 2.0, 1], dtype=object)
    assert PreferenceGraph.from_groups(qid).n_pairs == 1


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: PreferenceGraph.from_scores([1, 2], [0, 0], ties="some"), "ties must be one of"),
        (lambda: PreferenceGraph.from_groups([0, 0], weighting="none"), "weighting must be one of"),
    ],
)
def test_unknown_names(call, words):
    with pytest.raises(ParameterError, match=words):
        call()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: PreferenceGraph.from_groups(None), "number of rows is needed"),
        (lambda: PreferenceGraph.from_groups([[1, 2], [3, 4]]), r"got shape \(2, 2\)"),
        (lambda: PreferenceGraph.from_groups([1, 2], n_rows=3), "got 2 for 3 rows"),
        (lambda: PreferenceGraph.from_groups(QueryGroups.of([1]), n_rows=3), "got 1 for 3 rows"),
        (lambda: PreferenceGraph.from_groups([1.0, np.nan]), "missing in row 1"),
        (lambda: PreferenceGraph.from_groups(np.array(["a", None], object)), "missing in row 1"),
        (lambda: PreferenceGraph.from_scores([[1], [2]]), "one-dimensional"),
        (lambda: PreferenceGraph.from_groups([1, 1]) @ np.ones(3), "has 2 rows"),
        (lambda: PreferenceGraph.from_groups([1, 1]).root_target(None), "has no margins"),
        (lambda: PreferenceGraph.from_groups([1, 1]) @ sp.eye_array(3), "has 2 rows"),
        (lambda: PreferenceGraph.from_groups([1, 1]).rhs(), "has no margins"),
        (lambda: PreferenceGraph.from_groups(pd.array(["a", None], "string")), "missing in row 1"),
        (lambda: PreferenceGraph.from_pairs(3, [[0, 1]]) @ np.ones(4), "has 3 rows"),
        (lambda: PreferenceGraph.from_pairs(3, [0, 1]), "two columns"),
        (lambda: PreferenceGraph.from_pairs(3, np.empty((0, 2), int)), "is empty"),
        (lambda: PreferenceGraph.from_pairs(3, [[0, 1.5]]), "row numbers"),
        (lambda: PreferenceGraph.from_pairs(3, [[0, 1], [0, 3]]), r"pairs\[1\] = \[0, 3\]"),
        (lambda: PreferenceGraph.from_pairs(3, [[0, -1]]), "points outside X"),
        (lambda: PreferenceGraph.from_pairs(3, [[2, 2]]), "compares row 2 with itself"),
        (lambda: PreferenceGraph.from_pairs(3, [[0, 1]], margin=[1, 2]), "margin needs one entry"),
        (lambda: PreferenceGraph.from_pairs(3, [[0, 1]], margin=[np.nan]), "must be finite"),
        (lambda: PreferenceGraph.from_pairs(3, [[0, 1]], weight=[-1]), "must not be negative"),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(DataError, match=words):
        call()
