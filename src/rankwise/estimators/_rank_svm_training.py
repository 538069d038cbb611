"""The training rows of a RankSVM, as features or as coordinates on landmarks, and its fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from rankwise.backends.arrays import is_sparse
from rankwise.backends.dispatch import NUMPY
from rankwise.errors import DataError, ParameterError, warn
from rankwise.estimators._landmark_choice import LandmarkChoice, check_for_landmarks
from rankwise.estimators._ranker_parameters import make_kernel
from rankwise.estimators._row_weights import KeptRows
from rankwise.estimators._scaling import (
    SAMPLE_ROWS,
    check_not_tiny,
    evenly_spaced,
    follows_variance,
    scaled_gamma,
)
from rankwise.estimators._validation import forget, query_groups, validated
from rankwise.graph.label_checks import check_labels_differ, numeric_labels
from rankwise.parameters import Number, check_parameters
from rankwise.problem import LandmarkSpace, LandmarkSystem
from rankwise.problem.memory import check_columns_fit, check_features_fit
from rankwise.scaling import ColumnStatistics
from rankwise.solvers.hinge import hinge
from rankwise.solvers.squared_hinge import (
    LabelledPairs,
    ListedPairs,
    NewtonFit,
    least_lam,
    squared_hinge,
)
from rankwise.tables import plural

SOLVERS = {"squared_hinge": squared_hinge, "hinge": hinge}


class FixedAlpha(Number):
    """A number; for "auto", which other rankers take, there is a hint."""

    def hint(self, value: Any) -> str:
        """How to choose alpha."""
        if not isinstance(value, str) or value != "auto":
            return ""
        return (
            " RankSVM does not choose alpha itself: use "
            'RankingSearchCV(RankSVM(), {"alpha": [0.1, 1, 10]}).'
        )


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Rows X, and features F in which a function is linear, with the norm of its weights."""

    X: Any
    F: Any
    system: LandmarkSystem | None

    @classmethod
    def of(cls, ranker: Any, X: Any, qid: Any, kept: KeptRows | None) -> TrainingRows:
        """The rows themselves, or coordinates on landmarks that are chosen among them."""
        if is_linear(ranker):
            if ranker.n_landmarks is not None or ranker.landmarks is not None:
                raise ParameterError(
                    'Landmarks are for kernels other than "linear": leave out n_landmarks and '
                    'landmarks, or use another kernel, such as "rbf".'
                )
            return cls(X, X, None)
        if isinstance(ranker.kernel, str) and ranker.kernel == "precomputed":
            raise ParameterError(
                'RankSVM computes kernels of features: got kernel="precomputed". Use a name such '
                'as "rbf" or a callable, or SparseRankRLS, which takes kernel matrices.'
            )
        if follows_variance(ranker):
            ranker.gamma_ = scaled_gamma(ColumnStatistics.of(X))
        kernel = make_kernel(ranker, X.shape[1])
        check_for_landmarks(kernel)
        method = "random" if ranker.landmarks is None else ranker.landmarks
        names = getattr(ranker, "feature_names_in_", None)
        choice = LandmarkChoice.of(method, ranker.n_landmarks, names)
        space: Any = LandmarkSpace(kernel, choice, ranker.random_state)
        space = space if kept is None else kept.of_space(space)
        system = space.system(X, qid)
        check_features_fit(X.shape[0], system.n_coordinates, NUMPY)
        return cls(X, system.coordinates(X)(slice(None)), system)


def is_linear(ranker: Any) -> bool:
    """Whether a ranker has weights of features."""
    return isinstance(ranker.kernel, str) and ranker.kernel == "linear"


def keep_solution(ranker: Any, system: LandmarkSystem | None, found: NewtonFit) -> None:
    """Store weights of features, or of coordinates on landmarks, as the fitted model."""
    ranker.n_iter_ = found.n_iter
    if system is None:
        ranker.coef_ = found.w
        return
    ranker.basis_, ranker.dual_coef_ = system.basis, system.factor.coefficients(found.w)


def training_rows(
    ranker: Any, X: Any, y: Any, qid: Any, query_weight: Any, sample_weight: Any
) -> tuple[TrainingRows, LabelledPairs]:
    """Validated rows, and the pairs that their labels give."""
    check_parameters(ranker, ranker.parameters)
    forget(ranker)
    options = {"accept_sparse": "csr", "dtype": np.float64, "ensure_min_samples": 2}
    X, y = validated(ranker, X, numeric_labels(y), y_numeric=True, **options)
    if is_sparse(X) and is_linear(ranker):
        check_columns_fit(X)
    groups, kept = query_groups(qid, len(y), query_weight), None
    if sample_weight is not None:
        kept = KeptRows.of(ranker, sample_weight, groups)
        groups, (X, y, qid) = kept.groups, kept.of_training(ranker, X, y, qid)
    check_labels_differ(y, groups)
    ranker.n_queries_ = groups.n_groups
    labels = np.asarray(y, np.float64)
    weights = groups.weights, groups.row_weights
    pairs = LabelledPairs.of(labels, groups.codes, ranker.weighting, *weights)
    check_not_tiny(ColumnStatistics.of(evenly_spaced(X, SAMPLE_ROWS)))
    return TrainingRows.of(ranker, X, qid, kept), pairs


def minimize(
    ranker: Any, X: Any, pairs: LabelledPairs | ListedPairs, alphas: list[float]
) -> list[NewtonFit]:
    """The fit for each alpha; a warning if one has not converged.

    An alpha that is lost in rounding errors is replaced by `least_lam`.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # checked below
        solve, least = SOLVERS[ranker.loss], least_lam(X, pairs)
        lams = [max(alpha, least) for alpha in alphas]
        fits = solve(X, pairs, lams, tol=float(ranker.tol), max_iter=ranker.max_iter)
    if not all(np.isfinite(found.residual) for found in fits):
        raise DataError(
            "Products of the features or of alpha overflow. Scale the features, for example "
            "with sklearn.preprocessing.StandardScaler, or use a smaller alpha."
        )
    worst = max(fits, key=lambda found: found.residual)
    if not worst.converged:
        _warn_of_stop(ranker, worst)
    return fits


def _warn_of_stop(ranker: Any, found: NewtonFit) -> None:
    """Say where the iteration ended, and what may help."""
    if found.n_iter < ranker.max_iter:
        why = "where rounding errors hide any further progress"
        advice = "Scale the features, or use a larger alpha or a larger tol."
    else:
        why = "the number that max_iter allows"
        advice = "Scale the features, use a larger alpha, or increase max_iter."
    warn(
        f"RankSVM stopped after {plural(found.n_iter, 'Newton step')}, {why}. The gradient, "
        f"relative to the start, is {found.residual:.1e}, above tol={ranker.tol:g}. {advice}",
        ConvergenceWarning,
    )
