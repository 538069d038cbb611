"""When enough has been asked: goals in words, how far they are, how many answers are left."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import ndtr

from rankwise.backends.arrays import Array
from rankwise.parameters import Choice, Number, Whole, check_value
from rankwise.tables import plural

_DRAWS, _FEW_DRAWS, _MANY_ITEMS = 400, 100, 400
_FUTURES, _FEW_FUTURES, _FUTURE_DRAWS = 9, 5, 60  # simulated futures, and draws in each
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

    def weights(self, mean: Array, covariance: Array) -> Array | None:
        """How much each item matters to the choice of pairs; None if all do.

        For the whole order: the square of the number of items to which it is expected to stand in
        the wrong order. In trials, this reached the goal with fewer answers than the number itself,
        and with far fewer than equal weights. For the best items: the uncertainty (p (1 - p)) of
        whether an item is one of them.
        """
        if self.kind == "order":
            spread = np.diagonal(covariance)
            variance = np.maximum(spread[:, None] + spread - 2.0 * covariance, 1e-300)
            wrong = ndtr(-np.abs(mean[:, None] - mean) / np.sqrt(variance))
            return np.square((wrong.sum(axis=1) - np.diagonal(wrong)) / len(mean)) + 1e-9
        if self.k >= len(mean):
            return None
        p = top_probabilities(posterior_draws(mean, covariance, _DRAWS), self.k)
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

    def progress(self, mean: Array, covariance: Array) -> Progress:
        """How far the goal is."""
        n_draws = _DRAWS if len(mean) <= _MANY_ITEMS else _FEW_DRAWS
        errors = self.errors(mean, posterior_draws(mean, covariance, n_draws))
        sure = float(np.mean(errors <= self.tolerance + 1e-9))
        return Progress(
            self, float(errors.mean()), float(np.quantile(errors, self.sure)), sure, None
        )

    def answers_left(self, mean: Array, covariance: Array, slips: float) -> int:
        """About how many more answers will reach the goal, if pairs are chosen well.

        An answer about near equals has the information (1 - 2 slips)^2 2 / pi. Further answers,
        spread over the items that matter, add that to their precision. The ranking then follows
        the truth as far as the precision allows. Some futures with a number of answers are
        simulated; the number that reaches the goal in half of them is found by bisection. Where
        items are close to each other it takes far more.
        """
        n = len(mean)
        weights = self.weights(mean, covariance) if self.kind == "top" else None
        share = np.full(n, 1.0 / n) if weights is None else weights / weights.sum()
        information = 2.0 / np.pi * (1.0 - 2.0 * slips) ** 2
        rng = np.random.default_rng(0)
        z = rng.standard_normal((_FUTURES if n <= 100 else _FEW_FUTURES, n))

        def reached(answers: int) -> bool:
            added = np.sqrt(2.0 * answers * information * share)  # roots of precisions
            weighted = added[:, None] * covariance
            root = np.linalg.cholesky(np.eye(n) + weighted * added)
            learned = solve_triangular(root, weighted, lower=True, check_finite=False)
            gain = learned.T @ learned  # what the covariance loses
            after = covariance - gain
            values, vectors = np.linalg.eigh(gain)
            futures = mean + (z * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
            around = posterior_draws(np.zeros(n), after, _FUTURE_DRAWS)
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
    """

    goal: Goal
    expected_wrong: float
    at_most_wrong: float
    certainty: float
    answers_left: int | None

    @property
    def met(self) -> bool:
        """Whether enough has been asked."""
        return self.certainty >= self.goal.demanded

    def __str__(self) -> str:
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


def discordant(draws: Array) -> Array:
    """The share of pairs of columns i < j of each draw with a larger value at j."""
    n = draws.shape[1]
    if n < 2:
        return np.zeros(len(draws))
    columns = np.ascontiguousarray(draws.T)
    wrong = np.zeros(len(draws))
    for i in range(n - 1):
        wrong += (columns[i + 1 :] > columns[i]).sum(axis=0)
    return np.asarray(wrong / (n * (n - 1) / 2))


def posterior_draws(mean: Array, covariance: Array, n_draws: int) -> Array:
    """Scores from the posterior; the same random numbers every time."""
    rng = np.random.default_rng(n_draws)
    jitter = 1e-9 * float(np.trace(covariance)) / len(mean) + 1e-300
    try:
        root = np.linalg.cholesky(covariance + jitter * np.eye(len(mean)))
    except np.linalg.LinAlgError:  # rounding made it indefinite
        values, vectors = np.linalg.eigh(covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(mean + rng.standard_normal((n_draws, len(mean))) @ root.T)
