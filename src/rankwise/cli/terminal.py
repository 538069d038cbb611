"""Input and output of commands: results on stdout, the rest on stderr, one line per problem."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import stat
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from rankwise.cli.entry import exit_code
from rankwise.deprecations import Former, present_options
from rankwise.errors import MissingExtraError, ParameterError, RankwiseError, TableError
from rankwise.files import replacing
from rankwise.progress import is_quiet, progress_bar

if TYPE_CHECKING:
    from rankwise.report import Section
    from rankwise.tables import Table

BAD_INPUT = 2
BROKEN_PIPE = 141  # what a shell reports for a program ended by SIGPIPE
SHOW_TRACEBACK = "RANKWISE_TRACEBACK"
PANELS = 80  # columns of a terminal, from which on help is in panels
PARAMETERS = "\n\nParameters\n----------\n"  # begins the help of options in docstrings
OPTIONS = {
    "complete=True": "--complete",
    'precision="float64"': "--float64",
    "trees (rankwise.export.distil)": "trees (--distil trees)",
    "(rankwise.export.distil)": "(--distil linear)",
    'distil into="trees"': "give --distil trees",
    'with scale="standard"': "with --scale standard",
    ": give rows, to check": ": give --rows, to check",
    "fill=0.0 in read_letor": "--fill 0",
    "name one of them, as in query=": "name one of them, as in --query ",
    "better must be a position": "--above must be a position",
    "worse must be a position": "--below must be a position",
    "better and worse are the same": "--above and --below are the same",
    "X has no names: use a data frame, or": "the file has no names: use",
    " Behind other steps of a pipeline, features keep their names after pipeline.set_output("
    'transform="pandas").': "",
    'a dictionary of -1, 0 or 1 by feature, such as {"price": -1, "stars": 1}': (
        "signs of -1, 0 or 1 by feature, such as price:-1,stars:1"
    ),
    "or read all of them with read_letor or read_table": "or give --workers 1",
    "normalizers=True": "--normalizers",
    "positive=True": "--positive",
    "use rankwise.export.to_onnx.": "use --to onnx.",
    "undefined='skip'": "--undefined skip",
    "undefined=0.0": "--undefined 0",
    "position=True": "--position",
    "every=": "--every ",
    "as positive, to compare": "with --positive to compare",
    'missing="drop-rows", "drop-columns" or "median"': (
        "--missing drop-rows, drop-columns or median"
    ),
    'missing="drop-rows"': "--missing drop-rows",
    'missing="drop-columns"': "--missing drop-columns",
    "out, in ignore": "out with --ignore",
    "of ignore matches": "of --ignore matches",
    "of features matches": "of --features matches",
    "Leave out position": "Leave out --position",
    "cv=": "--folds ",
    "Name them as first, second and winner": "Name them by --first, --second and --winner",
    "all of them: k must": "all of them: --top must",
    "name its columns as features": "name its columns by --features",
    "out of features": "out of --features",
    "use id=": "use --id ",
    "Use another port, or port 0": "Use another --port, or --port 0",
}
"""What errors of the library name, and the options of commands that do the same."""
FORMER_OPTIONS: dict[str | None, tuple[Former, ...]] = {}
"""By the name of a command, its options that have changed."""
COLORS = {"error": "red", "warning": "yellow", "interrupted": "red"}
# As Python writes them: names in files do not reach the controls of a terminal.
CONTROLS = {
    code: ascii(chr(code))[1:-1]
    for code in (*range(32), *range(127, 160))
    if chr(code) not in "\t\n"
}


class ReadableHelp:
    """Help without the type of flags and, on narrow terminals, without panels.

    typer's panels are too wide for them, so that names of options would be cut off.
    """

    get_params: Any
    rich_markup_mode: Any

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help of a command or of the program."""
        for option in self.get_params(ctx):
            if getattr(option, "is_flag", False):
                option.metavar = ""
        mode = self.rich_markup_mode
        if shutil.get_terminal_size().columns < PANELS:
            self.rich_markup_mode = None
        super().format_help(ctx, formatter)  # type: ignore[misc]
        self.rich_markup_mode = mode


