"""Model selection: exact hold-outs without refitting, and parameter searches."""

from rankwise.estimators.components.held_out_errors import ComponentErrors
from rankwise.holdout.scores import HeldOutScores
from rankwise.model_selection._auc_intervals import (
    AUCDifference,
    AUCInterval,
    auc_difference,
    auc_interval,
)
from rankwise.model_selection._component_errors import component_errors
from rankwise.model_selection._cross_validation import CrossValidation, cross_validate
from rankwise.model_selection._held_out_comparisons import (
    LeaveComparisonOut,
    leave_comparison_out,
    leave_item_out,
)
from rankwise.model_selection._held_out_pairs import (
    LeavePairOut,
    leave_pair_out,
    tournament_scores,
)
from rankwise.model_selection._held_out_queries import (
    HeldOut,
    k_fold,
    leave_one_out,
    leave_query_out,
)
from rankwise.model_selection._learning_curve import QueryLearningCurve, query_learning_curve
from rankwise.model_selection._nested_pairs import NestedLeavePairOut, nested_leave_pair_out
from rankwise.model_selection._permutation_importance import (
    PermutationImportance,
    permutation_importance,
)
from rankwise.model_selection._permutation_test import PermutationTest, permutation_test
from rankwise.model_selection._ranker_comparison import compare_rankers
from rankwise.model_selection.best_mean import PairedDifference, ScoreEstimate
from rankwise.model_selection.grouped_ranker import GroupedRanker
from rankwise.model_selection.mean_ranker import MeanRanker
from rankwise.model_selection.search.ranking_search import RankingSearchCV

__all__ = [
    "AUCDifference",
    "AUCInterval",
    "ComponentErrors",
    "CrossValidation",
    "GroupedRanker",
    "HeldOut",
    "HeldOutScores",
    "LeaveComparisonOut",
    "LeavePairOut",
    "MeanRanker",
    "NestedLeavePairOut",
    "PairedDifference",
    "PermutationImportance",
    "PermutationTest",
    "QueryLearningCurve",
    "RankingSearchCV",
    "ScoreEstimate",
    "auc_difference",
    "auc_interval",
    "compare_rankers",
    "component_errors",
    "cross_validate",
    "k_fold",
    "leave_comparison_out",
    "leave_item_out",
    "leave_one_out",
    "leave_pair_out",
    "leave_query_out",
    "nested_leave_pair_out",
    "permutation_importance",
    "permutation_test",
    "query_learning_curve",
    "tournament_scores",
]
