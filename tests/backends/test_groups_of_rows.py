"""Array expressions and compiled loops over groups of rows agree."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankwise.backends import arrays
from rankwise.backends.arrays import NUMPY, NestedLevels


def in_both_forms(call):
    """What array expressions, for some groups at a time, and compiled loops return."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "IN_CACHE", 12)
        for few in (2**20, 0):
            patch.setattr(arrays, "FEW", few)
            yield call()


@st.composite
def nested(draw):
    """Rows in levels, and levels in groups, in any order, with many equal values."""
    n_levels = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    sizes = draw(st.lists(st.integers(1, 4), min_size=sum(n_levels), max_size=sum(n_levels)))
    level_ptr, group_ptr = (np.append(0, np.cumsum(part)) for part in (sizes, n_levels))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    X = rng.integers(-2, 3, (sum(sizes), draw(st.integers(1, 3)))) / 4 + draw(
        st.sampled_from([0.0, 1e9])
    )
    return X, rng.permutation(len(X)), level_ptr, group_ptr, rng


@given(nested())
def test_combined_rows_and_columns(problem):
    X, rows, level_ptr, group_ptr, rng = problem
    a, b = rng.random(len(level_ptr) - 1), rng.random(len(group_ptr) - 1)
    target = rng.permutation(len(X))

    def combined():
        out, columns = np.empty_like(X), X.T.copy()
        nest = NestedLevels(rows, level_ptr, group_ptr, a, b)
        NUMPY.combine_rows(X, out, target, nest)
        NUMPY.combine_columns(columns, nest)
        return out, columns

    found = list(in_both_forms(combined))
    np.testing.assert_allclose(found[0][0], found[1][0], atol=1e-6)
    np.testing.assert_allclose(found[0][1], found[1][1], atol=1e-6)


@given(nested(), st.integers(1, 3), st.integers(1, 20))
def test_moments_of_combined_rows(problem, n_outputs, chunk):
    X, rows, level_ptr, group_ptr, rng = problem
    X = X - X[0]
    t, d = rng.random((len(X), n_outputs)), X.shape[1]
    nest = NestedLevels(
        rows, level_ptr, group_ptr, rng.random(len(level_ptr) - 1), rng.random(len(group_ptr) - 1)
    )

    def moments():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(arrays, "CHUNK_ROWS", chunk)
            patch.setattr(arrays, "CHUNK_BYTES", 0)
            A, b = NUMPY.add_moments(np.eye(d), np.ones((d, n_outputs)), X, t, nest)
        return np.tril(A), b

    Z, s = NUMPY.combined_rows(X, t, nest)
    for A, b in in_both_forms(moments):
        np.testing.assert_allclose(A, np.tril(np.eye(d) + Z.T @ Z), atol=1e-12)
        np.testing.assert_allclose(b, 1 + Z.T @ s, atol=1e-12)


@given(nested(), st.sampled_from([np.float64, np.float32]), st.booleans())
def test_scaled_groups(problem, dtype, first_left_out):
    X, rows, _, group_ptr, rng = problem
    ptr = np.sort(np.append(rng.integers(0, len(X) + 1, len(group_ptr)), [0, len(X)]))
    ptr = ptr[1:] if first_left_out else ptr  # some groups are empty
    for names in (["minmax_groups"], ["minmax_groups", "standardize_groups"]):

        def scaled(names=names):
            values = X.astype(dtype)
            finite = [getattr(NUMPY, name)(values, rows, ptr) for name in names]
            return values, finite

        (ours, finite), (want, also_finite) = in_both_forms(scaled)
        assert finite == also_finite
        np.testing.assert_allclose(ours, want, atol=1e-6 if dtype is np.float32 else 1e-12)


def test_ranges_that_overflow_are_reported():
    assert list(
        in_both_forms(
            lambda: NUMPY.minmax_groups(
                np.array([[-1e308], [1e308]]), np.arange(2), np.array([0, 2])
            )
        )
    ) == [False, False]


@given(nested(), st.sampled_from([np.float64, np.float32]), st.sampled_from([12, 2**15]))
def test_ranks(problem, dtype, in_cache):
    X, rows, _, group_ptr, _ = problem
    X = X.astype(dtype)
    want = X.copy()
    for start, stop in pairwise(group_ptr):
        some, n = rows[start:stop], stop - start
        for i in some:
            below, above = (X[some] < X[i]).sum(axis=0), (X[some] > X[i]).sum(axis=0)
            want[i] = (below - above) / (2 * max(n - 1, 1))
    for few, short in ((2**20, 64), (0, 64), (0, 3)):
        found = X.copy()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(arrays, "IN_CACHE", in_cache)
            patch.setattr(arrays, "FEW", few)
            patch.setattr(arrays, "SHORT", short)
            NUMPY.rank_groups(found, rows, group_ptr)
        np.testing.assert_allclose(found, want, rtol=1e-6)