class Command(ReadableHelp, TyperCommand):
    """A command of the program."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Read the arguments; former names of options are replaced, with a warning."""
        args = present_options(args, FORMER_OPTIONS.get(self.name, ()))
        if not ctx.resilient_parsing:
            self._refuse_repeated(ctx, args)
        return super().parse_args(ctx, args)

    def _refuse_repeated(self, ctx: Any, args: list[str]) -> None:
        """Refuse two values of an option that takes one: only the last would be kept."""
        order: list[Any] = self.make_parser(ctx).parse_args(args=list(args))[2]
        for option in order:
            once = isinstance(option, TyperOption) and not (option.multiple or option.is_flag)
            if once and order.count(option) > 1:
                commas = "If it takes several values, put commas between them."
                raise typer.BadParameter(f"Give it only once. {commas}", ctx, option)

    def invoke(self, ctx: Any) -> Any:
        """Run the command, and remember its arguments for `command_line`."""
        _RUNNING[:] = [ctx]
        return super().invoke(ctx)


class Program(ReadableHelp, TyperGroup):
    """Runs commands; turns the reason for their end into an exit code, and errors into one line."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Read what stands before the command; typer would end an interrupt here in silence."""
        _OUTPUTS.clear()
        with _reporting_interrupts():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """Run a command; print each warning as one line."""
        try:
            with _reporting_interrupts(), warnings.catch_warnings():
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
        if "_RANKWISE_COMPLETE" in os.environ:  # a shell asks, by the script of `completion`
            from typer.completion import completion_init  # type: ignore[attr-defined]

            completion_init()
        try:
            code = super().main(*args, **kwargs)
        except Exception as error:
            if os.environ.get(SHOW_TRACEBACK):
                raise
            sys.exit(_report(error))
        sys.exit(code if isinstance(code, int) else 0)


@contextmanager
def _reporting_interrupts() -> Iterator[None]:
    """Print in one line what was interrupted, and what was written."""
    try:
        yield
    except KeyboardInterrupt as stop:
        if os.environ.get(SHOW_TRACEBACK):
            import traceback

            traceback.print_exception(stop)
        doing = getattr(stop, "__notes__", [])[:1]  # of the innermost `interruptible`
        complain("interrupted", " ".join([*(f"{words}." for words in doing), _written()]))
        raise typer.Exit(exit_code(stop)) from None


def _report(error: Exception) -> int:
    """Print what went wrong in one line and return the exit code; raise what is a bug."""
    # Our errors, and errors of NumPy and scikit-learn about values; anything else is a bug.
    message = str(error) or type(error).__name__
    if isinstance(error, RankwiseError):
        message = _with_options(message)
    if isinstance(error, MissingExtraError):
        message = message.replace("pip install", f"{_pip()} install")
    if hasattr(error, "format_message"):  # typer's errors about arguments
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "rankwise"
        message = error.format_message().rstrip(".").replace("Value error, ", "")
        message += "" if message.endswith("?") else "."
        known = [option.name for option in context.command.params] if context else []
        if hasattr(error, "option_name") and "settings" in known:
            message += " Parameters of the ranker are given by --set NAME=VALUE."
        message += f" Try '{command} --help'."
    elif isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        message = f"{where}{error.strerror}."
    elif isinstance(error, MemoryError):
        message = f"Not enough memory. {error}"
    elif not isinstance(error, OSError | ValueError | ImportError):
        raise error
    first, *more = message.split("\n") if isinstance(error, TableError) else [message]
    complain("error", first)
    for line in more:  # commands to copy stay in one line
        _print_remark(_in_lines(line, sys.stderr) if line.startswith("  - ") else line)
    return BAD_INPUT


def _pip() -> str:
    """How to call the pip of this Python."""
    found = shutil.which("pip")
    if found is not None and Path(found).parent == Path(sys.executable).parent:
        return "pip"
    return f"{shlex.quote(sys.executable)} -m pip"


