"""Simulated raters, who compare by score with noise and slips, and are asked by a session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.stats import kendalltau

from benchmarks.asap import choose_batch
from rankwise.asking.goals import Goal, choose_pairs
from rankwise.asking.item_model import Comparison, ItemModel
from rankwise.asking.session import Session

SLIPS = 0.05
ENOUGH = 0.92  # a correlation above all that is asked for
Choose = Callable[["Simulation"], list[tuple[int, int]]]


@dataclass
class Simulation:
    """A session without its pages: the model, the choice of pairs, and a rater."""

    scores: Any
    seed: int
    features: Any = None
    goal: Goal = field(default_factory=Goal)
    batch: int = 1
    done: list[Comparison] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.model = ItemModel(len(self.scores), self.features).fit([])
        self.fitted = 0

    def compare(self, i: int, j: int) -> Comparison:
        """What the rater says about two items."""
        return Comparison(i, j, _outcome(self.scores[i] - self.scores[j], self.rng), "rater")

    def answer(self, pairs: list[tuple[int, int]]) -> None:
        """Let the rater compare pairs, and learn from that as a session does."""
        new = [self.compare(i, j) for i, j in pairs]
        self.done += new
        if len(self.done) > 1.2 * self.fitted + 5:
            self.model.fit(self.done)
            self.fitted = len(self.done)
        else:
            self.model.tell(new)

    def tau(self) -> float:
        """Kendall's correlation of the ranking with the truth."""
        return float(kendalltau(self.model.scores().mean, self.scores)[0] if self.done else 0.0)


def by_session(simulation: Simulation) -> list[tuple[int, int]]:
    """The pairs that a session asks."""
    scores = simulation.model.scores()
    return choose_pairs(
        scores,
        simulation.batch,
        slips=simulation.model.slips,
        weights=simulation.goal.weights(scores),
        rng=simulation.rng,
    )


def by_asap(simulation: Simulation) -> list[tuple[int, int]]:
    """The pairs of ASAP."""
    won = [(c.first, c.second) if c.outcome == "first" else (c.second, c.first)
           for c in simulation.done]  # fmt: skip
    return choose_batch(len(simulation.scores), won)


def tau_curve(simulation: Simulation, choose: Choose, most: int, steps: Any) -> Any:
    """Kendall's correlation after each number of answers in `steps`.

    It ends where the last ten values are well above what is asked for; later ones are not far off.
    """
    counts, taus = [0], [0.0]
    while counts[-1] < most and np.mean(taus[-10:]) < ENOUGH:
        simulation.answer(choose(simulation))
        counts.append(len(simulation.done))
        taus.append(simulation.tau())
    return np.interp(steps, counts, taus)


def random_curve(simulation: Simulation, steps: Any) -> Any:
    """The same for random pairs, which need no model to choose them: a fit for each step."""
    n, taus = len(simulation.scores), []
    for step in steps:
        if np.mean([0.0, *taus][-2:]) < ENOUGH:
            while len(simulation.done) < step:
                i, j = map(int, simulation.rng.choice(n, 2, replace=False))
                simulation.done.append(simulation.compare(i, j))
            simulation.model.fit(simulation.done)
        taus.append(simulation.tau())
    return np.array(taus)


def answers_to(tau: float, steps: Any, curves: Any) -> float:
    """After how many answers the mean curve reaches a value; infinite if it does not."""
    mean = np.mean(curves, axis=0)
    above = mean >= tau
    if not above.any():
        return float("inf")
    k = int(np.argmax(above))
    if k == 0:
        return float(steps[0])
    share = (tau - mean[k - 1]) / (mean[k] - mean[k - 1])
    return float(steps[k - 1] + share * (steps[k] - steps[k - 1]))


def until_goal(scores: Any, goal: Goal, seed: int, most: int) -> tuple[int, bool]:
    """Let a session ask until it says that enough has been asked.

    Returns the number of answers, and whether the goal is reached.
    """
    rng = np.random.default_rng(seed)
    session = Session(map(str, range(len(scores))), goal=goal)
    while not session.progress().met and session.n_answers() < most:
        question = session.ask()
        assert question is not None
        gap = scores[int(question.first.id)] - scores[int(question.second.id)]
        session.answer(question.token, _outcome(gap, rng))
    order = session.ranking().number
    mean = np.empty(len(scores))
    mean[order] = -np.arange(len(scores))
    errors = goal.errors(mean, scores[None])
    return session.n_answers(), bool(errors[0] <= goal.tolerance + 1e-9)


def _outcome(gap: float, rng: np.random.Generator) -> str:
    """What a rater says about two items whose scores differ by `gap`."""
    first = (gap + rng.standard_normal() > 0) ^ (rng.random() < SLIPS)
    return "first" if first else "second"
