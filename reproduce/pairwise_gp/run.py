"""Sections 5 and 6.2 of the KPCRank paper, and more experiments with pairwise Gaussian processes.

Usage: RANKWISE_DATA=folder python -m reproduce.pairwise_gp.run [part ...] [--quick] [--write]

Parts: sinc, figure, montecarlo, asking, preferences; all of them by default. ``--quick`` uses fewer
seeds and shorter runs. ``--write`` writes the tables to the README. Figures are always written.
"""

from __future__ import annotations

import sys
from pathlib import Path

from rankwise.report import Table
from reproduce.command import run_parts
from reproduce.pairwise_gp import asking, montecarlo, preferences, sinc

HERE = Path(__file__).parent


def run_sinc(quick: bool) -> list[Table]:
    return [sinc.table(3 if quick else 20)]


def run_figure(quick: bool) -> list[str]:
    sinc.figure(HERE / "figure-1.svg")
    return ["![Figure 1](figure-1.svg)"]


def run_montecarlo(quick: bool) -> list[Table]:
    return [montecarlo.table(20_000 if quick else 100_000)]


def run_asking(quick: bool) -> list[Table]:
    n_seeds = 2 if quick else 20
    found = asking.curves(n_seeds)
    asking.figure(found, HERE / "asking.svg")
    return [asking.table(found, n_seeds)]


def run_preferences(quick: bool) -> list[Table]:
    tables, found = [], {}
    for name, file in list(preferences.SETS.items())[: 1 if quick else None]:
        data = preferences.load(file)
        found[name] = preferences.held_out(data)
        tables.append(preferences.table(name, data, found[name]))
    preferences.figure(found, HERE / "reliability.svg")
    return tables


PARTS = {
    "sinc": run_sinc,
    "figure": run_figure,
    "montecarlo": run_montecarlo,
    "asking": run_asking,
    "preferences": run_preferences,
}


if __name__ == "__main__":
    sys.exit(run_parts(HERE, __doc__, PARTS))
