"""The command line of folders with steps."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rankwise.errors import DataError, MissingExtraError
from reproduce.pages import keep, kept, put_block

EXPECTED_ERRORS = (DataError, MissingExtraError, OSError)


def run_steps(
    here: Path,
    description: str,
    steps: dict[str, Callable[[], Any]],
    texts: Callable[[dict[str, Any]], dict[str, str]],
) -> int:
    """Run the given steps, store their results, and write tables.

    Parameters
    ----------
    here : Path
        The folder, with README.md and results.json.
    description : str
        What the command does; its first line is shown by --help.
    steps : dict of callables
        Each returns the results that are stored under its name.
    texts : callable
        From all stored results to the blocks of the README, by name.

    Returns
    -------
    int
        0, or 2 if data or an optional package are missing.
    """
    listed = ", ".join(steps)
    parser = argparse.ArgumentParser(description=description.split("\n")[0])
    parser.add_argument("steps", nargs="*", help=f"of {listed}; all by default")
    parser.add_argument("--write", action="store_true", help="write the tables to README.md")
    parser.add_argument(
        "--kept", action="store_true", help="run nothing, and use the stored results"
    )
    arguments = parser.parse_args()
    unknown = set(arguments.steps) - set(steps)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {listed}")
    results = kept(here / "results.json")
    for step in () if arguments.kept else arguments.steps or steps:
        try:
            results = keep(here / "results.json", {step: steps[step]()})
        except EXPECTED_ERRORS as error:
            print(error, file=sys.stderr)
            return 2
    written = texts(results)
    print("\n\n".join(written.values()))
    if arguments.write:
        for name, text in written.items():
            put_block(here / "README.md", name, text)
    return 0
