"""Progress of a search."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

from rankwise.progress import progress_bar


@contextmanager
def progress(total: int, what: str, wanted: bool) -> Iterator[Callable[..., None]]:
    """A function to call after each task, perhaps with a few words about the task that is done.

    It advances a bar on a terminal, or a line in a notebook.
    """
    if not wanted:
        yield lambda words="": None
        return
    done = count(1)
    with progress_bar(what, total) as show:
        yield lambda words="": show(next(done), words)
