"""Moments of rows in several partitions, against the dense Laplacian of all rows."""

import numpy as np
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from rankwise.graph.partitioned import PartOfGraph, SplitQueries, count_levels
from rankwise.solvers.partition_moments import PlaceMoments, added
from tests.oracles.laplacian import grouped_laplacian
from tests.strategies import problems, seeds, ties, weightings


def moments_by_places(X, y, qid, places, ties, weighting):
    """Every partition knows its rows, and how many rows of its queries are in others."""
    seen = [set(qid[rows].tolist()) for rows in places]
    several = {q for q in set(qid.tolist()) if sum(q in queries for queries in seen) > 1}
    counts = [count_levels(y[rows], qid[rows], several, ties=ties) for rows in places]
    split = SplitQueries.total(counts)
    parts = []
    for rows, queries in zip(places, seen, strict=True):
        graph = PartOfGraph.of(
            y[rows], qid[rows], split.of(queries), n_rows=len(rows), ties=ties, weighting=weighting
        )
        parts.append(PlaceMoments.of_features(X[rows], graph, y[rows]))
    return added(parts).settled(split, ties=ties, weighting=weighting)


@given(problems(), seeds, st.integers(1, 5), ties, weightings, st.sampled_from([0.0, 1e5]))
def test_partitions_add_up_to_all_rows(p, seed, n_places, ties, weighting, far):
    place = np.random.default_rng(seed).integers(0, n_places, len(p.y))
    places = [np.flatnonzero(place == k) for k in np.unique(place)]
    L = grouped_laplacian(p.y, p.qid, ties, weighting)
    for kind in (np.asarray, sp.csr_array):
        ours = moments_by_places(kind(p.X + far), p.y, p.qid, places, ties, weighting)
        assert_allclose(ours.A, p.X.T @ L @ p.X, atol=1e-9 if far == 0 else 1e-5)
        assert_allclose(ours.b, p.X.T @ L @ p.y, atol=1e-9 if far == 0 else 1e-5)
