"""The command lines of folders: steps whose results are stored, and parts that give tables."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from rankwise.errors import DataError, MissingExtraError
from rankwise.report import Table
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
    arguments = _parse(description, "steps", steps, kept="run nothing, and use the stored results")
    results = kept(here / "results.json")
    for step in () if arguments.kept else arguments.chosen:
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


def run_parts(here: Path, description: str, parts: dict[str, Callable[[bool], list[Any]]]) -> int:
    """Run the given parts, print their tables, and write them.

    Parameters
    ----------
    here : Path
        The folder, with README.md, which has a block for each part.
    description : str
        What the command does; its first line is shown by --help.
    parts : dict of callables
        Each gets whether to be quick, with less data or shorter runs, and returns tables, and
        texts such as links to figures.

    Returns
    -------
    int
        0, or 2 if data or an optional package are missing.
    """
    arguments = _parse(description, "parts", parts, quick="less data, or shorter runs")
    for part in arguments.chosen:
        begin = time.perf_counter()
        try:
            tables = parts[part](arguments.quick)
        except EXPECTED_ERRORS as error:
            print(error, file=sys.stderr)
            return 2
        for table in tables:
            print(f"{table}\n", flush=True)
        print(f"{part}: {time.perf_counter() - begin:.0f} s", file=sys.stderr, flush=True)
        if arguments.write:
            shown = "\n\n".join(
                table.to_markdown() if isinstance(table, Table) else table for table in tables
            )
            put_block(here / "README.md", part, shown)
    return 0


def _parse(description: str, kind: str, choices: Iterable[str], **switches: str) -> Any:
    """The `chosen` steps or parts, all of them by default, and switches with these help texts."""
    listed = ", ".join(choices)
    parser = argparse.ArgumentParser(description=description.split("\n")[0])
    parser.add_argument("chosen", metavar=kind, nargs="*", help=f"of {listed}; all by default")
    parser.add_argument("--write", action="store_true", help="write the tables to README.md")
    for name, text in switches.items():
        parser.add_argument(f"--{name}", action="store_true", help=text)
    arguments = parser.parse_args()
    unknown = set(arguments.chosen) - set(choices)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {listed}")
    arguments.chosen = arguments.chosen or list(choices)
    return arguments
