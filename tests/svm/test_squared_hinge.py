"""Sums over active pairs, compared with loops over all pairs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from rankwise.graph import PreferenceGraph, QueryGroups
from rankwise.svm import newton
from rankwise.svm.newton import LabelledPairs, ListedPairs
from tests.oracles.ranksvm import hinge_gradient, hinge_hessian, hinge_loss, pairs_of
from tests.strategies import problems, seeds, weightings

scales = st.sampled_from([0.0, 0.1, 1.0, 10.0])


def graph_of(y, qid, weighting="pairs", weights=None):
    groups = QueryGroups.of(qid).with_row_weights(weights)
    return PreferenceGraph.from_scores(y, groups, ties="exclude", weighting=weighting)


def labelled(problem, weighting="pairs"):
    return LabelledPairs.of(graph_of(problem.y, problem.qid, weighting))


@given(problems(), weightings, scales, seeds)
def test_loss_gradient_and_hessian_are_sums_over_pairs(problem, weighting, scale, seed):
    rng = np.random.default_rng(seed)
    f, v = scale * rng.standard_normal(len(problem.y)), rng.standard_normal(len(problem.y))
    state = labelled(problem, weighting).at(f)
    truth = (f, problem.y, problem.qid, weighting)
    assert_allclose(state.loss, hinge_loss(*truth), rtol=1e-10, atol=1e-10)
    assert_allclose(state.gradient, hinge_gradient(*truth), rtol=1e-10, atol=1e-10)
    assert_allclose(state.hessian_product(v), hinge_hessian(*truth) @ v, atol=1e-10)


@given(problems())
def test_equal_scores_and_differences_of_one(problem):
    f = np.round(problem.X[:, 0])  # differences of exactly 0 and 1
    state = labelled(problem).at(f)
    truth = (f, problem.y, problem.qid)
    assert_allclose(state.loss, hinge_loss(*truth), atol=1e-10)
    assert_allclose(state.gradient, hinge_gradient(*truth), atol=1e-10)
    assert_allclose(state.hessian_product(problem.X[:, 0]), hinge_hessian(*truth) @ problem.X[:, 0])


@given(problems(), weightings, scales, st.sampled_from([0.0, 0.3]), seeds)
def test_listed_pairs_have_the_same_sums(problem, weighting, scale, less, seed):
    rng = np.random.default_rng(seed)
    f, v, weights = rng.standard_normal((3, len(problem.y)))
    graph = graph_of(problem.y, problem.qid, weighting, np.exp(weights))
    want, found = (form.of(graph).at(scale * f, less) for form in (LabelledPairs, ListedPairs))
    assert_allclose(found.loss, want.loss, rtol=1e-10, atol=1e-10)
    assert_allclose(found.gradient, want.gradient, rtol=1e-10, atol=1e-10)
    assert_allclose(found.hessian_product(v), want.hessian_product(v), rtol=1e-10, atol=1e-10)


@given(problems())
def test_number_of_pairs(problem):
    listed = ListedPairs.of(graph_of(problem.y, problem.qid))
    assert listed.B.shape[0] == len(pairs_of(problem.y, problem.qid))


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_scores_far_from_zero_do_not_lose_digits(offset):
    rng = np.random.default_rng(0)
    f, y = rng.standard_normal(50), rng.integers(0, 3, 50).astype(float)
    pairs = LabelledPairs.of(graph_of(y, np.zeros(50, dtype=np.intp)))
    assert_allclose(pairs.at(f + offset).loss, pairs.at(f).loss, rtol=1e-8)


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("sorted_queries", [True, False])
def test_parts_of_long_and_short_queries_have_the_same_sums(sorted_queries, monkeypatch):
    monkeypatch.setattr(newton, "PART_ROWS", 120)
    rng = np.random.default_rng(0)
    qid = np.repeat(np.arange(6), [150, 3, 70, 20, 64, 65])
    qid = qid if sorted_queries else rng.permutation(qid)
    X = rng.standard_normal((len(qid), 2 + newton.IN_CACHE // 100))  # for some rows in cache
    v, p = rng.standard_normal(len(qid)), rng.standard_normal(X.shape[1])
    f, y = (
        np.round(8 * rng.standard_normal(len(qid))) / 8,
        rng.integers(0, 3, len(qid)).astype(float),
    )
    parts = LabelledPairs.of(graph_of(y, qid, "rows"))
    assert len(parts.parts) > 1
    truth = (f, y, qid, "rows")
    loss, gradient, H = (of(*truth) for of in (hinge_loss, hinge_gradient, hinge_hessian))
    for pairs in (parts, parts.on(X)):  # threads multiply by X only if queries are adjacent
        state = pairs.at(f)
        assert_allclose(state.loss, loss, rtol=1e-12)
        assert_allclose(state.gradient, gradient, rtol=1e-10, atol=1e-12)
        assert_allclose(state.slope(X), X.T @ gradient, rtol=1e-10, atol=1e-12)
        assert_allclose(state.hessian_product(v), H @ v, rtol=1e-10, atol=1e-12)
        product, along = state.curvature(X, p)
        assert_allclose(product, X.T @ (H @ (X @ p)), rtol=1e-10, atol=1e-8)
        assert_allclose(along, X @ p, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("weighted", [True, False])
def test_products_with_features(weighted):
    rng = np.random.default_rng(0)
    X, qid = rng.standard_normal((90, 4)), np.arange(90) // 30
    f, p = rng.standard_normal(90), rng.standard_normal(4)
    weights = rng.random(90) + 0.1 if weighted else None
    graph = graph_of(np.round(X[:, 0]), qid, "pairs", weights)
    state = LabelledPairs.of(graph).on(X).at(f)
    product, along = state.curvature(X, p)
    want = X.T @ ListedPairs.of(graph).at(f).hessian_product(X @ p)
    assert_allclose(product, want, rtol=1e-10)
    assert_allclose(along, X @ p, rtol=1e-10)
