"""When enough has been asked: goals in words, how far they are, how many answers are left."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtr

from rankwise.asking.item_scores import MANY, Scores
from rankwise.backends.arrays import Array
from rankwise.errors import ParameterError
from rankwise.parameters import Choice, Number, Whole, check_value
from rankwise.tables import plural

_DRAWS, _FEW_DRAWS = 400, 100  # the second of many items
_FUTURES, _FUTURE_DRAWS = 9, 60  # possible futures, and draws in each
_FEW_FUTURES, _FEW_FUTURE_DRAWS = 3, 20  # of many items
_ROWS = 500  # whose pairs are looked at together
_MOST_LEFT = 200  # answers left for each item, at most
KINDS = ("order", "top")


@dataclass(frozen=True)
class Goal:
    """What a session is for, and how sure it must be.

    Parameters
    ----------
    kind : {"order", "top"}, default="order"
        The whole order, or the set of the best items.
    k : int, default=1
        How many are the best: 1 finds the best item.
    wrong : float, optional
        What may be wrong at the end. For "order" the share of pairs (default 0.05, or one pair of
        few items), for "top" the number of the best items that are not among the k best
        (default 0).
    sure : float, default=0.95
        The probability with which no more is wrong.

    Examples
    --------
    >>> from rankwise.asking import Goal
    >>> print(Goal())
    The whole order, with at most 5% of pairs wrong (95% sure)
    >>> print(Goal("top", k=10))
    The top 10 (95% sure)
    >>> print(Goal("top"))
    The best item (95% sure)
    """

    kind: str = "order"
    k: int = 1
    wrong: float | None = None
    sure: float = 0.95

    def __post_init__(self) -> None:
        check_value("kind", self.kind, Choice(*KINDS))
        check_value("k", self.k, Whole(1, 10**9))
        check_value("sure", self.sure, Number(0.5, 1, open_high=True))
        if self.wrong is not None:
            most: Any = Number(0, 0.5) if self.kind == "order" else Number(0, self.k - 1)
            check_value("wrong", self.wrong, most)

    @property
    def tolerance(self) -> float:
        """What may be wrong at the end."""
        if self.wrong is not None:
            return float(self.wrong)
        return 0.05 if self.kind == "order" else 0.0

    def for_items(self, n_items: int) -> Goal:
        """What the goal means for so many items.

        There are no more best items than items. If no share was given, one pair may be wrong.
        """
        if self.kind == "top":
            return self if self.k < n_items else replace(self, k=n_items, wrong=None)
        one_pair = min(0.5, 2.0 / (n_items * (n_items - 1)))
        return (
            replace(self, wrong=one_pair)
            if self.tolerance < one_pair and self.wrong is None
            else self
        )

    def check_items(self, n_items: int) -> None:
        """Raise an error if all items would be among the best."""
        if self.kind == "top" and self.k >= n_items:
            raise ParameterError(
                f"The top {self.k} of {n_items} items are all of them: k (--top) must be less than "
                "the number of items."
            )

    @property
    def demanded(self) -> float:
        """The certainty at which to stop.

        The posterior takes its hyperparameters as known, and is looked at after every answer. So
        half the probability of an error is left for what it does not know.
        """
        return 0.5 + self.sure / 2

    def __str__(self) -> str:
        sure = f"({100 * self.sure:g}% sure)"
        if self.kind == "order":
            return (
                f"The whole order, with at most {100 * self.tolerance:.3g}% of pairs wrong {sure}"
            )
        if self.k == 1:
            return f"The best item {sure}"
        but = f", but for {plural(int(self.tolerance), 'item')}" if self.tolerance else ""
        return f"The top {self.k}{but} {sure}"

    def weights(self, scores: Scores) -> Array | None:
        """How much each item matters to the choice of pairs; None if all do.

        For the whole order: the square of the number of items to which it is expected to stand in
        the wrong order. In trials, this reached the goal with fewer answers than the number itself,
        and with far fewer than equal weights. For the best items: the uncertainty (p (1 - p)) of
        whether an item is one of them.
        """
        if self.kind == "order":
            return np.square(expected_wrong(scores) / len(scores.mean)) + 1e-9
        if self.k >= len(scores.mean):
            return None
        p = top_probabilities(scores.draws(_DRAWS), self.k)
        return np.asarray(p * (1.0 - p) + 1e-4)

    def errors(self, mean: Array, draws: Array) -> Array:
        """What would be wrong with the ranking by `mean` if the scores were those of each draw."""
        order = np.argsort(-mean, kind="stable")
        if self.kind == "order":
            return discordant(draws[:, order])
        if self.k >= len(mean):
            return np.zeros(len(draws))
        ranks = np.argsort(np.argsort(-draws[:, order], axis=1), axis=1)
        return np.asarray((ranks[:, : self.k] >= self.k).sum(axis=1), dtype=np.float64)

    def progress(self, scores: Scores) -> Progress:
        """How far the goal is."""
        n_draws = _DRAWS if len(scores.mean) <= MANY else _FEW_DRAWS
        errors = self.errors(scores.mean, scores.draws(n_draws))
        sure = float(np.mean(errors <= self.tolerance + 1e-9))
        return Progress(
            self, float(errors.mean()), float(np.quantile(errors, self.sure)), sure, None
        )

    def unknown(self, n_items: int) -> Progress:
        """What is said before anything was computed."""
        wrong = 0.5 if self.kind == "order" else self.k * (1.0 - self.k / n_items)
        return Progress(self, wrong, wrong, 0.0, None, known=False)

    def answers_left(self, scores: Scores, slips: float) -> int:
        """About how many more answers will reach the goal, if pairs are chosen well.

        An answer about near equals has the information (1 - 2 slips)^2 2 / pi. Further answers,
        spread over the items that matter, add that to their precision. The ranking then follows
        the truth as far as the precision allows. In the eigenvectors of the covariance, this is
        one division for each. Some futures with a number of answers are drawn; the number that
        reaches the goal in half of them is found by bisection. Where items are close to each other
        it takes far more.
        """
        mean, n = scores.mean, len(scores.mean)
        weights = self.weights(scores) if self.kind == "top" else None
        share = np.full(n, 1.0 / n) if weights is None else weights / weights.sum()
        information = 2.0 / np.pi * (1.0 - 2.0 * slips) ** 2
        root = np.sqrt(share)
        values, vectors = scores.axes(root)
        few = n > MANY
        rng = np.random.default_rng(0)
        z = rng.standard_normal((_FEW_FUTURES if few else _FUTURES, n))
        z_around = rng.standard_normal((_FEW_FUTURE_DRAWS if few else _FUTURE_DRAWS, n))

        def along(axes: Array) -> Array:
            return np.asarray((axes if vectors is None else axes @ vectors.T) / root)

        def reached(answers: int) -> bool:
            after = values / (1.0 + 2.0 * answers * information * values)
            futures = mean + along(z * np.sqrt(values - after))
            around = along(z_around * np.sqrt(after))
            sure = [np.mean(self.errors(m, m + around) <= self.tolerance + 1e-9) for m in futures]
            return bool(np.median(sure) >= self.demanded)

        low, high = 0, max(4, n // 4)
        while not reached(high):
            low, high = high, 2 * high
            if high > _MOST_LEFT * n:
                return _MOST_LEFT * n
        while high - low > max(1, high // 12):
            middle = (low + high) // 2
            low, high = (low, middle) if reached(middle) else (middle, high)
        return high


@dataclass(frozen=True)
class Progress:
    """How far a goal is.

    Attributes
    ----------
    goal : Goal
    expected_wrong : float
        What is expected to be wrong with the present ranking: a share of pairs, or a number of
        items.
    at_most_wrong : float
        What is at most wrong, with the certainty of the goal.
    certainty : float
        The probability that no more is wrong than the goal allows.
    answers_left : int
        About how many more answers it takes; None if not known, 0 at the goal.
    known : bool
        Whether anything was computed yet.
    """

    goal: Goal
    expected_wrong: float
    at_most_wrong: float
    certainty: float
    answers_left: int | None
    known: bool = True

    @property
    def met(self) -> bool:
        """Whether enough has been asked."""
        return self.certainty >= self.goal.demanded

    def __str__(self) -> str:
        if not self.known:
            return "How far it is will be known soon."
        if self.goal.kind == "order":
            now = (
                f"{100 * (1 - self.expected_wrong):.0f}% of pairs are expected to be in the right "
                "order"
            )
        elif self.goal.k == 1:
            now = f"The first item is the best with {100 * self.certainty:.0f}%"
        else:
            now = (
                f"{self.goal.k - self.expected_wrong:.1f} of the first {self.goal.k} items are "
                "expected to belong there"
            )
        if self.met:
            return f"{now}. The goal is reached."
        if self.answers_left is None:
            return f"{now}."
        return f"{now}. {about(self.answers_left)}."


def about(n: int) -> str:
    """A number of answers that is not exact, in words."""
    if n < 10:
        return "A few more answers"
    step = 5 if n < 100 else 10 if n < 200 else 50 if n < 1000 else 500
    return f"About {step * round(n / step):,} more answers"


def top_probabilities(draws: Array, k: int) -> Array:
    """P(an item is among the k best), from draws of all scores."""
    best = np.argpartition(-draws, min(k, draws.shape[1]) - 1, axis=1)[:, :k]
    return np.bincount(best.ravel(), minlength=draws.shape[1]) / len(draws)


def expected_wrong(scores: Scores) -> Array:
    """The number of items to which each is expected to stand in the wrong order."""
    mean, spread = scores.mean, scores.spread()
    wrong = np.empty(len(mean))
    for start in range(0, len(mean), _ROWS):
        rows = slice(start, start + _ROWS)
        variance = spread[rows, None] + spread - 2.0 * scores.covariance_of(rows)
        distance = np.abs(mean[rows, None] - mean) / np.sqrt(np.maximum(variance, 1e-300))
        wrong[rows] = ndtr(-distance).sum(axis=1) - 0.5  # an item and itself
    return wrong


def discordant(draws: Array) -> Array:
    """The share of pairs of columns i < j of each draw with a larger value at j."""
    n = draws.shape[1]
    if n < 2:
        return np.zeros(len(draws))
    if n > MANY:
        from scipy.stats import kendalltau

        found = [kendalltau(np.arange(n), -draw, method="asymptotic")[0] for draw in draws]
        return np.asarray((1.0 - np.array(found)) / 2.0)
    columns = np.ascontiguousarray(draws.T)
    wrong = np.zeros(len(draws))
    for i in range(n - 1):
        wrong += (columns[i + 1 :] > columns[i]).sum(axis=0)
    return np.asarray(wrong / (n * (n - 1) / 2))
