"""The figures of the examples, for the gallery, for the tests and as files.

``python docs/gallery_figures.py examples/first_ranking.py --out pictures`` runs an example and
writes its figures. They are not managed by pyplot, so they are found by the names of their axes: a
figure belongs to the cell after which a global name, or an entry of a list, has its axes.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rankwise.plots import save_figure


def figures(names: Mapping[str, Any]) -> Iterator[Figure]:
    """Every figure, but those of pyplot, that has axes among these values or in lists of them."""
    found = set()
    for value in list(names.values()):
        for ax in value if isinstance(value, list | tuple) else [value]:
            figure = ax.get_figure(root=True) if isinstance(ax, Axes) else None
            if figure is not None and figure.canvas.manager is None and figure not in found:
                found.add(figure)
                yield figure


def run_example(path: Path) -> list[Figure]:
    """Run an example cell by cell, as a program; returns its figures in their order."""
    names: dict[str, Any] = {"__name__": "__main__", "__file__": str(path)}
    made: list[Figure] = []
    lines = 0
    for cell in re.split(r"^(?=# %%)", path.read_text(encoding="utf-8"), flags=re.MULTILINE):
        exec(compile("\n" * lines + cell, str(path), "exec"), names)
        lines += cell.count("\n")
        made += [figure for figure in figures(names) if figure not in made]
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description="Run examples and write their figures.")
    parser.add_argument("examples", nargs="+", type=Path, metavar="EXAMPLE.py")
    parser.add_argument("--out", type=Path, required=True, help="folder of the figures")
    parser.add_argument("--format", default="png", choices=("png", "svg", "pdf"))
    parser.add_argument("--quick", action="store_true", help="less data, where there is a choice")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for path in given.examples:
        sys.argv = [str(path), *(["--quick"] if given.quick else [])]
        for k, figure in enumerate(run_example(path), 1):
            name = given.out / f"{path.stem}_{k}.{given.format}"
            print("Wrote", save_figure(figure, name))


if __name__ == "__main__":
    main()
