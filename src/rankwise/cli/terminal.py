"""How commands meet the terminal: one line for an error, results on stdout, the rest on stderr."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from inspect import cleandoc
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from rankwise.report import Table

BAD_INPUT = 2
BROKEN_PIPE = 141  # what a shell reports of a program that SIGPIPE has ended
INTERRUPTED = 130
SHOW_TRACEBACK = "RANKWISE_TRACEBACK"


class Shell(TyperGroup):
    """Turns whatever ends a command into an exit code, and into one line where it is an error."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command; its warnings are one line each."""
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show_warning
                result = super().invoke(ctx)
            sys.stdout.flush()  # here, not when the interpreter ends and can only complain
        except BrokenPipeError:
            # What was not read is not wanted: let the last flush of stdout go nowhere.
            _silence_stdout()
            raise typer.Exit(BROKEN_PIPE) from None
        except EOFError as error:  # typer takes it for the end of a dialogue
            raise OSError(f"A file ends too early: {error}") from error
        return result

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Run the program and exit."""
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")  # a terminal may not know every letter
        kwargs["standalone_mode"] = False
        try:
            code = super().main(*args, **kwargs)
        except (Exception, KeyboardInterrupt) as error:
            if os.environ.get(SHOW_TRACEBACK):
                raise
            sys.exit(_report(error))
        sys.exit(code if isinstance(code, int) else 0)


def _report(error: BaseException) -> int:
    """Say in one line what went wrong, and give the exit code for it; re-raise what is a bug."""
    if isinstance(error, typer.Abort | KeyboardInterrupt):
        complain("stopped.")
        return INTERRUPTED
    if hasattr(error, "format_message"):  # an error in the arguments, which typer has found
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "rankwise"
        complain(f"{error.format_message().rstrip('.')}. Try '{command} --help'.")
        return BAD_INPUT
    if isinstance(error, OSError) and error.strerror and error.filename:
        complain(f"{error.filename}: {error.strerror}.")
        return BAD_INPUT
    if isinstance(error, MemoryError):
        complain(f"Not enough memory. {error}")
        return BAD_INPUT
    # Our own errors and those of NumPy and scikit-learn about values; anything else is a bug.
    if isinstance(error, OSError | ValueError | ImportError):
        complain(str(error) or type(error).__name__)
        return BAD_INPUT
    raise error


def as_help(docstring: str) -> str:
    """A docstring for typer, which breaks lines where the docstring does.

    Lines of a paragraph are joined, to be broken again as wide as the terminal is; a paragraph
    that begins with a backspace alone in its line stays as it is.
    """
    paragraphs = cleandoc(docstring).split("\n\n")
    return "\n\n".join(p if p.startswith("\b") else " ".join(p.split("\n")) for p in paragraphs)


def complain(message: str) -> None:
    """One line on stderr, however many the message has."""
    print(f"rankwise: {' '.join(message.split())}", file=sys.stderr)


def note(message: str) -> None:
    """A remark on stderr, which nobody takes for a result."""
    print(message, file=sys.stderr)


def show(table: Table) -> None:
    """Print a table: with rich on a terminal, as plain text into a file or pipe."""
    if sys.stdout.isatty():
        from rich.console import Console

        Console().print(table)
    else:
        print(table.to_text())


@contextmanager
def working(what: str) -> Iterator[None]:
    """Tell on stderr, if that is a terminal, what takes so long."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        progress.add_task(what, total=None)
        yield


@contextmanager
def stepping(what: str, total: int) -> Iterator[Callable[[str], None]]:
    """Show on stderr, if that is a terminal, how many of `total` steps are done.

    Call what this yields before each step, with a few words on it.
    """
    if not sys.stderr.isatty():
        yield lambda step: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[words]}", markup=False),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total, words="")
        begun = 0

        def step(words: str) -> None:
            nonlocal begun
            progress.update(task, completed=begun, words=words, refresh=True)
            begun += 1

        yield step
        progress.update(task, completed=total, words="")


@contextmanager
def counting(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """Show on stderr, if that is a terminal, how many things are done; None where it is not."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


@contextmanager
def measuring(passes: Sequence[str]) -> Iterator[Callable[[int, int], None]]:
    """Show on stderr, if that is a terminal, how much of a file is read, pass after pass.

    Call what this yields with the bytes read so far in this pass, and with those in all (0 where
    that is not known); a pass begins with 0 bytes.
    """
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    names = iter(passes)
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        tasks: list[Any] = []

        def report(done: int, total: int) -> None:
            if done == 0:
                name = next(names, passes[-1])
                tasks.append(progress.add_task(name, total=total or None))
            progress.update(tasks[-1], completed=done)

        yield report


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    complain(f"warning: {message}")


def _silence_stdout() -> None:
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # no real file, as in a test
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
