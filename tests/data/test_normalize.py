"""Per-query normalization against two plain loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from rankwise.data import normalize_per_query
from rankwise.errors import DataError


def normalized_by_loops(X, qid):
    out = np.zeros_like(X)
    for q in set(qid):
        rows = [i for i in range(len(qid)) if qid[i] == q]
        for j in range(X.shape[1]):
            low, high = X[rows, j].min(), X[rows, j].max()
            if high > low:
                out[rows, j] = (X[rows, j] - low) / (high - low)
    return out


@st.composite
def problems(draw):
    dtype = draw(st.sampled_from([np.float64, np.float32]))
    shape = (draw(st.integers(1, 12)), draw(st.integers(1, 4)))
    values = st.just(0.0) | st.integers(-2, 3).map(float) | st.floats(-1e9, 1e9, width=32)
    X = draw(hnp.arrays(dtype, shape, elements=values))
    names = draw(st.sampled_from([[3, 1, 2], ["b", "a", "c"], [5.0, -1.0, 7.0]]))
    qid = draw(st.lists(st.sampled_from(names), min_size=shape[0], max_size=shape[0]))
    return X, qid


@settings(deadline=None)
@given(problems())
def test_is_what_the_loops_give(problem):
    X, qid = problem
    before = X.copy()
    got = normalize_per_query(X, qid)
    assert_array_equal(got, normalized_by_loops(X, qid))
    assert got.dtype == X.dtype
    assert_array_equal(X, before)


@settings(deadline=None)
@given(problems(), st.sampled_from([sparse.csr_array, sparse.csc_array, sparse.coo_matrix]))
def test_sparse_is_what_dense_is(problem, kind):
    X, qid = problem
    given_X = kind(X)
    got = normalize_per_query(given_X, qid)
    assert isinstance(got, sparse.csr_array)
    assert got.dtype == X.dtype
    assert_array_equal(got.toarray(), normalize_per_query(X, qid))
    assert_array_equal(given_X.toarray(), X)


def test_sparse_stays_as_sparse_as_it_can():
    X = sparse.csr_array([[0.0, 2, 3, -1], [4, 0, 3, 0], [0, 0, 0, 5]])
    got = normalize_per_query(X, ["a", "a", "b"])
    assert_array_equal(got.toarray(), [[0, 1, 0, 0], [1, 0, 0, 1], [0, 0, 0, 0]])
    assert got.nnz == 3


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_values_too_far_apart(dtype, kind):
    top = np.finfo(dtype).max
    X = kind(np.array([[-top, 0.0], [top, 1.0]], dtype=dtype))
    with pytest.raises(DataError, match="The values of a feature are too far apart for float"):
        normalize_per_query(X, None)
    assert_array_equal(normalize_per_query([[5e-324], [0.0], [0.0]], None), [[1], [0], [0]])


def test_many_rows_in_any_order():
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(10_000, 3)), rng.integers(0, 50, 10_000)
    order = np.argsort(qid)
    assert_allclose(normalize_per_query(X, qid)[order], normalize_per_query(X[order], qid[order]))
    assert_array_equal(normalize_per_query(X, qid), normalized_by_loops(X, qid))


def test_integers_become_floats_and_nothing_stays_nothing():
    assert_array_equal(normalize_per_query([[1], [3], [2]], [0, 0, 0]), [[0], [1], [0.5]])
    assert normalize_per_query(np.empty((0, 3)), []).shape == (0, 3)
    assert normalize_per_query(sparse.csr_array((2, 3)), [1, 1]).nnz == 0


@pytest.mark.parametrize(
    ("X", "qid", "words"),
    [
        ([[np.nan]], [1], "X contains NaN or infinite values"),
        ([[1.0], [-np.inf]], [1, 1], "X contains NaN or infinite values"),
        (sparse.csr_array([[np.inf]]), [1], "X contains NaN or infinite values"),
        ([1.0], [1], "numbers in two dimensions"),
        ([["a"]], [1], "X must contain numbers"),
        ([[1.0]], [1, 2], "qid needs one entry per row of X: got 2 for 1 rows"),
    ],
)
def test_what_cannot_be_normalized(X, qid, words):
    with pytest.raises(DataError, match=words):
        normalize_per_query(X, qid)
