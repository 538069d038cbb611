"""Preference graphs: which pairs of rows count, and how much."""

from rankwise.graph.preference_graph import PairBlock, PreferenceGraph
from rankwise.graph.preference_graph import PairGraph as PairGraph  # its former name
from rankwise.graph.query_groups import QueryGroups

__all__ = ["PairBlock", "PreferenceGraph", "QueryGroups"]
