"""When, from which commit and on which machine a figure was computed."""

from __future__ import annotations

import datetime
import os
import platform
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


def provenance_line(found: Mapping[str, str], what: str) -> str:
    """A line of Markdown that says where a figure comes from, or what is not known of it."""
    lacking = [field for field in FIELDS if not found.get(field)]
    if len(lacking) == len(FIELDS):
        return f"*{what}: date, commit and machine were not recorded.*"
    said = {"date": "{}", "commit": "commit {}", "machine": "{}"}
    words = [said[field].format(found[field]) for field in FIELDS if field not in lacking]
    words += [f"{field} not recorded" for field in lacking]
    return f"*{what}: {'; '.join(words)}.*"


def _commit(root: Path) -> str:
    """The commit of a checkout, and whether its code differs from it; empty if there is no git."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(root), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        commit = git("rev-parse", "--short=10", "HEAD")
        changed = git("status", "--porcelain", "--", "*.py")
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f"{commit} with changes" if changed else commit


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
