"""Why a row is ranked above another, and what drives a ranker as a whole."""

from rankwise.inspection.explanations import (
    PairExplanation,
    RankingExplanation,
    explain,
    explain_ranking,
)

__all__ = ["PairExplanation", "RankingExplanation", "explain", "explain_ranking"]
