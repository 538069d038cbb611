"""The posterior of the scores, brought up to date as answers come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rankwise.asking.goals import Goal, Progress
from rankwise.asking.item_model import Comparison, ItemModel, model_of
from rankwise.asking.item_scores import Scores
from rankwise.asking.items import Item
from rankwise.asking.ledger import Ledger
from rankwise.asking.next_pair import Pair, choose_pairs
from rankwise.asking.standings import RaterReport, rater_reports

if TYPE_CHECKING:
    from rankwise.asking.many_items import ManyItems

_GROWTH, _FIRST = 1.2, 5  # a new fit after so many more answers
_LEFT_EVERY = 8  # answers after which those that are left are estimated again


@dataclass(frozen=True, eq=False)
class Snapshot:
    """All that a standing depends on, as of an entry."""

    version: int
    items: Sequence[Item]
    comparisons: dict[int, Comparison]  # the answers that count, by the numbers of their entries
    skips: dict[Pair, int]
    raters: dict[str, int]  # with their numbers of skips
    goal: Goal
    held: Sequence[Pair]  # pairs that raters are looking at
    n_ahead: int  # how many pairs to choose

    @classmethod
    def of(cls, ledger: Ledger, held: Sequence[Pair], n_ahead: int) -> Snapshot:
        raters = dict.fromkeys(ledger.raters, 0)
        for answer in ledger.answers.values():
            raters[answer.rater] += answer.outcome == "skip" and not answer.withdrawn
        return cls(
            ledger.version,
            list(ledger.items),
            ledger.comparisons(),
            ledger.skips(),
            raters,
            ledger.settings.goal.for_items(len(ledger.items)),
            held,
            n_ahead,
        )


@dataclass(frozen=True, eq=False)
class Standing:
    """What was computed from the answers, as of an entry."""

    version: int
    scores: Scores
    slips: float
    progress: Progress
    queue: list[Pair]
    exact: bool = False  # whether by a fit from scratch


class RunningFit:
    """A model of the items, and the answers that it knows.

    Attributes
    ----------
    model : ItemModel, ManyItems or None
    told : dict
        The answers that the model knows, by the numbers of their entries.
    n_fitted : int
        The number of answers at the last fit from scratch; -1 if there was none.
    exact : bool
        Whether the posterior is that of a fit from scratch.
    """

    def __init__(self) -> None:
        self.model: ItemModel | ManyItems | None = None
        self.told: dict[int, Comparison] = {}
        self.n_fitted, self.exact = -1, False
        self._features: list[tuple[float, ...]] = []  # of the items of the model
        self._order: list[Comparison] = []  # in which the model knows the answers
        self._left: tuple[Goal, int, int] | None = None  # the last estimate: when, and how many

    def standing(self, now: Snapshot, *, exactly: bool) -> Standing:
        """The posterior, how far the goal is, and what to ask next.

        A few new answers update the posterior at the present hyperparameters. Withdrawn and
        changed answers, new items, a fifth more answers, and `exactly` need a new fit.
        """
        model = self._updated(now, exactly=exactly)
        scores = model.scores()
        progress = now.goal.progress(scores)
        if progress.met and not self.exact:  # only a fit to all answers says so
            self._fit(model, now.comparisons)
            scores = model.scores()
            progress = now.goal.progress(scores)
        queue = choose_pairs(
            scores,
            now.n_ahead,
            slips=model.slips,
            weights=now.goal.weights(scores),
            skips=now.skips,
            taken=now.held,
            rng=np.random.default_rng(now.version),
        )
        progress = self._with_answers_left(progress, scores, model.slips)
        return Standing(now.version, scores, model.slips, progress, queue, self.exact)

    def reports(self, now: Snapshot) -> list[RaterReport]:
        """Reports on raters, as of the last standing, which was of the same snapshot."""
        assert self.model is not None
        return rater_reports(self.model.held_out(), [c.rater for c in self._order], now.raters)

    def _updated(self, now: Snapshot, *, exactly: bool) -> ItemModel | ManyItems:
        """The model of all answers."""
        model, comparisons = self.model, now.comparisons
        features = [item.features for item in now.items]
        if model is None or self._features != features:
            self.model = model = model_of(now.items)
            self.n_fitted, self._features = -1, features
        told = self.told if self.n_fitted >= 0 else {}
        removed = any(comparisons.get(number) != c for number, c in told.items())
        grown = len(comparisons) > _GROWTH * self.n_fitted + _FIRST
        self.exact = exactly and len(comparisons) == self.n_fitted and not removed
        if self.n_fitted < 0 or removed or grown or (exactly and not self.exact):
            self._fit(model, comparisons)
        else:
            new = [c for number, c in comparisons.items() if number not in told]
            if new:
                model.tell(new)
                self._order += new
            self.exact = self.exact or len(comparisons) == self.n_fitted
        self.told = comparisons
        return model

    def _fit(self, model: ItemModel | ManyItems, comparisons: dict[int, Comparison]) -> None:
        self._order = sorted(c.normalized() for c in comparisons.values())
        model.fit(self._order)
        self.n_fitted, self.exact = len(comparisons), True

    def _with_answers_left(self, progress: Progress, scores: Scores, slips: float) -> Progress:
        """With an estimate of the answers left, which is made now and then."""
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
