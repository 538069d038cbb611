"""Pages whose text comes from the program itself: the help of its commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from rankwise.cli.main import COMMANDS
from rankwise.cli.main import app as program

PAGE = Path(__file__).parents[1] / "commands.md"
INTRODUCTION = """\
# Commands

What `rankwise COMMAND --help` prints. Results go to stdout, remarks and progress to stderr. For
invalid input, commands print one line with the mistake and its place, and return exit code 2.
"""


def help_of(command: str) -> str:
    """What ``rankwise COMMAND --help`` prints, 84 characters wide."""
    environment = {"COLUMNS": "84", "TERM": "dumb", "NO_COLOR": "1"}
    result = CliRunner().invoke(program, [command, "--help"], env=environment)
    if result.exit_code:
        raise RuntimeError(f"rankwise {command} --help fails: {result.output}")
    return "\n".join(line.rstrip() for line in result.output.strip().splitlines())


def write_commands(app: Any) -> None:
    """Write docs/commands.md, unless it is the same already."""
    parts = [INTRODUCTION]
    for command in COMMANDS:
        name = command.__name__
        parts.append(f"## rankwise {name}\n\n```text\n{help_of(name)}\n```\n")
    text = "\n".join(parts)
    if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        PAGE.write_text(text, encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    app.connect("builder-inited", write_commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
