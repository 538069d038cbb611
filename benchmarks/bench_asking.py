"""rankwise.asking: answers that a good ranking takes, and whether it stops when it should."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.asking_raters import (
    Simulation,
    answers_to,
    at_random,
    by_asap,
    by_session,
    tau_curve,
    until_goal,
)
from benchmarks.harness import Result
from rankwise.asking.goals import Goal

TAU = 0.9
SPREAD = 1.5  # standard deviation of scores, in units of the noise


def scores(n_items: int, seed: int) -> Any:
    return SPREAD * np.random.default_rng([seed, 1]).standard_normal(n_items)


def scores_with_features(n_items: int, seed: int) -> tuple[Any, Any]:
    """Scores that follow from five features, but for a fiftieth of their variance."""
    rng = np.random.default_rng([seed, 2])
    X = rng.standard_normal((n_items, 5))
    w = rng.standard_normal(5)
    smooth = X @ w / np.linalg.norm(w)
    own = rng.standard_normal(n_items)
    return SPREAD * (np.sqrt(0.98) * smooth + np.sqrt(0.02) * own), X


def against_random(n_items: int = 100, n_runs: int = 5) -> list[Result]:
    """Questions to tau 0.9, beside pairs at random."""
    steps = np.arange(20, 6001, 20)
    random = [
        tau_curve(Simulation(scores(n_items, s), s, batch=20), at_random, 6000, steps)
        for s in range(n_runs)
    ]
    active = [
        tau_curve(Simulation(scores(n_items, s), s, batch=4), by_session, 2600, steps[:130])
        for s in range(n_runs)
    ]
    featured = []
    for s in range(n_runs):
        f, X = scores_with_features(n_items, s)
        made = Simulation(f, s, features=X, batch=4)
        featured.append(tau_curve(made, by_session, 1400, steps[:70]))
    peer = answers_to(TAU, steps, random)
    out = []
    for what, curves, limit in (("", active, 0.6), (" with features", featured, 0.3)):
        ours = answers_to(TAU, steps[: len(curves[0])], curves)
        claim = f"{n_items} items{what}: answers to Kendall's tau {TAU}, beside random pairs"
        out.append(Result(claim, f"{ours:.0f}", f"{peer:.0f}", ours / peer, limit))
    return out


def against_asap(n_items: int = 12, n_runs: int = 12) -> list[Result]:
    """Questions to tau 0.9, beside the pairs that ASAP chooses; the same model ranks."""
    steps = np.arange(5, 401, 5)
    runs = {}
    for choose in (by_session, by_asap):
        runs[choose] = [
            tau_curve(Simulation(scores(n_items, s), s), choose, 400, steps) for s in range(n_runs)
        ]
    ours, peer = (answers_to(TAU, steps, runs[choose]) for choose in (by_session, by_asap))
    claim = f"{n_items} items: answers to Kendall's tau {TAU}, beside ASAP's pairs"
    return [Result(claim, f"{ours:.0f}", f"{peer:.0f}", ours / peer, 1.0)]


def calibration(n_items: int = 12, n_runs: int = 100) -> list[Result]:
    """How often the goal is truly reached when a session says so."""
    out = []
    for goal in (Goal(wrong=0.1), Goal("top", k=3, wrong=1)):
        ends = [
            until_goal(Simulation(scores(n_items, s), s, goal=goal, batch=3), 3000)
            for s in range(n_runs)
        ]
        stopped = [met for n, met in ends if n < 3000]
        share = 1.0 - float(np.mean(stopped))
        answers = np.median([n for n, _ in ends])
        claim = f"{n_items} items, {goal}: share of {len(stopped)} ends that came too early"
        out.append(Result(claim, f"{share:.3f}", f"0.1 ({answers:.0f} answers)", share / 0.1, 1.0))
    return out


def cases() -> list[Result]:
    return [*against_random(), *against_asap(), *calibration()]
