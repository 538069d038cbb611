"""Careless raters, and raters who prefer the worse items, by the judge model of leaderboards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rankwise.backends.arrays import Index

SIDES = 3  # raters who prefer the better items, for each rater who prefers the worse ones
ADVERSARY = "adversary"
_TURNED = {"first": "second", "second": "first"}


def judge_raters(
    pairs: Index, outcomes: Sequence[str], raters: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """How much scores matter to each rater, as in `RaterReport`; none for fewer than four raters.

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
        found[str(row["judge"])] = {
            "slope": float(row["slope"]),
            "slope_low": float(row["slope, low"]),
            "slope_high": float(row["slope, high"]),
            "remark": remark,
        }
    return found
