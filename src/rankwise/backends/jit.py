"""Compile the few loops for which array expressions are slow.

Numba takes half a second to import, which small problems do not need: `Loop` imports it at the
first call of a loop.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])

LOOPS: list[Loop] = []
_first_call = Lock()


class Loop:
    """A function that is compiled at its first call.

    Numba takes it for its own compiled function, by the attributes of that, if another loop calls
    it.
    """

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self.__wrapped__, self._options = function, options
        self._compiled: Any = None
        LOOPS.append(self)

    def __call__(self, *arguments: Any) -> Any:
        return (self._compiled or self.compiled())(*arguments)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.compiled(), name)

    def compiled(self) -> Any:
        """Numba's form of the function."""
        with _first_call:
            if self._compiled is None:
                from rankwise.backends.loop_cache import compile_loop

                self._compiled = compile_loop(self.__wrapped__, self._options)
        return self._compiled


class BlasRoutine:
    """A BLAS routine for compiled loops, without the interpreter lock; it takes only pointers."""

    def __init__(self, name: str, n_arguments: int) -> None:
        self.name, self.n_arguments = name, n_arguments

    @property
    def _numba_type_(self) -> Any:
        from rankwise.backends.loop_cache import blas_type

        return blas_type(self.name, self.n_arguments)


def compiled(function: Function, **options: Any) -> Function:
    """Compile at the first call, without the interpreter lock, and cache the result on disk.

    Division by zero results in infinities, as in NumPy. Functions that call each other belong in
    one file: the cache does not notice changes in another file.
    """
    return cast(Function, Loop(function, options))


def inlined(function: Function) -> Function:
    """Compile into the caller."""
    return compiled(function, inline="always")
