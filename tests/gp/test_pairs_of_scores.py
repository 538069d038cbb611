"""Comparisons that a Gaussian process makes of scores: all pairs, or some without listing all."""

import numpy as np
import pytest

from rankwise.gp.inference import _pair_of_number, comparisons_of_scores
from rankwise.graph import PreferenceGraph, QueryGroups
from rankwise.graph.preference_graph import QueryGraph

QID = ["b", "a", "b", "c", "a", "b", "b"]
Y = np.array([3.0, 1.0, 2.0, 5.0, 4.0, 2.0, 9.0])


def every_pair():
    blocks = PreferenceGraph.from_groups(QID).pairs()
    return np.concatenate([np.column_stack(block[:2]) for block in blocks])


def test_all_pairs_in_the_order_of_the_graph():
    made = comparisons_of_scores(QueryGroups.of(QID), Y, "gaussian", 100, np.random.default_rng(0))
    assert made.pairs.tolist() == every_pair().tolist()
    assert made.margin.tolist() == (Y[made.pairs[:, 0]] - Y[made.pairs[:, 1]]).tolist()


def test_some_pairs_are_different_ones_of_all():
    made = comparisons_of_scores(QueryGroups.of(QID), Y, "probit", 4, np.random.default_rng(0))
    found = set(map(tuple, made.pairs.tolist()))
    assert len(found) == 4
    assert found < set(map(tuple, every_pair().tolist()))
    assert set(made.margin) <= {-1.0, 0.0, 1.0}


def test_pairs_of_many_rows_are_not_listed(monkeypatch):
    monkeypatch.setattr(QueryGraph, "pairs", lambda *_: pytest.fail("all pairs are listed"))
    groups, n = QueryGroups.of(None, 10**6), 10**6
    made = comparisons_of_scores(groups, np.arange(n), "probit", 50, np.random.default_rng(0))
    assert len(set(map(tuple, made.pairs.tolist()))) == 50
    assert made.pairs.max() < n
    assert (made.pairs[:, 0] < made.pairs[:, 1]).all()


@pytest.mark.parametrize("n", [2, 3, 10, 10**6, 3 * 10**8])
def test_pairs_by_number_at_the_edges(n):
    i = np.unique([0, 1, n // 2, n - 2]).clip(max=n - 2)
    first = i * (2 * n - i - 1) // 2
    for shift, j in ((0, i + 1), (n - i - 2, np.full_like(i, n - 1))):
        found = _pair_of_number(first + shift, np.full_like(i, n))
        assert found[0].tolist() == i.tolist()
        assert found[1].tolist() == j.tolist()
