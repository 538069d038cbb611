"""Run the parts that changed, and write all tables to one page.

A part is up to date if its key has not changed: a digest of the library, of the code in its folder
and of its data. Two folders run in parallel, the longest first, each on one core. The parts of a
folder run one after the other, since they write to the same README.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from rankwise.files import replacing
from reproduce.pages import BEGIN, END, keep, kept
from reproduce.parts import PAPERS, Paper, Part
from reproduce.provenance import last_change, provenance, provenance_line

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "results.md"
DONE = ROOT / ".cache" / "done.json"  # not in the repository
RUNS = ROOT / "reproduce" / "runs.json"  # when, from which commit and where each part ran
CODE = (".py", ".sh")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
_REMEMBERING = threading.Lock()
INTRODUCTION = """\
# Results

The tables of the papers, reproduced with this library. `make reproduce` writes this page; it needs
`RANKWISE_DATA`, the folder of the data. That command recomputes every figure except those marked
"quoted", which are from the papers or from published reference results. The README of each folder
describes the experiments and what was tried. Seconds are those of the machine that ran them, with
another part running on its other core. Below each part are the date, the commit and the machine of
its run, or the commit that last changed its table if these were not recorded.
"""


@dataclass(frozen=True)
class Outcome:
    """How a part ended: "kept", "done", "skipped" or "failed", and a message."""

    part: Part
    state: str
    words: str = ""


def digest(paths: Iterable[Path]) -> str:
    """A digest of names and contents of files."""
    total = hashlib.sha256()
    for path in sorted(paths):
        total.update(str(path.name).encode())
        total.update(path.read_bytes())
    return total.hexdigest()


def code_of(folder: Path) -> list[Path]:
    """The files of a folder that its results depend on."""
    fixed = [folder / "expected.json"]
    return [path for path in folder.glob("*") if path.suffix in CODE or path in fixed]


def key_of(paper: Paper, part: Part, data: Path | None) -> str:
    """The key of a part: the same if nothing that it depends on has changed."""
    here = ROOT / "reproduce"
    files = list((ROOT / "src" / "rankwise").rglob("*.py"))
    files += [path for path in (here / "pages.py", here / "command.py") if path.exists()]
    for folder in (paper.folder, *paper.uses):
        files += code_of(here / folder)
    parts = [digest(files), " ".join(part.arguments)]
    if data is not None:
        for folder in part.data:
            parts.append(digest(path for path in (data / folder).rglob("*") if path.is_file()))
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()


def missing(part: Part, data: Path | None) -> str:
    """Which data a part lacks; empty if there are all."""
    if not part.data:
        return ""
    if data is None:
        return "needs RANKWISE_DATA"
    absent = [folder for folder in part.data if not (data / folder).is_dir()]
    return f"needs {', '.join(absent)} in RANKWISE_DATA" if absent else ""


def run_part(paper: Paper, part: Part, data: Path | None, say: Callable[[str], None]) -> Outcome:
    """Run a part unless it is up to date."""
    lacking = missing(part, data)
    if lacking:
        say(f"{part.name}: skipped, {lacking}")
        return Outcome(part, "skipped", lacking)
    with _REMEMBERING:
        done = kept(DONE)
    key = key_of(paper, part, data)
    if done.get(part.name, {}).get("key") == key:
        say(f"{part.name}: kept from an earlier run")
        return Outcome(part, "kept")
    say(f"{part.name}: started")
    origin = provenance(ROOT)
    start = time.perf_counter()
    code, last = _call(part, say)
    spent = time.perf_counter() - start
    if code:
        say(f"{part.name}: failed after {spent:.0f} s")
        return Outcome(part, "failed", last or f"exit code {code}")
    with _REMEMBERING:
        keep(DONE, {part.name: {"key": key, "seconds": round(spent, 1)}})
        keep(RUNS, {part.name: origin})
    say(f"{part.name}: done in {spent:.0f} s")
    return Outcome(part, "done")


def _call(part: Part, say: Callable[[str], None]) -> tuple[int, str]:
    """Exit code and last message of a part; all messages are passed on."""
    environment = os.environ | dict.fromkeys(THREADS, "1") | {"PYTHONPATH": str(ROOT)}
    last = ""
    with subprocess.Popen(
        [sys.executable, *part.arguments],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.strip():
                last = line.strip()
                say(f"{part.name}: {last}")
    return process.returncode, last


def run_all(names: list[str], jobs: int, say: Callable[[str], None]) -> list[Outcome]:
    """Run the parts of these names, or all."""
    DONE.parent.mkdir(parents=True, exist_ok=True)
    folder = os.environ.get("RANKWISE_DATA")
    data = Path(folder) if folder else None

    stopped = threading.Event()

    def run_paper(paper: Paper) -> list[Outcome]:
        parts = [part for part in paper.parts if not names or part.name in names]
        return [run_part(paper, part, data, say) for part in parts if not stopped.is_set()]

    longest_first = sorted(PAPERS, key=lambda paper: -paper.minutes)
    with ThreadPoolExecutor(jobs) as pool:
        try:
            found = dict(zip(longest_first, pool.map(run_paper, longest_first), strict=True))
        except KeyboardInterrupt:
            stopped.set()  # or the next part of each folder would start
            raise
    return [outcome for paper in PAPERS for outcome in found[paper]]


def blocks(readme: str) -> dict[str, str]:
    """The text between the marks of a README, by name; without an end mark, all that follows."""
    found = {}
    for match in re.finditer(re.escape(BEGIN).replace(re.escape("{}"), "(.+?)"), readme):
        name = match.group(1)
        found[name] = readme[match.end() :].partition(END.format(name))[0].strip()
    return found


def section(paper: Paper, notes: dict[str, str]) -> str:
    """A heading, a description, and the blocks of a folder."""
    readme = ROOT / "reproduce" / paper.folder / "README.md"
    link = f"[reproduce/{paper.folder}](../reproduce/{paper.folder}/README.md)"
    lines = [f"## {paper.title}", f"{paper.about} {paper.differences} More: {link}."]
    written, runs = blocks(readme.read_text(encoding="utf-8")), kept(RUNS)
    for part in paper.parts:
        for name in part.blocks:
            text = written.get(name, "")
            note = notes.get(part.name)
            if note and text:
                lines.append(f"*{part.name} did not run here ({note}): from an earlier run.*")
            lines.append(_moved(text, paper.folder) if text else f"*{part.name} was not run.*")
        texts = [written[name] for name in part.blocks if written.get(name)]
        if texts:
            origin = runs.get(part.name) or last_change(readme, texts[0])
            lines.append(provenance_line(origin, part.name))
    return "\n\n".join(lines)


def _moved(text: str, folder: str) -> str:
    """Links to figures relative to docs/, and headings one level below that of the section."""
    text = re.sub(r"(!\[[^]]*\]\()(?!http)", rf"\1../reproduce/{folder}/", text)
    return re.sub(r"^#{2,3} ", "### ", text, flags=re.MULTILINE)


def write_page(outcomes: list[Outcome]) -> None:
    """All sections on one page; parts that could not run are marked."""
    notes = {outcome.part.name: outcome.words for outcome in outcomes if outcome.words}
    text = "\n\n".join([INTRODUCTION.rstrip(), *(section(paper, notes) for paper in PAPERS)])
    with replacing(PAGE) as temporary:
        temporary.write_text(f"{text}\n", encoding="utf-8")


def report(outcomes: list[Outcome]) -> str:
    """A summary of the parts, and a line for each that has no result."""
    counts = {
        state: sum(outcome.state == state for outcome in outcomes)
        for state in ("done", "kept", "skipped", "failed")
    }
    lines = [", ".join(f"{n} {state}" for state, n in counts.items() if n)]
    lines += [
        f"  {outcome.part.name}: {outcome.state}, {outcome.words}"
        for outcome in outcomes
        if outcome.words
    ]
    return "\n".join(lines)
