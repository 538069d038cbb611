"""Stable names of the objects that fitted rankers consist of, and the shapes of their arrays.

Like the names of rankers, these names never change and are never given to another class.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from rankwise.backends.arrays import is_sparse
from rankwise.errors import ModelFileError

KERNELS = (
    "CompoundKernel", "ConstantKernel", "DotProduct", "ExpSineSquared", "Exponentiation",
    "Matern", "PairwiseKernel", "Product", "RBF", "RationalQuadratic", "Sum", "WhiteKernel",
)  # fmt: skip
"""The kernels of scikit-learn that a model file may have, under their own names."""

VALUE_OBJECTS = {
    "named-kernel": "rankwise.kernels.NamedKernel",
    "precomputed-kernel": "rankwise.kernels.Precomputed",
    "walk-kernel": "rankwise.walks.WalkKernel",
    "feature-basis": "rankwise.problem.spaces.FeatureBasis",
    "kernel-basis": "rankwise.problem.spaces.KernelBasis",
    "landmark-basis": "rankwise.problem.spaces.LandmarkBasis",
    "component-basis": "rankwise.problem.component_space.ComponentBasis",
    "ramp-basis": "rankwise.problem.spaces.RampBasis",
    "solution": "rankwise.problem.problem.Solution",
    "context-solution": "rankwise.problem.context_space.ContextSolution",
    "component-solution": "rankwise.problem.component_space.ComponentSolution",
    "component-errors": "rankwise.estimators.kpcrank.ComponentErrors",
    "held-out-scores": "rankwise.holdout.scores.HeldOutScores",
    "fold-sum": "rankwise.problem.block_sums.FoldSum",
    "block-sums": "rankwise.problem.block_sums.BlockSums",
    "landmark-system": "rankwise.problem.spaces.LandmarkSystem",
    "landmark-factor": "rankwise.solvers.ridge_path.LandmarkFactor",
    "pair-loss": "rankwise.problem.problem.PairLoss",
    "row-loss": "rankwise.problem.problem.RowLoss",
    "moments": "rankwise.solvers.ridge_path.Moments",
    "centred-moments": "rankwise.solvers.ridge_path.CentredMoments",
    "query-minmax": "rankwise.scaling.QueryMinMax",
    "query-standard": "rankwise.scaling.QueryStandard",
    "query-rank": "rankwise.scaling.QueryRank",
    "column-standard": "rankwise.scaling.ColumnStandard",
    "ranking-scorer": "rankwise.metrics.ranking_scorer.RankingScorer",
    "comparison-scorer": "rankwise.model_selection.trials.ComparisonScorer",
    "score-estimate": "rankwise.model_selection.meta_rankers.ScoreEstimate",
    "paired-difference": "rankwise.model_selection.meta_rankers.PairedDifference",
    "auto-results": "rankwise.auto.auto_ranker.AutoResults",
    "auto-example": "rankwise.auto.baselines.ExampleQuery",
    "auto-baselines": "rankwise.auto.baselines.Baselines",
    "auto-explanation": "rankwise.auto.auto_ranker.Explanation",
    "component-options": "rankwise.estimators.kpcrank.ComponentOptions",
    "boosted-options": "rankwise.boosted.boosted_ranker.BoostedOptions",
    "gp-options": "rankwise.gp.evidence.GPOptions",
    "gp-hyperparameters": "rankwise.gp.process.Hyperparameters",
    "gp-process": "rankwise.gp.process.ConditionedProcess",
    "gp-mixture": "rankwise.gp.process.ProcessMixture",
    "gp-approximation": "rankwise.gp.inference.Approximation",
    "gp-weights": "rankwise.gp.inference.WeightPosterior",
    "gp-basis": "rankwise.gp.inference.WeightBasis",
    "gp-linear-basis": "rankwise.gp.inference.LinearBasis",
    "bilinear-shrinkage": "rankwise.bilinear.sparse_bilinear.Shrinkage",
    "table-side": "rankwise.two_sided.sides.TableSide",
    "table-view": "rankwise.two_sided.sides.View",
    "battles": "rankwise.data.battles.Battles",
    "rankings": "rankwise.data.rankings.Rankings",
    "gp-raters": "rankwise.gp.gp_results.RaterSlopes",
    "on-columns": "rankwise.gp.process.OnColumns",
    **{kernel: f"sklearn.gaussian_process.kernels.{kernel}" for kernel in KERNELS},
}
"""Where the class of each value object is, by its stable name."""

NEW_FIELDS = {"gp-raters": {"std_error": "standard_error"}}
"""Fields that have been renamed since format 1, by the stable name of their object: old to new."""

AXES_OF_ALL = ("n_features_in_: features", "feature_range_: 2 features")
AXES = {
    "rankrls": "coef_: outputs features",
    "rls": "coef_: outputs features",
    "ranksvm": "coef_: features, context_coef_: context, dual_coef_: weights",
    "boosted": "held_out_scores_: tried",
    "sparse-bilinear": "coef_: features document-features, n_document_features_: document-features",
    "two-sided-rankrls": "coef_: row-weights column-weights, known_: row-weights columns",
    "table-side": "weights: views, views: views, columns: marks in objects",
    "table-view": "points: marks inputs, n_features: features, mean: features, deviation: features",
    "pairwise-gp": "X_fit_: rows inputs, landmarks_: landmarks inputs, margin_: comparisons, "
    "weight_: comparisons, pairs_: comparisons 2 in rows, rater_: comparisons in raters, "
    "context_scale_: context, context_coef_: context, context_std_: context, "
    "context_: comparisons context, group_: comparisons in groups",
    "mean": "rankers_: parts, weights_: parts, means_: parts outputs, scales_: parts outputs",
    "auto": "part_names_: parts",
    "seen-features": "n_features_out_: columns, columns_: columns in features",
    "leaderboard": "ratings_: items, rating_std_: items, covariance_: items items, "
    "item_ties_: items, item_ties_std_: items, "
    "draws_: draws items, coef_: columns, coef_std_: columns, coef_names_: columns, "
    "judge_effects_: judges 4, judge_covariances_: judges 4 4, judge_shares_: judges, "
    "judge_widths_: 4, "
    "pair_shares_: pairs outcomes or NaN",
    "battles": "pairs: battles 2 in items, weight: battles, context: battles context, "
    "time: battles",
    "rankings": "item: entries in items, ranking: entries in weights, place: entries in items, "
    "weight: weights, context: entries context",
    "kernel-basis": "X: weights features",
    "ramp-basis": "feature: weights in features, low: weights, high: weights",
    "landmark-basis": "points: weights features, rows: weights in training-rows",
    "component-basis": "points: points features, rows: points in training-rows, "
    "A: points weights, means: weights, eigenvalues: weights",
    "solution": "weights: weights outputs, intercept: outputs",
    "context-solution": "weights: weights outputs, intercept: outputs, context: context outputs",
    "component-solution": "weights: weights outputs, intercept: outputs, "
    "path: weights weights outputs, idle: idle in weights",
    "landmark-factor": "n_landmarks: weights, kept: rank in weights, C: rank rank",
    "moments": "A: rank rank, b: rank outputs",
    "centred-moments": "A: rank rank, b: rank outputs, F_mean: rank, y_mean: outputs",
    "column-standard": "mean: features, deviation: features",
    "gp-process": "points: points inputs",
    "gp-mixture": "processes: processes, weights: processes, prior: processes",
    "gp-raters": "slope: raters, standard_error: raters",
    "gp-hyperparameters": "slopes: raters",
    "gp-approximation": "tau: sites, nu: sites",
    "gp-weights": "root: context+rank context+rank, mean: context+rank",
    "gp-linear-basis": "columns: rank in inputs, scales: rank",
    "gp-basis": "root: rank rank, first: rank in points, second: rank in points",
}
"""Axes of the arrays of a ranker or a value object, by its stable name.

