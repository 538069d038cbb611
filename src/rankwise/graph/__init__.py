"""Preference graphs: which pairs of rows count, and how much."""

from rankwise.graph.preference_graph import PairBlock, PreferenceGraph
from rankwise.graph.query_groups import Groups

__all__ = ["Groups", "PairBlock", "PreferenceGraph"]
