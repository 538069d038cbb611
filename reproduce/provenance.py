"""When, from which commit and on which machine a figure was computed."""

from __future__ import annotations

import datetime
import os
import platform
import re
import subprocess
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

FIELDS = ("date", "commit", "machine")


def provenance(root: Path) -> dict[str, str]:
    """Date, commit and machine of a run that starts now, from the code in a checkout."""
    return {
        "date": datetime.date.today().isoformat(),
        "commit": _commit(root),
        "machine": _machine(),
    }


def last_change(path: Path, text: str) -> dict[str, str]:
    """Date and commit of the last change of a text in a file, for figures without a record.

    Empty if git does not know: the text is not committed, or the history was cut off.
    """
    whole = path.read_text(encoding="utf-8")
    first = whole[: whole.index(text)].count("\n") + 1
    lines = f"{first},{first + text.count(chr(10))}"
    try:
        blame = _git(path.parent, "blame", "--porcelain", "-L", lines, "--", path.name)
    except (OSError, subprocess.CalledProcessError):
        return {}
    if re.search(r"^(boundary$|0{40} )", blame, flags=re.MULTILINE):
        return {}
    times: dict[str, int] = {}  # of commits; lines that begin with a tab are those of the file
    for line in blame.splitlines():
        word, _, rest = line.partition(" ")
        if re.fullmatch("[0-9a-f]{40}", word):
            commit = word
        elif word == "committer-time":
            times[commit] = int(rest)
    commit = max(times, key=lambda name: times[name])
    changed = datetime.datetime.fromtimestamp(times[commit], tz=datetime.UTC)
    return {"changed": changed.date().isoformat(), "in": commit[:10]}


def provenance_line(found: Mapping[str, str], what: str) -> str:
    """A line of Markdown that says where a figure comes from, or what is not known of it."""
    if "changed" in found:
        since = f"last changed on {found['changed']} in commit {found['in']}"
        return f"*{what}: {since}; the machine was not recorded.*"
    lacking = [field for field in FIELDS if not found.get(field)]
    if len(lacking) == len(FIELDS):
        return f"*{what}: date, commit and machine were not recorded.*"
    said = {"date": "{}", "commit": "commit {}", "machine": "{}"}
    words = [said[field].format(found[field]) for field in FIELDS if field not in lacking]
    words += [f"{field} not recorded" for field in lacking]
    return f"*{what}: {'; '.join(words)}.*"


def _commit(root: Path) -> str:
    """The commit of a checkout, and whether its code differs from it; empty if there is no git."""
    try:
        commit = _git(root, "rev-parse", "--short=10", "HEAD")
        changed = _git(root, "status", "--porcelain", "--", "*.py")
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f"{commit} with changes" if changed else commit


def _git(folder: Path, *arguments: str) -> str:
    """What a git command prints."""
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _machine() -> str:
    """Processor, cores, memory, load, and the versions that matter most."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    parts = [names[0] if names else platform.machine(), f"{os.cpu_count()} cores"]
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        parts.append(f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 1e9:.0f} GB")
    if hasattr(os, "getloadavg"):
        parts.append(f"load {os.getloadavg()[0]:.1f} at the start")
    parts.append(f"Python {platform.python_version()}")
    parts += [f"{name} {version(name)}" for name in ("numpy", "scipy")]
    return ", ".join(parts)
