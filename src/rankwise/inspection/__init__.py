"""Why a row is ranked above another, and what drives a ranker as a whole."""

from rankwise.inspection.effects import FeatureEffect, FeatureEffects, feature_effects
from rankwise.inspection.explanations import (
    PairExplanation,
    RankingExplanation,
    explain,
    explain_ranking,
)

__all__ = [
    "FeatureEffect",
    "FeatureEffects",
    "PairExplanation",
    "RankingExplanation",
    "explain",
    "explain_ranking",
    "feature_effects",
]
