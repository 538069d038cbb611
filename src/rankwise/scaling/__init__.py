"""Scalings of features within queries and over all rows, for arrays, sparse rows and tensors."""

from rankwise.scaling.scalings import (
    QUERY_SCALINGS,
    SCALINGS,
    ColumnStandard,
    ColumnStatistics,
    QueryMinMax,
    QueryRank,
    QueryStandard,
    Scaling,
    shown_feature,
)

__all__ = [
    "QUERY_SCALINGS",
    "SCALINGS",
    "ColumnStandard",
    "ColumnStatistics",
    "QueryMinMax",
    "QueryRank",
    "QueryStandard",
    "Scaling",
    "shown_feature",
]
