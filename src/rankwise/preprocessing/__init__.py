"""Transformers: scalings within queries, a choice of features, and counts of labelled graphs."""

from rankwise.preprocessing.graph_counts import GraphWalks, WeisfeilerLehman
from rankwise.preprocessing.query_scalers import (
    QueryMinMaxScaler,
    QueryRanks,
    QueryStandardScaler,
)
from rankwise.preprocessing.seen_features import SeenFeatures

__all__ = [
    "GraphWalks",
    "QueryMinMaxScaler",
    "QueryRanks",
    "QueryStandardScaler",
    "SeenFeatures",
    "WeisfeilerLehman",
]
