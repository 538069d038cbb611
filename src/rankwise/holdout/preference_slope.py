"""Probabilities from differences of scores: Platt's logistic function of held-out differences."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from rankwise.backends.arrays import Array
from rankwise.errors import DataError
from rankwise.holdout import choice_budget as budget
from rankwise.holdout.alpha_evaluation import by_steps
from rankwise.holdout.comparison_choice import held_out_part, held_out_sample
from rankwise.holdout.comparison_hold_out import edges_of, system_of
from rankwise.holdout.hold_out_problem import plain_problem
from rankwise.problem import Problem


def preference_slope(problem: Problem, lam: float, *, kernels: bool) -> float | None:
    """a of P(first wins) = 1 / (1 + exp(-a (f(first) - f(second)))).

    None if it costs too much, or if exact hold-outs are not possible.

    Every difference is that of the fit without the comparison or, if there are groups, without its
    group or fold of groups, on at most COMPARISONS of them. With features and landmarks, it costs
    about as much as a fit. A kernel matrix needs an eigendecomposition: only with `kernels`, and up
    to KERNEL_ROWS rows.
    """
    graph = problem.comparisons
    if graph.margin.ndim > 1 or np.count_nonzero(graph.weight > 0) < 2:
        return None
    problem = plain_problem(problem)
    if by_steps(problem):
        lams = np.array([lam])
        some, _, differences = held_out_part(problem, graph, lams, graph.weight > 0)
        return logistic_slope(differences[0, :, 0], graph.margin[some], graph.weight[some])
    if system_of(problem) is None and not (kernels and problem.n_rows <= budget.KERNEL_ROWS):
        return None
    try:
        some, differences = held_out_sample(edges_of(problem, 1), [lam], graph.weight > 0)
    except (DataError, np.linalg.LinAlgError):  # too small a lam, or an indefinite kernel
        return None
    return logistic_slope(differences[0, :, 0], graph.margin[some], graph.weight[some])


def logistic_slope(differences: Array, margin: Array, weight: Array) -> float:
    """The slope of greatest likelihood, at least 0; a margin of 0 is half a win for each row.

    As in Platt's paper, outcomes are 1 - 1 / (n + 2) instead of 1, so that the slope is finite.
    """
    n = len(differences)
    target = 0.5 + 0.5 * np.sign(margin) * n / (n + 2.0)
    scale = float(np.abs(differences).max(initial=0.0))
    if scale == 0.0:
        return 0.0
    d = differences / scale

    def slope(a: float) -> float:
        """Derivative of minus the log-likelihood."""
        return float((weight * d) @ (expit(a * d) - target))

    high = 1.0
    if slope(0.0) >= 0.0:
        return 0.0
    while slope(high) < 0.0 and high < 1e12:
        high *= 2.0
    return float(brentq(slope, 0.0, high)) / scale if slope(high) > 0.0 else high / scale
