"""Careless raters, and raters who prefer the worse items, by the judge model of leaderboards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rankwise.backends.arrays import Index

SIDES = 3  # raters who prefer the better items, for each rater who prefers the worse ones
ADVERSARY = "adversary"
_TURNED = {"first": "second", "second": "first"}


@dataclass(frozen=True)
class JudgedRater:
    """How much scores matter to a rater, with a 95% interval; 1 is the mean of all raters."""

    slope: float
    low: float
    high: float
    remark: str  # "adversary", "careless" or ""


def judge_raters(
    pairs: Index, outcomes: Sequence[str], raters: Sequence[str]
) -> dict[str, JudgedRater]:
    """The slope of each rater; none for fewer than four raters.

    A rater is an adversary if the interval of the slope lies below 0, and if it lies above 0 for at
    least three times as many raters: the answers alone cannot tell which of two equal sides is
    right. For fewer than four raters, nobody can be one.
    """
    from rankwise.leaderboard.leaderboard import Leaderboard

    if len(set(raters)) <= SIDES or not set(outcomes) & set(_TURNED):  # or all answers are ties
        return {}
    # Pairs come with the smaller number first, which is no preference for the first place.
    turn = np.random.default_rng(0).random(len(pairs)) < 0.5
    first, second = np.where(turn, pairs.T[::-1], pairs.T)
    said = np.where(turn, [_TURNED.get(outcome, outcome) for outcome in outcomes], outcomes)
    board = Leaderboard("probit", n_draws=100).fit(first, second, said, judge=raters)
    rows = board.judges().records()
    against = sum(row["remark"] == ADVERSARY for row in rows)
    outvoted = sum(row["slope, low"] > 0 for row in rows) >= SIDES * against
    found = {}
    for row in rows:
        remark = row["remark"] if outvoted or row["remark"] != ADVERSARY else ""
        slope, low, high = (float(row[f"slope{end}"]) for end in ("", ", low", ", high"))
        found[str(row["judge"])] = JudgedRater(slope, low, high, remark)
    return found
