"""Array expressions for few rows agree with the compiled loops for many."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from rankwise.metrics._compiled_loops import count_pairs, first_relevant_curves
from rankwise.metrics.ranked_queries import RankedQueries, count_few_pairs, label_levels
from rankwise.metrics.ranking_metrics import few_first_relevant
from tests.metrics.cases import rankings


@given(rankings(max_rows=40))
def test_counts_of_pairs(ranking):
    ranked = RankedQueries.of(*ranking)
    indptr = ranked.groups.indptr
    level = label_levels(ranked.labels, indptr)
    n_levels = int(level.max()) + 1
    tree, seen = np.zeros((2, n_levels + 1), np.int64)
    want = np.zeros((len(indptr) - 1, 4), np.int64)
    count_pairs(level, ranked.tied, indptr, tree, seen, want)
    assert_array_equal(count_few_pairs(level, ranked.tied, indptr, n_levels), want)


@given(rankings(max_rows=40), st.booleans(), st.booleans(), st.integers(0, 5))
def test_first_relevant_rows(ranking, average, reciprocal, left_out):
    ranked = RankedQueries.of(*ranking)
    indptr, ks = ranked.groups.indptr, np.array([1, 2, 3, 8, 100])
    stops = np.maximum(indptr[1:] - left_out, indptr[:-1])
    found, want = np.zeros((2, len(indptr) - 1, len(ks)))
    for function, values in ((few_first_relevant, found), (first_relevant_curves, want)):
        rows = ranked.labels, ranked.tied, indptr, stops
        function(*rows, average, 1.0, reciprocal, ks, values)
    assert_allclose(found, want, rtol=1e-12, atol=1e-15)
