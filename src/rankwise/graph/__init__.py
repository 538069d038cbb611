"""Preference graphs: which pairs of rows count, and how much."""

from typing import TYPE_CHECKING

from rankwise.deprecations import Former, former_names
from rankwise.graph.preference_graph import PairBlock, PreferenceGraph
from rankwise.graph.query_groups import QueryGroups

__all__ = ["PairBlock", "PreferenceGraph", "QueryGroups"]

if not TYPE_CHECKING:
    __getattr__ = former_names(__name__, Former("PairGraph", "PreferenceGraph", since="0.1"))
