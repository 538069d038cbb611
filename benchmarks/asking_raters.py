"""Simulated raters, who compare by score with noise and slips, and are asked by a session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.stats import kendalltau

from benchmarks.asap import choose_batch
from rankwise.asking.goals import Goal
from rankwise.asking.item_model import Comparison, ItemModel
from rankwise.asking.pair_choice import choose_pairs

SLIPS = 0.05
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

    def answer(self, pairs: list[tuple[int, int]]) -> None:
        """Let the rater compare pairs, and learn from that as a session does."""
        new = []
        for i, j in pairs:
            first = self.scores[i] - self.scores[j] + self.rng.standard_normal() > 0
            first ^= self.rng.random() < SLIPS
            new.append(Comparison(i, j, "first" if first else "second", "rater"))
        self.done += new
        if len(self.done) > 1.2 * self.fitted + 5:
            self.model.fit(self.done)
            self.fitted = len(self.done)
        else:
            self.model.tell(new)

    def tau(self) -> float:
        """Kendall's correlation of the ranking with the truth."""
        return float(kendalltau(self.model.moments()[0], self.scores)[0] if self.done else 0.0)


def by_session(simulation: Simulation) -> list[tuple[int, int]]:
    """The pairs that a session asks."""
    mean, covariance = simulation.model.moments()
    return choose_pairs(
        mean,
        covariance,
        simulation.batch,
        slips=simulation.model.slips,
        weights=simulation.goal.weights(mean, covariance),
        rng=simulation.rng,
    )


def at_random(simulation: Simulation) -> list[tuple[int, int]]:
    """Any pairs."""
    n = len(simulation.scores)
    return [
        tuple(map(int, simulation.rng.choice(n, 2, replace=False)))
        for _ in range(max(10, simulation.batch))
    ]


def by_asap(simulation: Simulation) -> list[tuple[int, int]]:
    """The pairs of ASAP."""
    won = [(c.first, c.second) if c.outcome == "first" else (c.second, c.first)
           for c in simulation.done]  # fmt: skip
    return choose_batch(len(simulation.scores), won)


def tau_curve(simulation: Simulation, choose: Choose, most: int, steps: Any) -> Any:
    """Kendall's correlation after each number of answers in `steps`."""
    counts, taus = [0], [0.0]
    while counts[-1] < most:
        simulation.answer(choose(simulation))
        counts.append(len(simulation.done))
        taus.append(simulation.tau())
    return np.interp(steps, counts, taus)


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


def until_goal(simulation: Simulation, most: int) -> tuple[int, bool]:
    """Ask until the goal is thought to be reached: the number of answers, and whether it is."""
    while len(simulation.done) < most:
        simulation.answer(by_session(simulation))
        mean, covariance = simulation.model.moments()
        if simulation.goal.progress(mean, covariance).met:
            errors = simulation.goal.errors(mean, simulation.scores[None])
            return len(simulation.done), bool(errors[0] <= simulation.goal.tolerance + 1e-9)
    return most, False
