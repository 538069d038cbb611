"""Ratings by few votes that count, with the help of many that may be biased.

Some battles have a vote that counts, such as a human vote, and all have another, such as the vote
of a model. Prediction-powered inference (Angelopoulos et al., "Prediction-powered inference",
Science 2023; with the power of "PPI++", 2023) maximizes

    l(votes that count) + power (n / m l(other votes, unlabelled) - l(other votes, labelled))

with the log-likelihoods l of n labelled and m unlabelled battles. The other votes cancel on
average, whatever their bias: they only reduce the variance. The power minimizes the sum of the
variances of the ratings, and is 0 where the other votes tell nothing. If no vote that counts is a
tie, ties of the other votes count as half a win for both items.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rankwise.data.battles import Battles
from rankwise.errors import DataError
from rankwise.leaderboard.battle_likelihood import (
    BattleProblem,
    maximize,
    outcome_counts,
)


def with_gold_votes(problem: BattleProblem, battles: Battles) -> tuple[BattleProblem, float]:
    """The problem with the votes of `battles.gold` and, with the power, the others; and the power.

    The likelihood gets a vote more for each labelled battle, and weights that may be negative.
    Standard errors are over groups of battles, or over battles.
    """
    used = np.flatnonzero((battles.outcome != 3) & (battles.weight > 0))
    gold = np.asarray(battles.gold)[used]
    turned = (problem.sign < 0) & (gold >= 0) & (gold < 2)
    gold = np.where(turned, 1 - gold, gold)
    labelled = gold >= 0
    if not ((gold == 0) | (gold == 1)).any():
        raise DataError("No right answer in gold is a win: there is nothing to rank the items by.")
    weight, row, outcome = problem.weight, problem.row, problem.outcome
    n, m = weight[labelled].sum(), weight[~labelled].sum()
    group = np.arange(len(row)) if problem.group is None else problem.group
    human = _counted(problem, row[labelled], gold[labelled], weight[labelled])
    mode = maximize(human.likelihood, {"items": 1.0})
    power = 0.0
    if m > 0 and mode.converged:
        voted = (replace(human, outcome=votes[labelled]) for votes in (gold, outcome))
        own = [each.unit_scores(mode.params, group[labelled]).toarray() for each in voted]
        items = problem.layout.items
        move = [mode.curvature.solve(each.T)[items] for each in own]
        move = [each - each.mean(axis=0) - each.mean(axis=1, keepdims=True) for each in move]
        both, alone = float((move[0] * move[1]).sum()), float(np.square(move[1]).sum())
        power = float(np.clip(both / ((1.0 + n / m) * max(alone, 1e-300)), 0.0, 1.0))
    factor = np.where(labelled, -power, power * n / max(m, 1e-300))
    at = np.concatenate((np.flatnonzero(labelled), np.arange(len(row))))
    made = _counted(
        problem,
        row[at],
        np.concatenate((gold[labelled], outcome)),
        np.concatenate((weight[labelled], factor * weight)),
    )
    time = None if problem.time is None else problem.time[at]
    crossed = None if problem.crossed is None else problem.crossed[at]
    sign = problem.sign[at]
    return replace(made, time=time, group=group[at], crossed=crossed, sign=sign), power


def _counted(
    problem: BattleProblem, row: np.ndarray, outcome: np.ndarray, weight: np.ndarray
) -> BattleProblem:
    """The problem with these votes."""
    old = problem.likelihood
    likelihood = old.with_counts(outcome_counts(row, outcome, weight, len(old.tally)))
    return replace(problem, likelihood=likelihood, row=row, outcome=outcome, weight=weight)
