"""Progress of long computations, on a terminal or in a notebook."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from time import monotonic
from typing import Any

Show = Callable[..., None]  # called with what is done so far, and perhaps a few words
ROOM = 25  # characters of a bar with its share and time
SECONDS = 0.3  # between two updates in a notebook
LATE = 1.0  # seconds after which a late bar appears
_QUIET = ContextVar("quiet", default=False)
_OUTER: ContextVar[Show | None] = ContextVar("outer", default=None)  # a bar that is shown


def unseen(done: float, words: str = "", total: float | None = None) -> None:
    """Progress that is not shown."""


@contextmanager
def quiet(wanted: bool = True) -> Iterator[None]:
    """Show no progress and no remarks within the block."""
    token = _QUIET.set(wanted)
    try:
        yield
    finally:
        _QUIET.reset(token)


def is_quiet() -> bool:
    """Whether progress and remarks are hidden."""
    return _QUIET.get()


def somebody_watches() -> bool:
    """Whether a passing line would be seen: on a terminal or in a notebook, unless quiet."""
    return not is_quiet() and (sys.stderr.isatty() or in_notebook())


def in_notebook() -> bool:
    """Whether the program runs in a Jupyter kernel; does not import IPython."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


@contextmanager
def progress_bar(what: str, total: int, *, keep: bool = False) -> Iterator[Show]:
    """Show progress on stderr or in a notebook; yields a function to call with the progress.

    On a terminal this is rich's bar, in a notebook a line that is replaced. The line is written by
    the thread that computes: rich would start another thread and ask for ipywidgets. In a file
    or pipe, there is only the last line, and only with `keep`, which also keeps it on a terminal.
    A `total` of 0 is not known, unless a call of the function names one: the number that is done is
    shown in place of a share. Within another bar, that bar shows the progress.
    """
    outer = _OUTER.get()
    if is_quiet() or not (keep or somebody_watches()):
        yield unseen
    elif outer is not None:
        yield lambda done, words="", total=total: outer(done, words or what, total)
    else:
        with contextmanager(_shown_bar)(what, total, keep) as show:
            token = _OUTER.set(show)
            try:
                yield show
            finally:
                _OUTER.reset(token)


@contextmanager
def late_progress_bar(what: str, total: int) -> Iterator[Show]:
    """The same, of work that rarely takes long: the bar appears after a second."""
    begin, shown = monotonic(), unseen
    with ExitStack() as bars:

        def show(done: float, words: str = "", total: float | None = total) -> None:
            nonlocal shown
            if shown is unseen and monotonic() - begin >= LATE and somebody_watches():
                shown = bars.enter_context(progress_bar(what, int(total or 0)))
            shown(done, words, total)

        yield show


def _shown_bar(what: str, total: int, keep: bool) -> Iterator[Show]:
    """The bar of `progress_bar`."""
    if in_notebook():
        yield from _notebook_line(what, total)
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (  # no more than 80 characters together
        TextColumn("{task.description}", markup=False),
        BarColumn(10),
        TextColumn("{task.fields[share]}"),
        TimeRemainingColumn(compact=True) if total else TimeElapsedColumn(),
        TextColumn("{task.fields[words]}", markup=False),
    )
    with Progress(*columns, console=Console(file=sys.stderr), transient=not keep) as bar:
        task = bar.add_task(what, total=total or None, share="", words="")
        room = max(8, bar.console.width - len(what) - ROOM)

        def show(done: float, words: str = "", total: float | None = total) -> None:
            words = words if len(words) <= room else f"{words[: room - 1]}…"
            share, refresh = _share(done, total), bool(words)
            bar.update(
                task, completed=done, total=total or None, share=share, words=words, refresh=refresh
            )

        yield show


def _share(done: float, total: float | None) -> str:
    return f"{done / total:.0%}" if total else f"{done:,.0f}"


def _notebook_line(what: str, total: int) -> Iterator[Show]:
    """A line of text in the output of a cell, replaced as the work proceeds."""
    from IPython.display import display

    start = shown = monotonic()
    handle: Any = None
    waiting: dict[str, str] | None = None  # a line that came too soon after the one before

    def show(done: float, words: str = "", total: float | None = total) -> None:
        nonlocal handle, shown, waiting
        parts = what, _share(done, total), f"{monotonic() - start:.1f} s", words
        waiting = {"text/plain": "  ".join(filter(None, parts))}
        if handle is None:
            handle = display(waiting, raw=True, display_id=True)
        elif monotonic() - shown > SECONDS:
            handle.update(waiting, raw=True)
        else:
            return
        shown, waiting = monotonic(), None

    try:
        yield show
    finally:
        if waiting is not None:
            handle.update(waiting, raw=True)
