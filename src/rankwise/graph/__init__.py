"""Preference graphs: which pairs of rows count, and how much."""

from rankwise.graph.preference_graph import PairBlock, PairGraph, PreferenceGraph
from rankwise.graph.query_groups import QueryGroups

__all__ = ["PairBlock", "PairGraph", "PreferenceGraph", "QueryGroups"]