def command_line(settings: dict[str, Any], command: str | None = None) -> str:
    """The running command with other settings, or another command on its files, to paste.

    `settings` are options by name. Options that the command does not have are written in full.
    """
    (context,) = _RUNNING
    words = [command or context.command.name]
    options: dict[str, Any] = {}
    for parameter in context.command.params:
        value = context.params.get(parameter.name)
        source = context.get_parameter_source(parameter.name)
        if source is not None and source.name == "COMMANDLINE":
            if parameter.param_type_name == "argument":
                words += map(str, value if isinstance(value, list | tuple) else [value])
            elif command is None or value is not True:  # flags are for this command
                options[parameter.name] = value
    options |= settings
    known = {parameter.name: parameter for parameter in context.command.params}
    for name, value in options.items():
        long = max(getattr(known.get(name), "opts", None) or [f"--{name}"], key=len)
        long = long.replace("_", "-")
        if value is False:
            long, value = max(known[name].secondary_opts, key=len), True
        for one in value if isinstance(value, list | tuple) else [value]:
            words += [long] if one is True else [long, str(one)]
    return f"{_program(context)} {shlex.join(words)}".translate(CONTROLS)


def _program(context: Any) -> str:
    """How the program was called, if its name alone would not find it."""
    name = str(context.find_root().info_name)
    is_found = Path(sys.argv[0]).name != name or shutil.which(name) is not None
    return name if is_found else shlex.quote(sys.argv[0])


