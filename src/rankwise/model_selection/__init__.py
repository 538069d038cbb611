"""Model selection: exact hold-outs without refitting, and parameter searches."""

from rankwise.estimators.kpcrank import ComponentErrors
from rankwise.holdout.scores import HeldOutScores
from rankwise.model_selection.auc_intervals import (
    AUCDifference,
    AUCInterval,
    NestedLeavePairOut,
    auc_difference,
    auc_interval,
    nested_leave_pair_out,
)
from rankwise.model_selection.cross_validation import (
    CrossValidation,
    QueryLearningCurve,
    compare_rankers,
    cross_validate,
    query_learning_curve,
)
from rankwise.model_selection.hold_outs import (
    HeldOut,
    LeaveComparisonOut,
    LeavePairOut,
    component_errors,
    k_fold,
    leave_comparison_out,
    leave_item_out,
    leave_one_out,
    leave_pair_out,
    leave_query_out,
    tournament_scores,
)
from rankwise.model_selection.meta_rankers import (
    GroupedRanker,
    MeanRanker,
    PairedDifference,
    ScoreEstimate,
)
from rankwise.model_selection.permutations import (
    PermutationImportance,
    PermutationTest,
    permutation_importance,
    permutation_test,
)
from rankwise.model_selection.search import RankingSearchCV

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
