"""Ranking metrics, averaged over queries, with every convention an explicit parameter.

Every metric takes ``(y, scores, qid=None, *, ..., undefined=..., per_query=False)``: labels and
scores, larger is better, and the query of each row. It returns the mean over queries, or with
``per_query=True`` a `QueryValues` with the value of each query.

Instead of labels and scores, metrics take a pair of dictionaries, as in trec_eval and
ir-measures: qrels, ``{query: {document: label}}``, and a run, ``{query: {document: score}}``.
All queries of the qrels count. A document without a judgement has label 0, and a judged document
that the run did not retrieve has no rank.
"""

from rankwise.metric_names import METRICS, Metric, get_metric
from rankwise.metrics import comparison_metrics as _registered  # noqa: F401
from rankwise.metrics.evaluation import (
    PairedTest,
    RankerPair,
    RankingComparison,
    RankingEvaluation,
    compare_rankings,
    evaluate_ranking,
    paired_test,
)
from rankwise.metrics.exposure import GroupExposure, group_exposure
from rankwise.metrics.ranking_metrics import (
    QueryValues,
    average_precision,
    concordance_index,
    disagreement_error,
    expected_reciprocal_rank,
    kendall_tau,
    ndcg,
    precision_at_k,
    rank_biased_precision,
    recall_at_k,
    reciprocal_rank,
    success_at_k,
)
from rankwise.metrics.ranking_scorer import make_ranking_scorer

__all__ = [
    "METRICS",
    "GroupExposure",
    "Metric",
    "PairedTest",
    "QueryValues",
    "RankerPair",
    "RankingComparison",
    "RankingEvaluation",
    "average_precision",
    "compare_rankings",
    "concordance_index",
    "disagreement_error",
    "evaluate_ranking",
    "expected_reciprocal_rank",
    "get_metric",
    "group_exposure",
    "kendall_tau",
    "make_ranking_scorer",
    "ndcg",
    "paired_test",
    "precision_at_k",
    "rank_biased_precision",
    "recall_at_k",
    "reciprocal_rank",
    "success_at_k",
]
