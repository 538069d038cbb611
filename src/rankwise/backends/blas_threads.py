"""BLAS on one thread, where matrices are small."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController

# Rows up to which one thread is as fast as several on an idle machine. On a busy one, several
# wait for each other: the factorization of 150 rows then takes a quarter of a second.
SMALL = 400


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


class _OneThread:
    """One thread as long as anyone asks for it: limits are those of the process."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.users = 0
        self.limit: Any = None

    def __enter__(self) -> None:
        with self.lock:
            if not self.users:
                self.limit = _controller().limit(limits=1)
            self.users += 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.users -= 1
            if not self.users:
                self.limit.restore_original_limits()


_one_thread = _OneThread()


@contextmanager
def blas_threads_for(n_rows: int) -> Iterator[None]:
    """Limit BLAS to one thread if square matrices have at most `SMALL` rows.

    The limit holds for the process, until all who asked for it are done.
    """
    if n_rows > SMALL:
        yield
    else:
        with _one_thread:
            yield
