"""Folds of whole queries, compared with refits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from rankwise.backends import parallel
from rankwise.backends.arrays import NUMPY
from rankwise.errors import DataError
from rankwise.graph import PreferenceGraph
from rankwise.holdout import leave_query_out
from rankwise.holdout.hold_out_problem import explained_rounding
from rankwise.holdout.leave_query_out import dual_folds, primal_folds
from tests.oracles.holdout import precise_predictions, refit_predictions
from tests.strategies import problems, ties, weightings

LAMS = [0.3, 5.0]


def query_folds(qid, n_folds=None):
    """Rows of each query, or of several queries at a time."""
    names = np.unique(qid)
    n_folds = len(names) if n_folds is None else min(n_folds, len(names))
    return [np.flatnonzero(np.isin(qid, names[k::n_folds])) for k in range(n_folds)]


@given(problems(), ties, weightings, st.sampled_from([None, 2, 3]), st.booleans())
def test_dual_folds_equal_refits(p, ties, weighting, n_folds, spectral):
    K = np.exp(-0.5 * ((p.X[:, None] - p.X) ** 2).sum(axis=2))
    graph = PreferenceGraph.from_scores(p.y, p.qid, ties=ties, weighting=weighting)
    folds = query_folds(p.qid, n_folds)
    lams = LAMS * (3 if spectral else 1)
    assert (len(lams) > NUMPY.inverse_cost) == spectral
    f = dual_folds(K.copy(), graph, p.y[:, None], folds, lams)
    for fold in folds:
        for k, lam in enumerate(lams):
            want = refit_predictions(K, p.y, p.qid, fold, lam, ties, weighting)
            assert_allclose(f[k, fold, 0], want, atol=1e-8)


@given(problems(max_features=12), ties, weightings, st.sampled_from([None, 2]))
def test_primal_folds_equal_refits(p, ties, weighting, n_folds):
    graph = PreferenceGraph.from_scores(p.y, p.qid, ties=ties, weighting=weighting)
    folds = query_folds(p.qid, n_folds)
    f = primal_folds(p.X, graph, p.y[:, None], folds, LAMS)
    for fold in folds:
        for k, lam in enumerate(LAMS):
            want = refit_predictions(p.X @ p.X.T, p.y, p.qid, fold, lam, ties, weighting)
            assert_allclose(f[k, fold, 0], want, atol=1e-8)


@pytest.mark.parametrize("folds", [primal_folds, dual_folds])
def test_several_outputs(folds):
    rng = np.random.default_rng(0)
    X, Y, qid = rng.standard_normal((30, 3)), rng.standard_normal((30, 2)), np.arange(30) // 5
    graph = PreferenceGraph.from_groups(qid)
    F = X if folds is primal_folds else X @ X.T
    both = folds(F.copy(), graph, Y, query_folds(qid), LAMS)
    for k in range(2):
        alone = folds(F.copy(), graph, Y[:, [k]], query_folds(qid), LAMS)
        assert_allclose(both[..., k], alone[..., 0], atol=1e-10)


def test_no_cancellation_if_one_query_dominates():
    rng = np.random.default_rng(0)
    qid = np.r_[np.zeros(400), np.repeat(np.arange(1, 21), 3)]
    X = rng.standard_normal((460, 4))
    X[:400] *= 1e5
    y = rng.standard_normal(460)
    graph = PreferenceGraph.from_groups(qid)
    f = primal_folds(X, graph, y[:, None], query_folds(qid), [1.0])
    want = refit_predictions(X @ X.T, y, qid, np.arange(400), 1.0)
    assert_allclose(f[0, :400, 0], want, rtol=1e-7, atol=1e-7 * np.abs(want).max())


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_sums_of_all_but_one(n):
    stack = np.random.default_rng(n).standard_normal((n, 2, 2))
    want = [stack.sum(axis=0) - part for part in stack]
    assert_allclose(leave_query_out._all_but_one(stack), want, atol=1e-12)


@pytest.mark.parametrize("lam", [1e-9, 1e-6])
@pytest.mark.parametrize("spectral", [True, False])
def test_a_small_lam_is_accurate_if_the_kernel_is_well_conditioned(lam, spectral):
    rng = np.random.default_rng(0)
    qid, X, y = np.arange(24) // 4, rng.standard_normal((24, 40)), rng.standard_normal(24)
    K = X @ X.T / 40
    graph = PreferenceGraph.from_groups(qid)
    lams = [lam] * (6 if spectral else 1)
    f = dual_folds(K.copy(), graph, y[:, None], query_folds(qid), lams)
    for fold in query_folds(qid)[::2]:
        want = [float(value) for value in precise_predictions(K, y, qid, fold, lam)]
        assert_allclose(f[0, fold, 0], want, atol=1e-12)


@pytest.mark.parametrize("rows", [2, 4])  # of a query: fewer than features, and as many
def test_lams_below_rounding_errors_are_refused(rows):
    rng = np.random.default_rng(0)
    qid, X, y = np.arange(12) // rows, rng.standard_normal((12, 4)), rng.standard_normal(12)
    X[:, 3] = -2.0 * X[:, 0]
    graph = PreferenceGraph.from_groups(qid, weighting="rows")
    for folds, F in ((primal_folds, X), (dual_folds, X @ X.T)):
        for lam in (1e-300, 1e-16):
            with pytest.raises(DataError, match="alpha is too small"), explained_rounding():
                folds(F.copy(), graph, y[:, None], query_folds(qid), [lam])


@pytest.mark.parametrize("stack_bytes", [0, 10**9])  # folds that are multiplied side by side
@pytest.mark.parametrize("n_bytes", [0, 10**9])
@pytest.mark.parametrize("least", [1, 10**9])
def test_moments_of_all_folds_but_one_in_little_memory(stack_bytes, n_bytes, least, monkeypatch):
    monkeypatch.setattr(leave_query_out, "SOLVE_BYTES", n_bytes)
    monkeypatch.setattr(leave_query_out, "STACK_BYTES", stack_bytes)
    monkeypatch.setattr(parallel, "LEAST", least)
    rng = np.random.default_rng(0)
    Z, t = rng.standard_normal((50, 3)), rng.standard_normal((50, 2))
    folds = np.array_split(rng.permutation(50), 11)
    n_folds = 0
    for first, A, b in leave_query_out.sums_without(Z, t, folds):
        for k in range(len(A)):
            rest = np.setdiff1d(np.arange(50), folds[first + k])
            assert_allclose(A[k], Z[rest].T @ Z[rest], atol=1e-12)
            assert_allclose(b[k], Z[rest].T @ t[rest], atol=1e-12)
            n_folds += 1
    assert n_folds == 11


@given(st.integers(1, 5), st.integers(1, 3), st.integers(1, 4), st.integers(0, 1000))
def test_systems_of_folds_equal_a_general_solver(n, n_outputs, n_lams, seed):
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((3, n + 4, n))
    A, b, strengths = Z.mT @ Z, rng.standard_normal((3, n, n_outputs)), rng.random((3, n_lams))
    penalty = np.diag([1.0] * (n - 1) + [0.0])
    found, pivot = leave_query_out.stacked_solutions(A, b, strengths, penalty)
    compiled, of_compiled = leave_query_out.compiled_solutions(A, b, strengths, penalty)
    assert_allclose(pivot, of_compiled)
    for f in range(3):
        for k in range(n_lams):
            want = np.linalg.solve(A[f] + strengths[f, k] * penalty, b[f])
            assert_allclose(found[f, k], want, rtol=1e-9, atol=1e-12)
            assert_allclose(compiled[f, k], want, rtol=1e-6, atol=1e-9)


def test_systems_that_are_not_definite_are_refused():
    b, strengths = np.ones((1, 2, 1)), np.ones((1, 1))
    for value in (-1.0, np.nan):
        A = np.full((1, 2, 2), value)
        with pytest.raises(np.linalg.LinAlgError):
            leave_query_out.compiled_solutions(A, b, strengths, np.eye(2))
