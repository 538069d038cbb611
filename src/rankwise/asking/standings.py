"""Results of the answers of a session: the ranking, reports on raters, and the running fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from rankwise.asking.goals import Goal, Pair, Progress, choose_pairs, top_probabilities
from rankwise.asking.item_model import (
    SLIPS,
    Comparison,
    HeldOutAnswers,
    Model,
    Scores,
    model_of,
    unknown_scores,
)
from rankwise.asking.items import Item
from rankwise.asking.judged_raters import ADVERSARY
from rankwise.asking.log import Ledger
from rankwise.backends.arrays import Array, Index
from rankwise.tables import Column, Table, TableMixin

if TYPE_CHECKING:
    from rankwise.estimators.pair_strategies import PairStrategy

_DRAWS = 1000
_SLIP_PRIOR = (1.0, 19.0)  # a beta distribution with mean 5%
_UNKNOWN = 1e-6  # a predicted difference that is too small to tell who is better
_GRID = np.linspace(0.0, 0.5, 201)[1:-1]
_GROWTH, _FIRST = 1.2, 5  # a new fit after so many more answers
_LEFT_EVERY = 8  # answers after which the number left is estimated again


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
        Score minus the mean score of all items, in units of the noise of an answer, and its
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

    Examples
    --------
    >>> from rankwise.asking import Session
    >>> ranking = Session(["tea", "milk"]).ranking()  # before any answer, ranks are open
    >>> ranking.rank_low.tolist(), ranking.rank_high.tolist()
    ([1, 1], [2, 2])
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
        ends = np.quantile(ranks, tails, axis=0, method="nearest")
        rank_low, rank_high = ends.astype(np.intp)
        p_top = top_probabilities(draws, min(k, n))
        order = np.lexsort((np.arange(n), -np.round(mean, 9)))
        parts: dict[str, Any] = {"score": score, "low": score - half, "high": score + half}
        parts |= {"rank_low": rank_low, "rank_high": rank_high, "p_top": p_top}
        ordered = {name: part[order] for name, part in parts.items()}
        names, counts = [ids[i] for i in order], n_answers[order]
        return cls(names, order, n_answers=counts, k=k, level=level, **ordered)

    def __len__(self) -> int:
        return len(self.items)

    def _frame_columns(self) -> Mapping[str, Any]:
        found = {
            "item": self.items,
            "rank": range(1, len(self) + 1),
            **{name: getattr(self, name).round(4) for name in ("score", "low", "high")},
            "rank_low": self.rank_low,
            "rank_high": self.rank_high,
            f"p_top_{self.k}": self.p_top.round(4),
            "answers": self.n_answers,
        }
        return {name: np.asarray(column).tolist() for name, column in found.items()}

    def rows(self, most: int | None = None) -> list[dict[str, Any]]:
        """One dictionary for each item, the best first, or for the best `most` items."""
        columns = self._frame_columns()
        names = ("rank", *(name for name in columns if name != "rank"))
        rows = zip(*(columns[name][:most] for name in names), strict=True)
        return [dict(zip(names, row, strict=True)) for row in rows]

    @property
    def top(self) -> str:
        """What `p_top` is the probability of."""
        return f"P(top {self.k})" if self.k > 1 else "P(best)"

    def to_table(self, *, brief: bool = False) -> Table:
        """The ranking as a table; `brief`: without intervals of scores and numbers of answers."""
        percent, p_top = f"{100 * self.level:.0f}%", f"p_top_{self.k}"
        columns = (
            Column("rank"),
            Column("item", ""),
            Column("score", ".2f"),
            Column(f"{percent} of scores", ""),
            Column(f"{percent} of ranks", ""),
            Column(self.top, ".2f"),
            Column("answers"),
        )
        rows = []
        for r in self.rows():
            scores = f"{r['low']:.2f} to {r['high']:.2f}"
            rows.append(
                (r["rank"], r["item"], r["score"], scores, ranks(r), r[p_top], r["answers"])
            )
        kept = (0, 1, 2, 4, 5) if brief else range(len(columns))
        cells = tuple(tuple(row[k] for k in kept) for row in rows)
        return Table(tuple(columns[k] for k in kept), cells)


def ranks(row: Mapping[str, Any]) -> str:
    """The interval of the rank of an item, from a row of `Ranking.rows`; one number if it is one.

    Examples
    --------
    >>> ranks({"rank_low": 1, "rank_high": 3}), ranks({"rank_low": 2, "rank_high": 2})
    ('1 to 3', '2')
    """
    low, high = row["rank_low"], row["rank_high"]
    return f"{low}" if low == high else f"{low} to {high}"


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
        How often an answer agrees with the ranking by all other answers; None if that cannot
        predict any answer.
    slope, slope_low, slope_high : float
        How much scores matter to the rater, by the judge model of `Leaderboard`, with a 95%
        interval; 1 is the mean of all raters. None for fewer than four raters, or many items.
    remark : str
        "careless", as in `Leaderboard.judges`. "adversary" if the interval of the slope lies below
        0, and above 0 for three times as many raters: the answers of the rater count the other way
        round, and `slips` is the share of slips among these. Otherwise "".

    Examples
    --------
    >>> from rankwise.asking import Session
    >>> session = Session(["tea", "milk"])
    >>> answer = session.skip(session.ask("Ada").token)
    >>> [(report.name, report.n_skips) for report in session.rater_reports()]
    [('Ada', 1)]
    """

    name: str
    n_answers: int
    n_skips: int
    slips: float
    slips_low: float
    slips_high: float
    agreement: float | None
    slope: float | None = None
    slope_low: float | None = None
    slope_high: float | None = None
    remark: str = ""


