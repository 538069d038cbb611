"""How much each row adds to the outcomes of held-out pairs as a training row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from rankwise.backends.arrays import Array, Index, to_host
from rankwise.backends.dispatch import backend_of
from rankwise.backends.threads import map_in_threads, threads_for
from rankwise.holdout.held_out_pairs import one_ranking, pair_differences
from rankwise.holdout.hold_out_problem import HoldOutProblem, on_coordinates
from rankwise.holdout.leave_pair_out import ranking_system
from rankwise.holdout.pair_loops import right_without
from rankwise.holdout.permuted_labels import shares_system
from rankwise.holdout.plans import Pairs
from rankwise.holdout.rounding import explained_rounding, lost_in_rounding
from rankwise.problem import Coordinates

Right = Callable[[int], float]


def training_effects(
    problem: HoldOutProblem,
    right: Array,
    compared: Array,
    units: Index,
    chosen: Index,
    pairs_of: Callable[[HoldOutProblem, Index], Pairs],
) -> Array:
    """For each chosen unit, how many pairs of other rows are in the right order through its rows.

    `right` has the outcomes of pairs that were held out of all rows. Without the rows of a unit,
    the same pairs are held out of fewer rows, exactly, and fewer of them may be in the right order.

    If units are rows and all pairs of one ranking count, the system of all rows serves for
    every row, in O(m^2) time each. Otherwise, there is a new system for each unit, on the
    coordinates of all rows; `pairs_of(problem, rows)` says which pairs of the remaining rows to
    hold out of it.
    """
    if len(np.unique(units)) == len(units) and shares_system(problem):
        right_without_unit = _by_one_system(problem, compared)
    else:
        right_without_unit = _by_new_systems(problem, compared, units, pairs_of)

    def effect(unit: int) -> float:
        rest = (units != unit).astype(np.float64)
        return float(rest @ right @ rest) / 2 - right_without_unit(unit)

    return np.array(map_in_threads(effect, chosen.tolist(), threads_for(len(chosen) * right.size)))


def pair_credit(gap: Array, difference: Array) -> Array:
    """1 for the right order, 1/2 for tied predictions, 0 otherwise and for equal labels."""
    return np.asarray(np.where(gap == 0.0, 0.0, (1.0 + np.sign(difference * gap)) / 2))


def _by_one_system(problem: HoldOutProblem, compared: Array) -> Right:
    (lam,), n, labels = problem.lams, len(problem.y), problem.labels
    with explained_rounding():
        system = ranking_system(one_ranking(problem, 0), problem.loss, lam, n - 3)
    if system is None:  # all predictions are tied
        return lambda row: 0.5 * float(np.delete(np.delete(compared, row, 0), row, 1).sum()) / 2
    P, y, a = (np.ascontiguousarray(to_host(M)) for M in (system.P.dense(), system.y, system.a))
    if not np.isfinite(a).all():
        raise lost_in_rounding()
    return lambda row: right_without(P, row, y, a, labels[:, 0], compared)


def _by_new_systems(
    problem: HoldOutProblem,
    compared: Array,
    units: Index,
    pairs_of: Callable[[HoldOutProblem, Index], Pairs],
) -> Right:
    on, given = backend_of(problem.y), problem.coordinates

    def right_without_unit(unit: int) -> float:
        rows = np.flatnonzero(units != unit)
        if given.kernel is not None:
            part = Coordinates(kernel=on.contiguous(given.kernel[rows][:, rows]))
        else:
            part = Coordinates(features=on.rows(given.features, rows))
        y, labels = problem.y[rows], problem.labels[rows, 0]
        rest = replace(problem.problem, tasks=problem.loss.tasks(y[:, 0], None), qid=None)
        inner = HoldOutProblem(on_coordinates(rest, part), problem.alphas, y, problem.n_outputs)
        total = 0.0
        for _, block in pair_differences(inner, 0, pairs_of(inner, rows)):
            first, second, difference = map(to_host, block)
            credit = pair_credit(labels[first] - labels[second], difference[:, 0])
            total += float((credit * compared[rows[first], rows[second]]).sum())
        return total

    return right_without_unit
