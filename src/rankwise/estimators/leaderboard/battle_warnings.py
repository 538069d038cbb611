"""What is wrong with battles, although ratings can be computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from rankwise.backends.arrays import Array
from rankwise.data.battles import Battles
from rankwise.errors import DataError, warn
from rankwise.estimators.leaderboard.battle_problem import BattleProblem
from rankwise.tables import plural

SHOWN = 5
FEW_GROUPS = 20
POSITION_Z = 4.0  # how far beyond chance the first place must matter to be worth a warning


def warn_about_graph(problem: BattleProblem, items: NDArray[Any], penalty: Any) -> None:
    """Warn if battles do not link all items, or links lead only in one direction.

    Without a penalty, such ratings are infinite: raise an error.
    """
    t, n = problem.likelihood.tally, len(items)
    a, b, ties = t.counts.T
    won = np.concatenate((t.first[a + ties > 0], t.second[b + ties > 0]))
    lost = np.concatenate((t.second[a + ties > 0], t.first[b + ties > 0]))
    links = sp.coo_array((np.ones(len(won)), (won, lost)), shape=(n, n)).tocsr()
    parts, part = connected_components(links, directed=False)
    if parts > 1:
        sizes = np.bincount(part)
        small = np.flatnonzero(part == int(np.argmin(sizes)))
        message = (
            f"Battles do not link all items: there are {parts} parts, the smallest with "
            f"{_named(items[small])}. Items of different parts cannot be compared"
        )
        if penalty == 0:
            raise DataError(f"{message}: give penalty a positive number.")
        warn(f"{message}: only the penalty keeps their ratings together.")
    ahead, behind = np.bincount(won, minlength=n), np.bincount(lost, minlength=n)
    met = ahead + behind > 0
    for only, word in ((met & (behind == 0), "won"), (met & (ahead == 0), "lost")):
        if only.any():
            message = (
                f"{_named(items[only])} {word} all battles: by the battles alone, there is no "
                "bound to such a rating"
            )
            if penalty == 0:
                raise DataError(f"{message}. Give penalty a positive number.")
            warn(f"{message}, and it rests on the penalty.")
            return
    strong = connected_components(links, directed=True, connection="strong")[0]
    if strong > parts:
        message = (
            f"Some items never lost against any of the others ({strong} groups of items, each of "
            "which is ahead of the next in all battles)"
        )
        if penalty == 0:
            raise DataError(f"{message}: give penalty a positive number.")
        warn(f"{message}: the distance between these groups rests on the penalty.")


def check_order(battles: Battles) -> None:
    """Refuse an effect of the first place if the first item won every battle.

    Then winners are listed before losers, and the order says nothing of what was shown.
    """
    if (battles.outcome == 0).any() and not (battles.outcome == 1).any():
        raise DataError(
            "The first item won every battle: the battles seem to list winners before losers, so "
            "that the effects of the first place and of judges are unknown. Leave out position and "
            "judge, or give the items in the order in which they were shown."
        )


def warn_about_position(problem: BattleProblem, params: Array) -> None:
    """Warn if the first place wins more often than the ratings explain, and is not modelled.

    A score test: the sum of the scores of groups, divided by its standard error. If the first wins
    all battles, winners are listed before losers, and the order says nothing of what was shown.
    """
    if not np.where(problem.sign > 0, problem.outcome == 1, problem.outcome == 0).any():
        return
    scores = problem.likelihood.scores(params)[problem.outcome, 0, problem.row]
    scores = scores * problem.weight * problem.sign
    if problem.group is not None:
        scores = np.bincount(problem.group, weights=scores)
    error = float(np.sqrt(np.square(scores).sum()))
    if error == 0 or abs(scores.sum()) < POSITION_Z * error:
        return
    which = "first" if scores.sum() > 0 else "second"
    warn(
        f"The item shown {which} won more often than the ratings explain "
        f"({abs(scores.sum()) / error:.1f} standard errors): two orders of a pair are judged "
        "differently. Set position=True."
    )


def warn_about_groups(n_groups: int) -> None:
    """Warn if there are few independent groups."""
    if n_groups < FEW_GROUPS:
        warn(
            f"Intervals rest on {plural(n_groups, 'group')} of battles: they are rough with fewer "
            f"than {FEW_GROUPS}."
        )


def _named(items: NDArray[Any]) -> str:
    more = f" and {len(items) - SHOWN} more" if len(items) > SHOWN else ""
    return ", ".join(map(repr, items[:SHOWN].tolist())) + more
