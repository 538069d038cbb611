"""Transformers: scalings within queries, encoders of tables, a choice of features, and counts of
labelled graphs."""

from rankwise.preprocessing.graph_counts import GraphWalks, WeisfeilerLehman
from rankwise.preprocessing.query_scalers import (
    QueryMinMaxScaler,
    QueryRanks,
    QueryStandardScaler,
    WithQueryStandard,
)
from rankwise.preprocessing.seen_features import SeenFeatures
from rankwise.preprocessing.table_encoder import DateFeatures, TableEncoder

__all__ = [
    "DateFeatures",
    "GraphWalks",
    "QueryMinMaxScaler",
    "QueryRanks",
    "QueryStandardScaler",
    "SeenFeatures",
    "TableEncoder",
    "WeisfeilerLehman",
    "WithQueryStandard",
]
