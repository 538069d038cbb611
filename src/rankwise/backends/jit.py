"""Compiling the few loops that no array expression does well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function, **options: Any) -> Function:
    """Compile at the first call, without the interpreter lock, and keep the result on disk.

    Division by zero gives infinities, as in NumPy. Functions that call each other belong in
    one file: the cache does not notice a change in another one.
    """
    settings = {"nogil": True, "error_model": "numpy", **options}
    try:
        return cast(Function, njit(cache=True, **settings)(function))
    except RuntimeError:  # no folder that the compiled code could be kept in
        return cast(Function, njit(**settings)(function))


def inlined(function: Function) -> Function:
    """Compile into the caller."""
    return compiled(function, inline="always")
