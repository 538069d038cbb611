"""Compiled loops on disk, in a cache that survives damage, a full disk and several programs."""

# mypy: disallow-untyped-calls=False

from __future__ import annotations

from contextlib import suppress
from hashlib import sha256
from typing import Any

from numba.core.caching import FunctionCache, IndexDataCacheFile


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
    """What cannot be read is compiled and written again; what cannot be written is not kept."""

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
