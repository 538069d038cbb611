"""Goals: when enough has been asked, how many answers are left, and which pairs to ask next."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr

from rankwise.asking.item_model import MANY, Scores
from rankwise.backends.arrays import Array, Index
from rankwise.errors import ParameterError
from rankwise.parameters import Choice, Number, Whole, check_value
from rankwise.tables import plural

if TYPE_CHECKING:
    from rankwise.estimators.pair_strategies import PairStrategy

_DRAWS, _FEW_DRAWS = 400, 100  # the second of many items
_FUTURES, _FUTURE_DRAWS = 9, 60  # possible futures, and draws in each
_MOST_FUTURES, _FUTURE_SCORES = 60, 420  # more futures of few items: with 9, estimates jump
_FEW_FUTURES, _FEW_FUTURE_DRAWS = 3, 20  # of many items
_ROWS = 500  # whose pairs are looked at together
_MOST_LEFT = 200  # answers left for each item, at most
KINDS = ("order", "top")
_NEIGHBOURS = 40  # of many items, only pairs that are close in the ranking are candidates
_ROUNDS = 8  # in which the worth of all pairs is computed
_SKIPPED = 0.25  # how a skip lowers the worth of a pair
Pair = tuple[int, int]


@dataclass(frozen=True)
class Goal:
    """What a session should find out, and with which certainty.

    Parameters
    ----------
    kind : {"order", "top"}, default="order"
        The whole order, or the set of the best items.
    k : int, default=1
        Number of best items; 1 finds the best item.
    wrong : float, optional
        What may be wrong at the end. For "order", the share of pairs (default 0.05, or one pair if
        there are few items); for "top", the number of the k items that are not among the best
        (default 0).
    sure : float, default=0.95
        The probability that no more is wrong.

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
        """The goal for this many items.

        `k` is at most the number of items. If no share was given, one pair may be wrong.
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
                f"The top {self.k} of {n_items} items are all of them: k must be less than "
                "the number of items."
            )

    @property
    def demanded(self) -> float:
        """The certainty at which to stop.

        The posterior treats its hyperparameters as known, and is checked after every answer. Half
        the probability of an error is therefore reserved for these two.
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
        """How much each item matters to the choice of pairs; None: all matter the same.

        For the whole order: the square of the expected number of items that it is in the wrong
        order with. In trials, this reached the goal with fewer answers than the number itself, and
        with far fewer than equal weights. For the best items: the uncertainty (p (1 - p)) of
        whether an item is one of them.
        """
        if self.kind == "order":
            return np.square(expected_wrong(scores) / len(scores.mean)) + 1e-9
        if self.k >= len(scores.mean):
            return None
        p = top_probabilities(scores.draws(_DRAWS), self.k)
        return np.asarray(p * (1.0 - p) + 1e-4)

    def errors(self, mean: Array, draws: Array) -> Array:
        """What would be wrong with the ranking by `mean` if each draw were the true scores.

        `mean` is one ranking, or has a row for each draw.
        """
        order = np.argsort(-mean, axis=-1, kind="stable")
        sorted_draws = np.take_along_axis(draws, np.broadcast_to(order, draws.shape), axis=1)
        if self.kind == "order":
            return discordant(sorted_draws)
        if self.k >= draws.shape[1]:
            return np.zeros(len(draws))
        ranks = np.argsort(np.argsort(-sorted_draws, axis=1), axis=1)
        return np.asarray((ranks[:, : self.k] >= self.k).sum(axis=1), dtype=np.float64)

    def progress(self, scores: Scores) -> Progress:
        """Progress towards the goal."""
        n_draws = _DRAWS if len(scores.mean) <= MANY else _FEW_DRAWS
        errors = self.errors(scores.mean, scores.draws(n_draws))
        sure = float(np.mean(errors <= self.tolerance + 1e-9))
        return Progress(
            self, float(errors.mean()), float(np.quantile(errors, self.sure)), sure, None
        )

    def unknown(self, n_items: int) -> Progress:
        """The progress before anything was computed."""
        wrong = 0.5 if self.kind == "order" else self.k * (1.0 - self.k / n_items)
        return Progress(self, wrong, wrong, 0.0, None, known=False)

    def answers_left(self, scores: Scores, slips: float) -> int:
        """About how many more answers will reach the goal, if pairs are chosen well.

        An answer about nearly equal items has the information (1 - 2 slips)^2 2 / pi. Further
        answers, spread over the items that matter, add that to their precision. The ranking then
        follows the truth as far as the precision allows. In the eigenvectors of the covariance,
        this is one division for each. Some futures with a number of answers are drawn; bisection
        finds the number that reaches the goal in half of them. It is far larger if items are close
        to each other.
        """
        mean, n = scores.mean, len(scores.mean)
        weights = self.weights(scores) if self.kind == "top" else None
        share = np.full(n, 1.0 / n) if weights is None else weights / weights.sum()
        information = 2.0 / np.pi * (1.0 - 2.0 * slips) ** 2
        root = np.sqrt(share)
        values, vectors = scores.axes(root)
        rng = np.random.default_rng(0)
        n_futures, n_draws = _FEW_FUTURES, _FEW_FUTURE_DRAWS
        if n <= MANY:
            n_futures = max(_FUTURES, min(_MOST_FUTURES, _FUTURE_SCORES // n))
            n_draws = max(_FUTURE_DRAWS, 2 * n_futures)
        shared = 1 if n_futures > _FUTURES else n_futures  # futures with the same draws around them
        z = rng.standard_normal((n_futures, n))
        z_around = rng.standard_normal((n_futures // shared * n_draws, n))

        def along(axes: Array) -> Array:
            return np.asarray((axes if vectors is None else axes @ vectors.T) / root)

        def reached(answers: int) -> bool:
            after = values / (1.0 + 2.0 * answers * information * values)
            futures = mean + along(z * np.sqrt(values - after))
            around = along(z_around * np.sqrt(after))
            means = np.repeat(futures, n_draws, axis=0)
            right = self.errors(means, means + np.tile(around, (shared, 1)))
            sure = np.mean(right.reshape(n_futures, n_draws) <= self.tolerance + 1e-9, axis=1)
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
    """How far a session is from its goal.

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
        About how many more answers are needed; None if not known, 0 at the goal.
    known : bool
        Whether anything was computed yet.

    Examples
    --------
    >>> from rankwise.asking import Session
    >>> progress = Session(["tea", "milk"]).progress()
    >>> progress.met, progress.goal.kind
    (False, 'order')
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
            return "The progress is known as soon as a first ranking is computed."
        if self.goal.kind == "order":
            now = (
                f"{100 * (1 - self.expected_wrong):.0f}% of pairs are expected to be in the right "
                "order"
            )
        elif self.goal.k == 1:
            now = f"The first item is the best with probability {100 * self.certainty:.0f}%"
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
    """The expected number of items that each item is in the wrong order with."""
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
    from rankwise.metrics import disagreement_error

    n_draws, n = draws.shape
    if n < 2:
        return np.zeros(n_draws)
    order, draw = np.tile(np.arange(n)[::-1], n_draws), np.repeat(np.arange(n_draws), n)
    return np.asarray(disagreement_error(order, draws.ravel(), draw, per_query=True).values)


def pair(i: int, j: int) -> Pair:
    """A pair of items in either order."""
    return (i, j) if i < j else (j, i)


def choose_pairs(
    scores: Scores,
    n_pairs: int,
    *,
    slips: float,
    weights: Array | None = None,
    skips: dict[Pair, int] | None = None,
    taken: Iterable[Pair] = (),
    strategy: str | PairStrategy = "goal",
    rng: np.random.Generator,
) -> list[Pair]:
    """The most useful pairs, the best first.

    The worth of a pair is the expected information of its answer about the scores (`bald`), times
    the weights of its two items, times 1/4 for each time that it was skipped. After each choice the
    covariance shrinks as it will after any answer. It also shrinks for `taken`, the pairs that
    others are looking at, which are not chosen. Among many pairs, a few are chosen at a time,
    without an item in common; among many items, all at once.

    Parameters
    ----------
    scores : Scores
    n_pairs : int
    slips : float
        The share of answers that are slips.
    weights : ndarray of shape (n_items,), optional
        How much each item matters to the goal.
    skips : dict, optional
        How often pairs were skipped.
    taken : iterable of pairs, optional
    strategy : "goal", or a strategy of `PairwiseGP.suggest_pair`
        Strategies other than "goal" ignore weights, and a pair that was skipped is a candidate with
        probability 1/4. If there are many items, the candidates are all pairs of `MANY` items: half
        of them the best, the others at random.
    rng : Generator
        Breaks ties.

    Returns
    -------
    list of pairs
        Fewer than `n_pairs` if there are no more.
    """
    from rankwise.estimators.pair_strategies import bald, suggest_pairs

    mean, n, taken = scores.mean, len(scores.mean), list(taken)
    pairs = _candidates(mean, rng, close=strategy == "goal")
    i, j = pairs.T
    keys, worth = i * n + j, np.ones(len(pairs))
    for (a, b), times in (skips or {}).items():
        worth[keys == a * n + b] *= _SKIPPED**times
    left = ~np.isin(keys, [a * n + b for a, b in taken])
    for held in taken:
        scores = scores.compared(*held)
    if strategy != "goal":

        def moments(rows: Index) -> tuple[Array, Array]:
            return mean[rows], scores.covariance_of(rows)[:, rows]

        def sample(rows: Index, count: int) -> Array:
            return rng.multivariate_normal(*moments(rows), count, method="eigh")

        pairs = pairs[left & (rng.random(len(pairs)) < worth)]
        most = min(n_pairs, len(pairs))
        if not most:
            return []
        given: Any = {"moments": moments, "sample": sample, "noise": 1.0, "flips": slips}
        return [pair(*p) for p in suggest_pairs(strategy, most, n, pairs, rng, **given).tolist()]
    worth *= 1.0 + 1e-6 * rng.random(len(pairs))
    if weights is not None:
        worth *= weights[i] + weights[j]
    chosen: list[Pair] = []
    at_once = n_pairs if n > MANY else 1 + n_pairs // _ROUNDS
    while len(chosen) < n_pairs and left.any():
        information = bald(mean[i] - mean[j], scores.variance(i, j), 1.0, slips)
        value = np.where(left, (information + 1e-12) * worth, -1.0)
        for _ in range(min(at_once, n_pairs - len(chosen))):
            best = int(np.argmax(value))
            if value[best] < 0.0:
                break
            left[best] = False
            a, b = int(i[best]), int(j[best])
            chosen.append((a, b))
            scores = scores.compared(a, b)
            value[(i == a) | (j == a) | (i == b) | (j == b)] = -1.0
    return chosen


def _candidates(mean: Array, rng: np.random.Generator, *, close: bool) -> Index:
    """All pairs, or some pairs of many items, the smaller number first.

    These are the pairs that are `close` in the ranking, or else all pairs of some items.
    """
    n = len(mean)
    if n <= MANY:
        return np.column_stack(np.triu_indices(n, 1))
    order = np.lexsort((rng.random(n), -mean))
    if close:
        steps = [np.column_stack((order[:-k], order[k:])) for k in range(1, _NEIGHBOURS + 1)]
        return np.sort(np.concatenate(steps), axis=1)
    half = MANY // 2
    rows = np.sort(np.append(order[:half], rng.choice(order[half:], half, replace=False)))
    return rows[np.column_stack(np.triu_indices(MANY, 1))]


def close_pair(mean: Array, excluded: Collection[Pair], rng: np.random.Generator) -> Pair | None:
    """A random pair among the closest in the ranking, used if no pair was chosen ahead.

    None if all pairs are excluded.
    """
    order = np.lexsort((rng.random(len(mean)), -mean))
    for gap in range(1, len(mean)):
        for start in rng.permutation(len(mean) - gap):
            found = pair(int(order[start]), int(order[start + gap]))
            if found not in excluded:
                return found
    return None
