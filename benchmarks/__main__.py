"""Run all benchmarks, print the ratios, and write them to docs/benchmarks.md.

The ratios of each module are kept with the date, the commit and the machine of their run, in
benchmarks/results.json, until the module runs again on a machine of this kind. Kinds differ in
their processors and in the number of cores; the page shows a table for each.

Usage: python -m benchmarks [name ...], where a name is that of a module without ``bench_``. Without
names, all run; "gpu" only where there is one.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from importlib import import_module
from math import inf, isfinite
from pathlib import Path
from typing import Any

from benchmarks.harness import Result
from rankwise.files import replacing
from reproduce.pages import keep, kept
from reproduce.provenance import provenance, provenance_line

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
PAGE = HERE.parent / "docs" / "benchmarks.md"
INTRODUCTION = """\
# Benchmarks

Claims about speed and memory. Each is a ratio to a named peer, measured in the same run, or to what
is wanted, and a limit that the ratio must not exceed. `make bench` measures them and writes this
page. Below each table are the date, the commit and the machine of its run.
"""
NAMES = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))


def table(results: list[Result]) -> str:
    lines = ["| claim | ours | peer | ratio | at most | |", "|---|---|---|---|---|---|"]
    for r in results:
        limit = f"{r.at_most:.3g}" if r.at_most < float("inf") else "no claim"
        verdict = "" if limit == "no claim" else "holds" if r.holds else "**does not hold**"
        lines.append(f"| {r.claim} | {r.ours} | {r.peer} | {r.ratio:.3g} | {limit} | {verdict} |")
    return "\n".join(lines)


def written(results: list[Result]) -> list[dict[str, Any]]:
    """Results as JSON has them: it has no infinity."""
    return [
        asdict(result) | {"at_most": result.at_most if isfinite(result.at_most) else None}
        for result in results
    ]


def read(run: dict[str, Any]) -> list[Result]:
    """The results of a module that were kept."""
    limits = [result["at_most"] for result in run["results"]]
    return [
        Result(**result | {"at_most": inf if limit is None else limit})
        for result, limit in zip(run["results"], limits, strict=True)
    ]


def key(name: str, origin: dict[str, Any], runs: dict[str, Any]) -> str:
    """Where the run of a module is kept: by its name, or on a second kind of machine by both."""
    kind, first = (_kind(run) for run in (origin, runs.get(name, origin)))
    return name if kind == first else f"{name} on {kind}"


def _kind(run: dict[str, Any]) -> str:
    """The processor and the number of cores of a run."""
    return ", ".join(run["machine"].split(", ")[:2])


def page(runs: dict[str, Any]) -> str:
    """All ratios that were kept, module by module."""
    parts = [INTRODUCTION.strip()]
    for name in NAMES:
        if name in runs:
            parts.append(f"## {name.replace('_', ' ')}")
            for run in [name, *sorted(run for run in runs if run.startswith(f"{name} on "))]:
                parts += [table(read(runs[run])), provenance_line(runs[run], name)]
    missing = [f"`{name}`" for name in NAMES if name not in runs]
    if missing:
        parts += ["## Not measured yet", f"No run of these is on record: {', '.join(missing)}."]
    return "\n\n".join(parts) + "\n"


def has_gpu() -> bool:
    """Whether PyTorch is installed and has a GPU."""
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


def main(names: list[str]) -> int:
    unknown = set(names) - set(NAMES)
    if unknown:
        print(f"Unknown: {', '.join(sorted(unknown))}. There are: {', '.join(NAMES)}.")
        return 2
    (HERE / "results").mkdir(exist_ok=True)  # for figures
    results: list[Result] = []
    for name in names or [name for name in NAMES if name != "gpu" or has_gpu()]:
        print(f"running {name} ...", file=sys.stderr, flush=True)
        origin = provenance(HERE.parent)
        new = import_module(f"benchmarks.bench_{name}").cases()
        print(table(new), flush=True)
        keep(RESULTS, {key(name, origin, kept(RESULTS)): origin | {"results": written(new)}})
        results += new
    with replacing(PAGE) as temporary:
        temporary.write_text(page(kept(RESULTS)), encoding="utf-8")
    print(f"\nWritten to {PAGE}")
    return 0 if all(result.holds for result in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
