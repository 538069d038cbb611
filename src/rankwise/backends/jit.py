"""Compile the few loops that array expressions do badly."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar, cast

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function, **options: Any) -> Function:
    """Compile at the first call, without the interpreter lock, and cache the result on disk.

    Division by zero gives infinities, as in NumPy. Functions that call each other belong in
    one file: the cache does not notice changes in another file.
    """
    if options.get("parallel"):
        # The cache knows functions by name and code only: without a name of its own, the
        # serial version could be loaded instead.
        function = _copy(function, f"{function.__qualname__}_in_parallel")
    settings = {"nogil": True, "error_model": "numpy", **options}
    try:
        return cast(Function, njit(cache=True, **settings)(function))
    except RuntimeError:  # no writable folder for the cache
        return cast(Function, njit(**settings)(function))


def _copy(function: Function, name: str) -> Function:
    """The same function under another name."""
    code, names, defaults = function.__code__, function.__globals__, function.__defaults__
    copy = FunctionType(code, names, function.__name__, defaults, function.__closure__)
    copy.__qualname__ = name
    return cast(Function, copy)


def inlined(function: Function) -> Function:
    """Compile into the caller."""
    return compiled(function, inline="always")


def _chosen(name: str) -> Any:
    """The larger or the smaller of two numbers, in one instruction.

    Python's min and max become comparisons, which took half of the time of a step of the bilinear
    ranker. Where one of the numbers is NaN, the other one is chosen.
    """

    @intrinsic
    def choose(context: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            double = ir.DoubleType()
            two = ir.FunctionType(double, [double, double])
            function = builder.module.declare_intrinsic(name, [double], fnty=two)
            return builder.call(function, arguments)

        return types.float64(types.float64, types.float64), generate

    return choose


larger = _chosen("llvm.maxnum")
smaller = _chosen("llvm.minnum")
