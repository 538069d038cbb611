"""Compile the few loops that array expressions do badly."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter
from typing import Any, TypeVar, cast

from numba import njit
from numba.core import event

from rankwise.backends.loop_cache import LoopCache
from rankwise.progress import somebody_watches

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function, **options: Any) -> Function:
    """Compile at the first call, without the interpreter lock, and cache the result on disk.

    Division by zero gives infinities, as in NumPy. Functions that call each other belong in
    one file: the cache does not notice changes in another file.
    """
    loop: Any = njit(**{"nogil": True, "error_model": "numpy", **options})(function)
    with suppress(RuntimeError):  # no folder for the cache can be written to
        loop._cache = LoopCache(function)  # noqa: SLF001  as enable_caching does with its own
    return cast(Function, loop)


def inlined(function: Function) -> Function:
    """Compile into the caller."""
    return compiled(function, inline="always")


class CompileNote(event.Listener):
    """Says once why the first call takes long, after a second of compiling our functions.

    Functions that are cached on disk are not compiled. The line goes to stderr if somebody sees it
    there: on a terminal, or in a notebook.
    """

    patience = 1.0

    def __init__(self) -> None:
        self.started: float | None = None
        self.depth = 0
        self.seconds = 0.0
        self.said = False

    def on_start(self, event: Any) -> None:
        self.depth += _is_ours(event)
        if self.depth == 1 and self.started is None:
            self.started = perf_counter()

    def on_end(self, event: Any) -> None:
        self.depth -= _is_ours(event)
        spent = self.seconds + (0.0 if self.started is None else perf_counter() - self.started)
        if self.depth == 0 and self.started is not None:
            self.seconds, self.started = spent, None
        if spent > self.patience and not self.said and somebody_watches():
            self.said = True
            print(
                "rankwise compiles its loops at their first use: this takes some seconds, once.",
                file=sys.stderr,
            )


def _is_ours(event: Any) -> bool:
    function = getattr(event.data["dispatcher"], "py_func", None)
    return str(getattr(function, "__module__", "")).startswith("rankwise.")


event.register("numba:compile", CompileNote())  # type: ignore[no-untyped-call]
