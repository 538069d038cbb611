"""Hold-outs of very small and very large features, compared with refits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from rankwise import RLS, RankRLS, SparseRankRLS
from rankwise.model_selection import (
    auc_interval,
    leave_comparison_out,
    leave_one_out,
    leave_pair_out,
    leave_query_out,
    permutation_test,
)

pytestmark = pytest.mark.parametrize("size", [1.0, 1e-16, 1e-20, 1e-60, 1e60])
RNG = np.random.default_rng(5)
X = RNG.standard_normal((30, 4))
Y = X[:, 0] + RNG.standard_normal(30)
CLASS = (Y > 0).astype(float)
GRADE = np.round(Y)
QID = np.arange(30) // 6


def predictions_without(ranker, X, y, out, **given):
    """Predictions for the rows `out` by a fit to the others."""
    rest = np.setdiff1d(np.arange(len(y)), out)
    of_rest = {name: values[rest] for name, values in given.items()}
    return clone(ranker).fit(X[rest], y[rest], **of_rest).predict(X[out])


@pytest.mark.parametrize("y", [Y, CLASS, GRADE], ids=["numbers", "classes", "grades"])
@pytest.mark.parametrize("ties", ["include", "exclude"])
@pytest.mark.parametrize("solver", ["primal", "dual"])
def test_pairs(size, y, ties, solver):
    ranker, pairs = RankRLS(2.3 * size**2, scale=None, ties=ties, solver=solver), []
    found = leave_pair_out(ranker, size * X, y, return_differences=True)
    for pair in found.pairs[::20]:
        first, second = predictions_without(ranker, size * X, y, pair)
        pairs.append(first - second)
    assert_allclose(found.differences[0][::20], pairs, atol=1e-8)
    usual = leave_pair_out(clone(ranker).set_params(alpha=2.3), X, y)
    assert_allclose(found.auc, usual.auc, atol=1e-12)


@pytest.mark.parametrize("monotone", [None, {0: 1, 1: -1}])
def test_pairs_of_queries_and_of_monotone_rankers(size, monotone):
    ranker = RankRLS(2.3 * size**2, scale=None, monotone=monotone)
    qid = None if monotone else QID
    found = leave_pair_out(ranker, size * X, Y, qid=qid, return_differences=True)
    given = {} if monotone else {"qid": QID}
    for pair, held in zip(found.pairs[::20], found.differences[0][::20], strict=True):
        first, second = predictions_without(ranker, size * X, Y, pair, **given)
        assert held == pytest.approx(first - second, abs=1e-8)


def test_rows_of_regressions(size):
    """Pairs of opposite rows: without one of them, the features still have a mean of 0."""
    ranker = RLS(2.3 * size**2, scale=None, solver="primal")
    both, y = size * np.vstack((X, -X)), np.append(Y, Y**2)
    found = leave_one_out(ranker, both, y).predictions[0]
    opposite = leave_query_out(ranker, both, y, qid=np.tile(np.arange(30), 2)).predictions[0]
    for k in range(0, 30, 5):
        assert_allclose(found[k], predictions_without(ranker, both, y, [k])[0], atol=1e-8)
        want = predictions_without(ranker, both, y, [k, k + 30])
        assert_allclose(opposite[[k, k + 30]], want, atol=1e-8)


def test_queries_landmarks_and_comparisons(size):
    rows, alpha = size * X, 2.3 * size**2
    linear = RankRLS(alpha, scale=None)
    landmarks = SparseRankRLS(alpha, kernel="linear", landmarks=rows[:5], scale=None)
    for ranker in (linear, landmarks):
        held = leave_query_out(ranker, rows, Y, qid=QID).predictions[0][:6]
        want = predictions_without(ranker, rows, Y, np.arange(6), qid=QID)
        assert_allclose(held - held.mean(), want - want.mean(), atol=1e-8)
    found = leave_pair_out(landmarks, rows, Y, return_differences=True)
    for pair, held in zip(found.pairs[::40], found.differences[0][::40], strict=True):
        first, second = predictions_without(landmarks, rows, Y, pair)
        assert held == pytest.approx(first - second, abs=1e-8)
    pairs = np.column_stack((np.arange(20), np.arange(10, 30)))
    found = leave_comparison_out(linear, rows, pairs)
    for k in range(0, 20, 4):
        scores = clone(linear).fit_pairs(rows, np.delete(pairs, k, axis=0)).predict(rows)
        held = found.differences[0, k]
        assert held == pytest.approx(scores[pairs[k, 0]] - scores[pairs[k, 1]], abs=1e-8)


def test_intervals_and_permutations(size):
    ranker, options = RankRLS(2.3 * size**2, scale=None), {"n_permutations": 19, "random_state": 0}
    usual = clone(ranker).set_params(alpha=2.3)
    found, want = auc_interval(ranker, size * X, CLASS), auc_interval(usual, X, CLASS)
    assert_allclose([found.auc, found.low, found.high], [want.auc, want.low, want.high])
    found = permutation_test(ranker, size * X, CLASS, **options)
    assert found.p_value == permutation_test(usual, X, CLASS, **options).p_value
