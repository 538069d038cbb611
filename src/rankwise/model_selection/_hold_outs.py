"""Problems from which rows are held out, made from estimators."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from rankwise.errors import DataError, ParameterError
from rankwise.estimators._scaling import kept_of_all_rows
from rankwise.estimators.least_squares.base import LeastSquaresRanker
from rankwise.holdout.alpha_choice import choose_alpha
from rankwise.holdout.alpha_grid import data_alphas
from rankwise.holdout.hold_out_problem import HoldOutProblem
from rankwise.parameters import check_alphas


def hold_out_problem(
    estimator: Any,
    X: Any,
    y: Any,
    qid: Any,
    alphas: Any,
    query_weight: Any = None,
    sample_weight: Any = None,
    *,
    unlabelled: bool = False,
) -> HoldOutProblem:
    """Validate an estimator, which is cloned, and its training data.

    `unlabelled` says whether some rows may have no label, if the estimator takes them.
    """
    if not isinstance(estimator, LeastSquaresRanker):
        raise ParameterError(
            "Exact hold-outs need a least-squares ranker, such as RankRLS: got "
            f"{type(estimator).__name__}. RankingSearchCV refits any estimator."
        )
    ranker = clone(estimator)
    given = None
    if alphas is not None or ranker.alpha != "auto":
        given = check_alphas(ranker.alpha if alphas is None else alphas)
    weights = {"query_weight": query_weight, "sample_weight": sample_weight}
    problem = ranker.make_problem(X, y, qid=qid, **weights).settled()
    if problem.space.labelled is not None and not unlabelled:
        raise DataError("This hold-out needs a label for every row: y has NaN.")
    values = data_alphas(problem) if given is None else given
    if values.min() == 0 and not problem.space.has_own_hold_outs:
        raise ParameterError(
            "Exact hold-outs need alphas above 0, except for KPCRank and KPCR: got 0. Use a "
            "small alpha instead."
        )
    held = HoldOutProblem.of(problem, values)
    if problem.space.keeps_rows:
        return held
    kept = kept_of_all_rows(ranker, problem.space)
    return replace(held, scaling=ranker.scaling_, kept=kept)


def with_one_alpha(estimator: Any, problem: HoldOutProblem) -> HoldOutProblem:
    """A problem with a single alpha, which is chosen if that of the estimator is "auto"."""
    if estimator.alpha != "auto":
        return problem
    return replace(problem, alphas=np.array([choose_alpha(problem.problem).alpha]))
