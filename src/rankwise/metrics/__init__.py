"""Ranking metrics, per query and averaged, with every convention a parameter.

Every function takes ``(y, scores, qid=None, ...)``, labels and scores of which larger is better,
and returns the mean over queries, or with ``per_query=True`` the value of every query.
"""

from rankwise.metrics._ranking import QueryValues
from rankwise.metrics.evaluation import RankingEvaluation, evaluate_ranking
from rankwise.metrics.gain import ndcg
from rankwise.metrics.pairwise import concordance_index, disagreement_error, kendall_tau
from rankwise.metrics.registry import METRICS, Metric, get_metric
from rankwise.metrics.relevance import average_precision, precision_at_k, reciprocal_rank
from rankwise.metrics.significance import PairedTest, paired_test

__all__ = [
    "METRICS",
    "Metric",
    "PairedTest",
    "QueryValues",
    "RankingEvaluation",
    "average_precision",
    "concordance_index",
    "disagreement_error",
    "evaluate_ranking",
    "get_metric",
    "kendall_tau",
    "ndcg",
    "paired_test",
    "precision_at_k",
    "reciprocal_rank",
]
