"""Compiling the few loops that no array expression does well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

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
