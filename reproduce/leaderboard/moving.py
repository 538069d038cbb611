"""Coverage of intervals from rankings, and of ratings that drift or differ by category."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable

import numpy as np

from rankwise import Leaderboard
from rankwise.data import Rankings
from rankwise.report import Column, Table
from reproduce.leaderboard.judged import WORDS, covered

RUNS, QUICK = 200, 10
ITEMS, RACES, SIZE = 12, 60, 8
PERIODS, PER_PERIOD = 24, 100
OTHER = {  # items, periods, battles of a period, step; with ties
    "8 items, 36 periods of 50": (8, 36, 50, 0.2),
    "20 items, 12 periods of 150": (20, 12, 150, 0.15),
    "6 items, 20 periods of 60": (6, 20, 60, 0.5),
}
CATEGORY_SIZES = (1200, 600, 300, 100, 50)

Lists = list[list]


def of_lists(lists: Lists) -> Leaderboard:
    return Leaderboard(n_draws=200).fit_rankings(lists, items=range(ITEMS))


def of_pairs(lists: Lists) -> Leaderboard:
    """All pairs, as if they were independent."""
    b = Rankings.of(lists, items=range(ITEMS)).battles()
    first, second = b.items[b.pairs].T
    return Leaderboard(n_draws=200).fit(first, second, ["first"] * len(b), items=range(ITEMS))


def of_grouped_pairs(lists: Lists) -> Leaderboard:
    """All pairs with weights 2 / k, in groups."""
    return Leaderboard(n_draws=200).fit(Rankings.of(lists, items=range(ITEMS)).battles())


WAYS: dict[str, tuple[Callable[[list], list], Callable[[Lists], Leaderboard]]] = {
    "rankings": (lambda order: order, of_lists),
    "rankings, the first three and the rest": (lambda order: [*order[:3], order[3:]], of_lists),
    "rankings, three tied for the first place": (lambda order: [order[:3], *order[3:]], of_lists),
    "all pairs, as if independent": (lambda order: order, of_pairs),
    "all pairs, weights 2 / k and groups": (lambda order: order, of_grouped_pairs),
}


def result(board: Leaderboard, truth: np.ndarray) -> list[float]:
    """Coverage, width, error, and whether a settled pair is in the wrong order."""
    truth = truth - truth.mean()
    low, high = board.interval()
    wrong = (board.settled() * np.sign(truth[:, None] - truth) < 0).any()
    error = np.sqrt(np.square(board.ratings_ - truth).mean())
    return [
        float(((low <= truth) & (truth <= high)).mean()), float((high - low).mean()), error, wrong
    ]  # fmt: skip


def table(first: str, rows: dict[str, list], runs: int, *more: str) -> Table:
    names = ("ratings", "width", "root mean square error", "a settled pair is wrong", *more)
    columns = (Column(first, ""), *(Column(name, ".3f") for name in names))
    means = tuple((name, *np.mean(found, axis=0).tolist()) for name, found in rows.items())
    return Table(columns, means, f"Share of 95% intervals that hold the truth, {runs} simulations")


def run_rankings(quick: bool) -> list[Table]:
    runs = QUICK if quick else RUNS
    rows: dict[str, list] = {name: [] for name in WAYS}
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        truth, orders = rng.normal(size=ITEMS), []
        for _ in range(RACES):
            chosen = rng.choice(ITEMS, SIZE, replace=False)
            orders.append(chosen[np.argsort(-(truth[chosen] + rng.gumbel(size=SIZE)))].tolist())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of all pairs without groups
            for name, (shown, fit) in WAYS.items():
                rows[name].append(result(fit([shown(order) for order in orders]), truth))
    print("rankings done", file=sys.stderr, flush=True)
    return [table("60 rankings of 8 of 12 items", rows, runs)]


def run_drift(quick: bool) -> list[Table]:
    runs = QUICK if quick else RUNS // 5
    ways = {
        "all battles": {},
        "half-life of 3 periods": {"half_life": 3.0},
        "half-life of 12 periods": {"half_life": 12.0},
        "half-life chosen on later battles": {"half_life": "auto"},
        "drift chosen by the evidence": {"drift": "evidence", "period": 1.0},
    }
    found = []
    for step in (0.0, 0.1, 0.2, 0.3):
        rows: dict[str, list] = {name: [] for name in ways}
        for seed in range(runs):
            rng = np.random.default_rng(seed)
            steps = np.vstack(
                (rng.normal(size=ITEMS), step * rng.normal(size=(PERIODS - 1, ITEMS)))
            )
            truth, n = np.cumsum(steps, axis=0), PERIODS * PER_PERIOD
            period = np.repeat(np.arange(PERIODS), PER_PERIOD)
            first = rng.integers(0, ITEMS, n)
            second = (first + rng.integers(1, ITEMS, n)) % ITEMS
            p = 1 / (1 + np.exp(truth[period, second] - truth[period, first]))
            won = (rng.random(n) < p).astype(int)
            for name, options in ways.items():
                board = Leaderboard(n_draws=200, **options)
                with warnings.catch_warnings(record=True) as told:
                    warnings.simplefilter("always")
                    board.fit(first, second, won, time=period + 0.5, items=range(ITEMS))
                warned = any(str(each.message).startswith("Ratings change") for each in told)
                rows[name].append([*result(board, truth[-1]), warned])
        print("drift", step, file=sys.stderr, flush=True)
        found.append(table(f"step of a period: {step}", rows, runs, "warns"))
    rows = {name: [] for name in OTHER}
    for name, design in OTHER.items():
        for seed in range(runs):
            rows[name].append(drifting_with_ties(1000 + seed, *design))
    return [*found, table("drift chosen by the evidence, other designs", rows, runs)]


def drifting_with_ties(
    seed: int, n_items: int, n_periods: int, per_period: int, step: float
) -> list[float]:
    """The result of one simulation with a normal step and ties."""
    rng, n = np.random.default_rng(seed), n_periods * per_period
    steps = step * rng.normal(size=(n_periods, n_items))
    steps[0] = rng.normal(size=n_items)
    truth, period = np.cumsum(steps, axis=0), np.repeat(np.arange(n_periods), per_period)
    first = rng.integers(0, n_items, n)
    second = (first + rng.integers(1, n_items, n)) % n_items
    eta = truth[period, first] - truth[period, second]
    p = np.column_stack((np.exp(eta / 2), np.exp(-eta / 2), np.full(n, 0.5)))
    p /= p.sum(axis=1, keepdims=True)
    outcome = (rng.random(n)[:, None] > np.cumsum(p, axis=1)[:, :2]).sum(axis=1)
    board = Leaderboard(n_draws=200, drift="evidence", period=1.0)
    board.fit(first, second, WORDS[outcome], time=period + 0.5, items=range(n_items))
    return result(board, truth[-1])


def run_categories(quick: bool) -> list[Table]:
    """Coverage of ratings of categories and of deviations."""
    runs = QUICK if quick else RUNS // 5
    names = ("overall", *(f"{size:,} battles" for size in CATEGORY_SIZES), "deviations", "error")
    names += ("error, each alone",)
    columns = (Column("width of deviations", ".1f"), *(Column(name, ".3f") for name in names))
    rows = []
    for width in (0.0, 0.2, 0.6):
        found = [category_coverage(seed, width) for seed in range(runs)]
        rows.append((width, *np.mean(found, axis=0).tolist()))
        print(*rows[-1], file=sys.stderr, flush=True)
    title = f"Share of 95% intervals that hold the truth, {runs} simulations"
    return [Table(columns, tuple(rows), title)]


def category_coverage(seed: int, width: float) -> list[float]:
    """Coverage of overall ratings, of those of each category, and of deviations; mean errors."""
    rng = np.random.default_rng(seed)
    C = len(CATEGORY_SIZES)
    category = np.repeat(np.arange(C), CATEGORY_SIZES)
    overall = rng.normal(size=ITEMS)
    truth = overall + width * rng.normal(size=(C, ITEMS))
    first = rng.integers(0, ITEMS, len(category))
    second = (first + rng.integers(1, ITEMS, len(category))) % ITEMS
    eta = truth[category, first] - truth[category, second]
    won = (rng.random(len(category)) < 1 / (1 + np.exp(-eta))).astype(int)
    board = Leaderboard(n_draws=200).fit(first, second, won, by=category, items=range(ITEMS))
    truth, overall = truth - truth.mean(axis=1, keepdims=True), overall - overall.mean()
    within = [covered(truth[c], *board.within(c).interval()) for c in range(C)]
    table = board.deviations()
    apart = covered((truth - overall).ravel(), table["low"], table["high"])
    alone = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few battles
        for c in range(C):
            here = category == c
            each = Leaderboard(n_draws=200).fit(
                first[here], second[here], won[here], items=range(ITEMS)
            )
            alone.append(each.ratings_)
    errors = [
        np.sqrt(np.square(found - truth).mean()) for found in (board.category_ratings_, alone)
    ]
    return [covered(overall, *board.interval()), *within, apart, *errors]
