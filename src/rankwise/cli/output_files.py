"""The files that commands write: checked before the work begins, and known if it is interrupted."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from rankwise.errors import ParameterError
from rankwise.files import replacing


class _Writable(Exception):
    """Ends a trial write."""


class OutputFiles:
    """The files that a command is going to write, and which of them it has written."""

    def __init__(self) -> None:
        self._before: dict[Path, tuple[int, int] | None] = {}

    def add(self, path: Path) -> None:
        if any(path.resolve() == other.resolve() for other in self._before):
            raise ParameterError(f"{path} would be written twice: give each output its own file.")
        self._before[path] = _identity(path)

    def words(self) -> str:
        """One sentence on what was written and what was not."""
        written = [p for p, before in self._before.items() if _identity(p) != before]
        missing = [p for p in self._before if p not in written]
        parts = []
        for paths, was in ((written, "written"), (missing, "not written")):
            if paths:
                parts.append(f"{_listed(paths)} {'was' if len(paths) == 1 else 'were'} {was}")
        return f"{'; '.join(parts)}." if parts else "Nothing was written."


_FILES: ContextVar[OutputFiles | None] = ContextVar("output_files", default=None)


@contextmanager
def output_files() -> Iterator[OutputFiles]:
    """Collects the files of `check_writable` within the block."""
    files = OutputFiles()
    token = _FILES.set(files)
    try:
        yield files
    finally:
        _FILES.reset(token)


def check_writable(out: Path, *inputs: Path | None, force: bool) -> None:
    """Raise an error now, not after an hour of work, if `out` cannot or must not be written.

    It must not be one of the inputs of the command, nor a file that exists, unless `force`.
    """
    for path in inputs:
        if path and out.exists() and path.exists() and out.samefile(path):
            raise ParameterError(f"{out} is an input of this command: write to another file.")
    with suppress(_Writable), replacing(out):
        raise _Writable
    if out.is_file() and not force:
        raise ParameterError(f"{out} exists: give --force to replace it, or write to another file.")
    files = _FILES.get()
    if files is not None:
        files.add(out)


def _identity(path: Path) -> tuple[int, int] | None:
    """What changes when a file is replaced; None if there is no such file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_ino, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else None


def _listed(paths: list[Path]) -> str:
    *others, last = map(str, paths)
    return f"{', '.join(others)} and {last}" if others else last
