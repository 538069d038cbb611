"""Blocks of inverses for few and many regularization strengths."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from rankwise.holdout.engine import last_rows
from tests.strategies import seeds


@given(seeds, st.integers(1, 150), st.floats(0, 1), st.sampled_from([1, 2, 8]))
def test_rows_of_the_inverse(seed, m, share, n_lams):
    rng = np.random.default_rng(seed)
    Z, t = rng.standard_normal((m, m)), rng.standard_normal((m, 2))
    M, some = Z @ Z.T, rng.permutation(m)[: 1 + int(share * (m - 1))]
    lams = np.geomspace(0.5, 50, n_lams)
    for lam, (N, z) in zip(lams, last_rows(M.copy(), t, some, lams), strict=True):
        inverse = np.linalg.inv(M + lam * np.eye(m))
        assert_allclose(N.P, inverse[np.ix_(some, some)], atol=1e-9)
        assert_allclose(z, (inverse @ t)[some], atol=1e-8)


@pytest.mark.parametrize("negative", [0, 39], ids=["of the other rows", "of these rows"])
@pytest.mark.parametrize("n_lams", [1, 8])
def test_an_indefinite_matrix_is_refused(n_lams, negative):
    M = np.eye(40)
    M[negative, negative] = -5.0
    with pytest.raises(np.linalg.LinAlgError, match="not positive"):
        list(last_rows(M, np.ones((40, 1)), np.arange(30, 40), [1.0] * n_lams))