"X: rows features" is an array of finite numbers, dense or CSR. Axes of the same name have the
same length throughout a ranker (or throughout each object of a list); "or NaN" allows missing
numbers, and "outputs" is left out if y has one column. A whole number is the length of its axis,
and "context+rank" is as long as both axes, 0 for one that is not known by then. "first: rank in
points" is an array of positions along "points", where -1 stands for none.
"""


def value_object_name(cls: type) -> str | None:
    """The stable name of a class, or None if it has none."""
    path = f"{cls.__module__}.{cls.__qualname__}"
    return next((name for name, known in VALUE_OBJECTS.items() if known == path), None)


def value_object_class(name: str) -> Any:
    """The class with a stable name."""
    if name not in VALUE_OBJECTS:
        raise ModelFileError(f"this version has no object {name!r}")
    module, _, class_name = VALUE_OBJECTS[name].rpartition(".")
    return getattr(import_module(module), class_name)


def renamed_fields(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of an object in a file, with the names that they have now."""
    new = NEW_FIELDS.get(name, {})
    return {new.get(field, field): value for field, value in fields.items()}


def check_axes(name: str, owner: Any, lengths: dict[str, int]) -> None:
    """Check the arrays of a ranker or an object, and then the arrays of the objects in it."""
    for rule in (*AXES_OF_ALL, *AXES.get(name, "").split(", ")):
        attribute, _, axes = rule.partition(": ")
        if getattr(owner, attribute, None) is not None:
            _check_one(f"{attribute} of {name}", getattr(owner, attribute), axes, lengths)
    if name in KERNELS:
        _check_kernel(name, owner)
    for value in vars(owner).values():
        for entry in value if isinstance(value, list) else [value]:
            inner = value_object_name(type(entry))
            if inner is not None:
                check_axes(inner, entry, dict(lengths) if isinstance(value, list) else lengths)


