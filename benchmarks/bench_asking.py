"""rankwise.asking: answers that a good ranking takes, and whether it stops when it should."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.asking_raters import (
    Simulation,
    answers_to,
    by_asap,
    by_session,
    random_curve,
    tau_curve,
    until_goal,
)
from benchmarks.harness import Result
from rankwise.asking.goals import Goal

TAU = 0.9
SPREAD = 1.5  # standard deviation of scores, in units of the noise


CALIBRATED = (8, Goal(wrong=0.2)), (12, Goal("top", k=3, wrong=1))


def scores(n_items: int, seed: int) -> Any:
    return SPREAD * np.random.default_rng([seed, 1]).standard_normal(n_items)


def scores_with_features(n_items: int, seed: int, own_part: float) -> tuple[Any, Any]:
    """Scores that follow from five features, but for a part of their variance."""
    rng = np.random.default_rng([seed, 2])
    X = rng.standard_normal((n_items, 5))
    w = rng.standard_normal(5)
    smooth = X @ w / np.linalg.norm(w)
    own = rng.standard_normal(n_items)
    return SPREAD * (np.sqrt(1 - own_part) * smooth + np.sqrt(own_part) * own), X


def against_random(n_items: int = 100, n_runs: int = 3) -> list[Result]:
    """Questions to tau 0.9, beside pairs at random."""
    steps, sizes = np.arange(20, 2601, 20), np.arange(1500, 6001, 500)
    plain = [random_curve(Simulation(scores(n_items, s), s), sizes) for s in range(n_runs)]
    peer = answers_to(TAU, sizes, plain)
    out = []
    for own_part, limit in ((1.0, 0.6), (0.02, 0.3), (0.2, float("inf"))):
        curves = []
        for s in range(n_runs):
            f, X = scores_with_features(n_items, s, own_part)
            made = Simulation(f, s, features=None if own_part == 1.0 else X, batch=4)
            curves.append(tau_curve(made, by_session, 2600, steps))
        ours = answers_to(TAU, steps, curves)
        what = f" with features that explain {1 - own_part:.0%} of the scores" * (own_part < 1.0)
        claim = f"{n_items} items{what}: answers to Kendall's tau {TAU}, beside random pairs"
        out.append(Result(claim, f"{ours:.0f}", f"{peer:.0f}", ours / peer, limit))
    return out


def against_asap(n_items: int = 12, n_runs: int = 8) -> list[Result]:
    """Questions to tau 0.9, beside the pairs that ASAP chooses; the same model ranks."""
    steps = np.arange(5, 301, 5)
    runs = {}
    for choose in (by_session, by_asap):
        runs[choose] = [
            tau_curve(Simulation(scores(n_items, s), s), choose, 300, steps) for s in range(n_runs)
        ]
    ours, peer = (answers_to(TAU, steps, runs[choose]) for choose in (by_session, by_asap))
    claim = f"{n_items} items: answers to Kendall's tau {TAU}, beside ASAP's pairs"
    return [Result(claim, f"{ours:.0f}", f"{peer:.0f}", ours / peer, 1.0)]


def calibration(n_runs: int = 200, most: int = 3000) -> list[Result]:
    """How often the goal is not reached when a session says that enough has been asked."""
    out = []
    for n_items, goal in CALIBRATED:
        ends: list[tuple[int, bool]] = []
        seed = 0
        while len(ends) < n_runs:
            answers, met = until_goal(scores(n_items, seed), goal, seed, most)
            ends += [(answers, met)] if answers < most else []
            seed += 1
        share = 1.0 - float(np.mean([met for _, met in ends]))
        median = np.median([answers for answers, _ in ends])
        claim = f"{n_items} items, {goal}: share of {n_runs} ends (of {seed} runs) that were early"
        out.append(Result(claim, f"{share:.3f}", f"0.1 ({median:.0f} answers)", share / 0.1, 1.0))
    return out


def cases() -> list[Result]:
    return [*against_random(), *against_asap(), *calibration()]
