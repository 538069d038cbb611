"""AutoRanker: choose rankers by exact hold-outs, and rank by the mean of the best."""

from rankwise.auto.auto_ranker import AutoRanker, AutoResults, Explanation, Part

__all__ = ["AutoRanker", "AutoResults", "Explanation", "Part"]
