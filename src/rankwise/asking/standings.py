"""The ranking of a session with its uncertainty, and what is known about its raters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from rankwise.asking.goals import top_probabilities
from rankwise.asking.item_model import HeldOutAnswers
from rankwise.asking.item_scores import Scores
from rankwise.backends.arrays import Array, Index
from rankwise.tables import Column, Table, TableMixin

_DRAWS = 1000
_SLIP_PRIOR = (1.0, 19.0)  # a beta distribution with mean 5%
_UNKNOWN = 1e-6  # a predicted difference below which others do not say who is better
_GRID = np.linspace(0.0, 0.5, 201)[1:-1]


@dataclass(frozen=True, eq=False)
class Ranking(TableMixin):
    """Items in their order, with intervals.

    Attributes
    ----------
    items : list of str
        Ids, the best first.
    number : ndarray of shape (n_items,)
        The number of each item in the session.
    score, low, high : ndarray of shape (n_items,)
        Score less the mean score of all items, in units of the noise of an answer, and its
        interval.
    rank_low, rank_high : ndarray of shape (n_items,)
        Interval of the rank, 1 being the best.
    p_top : ndarray of shape (n_items,)
        Probability of being among the `k` best.
    n_answers : ndarray of shape (n_items,)
        How many answers were about the item.
    k : int
    level : float
        Probability of the intervals.
    """

    items: list[str]
    number: Index
    score: Array
    low: Array
    high: Array
    rank_low: Index
    rank_high: Index
    p_top: Array
    n_answers: Index
    k: int
    level: float

    @classmethod
    def of(
        cls,
        ids: Sequence[str],
        scores: Scores,
        n_answers: Index,
        *,
        k: int,
        level: float = 0.9,
    ) -> Ranking:
        """From the moments of scores; ranks by draws, with the same random numbers every time."""
        mean, n = scores.mean, len(scores.mean)
        score = mean - mean.mean()
        half = float(ndtri(0.5 + level / 2)) * np.sqrt(scores.contrast())
        draws = scores.draws(_DRAWS)
        ranks = 1 + np.argsort(np.argsort(-draws, axis=1), axis=1)
        tails = (0.5 - level / 2, 0.5 + level / 2)
        rank_low, rank_high = np.quantile(ranks, tails, axis=0, method="nearest")
        p_top = top_probabilities(draws, min(k, n))
        order = np.lexsort((np.arange(n), -np.round(mean, 9)))
        return cls(
            items=[ids[i] for i in order],
            number=order,
            score=score[order],
            low=(score - half)[order],
            high=(score + half)[order],
            rank_low=rank_low[order].astype(np.intp),
            rank_high=rank_high[order].astype(np.intp),
            p_top=p_top[order],
            n_answers=n_answers[order],
            k=k,
            level=level,
        )

    def __len__(self) -> int:
        return len(self.items)

    def rows(self, most: int | None = None) -> list[dict[str, Any]]:
        """One dictionary for each item, the best first, or for so many of the best."""
        return [
            {
                "rank": place + 1,
                "item": item,
                "score": round(float(self.score[place]), 4),
                "low": round(float(self.low[place]), 4),
                "high": round(float(self.high[place]), 4),
                "rank_low": int(self.rank_low[place]),
                "rank_high": int(self.rank_high[place]),
                f"p_top_{self.k}": round(float(self.p_top[place]), 4),
                "answers": int(self.n_answers[place]),
            }
            for place, item in enumerate(self.items[:most])
        ]

    def to_table(self) -> Table:
        """The ranking as a table."""
        percent = f"{100 * self.level:.0f}%"
        columns = (
            Column("rank"),
            Column("item", ""),
            Column("score", ".2f"),
            Column(f"{percent} of scores", ""),
            Column(f"{percent} of ranks", ""),
            Column(f"P(top {self.k})", ".2f"),
            Column("answers"),
        )
        rows = [
            (
                r["rank"],
                r["item"],
                r["score"],
                f"{r['low']:.2f} to {r['high']:.2f}",
                f"{r['rank_low']} to {r['rank_high']}",
                r[f"p_top_{self.k}"],
                r["answers"],
            )
            for r in self.rows()
        ]
        return Table(columns, tuple(rows))

    def _frame_columns(self) -> Mapping[str, Any]:
        rows = self.rows()
        names = ("item", *(name for name in rows[0] if name != "item")) if rows else ("item",)
        return {name: [row[name] for row in rows] for name in names}


@dataclass(frozen=True)
class RaterReport:
    """What is known about a rater.

    Attributes
    ----------
    name : str
    n_answers, n_skips : int
    slips, slips_low, slips_high : float
        The share of answers that are slips, whatever the items, with a 90% interval. Before any
        answer it is 5%, give or take 5%.
    agreement : float
        How often an answer agrees with the ranking that all other answers give; None if that
        says nothing about any answer.
    """

    name: str
    n_answers: int
    n_skips: int
    slips: float
    slips_low: float
    slips_high: float
    agreement: float | None


def rater_reports(
    held_out: HeldOutAnswers, raters: Sequence[str], skips: Mapping[str, int]
) -> list[RaterReport]:
    """Reports on raters, from predictions of each answer without it.

    `raters` are the ones who gave the answers that were held out; `skips` has the number of skips
    of each rater to report on.
    """
    who = np.asarray(raters, dtype=object)
    decided = held_out.margin != 0
    known = np.abs(held_out.mean) > _UNKNOWN
    agrees = np.sign(held_out.mean) == np.sign(held_out.margin)
    reports = []
    for name, n_skips in skips.items():
        mine = np.asarray(who == name, dtype=bool).reshape(len(who))
        told = mine & decided
        slips, low, high = slip_rate(held_out.probability[told])
        judged = told & known
        agreement = float(agrees[judged].mean()) if judged.any() else None
        reports.append(RaterReport(name, int(mine.sum()), n_skips, slips, low, high, agreement))
    return reports


def slip_rate(q: Array) -> tuple[float, float, float]:
    """Mean and 90% interval of the share of slips e, where answer l has e + (1 - 2 e) q_l."""
    a, b = _SLIP_PRIOR
    log_density = (a - 1) * np.log(_GRID) + (b - 1) * np.log1p(-_GRID)
    log_density += np.log(_GRID[:, None] + (1.0 - 2.0 * _GRID[:, None]) * q).sum(axis=1)
    weight = np.exp(log_density - log_density.max())
    weight /= weight.sum()
    low, high = (_GRID[np.searchsorted(np.cumsum(weight), p)] for p in (0.05, 0.95))
    return float(weight @ _GRID), float(low), float(high)
