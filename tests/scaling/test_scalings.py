"""Scalings against plain loops: dense, sparse and as tensors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from rankwise.backends.arrays import to_host
from rankwise.errors import DataError
from rankwise.graph import QueryGroups
from rankwise.scaling import QUERY_SCALINGS, SCALINGS, ColumnStandard, ColumnStatistics
from tests.oracles.scaling import scaled_by_loops

NAMES = st.sampled_from(list(QUERY_SCALINGS))
TOLERANCE = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-4}


def tensor(X):
    return pytest.importorskip("torch", reason="needs the extra gpu").tensor(X)


@st.composite
def problems(draw):
    dtype = draw(st.sampled_from([np.float64, np.float32]))
    shape = (draw(st.integers(1, 12)), draw(st.integers(1, 4)))
    values = st.just(0.0) | st.integers(-2, 3).map(float) | st.floats(-1e9, 1e9, width=32)
    X = draw(hnp.arrays(dtype, shape, elements=values))
    names = draw(st.sampled_from([[3, 1, 2], ["b", "a", "c"]]))
    return X, draw(st.lists(st.sampled_from(names), min_size=shape[0], max_size=shape[0]))


@settings(deadline=None)
@given(problems(), NAMES, st.sampled_from([np.asarray, np.asfortranarray, tensor]))
def test_a_scaling_within_queries_is_what_the_loops_give(problem, name, kind):
    X, qid = problem
    rows = kind(X)
    got = QUERY_SCALINGS[name].scale(rows, QueryGroups.of(qid))
    assert type(got) is type(rows)
    assert got.dtype == rows.dtype
    assert_allclose(to_host(got), scaled_by_loops(name, X, qid), atol=TOLERANCE[X.dtype])
    assert_array_equal(to_host(rows), X)


@settings(deadline=None)
@given(problems(), NAMES, st.sampled_from([sparse.csr_array, sparse.csc_matrix, sparse.coo_array]))
def test_sparse_is_what_dense_is(problem, name, kind):
    X, qid = problem
    rows, groups = kind(X), QueryGroups.of(qid)
    got = QUERY_SCALINGS[name].scale(rows, groups)
    assert isinstance(got, sparse.csr_array)
    assert got.dtype == X.dtype
    assert_allclose(got.toarray(), QUERY_SCALINGS[name].scale(X, groups), atol=1e-12)
    assert_array_equal(rows.toarray(), X)


@pytest.mark.parametrize("name", list(QUERY_SCALINGS))
def test_sparse_rows_store_no_more_than_they_need(name):
    X = sparse.csr_array([[0.0, 2, 3, 0], [4, 0, 3, 0], [0, 0, 0, 5], [1, 0, 0, 0]])
    got = QUERY_SCALINGS[name].scale(X, QueryGroups.of(["a", "a", "b", "b"]))
    assert got.nnz == (4 if name == "query-minmax" else 8)
    assert not got[:, [2]].nnz  # constant in both queries


def test_duplicate_entries_are_added_before_they_are_scaled():
    X = sparse.csr_array((np.ones(3), [0, 0, 0], [0, 2, 3]), shape=(2, 1))
    for scaling in QUERY_SCALINGS.values():
        first, second = scaling.scale(X, QueryGroups.of(None, 2)).toarray().ravel()
        assert first > second


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, tensor])
@pytest.mark.parametrize("name", ["query-minmax", "query-standard"])
def test_values_too_far_apart(name, kind):
    X = kind(np.array([[-1.7e308, 0.0], [1.7e308, 1.0]]))
    with pytest.raises(DataError, match=r"too far apart for .*float64: divide it by a constant"):
        QUERY_SCALINGS[name].scale(X, QueryGroups.of(None, 2))


def test_tiny_and_huge_ranges_are_scaled_as_others_are():
    X = np.array([[5e-324, 1e300, 0.1], [0.0, -1e300, 0.1], [0.0, 0.0, 0.1]])
    got = QUERY_SCALINGS["query-standard"].scale(X, QueryGroups.of(None, 3))
    assert_allclose(got.mean(axis=0), 0, atol=1e-15)
    assert_allclose(got.std(axis=0), [1, 1, 0])


@settings(deadline=None)
@given(problems(), st.sampled_from([np.asarray, sparse.csr_array, tensor]))
def test_statistics_of_columns_and_their_sums(problem, kind):
    X, _ = problem
    wide = X.astype(np.float64)
    found = ColumnStatistics.of(kind(X))
    halves = [half for half in (X[: len(X) // 2], X[len(X) // 2 :]) if len(half)]
    parts = [ColumnStatistics.of(kind(half)) for half in halves]
    summed = parts[0] if len(parts) == 1 else parts[0] + parts[1]
    size = abs(wide).max() + 1
    for one in (found, summed):
        assert one.n_rows == len(X)
        assert_array_equal(one.low, X.min(axis=0))
        assert_array_equal(one.high, X.max(axis=0))
        assert_allclose(one.mean, wide.mean(axis=0), atol=1e-12 * size)
        assert_allclose(one.deviation, wide.std(axis=0), atol=1e-7 * size)
        assert_array_equal(one.deviation[one.constant], 0)
        assert_allclose(one.variance, wide.var(), atol=1e-12 * size**2)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, tensor])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_columns_are_standardized_by_the_rows_of_the_fit(kind, dtype):
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(50, 3)) * [1e-3, 1.0, 1e6] + [0.0, 5.0, 1e6]).astype(dtype)
    X[:, 1] = 0.1
    new = X[:5] + X[5:10]
    is_sparse = kind is sparse.csr_array
    scaling = ColumnStandard.of(ColumnStatistics.of(kind(X)), centre=not is_sparse)
    got = scaling.scale(kind(new), QueryGroups.of(None, 5))
    assert got.dtype == kind(new).dtype
    got = to_host(got.toarray() if sparse.issparse(got) else got)
    assert is_sparse == (not scaling.mean.any())
    mean = 0.0 if is_sparse else np.where([0, 1, 0], X[0], X.mean(axis=0))
    deviation = np.where([0, 1, 0], 1.0, X.std(axis=0))
    assert_allclose(got, (new - mean) / deviation, rtol=1e-4, atol=1e-6)


def test_sparse_rows_are_centred_if_the_rows_of_the_fit_were():
    X = np.array([[1.0, 0.0], [3.0, 5.0]])
    scaling, groups = ColumnStandard.of(ColumnStatistics.of(X)), QueryGroups.of(None, 2)
    assert_allclose(scaling.scale(sparse.csr_array(X), groups), scaling.scale(X, groups))


def test_a_deviation_that_overflows():
    X = np.array([[0.0, 1e200], [0.0, -1e200]])
    with pytest.raises(DataError, match="The standard deviation of feature 1 overflows"):
        ColumnStandard.of(ColumnStatistics.of(X))


def test_many_rows_are_read_in_blocks():
    X = np.random.default_rng(0).normal(size=(5000, 200)) + 1e6
    found = ColumnStatistics.of(X)
    assert_allclose(found.deviation, X.std(axis=0))
    scaled = ColumnStandard.of(found).scale(X, QueryGroups.of(None, 5000))
    assert_allclose(scaled.std(axis=0), 1)


def test_the_names():
    assert SCALINGS == ("query-minmax", "query-standard", "query-ranks", "standard")
