"""The posterior of the scores, brought up to date as answers come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rankwise.asking.goals import Goal, Progress
from rankwise.asking.item_model import Comparison, ItemModel
from rankwise.asking.items import Item
from rankwise.asking.next_pair import Pair
from rankwise.backends.arrays import Array

_GROWTH, _FIRST = 1.2, 5  # a new fit after so many more answers
_LEFT_EVERY = 8  # answers after which those that are left are estimated again


@dataclass(frozen=True, eq=False)
class Standing:
    """What was computed from the answers, as of an entry."""

    version: int
    n_answers: int
    mean: Array
    covariance: Array
    slips: float
    progress: Progress
    queue: list[Pair]


class RunningFit:
    """A model of the items, and the answers that it knows.

    Attributes
    ----------
    model : ItemModel or None
    told : dict
        The answers that the model knows, by the numbers of their entries.
    n_fitted : int
        The number of answers at the last fit from scratch; -1 if there was none.
    exact : bool
        Whether the posterior is that of a fit from scratch.
    """

    def __init__(self) -> None:
        self.model: ItemModel | None = None
        self.told: dict[int, Comparison] = {}
        self.n_fitted, self.exact = -1, False
        self._left_at, self._left_there = 0, 0  # when answers left were estimated last

    def update(
        self,
        items: Sequence[Item],
        comparisons: dict[int, Comparison],
        goal: Goal,
        *,
        exactly: bool,
    ) -> tuple[ItemModel, Array, Array, Progress]:
        """The model of all answers, mean and covariance of its scores, and how far the goal is.

        A few new answers update the posterior at the present hyperparameters. Withdrawn and
        changed answers, new items, a fifth more answers, and `exactly` need a new fit.
        """
        model = self.model
        if model is None or model.n_items != len(items):
            model, self.n_fitted = ItemModel.of(items), -1
        told = self.told if self.n_fitted >= 0 else {}
        removed = any(comparisons.get(number) != c for number, c in told.items())
        grown = len(comparisons) > _GROWTH * self.n_fitted + _FIRST
        self.exact = exactly and len(comparisons) == self.n_fitted and not removed
        if self.n_fitted < 0 or removed or grown or (exactly and not self.exact):
            self._fit(model, comparisons)
        else:
            model.tell([c for number, c in comparisons.items() if number not in told])
            self.exact = self.exact or len(comparisons) == self.n_fitted
        mean, covariance = model.moments()
        progress = goal.progress(mean, covariance)
        if progress.met and not self.exact:  # only a fit to all answers says so
            self._fit(model, comparisons)
            mean, covariance = model.moments()
            progress = goal.progress(mean, covariance)
        self.model, self.told = model, comparisons
        return model, mean, covariance, progress

    def _fit(self, model: ItemModel, comparisons: dict[int, Comparison]) -> None:
        model.fit(list(comparisons.values()))
        self.n_fitted, self.exact = len(comparisons), True

    def with_answers_left(
        self, progress: Progress, before: Standing | None, mean: Array, covariance: Array
    ) -> Progress:
        """With an estimate of the answers left, which is made now and then."""
        n = len(self.told)
        if progress.met:
            return replace(progress, answers_left=0)
        known = None if before is None else before.progress
        if known is not None and known.goal == progress.goal:
            passed = n - self._left_at
            if known.answers_left and 0 <= passed < max(_LEFT_EVERY, n // 20):
                return replace(progress, answers_left=max(1, self._left_there - passed))
        assert self.model is not None
        left = progress.goal.answers_left(mean, covariance, self.model.slips)
        self._left_at, self._left_there = n, left
        return replace(progress, answers_left=left)
