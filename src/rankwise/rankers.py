"""Stable names of rankers and transformers, for model files and the command line.

A name never changes and is never given to another class: model files contain it. The class
behind it may be renamed or moved. Classes are imported when they are first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

RANKERS = {
    "rankrls": "rankwise.estimators.rankrls.RankRLS",
    "rls": "rankwise.estimators.rankrls.RLS",
    "sparse-rankrls": "rankwise.estimators.rankrls.SparseRankRLS",
    "sparse-rls": "rankwise.estimators.rankrls.SparseRLS",
    "kpcrank": "rankwise.estimators.kpcrank.KPCRank",
    "kpcr": "rankwise.estimators.kpcrank.KPCR",
    "pairwise-gp": "rankwise.gp.pairwise_gp.PairwiseGP",
    "sparse-bilinear": "rankwise.bilinear.sparse_bilinear.SparseBilinearRanker",
    "ranksvm": "rankwise.svm.rank_svm.RankSVM",
    "boosted": "rankwise.boosted.boosted_ranker.BoostedRanker",
    "transductive-rankrls": ("rankwise.estimators.transductive_rankrls.TransductiveRankRLS"),
    "additive-rankrls": "rankwise.estimators.rankrls.AdditiveRankRLS",
    "two-sided-rankrls": "rankwise.two_sided.two_sided_rankrls.TwoSidedRankRLS",
    "mean": "rankwise.model_selection.meta_rankers.MeanRanker",
    "auto": "rankwise.auto.auto_ranker.AutoRanker",
    "leaderboard": "rankwise.leaderboard.leaderboard.Leaderboard",
    "ranking-search": "rankwise.model_selection.search.RankingSearchCV",
}
"""Where the class of each ranker is, by its stable name."""

TRANSFORMERS = {
    "query-minmax-scaler": "rankwise.preprocessing.query_scalers.QueryMinMaxScaler",
    "query-standard-scaler": "rankwise.preprocessing.query_scalers.QueryStandardScaler",
    "query-ranks": "rankwise.preprocessing.query_scalers.QueryRanks",
    "with-query-standard": "rankwise.preprocessing.query_scalers.WithQueryStandard",
    "seen-features": "rankwise.preprocessing.seen_features.SeenFeatures",
    "table-encoder": "rankwise.preprocessing.table_encoder.TableEncoder",
    "date-features": "rankwise.preprocessing.table_encoder.DateFeatures",
    "graph-walks": "rankwise.preprocessing.graph_counts.GraphWalks",
    "weisfeiler-lehman": "rankwise.preprocessing.graph_counts.WeisfeilerLehman",
}
"""The same for transformers, which are steps of pipelines."""


def ranker_class(name: str) -> Any:
    """The class with a stable name, a key of `RANKERS` or `TRANSFORMERS`."""
    module, _, class_name = (RANKERS | TRANSFORMERS)[name].rpartition(".")
    return getattr(import_module(module), class_name)


def ranker_name(cls: type) -> str | None:
    """The stable name of a class, or None if it is not in the tables."""
    path = f"{cls.__module__}.{cls.__qualname__}"
    known = RANKERS | TRANSFORMERS
    return next((name for name in known if known[name] == path), None)