def rater_reports(
    held_out: HeldOutAnswers,
    answers: Sequence[Comparison],
    ledger: Ledger,
    judged: Mapping[str, Mapping[str, Any]],
) -> list[RaterReport]:
    """Reports on all raters, from predictions of each answer without it."""
    who = np.array([answer.rater for answer in answers], dtype=object)
    decided = held_out.margin != 0
    known = np.abs(held_out.mean) > _UNKNOWN
    agrees = np.sign(held_out.mean) == np.sign(held_out.margin)
    reports = []
    for name in ledger.raters:
        n_skips = sum(answer.outcome == "skip" for answer in ledger.of_rater(name))
        mine = np.asarray(who == name, dtype=bool).reshape(len(who))
        told = mine & decided
        slips, low, high = slip_rate(held_out.probability[told])
        predicted = told & known
        agreement = float(agrees[predicted].mean()) if predicted.any() else None
        found = judged.get(name, {})
        if found.get("remark") == ADVERSARY and agreement is not None:
            agreement = 1.0 - agreement
        n_answers = int(mine.sum())
        reports.append(RaterReport(name, n_answers, n_skips, slips, low, high, agreement, **found))
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


@dataclass(frozen=True, eq=False)
class Standing:
    """What was computed from the answers, as of an entry."""

    version: int
    scores: Scores
    slips: float
    progress: Progress
    queue: list[Pair]
    exact: bool = False  # whether by a fit from scratch
    reports: list[RaterReport] = field(default_factory=list)  # as of the last fit from scratch

    @classmethod
    def unknown(cls, ledger: Ledger) -> Standing:
        """The result before anything was computed: pairs are chosen at random."""
        n = len(ledger.items)
        return cls(ledger.version, unknown_scores(n), SLIPS, ledger.goal().unknown(n), [])


class RunningFit:
    """A model of the items, brought up to date as answers come.

    Attributes
    ----------
    model : ItemModel, ManyItems or None
    told : dict
        The answers that the model knows, by the numbers of their entries.
    n_fitted : int
        The number of answers at the last fit from scratch; -1 if there was none.
    exact : bool
        Whether the posterior comes from a fit from scratch.
    """

    def __init__(self) -> None:
        self.model: Model | None = None
        self.told: dict[int, Comparison] = {}
        self.n_fitted, self.exact = -1, False
        self._features: list[tuple[float, ...]] = []  # of the items of the model
        self._left: tuple[Goal, int, int] | None = None  # the last estimate: when, and how many
        self._reports: list[RaterReport] = []

    def standing(
        self,
        ledger: Ledger,
        held: Sequence[Pair],
        n_ahead: int,
        *,
        exactly: bool,
        strategy: str | PairStrategy = "goal",
    ) -> Standing:
        """The posterior, how far the goal is, and what to ask next.

        A few new answers update the posterior at the present hyperparameters. Withdrawn and
        changed answers, new items, a fifth more answers, and `exactly` need a new fit. `held` are
        the pairs that raters are looking at; `n_ahead` pairs are chosen by `strategy`.
        """
        version, goal, comparisons = ledger.version, ledger.goal(), ledger.comparisons()
        model = self._updated(ledger.items, comparisons, exactly=exactly)
        scores = model.scores()
        progress = goal.progress(scores)
        if progress.met and not self.exact:  # only a fit to all answers decides this
            self._fit(model, comparisons)
            scores = model.scores()
            progress = goal.progress(scores)
        if self.exact:
            answers = _ordered(comparisons)
            self._reports = rater_reports(model.held_out(), answers, ledger, model.judged)
        queue = choose_pairs(
            scores,
            n_ahead,
            slips=model.slips,
            weights=goal.weights(scores),
            skips=ledger.skips(),
            taken=held,
            strategy=strategy,
            rng=np.random.default_rng(version),
        )
        progress = self._with_answers_left(progress, scores, model.slips)
        return Standing(version, scores, model.slips, progress, queue, self.exact, self._reports)

    def _updated(
        self, items: Sequence[Item], comparisons: dict[int, Comparison], *, exactly: bool
    ) -> Model:
        """The model of all answers."""
        features = [item.features for item in items]
        if self.model is None or self._features != features:
            self.model, self._features, self.n_fitted = model_of(items), features, -1
        told = self.told if self.n_fitted >= 0 else {}
        removed = any(comparisons.get(number) != c for number, c in told.items())
        grown = len(comparisons) > _GROWTH * self.n_fitted + _FIRST
        self.exact = len(comparisons) == self.n_fitted and not removed
        if self.n_fitted < 0 or removed or grown or (exactly and not self.exact):
            self._fit(self.model, comparisons)
        else:
            new = [c for number, c in comparisons.items() if number not in told]
            if new:
                self.model.tell(new)
        self.told = comparisons
        return self.model

    def _fit(self, model: Model, comparisons: dict[int, Comparison]) -> None:
        model.fit(_ordered(comparisons))
        self.n_fitted, self.exact = len(comparisons), True

    def _with_answers_left(self, progress: Progress, scores: Scores, slips: float) -> Progress:
        """With an estimate of the answers left, which is updated from time to time."""
        n = len(self.told)
        if progress.met:
            self._left = None
            return replace(progress, answers_left=0)
        if self._left is not None and self._left[0] == progress.goal:
            passed, left = n - self._left[1], self._left[2]
            if 0 <= passed < max(_LEFT_EVERY, n // 20):
                return replace(progress, answers_left=max(1, left - passed))
        left = progress.goal.answers_left(scores, slips)
        self._left = progress.goal, n, left
        return replace(progress, answers_left=left)


def _ordered(comparisons: dict[int, Comparison]) -> list[Comparison]:
    """Answers in the order in which models are fitted to them, whenever they came."""
    return sorted(c.normalized() for c in comparisons.values())
