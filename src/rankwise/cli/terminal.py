"""Input and output of commands: results on stdout, the rest on stderr, one line per error."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import cleandoc
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from rankwise.tables import Table

BAD_INPUT = 2
BROKEN_PIPE = 141  # what a shell reports for a program ended by SIGPIPE
INTERRUPTED = 130
SHOW_TRACEBACK = "RANKWISE_TRACEBACK"


class Program(TyperGroup):
    """Runs commands; turns what ends them into an exit code, and errors into one line each."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command; print each warning as one line."""
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show_warning
                result = super().invoke(ctx)
            sys.stdout.flush()  # now: an error at interpreter exit can no longer be handled
        except BrokenPipeError:
            # The reader has closed the pipe: discard what is left.
            _silence_stdout()
            raise typer.Exit(BROKEN_PIPE) from None
        except EOFError as error:  # typer would treat it as the end of a prompt
            raise OSError(f"A file ends too early: {error}") from error
        return result

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Run the program and exit."""
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")  # a terminal may not have every character
        kwargs["standalone_mode"] = False
        try:
            code = super().main(*args, **kwargs)
        except (Exception, KeyboardInterrupt) as error:
            if os.environ.get(SHOW_TRACEBACK):
                raise
            sys.exit(_report(error))
        sys.exit(code if isinstance(code, int) else 0)


def _report(error: BaseException) -> int:
    """Print what went wrong in one line and return the exit code; raise what is a bug."""
    if isinstance(error, typer.Abort | KeyboardInterrupt):
        complain("stopped.")
        return INTERRUPTED
    # Our own errors and those of NumPy and scikit-learn about values; anything else is a bug.
    message = str(error) or type(error).__name__
    if hasattr(error, "format_message"):  # typer's errors about arguments
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "rankwise"
        message = f"{error.format_message().rstrip('.')}. Try '{command} --help'."
    elif isinstance(error, OSError) and error.strerror and error.filename:
        message = f"{error.filename}: {error.strerror}."
    elif isinstance(error, MemoryError):
        message = f"Not enough memory. {error}"
    elif not isinstance(error, OSError | ValueError | ImportError):
        raise error
    complain(message)
    return BAD_INPUT


def as_help(docstring: str) -> str:
    """A docstring as help text for typer, which keeps every line break.

    Join the lines of each paragraph, so that they wrap at the width of the terminal. A paragraph
    whose first line is a backspace stays as it is.
    """
    paragraphs = cleandoc(docstring).split("\n\n")
    return "\n\n".join(p if p.startswith("\b") else " ".join(p.split("\n")) for p in paragraphs)


def complain(message: str) -> None:
    """Print an error or warning on stderr, as one line."""
    print(f"rankwise: {' '.join(message.split())}", file=sys.stderr)


def note(message: str) -> None:
    """Print a remark on stderr, apart from the results."""
    print(message, file=sys.stderr)


def show(table: Table) -> None:
    """Print a table: with rich on a terminal, as plain text into a file or pipe."""
    if sys.stdout.isatty():
        from rich.console import Console

        Console().print(table)
    else:
        print(table.to_text())


@contextmanager
def progress(what: str) -> Iterator[Callable[..., None]]:
    """Show on stderr, if that is a terminal, what is being done and how much of it is done.

    Yields a function to call with the amount done so far, the total (0 or None where it is not
    known), and, optionally, a few words about the current step.
    """
    if not sys.stderr.isatty():
        yield lambda done, total, words="": None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    description = TextColumn("{task.description}", markup=False)
    words_column = TextColumn("{task.fields[words]}", markup=False)
    columns = (description, BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), words_column)
    with Progress(*columns, console=Console(stderr=True), transient=True) as display:
        task = display.add_task(what, total=None, words="")

        def report(done: float, total: float | None, words: str = "") -> None:
            display.update(
                task, completed=done, total=total or None, words=words, refresh=bool(words)
            )

        yield report


def _show_warning(message: Warning | str, *args: Any, **kwargs: Any) -> None:
    complain(f"warning: {message}")


def _silence_stdout() -> None:
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # not a real file, as in a test
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
