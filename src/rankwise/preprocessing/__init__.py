"""Scaling of features within queries, as scikit-learn's transformers."""

from rankwise.preprocessing.query_scalers import (
    QueryMinMaxScaler,
    QueryRanks,
    QueryStandardScaler,
)

__all__ = ["QueryMinMaxScaler", "QueryRanks", "QueryStandardScaler"]
