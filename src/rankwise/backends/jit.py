"""Compile the few loops that array expressions do badly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function, **options: Any) -> Function:
    """Compile at the first call, without the interpreter lock, and cache the result on disk.

    Division by zero gives infinities, as in NumPy. Functions that call each other belong in
    one file: the cache does not notice changes in another file.
    """
    settings = {"nogil": True, "error_model": "numpy", **options}
    try:
        return cast(Function, njit(cache=True, **settings)(function))
    except RuntimeError:  # no writable folder for the cache
        return cast(Function, njit(**settings)(function))


def inlined(function: Function) -> Function:
    """Compile into the caller."""
    return compiled(function, inline="always")
