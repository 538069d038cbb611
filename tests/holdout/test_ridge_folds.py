"""Folds of rows in ridge regression and in RankRLS on one ranking, compared with refits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from rankwise.holdout.engine import ridge_folds
from rankwise.problem import Coordinates
from tests.oracles.holdout import refit_predictions, refit_ridge
from tests.strategies import problems

LAMS = [0.3, 5.0]


def ridge_strength(lam, n_left):
    return lam


def pairwise_strength(lam, n_left):
    return lam / n_left


@given(problems(max_features=9), st.sampled_from([1, 2, 3]), st.booleans(), st.booleans())
def test_folds_equal_refits(p, n_folds, leave_one_out, add_intercept):
    m = len(p.y)
    folds = np.array_split(np.arange(m)[::-1], m if leave_one_out else min(n_folds + 1, m))
    if m - max(map(len, folds)) < 1:
        return
    K = p.X @ p.X.T
    strength = ridge_strength if add_intercept else pairwise_strength
    y = p.y[:, None]
    for rows in (Coordinates(kernel=K), Coordinates(features=p.X)):
        f = ridge_folds(rows, y, folds, LAMS, strength, add_intercept=add_intercept)
        for k, lam in enumerate(LAMS):
            for fold in folds:
                if add_intercept:
                    want = refit_ridge(K, p.y, fold, lam)
                else:
                    want = refit_predictions(K, p.y, np.zeros(m), fold, lam)
                assert_allclose(f[k, fold, 0], want, atol=1e-8)


@pytest.mark.parametrize("lam", [1e-10, 1e10])
def test_extreme_lam_gives_finite_predictions(lam):
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((5, 2)), 2, axis=0)
    y, folds = rng.standard_normal((10, 1)), np.array_split(np.arange(10), 5)
    f, g = (
        ridge_folds(rows, y, folds, [lam], ridge_strength, add_intercept=True)
        for rows in (Coordinates(kernel=X @ X.T), Coordinates(features=X))
    )
    assert np.isfinite(f).all()
    assert_allclose(f, g, atol=1e-4)
