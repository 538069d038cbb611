"""Leaderboards: do intervals cover the truth, and what do real battles give?

Usage: RANKWISE_DATA=folder python -m reproduce.leaderboard.run [part ...] [--quick] [--write]

Parts: coverage, pandalm; both by default. ``--quick`` simulates less. ``--write`` writes the tables
to the README.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np

from rankwise import Leaderboard
from rankwise.data import Battles, make_battles
from rankwise.errors import DataError
from rankwise.report import Column, Table
from reproduce.command import run_parts

HERE = Path(__file__).parent
ITEMS, BATTLES, RUNS, QUICK = 12, 1500, 200, 20
VOTES = {
    "independent": {"dependence": 0.0},
    "sessions of 3, dependence 0.5": {},
    "sessions of 5, dependence 0.7": {"session_size": 5, "rematch": 0.7, "dependence": 0.7},
}
INTERVALS = {"clustered": True, "as if independent": False}


def covered(truth: np.ndarray, low: np.ndarray, high: np.ndarray) -> float:
    return float(((low <= truth) & (truth <= high)).mean())


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


def load_pandalm() -> Battles:
    """Five models, judged by three annotators each; the prompt of each battle is its group."""
    folder = os.environ.get("RANKWISE_DATA", "")
    path = Path(folder, "llm_preferences", "pandalm_testset-v1.json.gz")
    if not path.exists():
        raise DataError(f"There is no {path}: set RANKWISE_DATA to the folder of the data.")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = json.load(file)
    first, second, outcome, prompt, judge, length = [], [], [], [], [], []
    for row in rows:
        a, b = row["cmp_key"].split("_")
        words = [len(str(row[f"response{k}"]).split()) for k in (1, 2)]
        for annotator in (1, 2, 3):
            first.append(a)
            second.append(b)
            outcome.append(("tie", "first", "second")[row[f"annotator{annotator}"]])
            prompt.append(f"{row['instruction']}\n{row['input']}")
            judge.append(annotator)
            length.append((words[0] - words[1]) / (sum(words) + 1))
    made = Battles.of(
        first, second, outcome, groups=prompt, judge=judge, context=np.array(length)[:, None]
    )
    return replace(made, context_names=["length"])


def run_pandalm(quick: bool) -> list[Table]:
    battles = load_pandalm()
    boards = {
        "Standings": Leaderboard().fit(
            replace(battles, judge=None, context=None, context_names=None)
        ),
        "Standings with the length as covariate": Leaderboard().fit(replace(battles, judge=None)),
    }
    tables = [replace(board.standings().to_table(), title=title) for title, board in boards.items()]
    last = boards["Standings with the length as covariate"]
    tables.append(replace(last.coefficients().to_table(), title="Effect of the length"))
    judged = Leaderboard().fit(battles)
    tables.append(replace(judged.agreement().to_table(), title="Agreement of the annotators"))
    return tables


PARTS = {"coverage": run_coverage, "pandalm": run_pandalm}


if __name__ == "__main__":
    sys.exit(run_parts(HERE, __doc__, PARTS))
