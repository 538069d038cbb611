"""Checks of the files that commands write, before the work begins."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from rankwise.errors import ParameterError
from rankwise.files import replacing


class _Writable(Exception):
    """Ends a trial write."""


def check_not_input(out: Path | None, *inputs: Path | None) -> None:
    """Refuse to write over a file that the command reads."""
    for path in inputs:
        if out and path and out.exists() and path.exists() and out.samefile(path):
            raise ParameterError(f"{out} is an input of this command: write to another file.")


def check_writable(out: Path, *inputs: Path | None) -> None:
    """Raise an error now, not after an hour of work, if `out` cannot be written."""
    check_not_input(out, *inputs)
    with suppress(_Writable), replacing(out):
        raise _Writable
