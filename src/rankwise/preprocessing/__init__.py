"""Scaling of features within queries, and a choice of features, as scikit-learn's transformers."""

from rankwise.preprocessing.query_scalers import (
    QueryMinMaxScaler,
    QueryRanks,
    QueryStandardScaler,
)
from rankwise.preprocessing.seen_features import SeenFeatures

__all__ = ["QueryMinMaxScaler", "QueryRanks", "QueryStandardScaler", "SeenFeatures"]
