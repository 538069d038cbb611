"""Preference graphs: which pairs of rows count, and how much."""

from rankwise.graph.preference_graph import PairBlock, PreferenceGraph
from rankwise.graph.query_groups import QueryGroups

__all__ = ["PairBlock", "PreferenceGraph", "QueryGroups"]
