"""How Numba compiles a loop, and keeps the result on disk; `jit` imports this late."""

from __future__ import annotations

import sys
from contextlib import suppress
from hashlib import sha256
from time import perf_counter
from typing import Any

from llvmlite import binding
from numba import njit, types
from numba.core import event
from numba.core.caching import FunctionCache, IndexDataCacheFile

from rankwise.backends.parallel import blas_address
from rankwise.progress import somebody_watches

# mypy: disallow-untyped-calls=False


class _LoopFiles(IndexDataCacheFile):
    """The files of one function; the name of each follows from the source and the types.

    Numba numbers its files and writes the index before them. Two processes that compile for
    different types may then use one number, and a process that is killed leaves an index that
    names a file of the source before a change: in both cases, later programs run the wrong code.
    """

    def save(self, key: Any, data: Any) -> None:
        digest = sha256(repr((self._source_stamp, key)).encode()).hexdigest()
        name = self._data_name(int(digest[:12], 16))
        self._save_data(name, data)
        self._save_index({**self._known(), key: name})

    def _known(self) -> dict[Any, str]:
        try:
            found: dict[Any, str] = self._load_index()
        except Exception:  # whatever a damaged pickle leads to
            return {}
        return found


class LoopCache(FunctionCache):
    """Files that cannot be read are compiled and written again; errors on writing are ignored."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._cache_file = _LoopFiles(
            cache_path=self._cache_path,
            filename_base=self._impl.filename_base,
            source_stamp=self._impl.locator.get_source_stamp(),
        )

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        with suppress(Exception):
            return super().load_overload(sig, target_context)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(OSError):  # the disk is full, or the folder can no longer be written to
            super().save_overload(sig, data)


def compile_loop(function: Any, options: dict[str, Any]) -> Any:
    """Numba's form of a function, which is compiled for the types of its first call."""
    how = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
    loop: Any = njit(**{**how, **options})(function)
    with suppress(RuntimeError):  # no folder for the cache can be written to
        loop._cache = LoopCache(function)  # noqa: SLF001  as enable_caching does with its own
    return loop


BLAS_ROUTINES = (
    "dsyrk",
    "dgemm",
    "dposv",
)  # that loops call, by names that remain the same in the cache
for routine in BLAS_ROUTINES:
    binding.add_symbol(f"rankwise_{routine}", blas_address(routine))


def blas_type(name: str, n_arguments: int) -> Any:
    """Numba's form of a BLAS routine."""
    signature = types.void(*[types.voidptr] * n_arguments)
    return types.ExternalFunction(f"rankwise_{name}", signature)


class CompileNote(event.Listener):
    """Prints once why the first call takes long, after a second of compiling our functions.

    Functions that are cached on disk are not compiled. The line goes to stderr on a terminal or in
    a notebook.
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


event.register("numba:compile", CompileNote())
