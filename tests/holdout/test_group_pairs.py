"""Held-out pairs of groups, compared with refits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from rankwise import RLS, RankRLS
from rankwise.errors import DataError, ParameterError
from rankwise.model_selection import leave_pair_out
from tests.oracles.holdout import refit_predictions, refit_ridge
from tests.strategies import seeds, ties, weightings


def make(seed, n=14, n_groups=6, n_labels=3):
    """Groups of different sizes; the first two rows of the first three have all labels."""
    rng = np.random.default_rng(seed)
    groups = np.append(np.arange(n_groups), rng.integers(0, n_groups, n - n_groups))
    y = np.append(np.arange(n_groups), rng.integers(0, n_labels, n - n_groups)) % n_labels
    order = rng.permutation(n)
    return rng.standard_normal((n, 3)), y[order].astype(float), groups[order]


def across(groups, strata=None):
    """Row numbers of pairs of different groups, and of the same stratum."""
    i, j = np.triu_indices(len(groups), 1)
    kept = groups[i] != groups[j]
    if strata is not None:
        kept &= strata[i] == strata[j]
    return np.column_stack((i, j))[kept]


@given(seeds, ties, weightings, st.sampled_from(["linear", "rbf"]), st.booleans())
def test_pairs_of_groups_are_held_out_exactly(seed, ties, weighting, kernel, with_strata):
    X, y, groups = make(seed)
    strata = groups % 2 if with_strata else None
    ranker = RankRLS(0.7, kernel=kernel, gamma=0.5, scale=None, ties=ties, weighting=weighting)
    held = leave_pair_out(ranker, X, y, strata=strata, groups=groups, return_differences=True)
    K = X @ X.T if kernel == "linear" else np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2))
    assert sorted(map(tuple, held.pairs)) == sorted(map(tuple, across(groups, strata)))
    wrong = []
    for (i, j), difference in zip(held.pairs, held.differences[0], strict=True):
        out = np.flatnonzero(np.isin(groups, groups[[i, j]]))
        f = refit_predictions(K, y, np.zeros(len(y)), out, 0.7, ties, weighting)
        want = f[np.searchsorted(out, i)] - f[np.searchsorted(out, j)]
        assert difference == pytest.approx(want, abs=1e-8)
        if y[i] != y[j]:
            wrong.append(0.5 - 0.5 * np.sign(want * (y[i] - y[j])))
    assert held.error[0] == pytest.approx(np.mean(wrong))


def test_ridge_regression_and_several_outputs():
    X, y, groups = make(0)
    Y = np.column_stack((y, -y + X[:, 0]))
    held = leave_pair_out(RLS(0.5, scale=None), X, Y, groups=groups, return_differences=True)
    for (i, j), difference in zip(held.pairs, held.differences[0], strict=True):
        out = np.flatnonzero(np.isin(groups, groups[[i, j]]))
        at = np.searchsorted(out, [i, j])
        for o in range(2):
            f = refit_ridge(X @ X.T, Y[:, o], out, 0.5)[at]
            assert difference[o] == pytest.approx(f[0] - f[1], abs=1e-8)


@pytest.mark.parametrize("ties", ["include", "exclude"])
def test_groups_of_one_row_are_pairs_of_rows(ties):
    X, y, _ = make(1)
    ranker = RankRLS(1.0, ties=ties)
    one = leave_pair_out(ranker, X, y, alphas=[0.1, 10.0], return_differences=True)
    names = np.array([f"patient {k}" for k in range(len(y))])
    two = leave_pair_out(ranker, X, y, alphas=[0.1, 10.0], groups=names, return_differences=True)
    assert_allclose(two.differences, one.differences, atol=1e-10)
    assert_allclose(two.standard_error, one.standard_error)
    assert_allclose(two.magnitude_error, one.magnitude_error)


def test_strata_are_pairs_within_them():
    X, y, groups = make(2)
    listed = across(np.arange(len(y)), groups)
    one = leave_pair_out(RankRLS(1.0), X, y, strata=groups)
    assert_allclose(one.error, leave_pair_out(RankRLS(1.0), X, y, pairs=listed).error)


def test_what_cannot_be_held_out():
    X, y, groups = make(0)
    with pytest.raises(DataError, match="strata needs one entry per row of X: got 3 for 14 rows"):
        leave_pair_out(RankRLS(1.0), X, y, strata=[0, 1, 2])
    with pytest.raises(DataError, match=r"groups is missing in row 0 \(14 rows in all\): give"):
        leave_pair_out(RankRLS(1.0), X, y, groups=[None] * 14)
    with pytest.raises(ParameterError, match="Give groups or qid, not both"):
        leave_pair_out(RankRLS(1.0), X, y, groups=groups, qid=groups)
    with pytest.raises(ParameterError, match="Give pairs, or strata and groups"):
        leave_pair_out(RankRLS(1.0), X, y, groups=groups, pairs=3)
    with pytest.raises(DataError, match="No two rows of different groups"):
        leave_pair_out(RankRLS(1.0), X, y, groups=np.zeros(14))
    with pytest.raises(DataError, match="Without the groups 0 and 1, no rows with different"):
        leave_pair_out(RankRLS(1.0), X, y, groups=np.arange(14) % 2)
    with pytest.raises(DataError, match="The label 1 has a single row: without it, nothing is"):
        leave_pair_out(RankRLS(1.0), X, np.arange(14) == 3)
