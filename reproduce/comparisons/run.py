"""Comparisons with context and groups: human preferences, and items held out.

Usage: RANKWISE_DATA=folder python -m reproduce.comparisons.run [part ...] [--quick] [--write]

Parts: preferences, items; both by default. ``--quick`` uses less data. ``--write`` writes the
tables to the README.
"""

from __future__ import annotations

import sys
from pathlib import Path

from rankwise.report import Table
from reproduce.command import run_parts
from reproduce.comparisons import items, preferences
from reproduce.pairwise_gp import preferences as answers

HERE = Path(__file__).parent


def run_preferences(quick: bool) -> list[Table]:
    tables = []
    for name, file in list(preferences.SETS.items())[: 1 if quick else None]:
        data = answers.load(file)
        tables.append(preferences.table(name, data, preferences.held_out(data)))
    return tables


def run_items(quick: bool) -> list[Table]:
    return [items.table(500, 5) if quick else items.table()]


PARTS = {"preferences": run_preferences, "items": run_items}


if __name__ == "__main__":
    sys.exit(run_parts(HERE, __doc__, PARTS))
