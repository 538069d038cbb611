"""Comparisons with context and groups: human preferences, and items held out.

Usage: RANKWISE_DATA=folder python -m reproduce.comparisons.run [part ...] [--quick] [--write]

Parts: preferences, items; both by default. ``--quick`` uses less data. ``--write`` writes the
tables to the README.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from rankwise.errors import DataError
from rankwise.report import Table
from reproduce.comparisons import items, preferences
from reproduce.pages import put_block
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; default: both")
    parser.add_argument("--quick", action="store_true", help="less data")
    parser.add_argument("--write", action="store_true", help="put the tables into README.md")
    arguments = parser.parse_args()
    unknown = set(arguments.parts) - set(PARTS)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    for part in arguments.parts or PARTS:
        begin = time.perf_counter()
        try:
            tables = PARTS[part](arguments.quick)
        except DataError as error:
            print(error, file=sys.stderr)
            return 2
        for table in tables:
            print(f"{table}\n", flush=True)
        print(f"{part}: {time.perf_counter() - begin:.0f} s", file=sys.stderr, flush=True)
        if arguments.write:
            shown = "\n\n".join(table.to_markdown() for table in tables)
            put_block(HERE / "README.md", part, shown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
