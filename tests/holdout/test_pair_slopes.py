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


def test_few_pairs_need_no_loops(monkeypatch):
    """Array expressions for few pairs agree with the compiled loops for many."""
    rng = np.random.default_rng(0)
    n = 12
    A, y = rng.normal(size=(n, n)), rng.normal(size=(n, 1))
    P, labels = A @ A.T, rng.integers(0, 3, n).astype(float)
    P[0, 1] = P[1, 0] = np.sqrt(P[0, 0] * P[1, 1])  # without an inverse
    Py, compared = P @ y, rng.integers(0, 2, (n, n)).astype(float)
    shares = tuple(rng.random((2, n * (n - 1) // 2)))

    def everything():
        first, second, difference = pair_differences.block_differences(
            P[2:, 2:], 2, P.diagonal(), y, Py
        )
        i, j = np.triu_indices(n, 1)
        listed = pair_differences.listed_differences(P[i, j], P.diagonal(), y, Py, i, j, shares)
        listed[3] = 0.0
        found = [first, second, difference, listed]
        for _ in range(2):
            loss, total = np.zeros((n, 1)), np.zeros((n, 1))
            pair_differences.add_losses(i, j, listed, labels[:, None], loss, total)
            wins, met = np.zeros((n, 1)), np.zeros(n)
            pair_differences.add_wins(i, j, listed, wins, met)
            found += [loss, total, wins, met]
            listed[5] = np.nan
        given = y, Py, labels, compared, pair_differences.TIED
        found += [pair_differences.right_without(P, k, *given) for k in range(n)]
        return found

    few = everything()
    monkeypatch.setattr(pair_differences, "FEW_PAIRS", 0)
    for one, other in zip(few, everything(), strict=True):
        assert_allclose(one, other, rtol=1e-10)
