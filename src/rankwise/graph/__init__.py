"""Preference graphs: which pairs of rows count, and how much."""

from rankwise.graph.base import PairBlock, PreferenceGraph
from rankwise.graph.groups import Groups

__all__ = ["Groups", "PairBlock", "PreferenceGraph"]
