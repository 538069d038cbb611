"""Progress of a search on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(total: int, what: str, wanted: bool) -> Iterator[Callable[..., None]]:
    """A function to call after each task, which advances a bar if stderr is a terminal.

    It may be called with a few words about the task that is done.
    """
    if not (wanted and sys.stderr.isatty()):
        yield lambda words="": None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda words="": bar.update(
            task, advance=1, description=f"{what}: {words}" if words else what
        )
