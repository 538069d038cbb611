"""Array expressions for few rows agree with the compiled loops for many."""

import numpy as np
from hypothesis import given
from numpy.testing import assert_array_equal

from rankwise.metrics._compiled_loops import count_pairs
from rankwise.metrics.ranked_queries import RankedQueries, count_few_pairs, label_levels
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