def duration(seconds: float) -> str:
    """A time for people: 0.4 s, 12 s, 3 min 20 s, 2 h 5 min."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if minutes else f"{rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def called_as(*, anywhere: bool = False) -> str:
    """How to start this program again, from the same folder or from anywhere.

    This is `rankwise` only if the shell finds it, and finds this one.
    """
    called, found = Path(sys.argv[0]), shutil.which("rankwise")
    if called.stem != "rankwise" or not called.is_file():  # started by python -m
        return f"{shlex.quote(sys.executable)} -m rankwise"
    if found is not None and called.samefile(found):
        return "rankwise"
    return shlex.quote(str(called.absolute()) if anywhere else sys.argv[0])


def as_help(docstring: str) -> str:
    """A docstring as help text for typer, which keeps every line break.

    Join the lines of each paragraph, so that they wrap at the width of the terminal. A paragraph
    whose first line is a backspace stays as it is. Examples come first, and the section
    Parameters is left out.
    """
    first, *paragraphs = cleandoc(docstring).partition(PARAMETERS)[0].split("\n\n")
    paragraphs = [first, *sorted(paragraphs, key=lambda p: not p.startswith("\b\nExamples:"))]
    return "\n\n".join(p if p.startswith("\b") else " ".join(p.split("\n")) for p in paragraphs)


def complain(kind: str, message: str) -> None:
    """Print an error, a warning or an interrupt on stderr, as one line."""
    text = _in_lines(f"rankwise: {kind}: {' '.join(message.split())}", sys.stderr)
    _print_remark(text, kind)


def _print_remark(text: str, kind: str = "") -> None:
    """Print on stderr, if that can be written to: the results and the exit code do without."""
    text = text.translate(CONTROLS)
    if kind:
        text = text.replace(f"{kind}:", _colored(f"{kind}:", COLORS[kind]), 1)
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115


def _colored(text: str, color: str) -> str:
    """Coloured on a terminal that has colours."""
    plain = not sys.stderr.isatty() or os.environ.get("NO_COLOR")
    if plain or os.environ.get("TERM", "dumb") == "dumb":
        return text
    return typer.style(text, fg=color, bold=True)


def note(*messages: str, wrap: bool = True) -> None:
    """Print remarks on stderr, apart from the results, unless --quiet is given.

    With `wrap`, lines end between words on a terminal; commands to copy stay in one line.
    """
    for message in messages if not is_quiet() else ():
        _print_remark(_in_lines(message, sys.stderr) if wrap else message)


def say(*messages: str) -> None:
    """Print sentences on stdout, among the results."""
    for message in messages:
        print(_in_lines(message, sys.stdout).translate(CONTROLS))


def _in_lines(message: str, stream: TextIO) -> str:
    """On a terminal, lines that end between words; into a file or pipe, the message as it is."""
    if not stream.isatty():
        return message
    width = shutil.get_terminal_size().columns
    wrap = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False).fill
    return "\n".join(wrap(line) for line in message.split("\n"))


def show(*tables: Table | None) -> None:
    """Print tables: with rich on a terminal, as plain text into a file or pipe."""
    for k, table in enumerate(table for table in tables if table is not None):
        if k > 0:
            print()
        if sys.stdout.isatty():
            from rich.console import Console

            Console().print(table)
        else:
            print(table.to_text())


def show_json(content: Any) -> None:
    """Print a result as JSON."""
    print(json.dumps(content, indent=2))


def write_page(
    path: Path, command: str, title: str, summary: str, sections: Iterable[Section]
) -> None:
    """Write the page of a command, without sections that are empty, and print where it is."""
    from rankwise import __version__
    from rankwise.report import Page

    footer = f"Made by `rankwise {command}`, rankwise {__version__}."
    Page(title, summary, [part for part in sections if part.blocks], footer).write(path)
    note(f"Wrote {path}: open {path.resolve().as_uri()}")


@contextmanager
def progress(what: str) -> Iterator[Callable[..., None]]:
    """Show on stderr, if that is a terminal, what is being done and how much of it is done.

    Yields a function to call with the amount done so far, the total (0 or None where it is not
    known), and, optionally, a few words about the current step.
    """
    with interruptible(what), progress_bar(what, 0) as show_done:
        yield lambda done, total, words="": show_done(done, words, total)


@contextmanager
def interruptible(what: str) -> Iterator[None]:
    """Name what is being done, for the line that is printed if it is interrupted."""
    try:
        yield
    except KeyboardInterrupt as stop:
        stop.add_note(what)
        raise


def _show_warning(message: Warning | str, *args: Any, **kwargs: Any) -> None:
    complain("warning", _with_options(str(message)))


def _with_options(message: str) -> str:
    """A message of the library with the names of options."""
    for python, option in OPTIONS.items():
        message = message.replace(python, option)
    return message


def _silence_stdout() -> None:
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # not a real file, as in a test
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115


_RUNNING: list[Any] = []  # the context of the command


class _Writable(Exception):
    """Ends a trial write."""


_OUTPUTS: dict[Path, tuple[int, int] | None] = {}  # files to write, and what stood there before


def _written() -> str:
    """One sentence on what was written and what was not."""
    written = [path for path, before in _OUTPUTS.items() if _identity(path) != before]
    missing = [path for path in _OUTPUTS if path not in written]
    parts = []
    for paths, was in ((written, "written"), (missing, "not written")):
        if paths:
            listed = " and ".join(map(str, paths))
            parts.append(f"{listed} {'was' if len(paths) == 1 else 'were'} {was}")
    return f"{'; '.join(parts)}." if parts else "Nothing was written."


def check_page(page: Path | None, *inputs: Path | None, force: bool) -> None:
    """Check that a report can be written, and that its name ends with .html."""
    if page is not None and page.suffix.lower() != ".html":
        message = f"The page ends with .html: got {page.name!r}."
        raise typer.BadParameter(message, param_hint="'--report'")
    check_writable(page, *inputs, force=force)


def check_writable(out: Path | None, *inputs: Path | None, force: bool) -> None:
    """Raise an error now, not after an hour of work, if `out` cannot or must not be written.

    It must not be one of the inputs of the command, nor a file that exists, unless `force`.
    Nothing is checked if `out` is None.
    """
    if out is None:
        return
    for path in inputs:
        if path and out.exists() and path.exists() and out.samefile(path):
            raise ParameterError(f"{out} is an input of this command: write to another file.")
    with suppress(_Writable), replacing(out):
        raise _Writable
    if out.is_file() and not force:
        raise ParameterError(f"{out} exists: give --force to replace it, or write to another file.")
    if any(out.resolve() == other.resolve() for other in _OUTPUTS):
        raise ParameterError(f"{out} would be written twice: give each output its own file.")
    _OUTPUTS[out] = _identity(out)


def _identity(path: Path) -> tuple[int, int] | None:
    """What changes when a file is replaced; None if there is no such file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_ino, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else None
