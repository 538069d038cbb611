"""Run all benchmarks, print the ratios, and write them as a Markdown table.

Usage: python -m benchmarks [name ...], where a name is that of a module without ``bench_``.
"""

from __future__ import annotations

import platform
import sys
from importlib import import_module
from pathlib import Path

from benchmarks.harness import Result

HERE = Path(__file__).parent
NAMES = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))


def table(results: list[Result]) -> str:
    lines = ["| claim | ours | peer | ratio | at most | |", "|---|---|---|---|---|---|"]
    for r in results:
        limit = f"{r.at_most:.3g}" if r.at_most < float("inf") else "no claim"
        verdict = "" if limit == "no claim" else "holds" if r.holds else "**does not hold**"
        lines.append(f"| {r.claim} | {r.ours} | {r.peer} | {r.ratio:.3g} | {limit} | {verdict} |")
    return "\n".join(lines)


def main(names: list[str]) -> int:
    unknown = set(names) - set(NAMES)
    if unknown:
        print(f"Unknown: {', '.join(sorted(unknown))}. There are: {', '.join(NAMES)}.")
        return 2
    results: list[Result] = []
    for name in names or NAMES:
        print(f"running {name} ...", file=sys.stderr, flush=True)
        new = import_module(f"benchmarks.bench_{name}").cases()
        print(table(new), flush=True)
        results += new
    folder = HERE / "results"
    folder.mkdir(exist_ok=True)
    machine = f"{platform.machine()}, Python {platform.python_version()}"
    (folder / "benchmarks.md").write_text(f"# Benchmarks\n\n{machine}\n\n{table(results)}\n")
    print(f"\nWritten to {folder / 'benchmarks.md'}")
    return 0 if all(result.holds for result in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