def _check_kernel(name: str, kernel: Any) -> None:
    """Hyperparameters of scikit-learn's kernels are numbers, except for some length scales."""
    for attribute, value in vars(kernel).items():
        may_be_array = attribute.endswith(("_bounds", "kernels")) or (
            attribute == "length_scale" and name in ("RBF", "Matern") and np.ndim(value) == 1
        )
        if isinstance(value, (np.ndarray, list, tuple)) and not may_be_array:
            raise ModelFileError(f"{attribute} of {name} is {describe(value)}, not a number")


def check_complete(name: str, owner: Any) -> None:
    """Raise an error if an object lacks an attribute of `AXES`."""
    for rule in AXES[name].split(", ") if name in AXES else ():
        attribute = rule.partition(": ")[0]
        if getattr(owner, attribute, None) is None:
            raise ModelFileError(f"{attribute} of {name} is missing")


def _check_one(where: str, value: Any, rule: str, lengths: dict[str, int]) -> None:
    """Check an array, and add the lengths of axes that are new."""
    names, _, along = rule.partition(" in ")
    names, unknown, _ = names.partition(" or NaN")
    axes = names.split()
    if isinstance(value, (int, list)):
        shape, valid = (len(value) if isinstance(value, list) else value,), not along
    else:
        shape, entries = np.shape(value), np.asarray(value.data if is_sparse(value) else value)
        if along:
            high = entries.dtype.kind == "i" and entries < lengths.get(along, np.inf)
            valid = bool(np.all(high & (entries >= -1)))
        else:
            valid = entries.dtype.kind == "f" and not np.isinf(entries).any()
            valid = valid and bool(unknown or not np.isnan(entries).any())
    if "outputs" in axes and len(shape) == len(axes) - 1:
        axes.remove("outputs")
        if axes and lengths.setdefault("outputs", 0):
            raise ModelFileError(f"{where} has one output, where others have several")
    if not valid or len(shape) != len(axes):
        what = f"positions along {along}" if along else "finite numbers"
        wanted = f"{what} with the axes ({', '.join(axes)})"
        raise ModelFileError(f"{where} is {describe(value)}, where {wanted} are needed")
    for axis, length in zip(axes, shape, strict=True):
        if "+" in axis:
            lengths[axis] = sum(lengths.get(part, 0) for part in axis.split("+"))
        if lengths.setdefault(axis, length) != length:
            raise ModelFileError(f"{where} has {length} {axis}, where {lengths[axis]} are needed")


def describe(value: Any) -> str:
    """What a value is, in a few words."""
    if isinstance(value, np.ndarray):
        return f"an array of dtype {value.dtype} and shape {value.shape}"
    return f"a {type(value).__name__}"
