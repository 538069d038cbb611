"""Array expressions and the compiled loop for the slopes of held-out pairs agree."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from rankwise.holdout import pair_differences


@given(st.integers(2, 8), st.integers(0, 7), st.integers(0, 1000), st.booleans())
def test_slopes_of_blocks(n, start, seed, singular):
    start = min(start, n - 2)
    A = np.random.default_rng(seed).standard_normal((n, n + 2))
    A[-1] = A[0] if singular else A[-1]
    P = A @ A.T
    block = P[start:, start:] if start == 0 else P[start : start + 1, start:]
    found = []
    for few in (0, 10**9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pair_differences, "FEW_ENTRIES", few)
            found.append(pair_differences.block_slopes(block, start, P.diagonal().copy()))
    compared = np.triu(np.ones(block.shape, dtype=bool), 1)
    assert_allclose(np.array(found[0])[:, compared], np.array(found[1])[:, compared], rtol=1e-6)
