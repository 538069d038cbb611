"""Pairs held out with a tiny alpha, compared with refits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from rankwise import KPCR, KPCRank, RankRLS, SparseRankRLS
from rankwise.errors import ParameterError
from rankwise.model_selection import leave_pair_out

RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 4))
Y = (X[:, 0] + 0.3 * RNG.standard_normal(30) > 0).astype(float)


@pytest.mark.parametrize("alpha", [1e-2, 1e-6, 1e-10, 1e-14])
@pytest.mark.parametrize("ties", ["include", "exclude"])
def test_features_do_not_lose_digits(alpha, ties):
    ranker = RankRLS(alpha, ties=ties)
    found = leave_pair_out(ranker, X, Y, return_differences=True)
    for (i, j), difference in list(zip(found.pairs, found.differences[0], strict=True))[::9]:
        rest = np.setdiff1d(np.arange(30), [i, j])
        f = clone(ranker).fit(X[rest], Y[rest]).predict(X[[i, j]])
        assert_allclose(difference, f[0] - f[1], atol=1e-12)


@pytest.mark.parametrize("size", [1e2, 1e5, 1e7])
def test_large_features_are_equivalent_to_a_small_alpha(size):
    ranker = SparseRankRLS(1.0, landmarks=np.arange(4), kernel="linear", ties="exclude")
    want = leave_pair_out(clone(ranker).set_params(alpha=size**-2), X, Y, return_differences=True)
    ours = leave_pair_out(ranker, size * X, Y, return_differences=True)
    assert_allclose(ours.differences, want.differences, atol=1e-9)


@pytest.mark.parametrize("kind", [KPCRank, KPCR])
def test_more_components_than_the_remaining_rows_determine(kind):
    leave_pair_out(kind(27, gamma=1.0), X, Y)
    with pytest.raises(ParameterError, match="of at most 27 components: got 28"):
        leave_pair_out(kind(28, gamma=1.0), X, Y)


def test_alpha_must_be_positive_if_ties_are_excluded():
    with pytest.raises(ParameterError, match='With ties="exclude", pairs cannot be held out'):
        leave_pair_out(KPCRank(5, ties="exclude", scale=None), X, Y)
