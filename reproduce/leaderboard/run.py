"""Leaderboards: do intervals cover the truth, and what do real battles give?

Usage: RANKWISE_DATA=folder python -m reproduce.leaderboard.run [part ...] [--quick] [--write]

Parts: coverage, judges, ties, rankings, drift, categories, real; all by default. ``--quick``
simulates less.
``--write`` writes the tables to the README.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np

from rankwise import Leaderboard
from rankwise.data import make_battles
from rankwise.errors import DataError
from rankwise.leaderboard.board_tables import Standings
from rankwise.report import Column, Table
from reproduce.command import run_parts
from reproduce.leaderboard.judged import (
    DESIGNS,
    Design,
    corrected,
    covered,
    item_tie_losses,
    judge_coverage,
    losses,
)
from reproduce.leaderboard.moving import run_categories, run_drift, run_rankings
from reproduce.leaderboard.real_battles import DERIVED, PANDALM, data_file, write_battles

HERE = Path(__file__).parent
ITEMS, BATTLES, RUNS, QUICK = 12, 1500, 500, 20
VOTES = {
    "independent": {"dependence": 0.0},
    "sessions of 3, dependence 0.5": {},
    "sessions of 5, dependence 0.7": {"session_size": 5, "rematch": 0.7, "dependence": 0.7},
}
INTERVALS = {"clustered": True, "as if independent": False}


def one_run(seed: int, options: dict, clustered: bool) -> list[float]:
    """Coverage of ratings, style and ranks, and whether the order of a settled pair is wrong."""
    made = make_battles(ITEMS, BATTLES, random_state=seed, **options)
    battles = made.battles if clustered else replace(made.battles, groups=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # chance deserves no warning here
        board = Leaderboard(n_draws=1000).fit(battles)
    table = board.standings()
    order = np.argsort(-board.ratings_, kind="stable")
    rank = 1 + np.argsort(np.argsort(-made.ratings))
    style = board.coefficients()
    order_of_truth = np.sign(made.ratings[:, None] - made.ratings)
    return [
        covered(made.ratings[order], table["low"], table["high"]),
        covered(np.array([made.style]), style["low"], style["high"]),
        covered(rank[order], table["rank_low"], table["rank_high"]),
        float((board.settled() * order_of_truth < 0).any()),
    ]


def run_coverage(quick: bool) -> list[Table]:
    runs = QUICK if quick else RUNS
    columns = [Column("votes", ""), Column("intervals", "")]
    columns += [
        Column(name, ".3f") for name in ("ratings", "style", "ranks", "a settled pair is wrong")
    ]
    rows = []
    for votes, options in VOTES.items():
        for intervals, clustered in INTERVALS.items():
            found = np.mean([one_run(seed, options, clustered) for seed in range(runs)], axis=0)
            rows.append((votes, intervals, *found.tolist()))
            print(*rows[-1], file=sys.stderr, flush=True)
    title = f"Share of 95% intervals that hold the truth, {runs} simulations"
    return [Table(tuple(columns), tuple(rows), title)]


def run_judges(quick: bool) -> list[Table]:
    """Held-out log-loss with and without judges, and coverage of the intervals of judges."""
    runs = 1 if quick else 8
    names = ("no judges", "judges", "judges, averaged", "truth")
    columns = [Column("judges differ in", ""), *(Column(name, ".4f") for name in names)]
    more = [
        Column("judges less no judges", ".4f"),
        Column("s.e.", ".4f"),
        Column("at most 1 s.e. worse", ""),
    ]
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # chance deserves no warning here
        for label, design in DESIGNS.items():
            parts = [losses(design, seed) for seed in range(runs)]
            each = {name: np.concatenate([part[name] for part in parts]) for name in names}
            gain = each["judges"] - each["no judges"]
            error = float(gain.std() / len(gain) ** 0.5)
            means = [float(each[name].mean()) for name in names]
            holds = "yes" if gain.mean() <= error + 1e-9 else "no"
            rows.append((label, *means, float(gain.mean()), error, holds))
            print(*rows[-1], file=sys.stderr, flush=True)
        right = []
        for label in ("slopes", "tie rates", "places", "3 judges"):
            found = losses(DESIGNS[label], 0, n_battles=30_000)
            means = [float(found[name].mean()) for name in names]
            holds = "yes" if means[1] <= means[3] + 0.005 else "no"
            right.append((label, *means, holds))
            print(*right[-1], file=sys.stderr, flush=True)
        times = 5 if quick else 100
        wide = Design(slope=0.5, rate=0.8, place=0.5)
        spans = []
        for label, design in (
            ("40 judges, 150 votes each", wide), ("300 judges, 20 votes each",
             Design(slope=0.5, rate=0.8, place=0.5, n_judges=300)),
        ):  # fmt: skip
            found = np.mean([judge_coverage(design, seed) for seed in range(times)], axis=0)
            spans.append((label, *found.tolist()))
            print(*spans[-1], file=sys.stderr, flush=True)
        few = [corrected(seed) for seed in range(20 if quick else 300)]
    votes = [(name, *np.mean([one[name] for one in few], axis=0).tolist()) for name in few[0]]
    head = ("ratings", "slopes", "tie parameters", "places")
    return [
        Table((*columns, *more), tuple(rows), f"Log-loss of later battles, {runs} simulations"),
        Table((*columns, Column("within 0.005", "")), tuple(right), "The same with 30,000 battles"),
        Table((Column("judges", ""), *(Column(name, ".3f") for name in head)), tuple(spans),
              f"Share of 95% intervals that hold the truth, {times} simulations"),
        Table((Column("ratings by", ""), Column("coverage", ".3f"), Column("width", ".2f"),
               Column("error", ".3f")), tuple(votes),
              f"Few human votes and many votes of a biased model, {len(few)} simulations"),
    ]  # fmt: skip


def run_ties(quick: bool) -> list[Table]:
    """Items that tie more often than others."""
    runs = 3 if quick else 40
    names = ("one tie parameter", "by item", "truth", "coverage of effects", "kept")
    columns = [Column("width of effects", ".1f"), *(Column(name, ".4f") for name in names[:3])]
    columns += [Column("coverage of effects", ".3f"), Column("kept", ".2f")]
    rows = []
    for width in (0.0, 0.1, 0.2, 0.4, 0.8):
        found = np.array([item_tie_losses(seed, width) for seed in range(runs)])
        held = found[~np.isnan(found[:, 3]), 3]
        means = found.mean(axis=0)
        means[3] = held.mean() if len(held) else np.nan
        rows.append((width, *means.tolist()))
        print(*rows[-1], file=sys.stderr, flush=True)
    return [Table(tuple(columns), tuple(rows), f"Log-loss of later battles, {runs} simulations")]


def command(path: Path, *options: str) -> dict:
    """What `rankwise leaderboard` writes with --json."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "board.json")
        arguments = ["leaderboard", str(path), "--json", str(out), "--quiet", *options]
        done = subprocess.run(
            [sys.executable, "-c", "from rankwise.cli.main import run; run()", *arguments],
            check=False, capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode:
            raise DataError(done.stderr.strip())
        return json.loads(out.read_text(encoding="utf-8"))


def standings_table(found: dict, title: str, top: int) -> Table:
    """The best items, as the command prints them."""
    rows = found["standings"][:top]
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    return replace(Standings(columns).to_table(), title=title)


def summary(name: str, found: dict) -> tuple:
    """A row of the table of all files."""
    standings = found["standings"]
    tied = sum(row["group"] == 1 for row in standings) - 1
    return (
        name, found["battles"], len(standings), found["groups"], standings[-1]["group"],
        str(standings[0]["item"]), standings[0]["p_first"], tied, len(found["warnings"]),
    )  # fmt: skip


def run_real(quick: bool) -> list[Table]:
    """The command on real battles; the tables of its JSON files."""
    pandalm = data_file(PANDALM)
    plain = command(pandalm)
    styled = command(pandalm, "--style", "words", "--judge", "annotator")
    rows, shown = [summary("PandaLM: language models", plain)], []
    with tempfile.TemporaryDirectory() as folder:
        for key, (name, battles) in DERIVED.items():
            found = command(write_battles(Path(folder, f"{key}.csv"), battles()))
            rows.append(summary(name, found))
            shown.append(standings_table(found, name, 10))
            print(*rows[-1], file=sys.stderr, flush=True)
    names = ("battles", "items", "groups", "told apart")
    columns = [Column("data", ""), *(Column(name) for name in names), Column("best", "")]
    columns += [Column("P(first)", ".2f"), Column("tied with it"), Column("warnings")]
    effects = [tuple(row.values()) for row in styled["coefficients"]]
    heads = [Column("column", ""), *(Column(n, ".3f") for n in ("coefficient", "low", "high"))]
    judges = [(row["judge"], row["battles"], row["slope"], row["ties"], row["first place"])
              for row in styled["judges"]]  # fmt: skip
    judge_heads = [Column("judge", ""), Column("battles"), Column("slope", ".3f")]
    judge_heads += [Column("ties", ".3f"), Column("first place", ".3f")]
    return [
        Table(tuple(columns), tuple(rows), "Files that were given to `rankwise leaderboard`"),
        standings_table(plain, "PandaLM", 10),
        standings_table(styled, "PandaLM with the words of answers and annotators", 10),
        Table((*heads, Column("z", ".1f")), tuple(effects), "PandaLM: effects"),
        Table(tuple(judge_heads), tuple(judges), "PandaLM: annotators"),
        *shown,
    ]


PARTS = {
    "coverage": run_coverage,
    "judges": run_judges,
    "ties": run_ties,
    "rankings": run_rankings,
    "drift": run_drift,
    "categories": run_categories,
    "real": run_real,
}


if __name__ == "__main__":
    sys.exit(run_parts(HERE, __doc__, PARTS))
