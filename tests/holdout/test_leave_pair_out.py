"""Held-out pairs, compared with refits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankwise.graph import PreferenceGraph
from rankwise.holdout.leave_pair_out import query_pairs
from rankwise.holdout.leave_query_out import Conditional, dual_conditionals, primal_conditionals
from rankwise.problem import PairLoss
from tests.oracles.holdout import precise_difference, refit_predictions
from tests.strategies import problems, ties, weightings


def rbf(X):
    return np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2))


def refit_difference(K, y, qid, i, j, lam, ties, weighting):
    f = refit_predictions(K, y, qid, [i, j], lam, ties, weighting)
    return f[0] - f[1]


def check(parts, K, y, qid, lam, ties, weighting):
    """Compare the predictions of all pairs with refits; return the pairs."""
    checked = []
    for first, second, difference in parts:
        for i, j, d in zip(first, second, difference[:, 0], strict=True):
            want = refit_difference(K, y, qid, i, j, lam, ties, weighting)
            assert d == pytest.approx(want, abs=1e-8)
            checked.append((min(i, j), max(i, j)))
    assert len(checked) == len(set(checked))
    return checked


@given(problems(max_rows=12), ties, weightings, st.sampled_from([0.1, 3.0]), st.booleans())
def test_pairs_of_a_global_ranking(p, ties, weighting, lam, linear):
    n = len(p.y)
    K = p.X @ p.X.T if linear else rbf(p.X)
    given_as = {"features": p.X} if linear else {"kernel": K}
    y = p.y[:, None]
    query = Conditional(np.arange(n), np.zeros_like(y), y, **given_as)
    checked = check(
        query_pairs(query, p.y, PairLoss(ties, weighting), lam),
        K,
        p.y,
        np.zeros(n),
        lam,
        ties,
        weighting,
    )
    differ = p.y[:, None] != p.y
    want = np.argwhere(np.triu(differ if ties == "exclude" else np.ones((n, n)), 1))
    assert sorted(checked) == sorted(map(tuple, want.tolist()))


@given(problems(max_rows=10), ties, weightings, st.booleans())
def test_listed_pairs_of_a_global_ranking(p, ties, weighting, linear):
    n = len(p.y)
    K = p.X @ p.X.T if linear else rbf(p.X)
    given_as = {"features": p.X} if linear else {"kernel": K}
    pairs = np.argwhere(~np.eye(n, dtype=bool))[::3]
    y = p.y[:, None]
    query = Conditional(np.arange(n), np.zeros_like(y), y, **given_as)
    checked = []
    for first, second, difference in query_pairs(query, p.y, PairLoss(ties, weighting), 0.7, pairs):
        for i, j, d in zip(first, second, difference[:, 0], strict=True):
            want = refit_difference(K, p.y, np.zeros(n), i, j, 0.7, ties, weighting)
            assert d == pytest.approx(want, abs=1e-8)
            checked.append([i, j])
    assert sorted(checked) == pairs.tolist()


@given(problems(max_rows=14, min_pairs=1), ties, weightings, st.booleans(), st.sampled_from([1, 6]))
def test_pairs_inside_queries(p, ties, weighting, linear, repeats):
    K = p.X @ p.X.T if linear else rbf(p.X)
    graph = PreferenceGraph.from_scores(p.y, p.qid, ties=ties, weighting=weighting)
    lams = [0.4] * repeats
    y = p.y[:, None]
    conditionals = primal_conditionals if linear else dual_conditionals
    features = p.X if linear else K.copy()
    checked = [[] for _ in lams]
    for k, query in conditionals(features, graph, y, lams):
        parts = query_pairs(query, p.y[query.rows], PairLoss(ties, weighting), lams[k])
        checked[k] += check(parts, K, p.y, p.qid, lams[k], ties, weighting)
    want = [pair for block in graph.pairs() for pair in zip(*block[:2], strict=True)]
    for pairs in checked:
        assert sorted(pairs) == sorted(want)


def test_several_outputs():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((9, 2)), rng.standard_normal((9, 3))
    query = Conditional(np.arange(9), np.zeros((9, 3)), Y, kernel=rbf(X))
    (block,) = query_pairs(query, Y[:, 0], PairLoss("include", "pairs"), 0.5)
    for k in range(3):
        for i, j, d in zip(block.first, block.second, block.difference[:, k], strict=True):
            want = refit_difference(rbf(X), Y[:, k], np.zeros(9), i, j, 0.5, "include", "pairs")
            assert d == pytest.approx(want, abs=1e-8)


@pytest.mark.parametrize("lam", [1e-12, 1e-8, 1.0, 1e12])
@pytest.mark.parametrize(
    ("ties", "y"),
    [
        ("include", [0.0, 1, 1, 0, 2, 1, 0, 2]),
        ("exclude", [0.0, 1, 1, 0, 1, 1, 0, 1]),
        ("exclude", [0.0, 1, 1, 0, 2, 3, 0, 2]),
    ],
    ids=["include", "two levels", "four levels"],
)
@pytest.mark.parametrize("rank", ["full", "deficient"])
@pytest.mark.filterwarnings("ignore:An alpha is too small")
def test_the_error_stays_within_the_backward_stable_limit(lam, ties, y, rank):
    """Ten times machine epsilon times the condition of K + lam / (m - 2), with 60 digits.

    Relative to the labels, and never less than 500 times machine epsilon.
    """
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((8, 3)), np.array(y)
    if rank == "deficient":
        X[4:6] = X[0]  # duplicates
    K = rbf(X)
    query = Conditional(np.arange(8), np.zeros((8, 1)), y[:, None], kernel=K)
    limit = np.finfo(float).eps * np.linalg.cond(K + lam / 6 * np.eye(8))
    for first, second, difference in query_pairs(query, y, PairLoss(ties, "pairs"), lam):
        exact = np.array(
            [precise_difference(K, y, i, j, lam, ties) for i, j in zip(first, second, strict=True)]
        )
        size = max(np.abs(exact).max(), np.abs(y).max())
        if limit < 0.1:
            worst = np.abs(difference[:, 0] - exact).max()
            assert worst <= 10 * max(limit, 50 * np.finfo(float).eps) * size
        else:
            assert np.isfinite(difference).all()
