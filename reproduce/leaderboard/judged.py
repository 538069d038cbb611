"""Battles before judges who differ: ten designs, with the true probabilities of each battle."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rankwise import Leaderboard
from rankwise.data import Battles

WORDS = np.array(["first", "second", "tie"])


@dataclass(frozen=True)
class Design:
    """How judges differ: standard deviations of their effects, and who else is among them.

    `ties` is the mean of the logarithm of Davidson's parameter, None without ties. A share
    `adversaries` of the judges has the slope -1, and a share `careless` answers at random in 70% of
    the battles. Judges have equal numbers of battles, or `unequal` ones.
    """

    slope: float = 0.0
    rate: float = 0.0
    place: float = 0.0
    slips: float = 0.0
    adversaries: float = 0.0
    careless: float = 0.0
    ties: float | None = 0.0
    n_judges: int = 40
    unequal: bool = False
    common_place: float = 0.0


DESIGNS = {
    "equal judges": Design(),
    "slopes": Design(slope=0.6),
    "tie rates": Design(rate=1.0),
    "places": Design(place=0.6),
    "slips": Design(slips=0.1, careless=0.2),
    "adversaries, 10%": Design(adversaries=0.1),
    "5 votes each": Design(slope=0.5, rate=0.8, n_judges=600),
    "everything": Design(
        slope=0.6, rate=1.0, place=0.5, slips=0.05, adversaries=0.1, careless=0.1
    ),
    "3 judges": Design(slope=0.4, rate=0.6, place=0.4, n_judges=3),
    "no ties, unequal numbers of votes": Design(
        slope=0.7, place=0.6, ties=None, unequal=True, common_place=0.3
    ),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Judged:
    """Battles, the true probabilities of their outcomes, and the truth about items and judges."""

    battles: Battles
    p: np.ndarray
    ratings: np.ndarray
    slope: np.ndarray
    rate: np.ndarray
    place: np.ndarray


def make_judged(
    design: Design, n_items: int, n_battles: int, seed: int, spread: float = 1.0
) -> Judged:
    """Battles of random pairs before random judges."""
    rng = np.random.default_rng(seed)
    n = design.n_judges
    ratings = spread * rng.standard_normal(n_items)
    slope = 1.0 + design.slope * rng.standard_normal(n)
    rate, place = (width * rng.standard_normal(n) for width in (design.rate, design.place))
    odd = rng.permutation(n)
    bad, lazy = round(design.adversaries * n), round(design.careless * n)
    slope[odd[:bad]] = -1.0
    share = np.full(n, design.slips)
    share[odd[bad : bad + lazy]] = 0.7
    first = rng.integers(0, n_items, n_battles)
    second = (first + rng.integers(1, n_items, n_battles)) % n_items
    often = 1.0 / np.arange(1, n + 1) if design.unequal else np.ones(n)
    judge = rng.choice(n, n_battles, p=often / often.sum())
    eta = slope[judge] * (ratings[first] - ratings[second]) + place[judge] + design.common_place
    ties = np.zeros(n_battles)
    if design.ties is not None:
        ties = np.exp(design.ties + rate[judge])
    p = np.column_stack((np.exp(eta / 2), np.exp(-eta / 2), ties))
    p /= p.sum(axis=1, keepdims=True)
    kinds = 2 if design.ties is None else 3
    p[:, :kinds] = (1 - share[judge])[:, None] * p[:, :kinds] + share[judge][:, None] / kinds
    outcome = (rng.random(n_battles)[:, None] > np.cumsum(p, axis=1)[:, :2]).sum(axis=1)
    battles = Battles.of(first, second, WORDS[outcome], items=np.arange(n_items), judge=judge)
    return Judged(battles, p, ratings, slope, rate, place)


def log_loss(p: np.ndarray, outcome: np.ndarray) -> np.ndarray:
    """Of each battle."""
    return -np.log(np.maximum(p[np.arange(len(p)), outcome], 1e-12))


def losses(
    design: Design, seed: int, n_items: int = 20, n_battles: int = 3000
) -> dict[str, np.ndarray]:
    """The log-loss of each of as many later battles: without judges, with them, by the truth."""
    made = make_judged(design, n_items, 2 * n_battles, seed)
    train, test = (made.battles.take(slice(k, k + n_battles)) for k in (0, n_battles))
    first, second = test.items[test.pairs].T
    plain = Leaderboard(n_draws=100).fit(replace(train, judge=None))
    judged = Leaderboard(n_draws=100).fit(train)
    return {
        "no judges": log_loss(plain.predict_proba(first, second), test.outcome),
        "judges": log_loss(judged.predict_proba(first, second, judge=test.judge), test.outcome),
        "judges, averaged": log_loss(judged.predict_proba(first, second), test.outcome),
        "truth": log_loss(made.p[n_battles:], test.outcome),
    }


def item_tie_losses(seed: int, width: float, n_items: int = 15) -> list[float]:
    """Items with different tie rates: the log-loss of later battles, and coverage.

    With one tie parameter, with one by item, and by the truth; coverage of the effects of items, or
    NaN if they are not kept, and whether they are.
    """
    rng, n = np.random.default_rng(seed), 6000
    ratings, ties = rng.standard_normal(n_items), width * rng.standard_normal(n_items)
    first = rng.integers(0, n_items, n)
    second = (first + rng.integers(1, n_items, n)) % n_items
    eta, tau = ratings[first] - ratings[second], ties[first] + ties[second] - 0.3
    p = np.column_stack((np.exp(eta / 2), np.exp(-eta / 2), np.exp(tau)))
    p /= p.sum(axis=1, keepdims=True)
    outcome = (rng.random(n)[:, None] > np.cumsum(p, axis=1)[:, :2]).sum(axis=1)
    train, test = slice(0, n // 2), slice(n // 2, n)
    boards = [
        Leaderboard(n_draws=100, ties=kind).fit(first[train], second[train], WORDS[outcome[train]])
        for kind in ("model", "by item")
    ]
    found = [log_loss(b.predict_proba(first[test], second[test]), outcome[test]) for b in boards]
    found.append(log_loss(p[test], outcome[test]))
    board, truth, held = boards[1], ties - ties.mean(), np.nan
    if board.item_ties_ is not None:
        truth, half = truth[board.items_.astype(int)], 1.96 * board.item_ties_std_
        held = covered(truth, board.item_ties_ - half, board.item_ties_ + half)
    return [*(float(each.mean()) for each in found), held, float(held == held)]


def judge_coverage(design: Design, seed: int, n_battles: int = 6000) -> list[float]:
    """Shares of 95% intervals that hold the truth: ratings, slopes, tie parameters, places.

    Slopes are relative to their mean, which is the scale of the ratings.
    """
    made = make_judged(design, 12, n_battles, seed)
    board = Leaderboard(n_draws=100).fit(made.battles)
    table = board.judges()
    scale = made.slope.mean()
    ratings = scale * (made.ratings - made.ratings.mean())
    found = [covered(ratings, *board.interval())]
    for name, truth in (
        ("slope", made.slope / scale), ("ties", np.exp(design.ties + made.rate)),
        ("first place", made.place + design.common_place),
    ):  # fmt: skip
        truth = truth[table["judge"]]  # judges with remarks come first
        found.append(covered(truth, table[f"{name}, low"], table[f"{name}, high"]))
    return found


def covered(truth: np.ndarray, low: np.ndarray, high: np.ndarray) -> float:
    return float(((low <= truth) & (truth <= high)).mean())


def corrected(
    seed: int, n_human: int = 300, n_battles: int = 4000, n_items: int = 8
) -> dict[str, list[float]]:
    """Votes of a model that favours some items, and few human votes.

    For ratings by both together, by human votes and by the model: coverage of 95% intervals, their
    mean width, and the root mean squared error.
    """
    rng = np.random.default_rng(seed)
    ratings = 0.8 * rng.standard_normal(n_items)
    ratings -= ratings.mean()
    seen = ratings + 0.8 * rng.standard_normal(n_items)  # by the model
    first = rng.integers(0, n_items, n_battles)
    second = (first + rng.integers(1, n_items, n_battles)) % n_items
    u = rng.random(n_battles)  # quantiles of the votes, mostly the same for both
    v = np.where(rng.random(n_battles) < 0.8, u, rng.random(n_battles))
    human, model = (WORDS[_votes(r[first] - r[second], q)] for r, q in ((ratings, u), (seen, v)))
    gold = np.where(np.arange(n_battles) < n_human, human, "")
    items, few = np.arange(n_items), slice(0, n_human)
    boards = {
        "both": Leaderboard(n_draws=100).fit(first, second, model, gold=gold, items=items),
        "human votes": Leaderboard(n_draws=100).fit(
            first[few], second[few], human[few], items=items
        ),
        "votes of the model": Leaderboard(n_draws=100).fit(first, second, model, items=items),
    }
    found = {}
    for name, board in boards.items():
        low, high = board.interval()
        error = float(np.sqrt(np.square(board.ratings_ - ratings).mean()))
        found[name] = [covered(ratings, low, high), float((high - low).mean()), error]
    return found


def _votes(eta: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Outcomes by their quantiles, from "first" over "tie" to "second"."""
    p = np.column_stack((np.exp(eta / 2), np.full(len(eta), 0.5), np.exp(-eta / 2)))
    ends = np.cumsum(p / p.sum(axis=1, keepdims=True), axis=1)
    return np.array([0, 2, 1])[(u[:, None] > ends[:, :2]).sum(axis=1)]
